// Command holdfast compares what runs in AWS and vSphere with what Cluster API
// objects declare, and reports what differs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/providers"
)

// Exit codes that every command shares; `holdfast report` adds its own.
const (
	exitOK        = 0
	exitError     = 2
	exitBadPolicy = 4
	// exitInterrupted is what shells expect of a program that Ctrl-C ended.
	exitInterrupted = 130
)

// statusError is an error that carries the process's exit code. A nil Err says
// that everything was said already.
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// gcPercent trades processor for memory: a sweep holds one large snapshot, of
// which the usual 100 would let as much again stand as garbage.
const gcPercent = 20

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	if ctx.Err() != nil && code != exitOK {
		code = exitInterrupted
	}
	stop()
	os.Exit(code)
}

// run is the whole program with its surroundings as arguments.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand(programName(args[0]))
	root.SetArgs(args[1:])
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var status *statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		if status.err != nil {
			printError(stderr, status.err)
		}
		return status.code
	default:
		printError(stderr, err)
		return exitError
	}
}

// printError writes each of several joined errors on a line of its own. They
// quote files that somebody else wrote, and addresses with passwords.
func printError(w io.Writer, err error) {
	for _, line := range strings.Split(err.Error(), "\n") {
		_, _ = fmt.Fprintln(w, "error: "+legible(providers.Redact(line)))
	}
}

// legible makes visible what would steer a terminal or change the order of
// reading.
func legible(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for at := 0; at < len(s); {
		r, size := utf8.DecodeRuneInString(s[at:])
		switch {
		case r == utf8.RuneError && size <= 1:
			_, _ = fmt.Fprintf(&b, `\x%02x`, s[at])
		case unprintable(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
		at += size
	}
	return b.String()
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }

// programName is how the user called the program: kubectl runs a plugin as
// kubectl-NAME.
func programName(arg0 string) string {
	name := strings.TrimSuffix(filepath.Base(arg0), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return "holdfast"
}

func newRootCommand(name string) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Find and explain drift between Cluster API objects and the cloud",
		Long: `Holdfast compares what runs in AWS and vSphere with what Cluster API objects
declare, and reports what differs.
` + demoHelp + `
  holdfast report        reports on a management cluster, or on a folder of YAML
  holdfast policy        checks, explains and tests policies

  holdfast controller    stays, and shows drift on the objects as it comes
  holdfast status        shows how each cluster stands
  holdfast sweep         has the controller read the clouds now
  holdfast remediations  lists, explains and approves what is done about drift`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          onlyCommands,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:       buildVersion().Version,

		SuggestionsMinimumDistance: 2,
		// cobra shows this name in help and completions.
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: name},
	}
	root.AddCommand(newReportCommand(), newControllerCommand(), newRemediationsCommand(), newSweepCommand(), newStatusCommand(), newPolicyCommand(), newVersionCommand())
	root.AddCommand(newManCommand())
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(demoCommands()...)
	callBy(name, root)
	return root
}

// callBy writes the name that the user called the program by into every
// example.
func callBy(name string, cmd *cobra.Command) {
	cmd.Example = strings.ReplaceAll(cmd.Example, "holdfast ", name+" ")
	for _, sub := range cmd.Commands() {
		callBy(name, sub)
	}
}
