// Command release makes what a release consists of beside the image: archives of the
// program, krew's manifest, release notes, and the chart's values with the image's
// digest in them. It runs in the repository's root.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage:
  release check VERSION          see that CHANGELOG and chart are ready for VERSION (v1.2.3)
  release notes VERSION          print CHANGELOG's section
  release archives VERSION DIR   build and pack the program for every platform, with checksums.txt
  release krew VERSION DIR       print krew's manifest for the archives in DIR
  release sbom SCHEMAS FILE...   see that each is CycloneDX by its schema, with licences
  release values DIGEST          print the chart's values with the image's digest in them`

var errUsage = errors.New(usage)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) < 2 {
		return errUsage
	}
	command, args := args[0], args[1:]
	switch {
	case command == "check" && len(args) == 1:
		return checkCommand(args[0])
	case command == "notes" && len(args) == 1:
		return printed(out)(notesOf("CHANGELOG.md", args[0]))
	case command == "archives" && len(args) == 2:
		return archivesCommand(ctx, args[0], args[1])
	case command == "krew" && len(args) == 2:
		return printed(out)(krewManifest(args[0], args[1]))
	case command == "sbom" && len(args) >= 2:
		return sbomCommand(args[0], args[1:], out)
	case command == "values" && len(args) == 1:
		return printed(out)(valuesWith("charts/holdfast/values.yaml", args[0]))
	}
	return errUsage
}

// printed writes a text that could be made.
func printed(out io.Writer) func(string, error) error {
	return func(text string, err error) error {
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, text)
		return err
	}
}
