package alerts

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/capi"
	"github.com/holdfast-io/holdfast/test/controlplane"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/running"
	"github.com/holdfast-io/holdfast/test/sqssim"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // the API server warns of deprecated versions
	os.Exit(m.Run())
}

const (
	region    = "eu-central-1"
	queueName = "holdfast-events"
	workers   = 5
)

// world is a management cluster with one cluster on ec2sim, whose events reach
// the controller, and a Prometheus that scrapes it as a ServiceAccount.
type world struct {
	t          *testing.T
	client     client.Client
	kubeconfig string
	sim        *ec2sim.Server
	env        *awscluster.Environment
	environ    map[string]string
	// daemonKey and operator are the keys of the controller and of who tampers.
	daemonKey, operator ec2sim.Credential

	d *running.Daemon
	// certificates is the folder of the controller's, authority whom to believe.
	certificates, authority, metrics string
	policy                           settings
	prometheus                       *prometheus
	begun                            time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, metrics: freeAddress(t), begun: time.Now(), policy: settings{mode: "observe", approval: "none"}}
	w.certificates, w.authority = certificate(t)
	w.makeCloud()
	cfg := controlplane.Start(t)
	w.kubeconfig = running.Count(t, cfg).Kubeconfig
	scheme := capi.Scheme(corev1.AddToScheme, driftv1.AddToScheme, clusterv1.AddToScheme, capa.AddToScheme, controlplanev1.AddToScheme, bootstrapv1.AddToScheme)
	var err error
	if w.client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if err := running.Install(t.Context(), w.client, w.env.Objects()); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.kubectl("create", "clusterrole", "scraper", "--verb=get", "--non-resource-url=/metrics")
	w.kubectl("create", "clusterrolebinding", "scraper", "--clusterrole=scraper", "--serviceaccount=default:scraper")
	w.prometheus = startPrometheus(t, w.metrics, w.token("scraper"), w.authority, shortened(t))
	return w
}

