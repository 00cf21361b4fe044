package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// writeJUnit writes JUnit XML as CI systems read it: one suite for each
// cluster, one test case for each owner. Drift fails the case; an owner of
// which something could not be compared, and nothing drifted, is skipped.
func writeJUnit(w io.Writer, r *Report, _ Style) error {
	doc := junit.Testsuites{Name: "holdfast"}
	v := newView(r)
	for i := range v.clusters {
		c := &v.clusters[i]
		suite := newSuite(r, len(doc.Suites), c.Namespace+"/"+c.Name)
		suite.AddProperty("scope", cleanWide.clean(firstOf(c.Scope, c.Provider)))
		suite.AddProperty("coverage", percent(c.Coverage))
		for _, owner := range ownersOf(r, c) {
			tc := testcase(suite.Name, owner.ref, owner.findings)
			if len(owner.findings) == 0 && c.uncompared() {
				tc.Skipped = &junit.Result{Message: c.whyUncompared(), Type: "incomplete"}
			}
			suite.AddTestcase(tc)
		}
		addProblems(&suite, c.problems)
		doc.AddSuite(suite)
	}
	if len(v.problems) > 0 {
		suite := newSuite(r, len(doc.Suites), "scan")
		addProblems(&suite, v.problems)
		doc.AddSuite(suite)
	}
	if _, err := io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"); err != nil {
		return err
	}
	return doc.WriteXML(w)
}

func newSuite(r *Report, id int, name string) junit.Testsuite {
	suite := junit.Testsuite{Name: cleanWide.clean(name), ID: id, Time: "0.000"}
	suite.SetTimestamp(r.Generated)
	return suite
}

// ownerFindings are one owner with all its findings, none where it is in sync.
type ownerFindings struct {
	ref      providers.OwnerRef
	findings []*Finding
}

// ownersOf lists the cluster's owners in the report's order, and after them
// those that only findings name.
func ownersOf(r *Report, c *clusterView) []*ownerFindings {
	ref := detector.ClusterRef{Namespace: c.Namespace, Name: c.Name}
	var out []*ownerFindings
	at := map[providers.OwnerRef]*ownerFindings{}
	get := func(o providers.OwnerRef) *ownerFindings {
		if at[o] == nil {
			at[o] = &ownerFindings{ref: o}
			out = append(out, at[o])
		}
		return at[o]
	}
	for i := range c.Owners {
		get(c.Owners[i].OwnerRef)
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Cluster == ref {
			o := get(f.Owner)
			o.findings = append(o.findings, f)
		}
	}
	return out
}

func testcase(suite string, owner providers.OwnerRef, findings []*Finding) junit.Testcase {
	tc := junit.Testcase{Name: cleanWide.clean(ownerText(&owner, "")), Classname: suite, Time: "0.000"}
	var trouble, incomplete, silent []string
	for _, f := range findings {
		switch {
		case f.Trouble():
			trouble = append(trouble, f.sentence())
		case f.Incomplete():
			incomplete = append(incomplete, f.sentence())
		default:
			silent = append(silent, f.sentence())
		}
	}
	switch {
	case len(trouble) > 0:
		tc.Failure = &junit.Result{
			Message: plural(len(trouble), "finding"), Type: "drift",
			Data: strings.Join(append(trouble, incomplete...), "\n"),
		}
	case len(incomplete) > 0:
		tc.Skipped = &junit.Result{Message: incomplete[0], Type: "incomplete", Data: strings.Join(incomplete, "\n")}
	}
	if len(silent) > 0 {
		tc.SystemOut = &junit.Output{Data: strings.Join(silent, "\n")}
	}
	return tc
}

// addProblems makes each problem of the scan a case with an error, so that a
// CI run does not pass over it, and each warning one that passes with a note.
func addProblems(suite *junit.Testsuite, problems []Problem) {
	for i := range problems {
		p := &problems[i]
		tc := junit.Testcase{
			Name: cleanWide.clean(fmt.Sprintf("problem %d: %s", i+1, firstOf(p.Object, p.Reason))), Classname: suite.Name, Time: "0.000",
		}
		if p.Warning {
			tc.SystemOut = &junit.Output{Data: problemText(p)}
		} else {
			tc.Error = &junit.Result{Message: cleanWide.clean(p.Reason), Type: "problem", Data: problemText(p)}
		}
		suite.AddTestcase(tc)
	}
}
