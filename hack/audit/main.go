// Command audit reads what govulncheck found, and fails on what nobody has
// explained, and on explanations of what is not found any more.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// explanation is an entry of allow.yaml.
type explanation struct {
	ID string `json:"id"`
	// Module is the vulnerable one, with its version: when that changes, what was true
	// of it is asked again.
	Module string `json:"module"`
	Reason string `json:"reason"`
}

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

func run(args []string, out io.Writer) (int, error) {
	flags := flag.NewFlagSet("audit", flag.ContinueOnError)
	found := flags.String("found", "", "what govulncheck -format json wrote")
	allow := flags.String("allow", "", "vulnerabilities that are explained")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	allowed, err := readAllowed(*allow)
	if err != nil {
		return 0, err
	}
	in, err := os.Open(*found)
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }()
	s, err := readScan(in)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", *found, err)
	}
	return judge(s, allowed, out), nil
}

func readAllowed(file string) ([]explanation, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []explanation
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i, e := range all {
		if e.ID == "" || !strings.Contains(e.Module, "@") || strings.TrimSpace(e.Reason) == "" {
			return nil, fmt.Errorf("%s: entry %d: want id, module (with @ and its version) and reason", file, i+1)
		}
	}
	return all, nil
}

// judge writes each vulnerability with its explanation or as unexplained, and
// returns what the process exits with.
func judge(s scan, allowed []explanation, out io.Writer) int {
	used := map[string]bool{}
	explained, unexplained, stale := 0, 0, 0
	for _, v := range s.found {
		reason := ""
		for _, a := range allowed {
			if a.ID == v.id && a.Module == v.module {
				reason = strings.TrimSpace(a.Reason)
			}
		}
		used[v.id+v.module] = true
		if reason == "" {
			unexplained++
			_, _ = fmt.Fprintf(out, "NOT EXPLAINED %s %s\n  %s\n  fixed in %s; called as %s\n", v.id, v.module, v.summary, v.fixed, v.symbol)
			continue
		}
		explained++
		_, _ = fmt.Fprintf(out, "explained     %s %s\n  %s\n  %s\n", v.id, v.module, v.summary, reason)
	}
	for _, a := range allowed {
		// What is said of one Go's library holds for who builds with that Go.
		otherGo := strings.HasPrefix(a.Module, standardLibrary) && a.Module != s.standardLibrary()
		if !used[a.ID+a.Module] && !otherGo {
			stale++
			_, _ = fmt.Fprintf(out, "NOT FOUND     %s %s\n  is explained, but not found any more: take it out\n", a.ID, a.Module)
		}
	}
	_, _ = fmt.Fprintf(out, "govulncheck with %s, database %s: %d explained, %d not explained, %d explanations of nothing\n", s.goVersion, s.database, explained, unexplained, stale)
	if unexplained+stale > 0 {
		return 1
	}
	return 0
}
