package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestMan finds a page for each command that help shows, and the same bytes for the
// same date.
func TestMan(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	for _, dir := range dirs {
		if o := holdfast(t, "man", dir); o.code != exitOK {
			t.Fatalf("exit %d: %s", o.code, o.stderr)
		}
	}
	root := newRootCommand("holdfast")
	root.InitDefaultCompletionCmd()
	pages := 0
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.IsAdditionalHelpTopicCommand() {
			return
		}
		pages++
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dirs[0], name))
		if err != nil {
			t.Error(err)
			return
		}
		if again, err := os.ReadFile(filepath.Join(dirs[1], name)); err != nil || string(again) != string(page) {
			t.Errorf("%s is different the second time (%v)", name, err)
		}
		for _, want := range []string{".TH ", "Nov 2023", cmd.Short} {
			if !strings.Contains(plain(string(page)), want) {
				t.Errorf("%s does not say %q:\n%s", name, want, page)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(root)
	if there, err := os.ReadDir(dirs[0]); err != nil || len(there) != pages || pages < 15 {
		t.Errorf("%d pages for %d commands (%v)", len(there), pages, err)
	}
	page, err := os.ReadFile(filepath.Join(dirs[0], "holdfast.1"))
	if err != nil {
		t.Fatal(err)
	}
	// Each command on a line of its own.
	if !strings.Contains(plain(string(page)), "\n  holdfast policy        checks") {
		t.Errorf("the list of commands has lost its lines:\n%s", page)
	}
}

// plain is a page without what roff needs escaped.
func plain(page string) string {
	return strings.NewReplacer(`\-`, "-", `\&`, "", `\(cq`, "'").Replace(page)
}

func TestManRefusesABadDate(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	dir := filepath.Join(t.TempDir(), "man")
	if o := holdfast(t, "man", dir); o.code != exitError || !strings.Contains(o.stderr, "yesterday") {
		t.Errorf("exit %d: %s", o.code, o.stderr)
	}
}
