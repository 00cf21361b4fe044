package inventory

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// Inventory is the loaded objects, grouped.
type Inventory struct {
	// Clusters are ordered by namespace and name.
	Clusters []*Cluster
	// Elsewhere are the Clusters that exist and were not selected, ordered as
	// Clusters are. They share names, accounts and networks with those that
	// were.
	Elsewhere []Elsewhere
	// Unlisted, if not empty, says why there may be more Clusters than these.
	Unlisted string
	// Problems are those of loading and of grouping.
	Problems []Problem
}

// Elsewhere is a Cluster that is not looked at.
type Elsewhere struct {
	Key types.NamespacedName
	// Provider of its infrastructure; empty if it is not known.
	Provider string
	// Object is the Cluster itself; nil where nothing but its name was read.
	Object *clusterv1.Cluster
	// Machines counts its Machines, and Busy are those that Selection.Others
	// chose; both only if the selection asks for them.
	Machines int
	Busy     []*clusterv1.Machine
}

// Cluster is one Cluster with everything that belongs to it.
type Cluster struct {
	Object *clusterv1.Cluster
	At     Position
	// Infra is its infrastructure object, nil if there is none yet.
	Infra client.Object
	// ControlPlane is its control-plane object, nil if not found.
	ControlPlane *unstructured.Unstructured
	// Owners are what providers compare: the infrastructure cluster and the
	// infrastructure machines, ordered by kind and name.
	Owners []*Owner
	// Uncompared are objects that are known and not compared, each with its
	// reason.
	Uncompared []Uncompared

	MachineSets         []*clusterv1.MachineSet
	MachineDeployments  []*clusterv1.MachineDeployment
	MachineHealthChecks []*clusterv1.MachineHealthCheck
}

// Key is the Cluster's namespace and name.
func (c *Cluster) Key() types.NamespacedName { return client.ObjectKeyFromObject(c.Object) }

// Owner is an owner and the provider that knows it.
type Owner struct {
	providers.Owner
	Provider string
}

// Uncompared is an object whose cloud resources nobody looks at.
type Uncompared struct {
	Ref      providers.OwnerRef
	Provider string // empty if no provider of Holdfast knows the kind
	Reason   string
	At       Position
	// Machine is the Machine that it is, or is of; nil for anything else. What
	// is not compared still counts for quorum and for what is in flight.
	Machine *clusterv1.Machine
}

// Selection narrows an inventory.
type Selection struct {
	// Namespace, if not empty, is the only one looked at.
	Namespace string
	// Clusters, if not empty, are NAMESPACE/NAME patterns (path.Match); a
	// pattern without a slash is a name in any namespace.
	Clusters []string
	// Exactly, if not nil, names the Clusters that are meant, whatever else is
	// set; an empty list is none.
	Exactly []types.NamespacedName
	// Narrow is for a selection of few Clusters among many: see [Live.Load].
	Narrow bool
	// Others, if not nil, has the Machines of all other Clusters counted, and
	// those kept for which it is true. [Live.Load] alone does that.
	Others func(*clusterv1.Machine) bool
}

func (s Selection) match(c client.Object) (bool, error) {
	if s.Exactly != nil {
		return slices.Contains(s.Exactly, client.ObjectKeyFromObject(c)), nil
	}
	if s.Namespace != "" && c.GetNamespace() != s.Namespace {
		return false, nil
	}
	if len(s.Clusters) == 0 {
		return true, nil
	}
	for _, pattern := range s.Clusters {
		ns, name, ok := strings.Cut(pattern, "/")
		if !ok {
			ns, name = "*", pattern
		}
		a, err1 := path.Match(ns, c.GetNamespace())
		b, err2 := path.Match(name, c.GetName())
		if err1 != nil || err2 != nil {
			return false, fmt.Errorf("cluster pattern %q: want NAMESPACE/NAME, in which * and ? may stand", pattern)
		}
		if a && b {
			return true, nil
		}
	}
	return false, nil
}

// Group makes the inventory of a set. It is pure. A selection that matches no
// Cluster is an error that names those there are.
func Group(kinds *Kinds, set *Set, selection Selection) (*Inventory, error) {
	inv, err := groupChosen(kinds, set, selection.match)
	if err != nil || len(inv.Clusters) > 0 {
		return inv, err
	}
	var all []string
	for _, o := range set.of(clusterGK) {
		all = append(all, o.GetNamespace()+"/"+o.GetName())
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no Cluster (%s) among the objects: nothing says which machines belong together", clusterGK)
	}
	return nil, fmt.Errorf("no Cluster matches %s; there are: %s", strings.Join(append(selection.Clusters, selection.Namespace), " "), strings.Join(all, ", "))
}

// groupChosen makes the inventory of those Clusters of a set that are chosen.
func groupChosen(kinds *Kinds, set *Set, chosen func(client.Object) (bool, error)) (*Inventory, error) {
	g := &grouper{kinds: kinds, set: set, clusters: map[types.NamespacedName]*Cluster{}}
	inv := &Inventory{Problems: slices.Clone(set.Problems), Elsewhere: slices.Clone(set.elsewhere), Unlisted: set.unlisted}
	for _, o := range set.of(clusterGK) {
		ok, err := chosen(o)
		if err != nil {
			return nil, err
		}
		if !ok {
			g.skipped(o)
			inv.Elsewhere = append(inv.Elsewhere, elsewhere(kinds, o))
			continue
		}
		c := &Cluster{Object: o.Object.(*clusterv1.Cluster), At: o.At}
		g.clusters[c.Key()] = c
		inv.Clusters = append(inv.Clusters, c)
	}
	for _, c := range inv.Clusters {
		g.cluster(c)
	}
	g.machines()
	g.strays()
	for _, c := range inv.Clusters {
		g.finish(c)
	}
	slices.SortFunc(inv.Elsewhere, func(a, b Elsewhere) int { return compareText(a.Key.String(), b.Key.String()) })
	inv.Problems = append(inv.Problems, g.problems...)
	sortProblems(inv.Problems)
	return inv, nil
}

func elsewhere(kinds *Kinds, o *Object) Elsewhere {
	out := Elsewhere{Key: client.ObjectKeyFromObject(o)}
	if c, ok := o.Object.(*clusterv1.Cluster); ok {
		ref := c.Spec.InfrastructureRef
		out.Object = c
		out.Provider = kinds.owners[schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}].provider
	}
	return out
}

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return compareText(a.At.File+"\x00"+fmt.Sprintf("%09d", a.At.Line)+a.Object+a.Reason+a.Message,
			b.At.File+"\x00"+fmt.Sprintf("%09d", b.At.Line)+b.Object+b.Reason+b.Message)
	})
}

var (
	clusterGK           = schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Cluster"}
	machineGK           = schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Machine"}
	machineSetGK        = schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "MachineSet"}
	machineDeploymentGK = schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "MachineDeployment"}
	healthCheckGK       = schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "MachineHealthCheck"}
)
