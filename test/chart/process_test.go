package chart

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/holdfast-io/holdfast/test/running"
)

// process is the program as the chart's pod would run it: as its ServiceAccount,
// with its arguments, configuration and policies. This test is its kubelet.
type process struct {
	c                         *cluster
	cmd                       *exec.Cmd
	log                       *output
	done                      chan struct{}
	policies, metrics, probes string
	webhooks                  string // if it serves any
	configMap, reader         string
	mounts                    int
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs what the release's Deployment says until the test ends, and returns
// when it is ready.
func (c *cluster) start(t *testing.T, environ ...string) *process {
	t.Helper()
	return c.startWith(t, nil, environ...)
}

// startWith is start, with more flags for addresses that the pod would have.
func (c *cluster) startWith(t *testing.T, flags []string, environ ...string) *process {
	t.Helper()
	spec := must(get[appsv1.Deployment](t.Context(), c, namespace, release))(t).Spec.Template.Spec
	container := spec.Containers[0]
	p := &process{c: c, log: &output{}, done: make(chan struct{}), policies: t.TempDir(), metrics: freeAddress(t), probes: freeAddress(t)}
	for _, v := range spec.Volumes {
		if v.Name == "policies" {
			p.configMap = v.ConfigMap.Name
		}
	}
	p.mount(t)
	config := must(get[corev1.ConfigMap](t.Context(), c, namespace, release+"-config"))(t).Data["config.yaml"]
	// Places in the container are others here; addresses are given as flags.
	config = strings.ReplaceAll(config, "/etc/holdfast/policies", p.policies)
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, a := range container.Args {
		args = append(args, strings.ReplaceAll(a, "/etc/holdfast/config/config.yaml", path))
	}
	p.reader = c.kubectl(t, "create", "token", "-n", "monitoring", "prometheus-k8s")
	args = append(append(args, flags...), "--kubeconfig", c.account(t, spec.ServiceAccountName), "--metrics-bind-address", p.metrics, "--health-probe-bind-address", p.probes)
	p.cmd = exec.Command(running.Program(t), args...)
	p.cmd.Env = append(os.Environ(), environ...)
	for _, e := range container.Env {
		p.cmd.Env = append(p.cmd.Env, e.Name+"="+e.Value+downward(t, &e))
	}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // its state says how it ended
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended where all went well
		<-p.done
		if t.Failed() {
			t.Logf("holdfast %v:\n%s", args, p.log)
		}
	})
	running.Eventually(t, patience, "ready", func() error {
		select {
		case <-p.done:
			t.Fatalf("the program has ended: %s", p.cmd.ProcessState)
		default:
		}
		_, err := fetch("http://"+p.probes+"/readyz", "")
		return err
	})
	return p
}

// account is the kubeconfig of the chart's ServiceAccount, through the ledger.
func (c *cluster) account(t *testing.T, name string) string {
	t.Helper()
	k := clientcmdapi.NewConfig()
	k.Clusters["test"] = &clientcmdapi.Cluster{Server: c.ledger.url, CertificateAuthorityData: c.ledger.ca}
	k.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: c.kubectl(t, "create", "token", "-n", namespace, name)}
	k.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	k.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// mount brings the policies' folder to what the ConfigMap holds now, as the kubelet
// does: files are links into a folder behind ..data, and that link is exchanged
// (kubernetes/pkg/volume/util/atomic_writer.go, AtomicWriter).
func (p *process) mount(t *testing.T) {
	t.Helper()
	data := must(get[corev1.ConfigMap](t.Context(), p.c, namespace, p.configMap))(t).Data
	p.mounts++
	now := fmt.Sprintf("..2026_11_30_%d", p.mounts)
	if err := os.Mkdir(filepath.Join(p.policies, now), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range data {
		if err := os.WriteFile(filepath.Join(p.policies, now, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	swapped := filepath.Join(p.policies, "..data_tmp")
	if err := os.Symlink(now, swapped); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(swapped, filepath.Join(p.policies, "..data")); err != nil {
		t.Fatal(err)
	}
	for name := range data {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(p.policies, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
}

// has wants a line of /metrics, read by HTTPS as whoever metrics.readers names.
func (p *process) has(t *testing.T, line string) error {
	t.Helper()
	page, err := fetch("https://"+p.metrics+"/metrics", p.reader)
	if err != nil {
		return err
	}
	if !strings.Contains(page, line) {
		return fmt.Errorf("/metrics has not %s, but\n%s", line, lines(page, "holdfast_policy"))
	}
	return nil
}

// stop ends the program as Kubernetes does; it must have been the same one all the
// time, and not once have been refused but for what is expected.
func (p *process) stop(t *testing.T, expected ...string) {
	t.Helper()
	for token, want := range map[string]string{"": "401", p.c.kubectl(t, "create", "token", "-n", "monitoring", "nobody"): "403"} {
		if _, err := fetch("https://"+p.metrics+"/metrics", token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("metrics for somebody who may not read them: %v, want %s", err, want)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		t.Fatal("still running 30s after SIGTERM")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	for _, word := range []string{"forbidden", "panic"} {
		if found := lines(p.log.String(), word); found != "" && !slices.Contains(expected, word) {
			t.Errorf("the log says %q:\n%s", word, found)
		}
	}
}

func fetch(url, token string) (string, error) {
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // self-signed
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", url, res.Status, body)
	}
	return string(body), err
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
