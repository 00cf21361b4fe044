package chart

import (
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
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// elsewhere are the rights that the program has no use for in testProgram: what is
// in them is done in the tests that are named.
var elsewhere = map[string]string{
	"get  namespaces *": "identities that allow namespaces by label: providers/aws, providers/vsphere",
	"get  secrets *":    "kubeconfigs and identities: cmd/holdfast TestController",
	"patch infrastructure.cluster.x-k8s.io vsphereclusters/status *": "no vSphere here: test/e2e",
	"patch infrastructure.cluster.x-k8s.io vspheremachines/status *": "no vSphere here: test/e2e",
	"delete cluster.x-k8s.io machines *":                             "replacement: test/e2e, test/faults",
	"get cluster.x-k8s.io machinesets *":                             "replacement: test/e2e, test/faults",
	"get cluster.x-k8s.io machinedeployments *":                      "replacement: test/e2e, test/faults",
	"patch cluster.x-k8s.io machinedeployments *":                    "replacement with one more before: test/e2e, test/faults",
	"get controlplane.cluster.x-k8s.io * *":                          "replacement: test/e2e, test/faults",
	"patch cluster.x-k8s.io machines *":                              "replacement: test/e2e, test/faults",
	"get cluster.x-k8s.io machinedrainrules *":                       "draining: remediator",
	"list cluster.x-k8s.io machinedrainrules *":                      "draining: remediator",
	"delete drift.holdfast.io remediations *":                        "retention: reconcilers/remediation",
	"update drift.holdfast.io remediations *":                        "a decision that changes while its record waits: reconcilers/remediation",
	"list drift.holdfast.io driftpolicies *":                         "an API server that streams no lists, before 1.34",
	"patch events.k8s.io events *":                                   "an event that repeats, as client-go writes it",
}

// ledger stands before the API server and notes what the program uses of its rights.
type ledger struct {
	url string
	ca  []byte

	mu   sync.Mutex
	used map[string]bool
}

func newLedger(t *testing.T, cfg *rest.Config) *ledger {
	t.Helper()
	anonymous := rest.AnonymousClientConfig(cfg) // whoever comes brings a token
	to := must(url.Parse(anonymous.Host))(t)
	l := &ledger{used: map[string]bool{}}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport, proxy.FlushInterval = must(rest.TransportFor(anonymous))(t), -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	requests := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	// By HTTPS: client-go sends no token otherwise.
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, err := requests.NewRequestInfo(r); err == nil && info.IsResourceRequest {
			l.note(info)
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

// note keeps a request in the form of [single].
func (l *ledger) note(info *request.RequestInfo) {
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[strings.Join([]string{info.Verb, info.APIGroup, resource}, " ")] = true
}

// uses tells whether anything was done that a right allows.
func (l *ledger) uses(right string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := strings.Split(right, " ") // verb, group, resource, name
	for used := range l.used {
		if u := strings.Split(used, " "); u[0] == part[0] && u[1] == part[1] && (u[2] == part[2] || part[2] == "*") {
			return true
		}
	}
	return false
}

// testRightsUsed: what the chart grants was used, or is known to be elsewhere. What
// is used beyond it is refused, and seen in the log (process.stop).
func testRightsUsed(t *testing.T, c *cluster) {
	rendered := must(c.helm(t, "3").template(t, "--set", "mode=enforce"))(t)
	granted := map[string]bool{}
	for _, u := range objects(t, rendered) {
		if strings.HasSuffix(u.GetKind(), "Role") && !strings.HasSuffix(u.GetName(), "-metrics-reader") {
			maps.Copy(granted, single(into[rbacv1.ClusterRole](t, u).Rules))
		}
	}
	for _, right := range slices.Sorted(maps.Keys(granted)) {
		_, known := elsewhere[right]
		switch used := c.ledger.uses(right); {
		case used && known:
			t.Errorf("%s is used here: strike it from the list of those that are not", right)
		case !used && !known:
			t.Errorf("%s is granted, and not used", right)
		}
	}
	for right := range elsewhere {
		if !granted[right] {
			t.Errorf("%s is not granted: strike it from the list", right)
		}
	}
}
