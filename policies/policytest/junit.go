package policytest

import (
	"fmt"
	"io"

	"github.com/jstemmer/go-junit-report/v2/junit"
)

// WriteJUnit writes results as JUnit XML: a case that decides otherwise is a
// failure, one that could not be run an error.
func WriteJUnit(w io.Writer, results []Result) error {
	suite := junit.Testsuite{Name: "holdfast policy test"}
	var took float64
	for _, r := range results {
		c := junit.Testcase{Name: r.Name, Classname: "policy", Time: fmt.Sprintf("%.3f", r.Took.Seconds())}
		switch {
		case r.Err != nil:
			c.Error = &junit.Result{Message: "the case could not be run", Data: r.Err.Error()}
		case r.Failure != "":
			c.Failure = &junit.Result{Message: "the decisions differ from expected.yaml", Data: r.Failure}
		}
		took += r.Took.Seconds()
		suite.AddTestcase(c)
	}
	suite.Time = fmt.Sprintf("%.3f", took)
	var all junit.Testsuites
	all.AddSuite(suite)
	return all.WriteXML(w)
}
