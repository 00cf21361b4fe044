package management

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/holdfast-io/holdfast/reconcilers/core"
	"github.com/holdfast-io/holdfast/reconcilers/infra/misplaced"
)

const (
	// agent is the user agent of the reconcilers.
	agent = "capi-test-manager"
	// workers of each controller.
	workers = 10
	// reconnect is how long upstream's cluster cache waits after a failed
	// connection to a workload cluster. The first one always fails, since
	// there is no API server before there is a machine; its default of 30 s
	// would be half of a cluster's time to be ready.
	reconnect = 500 * time.Millisecond
	// etcdTimeout is how long KubeadmControlPlane waits for a member of etcd.
	// All are in this process; upstream's 10 s only make dead ones slow.
	etcdTimeout = 2 * time.Second
)

var planes atomic.Int32

// newManager makes a manager with upstream's reconcilers and webhooks, wired as
// managed mode wires them (reconcilers/core), but that times to wait for workload
// clusters are short.
func newManager(ctx context.Context, cfg *rest.Config, serve envtest.WebhookInstallOptions) (ctrl.Manager, error) {
	few := map[string]int{}
	for name := range core.Controllers() {
		few[name] = workers
	}
	o := &core.Options{
		Parts: core.Parts(), Workers: few, Gates: map[string]bool{string(feature.ClusterTopology): true},
		// Its name is given away once in a process; a test may start a second
		// plane.
		Agent: fmt.Sprintf("%s-%d", agent, planes.Add(1)),
		Webhooks: webhook.Options{
			Host: serve.LocalServingHost, Port: serve.LocalServingPort, CertDir: serve.LocalServingCertDir,
		},
		WorkloadQPS: 500, WorkloadBurst: 1000, EtcdDial: etcdTimeout, EtcdCall: etcdTimeout,
	}
	options := managerOptions()
	if err := o.ManagerOptions(&options); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		return nil, err
	}
	clusters, err := o.SetUp(ctx, mgr)
	if err != nil {
		return nil, err
	}
	misplaced.Serve(mgr.GetWebhookServer())
	hasten, ok := clusters.(interface{ SetConnectionCreationRetryInterval(time.Duration) })
	if !ok {
		return nil, fmt.Errorf("upstream's cluster cache %T has no retry interval to set any more", clusters)
	}
	hasten.SetConnectionCreationRetryInterval(reconnect)
	return mgr, nil
}

// bareManager makes one for the stand-ins of infrastructure providers alone.
func bareManager(cfg *rest.Config) (ctrl.Manager, error) {
	return ctrl.NewManager(cfg, managerOptions())
}

func managerOptions() ctrl.Options {
	skipNames := true // several managers may live in one process
	return ctrl.Options{
		Scheme: scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skipNames},
	}
}
