// Command dashboards holds dashboards to Grafana's own schema of them: a field that
// it does not know, or a value of another type, is told and ends it with 1. What
// is left out is no fault: Grafana fills in what its panels need.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// leftOut ends what the schema says of a field that is not there.
const leftOut = "required field is missing from input"

func main() {
	plugins.RegisterDefaultPlugins()
	bad := false
	for _, path := range os.Args[1:] {
		for _, problem := range check(path) {
			fmt.Printf("%s: %s\n", path, problem)
			bad = true
		}
	}
	if bad {
		os.Exit(1)
	}
}

func check(path string) (problems []string) {
	data, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	d := &dashboard.Dashboard{}
	err = d.UnmarshalJSONStrict(data)
	var several cog.BuildErrors
	if !errors.As(err, &several) {
		if err != nil {
			problems = append(problems, err.Error())
		}
		return problems
	}
	for _, e := range several {
		if !strings.HasSuffix(e.Error(), leftOut) {
			problems = append(problems, e.Error())
		}
	}
	return problems
}
