package inventory

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// grouper collects what belongs to each selected Cluster.
type grouper struct {
	kinds    *Kinds
	set      *Set
	clusters map[types.NamespacedName]*Cluster
	// unselected are Clusters that exist and were not selected.
	unselected map[types.NamespacedName]bool
	claimed    map[client.Object]bool
	problems   []Problem
}

// skipped remembers a Cluster that was not selected, so that what belongs to
// it is nobody's stray.
func (g *grouper) skipped(o *Object) {
	if g.unselected == nil {
		g.unselected = map[types.NamespacedName]bool{}
	}
	g.unselected[client.ObjectKeyFromObject(o)] = true
	if c, ok := o.Object.(*clusterv1.Cluster); ok {
		g.claimRef(c.Namespace, c.Spec.InfrastructureRef)
		g.claimRef(c.Namespace, c.Spec.ControlPlaneRef)
	}
}

func (g *grouper) claimRef(namespace string, ref clusterv1.ContractVersionedObjectReference) {
	if o := g.set.Get(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}, namespace, ref.Name); o != nil {
		g.claim(o.Object)
	}
}

func (g *grouper) claim(o client.Object) {
	if g.claimed == nil {
		g.claimed = map[client.Object]bool{}
	}
	g.claimed[o] = true
}

// cluster resolves a Cluster's own references.
func (g *grouper) cluster(c *Cluster) {
	ns := c.Object.Namespace
	if ref := c.Object.Spec.ControlPlaneRef; ref.Name != "" {
		gk := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
		if o := g.set.Get(gk, ns, ref.Name); o != nil {
			c.ControlPlane, _ = o.Object.(*unstructured.Unstructured)
			if u, ok := g.kinds.unmodelled[gk]; ok {
				g.uncompared(c, o, u.provider, u.reason)
			}
		}
	}
	ref := c.Object.Spec.InfrastructureRef
	if ref.Name == "" {
		reason := "the Cluster names no infrastructure yet"
		if c.Object.Spec.Topology.ClassRef.Name != "" {
			reason = "the topology controller has not made its infrastructure yet"
		}
		g.uncompared(c, &Object{Object: c.Object, At: c.At}, "", reason)
		return
	}
	gk := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
	o := g.set.Get(gk, ns, ref.Name)
	if o == nil {
		g.uncompared(c, missing(c.Object, ref, c.At), g.kinds.owners[gk].provider, "its infrastructure object is not among the objects")
		return
	}
	c.Infra = o.Object
	g.owner(c, o, nil)
}

// owner adds an infrastructure object to its cluster.
func (g *grouper) owner(c *Cluster, o *Object, m *Object) {
	gk := o.GetObjectKind().GroupVersionKind().GroupKind()
	g.claim(o.Object)
	kind, ok := g.kinds.owners[gk]
	if !ok {
		u, known := g.kinds.unmodelled[gk]
		if !known {
			u.reason = fmt.Sprintf("%s belongs to an infrastructure provider that is not modelled", gk)
		}
		g.uncompared(c, o, u.provider, u.reason)
		if m != nil {
			c.Uncompared[len(c.Uncompared)-1].Machine = m.Object.(*clusterv1.Machine)
		}
		return
	}
	owner := &Owner{Provider: kind.provider, Owner: providers.Owner{
		Ref:     providers.RefOf(o),
		Cluster: c.Object,
		Infra:   o.Object,
		Source:  o.At.String(),
	}}
	if m != nil {
		machine := m.Object.(*clusterv1.Machine)
		owner.Machine = machine
		owner.Pool = Pool(machine)
		owner.Zone = machine.Spec.FailureDomain
		_, owner.ControlPlane = machine.Labels[clusterv1.MachineControlPlaneLabel]
		owner.Bootstrap = g.bootstrap(machine, kind.provider)
	}
	c.Owners = append(c.Owners, owner)
}

// bootstrap finds a Machine's bootstrap configuration, nil if it is of a kind
// that the provider does not ask for, or not there.
func (g *grouper) bootstrap(m *clusterv1.Machine, provider string) client.Object {
	ref := m.Spec.Bootstrap.ConfigRef
	gk := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
	if !slices.Contains(g.kinds.bootstrap[gk], provider) {
		return nil
	}
	if o := g.set.Get(gk, m.Namespace, ref.Name); o != nil {
		return o.Object
	}
	if b, ok := g.set.bootstraps.byKey[bootstrapKey{gk, types.NamespacedName{Namespace: m.Namespace, Name: ref.Name}}]; ok {
		return b.object
	}
	return nil
}

func (g *grouper) uncompared(c *Cluster, o *Object, provider, reason string) {
	c.Uncompared = append(c.Uncompared, Uncompared{
		Ref: providers.RefOf(o), Provider: provider, Reason: reason, At: o.At,
	})
}

// missing stands for an object that is referred to and not there.
func missing(from client.Object, ref clusterv1.ContractVersionedObjectReference, at Position) *Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: ref.APIGroup, Version: "unknown", Kind: ref.Kind})
	u.SetNamespace(from.GetNamespace())
	u.SetName(ref.Name)
	return &Object{Object: u, At: at}
}

