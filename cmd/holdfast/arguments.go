package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// wantArguments checks the number of arguments, and says what they are where
// they are missing. what is a singular noun; several allows more than one.
func wantArguments(what string, several bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("no %s is given; usage: %s", what, cmd.UseLine())
		case len(args) > 1 && !several:
			return fmt.Errorf("one %s at a time: %q is too many; usage: %s", what, args[1], cmd.UseLine())
		}
		return nil
	}
}

// onlyCommands refuses what is no subcommand, with the one that is most like
// it: help with exit status 0 would read as "in sync" to a script.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := strings.Join(cmd.SuggestionsFor(args[0]), " or ")
	if hint != "" {
		return fmt.Errorf("unknown command %q for %q; did you mean %s?", args[0], cmd.CommandPath(), hint)
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q; known are %s", args[0], cmd.CommandPath(), strings.Join(known, ", "))
}
