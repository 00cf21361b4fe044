package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManCommand writes manual pages. It is hidden: whoever packages the program
// calls it, and whoever uses it has the pages from the package.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write manual pages into a folder",
		Long: `Write a manual page for each command into a folder, which is made if need be.
The pages bear the date SOURCE_DATE_EPOCH if that is set.`,
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			at, err := manDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manual pages are for everybody to read
				return err
			}
			root := newRootCommand("holdfast")
			root.InitDefaultCompletionCmd()
			escapeForMan(root)
			header := &doc.GenManHeader{Section: "1", Manual: "Holdfast", Source: "holdfast " + buildVersion().Version, Date: &at}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return nil
		},
	}
}

// manDate is when the sources were written, or now
// (https://reproducible-builds.org/specs/source-date-epoch/).
func manDate(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Now().UTC(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%q: want seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// escapeForMan indents what a terminal shows as it stands, for a page is made by way
// of Markdown, which would run its lines together, and leaves out cobra's own line
// on how the page was made.
func escapeForMan(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, p := range paragraphs {
		if strings.HasPrefix(p, "  ") {
			paragraphs[i] = "    " + strings.ReplaceAll(p, "\n", "\n    ")
		}
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, sub := range cmd.Commands() {
		escapeForMan(sub)
	}
}
