package policies

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// readSources reads files, and the policy files of folders and of the folders
// in them. Names that begin with a dot are left out, which also leaves out the
// hidden folders of a mounted ConfigMap while its links are followed.
func readSources(paths []string) ([]Source, Problems) {
	r := &fileReader{seen: map[string]bool{}}
	for _, p := range paths {
		r.read(p)
	}
	return r.sources, r.problems
}

type fileReader struct {
	sources  []Source
	problems Problems
	seen     map[string]bool
}

const maxFiles = 1000

func (r *fileReader) read(name string) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		r.unreadable(name, err)
	case info.IsDir():
		before := len(r.sources) + len(r.problems.Errors())
		r.readDir(name, 0)
		if len(r.sources)+len(r.problems.Errors()) == before {
			r.problems = append(r.problems, Problem{Position: Position{File: name}, Code: "Empty",
				Message: "the folder holds no policy file", Hint: "policy files end in .yaml, .yml or .json"})
		}
	default:
		r.readFile(name)
	}
}

func (r *fileReader) readDir(name string, depth int) {
	entries, err := os.ReadDir(name)
	if err != nil {
		r.unreadable(name, err)
		return
	}
	if depth > 16 {
		r.unreadable(name, fmt.Errorf("folders are nested more than %d deep", depth))
		return
	}
	for _, e := range entries {
		full := filepath.Join(name, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		info, err := os.Stat(full)
		switch {
		case err != nil:
			r.unreadable(full, err)
		case info.IsDir():
			r.readDir(full, depth+1)
		case slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(full)):
			r.readFile(full)
		case filepath.Ext(full) == "" && looksLikePolicy(full):
			r.problems = append(r.problems, Problem{Position: Position{File: full}, Code: CodeNotRead, Warning: true,
				Message: "this looks like a policy, and is not read", Hint: "policy files end in .yaml, .yml or .json"})
		}
	}
}

// CodeNotRead is the code of a file in a folder that looks like a policy and has
// no ending by which it would be read: mostly a key of a ConfigMap.
const CodeNotRead = "NotRead"

// looksLikePolicy reports whether a file begins as a policy does. What cannot be
// read is none.
func looksLikePolicy(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 4096))
	return err == nil && bytes.Contains(append([]byte("\n"), head...), []byte("\nkind: DriftPolicy"))
}

func (r *fileReader) readFile(name string) {
	if r.seen[filepath.Clean(name)] {
		return
	}
	r.seen[filepath.Clean(name)] = true
	if len(r.seen) > maxFiles {
		if len(r.seen) == maxFiles+1 {
			r.unreadable(name, fmt.Errorf("there are more than %d policy files", maxFiles))
		}
		return
	}
	f, err := os.Open(name)
	if err != nil {
		r.unreadable(name, err)
		return
	}
	defer f.Close()
	// One byte above the limit is enough for the loader to say so.
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		r.unreadable(name, err)
		return
	}
	r.sources = append(r.sources, Source{Name: name, Data: data})
}

func (r *fileReader) unreadable(name string, err error) {
	r.problems = append(r.problems, Problem{Position: Position{File: name}, Code: "Unreadable",
		Message: fmt.Sprintf("cannot be read: %s", err), Hint: "check the path and its permissions"})
}

// ReadSources reads policy files, and those of folders, as [Load] does. What
// cannot be read is a problem; the rest is given all the same.
func ReadSources(paths ...string) ([]Source, Problems) { return readSources(paths) }