func (w *world) makeCloud() {
	t := w.t
	t.Helper()
	key := func(id, user string) ec2sim.Credential {
		c := ec2sim.DefaultCredential()
		c.AccessKeyID, c.ARN = id, "arn:aws:iam::"+c.Account+":user/"+user
		return c
	}
	w.daemonKey, w.operator = key("AKIAHOLDFASTDAEMON00", "holdfast"), key("AKIAOPERATOR00000000", "operator")
	queues := sqssim.New(sqssim.Options{})
	t.Cleanup(queues.Close)
	queues.Create(queueName, time.Hour)
	var ready atomic.Bool
	w.sim = ec2sim.New(ec2sim.Options{Regions: []string{region}, Delays: &ec2sim.Delays{}, Credentials: []ec2sim.Credential{w.daemonKey, w.operator}, OnEvent: func(e ec2sim.Event) {
		if ready.Load() { // the building of the cluster is nobody's news
			queues.Send(queueName, e.Body)
		}
	}})
	t.Cleanup(w.sim.Close)
	image, err := w.sim.AddImage(w.sim.DefaultScope(region), ec2sim.Image{Name: "node"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := awscluster.Load(awsexamples.Files, awscluster.DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	w.env, err = awscluster.Build(t.Context(), awscluster.ClientsFrom(w.sim.ConfigFor(w.operator, region)), awscluster.Options{
		Manifest: m, Image: image, Poll: time.Millisecond, Simulator: w.sim, Workers: map[string]int32{m.Deployments[0].Name: workers},
	})
	if err != nil {
		t.Fatal(err)
	}
	ready.Store(true)
	w.environ = map[string]string{
		"AWS_ENDPOINT_URL": w.sim.URL(), "AWS_ENDPOINT_URL_SQS": queues.URL(),
		"AWS_ACCESS_KEY_ID": w.daemonKey.AccessKeyID, "AWS_SECRET_ACCESS_KEY": w.daemonKey.SecretAccessKey,
		"AWS_SESSION_TOKEN": "", "AWS_REGION": region, "AWS_PROFILE": "", "AWS_CONFIG_FILE": os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	}
}

// start runs the controller, with /metrics as users have it.
func (w *world) start() {
	w.t.Helper()
	w.d = running.Start(w.t, running.Options{Kubeconfig: w.kubeconfig, Environ: w.environ, Policy: w.policy.text(),
		Args: []string{"--metrics-secure=true", "--metrics-bind-address", w.metrics, "--metrics-cert-dir", w.certificates,
			"--aws-event-queue", queueName, "--verify-after", "1s", "--poll-interval", "1s"}})
}

// settings are what the tests change of the policy.
type settings struct {
	mode, approval string
	// expires, if not zero, is when drift of a tag stops to be accepted.
	expires time.Time
}

// text reads the cloud each minute, and acts on tags at once.
func (s settings) text() string {
	ignore := ""
	if !s.expires.IsZero() {
		ignore = fmt.Sprintf("  ignore:\n  - {paths: [/tags/Environment], reason: known, expiresAt: %q}\n", s.expires.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf(`apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: test}
spec:
  mode: %s
  schedule: {cron: "* * * * *", jitter: 0s, staleAfter: 90s}
  safety: {maxDriftRatio: 30%%, minHealthy: 0%%}
  rules:
  - {id: aws-instance-tags, action: patch, approval: %s, grace: {for: 0s, observations: 1}, attempts: {max: 2, per: 24h}}
%s`, s.mode, s.approval, ignore)
}

// follow changes the policy.
func (w *world) follow(s settings) {
	w.t.Helper()
	w.policy = s
	w.d.SetPolicy(w.t, s.text())
}

func (w *world) kubectl(args ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), controlplane.Kubectl(w.t), append([]string{"--kubeconfig", w.kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// holdfast runs a command of the program.
func (w *world) holdfast(args ...string) {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), running.Program(w.t), append(args, "--kubeconfig", w.kubeconfig)...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("holdfast %v: %v\n%s", args, err, out)
	}
}

// token makes a ServiceAccount and gives a token of it.
func (w *world) token(name string) string {
	w.t.Helper()
	w.kubectl("create", "serviceaccount", "-n", "default", name)
	return w.kubectl("create", "token", "-n", "default", name)
}

// scrape tells how /metrics answers somebody with a token, or without.
func (w *world) scrape(token string) int {
	w.t.Helper()
	pem, err := os.ReadFile(w.authority)
	if err != nil {
		w.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "https://"+w.metrics+"/metrics", http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}}
	r, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = r.Body.Close()
	return r.StatusCode
}

// sweep asks for one, as a person would.
func (w *world) sweep() {
	w.t.Helper()
	c := &clusterv1.Cluster{}
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(w.env.Cluster), c); err != nil {
		w.t.Fatal(err)
	}
	base := c.DeepCopy()
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, driftv1.AnnotationSweepNow, time.Now().Format(time.RFC3339Nano))
	if err := w.client.Patch(w.t.Context(), c, client.MergeFrom(base)); err != nil {
		w.t.Fatal(err)
	}
}

// tamper does one of the catalog, asks for a look, and gives what undoes it.
func (w *world) tamper(name string) (undo func()) {
	w.t.Helper()
	all := awscluster.Tampers()
	i := slices.IndexFunc(all, func(t awscluster.Tamper) bool { return t.Name == name })
	if i < 0 {
		w.t.Fatalf("there is no tamper %q", name)
	}
	damage, err := all[i].Do(w.t.Context(), w.env)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	w.sweep()
	return func() {
		w.t.Helper()
		if err := damage.Undo(w.t.Context()); err != nil {
			w.t.Fatalf("undo %s: %v", name, err)
		}
		w.sweep()
	}
}

// tag sets a tag of n workers.
func (w *world) tag(n int, value string) {
	w.t.Helper()
	var ids []string
	for i, m := range w.env.Machines {
		if m.Labels[clusterv1.MachineDeploymentNameLabel] == w.env.Deployments[0].Name && len(ids) < n {
			ids = append(ids, *w.env.AWSMachines[i].Spec.InstanceID)
		}
	}
	if len(ids) != n {
		w.t.Fatalf("there are %d workers, want %d", len(ids), n)
	}
	_, err := ec2.NewFromConfig(w.sim.ConfigFor(w.operator, region)).CreateTags(w.t.Context(), &ec2.CreateTagsInput{
		Resources: ids, Tags: []types.Tag{{Key: aws.String("Environment"), Value: aws.String(value)}}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.sweep()
}

// record waits for a Remediation in a phase.
func (w *world) record(phase driftv1.RemediationPhase) string {
	w.t.Helper()
	name := ""
	running.Eventually(w.t, 3*time.Minute, string(phase), func() error {
		list := &driftv1.RemediationList{}
		if err := w.client.List(w.t.Context(), list); err != nil {
			return err
		}
		var have []string
		for _, r := range list.Items {
			have = append(have, fmt.Sprintf("%s %s (%s)", r.Name, r.Status.Phase, r.Status.Reason))
			if r.Status.Phase == phase {
				name = r.Namespace + "/" + r.Name
				return nil
			}
		}
		return errors.New("there are " + strings.Join(have, ", "))
	})
	return name
}
