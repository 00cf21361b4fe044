//go:build nodemo

package main

import "github.com/spf13/cobra"

// demoHelp is the demo's line in the program's help.
const demoHelp = ""

// demoCommands is empty in a build with the tag nodemo: the container image has
// no use for the demo, and the simulators are a large part of the program.
func demoCommands() []*cobra.Command { return nil }
