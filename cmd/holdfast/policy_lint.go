package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/policies"
)

// policyOptions are what every policy command checks against.
func policyOptions() policies.Options {
	return policies.Options{Catalog: catalogs(), Now: time.Now()}
}

var lintFormats = []string{"text", "json", "sarif"}

func newPolicyLintCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "lint FILE|FOLDER...",
		Short: "Check policies, and say where what is wrong",
		Long: `Check policies, and say where what is wrong and what to do about it. Everything
is checked at once: keys, values, schedules, time zones, expressions, resource
kinds and paths, rules that can never win, and names given twice across files.
- is standard input.

Exit status: 0 if the policies can be used, perhaps with warnings, 4 if not.`,
		Example: `  holdfast policy lint policies/
  holdfast policy lint -o sarif policies/ > policies.sarif`,
		Args: wantArguments("policy file or folder", true),
		RunE: func(cmd *cobra.Command, args []string) error { return lint(cmd, args, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or sarif")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(lintFormats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func lint(cmd *cobra.Command, args []string, output string) error {
	if !slices.Contains(lintFormats, output) {
		return &statusError{code: exitError, err: fmt.Errorf("--output %q: known are %s", output, strings.Join(lintFormats, ", "))}
	}
	problems, err := loadForLint(cmd.InOrStdin(), args)
	if err != nil {
		return &statusError{code: exitError, err: err}
	}
	warnings := 0
	for _, p := range problems {
		if p.Warning {
			warnings++
		}
	}
	switch output {
	case "json":
		err = writeJSON(cmd.OutOrStdout(), struct {
			Problems []policies.Problem `json:"problems"`
			Errors   int                `json:"errors"`
			Warnings int                `json:"warnings"`
		}{append([]policies.Problem{}, problems...), len(problems) - warnings, warnings})
	case "sarif":
		err = lintSARIF(cmd.OutOrStdout(), problems)
	default:
		err = lintText(cmd, problems, warnings)
	}
	if err != nil {
		return &statusError{code: exitError, err: err}
	}
	if problems.Err() != nil {
		return &statusError{code: exitBadPolicy}
	}
	return nil
}

// loadForLint loads files and folders together with standard input, so that
// names given twice are found across them.
func loadForLint(stdin io.Reader, args []string) (policies.Problems, error) {
	opts := policyOptions()
	if slices.Contains(args, "-") {
		data, err := io.ReadAll(io.LimitReader(stdin, 2<<20))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		opts.Sources = []policies.Source{{Name: "<stdin>", Data: data}}
		args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "-" })
	}
	_, problems := policies.Load(opts, args...)
	return problems, nil
}

func lintText(cmd *cobra.Command, problems policies.Problems, warnings int) error {
	for _, p := range problems {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), oneLine(p.String())); err != nil {
			return err
		}
	}
	summary := "The policies can be used."
	if n := len(problems) - warnings; n > 0 {
		summary = fmt.Sprintf("The policies cannot be used: %s.", counted(n, "error"))
	}
	if warnings > 0 {
		summary = strings.TrimSuffix(summary, ".") + fmt.Sprintf(" (%s).", counted(warnings, "warning"))
	}
	_, err := fmt.Fprintln(cmd.ErrOrStderr(), summary)
	return err
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func lintSARIF(w io.Writer, problems policies.Problems) error {
	run := sarif.NewRunWithInformationURI("holdfast policy lint", "https://holdfast.io")
	for _, p := range problems {
		level := "error"
		if p.Warning {
			level = "warning"
		}
		run.AddRule("policy/" + p.Code)
		region := sarif.NewRegion().WithStartLine(max(p.Line, 1))
		if p.Column > 0 {
			region.WithStartColumn(p.Column)
		}
		text := p.Message
		if p.Hint != "" {
			text += "; " + p.Hint
		}
		run.AddResult(sarif.NewRuleResult("policy/" + p.Code).WithLevel(level).WithMessage(sarif.NewTextMessage(text)).
			AddLocation(sarif.NewLocationWithPhysicalLocation(sarif.NewPhysicalLocation().
				WithArtifactLocation(sarif.NewSimpleArtifactLocation(sarifURI(p.File))).WithRegion(region))))
	}
	return sarif.NewReport().AddRun(run).PrettyWrite(w)
}

// sarifURI gives a path as code scanning wants it: relative to the working
// folder where it lies below it.
func sarifURI(file string) string {
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, file); filepath.IsAbs(file) && err == nil && filepath.IsLocal(rel) {
			file = rel
		}
	}
	return filepath.ToSlash(file)
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
