package e2e

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/capi"
	"github.com/holdfast-io/holdfast/test/controlplane"
	"github.com/holdfast-io/holdfast/test/moto"
	"github.com/holdfast-io/holdfast/test/running"
)

// motoNotStopped are tampers for whose repair the machine is stopped, which the
// daemon does not do before its node is emptied: here no workload cluster
// answers, and the simulator is the place for that.
var motoNotStopped = []string{"instance type changed", "second interface declared"}

// The rows that moto can show, on moto: the EC2 and Elastic Load Balancing that
// this project did not write. The objects are those of the examples as a backup
// restores them; no Cluster API runs beside the daemon.
func TestMotoRowsAreSetBack(t *testing.T) {
	long(t)
	t.Parallel()
	ctx := t.Context()
	server, err := moto.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	gate := newMotoGate(t, server.URL)
	cfg := controlplane.Start(t)
	c, err := client.New(cfg, client.Options{Scheme: capi.Scheme(corev1.AddToScheme, eventsv1.AddToScheme, driftv1.AddToScheme, clusterv1.AddToScheme,
		awsv1.AddToScheme, controlplanev1.AddToScheme, bootstrapv1.AddToScheme)})
	if err != nil {
		t.Fatal(err)
	}
	drifted := cover(aws.Registration().Catalog)
	policy := setBackOn("aws")
	var worlds []*world
	var plays []*awsRows
	for _, example := range []string{awscluster.DefaultExample, "dev-classic.yaml"} {
		env := motoCluster(ctx, t, server.URL, example)
		if err := running.Install(ctx, c, env.Objects()); err != nil {
			t.Fatal(err)
		}
		play := &awsRows{t: t, env: env, example: example, orphans: true, skip: func(x *awscluster.Tamper) string { return x.NotOnMoto }}
		play.push = edits(c, awsObjects(env))
		plays = append(plays, play)
		worlds = append(worlds, &world{
			t: t, client: c, namespace: env.Cluster.Namespace, cluster: env.Cluster.Name, policy: policy, mutations: gate.mutations, drifted: drifted,
			eventually: func(ctx context.Context, what string, condition func(context.Context) error) {
				t.Helper()
				begun := time.Now()
				running.Eventually(t, 5*time.Minute, what, func() error { return condition(ctx) })
				t.Logf("%s: %s after %.1fs", env.Cluster.Name, what, time.Since(begun).Seconds())
			},
		})
	}
	d := launch(t, motoEnviron(gate.url, running.Count(t, cfg).Kubeconfig), strings.ReplaceAll(policy, "MODE", "observe"),
		"--nodes=false", // there is no workload cluster to read
		"--leader-election-namespace", "default")
	for i, w := range worlds {
		w.d = d
		w.quiet(ctx)
		var rows, once []*row
		for _, r := range plays[i].rows(motoPatched(plays[i].example)) {
			if r.touches = awsOnce[r.name]; len(r.touches) > 0 {
				once = append(once, r)
			} else {
				rows = append(rows, r)
			}
		}
		plays[i].rehearse(ctx, rows)
		w.sweep(ctx)
		w.quiet(ctx)
		for _, batch := range slices.Concat(batches(rows), batches(once)) {
			w.play(ctx, batch, w.repaired)
		}
	}
	orphans := plays[0].rows(awsOrphans)
	plays[0].rehearse(ctx, orphans)
	for _, batch := range batches(orphans) {
		worlds[0].play(ctx, batch, worlds[0].left)
	}
	worlds[0].lose(ctx, plays[0].rows([]string{"security group deleted"}))
	drifted.check(t, awsPlayed)
}

// motoPatched are the tampers of the tables that moto can play, and shows to be
// mended.
func motoPatched(example string) (names []string) {
	played := slices.Concat(awsPatched, awsClassicPatched, slices.Collect(maps.Keys(awsOnce)), []string{"internet gateway detached"})
	for _, x := range awscluster.Tampers() {
		if slices.Contains(played, x.Name) && x.On() == example && x.NotOnMoto == "" && x.NotMendedOnMoto == "" && !slices.Contains(motoNotStopped, x.Name) {
			names = append(names, x.Name)
		}
	}
	return names
}

func motoCluster(ctx context.Context, t *testing.T, endpoint, example string) *awscluster.Environment {
	t.Helper()
	m, err := awscluster.Load(awsexamples.Files, example)
	if err != nil {
		t.Fatal(err)
	}
	env, err := awscluster.Build(ctx, awscluster.NewClients(endpoint, m.AWSCluster.Spec.Region), awscluster.Options{Manifest: m, OnMoto: true})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func motoEnviron(endpoint, kubeconfig string) []string {
	return append(os.Environ(), "KUBECONFIG="+kubeconfig, "AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID=AKIAEXAMPLEEXAMPLE00", "AWS_SECRET_ACCESS_KEY=example",
		"AWS_SESSION_TOKEN=", "AWS_REGION=eu-central-1", "AWS_PROFILE=", "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
		"AWS_EC2_METADATA_DISABLED=true")
}

// motoGate stands before moto, which keeps no log, and has the daemon's calls
// that are no reads.
type motoGate struct {
	url string

	mu      sync.Mutex
	mutated []string
}

func newMotoGate(t *testing.T, endpoint string) *motoGate {
	t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	g := &motoGate{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		form, _ := url.ParseQuery(string(body))
		g.note(form.Get("Action"))
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

func (g *motoGate) note(action string) {
	for _, read := range []string{"Describe", "Get", "List"} {
		if action == "" || strings.HasPrefix(action, read) {
			return
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mutated = append(g.mutated, action)
}

func (g *motoGate) mutations() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.mutated)
}
