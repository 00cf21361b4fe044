package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// places in the chart's containers.
	configPlace, policiesPlace = "/etc/holdfast/config", "/etc/holdfast/policies"
	// lookTime is how often what the chart says is looked at; a kubelet takes up to
	// a minute for a ConfigMap.
	lookTime = time.Second
	// tokenTime is what a page may take.
	tokenTime = 24 * time.Hour
)

// pod plays the kubelet for the one Deployment of the chart: it runs the program as
// the pod's ServiceAccount, with its arguments, environment, configuration and
// policies, brings changed policies to it, and starts it anew when the pod's
// template has changed.
type pod struct {
	namespace, deployment, dir, metrics, probes string

	kubeconfig string
	client     client.Client
	out        io.Writer
	mounts     int

	template []byte
	cmd      *exec.Cmd
	ended    chan error
}

// playPod runs it until it is interrupted.
func playPod(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := &pod{kubeconfig: os.Getenv(clientcmd.RecommendedConfigPathEnvVar), out: stderr}
	f := flag.NewFlagSet("holdfast-pod", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&p.namespace, "namespace", "holdfast-system", "the release's namespace")
	f.StringVar(&p.deployment, "deployment", "holdfast", "the Deployment to run a pod of")
	f.StringVar(&p.dir, "dir", "", "folder for what is mounted")
	f.StringVar(&p.metrics, "metrics", os.Getenv("METRICS"), "address of /metrics on this machine")
	f.StringVar(&p.probes, "probes", os.Getenv("PROBES"), "address of the probes on this machine")
	if err := f.Parse(args); err != nil {
		return exitUsage
	}
	if p.kubeconfig == "" || p.dir == "" || p.metrics == "" || p.probes == "" || f.NArg() > 0 {
		_, _ = fmt.Fprintf(stderr, "error: KUBECONFIG, METRICS and PROBES are not all set: source %s of make first-hour\n", environmentFile)
		return exitUsage
	}
	err := p.run(ctx)
	if stop := p.stop(); err == nil {
		err = stop
	}
	if err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintln(stderr, "error:", clean(err.Error()))
		return exitFailed
	}
	_, _ = fmt.Fprintln(stdout, "holdfast-pod: stopped")
	return exitOK
}

func (p *pod) run(ctx context.Context) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return fmt.Errorf("read %s: %w", p.kubeconfig, err)
	}
	if p.client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	for {
		if err := p.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-p.ended:
			p.cmd = nil
			return fmt.Errorf("holdfast controller has ended: %w", errors.Join(err, errors.New("its log says why")))
		case <-tick.C:
		}
	}
}

// look brings what runs to what the chart's objects say now.
func (p *pod) look(ctx context.Context) error {
	d := &appsv1.Deployment{}
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.deployment}, d); err != nil {
		return fmt.Errorf("read what helm install has made: %w", err)
	}
	if err := p.mountPolicies(ctx, &d.Spec.Template.Spec); err != nil {
		return err
	}
	template, err := json.Marshal(d.Spec.Template)
	if err != nil || bytes.Equal(template, p.template) {
		return err
	}
	if p.template != nil {
		p.say("the pod's template has changed: starting anew")
	}
	if err := p.stop(); err != nil {
		return err
	}
	p.template = template
	return p.start(ctx, &d.Spec.Template.Spec)
}

func (p *pod) start(ctx context.Context, spec *corev1.PodSpec) error {
	config, err := p.configMap(ctx, spec, "config")
	if err != nil {
		return err
	}
	for name, text := range config {
		// Places in the container are others here.
		text = strings.ReplaceAll(text, policiesPlace, p.place("policies"))
		if err := os.WriteFile(filepath.Join(p.dir, filepath.Base(name)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	account, err := p.account(ctx, spec.ServiceAccountName)
	if err != nil {
		return err
	}
	container := spec.Containers[0]
	var args []string
	for _, a := range container.Args {
		args = append(args, strings.ReplaceAll(a, configPlace, p.dir))
	}
	p.cmd = exec.Command("holdfast", append(args, "--kubeconfig", account, "--metrics-bind-address", p.metrics, "--health-probe-bind-address", p.probes)...)
	p.cmd.Env = os.Environ()
	for _, e := range container.Env {
		if e.ValueFrom == nil {
			p.cmd.Env = append(p.cmd.Env, e.Name+"="+e.Value)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = alone()
	p.say("$ holdfast %s", strings.Join(p.cmd.Args[1:], " "))
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan<- error) { ended <- cmd.Wait() }(p.cmd, p.ended)
	return nil
}

// stop ends the program as a kubelet does. It may be called again.
func (p *pod) stop() error {
	if p.cmd == nil {
		return nil
	}
	defer func() { p.cmd = nil }()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may end this moment
	select {
	case err := <-p.ended:
		return err
	case <-time.After(stopTime):
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("holdfast controller had not ended %s after SIGTERM, and was killed: %w", stopTime, <-p.ended)
	}
}

// account writes a kubeconfig of the pod's ServiceAccount.
func (p *pod) account(ctx context.Context, name string) (string, error) {
	k, err := clientcmd.LoadFromFile(p.kubeconfig)
	if err != nil {
		return "", err
	}
	now, ok := k.Contexts[k.CurrentContext]
	if !ok {
		return "", fmt.Errorf("%s has no context %q", p.kubeconfig, k.CurrentContext)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenTime.Seconds()))}}
	who := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
	if err := p.client.SubResource("token").Create(ctx, who, request); err != nil {
		return "", fmt.Errorf("ask for a token of ServiceAccount %s/%s: %w", p.namespace, name, err)
	}
	k.AuthInfos = map[string]*clientcmdapi.AuthInfo{name: {Token: request.Status.Token}}
	now.AuthInfo = name
	path := filepath.Join(p.dir, "kubeconfig")
	return path, clientcmd.WriteToFile(*k, path)
}

func (p *pod) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, "holdfast-pod: %s\n", clean(fmt.Sprintf(format, args...)))
}
