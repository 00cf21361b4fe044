package infra

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/holdfast-io/holdfast/providers"
)

// Options say what to reconcile by which provider.
type Options struct {
	Registration providers.Registration
	// Provider has to be a [providers.Builder] too.
	Provider providers.Provider
	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter that
	// objects have to have; empty is no such thing.
	WatchFilter string
	// Controller is what both controllers run with, by the names of their kinds:
	// awscluster, awsmachine.
	Controller func(name string) controller.Options
	Events     events.EventRecorder
	// Poll's zero value is from one second to fifteen.
	Poll Poll
	// Clock is the real one if nil.
	Clock clock.WithTicker
}

// SetUp adds a controller for each kind that the provider owns to a manager. It
// starts nothing.
func (o *Options) SetUp(ctx context.Context, mgr ctrl.Manager) error {
	b, ok := o.Provider.(providers.Builder)
	if !ok {
		return fmt.Errorf("provider %s cannot build: it is for companions of another one", o.Registration.Name)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Poll == (Poll{}) {
		o.Poll = Poll{Least: time.Second, Most: 15 * time.Second}
	}
	if o.Registration.Initial != nil {
		if err := mgr.Add(&initial{client: mgr.GetClient(), objects: o.Registration.Initial()}); err != nil {
			return err
		}
	}
	shared := newSnapshots(o.Clock)
	for _, kind := range o.Registration.Owners {
		r := &reconciler{
			registration: o.Registration, kind: kind, provider: o.Provider, builder: b, snapshots: shared, clock: o.Clock,
			client: mgr.GetClient(), live: mgr.GetAPIReader(), scheme: mgr.GetScheme(), mapper: mgr.GetRESTMapper(),
			events: o.Events, said: newSaid(), poll: o.Poll,
		}
		if err := o.add(ctx, mgr, r); err != nil {
			return fmt.Errorf("set up the controller of %s: %w", kind.GVK.Kind, err)
		}
	}
	return nil
}

// initial makes a provider's initial objects, by whoever leads.
type initial struct {
	client  client.Client
	objects []client.Object
}

// NeedLeaderElection is true: standbys write nothing.
func (*initial) NeedLeaderElection() bool { return true }

// Start tries until it is done: an API server that is starting refuses for a
// while, and a user who changes or deletes the objects later is left alone.
func (i *initial) Start(ctx context.Context) error {
	return wait.ExponentialBackoffWithContext(ctx, patiently, func(ctx context.Context) (bool, error) {
		for _, o := range i.objects {
			if err := i.client.Create(ctx, o.DeepCopyObject().(client.Object)); err != nil && !apierrors.IsAlreadyExists(err) {
				ctrl.LoggerFrom(ctx).Error(err, "Unable to make an initial object", "object", o.GetName())
				return false, nil
			}
		}
		return true, nil
	})
}

var patiently = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 20, Cap: time.Minute}

func (o *Options) add(ctx context.Context, mgr ctrl.Manager, r *reconciler) error {
	infra, err := r.make(r.kind.GVK)
	if err != nil {
		return err
	}
	name := strings.ToLower(r.kind.GVK.Kind)
	log := mgr.GetLogger().WithName(name)
	b := ctrl.NewControllerManagedBy(mgr).Named(name).
		For(infra, builder.WithPredicates(predicates.ResourceHasFilterLabel(r.scheme, log, o.WatchFilter))).
		WithOptions(o.Controller(name))
	turns := builder.WithPredicates(predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(r.scheme, log))
	if r.kind.Role == providers.RoleCluster {
		return b.Watches(&clusterv1.Cluster{},
			handler.EnqueueRequestsFromMapFunc(util.ClusterToInfrastructureMapFunc(ctx, r.kind.GVK, r.client, infra)),
			builder.WithPredicates(predicates.ClusterUnpaused(r.scheme, log)),
		).Complete(r)
	}
	list, err := r.scheme.New(r.kind.GVK.GroupVersion().WithKind(r.kind.GVK.Kind + "List"))
	if err != nil {
		return err
	}
	all, err := util.ClusterToTypedObjectsMapper(r.client, list.(client.ObjectList), r.scheme)
	if err != nil {
		return err
	}
	return b.
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(util.MachineToInfrastructureMapFunc(r.kind.GVK))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(all), turns).
		Complete(r)
}
