package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/controlplane"
)

// daemon is a running `holdfast controller`.
type daemon struct {
	cmd     *exec.Cmd
	log     *syncBuffer
	metrics string
	probes  string
	done    chan error
}

// syncBuffer takes a process's output while a test reads it.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-binary-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "holdfast")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// binary is the program as users run it.
func binary(t *testing.T) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startDaemon runs the program until the test ends.
func startDaemon(t *testing.T, kubeconfig string, args ...string) *daemon {
	t.Helper()
	d := &daemon{log: &syncBuffer{}, metrics: freeAddress(t), probes: freeAddress(t), done: make(chan error, 1)}
	d.cmd = exec.Command(binary(t), append([]string{"controller", "--kubeconfig", kubeconfig, "--leader-election-namespace", "default",
		"--metrics-bind-address", d.metrics, "--health-probe-bind-address", d.probes, "--start-spread", "0s", "--log-level", "info"}, args...)...)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.done <- d.cmd.Wait() }()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("holdfast controller:\n%s", d.log)
		}
	})
	return d
}

// stop ends it as Kubernetes does, and gives its exit code.
func (d *daemon) stop(t *testing.T) int {
	t.Helper()
	begun := time.Now()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.done:
	case <-time.After(15 * time.Second):
		t.Fatal("still running 15s after SIGTERM")
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s to stop", took)
	}
	return d.cmd.ProcessState.ExitCode()
}

// eventually waits for something, and says what is missing if it does not come.
func eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	const patience = 60 * time.Second
	var err error
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(100 * time.Millisecond) {
		if err = ok(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func (d *daemon) probe(path string) error {
	res, err := http.Get("http://" + d.probes + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s", path, res.StatusCode, body)
	}
	return nil
}

// scrape reads /metrics with a token.
func (d *daemon) scrape(t *testing.T, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+d.metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} // self-signed
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// management is an API server with the example clusters' objects.
type management struct {
	cfg        *rest.Config
	kubeconfig string
	client     client.Client
}

func newManagement(t *testing.T, objects ...client.Object) *management {
	t.Helper()
	m := &management{cfg: controlplane.Start(t)}
	m.kubeconfig = writeKubeconfig(t, m.cfg)
	kinds, err := inventory.NewKinds(registrations(true)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, coordinationv1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(kinds.Scheme()); err != nil {
			t.Fatal(err)
		}
	}
	if m.client, err = client.New(m.cfg, client.Options{Scheme: kinds.Scheme()}); err != nil {
		t.Fatal(err)
	}
	m.install(t, objects...)
	return m
}

// install creates objects with their status.
func (m *management) install(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if ns := o.GetNamespace(); ns != "" {
			err := m.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
		created := o.DeepCopyObject().(client.Object)
		created.SetResourceVersion("")
		created.SetUID("")
		if err := m.client.Create(t.Context(), created); runtime.IsNotRegisteredError(err) {
			continue // bootstrap objects: nothing here reads them
		} else if err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
		full := o.DeepCopyObject().(client.Object)
		full.SetResourceVersion(created.GetResourceVersion())
		full.SetUID(created.GetUID())
		if err := m.client.Status().Update(t.Context(), full); client.IgnoreNotFound(err) != nil {
			t.Fatalf("status of %T %s: %v", o, o.GetName(), err)
		}
		if machine, ok := full.(*clusterv1.Machine); ok {
			m.join(t, machine)
		}
	}
}

// join makes a Machine's Node, and the Secret by which its cluster is reached: the
// API server is all clusters' at once.
func (m *management) join(t *testing.T, machine *clusterv1.Machine) {
	t.Helper()
	if machine.Status.NodeRef.Name == "" {
		return
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Status.NodeRef.Name}, Spec: corev1.NodeSpec{ProviderID: machine.Spec.ProviderID}}
	if err := m.client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	node.Status.NodeInfo.KubeletVersion = machine.Spec.Version
	if err := m.client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(m.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.Spec.ClusterName + "-kubeconfig"}, Data: map[string][]byte{"value": kubeconfig}}
	if err := m.client.Create(t.Context(), secret); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// condition gives a Machine's condition, or an error that says what there is.
func (m *management) condition(ctx context.Context, key client.ObjectKey, status metav1.ConditionStatus) error {
	machine := &clusterv1.Machine{}
	if err := m.client.Get(ctx, key, machine); err != nil {
		return err
	}
	c := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.ConditionDriftDetected)
	if c == nil || c.Status != status {
		return fmt.Errorf("Machine %s has %+v, want %s", key, c, status)
	}
	return nil
}

