package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// refuses runs the program, which must fail and say so much.
func refuses(t *testing.T, o output, wants ...string) {
	t.Helper()
	if o.code == exitOK {
		t.Errorf("exit 0: %s", o.stdout)
	}
	for _, want := range wants {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("want %q in %s", want, o.stderr)
		}
	}
}

// TestFlagsThatThereAreNot: the error names the flag that is most like it, or
// where to look.
func TestFlagsThatThereAreNot(t *testing.T) {
	for args, want := range map[string]string{
		"status --metrcs x":                "unknown flag: --metrcs; did you mean --metrics?",
		"status --metrics-insec":           "did you mean --metrics-insecure?",
		"policy lint --outptu json x.yaml": "did you mean --output?",
		"report --cluser x":                "did you mean --cluster?",
		"controller --leader-elct":         "did you mean --leader-elect?",
		"sweep x --policy y":               "it is a flag of holdfast controller, holdfast policy explain, holdfast report",
		"status --zzzzzz":                  "holdfast status --help lists the flags",
		"status -z":                        "holdfast status --help lists the flags",
		"status prod":                      `holdfast status takes flags alone, and "prod" is none; -n narrows`,
		"report prod/eu":                   `holdfast report takes flags alone, and "prod/eu" is none; --cluster NAMESPACE/NAME`,
		"sweep":                            "no cluster is given: name some, or --all",
	} {
		refuses(t, holdfast(t, strings.Fields(args)...), want)
	}
}

// TestKubeconfigThatIsNotThere: the path that was looked at is named.
func TestKubeconfigThatIsNotThere(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nowhere")
	empty := write(t, "empty", "")
	for _, command := range []string{"status", "report", "sweep x", "remediations list", "controller"} {
		args := strings.Fields(command)
		t.Setenv("KUBECONFIG", missing)
		refuses(t, holdfast(t, args...), "KUBECONFIG names "+missing+", which does not exist")
		refuses(t, holdfast(t, append(args, "--kubeconfig", missing)...), "--kubeconfig", missing, "no such file")
		t.Setenv("KUBECONFIG", missing+string(filepath.ListSeparator)+empty)
		refuses(t, holdfast(t, args...), "KUBECONFIG names "+empty+", which has no clusters")
	}
}

// TestMetricsThatDoNotAnswer: what to do is said for each way in which
// /metrics can be missed.
func TestMetricsThatDoNotAnswer(t *testing.T) {
	code := http.StatusOK
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	secure, plain := httptest.NewUnstartedServer(handler), httptest.NewServer(handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	token := write(t, "token", "x")
	for name, c := range map[string]struct {
		flags statusFlags
		code  int
		want  string
	}{
		"a certificate of its own": {statusFlags{metrics: secure.URL + "/metrics"}, 200, "--metrics-insecure does not check it"},
		"no TLS":                   {statusFlags{metrics: strings.Replace(plain.URL, "http:", "https:", 1)}, 200, "no TLS is spoken there; write http://"},
		"TLS":                      {statusFlags{metrics: strings.Replace(secure.URL, "https:", "http:", 1)}, 200, "TLS is spoken there: write https://"},
		"no token":                 {statusFlags{metrics: plain.URL + "/metrics"}, 401, "--metrics-token"},
		"a bad token":              {statusFlags{metrics: plain.URL + "/metrics", tokenFile: token}, 401, "may have expired"},
		"no rights":                {statusFlags{metrics: plain.URL + "/metrics", tokenFile: token}, 403, "metrics.readers of the chart"},
		"another path":             {statusFlags{metrics: plain.URL}, 404, "at the path /metrics"},
		"nobody":                   {statusFlags{metrics: "http://" + freeAddress(t) + "/metrics"}, 200, "is kubectl port-forward running?"},
		"no scheme":                {statusFlags{metrics: "127.0.0.1:8443"}, 200, "write one such as https://127.0.0.1:8443/metrics"},
		"no address":               {statusFlags{metrics: "localhost"}, 200, "write one such as https://127.0.0.1:8443/metrics"},
	} {
		code = c.code
		if _, err := c.flags.scrape(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q: %v", name, c.want, err)
		}
	}
	code = http.StatusOK
	if _, err := (&statusFlags{metrics: secure.URL + "/metrics", insecure: true}).scrape(t.Context()); err != nil {
		t.Error(err)
	}
}

func (m *management) cluster(t *testing.T, namespace, name string) *clusterv1.Cluster {
	t.Helper()
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "h", Port: 6443}
	if err := client.IgnoreAlreadyExists(m.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})); err != nil {
		t.Fatal(err)
	}
	if err := m.client.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWhichCluster: a name alone is one in the current namespace, as with
