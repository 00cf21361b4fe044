package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-io/holdfast/policies"
)

// flagError says of a flag that there is not which one is most like it, and of
// which other commands it is one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name, short := unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames() != ""
	if short {
		return fmt.Errorf("%w; %s", err, helpHint(cmd))
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	if near := policies.Nearest(name, known); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	for _, k := range known { // somebody writes the half of a long name
		if len(name) > 2 && strings.HasPrefix(k, name) {
			return fmt.Errorf("%w; did you mean --%s?", err, k)
		}
	}
	if others := commandsWith(cmd.Root(), name); len(others) > 0 {
		return fmt.Errorf("%w; it is a flag of %s; %s", err, strings.Join(others, ", "), helpHint(cmd))
	}
	return fmt.Errorf("%w; %s", err, helpHint(cmd))
}

func helpHint(cmd *cobra.Command) string { return cmd.CommandPath() + " --help lists the flags" }

// commandsWith gives the commands that have a flag.
func commandsWith(cmd *cobra.Command, flag string) []string {
	var out []string
	if f := cmd.Flags().Lookup(flag); f != nil && !f.Hidden && cmd.HasParent() {
		out = append(out, cmd.CommandPath())
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, commandsWith(sub, flag)...)
		}
	}
	return out
}

// noArguments refuses arguments where there are only flags. cobra would call
// them unknown commands.
func noArguments(hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := fmt.Errorf("%s takes flags alone, and %q is none", cmd.CommandPath(), args[0])
		if hint != "" {
			return fmt.Errorf("%w; %s", err, hint)
		}
		return err
	}
}
