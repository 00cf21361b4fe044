//go:build !nodemo

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/report"
)

// demoFlags are those of `holdfast demo`.
type demoFlags struct {
	html  string
	color string
	keep  string
	// saveSnapshot is where the second report leaves what it saw.
	saveSnapshot string
}

// demoHelp is the demo's line in the program's help.
const demoHelp = `
  holdfast demo          shows a report without a cluster, a cloud or a network`

// demoCommands is empty in a build with the tag nodemo.
func demoCommands() []*cobra.Command { return []*cobra.Command{newDemoCommand()} }

func newDemoCommand() *cobra.Command {
	f := &demoFlags{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a report without a cluster, a cloud or a network",
		Long: `Start a simulated EC2 and a simulated vCenter inside this process, create the
clusters of examples/ in them, change a dozen things as a careless operator
would, and report. Nothing outside this process is read or changed, and nothing
stays running.`,
		Args: noArguments(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			color, err := report.ParseColor(f.color)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), color)
		},
	}
	cmd.Flags().StringVar(&f.html, "html", "holdfast-demo.html", "file for the HTML report; empty writes none")
	cmd.Flags().StringVar(&f.color, "color", "auto", "auto, always or never; NO_COLOR is honoured")
	cmd.Flags().StringVar(&f.keep, "keep", "", "folder to keep the demo's objects in, and the JSON report and snapshot")
	completeWith(cmd, "color", "auto", "always", "never")
	return cmd
}

// mishap is one thing that a careless operator does.
type mishap struct {
	// who and what make a line of the story.
	who, what string
	do        func(context.Context) error
}

// cloud is one simulated cloud with a cluster in it.
type cloud interface {
	// mishaps are what is going to happen, in order.
	mishaps() []mishap
	// write puts the management cluster's objects into a folder.
	write(dir string) error
	// mutations counts the changing calls of others than the story's people.
	mutations() int
	close()
}

func (f *demoFlags) run(ctx context.Context, out io.Writer, color report.ColorWhen) error {
	dir := f.keep
	if dir == "" {
		temp, err := os.MkdirTemp("", "holdfast-demo-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(temp) }()
		dir = temp
	}
	s := &story{out: out, style: report.DetectStyle(fileOf(out), color, os.Getenv)}
	s.title("Two clusters, as declared in examples/")
	s.say("Starting a simulated EC2 and a simulated vCenter in this process, and creating")
	s.say("one production cluster in each, as Cluster API's providers would.")
	clouds, err := startClouds(ctx)
	for _, c := range clouds {
		defer c.close()
	}
	if err != nil {
		return err
	}
	objects := filepath.Join(dir, "objects")
	for _, c := range clouds {
		if err := c.write(objects); err != nil {
			return err
		}
	}
	s.title("$ holdfast report --objects objects/")
	if err := f.report(ctx, out, s.style, objects, []report.Output{{Format: "table"}}); err != nil {
		return err
	}
	if err := s.happen(ctx, clouds); err != nil {
		return err
	}
	outputs := []report.Output{{Format: "table"}}
	command := "$ holdfast report --objects objects/ -o table"
	if f.html != "" {
		outputs = append(outputs, report.Output{Format: "html", File: f.html})
		command += " -o html=" + f.html
	}
	if f.keep != "" {
		outputs = append(outputs, report.Output{Format: "json", File: filepath.Join(dir, "report.json")})
		f.saveSnapshot = filepath.Join(dir, "snapshot.json")
	}
	s.title(command)
	if err := f.report(ctx, out, s.style, objects, outputs); err != nil {
		return err
	}
	return s.end(clouds, f.html, f.keep)
}

// report is `holdfast report` on the demo's objects.
func (f *demoFlags) report(ctx context.Context, out io.Writer, style report.Style, objects string, outputs []report.Output) error {
	cmd := newReportCommand()
	cmd.SetContext(ctx)
	cmd.SetOut(out)
	flags := reportFlagsOf(objects)
	flags.saveSnapshot = f.saveSnapshot
	s, err := flags.parse()
	if err != nil {
		return err
	}
	if s.policies, err = loadPolicies(cmd, nil); err != nil {
		return err
	}
	r, err := flags.scan(ctx, cmd, s, func(string) {})
	if err != nil {
		return err
	}
	return report.Write(r, outputs, out, style)
}

// story writes what happens between the reports.
type story struct {
	out   io.Writer
	style report.Style
}

func (s *story) say(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format+"\n", args...) }

func (s *story) title(text string) {
	if s.style.Color {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	s.say("\n%s\n", text)
}

// happen plays the mishaps of all clouds.
func (s *story) happen(ctx context.Context, clouds []cloud) error {
	s.title("A week goes by. Nobody touches the objects, and")
	n := 0
	for _, c := range clouds {
		for _, m := range c.mishaps() {
			n++
			s.say("  %2d. %-18s %s", n, m.who, m.what)
			if err := m.do(ctx); err != nil {
				return fmt.Errorf("demo: %s %s: %w", m.who, m.what, err)
			}
		}
	}
	s.say("\nCluster API's own conditions still say that all is well: it compares objects")
	s.say("with objects, and nobody compares them with what runs.")
	return nil
}

// end proves from the simulators' logs that the reports changed nothing.
func (s *story) end(clouds []cloud, html, keep string) error {
	for _, c := range clouds {
		if n := c.mutations(); n != 0 {
			return fmt.Errorf("demo: the reports made %d changing calls, and must make none", n)
		}
	}
	s.say("")
	s.say("The simulators logged every call: the two reports made no changing one.")
	if html != "" {
		s.say("The same findings for the browser, with filters: %s", html)
	}
	if keep != "" {
		s.say("The same report again, from what was kept and without the simulators:")
		s.say("  holdfast report --objects %s --snapshot %s", filepath.Join(keep, "objects"), filepath.Join(keep, "snapshot.json"))
	}
	s.say("Now your own clusters, read-only: holdfast report")
	return nil
}

// startClouds starts the simulators. What has started is returned on an error
// too, so that it can be closed.
func startClouds(ctx context.Context) ([]cloud, error) {
	created := time.Now().Add(-7 * 24 * time.Hour)
	var out []cloud
	for _, start := range []func(context.Context, time.Time) (cloud, error){startDemoAWS, startDemoVSphere} {
		c, err := start(ctx, created)
		if c != nil {
			out = append(out, c)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// reportFlagsOf is what `holdfast report --objects DIR` parses to.
func reportFlagsOf(objects string) *reportFlags {
	f := &reportFlags{}
	f.register(&cobra.Command{})
	f.objects = []string{objects}
	return f
}
