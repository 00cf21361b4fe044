package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/reconcilers/core"
	"github.com/holdfast-io/holdfast/reconcilers/metrics"
	"github.com/holdfast-io/holdfast/reconcilers/notify"
	"github.com/holdfast-io/holdfast/reconcilers/policy"
	"github.com/holdfast-io/holdfast/reconcilers/status"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

const (
	// gracefulStop leaves two of the ten seconds that are promised for what comes
	// after the manager: the last events, and the clouds' sessions.
	gracefulStop = 8 * time.Second
	// keepIdentities is for how long an identity object or Secret is not read
	// again: all machines of a sweep ask for the same few.
	keepIdentities = 15 * time.Second
)

// controller is everything that runs, wired.
type controller struct {
	manager manager.Manager
	kinds   *inventory.Kinds
	// client reads and writes at the API server itself: what is written
	// follows from what is there.
	client    client.Client
	lease     *lease
	daemon    *sweep.Daemon
	readiness *readiness
	clouds    map[string]providers.Provider
	notifier  *notify.Notifier
	events    *recorder
	// managed is what of upstream's runs too, nil if nothing does.
	managed *core.Options
	// auto is for reconcilers that Provider objects name.
	auto bool

	policyMetrics metrics.Policies
}

// newController wires everything and starts nothing.
//
//nolint:cyclop,funlen // one step after the other, each of which may fail
func newController(ctx context.Context, c *controllerConfig, cfg *rest.Config, log logr.Logger) (*controller, error) {
	// A bad file at the start has no good version before it.
	if _, problems := policies.Load(policyOptions(), c.Policy...); problems.Err() != nil {
		return nil, &statusError{code: exitBadPolicy, err: problems.Err()}
	}
	d := &controller{}
	var err error
	if d.kinds, err = inventory.NewKinds(registrations(c.Nodes)...); err != nil {
		return nil, err
	}
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(d.kinds.Scheme()); err != nil {
			return nil, err
		}
	}
	if err := d.makeManager(ctx, c, cfg, log); err != nil {
		return nil, fmt.Errorf("set up the controller for %s: %w", cfg.Host, err)
	}
	if err := needKinds(ctx, d.manager.GetRESTMapper(), c.ownKinds()...); err != nil {
		return nil, err
	}
	if err := d.setUpManaged(ctx); err != nil {
		return nil, err
	}
	if err := d.makeClouds(c); err != nil {
		return nil, err
	}
	if d.events, err = newRecorder(d.manager.GetConfig(), d.manager.GetHTTPClient(), d.kinds.Scheme(), log); err != nil {
		return nil, err
	}
	if err := d.setUpInfrastructure(ctx); err != nil {
		return nil, err
	}
	openAPI, err := discovery.NewDiscoveryClientForConfigAndClient(d.manager.GetConfig(), d.manager.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	live := &inventory.Live{Kinds: d.kinds, Reader: d.manager.GetAPIReader(), Mapper: d.manager.GetRESTMapper(), Namespaces: c.namespaces()}
	d.readiness = &readiness{log: log.WithName("readiness"), elected: d.manager.Elected(), cache: d.manager.GetCache(), load: live.Load}
	if d.notifier, err = notify.New(c.Notify, d.manager.GetAPIReader(), nil); err != nil {
		return nil, err
	}
	if err := d.manager.Add(d.notifier); err != nil {
		return nil, err
	}
	measured, err := d.measure(ctx)
	if err != nil {
		return nil, err
	}
	conditions := status.New(status.Options{
		Reader: d.manager.GetAPIReader(), Client: d.client,
		OpenAPI: openAPI.OpenAPIV3(), Events: d.events,
	})
	triggers, err := sweep.NewTriggers(d.manager.GetConfig(), d.kinds, d.manager.GetRESTMapper(), c.namespaces()...)
	if err != nil {
		return nil, err
	}
	source, writer, err := d.loadPolicies(c, log)
	if err != nil {
		return nil, err
	}
	d.readiness.policies = source.Ready
	store := d.records(c)
	sinks := []sweep.Sink{store, conditions, measured, d.notifier, d.readiness, writer}
	if sinks, err = d.reports(c, sinks, log); err != nil {
		return nil, err
	}
	measured.Expect(sinks...)
	d.daemon = &sweep.Daemon{
		Providers: d.clouds, Load: live.Load, Triggers: triggers, Records: store,
		Policies: source.Set, PolicyChanges: source.Changes(),
		Sinks: sinks, Meter: measured,
		Log: log.WithName("sweep"),

		CreationGrace: c.CreationGrace.Duration, StartSpread: c.StartSpread.Duration, Concurrency: c.Concurrency,
	}
	measured.Status = d.daemon.Status
	if c.StartSpread.Duration == 0 {
		d.daemon.StartSpread = -1 // its zero is a default
	}
	if err := d.manager.Add(afterPolicies{source, d.daemon}); err != nil {
		return nil, err
	}
	if err := d.remediate(store, c); err != nil {
		return nil, err
	}
	log.Info("Set up", "version", buildVersion().Version, "host", cfg.Host, "namespace", c.Namespace, "reconcilers", c.Reconcilers)
	return d, nil
}

// ownKinds are those of Holdfast's kinds that are read.
func (c *controllerConfig) ownKinds() []string {
	kinds := []string{v1alpha1.KindRemediation}
	if c.PolicyObjects {
		kinds = append(kinds, v1alpha1.KindDriftPolicy)
	}
	return kinds
}

