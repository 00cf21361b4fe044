package main

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
)

// standardLibrary is what govulncheck calls Go's own, before its version.
const standardLibrary = "stdlib@"

// vulnerability is one whose code the program can reach.
type vulnerability struct{ id, module, summary, fixed, symbol string }

// scan is what govulncheck wrote.
type scan struct {
	goVersion, database string
	found               []vulnerability
}

func (s scan) standardLibrary() string {
	return standardLibrary + "v" + strings.TrimPrefix(s.goVersion, "go")
}

// frame is a step of a trace; the first one is where the vulnerability is, and has a
// function only if the program can reach it. That a module with a vulnerability is
// merely linked, or required, is told too, and left out here as govulncheck leaves it
// out of its exit status (golang.org/x/vuln/internal/govulncheck, Finding).
type frame struct{ Module, Version, Package, Function, Receiver string }

// message is one of the JSON values that govulncheck writes, with one field set.
type message struct {
	Config *struct {
		Database string `json:"db"`
		Go       string `json:"go_version"`
		Level    string `json:"scan_level"`
	}
	OSV     *struct{ ID, Summary string } `json:"osv"`
	Finding *struct {
		OSV   string `json:"osv"`
		Fixed string `json:"fixed_version"`
		Trace []frame
	}
}

// readScan takes each vulnerability of a module once, whatever the number of ways to
// it.
func readScan(in io.Reader) (scan, error) {
	var s scan
	level := ""
	summaries := map[string]string{}
	for decoder := json.NewDecoder(in); ; {
		var m message
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s, err
		}
		if m.Config != nil {
			s.goVersion, s.database, level = m.Config.Go, m.Config.Database, m.Config.Level
		}
		if m.OSV != nil {
			summaries[m.OSV.ID] = m.OSV.Summary
		}
		if f := m.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Function != "" {
			at := f.Trace[0]
			symbol := strings.Join(slices.DeleteFunc([]string{at.Package, at.Receiver, at.Function}, func(s string) bool { return s == "" }), ".")
			s.found = append(s.found, vulnerability{id: f.OSV, module: at.Module + "@" + at.Version, fixed: f.Fixed, symbol: symbol})
		}
	}
	if level != "symbol" {
		return s, errors.New("it does not say that the program's calls were followed: did govulncheck run?")
	}
	slices.SortFunc(s.found, func(a, b vulnerability) int {
		return strings.Compare(a.module+" "+a.id+" "+a.symbol, b.module+" "+b.id+" "+b.symbol)
	})
	s.found = slices.CompactFunc(s.found, func(a, b vulnerability) bool { return a.module == b.module && a.id == b.id })
	for i := range s.found {
		s.found[i].summary = summaries[s.found[i].id]
	}
	return s, nil
}
