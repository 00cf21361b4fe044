package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli/flag"
	"sigs.k8s.io/cluster-api/util/apiwarnings"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/providers/node"
	"github.com/holdfast-io/holdfast/reconcilers/core"
	"github.com/holdfast-io/holdfast/reconcilers/infra"
	"github.com/holdfast-io/holdfast/reconcilers/infra/misplaced"
	"github.com/holdfast-io/holdfast/reconcilers/infra/versions"
	"github.com/holdfast-io/holdfast/reconcilers/providerobjects"
	"github.com/holdfast-io/holdfast/reconcilers/servingcert"
)

// registerManaged makes the flags of managed mode. Without --reconcilers none of
// them does anything.
func (c *controllerConfig) registerManaged(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&c.Reconcilers, "reconcilers", c.Reconcilers, "reconcilers of Cluster API to run too: core, kubeadm, aws, vsphere, or auto for what Provider objects name (docs/managed.md); none beside an installed Cluster API")
	f.BoolVar(&c.ReconcilersTakeover, "reconcilers-takeover", c.ReconcilersTakeover, "start --reconcilers although upstream's own controller managers seem to run")
	f.StringToIntVar(&c.ReconcilersConcurrency, "reconcilers-concurrency", c.ReconcilersConcurrency, "CONTROLLER=N objects that one of the --reconcilers handles at a time, such as machine=200; others as upstream")
	f.DurationVar(&c.ReconcilersSyncPeriod.Duration, "reconcilers-sync-period", c.ReconcilersSyncPeriod.Duration, "time after which the --reconcilers look at every object again")
	f.DurationVar(&c.ReconcilersBackoff.Duration, "reconcilers-backoff", c.ReconcilersBackoff.Duration, "wait of an object that the --reconcilers keep failing at, doubled each time")
	f.DurationVar(&c.ReconcilersBackoffLimit.Duration, "reconcilers-backoff-limit", c.ReconcilersBackoffLimit.Duration, "longest such wait")
	f.StringVar(&c.ReconcilersWatchFilter, "reconcilers-watch-filter", c.ReconcilersWatchFilter, "value of the label cluster.x-k8s.io/watch-filter that the --reconcilers look at alone (default all)")
	f.Var(flag.NewMapStringBool(&c.FeatureGates), "feature-gates", "GATE=true or false of Cluster API, such as ClusterTopology=true; others as upstream")
	f.StringVar(&c.WebhookBindAddress, "webhook-bind-address", c.WebhookBindAddress, "address of the webhooks and conversions of the --reconcilers")
	f.StringVar(&c.WebhookCertDir, "webhook-cert-dir", c.WebhookCertDir, "folder with tls.crt and tls.key of the webhooks; read again when they change")
	f.StringVar(&c.WebhookCertSecret, "webhook-cert-secret", c.WebhookCertSecret, "NAMESPACE/NAME of a Secret with tls.crt, tls.key and ca.crt of the webhooks, instead of --webhook-cert-dir; read again when it changes")
	f.BoolVar(&c.WebhookCertRotate, "webhook-cert-rotate", c.WebhookCertRotate, "make the certificate in --webhook-cert-secret, which is to be there, and renew it in time")
	f.StringVar(&c.WebhookService, "webhook-service", c.WebhookService, "NAMESPACE/NAME of the Service by which the API server asks the webhooks; ca.crt of --webhook-cert-secret is kept where something points at it")
	f.StringSliceVar(&c.WebhookConfigurations, "webhook-configurations", c.WebhookConfigurations, "names of webhook configurations in which ca.crt is kept, beside the CRDs of the --reconcilers")
	completeWith(cmd, "reconcilers", "core", "kubeadm", "aws", "vsphere", autoReconcilers)
}

