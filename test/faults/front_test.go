package faults

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"k8s.io/client-go/rest"

	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// front stands before the API servers and the clouds for one program, and sees
// each of its writes; toxiproxy stands before it, and breaks connections.
type front struct {
	t      *testing.T
	server *toxiproxy.ApiServer
	// api is before the management cluster, aws before AWS; nil where there is
	// none.
	api, aws *toxiproxy.Proxy

	mu     sync.Mutex
	writes []write
	// last is when something was written, called when a cloud was called.
	last, called time.Time
	victim       string
	// workloads are the addresses at which workload clusters are reached.
	workloads map[string]string
	// on, if not nil, is called with each write before it is passed on, which it
	// is whatever becomes of the caller. after is called once it was.
	on, after func(write)
	// fail, if not nil, may answer a call to vCenter in its place.
	fail func(vspherecluster.Call, http.ResponseWriter) bool
}

// newFront stands before the management cluster and its workload clusters.
func newFront(t *testing.T, cfg *rest.Config) *front {
	t.Helper()
	f := &front{t: t, server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), workloads: map[string]string{}}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	back := f.serve(cfg.Host, transport, f.viaFront)
	f.api = f.listen("api", back)
	return f
}

// awsFront is a front that stands before a ground's AWS too.
func awsFront(t *testing.T, g *management.Ground) *front {
	t.Helper()
	f := newFront(t, g.Config)
	f.throughAWS(g.AWS().Server.URL())
	return f
}

func (f *front) throughAWS(target string) {
	f.t.Helper()
	f.aws = f.listen("aws", f.serve(target, nil, nil))
}

// vsphereFront is a front that sees what is written to a ground's vCenter too.
// That is named in objects, with its certificate, so that nothing stands in
// between: the simulator itself shows its calls.
func vsphereFront(t *testing.T, g *management.Ground) *front {
	t.Helper()
	f := newFront(t, g.Config)
	log := g.VSphere().Log
	log.Fail(f.seeVSphere)
	t.Cleanup(func() { log.Fail(nil) })
	return f
}

// seeVSphere lets each call pass that is not to fail.
func (f *front) seeVSphere(call vspherecluster.Call, w http.ResponseWriter) bool {
	f.mu.Lock()
	f.called = time.Now()
	fail := f.fail
	f.mu.Unlock()
	if fail != nil && fail(call, w) {
		return true
	}
	if call.Mutating() {
		f.write(write{what: withoutID(call.Method), cloud: true})
	}
	return false
}

// withoutID is a call's name without the id in its path.
func withoutID(method string) string {
	name, id, _ := strings.Cut(method, "/id:")
	if _, query, ok := strings.Cut(id, "?"); ok {
		name += "?" + query
	}
	return name
}

// failing sets what answers calls to vCenter in its place.
func (f *front) failing(fail func(vspherecluster.Call, http.ResponseWriter) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// serve passes on what comes in on an address of its own, which it gives.
func (f *front) serve(target string, transport http.RoundTripper, modify func(*http.Response) error) string {
	f.t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		f.t.Fatal(err)
	}
	back := httptest.NewServer(f.pass(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ModifyResponse: modify,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(u)
			if signed(r.In) {
				r.Out.Host = r.In.Host // the signature covers it
			}
			if kubeconfigOf(r.In.URL.Path) != "" {
				r.Out.Header.Set("Accept", "application/json")
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}))
	f.t.Cleanup(back.CloseClientConnections) // Close waits for watches
	return back.URL
}

func (f *front) listen(name, url string) *toxiproxy.Proxy {
	f.t.Helper()
	p := toxiproxy.NewProxy(f.server, name, "127.0.0.1:0", strings.TrimPrefix(url, "http://"))
	if err := f.server.Collection.Add(p, true); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(p.Stop)
	return p
}

func (f *front) pass(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		f.mu.Lock()
		victim := f.victim
		if signed(r) {
			f.called = time.Now()
		}
		f.mu.Unlock()
		one, ok := writeOf(r, body, victim)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		after := f.write(one)
		next.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
		if after != nil {
			after(one)
		}
	})
}

// write takes a write down before it is made.
func (f *front) write(one write) (after func(write)) {
	f.mu.Lock()
	f.writes, f.last = append(f.writes, one), time.Now()
	on, after := f.on, f.after
	f.mu.Unlock()
	if on != nil {
		on(one)
	}
	return after
}

// watch sets what is called with writes from now on.
func (f *front) watch(on, after func(write)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on, f.after = on, after
}

// about names the Machine that drifts: writes to others are named as such.
func (f *front) about(machine string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.victim = machine
}

// taken gives the writes since the last call.
func (f *front) taken() []write {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Clone(f.writes)
	f.writes = nil
	return out
}

// quiet reports whether nothing was written for a time.
func (f *front) quiet(d time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.last) > d
}

// settled reports whether no cloud was called for two seconds.
func (f *front) settled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.called) > 2*time.Second
}
