package sweep

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
)

// Triggers notices changes of objects by metadata-only informers. It says that
// something changed and of which object; what it became is read live. A change
// of a status alone is none: Holdfast's own conditions, and everybody else's.
type Triggers struct {
	cache  cache.Cache
	kinds  *inventory.Kinds
	mapper meta.RESTMapper
}

// NewTriggers makes triggers of the kinds' Clusters, Machines and owners, in
// some namespaces or, without any, in all. The daemon starts them itself, so
// that a replica that does not lead watches nothing.
func NewTriggers(cfg *rest.Config, kinds *inventory.Kinds, mapper meta.RESTMapper, namespaces ...string) (*Triggers, error) {
	in := map[string]cache.Config{}
	for _, ns := range namespaces {
		in[ns] = cache.Config{}
	}
	c, err := cache.New(cfg, cache.Options{
		Scheme: kinds.Scheme(), Mapper: mapper, DefaultNamespaces: in,
		DefaultTransform: essence, ReaderFailOnMissingInformer: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache of metadata: %w", err)
	}
	return &Triggers{cache: c, kinds: kinds, mapper: mapper}, nil
}

// essence keeps of an object what tells whether it changed: ten thousand
// machines fit into a few megabytes. A digest of the rest stands in
// generateName, which nobody reads; a map for it would take more than all else.
func essence(in any) (any, error) {
	o, ok := in.(*metav1.PartialObjectMetadata)
	if !ok || o.CreationTimestamp.IsZero() {
		return in, nil // informers may hand over what was reduced already
	}
	out := &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta}
	out.Namespace, out.Name, out.UID = o.Namespace, o.Name, o.UID
	out.ResourceVersion, out.Generation, out.DeletionTimestamp = o.ResourceVersion, o.Generation, o.DeletionTimestamp
	out.Labels, out.GenerateName = clusterLabel(o.Labels[clusterv1.ClusterNameLabel]), digest(o)
	return out, nil
}

// clusterLabels are the labels of each cluster's objects, shared by them.
var clusterLabels sync.Map

func clusterLabel(name string) map[string]string {
	if name == "" {
		return nil
	}
	shared, _ := clusterLabels.LoadOrStore(name, map[string]string{clusterv1.ClusterNameLabel: name})
	labels, _ := shared.(map[string]string)
	return labels
}