// kubectl, and what is not there is told with where it is.
func TestWhichCluster(t *testing.T) {
	m := newManagement(t)
	run := func(args ...string) output { return holdfast(t, append(args, "--kubeconfig", m.kubeconfig)...) }
	refuses(t, run("sweep", "prod-eu"), "there is no cluster default/prod-eu, nor any other in any namespace")
	if o := run("sweep", "--all"); o.code != exitOK || o.stdout != "No clusters.\n" {
		t.Errorf("none at all: exit %d %s%s", o.code, o.stdout, o.stderr)
	}
	for _, name := range []string{"prod/prod-eu", "prod/prod-us", "test/prod-eu"} {
		ns, name, _ := strings.Cut(name, "/")
		m.cluster(t, ns, name)
	}
	refuses(t, run("sweep", "prod-us"), "there is no cluster default/prod-us, but prod/prod-us; the namespace is given as NAMESPACE/NAME or with -n")
	refuses(t, run("sweep", "prod-xx"), "there is no cluster default/prod-xx; namespace default has none, others have")
	refuses(t, run("sweep", "prod/prod-ue"), "there is no cluster prod/prod-ue; did you mean prod/prod-eu?")
	refuses(t, run("sweep", "other", "-n", "prod"), "namespace prod has prod-eu, prod-us")
	refuses(t, run("sweep", "prod-ue", "-A"), `there is no cluster "prod-ue" in any namespace; did you mean prod-eu?`)
	refuses(t, run("sweep", "prod/"), "write NAMESPACE/NAME")
	refuses(t, run("sweep", "prod/prod-eu", "-n", "test"), "another namespace than -n test says")
	for args, want := range map[string]string{
		"sweep prod-us -n prod":         "prod/prod-us",
		"sweep prod/prod-us":            "prod/prod-us",
		"sweep prod-eu -A":              "prod/prod-eu test/prod-eu",
		"sweep prod-us test/prod-eu -A": "prod/prod-us test/prod-eu",
		"sweep -A":                      "prod/prod-eu prod/prod-us test/prod-eu",
		"sweep --all":                   "prod/prod-eu prod/prod-us test/prod-eu",
		"sweep --all -n test":           "test/prod-eu",
	} {
		o := run(strings.Fields(args)...)
		var all string
		for _, each := range strings.Fields(want) {
			all += "cluster " + each + ": sweep requested\n"
		}
		if o.code != exitOK || len(o.stdout) != len(all) || !containsLines(o.stdout, all) {
			t.Errorf("%s: exit %d, want\n%s, got\n%s%s", args, o.code, all, o.stdout, o.stderr)
		}
	}
	if o := run("status", "-n", "empty"); o.stdout != "No clusters in namespace empty; -A looks in all.\n" {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}
	if o := run("status", "-A"); !strings.Contains(o.stdout, "test/prod-eu") {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}

	created := record("waits", v1alpha1.PhaseAwaitingApproval)
	if err := m.client.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"show", "approve", "deny", "retry"} {
		refuses(t, run("remediations", verb, "waits"), "there is no remediation default/waits, but prod/waits")
	}
	if err := m.client.Get(t.Context(), client.ObjectKeyFromObject(created), created); err != nil || created.Spec.Approved != nil {
		t.Errorf("answered all the same: %+v %v", created.Spec.Approved, err)
	}
}

func containsLines(got, want string) bool {
	for line := range strings.Lines(want) {
		if !strings.Contains(got, line) {
			return false
		}
	}
	return true
}
