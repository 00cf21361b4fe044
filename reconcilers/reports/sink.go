package reports

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

const kindCluster = "Cluster"

// Options are what a Sink works with.
type Options struct {
	// Client reads and writes at the API server itself; it must not be a cache.
	// Its RESTMapper must come to know of kinds that are installed later.
	Client client.Client
	// Namespace is the only one to look for reports in; empty is all.
	Namespace string
	// Now is the clock; nil is the real one.
	Now func() time.Time
}

// Sink keeps reports. It is a [sweep.Sink].
type Sink struct {
	store store
	now   func() time.Time
	limit int

	mu       sync.Mutex
	clusters map[detector.ClusterRef]*clusterState
	// lookAt is when the kind is looked for again, and told that it was said not
	// to be there.
	lookAt time.Time
	told   bool
}

var _ sweep.Sink = (*Sink)(nil)

// New makes a Sink. It does no I/O.
func New(o Options) *Sink {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sink{store: store{client: o.Client, namespace: o.Namespace}, now: o.Now, limit: maxSize,
		clusters: map[detector.ClusterRef]*clusterState{}}
}

const (
	// writes bounds how many objects are written at once.
	writes = 4
	// maxErrors bounds how many errors of one outcome are told.
	maxErrors = 5
	// lookAgain is how long the kind is not looked for after it was not there.
	lookAgain = time.Minute
)

// Consume implements [sweep.Sink]. Where reports cannot be written, as long as the
// kind is not installed, it keeps what they are to say.
func (s *Sink) Consume(ctx context.Context, o *sweep.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range o.Gone { // their reports go with them
		delete(s.clusters, ref)
	}
	if o.Inventory == nil || o.Result == nil || len(o.Inventory.Clusters) == 0 {
		return nil
	}
	served := s.look(ctx, o)
	if served != nil && !errors.Is(served, errMissing) {
		return served
	}
	var errs []error
	for _, t := range takings(o) {
		if write := s.clusters[t.ref].consume(t); !write || served != nil {
			continue
		}
		if err := s.write(ctx, t, s.clusters[t.ref]); errors.Is(err, errMissing) {
			served = s.missing(ctx)
		} else if err != nil {
			errs = append(errs, err)
		}
	}
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors], fmt.Errorf("and the reports of %d more clusters", more))
	}
	return errors.Join(errs...)
}

// takings takes an outcome apart by cluster.
func takings(o *sweep.Outcome) []*taking {
	out := make([]*taking, 0, len(o.Inventory.Clusters))
	by := map[detector.ClusterRef]*taking{}
	for _, c := range o.Inventory.Clusters {
		t := &taking{Outcome: o, ref: detector.ClusterRef{Namespace: c.Object.Namespace, Name: c.Object.Name}, cluster: c,
			decisions: map[providers.OwnerRef][]*policies.Decision{}}
		t.mode = o.Policies.For(t.ref, c.Object.Labels).Mode.Lowered(c.Object.Annotations)
		out, by[t.ref] = append(out, t), t
	}
	for i := range o.Result.Decisions {
		d := &o.Result.Decisions[i]
		t := by[d.Finding.Cluster]
		switch {
		case t == nil:
		case d.Finding.Orphan():
			t.orphans = append(t.orphans, d)
		default:
			t.decisions[d.Finding.Owner] = append(t.decisions[d.Finding.Owner], d)
		}
	}
	return out
}

// look finds out what reports there are: at each sweep, and for a cluster of which
// nothing is known yet.
func (s *Sink) look(ctx context.Context, o *sweep.Outcome) error {
	fresh := o.Targeted()
	for _, c := range o.Inventory.Clusters {
		ref := detector.ClusterRef{Namespace: c.Object.Namespace, Name: c.Object.Name}
		if s.clusters[ref] == nil {
			s.clusters[ref] = newClusterState(s.limit)
		}
		fresh = fresh && s.clusters[ref].loaded
	}
	if s.now().Before(s.lookAt) {
		return errMissing
	}
	if err := s.store.served(); err != nil {
		if errors.Is(err, errMissing) {
			return s.missing(ctx)
		}
		return fmt.Errorf("look for the kind Report: %w", err)
	}
	if s.told {
		s.told = false
		logr.FromContextOrDiscard(ctx).Info("Reports can be written now", "kind", reportKind.String())
	}
	if fresh {
		return nil
	}
	found, err := s.store.list(ctx)
	if errors.Is(err, errMissing) {
		return s.missing(ctx)
	}
	if err != nil {
		return err
	}
	return s.compare(ctx, o, found)
}

