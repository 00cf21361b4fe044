// Command demolive shows Holdfast at work: a real kube-apiserver, etcd and
// Cluster API's own reconcilers, simulated clouds, `holdfast controller` as a
// process of its own, and an operator who is careless with the clouds' APIs.
//
//	make demo-live
//
// `demolive first-hour` puts up a part of that world for the reader of
// docs/first-hour.md, and `demolive careless` and `demolive pod` are the programs
// that the page has beside Holdfast's own.
//
// Everything that it tells it has read from the API server or from the clouds:
// each step waits for what it is about to tell, and fails with what it saw
// instead. It ends by itself and leaves nothing running, also when it fails or
// is interrupted. docs/demo-live.md shows what it prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/holdfast-io/holdfast/report"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	// A second signal must not cut the cleaning up short, and a reader that
	// goes away (| head) must not end the process before it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// settings are what can be set.
type settings struct {
	// binary is the holdfast that is shown.
	binary string
	// policy is a file for the daemon; empty is the demo's own.
	policy string
	// patience bounds each step.
	patience time.Duration
	// log is where the daemon's log goes; empty keeps it for a failure.
	log   string
	style report.Style
}

// run is the whole program with its surroundings as arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "first-hour":
			return firstHour(ctx, args[1:], stdout, stderr)
		case "careless":
			return beCareless(ctx, args[1:], stdout, stderr)
		case "pod":
			return playPod(ctx, args[1:], stdout, stderr)
		}
	}
	s, err := parse(args, stdout, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "error:", err)
		return exitUsage
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Of what the libraries complain about, failures of steps tell what matters.
	klog.SetLogger(logr.Discard())
	out := &story{out: stdout, style: s.style, begun: time.Now(), lost: cancel}
	st := newStage(ctx)
	failure := st.perform(func() { perform(st, s, out) })
	switch {
	case ctx.Err() != nil:
		out.say("")
		out.say("Interrupted. Nothing is left running.")
		if err := errors.Join(st.cleanups...); err != nil {
			_, _ = fmt.Fprintln(stderr, "error:", clean(err.Error()))
		}
		return exitInterrupted
	case failure != nil:
		_, _ = fmt.Fprintf(stderr, "\nerror: %s\n", lines(failure.Error()))
		return exitFailed
	}
	out.end()
	return exitOK
}

func parse(args []string, stdout, stderr io.Writer) (*settings, error) {
	s := &settings{}
	color := ""
	f := flag.NewFlagSet("demolive", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.binary, "holdfast", "", "the holdfast program to show (make demo-live builds it)")
	f.StringVar(&s.policy, "policy", "", "policy file for the daemon instead of the demo's own")
	f.DurationVar(&s.patience, "patience", 90*time.Second, "how long a step may take before the demo fails")
	f.StringVar(&s.log, "log", "", "file for the daemon's log")
	f.StringVar(&color, "color", "auto", "auto, always or never; NO_COLOR is honoured")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	when, err := report.ParseColor(color)
	switch {
	case err != nil:
		return nil, err
	case s.binary == "":
		return nil, errors.New("--holdfast is not set: run make demo-live, or build the program and name it")
	case f.NArg() > 0:
		return nil, fmt.Errorf("%q is no flag: this takes no arguments", f.Arg(0))
	case s.patience <= 0:
		return nil, fmt.Errorf("--patience %s: want a time above 0", s.patience)
	}
	file, _ := stdout.(*os.File)
	s.style = report.DetectStyle(file, when, os.Getenv)
	return s, nil
}