// namespaces to look at; none is all.
func (c *controllerConfig) namespaces() []string {
	if c.Namespace == "" {
		return nil
	}
	return []string{c.Namespace}
}

// loadPolicies adds the source of policies, and on the leader what writes their
// statuses, and tells of those that are for no cluster.
func (d *controller) loadPolicies(c *controllerConfig, log logr.Logger) (*policy.Source, *policy.Writer, error) {
	o := policy.Options{Catalog: catalogs(), Paths: c.Policy, Log: log.WithName("policy"), Told: func(states []policy.State) {
		sources := make([]metrics.PolicySource, len(states))
		for i, s := range states {
			sources[i] = metrics.PolicySource{Name: s.Name, Object: s.Object, Valid: s.Valid}
		}
		d.policyMetrics.Set(sources)
	}}
	if c.PolicyObjects {
		o.Objects = d.manager.GetCache()
	}
	source := policy.New(o)
	if err := d.announce(source, os.Getenv, log); err != nil {
		return nil, nil, err
	}
	writer := &policy.Writer{Source: source, Client: d.client, Reader: d.manager.GetAPIReader(),
		Events: d.events, Now: time.Now}
	return source, writer, errors.Join(d.manager.Add(source), d.manager.Add(writer))
}

// afterPolicies starts the daemon when the policies are there: half of them
// would be other policies.
type afterPolicies struct {
	source *policy.Source
	daemon *sweep.Daemon
}

// NeedLeaderElection is the daemon's.
func (a afterPolicies) NeedLeaderElection() bool { return a.daemon.NeedLeaderElection() }

// Start waits, and runs the daemon.
func (a afterPolicies) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.source.Loaded():
		return a.daemon.Start(ctx)
	}
}

func (d *controller) makeManager(ctx context.Context, c *controllerConfig, cfg *rest.Config, log logr.Logger) error {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "holdfast/" + buildVersion().Version
	cfg.QPS = -1 // the server's own priority and fairness protects it
	stop := gracefulStop
	options := manager.Options{
		Scheme: d.kinds.Scheme(), Logger: log, Metrics: metricsServing(c),
		HealthProbeBindAddress: c.HealthProbeBindAddress, PprofBindAddress: c.PprofBindAddress,
		GracefulShutdownTimeout: &stop,
		BaseContext:             func() context.Context { return logr.NewContext(ctx, log) },
	}
	if c.Namespace != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{c.Namespace: {}}
	}
	var err error
	if d.lease, err = newLease(c, cfg); err != nil {
		return err
	}
	if d.lease != nil {
		options.LeaderElection = true
		options.LeaderElectionResourceLockInterface = d.lease.lock()
		options.LeaderElectionReleaseOnCancel = true
		options.LeaseDuration = &c.LeaderElectionLeaseDuration.Duration
		options.RenewDeadline = &c.LeaderElectionRenewDeadline.Duration
		options.RetryPeriod = &c.LeaderElectionRetryPeriod.Duration
	}
	if err := d.prepareManaged(ctx, c, cfg, log, &options); err != nil {
		return err
	}
	if d.manager, err = ctrl.NewManager(cfg, options); err != nil {
		return err
	}
	d.client, err = client.New(d.manager.GetConfig(), client.Options{
		Scheme: d.kinds.Scheme(), Mapper: d.manager.GetRESTMapper(), HTTPClient: d.manager.GetHTTPClient()})
	if err != nil {
		return err
	}
	if err := d.manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if d.managed != nil {
		// Ready is then who serves webhooks. The API server cannot list what is
		// stored in an older version, nor take a change of a Cluster, while nobody
		// is: to wait for caches or for a cloud would be to wait for oneself.
		return nil
	}
	return d.manager.AddReadyzCheck("holdfast", d.ready)
}

// makeClouds makes the providers. Identities and Secrets are read live: a
// cache of them would hold every Secret of the management cluster.
func (d *controller) makeClouds(c *controllerConfig) error {
	reader := &inventory.Single{Kinds: d.kinds, Reader: d.manager.GetAPIReader(), Mapper: d.manager.GetRESTMapper(),
		Keep: keepIdentities, Now: time.Now}
	d.clouds = map[string]providers.Provider{}
	forAWS := []aws.Option{aws.WithEvents(c.events())}
	if d.managed != nil && d.managed.Has(core.AWS) {
		forAWS = append(forAWS, aws.WithKeys(d.registeredKeys()))
	}
	for _, r := range registrations(c.Nodes, forAWS...) {
		p, err := r.New(reader)
		if err != nil {
			d.close()
			return fmt.Errorf("provider %s: %w", r.Name, err)
		}
		d.clouds[r.Name] = p
	}
	return nil
}

// measure registers every series.
func (d *controller) measure(ctx context.Context) (*metrics.Sink, error) {
	sink := metrics.NewSink()
	sink.Elected = d.manager.Elected()
	records, err := metrics.NewRemediations(ctx, d.manager.GetCache(), sink)
	if err != nil {
		return nil, err
	}
	for _, c := range []prometheus.Collector{sink, records, &d.policyMetrics, metrics.NewClouds(d.clouds), d.notifier} {
		if err := ctrlmetrics.Registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return sink, nil
}

// close writes the last events, and ends the sessions of the clouds.
func (d *controller) close() {
	if d.events != nil {
		d.events.close()
	}
	for _, p := range d.clouds {
		if c, ok := p.(io.Closer); ok {
			_ = c.Close() // a session that stays open ends by itself
		}
	}
}
