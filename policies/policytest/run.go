package policytest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-io/holdfast/policies"
)

// Expected is one decision of expected.yaml. A key that is not there is not
// compared; blocked: [] says that nothing blocks.
type Expected struct {
	Owner    string    `yaml:"owner,omitempty"`
	Resource string    `yaml:"resource,omitempty"`
	Paths    []string  `yaml:"paths,omitempty,flow"`
	Action   string    `yaml:"action,omitempty"`
	Severity string    `yaml:"severity,omitempty"`
	Mode     string    `yaml:"mode,omitempty"`
	Rule     string    `yaml:"rule,omitempty"`
	Blocked  *[]string `yaml:"blocked,omitempty,flow"`
	// Until is when the last gate that opens by itself does.
	Until   string `yaml:"until,omitempty"`
	Ignored string `yaml:"ignored,omitempty"`
	Reason  string `yaml:"reason,omitempty"`
}

// Result is what one case came to.
type Result struct {
	// Name is the case's folder, relative to the one that was asked for.
	Name string
	// Failure has a line for each key that differs, empty if all decisions are
	// as expected.
	Failure string
	// Err says why the case could not be run: an unreadable file, a policy
	// that does not load.
	Err  error
	Took time.Duration
}

// Run runs every case in a folder and the folders in it, ordered by name. With
// update it writes expected.yaml instead of comparing. The error is for a
// folder without cases; a case's own is in its result.
func Run(dir string, opts policies.Options, update bool) ([]Result, error) {
	var out []Result
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() || e.Name() != "input.yaml" {
			return nil
		}
		name, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		if name == "." {
			name = filepath.Base(dir)
		}
		start := time.Now()
		r := Result{Name: filepath.ToSlash(name)}
		r.Failure, r.Err = runCase(filepath.Dir(path), opts, update)
		r.Took = time.Since(start)
		out = append(out, r)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read test cases: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no test case: a case is a folder with an input.yaml", dir)
	}
	slices.SortFunc(out, func(a, b Result) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func runCase(dir string, opts policies.Options, update bool) (failure string, err error) {
	var in Input
	if err := readStrict(filepath.Join(dir, "input.yaml"), &in); err != nil {
		return "", err
	}
	set, err := loadPolicies(dir, opts)
	if err != nil {
		return "", err
	}
	input, err := in.build(set)
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Join(dir, "input.yaml"), err)
	}
	got := describe(policies.Decide(input))
	file := filepath.Join(dir, "expected.yaml")
	if update {
		return "", writeExpected(file, got)
	}
	var want struct {
		Decisions []Expected `yaml:"decisions"`
	}
	if err := readStrict(file, &want); err != nil {
		return "", err
	}
	return compare(want.Decisions, got), nil
}

func readStrict(file string, into any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := decodeStrict(data, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// loadPolicies reads policy.yaml and the files of policies/. Positions are
// relative to the case, so that they are the same wherever it lies.
func loadPolicies(dir string, opts policies.Options) (*policies.Set, error) {
	var sources []policies.Source
	names := []string{"policy.yaml"}
	entries, err := os.ReadDir(filepath.Join(dir, "policies"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			names = append(names, "policies/"+e.Name())
		}
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case err == nil:
			sources = append(sources, policies.Source{Name: name, Data: data})
		case name != "policy.yaml" || !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	set, problems := policies.LoadSources(opts, sources...)
	return set, problems.Err()
}

// describe writes decisions down as they are expected.
func describe(ds []policies.Decision) []Expected {
	out := make([]Expected, 0, len(ds))
	for i := range ds {
		d := &ds[i]
		f := &d.Finding
		e := Expected{Resource: f.Resource.Provider + "/" + f.Resource.Kind + "/" + f.Resource.ID,
			Action: string(d.Action), Severity: string(d.Severity), Mode: string(d.Mode), Rule: d.Rule.ID, Reason: d.Reason, Blocked: &[]string{}}
		if f.Owner.Name != "" {
			e.Owner = f.Owner.Kind + "/" + f.Owner.Name
		}
		for j := range f.Diffs {
			e.Paths = append(e.Paths, f.Diffs[j].Path)
		}
		var until time.Time
		for _, b := range d.Blocked {
			*e.Blocked = append(*e.Blocked, b.By)
			if b.Until.After(until) {
				until = b.Until
			}
		}
		if !until.IsZero() {
			e.Until = until.UTC().Format(time.RFC3339)
		}
		if d.Ignored != nil {
			e.Ignored = d.Ignored.By
		}
		out = append(out, e)
	}
	return out
}

func writeExpected(file string, got []Expected) error {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(struct {
		Decisions []Expected `yaml:"decisions"`
	}{got}); err != nil {
		return err
	}
	return os.WriteFile(file, buf.Bytes(), 0o644)
}
