package node

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/providers"
)

// Paths of a Node's fields, in the words of the Node.
const (
	pathProviderID = "/spec/providerID"
	pathTaints     = "/spec/taints"
	pathVersion    = "/status/nodeInfo/kubeletVersion"
	pathLabels     = "/metadata/labels"
)

func labelPath(key string) string { return pathLabels + providers.Pointer(key) }

// idOf names a Node across clusters.
func idOf(cluster types.NamespacedName, node string) providers.ID {
	return providers.ID{Kind: providers.KindNode, Name: cluster.Namespace + "/" + cluster.Name + "/" + node}
}

// fromID takes an id apart. No name of a namespace, a Cluster or a Node has a
// slash in it.
func fromID(id providers.ID) (cluster types.NamespacedName, node string, ok bool) {
	parts := strings.Split(id.Name, "/")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return cluster, "", false
	}
	return types.NamespacedName{Namespace: parts[0], Name: parts[1]}, parts[2], true
}

func clusterOf(owner *providers.Owner) types.NamespacedName {
	return types.NamespacedName{Namespace: owner.Cluster.Namespace, Name: owner.Cluster.Name}
}

// form is what is kept of one cluster's Nodes. What is the same for all of them
// they share: there are ten thousand.
type form struct {
	cluster types.NamespacedName
	// labels are in the order of their paths.
	labels []labelForm
	closed []string
	values map[string]string
}

type labelForm struct{ key, path string }

func newForm(cluster types.NamespacedName, keys iter.Seq[string]) *form {
	f := &form{cluster: cluster, closed: []string{pathProviderID, pathTaints, pathVersion}, values: map[string]string{}}
	for key := range keys {
		path := labelPath(key)
		f.labels = append(f.labels, labelForm{key, path})
		f.closed = append(f.closed, path)
	}
	slices.SortFunc(f.labels, func(a, b labelForm) int { return cmp.Compare(a.path, b.path) })
	slices.Sort(f.closed)
	return f
}

// resource gives a Node as it is compared. Its strings are its own: the answer
// that they came in goes. It is for one goroutine at a time.
func (f *form) resource(n *corev1.Node) *providers.Resource {
	r := &providers.Resource{
		ID: idOf(f.cluster, n.Name), Name: strings.Clone(n.Name), Closed: f.closed,
		Fields: make(providers.Fields, 0, len(f.labels)+3),
	}
	for _, l := range f.labels {
		if v, ok := n.Labels[l.key]; ok {
			r.Set(l.path, providers.Field{Value: providers.String(f.shared(v))})
		}
	}
	if id := n.Spec.ProviderID; id != "" {
		r.Set(pathProviderID, providers.Field{Value: providers.String(strings.Clone(id))})
	}
	var taints []string
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; !transient(t.Key) {
			taints = append(taints, t.ToString())
		}
	}
	if len(taints) > 0 {
		r.Set(pathTaints, providers.Field{Value: providers.Set(taints...)})
	}
	if v := n.Status.NodeInfo.KubeletVersion; v != "" {
		r.Set(pathVersion, providers.Field{Value: providers.String(f.shared(v))})
	}
	return r
}

// shared gives the one copy of a value that many Nodes have.
func (f *form) shared(v string) string {
	if known, ok := f.values[v]; ok {
		return known
	}
	v = strings.Clone(v)
	f.values[v] = v
	return v
}
