package detector_test

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// Fixtures: genX(name, mods...) makes a complete X that each test then bends.

var (
	errThrottled = errors.New("RequestLimitExceeded on page 3")
	now          = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	longAgo      = now.Add(-24 * time.Hour)
	options      = detector.Options{Now: now}
	scope        = providers.Scope{Provider: "fake", Account: "111122223333", Region: "eu-west-1"}
)

func genOwner(name string, mods ...func(*providers.Owner)) *providers.Owner {
	o := &providers.Owner{
		Ref: providers.OwnerRef{
			APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "AWSMachine",
			Namespace: "prod", Name: name, UID: types.UID("uid-" + name),
		},
		Cluster: genCluster("prod", "c1"),
		Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}},
		Pool:    "MachineDeployment/md", Zone: "a",
	}
	for _, mod := range mods {
		mod(o)
	}
	return o
}

func genCluster(namespace, name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name)}}
}

func inCluster(namespace, name string) func(*providers.Owner) {
	return func(o *providers.Owner) {
		o.Cluster = genCluster(namespace, name)
		o.Ref.Namespace = namespace
		o.Ref.UID = types.UID(namespace + "-" + o.Ref.Name)
	}
}

func inZone(zone string) func(*providers.Owner) {
	return func(o *providers.Owner) { o.Zone = zone }
}

func clusterOwner(o *providers.Owner) { o.Machine, o.Ref.Kind = nil, "AWSCluster" }

type resourceMod = func(*providers.Resource)

// want is a wanted instance; have is a seen one.
func want(id string, mods ...resourceMod) providers.Resource {
	r := providers.Resource{ID: providers.ID{Kind: "Instance", Name: id}, Since: longAgo}
	for _, mod := range mods {
		mod(&r)
	}
	return r
}

func have(id string, mods ...resourceMod) *providers.Resource {
	r := &providers.Resource{ID: providers.ID{Kind: "Instance", Name: id}, Name: "name-of-" + id}
	for _, mod := range mods {
		mod(r)
	}
	return r
}

func kind(k string) resourceMod { return func(r *providers.Resource) { r.ID.Kind = k } }

func field(path string, v providers.Value, mods ...func(*providers.Field)) resourceMod {
	return func(r *providers.Resource) {
		f := providers.Field{Value: v}
		for _, mod := range mods {
			mod(&f)
		}
		r.Set(path, f)
	}
}

func str(path, v string, mods ...func(*providers.Field)) resourceMod {
	return field(path, providers.String(v), mods...)
}

func set(path string, elements ...string) resourceMod {
	return field(path, providers.Set(elements...))
}

func matching(m providers.Match) func(*providers.Field) {
	return func(f *providers.Field) { f.Match = m }
}

func sensitive(f *providers.Field) { f.Sensitive = true }
func adopted(f *providers.Field)   { f.Adopted = true }
func mutable(f *providers.Field)   { f.Mutability = providers.InPlace }

func foreignElement(element, owner string) func(*providers.Field) {
	return func(f *providers.Field) {
		if f.Foreign == nil {
			f.Foreign = map[string]string{}
		}
		f.Foreign[element] = owner
	}
}

func claimedElement(element, owner string) func(*providers.Field) {
	return func(f *providers.Field) {
		if f.Claimed == nil {
			f.Claimed = map[string]string{}
		}
		f.Claimed[element] = owner
	}
}

func closed(prefixes ...string) resourceMod {
	return func(r *providers.Resource) { r.Closed = append(r.Closed, prefixes...) }
}

func tagged(clusters ...string) resourceMod {
	return func(r *providers.Resource) { r.ClusterTags = clusters }
}

func gone(reason string) resourceMod    { return func(r *providers.Resource) { r.Gone = reason } }
func unknown(reason string) resourceMod { return func(r *providers.Resource) { r.Unknown = reason } }
func foreign(owner string) resourceMod  { return func(r *providers.Resource) { r.ForeignTo = owner } }
func warning(text string) resourceMod {
	return func(r *providers.Resource) { r.Warnings = append(r.Warnings, text) }
}
func since(t time.Time) resourceMod      { return func(r *providers.Resource) { r.Since = t } }
func wantedAbsent(r *providers.Resource) { r.Absent = true }
func unsettled(r *providers.Resource)    { r.Unsettled = true }

// snapshot is complete for Instance, Volume, SecurityGroup and VPC.
func snapshot(resources ...*providers.Resource) *providers.Snapshot {
	s := &providers.Snapshot{
		Scope: scope, TakenAt: now.Add(-time.Minute),
		Coverage:  map[string]error{"Instance": nil, "Volume": nil, "SecurityGroup": nil, "VPC": nil, "Instance/rootVolume": nil},
		Resources: map[providers.ID]*providers.Resource{},
	}
	for _, r := range resources {
		s.Resources[r.ID] = r
	}
	return s
}

func uncovered(s *providers.Snapshot, part string, err error) *providers.Snapshot {
	s.Coverage[part] = err
	return s
}

// line is a finding in one comparable line per diff.
type line struct {
	Status detector.Status
	Path   string
	Type   detector.DiffType
	Want   string
	Have   string
}

func lines(findings []detector.Finding) []line {
	var out []line
	for _, f := range findings {
		if len(f.Diffs) == 0 {
			out = append(out, line{Status: f.Status})
		}
		for _, d := range f.Diffs {
			out = append(out, line{f.Status, d.Path, d.Type, d.Want.Text(), d.Have.Text()})
		}
	}
	return out
}
