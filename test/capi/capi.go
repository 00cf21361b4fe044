// Package capi plays what an API server and Cluster API's own controllers make
// of a cluster's objects, whatever its infrastructure: metadata, MachineSets,
// Machines, and the status of a cluster that is well. The simulated clusters of
// test/awscluster and test/vspherecluster are made with it.
package capi

import (
	"crypto/sha256"
	"encoding/base32"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CoreAPIVersion is that of Clusters, MachineDeployments, MachineSets and
// Machines.
var CoreAPIVersion = clusterv1.GroupVersion.String()

// Maker makes the objects of one cluster. What it makes up follows from names
// only, so that it is the same in every run.
type Maker struct {
	Namespace string
	// Name is the cluster's.
	Name string
	// Created is when every object was made.
	Created time.Time
	// named are the machines' names so far.
	named map[string]bool
}

// NewMaker gives the maker of a cluster's objects. The zero time stands for a
// day ago, which is past any creation grace.
func NewMaker(cluster *clusterv1.Cluster, created time.Time) *Maker {
	if created.IsZero() {
		created = time.Now().Add(-24 * time.Hour)
	}
	return &Maker{
		Namespace: cluster.Namespace, Name: cluster.Name,
		Created: created.UTC().Truncate(time.Second), named: map[string]bool{},
	}
}

// Suffix gives the five letters that a generated name ends in: random to the
// eye, and the same in every run.
func (k *Maker) Suffix(of string) string {
	sum := sha256.Sum256([]byte(k.Namespace + "/" + k.Name + "/" + of))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:5]
}

func (k *Maker) uid(kind, name string) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(kind+"/"+k.Namespace+"/"+name)).String())
}

// Meta fills in what the API server and owners give an object. A zero owner is
// none.
func (k *Maker) Meta(o client.Object, apiVersion, kind string, owner metav1.OwnerReference) {
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	o.SetNamespace(k.Namespace)
	o.SetUID(k.uid(kind, o.GetName()))
	o.SetCreationTimestamp(metav1.NewTime(k.Created))
	o.SetGeneration(1)
	if owner.Name != "" {
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
	}
}

// Label puts the cluster's name on an object.
func (k *Maker) Label(o client.Object) {
	labels := maps.Clone(o.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.ClusterNameLabel] = k.Name
	o.SetLabels(labels)
}

// ControlledBy gives a controller reference to an object.
func (k *Maker) ControlledBy(o client.Object, apiVersion, kind string) metav1.OwnerReference {
	owner := k.OwnedBy(o, apiVersion, kind)
	owner.Controller, owner.BlockOwnerDeletion = ptr.To(true), ptr.To(true)
	return owner
}

// OwnedBy gives a plain reference to an object, whose UID follows from its kind
// and name.
func (k *Maker) OwnedBy(o client.Object, apiVersion, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: o.GetName(), UID: k.uid(kind, o.GetName())}
}
