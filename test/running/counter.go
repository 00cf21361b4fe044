package running

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Counter stands before an API server and counts what passes, so that what a
// program under test asks is told from what others do.
type Counter struct {
	// Kubeconfig is a file that leads through it.
	Kubeconfig string

	mu   sync.Mutex
	seen map[string]int
}

// Count puts a counter before an API server, until the test ends. Whoever
// comes through it has the rights of the configuration.
func Count(t testing.TB, cfg *rest.Config) *Counter {
	t.Helper()
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	c := &Counter{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), seen: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport, proxy.FlushInterval = transport, -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.note(r)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	k := clientcmdapi.NewConfig()
	k.Clusters["test"] = &clientcmdapi.Cluster{Server: server.URL}
	k.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	k.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*k, c.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Counter) note(r *http.Request) {
	verb := r.Method
	if verb == http.MethodGet && r.URL.Query().Get("watch") != "" {
		verb = "WATCH"
	}
	key := verb + " " + resource(r.URL.Path)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[key]++
}

// resource is what a path is about: machines, or machines/status.
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return path
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}

// Reset forgets what has passed.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = map[string]int{}
}

// Seen counts requests by verb and resource, as in "GET machines".
func (c *Counter) Seen() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for key, n := range c.seen {
		out[key] = n
	}
	return out
}

// Writes are those that are no read, and not about a lease.
func (c *Counter) Writes() map[string]int {
	out := c.Seen()
	for key := range out {
		verb, about, _ := strings.Cut(key, " ")
		if verb == http.MethodGet || verb == "WATCH" || about == "leases" {
			delete(out, key)
		}
	}
	return out
}
