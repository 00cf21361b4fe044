package inventory

import (
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// strip drops what a bootstrap configuration would take up memory with, and
// credentials: of all that a machine boots with, how its node registers is
// compared and nothing else.
func strip(o client.Object) {
	config, ok := o.(*bootstrapv1.KubeadmConfig)
	if !ok {
		return
	}
	config.Annotations = nil // the conversion from v1beta1 keeps the whole object there
	init, join := config.Spec.InitConfiguration.NodeRegistration, config.Spec.JoinConfiguration.NodeRegistration
	config.Spec = bootstrapv1.KubeadmConfigSpec{}
	config.Spec.InitConfiguration.NodeRegistration = init
	config.Spec.JoinConfiguration.NodeRegistration = join
	config.Status = bootstrapv1.KubeadmConfigStatus{}
}

// bootstrapKey names a bootstrap configuration.
type bootstrapKey struct {
	schema.GroupKind
	types.NamespacedName
}

// bootstrap is a configuration without metadata, and the cluster that it is of.
// Those that say the same share one object: ten thousand machines boot in a few
// ways.
type bootstrap struct {
	cluster string
	object  client.Object
}

// bootstraps are those that one load has read, or that earlier ones have.
type bootstraps struct {
	byKey map[bootstrapKey]bootstrap
	alike map[string]client.Object
}

func (b *bootstraps) add(gk schema.GroupKind, o client.Object) error {
	key, cluster := bootstrapKey{gk, client.ObjectKeyFromObject(o)}, clusterName(o)
	gvk := o.GetObjectKind().GroupVersionKind()
	for _, clear := range []func(){
		func() { o.SetName("") }, func() { o.SetNamespace("") }, func() { o.SetUID("") }, func() { o.SetResourceVersion("") }, func() { o.SetGeneration(0) },
		func() { o.SetLabels(nil) }, func() { o.SetOwnerReferences(nil) }, func() { o.SetFinalizers(nil) }, func() { o.SetCreationTimestamp(metav1.Time{}) },
	} {
		clear()
	}
	o.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if b.byKey == nil {
		b.byKey, b.alike = map[bootstrapKey]bootstrap{}, map[string]client.Object{}
	}
	if same := b.alike[string(text)]; same != nil {
		o = same
	}
	b.alike[string(text)] = o
	b.byKey[key] = bootstrap{cluster: cluster, object: o}
	return nil
}

// isBootstrap reports a kind of bootstrap configurations that some provider asks
// for.
func (k *Kinds) isBootstrap(gk schema.GroupKind) bool { return len(k.bootstrap[gk]) > 0 }

// storeBootstrap keeps a configuration as it was served.
func (l *load) storeBootstrap(gvk schema.GroupVersionKind, o client.Object) error {
	var (
		made client.Object
		err  error
	)
	if u, ok := o.(*unstructured.Unstructured); ok {
		made, err = l.Kinds.typed(u)
	} else {
		made, err = l.Kinds.hubOf(gvk, o)
	}
	if err != nil {
		return err
	}
	return l.set.bootstraps.add(gvk.GroupKind(), made)
}

// knowsBootstraps reports that the bootstrap configurations of all chosen
// Clusters have been listed before, so that a narrow load need not do so again:
// they may hold megabytes of files, and how a node once registered does not
// change. It takes them over. One that has come since is in the next full load.
func (l *load) knowsBootstraps() bool {
	if !l.selection.Narrow {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for cluster := range l.chosen {
		if !l.booted[cluster] {
			return false
		}
	}
	known := map[bootstrapKey]bootstrap{}
	for key, b := range l.bootstraps {
		if l.chosen[types.NamespacedName{Namespace: key.Namespace, Name: b.cluster}] {
			known[key] = b
		}
	}
	l.set.bootstraps.byKey = known
	return true
}

// learnBootstraps remembers what a load has listed, and forgets clusters that are
// gone.
func (l *load) learnBootstraps() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bootstraps == nil {
		l.bootstraps, l.booted = map[bootstrapKey]bootstrap{}, map[types.NamespacedName]bool{}
	}
	old := func(cluster types.NamespacedName) bool { return l.chosen[cluster] || !l.others[cluster] }
	maps.DeleteFunc(l.bootstraps, func(key bootstrapKey, b bootstrap) bool {
		return old(types.NamespacedName{Namespace: key.Namespace, Name: b.cluster})
	})
	maps.DeleteFunc(l.booted, func(cluster types.NamespacedName, _ bool) bool { return old(cluster) })
	for key, b := range l.set.bootstraps.byKey {
		if l.chosen[types.NamespacedName{Namespace: key.Namespace, Name: b.cluster}] {
			l.bootstraps[key] = b
		}
	}
	maps.Copy(l.booted, l.chosen)
}
