package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Live loads inventories from a management cluster again and again. It keeps no
// object from one load to the next but bootstrap configurations, which tell of
// the past: what it gives is as the API server has it. It is safe for concurrent
// use.
type Live struct {
	Kinds *Kinds
	// Reader asks the API server itself; its scheme is that of Kinds. A cache
	// would give what was, not what is.
	Reader client.Reader
	Mapper meta.RESTMapper
	// Namespaces to read; empty means every one.
	Namespaces []string
	// AtOnce is how many lists of a narrow selection run at once; 0 is eight. One
	// makes the order of reads the same each time.
	AtOnce int

	mu sync.Mutex
	// labelled has the kinds, by namespace, all of whose objects carried the
	// label of their cluster when they were last listed in full.
	labelled map[kindIn]bool
	// bootstraps are the bootstrap configurations of the clusters in booted, all
	// of which were listed.
	bootstraps map[bootstrapKey]bootstrap
	booted     map[types.NamespacedName]bool
}

type kindIn struct {
	schema.GroupKind
	namespace string
}

// Load lists what the selection wants, in pages of which only the compared
// objects are kept, without their managed fields. Where there is no Cluster, or
// none is selected, the inventory has no clusters; Elsewhere names those there
// are. Any list that fails, fails the load.
//
// A Narrow selection is listed by the label cluster.x-k8s.io/cluster-name where
// the last full listing found it on every object of the kind, and takes bootstrap
// configurations from that listing.
func (l *Live) Load(ctx context.Context, s Selection) (*Inventory, error) {
	load := &load{Live: l, selection: s, set: newSet(), texts: texts{}, chosen: map[types.NamespacedName]bool{}, others: map[types.NamespacedName]bool{}}
	if err := load.clusters(ctx); err != nil {
		return nil, err
	}
	if len(load.chosen) > 0 {
		if err := load.objects(ctx); err != nil {
			return nil, err
		}
	}
	inv, err := groupChosen(l.Kinds, load.set, func(c client.Object) (bool, error) { return load.chosen[client.ObjectKeyFromObject(c)], nil })
	if err != nil {
		return nil, err
	}
	if s.Others != nil && len(load.others) > 0 {
		if err := load.bystanders(ctx, inv); err != nil {
			return nil, err
		}
	}
	return inv, nil
}

// load is one Load under way.
type load struct {
	*Live
	selection Selection
	set       *Set
	storing   sync.Mutex // of set and texts, while lists run
	texts     texts
	// chosen and others are the Clusters that are selected, and those that are
	// not.
	chosen, others map[types.NamespacedName]bool
}

// clusters lists all Clusters, few and small, and chooses.
func (l *load) clusters(ctx context.Context) error {
	gvk, _, err := l.Kinds.served(l.Mapper, clusterGK)
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("it does not serve %s: no Cluster API is installed there", clusterGK)
	case err != nil:
		return fmt.Errorf("find %s in the management cluster: %w", clusterGK, err)
	}
	for _, ns := range l.namespaces() {
		if err := l.list(ctx, gvk, ns, "", func(client.Object) bool { return true }); err != nil {
			return err
		}
	}
	for _, o := range l.set.of(clusterGK) {
		ok, err := l.selection.match(o)
		switch {
		case err != nil:
			return err
		case ok:
			l.chosen[client.ObjectKeyFromObject(o)] = true
		default:
			l.others[client.ObjectKeyFromObject(o)] = true
		}
	}
	if len(l.Namespaces) > 0 {
		l.look(ctx)
	}
	return nil
}

func (l *Live) namespaces() []string {
	if len(l.Namespaces) == 0 {
		return []string{""}
	}
	return l.Namespaces
}

// look names the Clusters of namespaces that are not read.
func (l *load) look(ctx context.Context) {
	found := newSet()
	if err := found.look(ctx, l.Kinds, l.Reader, l.Mapper, l.Namespaces); err != nil {
		l.set.unlisted = fmt.Sprintf("the Clusters of other namespaces than %v could not be listed: %v", l.Namespaces, err)
		return
	}
	l.set.elsewhere = found.elsewhere
}