// sweepNow asks as a person would with kubectl.
func (m *management) sweepNow(t *testing.T, c client.Object, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationSweepNow, value)
	if err := m.client.Patch(t.Context(), c.DeepCopyObject().(client.Object), client.RawPatch(client.Merge.Type(), []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// kubectl runs the real one.
func (m *management) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), controlplane.Kubectl(t), append([]string{"--kubeconfig", m.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// token makes a ServiceAccount and gives a token of it.
func (m *management) token(t *testing.T, name string) string {
	t.Helper()
	m.kubectl(t, "", "create", "serviceaccount", "-n", "default", name)
	return m.kubectl(t, "", "create", "token", "-n", "default", name)
}

// scraper gives the token of somebody who may read metrics.
func (m *management) scraper(t *testing.T) string {
	t.Helper()
	m.kubectl(t, "", "create", "clusterrole", "scraper", "--verb=get", "--non-resource-url=/metrics")
	m.kubectl(t, "", "create", "clusterrolebinding", "scraper", "--clusterrole=scraper", "--serviceaccount=default:scraper")
	return m.token(t, "scraper")
}

// observer gives the kubeconfig of a ServiceAccount that may do exactly what
// docs/controller-observe.yaml says.
func (m *management) observer(t *testing.T) string {
	t.Helper()
	m.kubectl(t, "", "create", "namespace", "holdfast-system")
	m.bind(t, "controller-observe.yaml")
	return m.account(t)
}

// bind gives the ServiceAccount the roles of a file of docs.
func (m *management) bind(t *testing.T, file string) {
	t.Helper()
	for _, role := range rolesOf(t, file) {
		m.kubectl(t, toJSON(t, role), "apply", "-f", "-")
		kind := strings.ToLower(role.GetKind())
		args := []string{"create", kind + "binding", role.GetName(), "--" + kind + "=" + role.GetName(), "--serviceaccount=default:holdfast"}
		if kind == "role" {
			args = append(args, "-n", role.GetNamespace())
		}
		m.kubectl(t, "", args...)
	}
}

// rolesOf reads a file of docs.
func rolesOf(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, doc := range strings.Split(string(data), "\n---\n") {
		role := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &role.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, role)
	}
	return out
}

// account gives the kubeconfig of the ServiceAccount.
func (m *management) account(t *testing.T) string {
	t.Helper()
	cfg := rest.AnonymousClientConfig(m.cfg)
	k := clientcmdapi.NewConfig()
	k.Clusters["test"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	k.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: m.token(t, "holdfast")}
	k.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	k.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "account")
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// tamperMachine does one of the careless operator's things to one machine, and
// gives its Machine.
func (w *awsWorld) tamperMachine(t *testing.T, name string) client.ObjectKey {
	t.Helper()
	for _, tamper := range awscluster.Tampers() {
		if tamper.Name != name {
			continue
		}
		damage, err := tamper.Do(t.Context(), w.env)
		if err != nil {
			t.Fatal(err)
		}
		w.built = len(w.sim.Mutations())
		for i, a := range w.env.AWSMachines {
			if "AWSMachine/"+a.Name == damage.Findings[0].Owner {
				return client.ObjectKeyFromObject(w.env.Machines[i])
			}
		}
	}
	t.Fatalf("no tamper %q of a machine", name)
	return client.ObjectKey{}
}

// TestController runs the program against a real API server and ec2sim, from
// start to SIGTERM.
func TestController(t *testing.T) {
	w := newAWSWorld(t)
	m := newManagement(t, w.env.Objects()...)
	d := startDaemon(t, m.observer(t), "--leader-election-namespace", "holdfast-system")
	eventually(t, "ready", func() error { return d.probe("/readyz") })
	if err := d.probe("/healthz"); err != nil {
		t.Error(err)
	}
	worker := client.ObjectKeyFromObject(w.env.Machines[len(w.env.Machines)-1])
	eventually(t, "in sync", func() error { return m.condition(t.Context(), worker, metav1.ConditionFalse) })

	token := m.scraper(t)
	before := revisions(t, m.client)
	m.sweepNow(t, w.env.Cluster, "1")
	eventually(t, "a second sweep", func() error {
		if code, body := d.scrape(t, token); code != http.StatusOK || !strings.Contains(body, `holdfast_reads_total{provider="aws",reason="Requested"} 1`) {
			return fmt.Errorf("%d, and not counted", code)
		}
		return nil
	})
	for name, revision := range revisions(t, m.client) {
		if before[name] != revision && !strings.Contains(name, ".Cluster ") && !strings.Contains(name, "Event") {
			t.Errorf("a sweep without a change has written %s", name)
		}
	}

	machine := w.tamperMachine(t, "tag changed")
	cluster := w.env.Cluster.Namespace + "/" + w.env.Cluster.Name
	if o := holdfast(t, "sweep", cluster, "--wait", "--kubeconfig", m.kubeconfig); o.code != exitOK || !strings.Contains(o.stdout, "cluster "+cluster+": swept") {
		t.Fatalf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if err := m.condition(t.Context(), machine, metav1.ConditionTrue); err != nil {
		t.Errorf("after the answer: %v", err)
	}
	status := holdfast(t, "status", "--kubeconfig", m.kubeconfig, "--metrics", "https://"+d.metrics+"/metrics", "--metrics-token", write(t, "token", token), "--metrics-insecure")
	for _, want := range []string{cluster, "Drifted", " ago", "100%", "AWSMachine "} {
		if !strings.Contains(status.stdout, want) {
			t.Errorf("status lacks %q: %s%s", want, status.stdout, status.stderr)
		}
	}
	eventually(t, "an event", func() error {
		list := &eventsv1.EventList{}
		if err := m.client.List(t.Context(), list, client.InNamespace(machine.Namespace)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "DriftDetected" && e.Regarding.Kind == "Machine" && e.Regarding.Name == machine.Name {
				return nil
			}
		}
		return fmt.Errorf("none of %d events", len(list.Items))
	})
	if code, _ := d.scrape(t, ""); code != http.StatusUnauthorized {
		t.Errorf("metrics without a token: %d", code)
	}
	if code, _ := d.scrape(t, m.token(t, "nobody")); code != http.StatusForbidden {
		t.Errorf("metrics for somebody without permission: %d", code)
	}
	if _, body := d.scrape(t, token); !strings.Contains(body, `holdfast_findings{action="patch",cluster_name="`+w.env.Cluster.Name+`"`) ||
		!strings.Contains(body, `holdfast_cloud_api_calls_total{code="",operation="ec2:DescribeInstances",provider="aws"}`) {
		t.Errorf("metrics lack the finding or the calls:\n%s", body)
	}
	w.unchanged(t)
	if code := d.stop(t); code != exitOK {
		t.Errorf("exit %d after SIGTERM, want 0", code)
	}
	lease := &coordinationv1.Lease{}
	if err := m.client.Get(t.Context(), client.ObjectKey{Namespace: "holdfast-system", Name: "holdfast"}, lease); err != nil {
		t.Fatal(err)
	}
	if h := lease.Spec.HolderIdentity; h != nil && *h != "" {
		t.Errorf("the lease is still %s's", *h)
	}
	if strings.Contains(d.log.String(), "forbidden") {
		t.Error("docs/controller-observe.yaml does not allow all that it needs")
	}
	for _, line := range strings.Split(d.log.String(), "\n") {
		if strings.Contains(line, "panic") || strings.Contains(line, `"level":"error"`) {
			t.Errorf("the log has errors: %s", line)
		}
	}
}
