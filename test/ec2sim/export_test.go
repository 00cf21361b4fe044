package ec2sim

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// ServePage gives a function that serves a page of a thousand instances and
// tells its size, without a client.
func ServePage(tb testing.TB, s *Server) func() int {
	tb.Helper()
	s.options.SkipSignatures = true
	return func() int {
		return serveLocal(s, "Action=DescribeInstances&Version=2016-11-15&MaxResults=1000").Body.Len()
	}
}

func serveLocal(s *Server, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+s.options.Credentials[0].AccessKeyID+"/20261130/us-west-2/ec2/aws4_request")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// ActionNames are all actions, by service:Action.
func ActionNames() []string {
	var all []string
	for service, list := range actions {
		for name := range list {
			all = append(all, service+":"+name)
		}
	}
	slices.Sort(all)
	return all
}