// narrowLists is how many lists of a narrow selection run at once. Each answer
// is small, and waits for the API server's cache to catch up with etcd, which
// takes longer than all else. The lists of everything run one after the other:
// two pages at once are twice the memory.
const narrowLists = 8

// objects lists everything but the Clusters.
func (l *load) objects(ctx context.Context) error {
	var (
		g    errgroup.Group
		mu   sync.Mutex
		errs []error
	)
	failed := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	g.SetLimit(1)
	if l.selection.Narrow {
		g.SetLimit(cmp.Or(l.AtOnce, narrowLists))
	}
	booted := l.knowsBootstraps()
	for _, gk := range l.Kinds.live() {
		if gk == clusterGK || booted && l.Kinds.isBootstrap(gk) {
			continue
		}
		gvk, namespaced, err := l.Kinds.served(l.Mapper, gk)
		switch {
		case meta.IsNoMatchError(err):
			continue
		case err != nil:
			failed(fmt.Errorf("find %s in the management cluster: %w", gk, err))
			continue
		}
		for _, list := range l.lists(gvk, namespaced) {
			g.Go(func() error {
				if err := list(ctx); err != nil {
					failed(err)
				}
				return nil
			})
		}
	}
	_ = g.Wait()
	slices.SortFunc(errs, func(a, b error) int { return compareText(a.Error(), b.Error()) })
	if len(errs) == 0 && !booted {
		l.learnBootstraps()
	}
	return errors.Join(errs...)
}

// lists gives what lists one kind in each namespace that the selection needs.
func (l *load) lists(gvk schema.GroupVersionKind, namespaced bool) (out []func(context.Context) error) {
	if !namespaced {
		return append(out, func(ctx context.Context) error { return l.list(ctx, gvk, "", "", l.keep) })
	}
	for _, ns := range l.needed() {
		if !l.selection.Narrow || ns == "" || !l.isLabelled(kindIn{gvk.GroupKind(), ns}) {
			out = append(out, func(ctx context.Context) error { return l.whole(ctx, gvk, ns) })
			continue
		}
		for _, cluster := range l.names(ns) {
			out = append(out, func(ctx context.Context) error { return l.list(ctx, gvk, ns, cluster, l.keep) })
		}
	}
	return out
}

// whole lists a kind in a namespace, or in all, and learns whether its objects
// carry the label of their cluster.
func (l *load) whole(ctx context.Context, gvk schema.GroupVersionKind, namespace string) error {
	labelled := map[string]bool{}
	err := l.list(ctx, gvk, namespace, "", func(o client.Object) bool {
		before, seen := labelled[o.GetNamespace()]
		labelled[o.GetNamespace()] = (before || !seen) && o.GetLabels()[clusterv1.ClusterNameLabel] != ""
		return l.keep(o)
	})
	if err == nil {
		l.learn(gvk.GroupKind(), labelled)
	}
	return err
}

// needed gives the namespaces to list: those of the chosen Clusters, or all at
// once where every Cluster is chosen and every namespace may be read.
func (l *load) needed() []string {
	if len(l.others) == 0 && len(l.Namespaces) == 0 && !l.selection.Narrow {
		return []string{""}
	}
	in := map[string]bool{}
	for key := range l.chosen {
		in[key.Namespace] = true
	}
	return slices.Sorted(maps.Keys(in))
}

// names gives the chosen Clusters of a namespace.
func (l *load) names(namespace string) []string {
	var out []string
	for key := range l.chosen {
		if key.Namespace == namespace {
			out = append(out, key.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (l *Live) isLabelled(in kindIn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.labelled[in]
}

// learn remembers where all objects of a kind carry their cluster's label.
func (l *Live) learn(gk schema.GroupKind, labelled map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.labelled == nil {
		l.labelled = map[kindIn]bool{}
	}
	for ns, all := range labelled {
		l.labelled[kindIn{gk, ns}] = all
	}
}

// keep says whether an object may belong to a chosen Cluster: it does not if it
// names another one that exists.
func (l *load) keep(o client.Object) bool {
	if len(l.others) == 0 {
		return true
	}
	name := clusterName(o)
	return name == "" || !l.others[types.NamespacedName{Namespace: o.GetNamespace(), Name: name}]
}