// machines gives each Machine's infrastructure to its cluster.
func (g *grouper) machines() {
	for _, m := range g.set.of(machineGK) {
		machine := m.Object.(*clusterv1.Machine)
		key := types.NamespacedName{Namespace: machine.Namespace, Name: machine.Spec.ClusterName}
		c := g.clusters[key]
		if c == nil {
			g.claimRef(machine.Namespace, machine.Spec.InfrastructureRef)
			g.stray(m, key, fmt.Sprintf("its Cluster %s is not among the objects, so it is not compared", key))
			continue
		}
		ref := machine.Spec.InfrastructureRef
		o := g.set.Get(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}, machine.Namespace, ref.Name)
		if o == nil {
			g.uncompared(c, m, g.kinds.owners[schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}].provider,
				fmt.Sprintf("its infrastructure object %s %s is not among the objects", ref.Kind, ref.Name))
			c.Uncompared[len(c.Uncompared)-1].Machine = machine
			continue
		}
		g.owner(c, o, m)
	}
	for gk, add := range map[schema.GroupKind]func(*Cluster, client.Object){
		machineSetGK: func(c *Cluster, o client.Object) {
			c.MachineSets = append(c.MachineSets, o.(*clusterv1.MachineSet))
		},
		machineDeploymentGK: func(c *Cluster, o client.Object) {
			c.MachineDeployments = append(c.MachineDeployments, o.(*clusterv1.MachineDeployment))
		},
		healthCheckGK: func(c *Cluster, o client.Object) {
			c.MachineHealthChecks = append(c.MachineHealthChecks, o.(*clusterv1.MachineHealthCheck))
		},
	} {
		for _, o := range g.set.of(gk) {
			if c := g.clusters[types.NamespacedName{Namespace: o.GetNamespace(), Name: clusterName(o.Object)}]; c != nil {
				add(c, o.Object)
			}
		}
	}
}

// strays names infrastructure that no Machine or Cluster refers to.
func (g *grouper) strays() {
	for _, gk := range g.set.kinds() {
		kind, owned := g.kinds.owners[gk]
		_, unmodelled := g.kinds.unmodelled[gk]
		if !owned && !unmodelled {
			continue
		}
		for _, o := range g.set.of(gk) {
			if g.claimed[o.Object] {
				continue
			}
			key := types.NamespacedName{Namespace: o.GetNamespace(), Name: clusterName(o.Object)}
			c := g.clusters[key]
			switch {
			case c != nil && owned && kind.role == providers.RoleMachine:
				g.uncompared(c, o, kind.provider, "no Machine refers to it")
			case c != nil && unmodelled:
				g.uncompared(c, o, g.kinds.unmodelled[gk].provider, g.kinds.unmodelled[gk].reason)
			case strings.HasSuffix(gk.Kind, "Template"):
				// Nothing exists in a cloud for it.
			default:
				g.stray(o, key, "no Cluster among the objects refers to it, so it is not compared")
			}
		}
	}
}

func (g *grouper) stray(o *Object, cluster types.NamespacedName, message string) {
	if g.unselected[cluster] {
		return
	}
	g.problems = append(g.problems, Problem{
		At: o.At, Object: describe(o), Cluster: cluster, Reason: "NoCluster", Message: describe(o) + ": " + message,
	})
}

// clusterName tells which cluster an object belongs to: by its spec, by the
// label that Cluster API sets, or by an owner reference.
func clusterName(o client.Object) string {
	switch o := o.(type) {
	case *clusterv1.MachineSet:
		return o.Spec.ClusterName
	case *clusterv1.MachineDeployment:
		return o.Spec.ClusterName
	case *clusterv1.MachineHealthCheck:
		return o.Spec.ClusterName
	case *unstructured.Unstructured:
		if name, ok, _ := unstructured.NestedString(o.Object, "spec", "clusterName"); ok {
			return name
		}
	}
	if name := o.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return name
	}
	for _, ref := range o.GetOwnerReferences() {
		if isKind(ref, "Cluster") {
			return ref.Name
		}
	}
	return ""
}

func isKind(ref metav1.OwnerReference, kind string) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind == kind
}

// Pool names what a Machine is one of, as Kind/name; empty if nothing.
func Pool(m *clusterv1.Machine) string {
	for _, l := range []struct{ label, kind string }{
		{clusterv1.MachineDeploymentNameLabel, "MachineDeployment"},
		{clusterv1.MachineSetNameLabel, "MachineSet"},
		{clusterv1.MachinePoolNameLabel, "MachinePool"},
	} {
		if name := m.Labels[l.label]; name != "" {
			return l.kind + "/" + name
		}
	}
	if ref := metav1.GetControllerOf(m); ref != nil {
		return ref.Kind + "/" + ref.Name
	}
	if name := m.Labels[clusterv1.MachineControlPlaneNameLabel]; name != "" {
		return "ControlPlane/" + name
	}
	return ""
}
