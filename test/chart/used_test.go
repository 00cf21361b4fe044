package chart

import (
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// ledger stands before the API server and notes what the program uses of its
// rights, and what it is refused.
type ledger struct {
	url string
	ca  []byte

	mu sync.Mutex
	// older: it answers as an API server does that streams no lists (before 1.34).
	older   bool
	used    map[call]bool
	refused map[call]bool
	// tell is called when something is refused; nil tells nobody.
	tell func(call)
}

// whenRefused has somebody be told, who need not wait any longer.
func (l *ledger) whenRefused(tell func(call)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell = tell
}

// call is a request for a resource, as a role would have to allow it.
type call struct{ verb, group, resource, namespace, name string }

func (c call) String() string {
	return strings.Join([]string{c.verb, c.group, c.resource, c.namespace + "/" + c.name}, " ")
}

// right is a call that a role allows: an empty namespace is any, and a star any of
// its kind.
type right call

func (r right) String() string { return call(r).String() }

func (r right) allows(c call) bool {
	return r.verb == c.verb && r.group == c.group && (r.resource == c.resource || r.resource == "*") &&
		(r.namespace == "" || r.namespace == c.namespace) && (r.name == "*" || r.name == c.name)
}

func newLedger(t *testing.T, cfg *rest.Config) *ledger {
	t.Helper()
	anonymous := rest.AnonymousClientConfig(cfg) // whoever comes brings a token
	to := must(url.Parse(anonymous.Host))(t)
	l := &ledger{}
	l.reset(false)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport, proxy.FlushInterval = must(rest.TransportFor(anonymous))(t), -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	proxy.ModifyResponse = func(r *http.Response) error {
		l.note(r.Request, r.StatusCode)
		return nil
	}
	// By HTTPS: client-go sends no token otherwise.
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		older := l.older
		l.mu.Unlock()
		if older && r.URL.Query().Has("sendInitialEvents") {
			noStreamedLists(w)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	l.url = server.URL
	l.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return l
}

// noStreamedLists answers as an API server without the feature WatchList
// (apimachinery/pkg/apis/meta/internalversion/validation, ValidateListOptions).
func noStreamedLists(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid,
		Code: http.StatusUnprocessableEntity, Message: "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
	})
}

// reset forgets what was noted, and plays an older API server from now on or not.
func (l *ledger) reset(older bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.older, l.used, l.refused = older, map[call]bool{}, map[call]bool{}
}

var requests = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

func (l *ledger) note(r *http.Request, status int) {
	info, err := requests.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest {
		return
	}
	c := call{info.Verb, info.APIGroup, info.Resource, info.Namespace, info.Name}
	if info.Subresource != "" {
		c.resource += "/" + info.Subresource
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used[c] = true; status == http.StatusForbidden {
		l.refused[c] = true
		if l.tell != nil {
			l.tell(c)
		}
	}
	if c.verb == "patch" && status == http.StatusCreated { // an apply that makes the object needs both
		c.verb = "create"
		l.used[c] = true
	}
}

// has tells whether anything was done that a right allows. An informer asks an API
// server of today for a list by a watch, and lists at an older one: where one is
// played, that must be seen.
func (l *ledger) has(r right) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	watched := r
	watched.verb = "watch"
	for c := range l.used {
		if r.allows(c) || r.verb == "list" && !l.older && watched.allows(c) {
			return true
		}
	}
	return false
}

// excuse is why a right is granted that nothing here has a use for.
type excuse struct {
	why string
	// sometimes it is used nevertheless, by whoever is late.
	sometimes bool
}

// unused are the rights that nothing here has a use for.
var unused = map[string]excuse{
	"patch events.k8s.io events": {why: "client-go writes an event that way if the same was told of the object before and the object has not changed since: " +
		"what Holdfast tells follows a change, of a condition at least, so that it takes an object without status, and a refused event would be lost"},
}

// balance lists what was refused, and those rights of a rendered chart that were
// not used: neither may there be, but for those that are excused. Roles that are
// excepted, by the ends of their names, are another test's.
func (l *ledger) balance(t *testing.T, rendered string, excuses map[string]excuse, except ...string) {
	t.Helper()
	l.mu.Lock()
	refused := slices.Collect(maps.Keys(l.refused))
	l.mu.Unlock()
	for _, c := range refused {
		t.Errorf("%s is refused", c)
	}
	idle := 0
	all := rights(t, rendered, append(except, "-metrics-reader")...)
	for _, r := range all {
		e, excused := excuses[strings.Join([]string{r.verb, r.group, r.resource}, " ")]
		switch used := l.has(r); {
		case used && excused && !e.sometimes:
			t.Errorf("%s is used: strike it from the list of those that are not", r)
		case !used && !excused:
			idle++
			t.Errorf("%s is granted, and not used", r)
		}
	}
	t.Logf("%d rights, of which %d are not used; %d calls are refused", len(all), idle, len(refused))
}

// rights are those that a rendered chart grants to the program, but for those of
// roles whose names end in one of some words.
func rights(t *testing.T, rendered string, except ...string) []right {
	t.Helper()
	var out []right
	for _, u := range objects(t, rendered) {
		if !strings.HasSuffix(u.GetKind(), "Role") || slices.ContainsFunc(except, func(end string) bool { return strings.HasSuffix(u.GetName(), end) }) {
			continue
		}
		for _, text := range slices.Sorted(maps.Keys(single(into[rbacv1.ClusterRole](t, u).Rules))) {
			part := strings.Split(text, " ")
			out = append(out, right{verb: part[0], group: part[1], resource: part[2], name: part[3], namespace: u.GetNamespace()})
		}
	}
	return out
}
