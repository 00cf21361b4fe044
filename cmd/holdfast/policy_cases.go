package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/policies/policytest"
)

// exitFailed is the status of `holdfast policy test` where a case decides
// otherwise.
const exitFailed = 1

type policyTestFlags struct {
	junit  string
	update bool
}

func newPolicyTestCommand() *cobra.Command {
	f := &policyTestFlags{}
	cmd := &cobra.Command{
		Use:   "test FOLDER",
		Short: "Run test cases of policies",
		Long: `Run test cases of policies. A case is a folder with

  policy.yaml     the policies; or a folder policies/
  input.yaml      findings and facts to decide about
  expected.yaml   the decisions, in order

Facts that the input leaves out are those of a healthy cluster in which nothing
else happens. A key that expected.yaml leaves out is not compared. With
--update the decisions are written to expected.yaml: read them before you
commit them.

Exit status: 0 all as expected, 1 a case decides otherwise, 2 a case could not
be run, 4 a case's policy is bad.`,
		Example: `  holdfast policy test policies/tests --junit junit.xml`,
		Args:    wantArguments("folder of test cases", false),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&f.junit, "junit", "", "file to write JUnit XML to")
	cmd.Flags().BoolVar(&f.update, "update", false, "write expected.yaml instead of comparing with it")
	return cmd
}

func (f *policyTestFlags) run(cmd *cobra.Command, dir string) error {
	opts := policyOptions()
	opts.Now = time.Time{} // a case has a time of its own
	results, err := policytest.Run(dir, opts, f.update)
	if err != nil {
		return &statusError{code: exitError, err: err}
	}
	if f.junit != "" {
		if err := writeJUnit(f.junit, results); err != nil {
			return &statusError{code: exitError, err: err}
		}
	}
	code, failed := exitOK, 0
	for _, r := range results {
		text := "ok    " + r.Name
		switch {
		case r.Err != nil:
			text, code = "ERROR "+r.Name+"\n"+indent(r.Err.Error()), worse(code, statusOf(r.Err))
			failed++
		case r.Failure != "":
			text, code = "FAIL  "+r.Name+"\n"+indent(r.Failure), worse(code, exitFailed)
			failed++
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), text); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s, %d failed.\n", counted(len(results), "case"), failed)
	if code != exitOK {
		return &statusError{code: code}
	}
	return nil
}

func statusOf(err error) int {
	if isBadPolicy(err) {
		return exitBadPolicy
	}
	return exitError
}

// worse gives the status that says more: a bad policy before a broken case,
// and that before one that decides otherwise.
func worse(a, b int) int { return max(a, b) }

func writeJUnit(path string, results []policytest.Result) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	return policytest.WriteJUnit(file, results)
}

func indent(s string) string {
	return "      " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n      ")
}
