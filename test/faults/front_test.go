package faults

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"context"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"k8s.io/client-go/rest"

	"github.com/holdfast-io/holdfast/test/management"
)

// write is a request that changes something.
type write struct {
	// what it is, as the test's log shows it.
	what string
	// cloud tells that it is to AWS.
	cloud bool
	// condition tells that it is a server-side apply of conditions.
	condition bool
}

// front stands before the API server and AWS for one program, and sees each of
// its writes; toxiproxy stands before it, and breaks connections.
type front struct {
	api, aws *toxiproxy.Proxy

	mu     sync.Mutex
	writes []write
	// on, if not nil, is called with each write before it is passed on, which it
	// is whatever becomes of the caller. after is called once it was.
	on, after func(write)
}

func newFront(t *testing.T, g *management.Ground) *front {
	t.Helper()
	f := &front{}
	transport, err := rest.TransportFor(g.Config)
	if err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	listen := func(name, target string, transport http.RoundTripper) *toxiproxy.Proxy {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		back := httptest.NewServer(f.pass(&httputil.ReverseProxy{
			Transport: transport, FlushInterval: -1,
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(u)
				r.Out.Host = r.In.Host // it is signed
			},
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		}))
		t.Cleanup(back.CloseClientConnections) // Close waits for watches
		p := toxiproxy.NewProxy(server, name, "127.0.0.1:0", strings.TrimPrefix(back.URL, "http://"))
		if err := server.Collection.Add(p, true); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		return p
	}
	f.api = listen("api", g.Config.Host, transport)
	f.aws = listen("aws", g.AWS().Server.URL(), nil)
	return f
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
		one, ok := writeOf(r, body)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		f.mu.Lock()
		f.writes = append(f.writes, one)
		on, after := f.on, f.after
		f.mu.Unlock()
		if on != nil {
			on(one)
		}
		next.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
		if after != nil {
			after(one)
		}
	})
}

// writeOf tells what a request changes; leases, events and questions do not
// count.
func writeOf(r *http.Request, body []byte) (write, bool) {
	if r.Header.Get("X-Amz-Date") != "" || strings.Contains(r.Header.Get("Authorization"), "AWS4-") {
		form, err := url.ParseQuery(string(body))
		action := form.Get("Action")
		return write{what: action, cloud: true}, err == nil && !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get")
	}
	for _, skip := range []string{"/leases", "/events", "reviews"} {
		if strings.Contains(r.URL.Path, skip) {
			return write{}, false
		}
	}
	return write{what: r.Method + " " + r.URL.Path, condition: strings.Contains(r.Header.Get("Content-Type"), "apply-patch")}, true
}

// watch sets what is called with writes from now on.
func (f *front) watch(on, after func(write)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on, f.after = on, after
}

// taken gives the writes since the last call.
func (f *front) taken() []write {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Clone(f.writes)
	f.writes = nil
	return out
}
