package controlplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// assetsVariable names the folder with kube-apiserver, etcd, minikcm and
// kubectl.
const assetsVariable = "KUBEBUILDER_ASSETS"

// dieVariable has kubebox's programs end with the test (hack/kubebox/main.go).
const dieVariable = "KUBEBOX_DIE_WITH_PARENT"

// Options say what a control plane begins with.
type Options struct {
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// Webhooks are the admission webhooks to install, and where they and the
	// conversion of CRDs are served; the zero value is none.
	Webhooks envtest.WebhookInstallOptions
	// GarbageCollector also runs minikcm (hack/kubebox): objects go with their
	// owners, and namespaces with all that is in them.
	GarbageCollector bool
}

// Plane is a control plane that runs.
type Plane struct {
	// Config reaches it as an administrator.
	Config *rest.Config
	// Kubeconfig is a file that does the same for other programs.
	Kubeconfig string
	// Webhooks is where webhooks are to be served, if there are any.
	Webhooks envtest.WebhookInstallOptions

	env       *envtest.Environment
	dir       string
	collector *exec.Cmd
}

// Launch starts a control plane. Callers must Stop it.
func Launch(o Options) (_ *Plane, err error) {
	assets := os.Getenv(assetsVariable)
	if assets == "" {
		return nil, fmt.Errorf("%s is not set: run the tests by hack/test.sh, or set it to the output of hack/kubebox/build.sh", assetsVariable)
	}
	// envtest starts its programs with this process's environment.
	if err := os.Setenv(dieVariable, "1"); err != nil {
		return nil, err
	}
	// Whoever serves webhooks serves conversions too. Cluster API's are not
	// methods of its types, so no scheme tells which kinds have them.
	o.Webhooks.IgnoreSchemeConvertible = len(o.Webhooks.MutatingWebhooks) > 0
	p := &Plane{env: &envtest.Environment{
		CRDInstallOptions:     envtest.CRDInstallOptions{CRDs: o.CRDs, WebhookOptions: o.Webhooks},
		WebhookInstallOptions: o.Webhooks,
	}}
	// A Service has no address here that anybody routes: who asks its webhooks asks
	// those that its EndpointSlices name.
	p.env.ControlPlane.GetAPIServer().Configure().Set("enable-aggregator-routing", "true")
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Stop())
		}
	}()
	if p.Config, err = p.env.Start(); err != nil {
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	p.Config.QPS, p.Config.Burst = 500, 1000
	p.Webhooks = p.env.WebhookInstallOptions
	if p.dir, err = os.MkdirTemp("", "holdfast-controlplane-"); err != nil {
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	p.Kubeconfig = filepath.Join(p.dir, "kubeconfig")
	if err := os.WriteFile(p.Kubeconfig, p.env.KubeConfig, 0o600); err != nil {
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	if o.GarbageCollector {
		if err := p.collect(filepath.Join(assets, "minikcm")); err != nil {
			return nil, fmt.Errorf("start the garbage collector: %w", err)
		}
	}
	return p, nil
}

func (p *Plane) collect(program string) error {
	output, err := os.Create(filepath.Join(p.dir, "minikcm.log"))
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	p.collector = exec.Command(program, "--kubeconfig", p.Kubeconfig)
	p.collector.Stdout, p.collector.Stderr = output, output
	p.collector.SysProcAttr = dieWithParent()
	if err := p.collector.Start(); err != nil {
		p.collector = nil
		return fmt.Errorf("%w: build it by hack/kubebox/build.sh", err)
	}
	return nil
}

// stopTime bounds how long the collector may take to end.
const stopTime = 5 * time.Second

// Stop ends all processes of the plane. It may be called on one that has not
// started in full.
func (p *Plane) Stop() error {
	var errs []error
	if p.collector != nil {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = p.collector.Wait() // it ends by a signal
		}()
		errs = append(errs, p.collector.Process.Signal(os.Interrupt))
		select {
		case <-done:
		case <-time.After(stopTime):
			errs = append(errs, p.collector.Process.Kill())
			<-done
		}
		p.collector = nil
	}
	if err := p.env.Stop(); err != nil {
		errs = append(errs, fmt.Errorf("stop the control plane: %w", err))
	}
	if p.dir != "" {
		errs = append(errs, os.RemoveAll(p.dir))
	}
	return errors.Join(errs...)
}
