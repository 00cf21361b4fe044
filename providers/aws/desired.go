package aws

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	"github.com/holdfast-io/holdfast/providers"
)

// desired gives what an AWSMachine or AWSCluster wants, in the words of the
// snapshot: names, tags and filters become ids by looking them up in it.
//
// It is pure, and changes neither argument. A field that the spec leaves unset
// is left out, and so is one that only echoes what the infrastructure
// provider's controller saw in the cloud. What is wanted and cannot be told
// apart (an ambiguous reference, nothing recorded yet) is a resource with
// Unchecked set that says why. The error is for owners that no wanted state
// can be made of at all.
//
// What CAPA makes of a spec was read from Cluster API Provider AWS v2.13.0;
// comments name the rule where it is not plain.
func desired(owner *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	return wanted(owner, snap, false)
}

// wanted is desired, or with plan what [Provider.Plan] gives.
func wanted(owner *providers.Owner, snap *providers.Snapshot, plan bool) ([]providers.Resource, error) {
	if owner == nil || owner.Cluster == nil || snap == nil {
		return nil, fmt.Errorf("wanted state of %s: an owner with its Cluster and a snapshot are needed", refOf(owner))
	}
	w := &wants{owner: owner, cluster: newClusterView(owner, snap, plan)}
	switch infra := owner.Infra.(type) {
	case *infrav1.AWSMachine:
		w.machine(infra)
	case *infrav1.AWSCluster:
		w.network(infra)
	default:
		return nil, fmt.Errorf("wanted state of %s: a %T is neither an AWSMachine nor an AWSCluster", refOf(owner), owner.Infra)
	}
	return w.out, nil
}

func refOf(owner *providers.Owner) string {
	if owner == nil {
		return "nothing"
	}
	return owner.Ref.String()
}

// wants collects what one owner wants.
type wants struct {
	owner   *providers.Owner
	cluster *clusterView
	out     []providers.Resource
}

func (w *wants) add(r providers.Resource) {
	r.Owner = w.owner.Ref
	w.out = append(w.out, r)
}

// unchecked adds what a field refers to and cannot be told. It is named after
// the owner and the field; the slashes keep that name apart from every id of
// EC2.
func (w *wants) unchecked(kind, field, reason string) {
	name := "unresolved/" + w.owner.Ref.Namespace + "/" + w.owner.Ref.Name + "/" + field
	w.add(providers.Resource{ID: providers.ID{Kind: kind, Name: name}, Name: field, Unchecked: reason})
}

// unrecorded adds a resource whose id is not known yet, which is what an empty
// one means to the detector. One stands for all of its kind: without an id
// there is nothing to tell them apart by.
func (w *wants) unrecorded(kind, name, why string) {
	for i := range w.out {
		if r := &w.out[i]; r.ID == (providers.ID{Kind: kind}) {
			r.Name += ", " + name
			if r.Unchecked != why {
				r.Unchecked += "; " + why
			}
			return
		}
	}
	w.add(providers.Resource{ID: providers.ID{Kind: kind}, Name: name, Unchecked: why})
}

// release drops every opinion and keeps the identities, so that what an owner
// is about to delete is neither drift nor an orphan.
func (w *wants) release(why string) {
	for i := range w.out {
		r := &w.out[i]
		*r = providers.Resource{
			ID: r.ID, Name: r.Name, Owner: r.Owner, Needs: r.Needs, Since: r.Since,
			Unsettled: true, Warnings: []string{why},
		}
	}
}

// want sets a wanted field that must be equal.
func want(r *providers.Resource, path string, v providers.Value, m providers.Mutability) {
	r.Set(path, providers.Field{Value: v, Mutability: m})
}

// wantString sets a wanted string unless the spec leaves it empty.
func wantString[T ~string](r *providers.Resource, path string, s T, m providers.Mutability) {
	if s != "" {
		want(r, path, providers.String(string(s)), m)
	}
}

// wantMatch sets a wanted field with another match than equality.
func wantMatch(r *providers.Resource, path string, v providers.Value, match providers.Match, m providers.Mutability) {
	r.Set(path, providers.Field{Value: v, Match: match, Mutability: m})
}

// since is when a resource can first have been recorded: the object's creation,
// or later when the condition about the resource turned true. A condition that
// is not true says nothing, so that a loss which the controller has noticed
// is not taken for a fresh creation.
func since(o metav1.Object, conditions clusterv1beta1.Conditions, about clusterv1beta1.ConditionType) time.Time {
	t := o.GetCreationTimestamp().Time
	for _, c := range conditions {
		if c.Type == about && c.Status == "True" && c.LastTransitionTime.After(t) {
			t = c.LastTransitionTime.Time
		}
	}
	return t
}

// beingDeleted says which object above or at the owner is on its way out;
// empty if none is.
func beingDeleted(owner *providers.Owner) string {
	switch {
	case !owner.Infra.GetDeletionTimestamp().IsZero():
		return owner.Ref.Kind + " is being deleted"
	case owner.Machine != nil && !owner.Machine.DeletionTimestamp.IsZero():
		return "Machine " + owner.Machine.Name + " is being deleted"
	case !owner.Cluster.DeletionTimestamp.IsZero():
		return "Cluster " + owner.Cluster.Name + " is being deleted"
	default:
		return ""
	}
}

// first gives the first non-empty string.
func first(s ...string) string { return cmp.Or(s...) }