// digest covers labels, annotations and owners: rules may ask for the first
// two, and the last say what an object belongs to.
func digest(o metav1.Object) string {
	h := fnv.New64a()
	for _, m := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			_, _ = fmt.Fprintf(h, "%q=%q,", key, m[key])
		}
		_, _ = h.Write([]byte{0})
	}
	for _, r := range o.GetOwnerReferences() {
		_, _ = fmt.Fprintf(h, "%s,", r.UID)
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// changed reports whether an update is more than one of a status.
func changed(old, now *metav1.PartialObjectMetadata) bool {
	return old.UID != now.UID || old.Generation != now.Generation ||
		old.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
		old.GenerateName != now.GenerateName
}

// watchObjects runs the informers until the context ends. A kind that is not
// served yet is looked for again and again.
func (d *Daemon) watchObjects(ctx context.Context) {
	t := d.Triggers
	d.jobs.Go(func() {
		if err := t.cache.Start(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Objects are not watched, only sweeps will tell of changes")
		}
	})
	left := t.kinds.Watched()
	for failures := 1; len(left) > 0; failures++ {
		left = slices.DeleteFunc(left, func(gk schema.GroupKind) bool { return d.watchKind(ctx, gk) })
		wait := backoff(siteKey{}, failures, d.Clock.Now())
		timer := d.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// watchKind adds an informer; it reports whether it did.
func (d *Daemon) watchKind(ctx context.Context, gk schema.GroupKind) bool {
	log := logr.FromContextOrDiscard(ctx).WithValues("kind", gk.String())
	served, wanted, err := d.Triggers.kinds.Served(d.Triggers.mapper, gk)
	if meta.IsNoMatchError(err) {
		return false // its provider is not installed, or not yet
	}
	if err != nil {
		log.Error(err, "Kind could not be looked up")
		return false
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(served)
	informer, err := d.Triggers.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		log.Error(err, "Kind is not watched yet")
		return false
	}
	notice := func(in any) {
		if gone, ok := in.(toolscache.DeletedFinalStateUnknown); ok {
			in = gone.Obj
		}
		if o, ok := in.(*metav1.PartialObjectMetadata); ok {
			d.notice(wanted, o)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, first bool) {
			if !first { // the first list is what the first sweep reads
				notice(o)
			}
		},
		UpdateFunc: func(old, now any) {
			a, ok1 := old.(*metav1.PartialObjectMetadata)
			b, ok2 := now.(*metav1.PartialObjectMetadata)
			if ok1 && ok2 && changed(a, b) {
				notice(now)
				if a.UID != b.UID { // its deletion was missed
					notice(old)
				}
			}
		},
		DeleteFunc: notice,
	})
	if err != nil {
		log.Error(err, "Kind is not watched yet")
		return false
	}
	return true
}

// notice has read again what an object is about.
func (d *Daemon) notice(gvk schema.GroupVersionKind, o *metav1.PartialObjectMetadata) {
	if gvk.Group == clusterv1.GroupVersion.Group && gvk.Kind == "Cluster" {
		d.noticeCluster(detector.ClusterRef{Namespace: o.Namespace, Name: o.Name})
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.wake()
	at := d.Clock.Now().Add(objectDebounce)
	owner := providers.OwnerRef{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
	ref := detector.ClusterRef{Namespace: o.Namespace, Name: o.Labels[clusterv1.ClusterNameLabel]}
	if gvk.Group == clusterv1.GroupVersion.Group { // a Machine
		var known bool
		if ref, owner, known = d.ownerOf(ref, o.Name); !known {
			return // its infrastructure object tells, when there is one
		}
	}
	if ref.Name == "" {
		ref = d.clusterOf(owner)
	}
	d.noticeOwner(ref, owner, at)
}

// ownerOf finds the owner of a Machine.
func (d *Daemon) ownerOf(ref detector.ClusterRef, machine string) (detector.ClusterRef, providers.OwnerRef, bool) {
	for _, c := range d.clusters {
		if c.ref == ref || ref.Name == "" && c.ref.Namespace == ref.Namespace {
			if owner, ok := c.machines[machine]; ok {
				return c.ref, owner, true
			}
		}
	}
	return ref, providers.OwnerRef{}, false
}

// clusterOf finds the cluster of an owner without a label.
func (d *Daemon) clusterOf(owner providers.OwnerRef) detector.ClusterRef {
	for ref, owners := range d.known {
		if owners[owner] != nil {
			return ref
		}
	}
	return detector.ClusterRef{}
}

// noticeOwner has an owner read again where it lives. One that is new lives
// where its cluster does; if that has several scopes, or none yet, all of it is
// read.
func (d *Daemon) noticeOwner(ref detector.ClusterRef, owner providers.OwnerRef, at time.Time) {
	t := target{owner: owner, cluster: ref, cause: CauseOwnerChanged}
	if k := d.known[ref][owner]; k != nil {
		if s := d.sites[k.site]; s != nil && s.located() {
			s.target(t, at)
			return
		}
	}
	var in []*site
	for _, s := range d.sites {
		if s.members[ref] != nil {
			in = append(in, s)
		}
	}
	if len(in) == 1 && in[0].located() {
		in[0].target(t, at)
		return
	}
	for _, s := range in {
		s.askSoon(at, CauseOwnerChanged)
	}
}

// noticeCluster looks at the Clusters again soon: one has come, gone or
// changed. What is read of one depends on the whole of it, so all of it is.
func (d *Daemon) noticeCluster(refs ...detector.ClusterRef) {
	d.init()
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.Clock.Now().Add(objectDebounce)
	if d.census.due.IsZero() || at.Before(d.census.due) {
		d.census.due = at
	}
	for _, ref := range refs {
		for _, s := range d.sites {
			if s.members[ref] != nil {
				// The same Cluster changes several times in a row while it is
				// made, moved or paused.
				s.ask(cmp.Or(s.asked, at.Add(clusterDebounce)), CauseOwnerChanged)
			}
		}
	}
	d.wake()
}