// managed says what of upstream's is to run, nil if nothing is.
func (c *controllerConfig) managed() (*core.Options, error) {
	if len(c.Reconcilers) == 0 {
		return nil, c.onlyManaged()
	}
	parts, err := core.ParseParts(c.namedReconcilers())
	if err != nil {
		return nil, fmt.Errorf("--reconcilers: %w", err)
	}
	host, port, err := net.SplitHostPort(c.WebhookBindAddress)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || notNumber != nil || number == 0 {
		return nil, fmt.Errorf("--webhook-bind-address %q: want HOST:PORT or :PORT", c.WebhookBindAddress)
	}
	o := &core.Options{
		Parts: parts, Namespace: c.Namespace, WatchFilter: c.ReconcilersWatchFilter, Takeover: c.ReconcilersTakeover,
		SyncPeriod: c.ReconcilersSyncPeriod.Duration, Workers: c.ReconcilersConcurrency, Gates: c.FeatureGates,
		Backoff:  core.Backoff{First: c.ReconcilersBackoff.Duration, Most: c.ReconcilersBackoffLimit.Duration},
		Webhooks: webhook.Options{Host: host, Port: int(number), CertDir: c.WebhookCertDir, TLSOpts: onlyHTTP1},
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("--reconcilers: %w", err)
	}
	return o, c.checkCertificate()
}

// keeper is what keeps the webhooks' certificate, nil if that is in a folder.
func (c *controllerConfig) keeper(o *core.Options) (*servingcert.Keeper, error) {
	if c.WebhookCertSecret == "" {
		if c.WebhookCertRotate || c.WebhookService != "" || len(c.WebhookConfigurations) > 0 {
			return nil, errors.New("--webhook-cert-rotate, --webhook-service and --webhook-configurations are about the certificate in --webhook-cert-secret, which is not given")
		}
		return nil, nil
	}
	k := &servingcert.Keeper{Make: c.WebhookCertRotate, Configurations: c.WebhookConfigurations, Definitions: core.Definitions(o.Parts...)}
	for _, name := range []struct {
		flag, value string
		into        *types.NamespacedName
	}{{"--webhook-cert-secret", c.WebhookCertSecret, &k.Secret}, {"--webhook-service", c.WebhookService, &k.Service}} {
		ns, of, _ := strings.Cut(name.value, "/")
		if ns == "" || of == "" || strings.Contains(of, "/") {
			return nil, fmt.Errorf("%s %q: want NAMESPACE/NAME", name.flag, name.value)
		}
		*name.into = types.NamespacedName{Namespace: ns, Name: of}
	}
	return k, nil
}

// onlyManaged refuses what would do nothing.
func (c *controllerConfig) onlyManaged() error {
	var idle []string
	for name, set := range map[string]bool{
		"--feature-gates": len(c.FeatureGates) > 0, "--reconcilers-concurrency": len(c.ReconcilersConcurrency) > 0,
		"--reconcilers-takeover": c.ReconcilersTakeover, "--reconcilers-watch-filter": c.ReconcilersWatchFilter != "",
		"--webhook-cert-secret": c.WebhookCertSecret != "", "--webhook-cert-rotate": c.WebhookCertRotate,
		"--webhook-service": c.WebhookService != "", "--webhook-configurations": len(c.WebhookConfigurations) > 0,
	} {
		if set {
			idle = append(idle, name)
		}
	}
	if len(idle) == 0 {
		return nil
	}
	slices.Sort(idle)
	return fmt.Errorf("%s: there is nothing that it is for without --reconcilers", strings.Join(idle, ", "))
}

func (c *controllerConfig) checkCertificate() error {
	if k, err := c.keeper(&core.Options{}); err != nil || k != nil {
		return err
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		if _, err := os.Stat(filepath.Join(c.WebhookCertDir, name)); err != nil {
			return fmt.Errorf("--webhook-cert-dir: the webhooks of --reconcilers need tls.crt and tls.key there: %w", err)
		}
	}
	return nil
}

