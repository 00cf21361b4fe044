package canary

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	capv "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	vsphereexamples "github.com/holdfast-io/holdfast/examples/vsphere"
	"github.com/holdfast-io/holdfast/report"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/capi"
	"github.com/holdfast-io/holdfast/test/controlplane"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/running"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // the API server warns of deprecated versions
	os.Exit(m.Run())
}

// Secrets, each of which must show nowhere. They hold letters that encodings
// change.
const (
	canaryUserData   = "canary/user+data=7d1f0c&e2b94a66"
	canaryBootstrap  = "canary/bootstrap+token=93ab51&0f7c2d"
	canaryAWSKey     = "canary/aws+secret=b0c4d8&61e37f9a25"
	canaryAWSSession = "canary/aws+session=5a9e13&c70d46b8f2"
	canaryGuest      = "canary/guestinfo+userdata=e81f&3c05"
	canaryOption     = "canary/vmx+password=2f64ce&90ab17d3"
	canaryChanged    = "canary/vmx+tampered=d83b05&47ac91fe"
	canaryRoute      = "canaryroutetoken58d0c37e"
	canaryDeadRoute  = "canarydeadroute1b96f4a2"
	canaryWrong      = "canary/wrong+password=c61d&88e0b3a4"
)

func canaries() []string {
	return []string{canaryUserData, canaryBootstrap, canaryAWSKey, canaryAWSSession, canaryGuest, canaryOption, canaryChanged,
		canaryRoute, canaryDeadRoute, canaryWrong, vspherecluster.Password}
}

// world is one management cluster with a cluster on each cloud, and somebody
// who is told.
type world struct {
	client     client.WithWatch
	kubeconfig string
	sim        *ec2sim.Server
	aws        *awscluster.Environment
	vsphere    *vspherecluster.Environment
	operator   ec2sim.Credential
	static     ec2sim.Credential
	hook       *hook
	config     string
}

const region = "eu-central-1"

// hook takes notifications.
type hook struct {
	mu     sync.Mutex
	bodies []string
}

func (h *hook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bodies = append(h.bodies, string(body))
}

func (h *hook) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.bodies)
}

// newWorld makes it, with machines in all on AWS.
func newWorld(t *testing.T, machines int32) *world {
	t.Helper()
	w := &world{hook: &hook{}}
	w.makeAWS(t, machines)
	w.makeVSphere(t)
	cfg := controlplane.Start(t)
	w.kubeconfig = running.Count(t, cfg).Kubeconfig
	scheme := capi.Scheme(corev1.AddToScheme, eventsv1.AddToScheme, driftv1.AddToScheme, clusterv1.AddToScheme, capa.AddToScheme, capv.AddToScheme,
		controlplanev1.AddToScheme, controlplanev1beta1.AddToScheme, bootstrapv1.AddToScheme, bootstrapv1beta1.AddToScheme)
	var err error
	if w.client, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	objects := append(w.secrets(), w.aws.Objects()...)
	if err := running.Install(t.Context(), w.client, append(objects, w.vsphere.Objects()...)); err != nil {
		t.Fatal(err)
	}
	w.routes(t)
	return w
}

