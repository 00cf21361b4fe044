package management

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/controlplane"
)

// plane is what several grounds may share: a control plane with upstream's
// reconcilers, the infrastructure providers, and the workload clusters' servers.
type plane struct {
	control   *controlplane.Plane
	workloads *workloads
	aws       *awsProvider
	manager   ctrl.Manager
	client    client.WithWatch
	cancel    context.CancelFunc
	done      chan error
	// ctx ends with the plane.
	ctx context.Context
	// bare is a plane on which nothing of upstream's runs, boots one on which
	// infrastructure providers are not played either.
	bare, boots bool
	// beside has the workload clusters, nil for a plane that has its own.
	beside *plane

	mu      sync.Mutex
	grounds map[string]*Ground // by namespace
	fleets  map[types.NamespacedName]*fleet
}

// startTime bounds how long a plane's manager may take to start.
const startTime = time.Minute

// newPlane starts one; a bare one has nothing of upstream's running.
func newPlane(o options) (_ *plane, err error) {
	hooks, err := webhookConfigurations()
	if err != nil {
		return nil, fmt.Errorf("read upstream's webhooks: %w", err)
	}
	crds, err := controlplane.CRDs()
	if err != nil {
		return nil, err
	}
	control, err := controlplane.Launch(controlplane.Options{CRDs: crds, Webhooks: hooks, GarbageCollector: true})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &plane{
		control: control, ctx: ctx, cancel: cancel, bare: o.bare, boots: o.boots,
		grounds: map[string]*Ground{}, fleets: map[types.NamespacedName]*fleet{},
	}
	if o.beside != nil {
		p.beside = o.beside.plane
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if p.client, err = client.NewWithWatch(control.Config, client.Options{Scheme: scheme()}); err != nil {
		return nil, err
	}
	if p.beside == nil {
		if p.workloads, err = newWorkloads(ctx); err != nil {
			return nil, fmt.Errorf("start the workload clusters' servers: %w", err)
		}
	}
	if p.bare {
		p.manager, err = bareManager(control.Config)
	} else {
		p.manager, err = newManager(ctx, control.Config, control.Webhooks)
	}
	if err != nil {
		return nil, fmt.Errorf("set up upstream's reconcilers: %w", err)
	}
	p.aws = &awsProvider{plane: p}
	parts := []interface{ setUp(ctrl.Manager) error }{p.aws, &vsphereProvider{plane: p}}
	if p.boots {
		parts = []interface{ setUp(ctrl.Manager) error }{&awsBooter{plane: p}, &vsphereBooter{plane: p}}
	}
	for _, r := range parts {
		if err := r.setUp(p.manager); err != nil {
			return nil, fmt.Errorf("set up %T: %w", r, err)
		}
	}
	p.done = make(chan error, 1)
	go func() { p.done <- p.manager.Start(ctx) }()
	if err := p.waitStarted(); err != nil {
		return nil, err
	}
	if p.boots {
		return p, nil // the program makes it
	}
	return p, p.client.Create(ctx, controllerIdentity())
}

// waitStarted returns when webhooks are served, before which nothing can be
// created, and the leader's controllers run. A bare one serves none.
func (p *plane) waitStarted() error {
	deadline := time.After(startTime)
	started := func(*http.Request) error { return nil }
	if !p.bare {
		started = p.manager.GetWebhookServer().StartedChecker()
	}
	for {
		if started(nil) == nil && p.manager.GetCache().WaitForCacheSync(p.ctx) {
			return nil
		}
		select {
		case err := <-p.done:
			p.done = nil
			return fmt.Errorf("the manager ended: %w", err)
		case <-deadline:
			return fmt.Errorf("the manager did not start within %s", startTime)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends everything, the manager before the servers that it talks to.
func (p *plane) stop() error {
	p.cancel()
	var errs []error
	if p.done != nil {
		select {
		case err := <-p.done:
			errs = append(errs, err)
		case <-time.After(startTime):
			errs = append(errs, errors.New("the manager did not end"))
		}
	}
	if p.workloads != nil {
		errs = append(errs, p.workloads.stop())
	}
	return errors.Join(append(errs, p.control.Stop())...)
}

// ground gives the one whose namespace it is; nil is one that has been closed,
// whose cloud is gone.
func (p *plane) ground(namespace string) *Ground {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grounds[namespace]
}

// fleet gives a cluster's hosts, nil before its infrastructure is there.
func (p *plane) fleet(cluster types.NamespacedName) *fleet {
	if p.beside != nil {
		return p.beside.fleet(cluster)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fleets[cluster]
}

// openFleet gives a cluster's hosts, set up on the first call.
func (p *plane) openFleet(ctx context.Context, cluster types.NamespacedName, c cloud) (*fleet, error) {
	return p.openFleetAt(ctx, cluster, c, 0)
}

// openFleetAt has the cluster's API server listen at a port, 0 for any.
func (p *plane) openFleetAt(ctx context.Context, cluster types.NamespacedName, c cloud, port int32) (*fleet, error) {
	if p.beside != nil {
		return p.beside.openFleetAt(ctx, cluster, c, port)
	}
	w, err := p.workloads.of(ctx, cluster, port)
	if err != nil {
		return nil, fmt.Errorf("open workload cluster %s: %w", cluster, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, ok := p.fleets[cluster]; ok {
		return f, nil
	}
	g := p.grounds[cluster.Namespace]
	if g == nil {
		return nil, fmt.Errorf("open workload cluster %s: its test has ended", cluster)
	}
	f := newFleet(c, w, p.manager.GetAPIReader())
	p.fleets[cluster] = f
	g.running.Go(func() { f.run(g.ctx) })
	return f, nil
}

// closeFleet ends a cluster's API server and forgets its hosts.
func (p *plane) closeFleet(cluster types.NamespacedName) error {
	p.mu.Lock()
	delete(p.fleets, cluster)
	p.mu.Unlock()
	return p.workloads.close(cluster)
}
