package node

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/providers"
)

// Each row asks for a Node that is not there, of a server that says so in some
// way. Only an API server's own word is proof.
func TestConfirmAbsence(t *testing.T) {
	notFound := func(body string) func(http.ResponseWriter, *http.Request) bool {
		return func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusNotFound)
			_, _ = rw.Write([]byte(body))
			return true
		}
	}
	single := func(bend func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
		return func(rw http.ResponseWriter, r *http.Request) bool {
			return strings.Contains(r.URL.Path, "/nodes/") && bend(rw, r)
		}
	}
	for name, tc := range map[string]struct {
		bend   func(http.ResponseWriter, *http.Request) bool
		absent bool
	}{
		"the API server":                  {nil, true},
		"a server that says so otherwise": {single(notFound(`{"message":"no such thing"}`)), true}, // its list says the same
		"a page that is not there":        {notFound(`<html>404</html>`), false},
		"another resource's 404":          {notFound(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","details":{"name":"m9","kind":"pods"},"code":404}`), false},
		"a server without Nodes":          {notFound(`404 page not found`), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m1 := w.owner("c1", "m1")
			w.node("m1")
			snap := w.observe(m1)
			w.fronts["c1"].bent(tc.bend)
			id := idOf(clusterOf(m1), "m9")
			c, err := w.provider.Confirm(t.Context(), snap.Scope, []providers.ID{id})
			if err != nil {
				t.Fatal(err)
			}
			if c.Resources[id] != nil || (c.Unconfirmed[id] == nil) != tc.absent {
				t.Errorf("absent: %v (%v)", c.Unconfirmed[id] == nil, c.Unconfirmed[id])
			}
		})
	}
}

// Few are got one by one, and many by a list.
func TestConfirmMany(t *testing.T) {
	w := newWorld(t)
	m0 := w.owner("c1", "m0")
	var ids []providers.ID
	for i := range singly + 2 {
		name := fmt.Sprintf("m%d", i)
		if i != 3 {
			w.node(name)
		}
		ids = append(ids, idOf(clusterOf(m0), name))
	}
	snap := w.observe(m0)
	check := func(ids []providers.ID, calls int) {
		t.Helper()
		f := w.fronts["c1"]
		before := f.count(func(string) bool { return true })
		c, err := w.provider.Confirm(t.Context(), snap.Scope, append(ids, providers.ID{Kind: "Instance", Name: "i-m0"}))
		if err != nil {
			t.Fatal(err)
		}
		if n := f.count(func(string) bool { return true }) - before; n != calls {
			t.Errorf("%d calls for %d Nodes, want %d", n, len(ids), calls)
		}
		if c.Resources[providers.ID{Kind: "Instance", Name: "i-m0"}] == nil || len(c.Unconfirmed) > 0 {
			t.Errorf("confirmed are %v, unconfirmed %v", c.Resources, c.Unconfirmed)
		}
		for i, id := range ids {
			if (c.Resources[id] == nil) != (i == 3) {
				t.Errorf("%s: %v", id, c.Resources[id])
			}
		}
	}
	check(ids[:5], 5)
	check(ids, 1)
}

func TestConfirmOddIDs(t *testing.T) {
	w := newWorld(t)
	m1 := w.owner("c1", "m1")
	snap := w.observe(m1)
	for _, name := range []string{"", "m1", "a/b/c/d", "other/c1/m1"} {
		id := providers.ID{Kind: providers.KindNode, Name: name}
		c, err := w.provider.Confirm(t.Context(), snap.Scope, []providers.ID{id})
		if err != nil || c.Unconfirmed[id] == nil {
			t.Errorf("%q is absent: %+v, %v", name, c, err)
		}
	}
}