func (w *world) makeAWS(t *testing.T, machines int32) {
	t.Helper()
	key := func(id, secret, token string) ec2sim.Credential {
		c := ec2sim.DefaultCredential()
		c.AccessKeyID, c.SecretAccessKey, c.SessionToken = id, secret, token
		return c
	}
	w.operator, w.static = key("AKIAOPERATOR00000000", "nothing to hide", ""), key("AKIASTATIC0000000000", canaryAWSKey, canaryAWSSession)
	w.sim = ec2sim.New(ec2sim.Options{Regions: []string{region}, Delays: &ec2sim.Delays{}, Credentials: []ec2sim.Credential{w.operator, w.static}})
	t.Cleanup(w.sim.Close)
	image, err := w.sim.AddImage(w.sim.DefaultScope(region), ec2sim.Image{Name: "node"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := awscluster.Load(awsexamples.Files, awscluster.DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	w.aws, err = awscluster.Build(t.Context(), awscluster.ClientsFrom(w.sim.ConfigFor(w.operator, region)), awscluster.Options{
		Manifest: m, Image: image, Poll: time.Millisecond, Simulator: w.sim,
		Workers:  map[string]int32{m.Deployments[0].Name: machines - 5},
		UserData: func(string) string { return "password: " + canaryUserData + "\n" },
		Edit: func(m *awscluster.Manifest) {
			m.AWSCluster.Spec.IdentityRef = &capa.AWSIdentityReference{Kind: capa.ClusterStaticIdentityKind, Name: "static"}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) makeVSphere(t *testing.T) {
	t.Helper()
	v, err := vspherecluster.StartVCenter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	m, err := vspherecluster.Load(vsphereexamples.Files, vspherecluster.DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	w.vsphere, err = vspherecluster.Build(t.Context(), v, vspherecluster.Options{Manifest: m, Edit: func(m *vspherecluster.Manifest) {
		for _, template := range m.MachineTemplates {
			template.Spec.Template.Spec.CustomVMXKeys = map[string]string{
				"disk.enableUUID": "TRUE", "guestinfo.userdata": canaryGuest, "vendor.password": canaryOption, "vendor.note": canaryOption + " in a sentence",
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// secrets are the bootstrap data of every machine and the static identity.
func (w *world) secrets() []client.Object {
	access := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "capa-system", Name: "static"}, Data: map[string][]byte{
		"AccessKeyID": []byte(w.static.AccessKeyID), "SecretAccessKey": []byte(canaryAWSKey), "SessionToken": []byte(canaryAWSSession)}}
	identity := &capa.AWSClusterStaticIdentity{ObjectMeta: metav1.ObjectMeta{Name: "static"}}
	identity.Spec.SecretRef, identity.Spec.AllowedNamespaces = "static", &capa.AllowedNamespaces{}
	out := []client.Object{access}
	for _, machines := range [][]*clusterv1.Machine{w.aws.Machines, w.vsphere.Machines} {
		for _, m := range machines {
			out = append(out, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}, Data: map[string][]byte{"value": []byte(canaryBootstrap)}})
		}
	}
	return append(out, identity)
}

// routes writes the configuration: a webhook that takes what it is told, by a
// URL with a token, and one that nobody answers.
func (w *world) routes(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(w.hook)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	host := strings.TrimPrefix(server.URL, "http://")
	good := write("good", "generic+http://"+host+"/"+canaryRoute+"?template=json")
	dead := write("dead", "generic+http://user:"+canaryDeadRoute+"@127.0.0.1:1/"+canaryDeadRoute+"?template=json&token="+canaryDeadRoute)
	w.config = write("config.yaml", fmt.Sprintf(`apiVersion: drift.holdfast.io/v1alpha1
kind: ControllerConfiguration
logLevel: trace
notify:
  routes:
  - {name: good, url: {file: %s}, rate: {every: 1s, burst: 20}}
  - {name: dead, url: {file: %s}, rate: {every: 1s, burst: 20}}
`, good, dead))
}

func (w *world) environ() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL": w.sim.URL(), "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_REGION": region,
		"AWS_PROFILE": "", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	}
}

func (w *world) start(t *testing.T, mode string) *running.Daemon {
	t.Helper()
	return running.Start(t, running.Options{Kubeconfig: w.kubeconfig, Environ: w.environ(), Policy: policy(mode, 0),
		Args: []string{"--config", w.config, "--verify-after", "1s", "--poll-interval", "1s"}})
}

// policy acts at once; n makes policies differ that say the same.
func policy(mode string, n int) string {
	return fmt.Sprintf(`apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: test}
spec:
  mode: %s
  schedule: {cron: "0 0 1 1 *", jitter: 0s, staleAfter: 9000h}
  safety: {maxDriftRatio: 100%%, minHealthy: 0%%}
  rules:
  - {id: aws-instance-tags, action: patch, grace: {for: 0s, observations: 1}}
  - {id: vsphere-vm-extra-config, action: patch, grace: {for: 0s, observations: 1}}
  - {id: test, target: {id: i-%08d}, action: observe}
`, mode, n)
}

// sweep has everything read again, and waits until it is.
func (w *world) sweep(t *testing.T, d *running.Daemon, mode string, n int) {
	t.Helper()
	before := d.Reads(t, "PolicyChanged")
	d.SetPolicy(t, policy(mode, n))
	running.Eventually(t, 3*time.Minute, "swept", func() error {
		if now := d.Reads(t, "PolicyChanged"); now < before+2 { // one for each cloud
			return fmt.Errorf("%d reads", now-before)
		}
		return nil
	})
}

// machinesDrift waits until so many Machines drift.
func (w *world) machinesDrift(t *testing.T, want func(int) bool) {
	t.Helper()
	running.Eventually(t, 2*time.Minute, "on the conditions", func() error {
		list := &clusterv1.MachineList{}
		if err := w.client.List(t.Context(), list); err != nil {
			return err
		}
		n := 0
		for i := range list.Items {
			for _, c := range list.Items[i].Status.Conditions {
				if c.Type == driftv1.ConditionDriftDetected && c.Status == metav1.ConditionTrue {
					n++
				}
			}
		}
		if !want(n) {
			return fmt.Errorf("%d machines drift", n)
		}
		return nil
	})
}

// sinks gives all that shows somewhere, by where.
func (w *world) sinks(ctx context.Context, t *testing.T, d *running.Daemon) map[string]string {
	t.Helper()
	out := map[string]string{"log": d.Log(), "metrics": d.Page(t), "notifications": strings.Join(w.hook.all(), "\n")}
	for name, list := range w.lists() {
		if err := w.client.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		out[name] = statuses(t, list)
	}
	return out
}

func (w *world) lists() map[string]client.ObjectList {
	return map[string]client.ObjectList{
		"events": &eventsv1.EventList{}, "core events": &corev1.EventList{}, "Remediations": &driftv1.RemediationList{}, "DriftPolicies": &driftv1.DriftPolicyList{},
		"Machines": &clusterv1.MachineList{}, "Clusters": &clusterv1.ClusterList{}, "AWSMachines": &capa.AWSMachineList{}, "AWSClusters": &capa.AWSClusterList{},
		"VSphereMachines": &capv.VSphereMachineList{}, "VSphereClusters": &capv.VSphereClusterList{},
	}
}

// statuses leaves the specs of others' objects out: VMX keys stand in them.
func statuses(t *testing.T, list client.ObjectList) string {
	t.Helper()
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Items []map[string]any }
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, o := range all.Items {
		switch list.(type) {
		case *eventsv1.EventList, *corev1.EventList, *driftv1.RemediationList:
		default:
			delete(o, "spec")
		}
		if meta, ok := o["metadata"].(map[string]any); ok {
			delete(meta, "managedFields")
			if annotations, ok := meta["annotations"].(map[string]any); ok {
				delete(annotations, corev1.LastAppliedConfigAnnotation)
			}
		}
	}
	out := &strings.Builder{}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(all.Items); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// reports gives the report in every format, and what the program's other
// commands say of the cluster.
func (w *world) reports(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, format := range report.Formats() {
		out["report "+format] = w.command(t, "report", "--kubeconfig", w.kubeconfig, "-o", format)
	}
	out["status"] = w.command(t, "status", "--kubeconfig", w.kubeconfig)
	out["remediations list"] = w.command(t, "remediations", "list", "--kubeconfig", w.kubeconfig, "-A")
	list := &driftv1.RemediationList{}
	if err := w.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items[:min(5, len(list.Items))] {
		r := &list.Items[i]
		out["remediations show "+r.Name] = w.command(t, "remediations", "show", "--kubeconfig", w.kubeconfig, r.Namespace+"/"+r.Name)
	}
	return out
}

// command gives what one prints. Its exit status says that there is drift.
func (w *world) command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), running.Program(t), args...)
	cmd.Env = os.Environ()
	for key, value := range w.environ() {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); err != nil && code != 1 && code != 3 {
		t.Errorf("holdfast %s: %v\n%.2000s", strings.Join(args, " "), err, out)
	}
	if len(out) == 0 {
		t.Errorf("holdfast %s printed nothing", strings.Join(args, " "))
	}
	return string(out)
}