// missing takes down that there is no such kind, and says it once.
func (s *Sink) missing(ctx context.Context) error {
	if !s.told {
		logr.FromContextOrDiscard(ctx).Info("Reports are not written: the API server does not serve them; install the CRDs of OpenReports (docs/reports.md)", "kind", reportKind.String())
	}
	s.told, s.lookAt = true, s.now().Add(lookAgain)
	for _, state := range s.clusters { // what there was went with the kind
		state.objects = map[string]*object{}
	}
	return errMissing
}

// compare takes over what was found: what is not as it was left is read.
func (s *Sink) compare(ctx context.Context, o *sweep.Outcome, found []metav1.PartialObjectMetadata) error {
	byCluster := map[types.NamespacedName][]*metav1.PartialObjectMetadata{}
	for i := range found {
		key := types.NamespacedName{Namespace: found[i].Namespace, Name: found[i].Labels[LabelCluster]}
		byCluster[key] = append(byCluster[key], &found[i])
	}
	for _, c := range o.Inventory.Clusters {
		ref := detector.ClusterRef{Namespace: c.Object.Namespace, Name: c.Object.Name}
		state := s.clusters[ref]
		before := state.objects
		state.objects = map[string]*object{}
		var read []*openreports.Report
		for _, m := range byCluster[types.NamespacedName{Namespace: ref.Namespace, Name: labelOf(ref)}] {
			if was := before[m.Name]; was != nil && was.uid == m.UID && was.generation == m.Generation {
				state.objects[m.Name] = was
				continue
			}
			r, err := s.store.get(ctx, client.ObjectKeyFromObject(m))
			if err != nil {
				return err
			}
			if r != nil {
				read = append(read, r)
				state.objects[r.Name] = &object{uid: r.UID, generation: r.Generation, digest: digest(r)}
			}
		}
		if !state.loaded {
			state.seed(read)
			state.loaded = true
		}
	}
	return nil
}

// write brings a cluster's reports to what they are to say.
func (s *Sink) write(ctx context.Context, t *taking, state *clusterState) error {
	owner, err := s.ownerRef(t.cluster.Object)
	if err != nil {
		return err
	}
	for {
		err := s.writeAll(ctx, t.ref, state, state.plan(t.ref, owner))
		if !tooLarge(err) || state.limit <= minSize {
			return err
		}
		state.limit /= 2 // an etcd with a lower bound
	}
}

func (s *Sink) writeAll(ctx context.Context, ref detector.ClusterRef, state *clusterState, wanted map[string]*openreports.Report) error {
	var (
		mu   sync.Mutex
		errs []error
		g    errgroup.Group
	)
	g.SetLimit(writes)
	done := func(name string, o *object, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			errs = append(errs, err)
		case o == nil:
			delete(state.objects, name)
		default:
			state.objects[name] = o
		}
	}
	for _, name := range differing(wanted, state.objects) {
		g.Go(func() error {
			o, err := s.store.apply(ctx, wanted[name])
			done(name, o, err)
			return nil
		})
	}
	_ = g.Wait()
	if i := slices.IndexFunc(errs, tooLarge); i >= 0 {
		return errs[i]
	}
	if len(errs) > 0 { // what is to go may hold what is not written elsewhere yet
		return errors.Join(errs[:min(len(errs), maxErrors)]...)
	}
	for name, o := range maps.Clone(state.objects) {
		if uid := o.uid; wanted[name] == nil {
			g.Go(func() error {
				done(name, nil, s.store.remove(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: name}, uid))
				return nil
			})
		}
	}
	_ = g.Wait()
	return errors.Join(errs[:min(len(errs), maxErrors)]...)
}

// differing names the reports that are not as they should be, in order.
func differing(wanted map[string]*openreports.Report, have map[string]*object) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if is := have[name]; is == nil || is.digest != digest(wanted[name]) {
			out = append(out, name)
		}
	}
	return out
}

// ownerRef names the Cluster in a version that is served: the garbage collector
// asks for it in just that one.
func (s *Sink) ownerRef(c *clusterv1.Cluster) (metav1.OwnerReference, error) {
	gk := clusterv1.GroupVersion.WithKind(kindCluster).GroupKind()
	mapping, err := s.store.client.RESTMapper().RESTMapping(gk, clusterv1.GroupVersion.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = s.store.client.RESTMapper().RESTMapping(gk)
	}
	if err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("find a served version of %s: %w", gk, err)
	}
	return metav1.OwnerReference{APIVersion: mapping.GroupVersionKind.GroupVersion().String(), Kind: kindCluster, Name: c.Name, UID: c.UID}, nil
}