// prepareManaged has the manager be one that upstream's reconcilers can run in.
// It gets a scheme of its own: the kinds that drift is looked for in must not
// grow by upstream's versions of them.
func (d *controller) prepareManaged(ctx context.Context, c *controllerConfig, cfg *rest.Config, log logr.Logger, options *manager.Options) error {
	named, err := c.withProviders(ctx, cfg)
	if err != nil {
		return err
	}
	o, err := named.managed()
	if err != nil || o == nil {
		return err
	}
	d.auto = slices.Contains(c.Reconcilers, autoReconcilers)
	kinds, err := inventory.NewKinds(registrations(c.Nodes)...)
	if err != nil {
		return err
	}
	options.Scheme = kinds.Scheme()
	if err := errors.Join(v1alpha1.AddToScheme(options.Scheme), core.AddToScheme(options.Scheme), versions.AddToScheme(options.Scheme)); err != nil {
		return fmt.Errorf("register Cluster API's types: %w", err)
	}
	if sink, ok := log.GetSink().(interface{ GetUnderlying() *zap.Logger }); ok {
		// What is below is of interest to those who work on etcd.
		o.EtcdLog = sink.GetUnderlying().Named("etcd").WithOptions(zap.IncreaseLevel(zap.WarnLevel))
	}
	cfg.WarningHandler = apiwarnings.DefaultHandler(log.WithName("warning"))
	d.managed = o
	if err := keepCertificate(ctx, c, cfg, log, options.Scheme, o); err != nil {
		return err
	}
	return o.ManagerOptions(options)
}

// keepCertificate has the webhooks be served by the certificate of a Secret, if
// that is where it is. It begins before there is a manager, whose caches may wait
// for conversions.
func keepCertificate(ctx context.Context, c *controllerConfig, cfg *rest.Config, log logr.Logger, scheme *runtime.Scheme, o *core.Options) error {
	k, err := c.keeper(o)
	if err != nil || k == nil {
		return err
	}
	if k.Client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	ctx = logr.NewContext(ctx, log.WithName("certificate"))
	if err := k.Prepare(ctx); err != nil {
		return err
	}
	go k.Run(ctx)
	o.Webhooks.TLSOpts = append(slices.Clone(o.Webhooks.TLSOpts), func(t *tls.Config) { t.GetCertificate = k.GetCertificate })
	return nil
}

// setUpManaged adds upstream's reconcilers to the manager, unless there is a
// reason why they must not run.
func (d *controller) setUpManaged(ctx context.Context) error {
	if d.managed == nil {
		return nil
	}
	if err := d.managed.Check(ctx, d.manager); err != nil {
		return fmt.Errorf("--reconcilers: %w", err)
	}
	if _, err := d.managed.SetUp(ctx, d.manager); err != nil {
		return err
	}
	misplaced.Serve(d.manager.GetWebhookServer())
	return d.setUpProviders(ctx)
}

// setUpInfrastructure adds the reconcilers of the infrastructures that were named,
// on the providers that the daemon reads by: they share sessions and quotas.
func (d *controller) setUpInfrastructure(ctx context.Context) error {
	if d.managed == nil {
		return nil
	}
	for _, r := range registrations(false) {
		if !d.managed.Has(core.Part(r.Name)) {
			continue
		}
		cloud := d.clouds[r.Name]
		if with, ok := cloud.(*node.Provider); ok {
			cloud = with.Cloud()
		}
		o := &infra.Options{
			Registration: r, Provider: cloud, WatchFilter: d.managed.WatchFilter, Events: d.events,
			Controller: func(name string) ctrlcontroller.Options {
				return d.managed.ControllerOptions(name, d.manager.GetLogger())
			},
		}
		if err := o.SetUp(ctx, d.manager); err != nil {
			return fmt.Errorf("--reconcilers %s: %w", r.Name, err)
		}
	}
	return nil
}

// registeredKeys gives the access key that a Provider object names, which is asked
// for by every machine of a sweep and read again as seldom as identities are.
func (d *controller) registeredKeys() aws.Keys {
	source := providerobjects.Source{Reader: d.manager.GetAPIReader(), Namespace: d.managed.Namespace}
	var (
		mu   sync.Mutex
		keys providerobjects.AWSKeys
		has  bool
		read time.Time
	)
	return func(ctx context.Context) (id, secret, token string, ok bool, err error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(read) > keepIdentities {
			if keys, has, err = source.AWS(ctx); err != nil {
				return "", "", "", false, err
			}
			read = time.Now()
		}
		return keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken, has, nil
	}
}
