package awscluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// Tamper is one way in which a cluster drifts: what somebody does behind the
// back of Cluster API, and what Holdfast must then say.
type Tamper struct {
	// Name is short, lower case and unique.
	Name string
	// Row is the row of the drift catalog that it exercises.
	Row string
	// Cases are the public reports that it plays again, such as C28.
	Cases []string
	// Manifest is the example that it needs; empty means [DefaultExample].
	Manifest string
	// Variant names the [Variant] of the example that it needs; empty means
	// the example as it is.
	Variant string
	// NotOnMoto says why moto cannot express it; empty if it can.
	NotOnMoto string
	// NotMendedOnMoto says why moto does not show a repair that is right for EC2;
	// empty if it does.
	NotMendedOnMoto string
	// NotOnSim says why ec2sim refuses it, as EC2 does; empty if it does not.
	NotOnSim string
	// Do does it.
	Do func(context.Context, *Environment) (*Damage, error)
}

// DefaultExample is the example that most tampers are done to.
const DefaultExample = "prod-eu.yaml"

// Damage is what a tamper has done.
type Damage struct {
	// Findings are all that a report must have, in any order. None means that
	// the tamper must not be noticed.
	Findings []Finding
	// Undo brings the cloud and the objects back to where they were; nil if
	// nothing does and the cluster must be made anew.
	Undo func(context.Context) error
}

// Finding is what an expected finding must say.
type Finding struct {
	// Owner is the object's kind and name.
	Owner  string
	Kind   string
	ID     string
	Status detector.Status
	// Diffs are ordered by path and value.
	Diffs []Diff
}

// String gives a finding in one line.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s of %s: %s", f.Kind, f.ID, f.Owner, f.Status)
	for _, d := range f.Diffs {
		fmt.Fprintf(&b, "; %s %s %q -> %q", d.Path, d.Type, d.Want, d.Have)
		if d.Adopted {
			b.WriteString(" adopted")
		}
	}
	return b.String()
}

// Diff is what an expected difference must say.
type Diff struct {
	Path string
	Type detector.DiffType
	// Want and Have are the values as text; empty is absence.
	Want, Have string
	// Adopted says that CAPA has rewritten the spec to match the cloud.
	Adopted bool
}

// Tampers lists every tamper, in the order of the drift catalog.
func Tampers() []Tamper {
	return slices.Concat(stateTampers(), instanceTampers(), tagTampers(), attachmentTampers(), volumeTampers(),
		editTampers(), neverTampers(), moreTampers(), declarationTampers(), networkTampers(), routeTampers(), adoptionTampers(), groupTampers(), loadBalancerTampers(), classicTampers(),
		orphanTampers(), foreignTampers(), simulatorTampers(), bastionTampers(), secondaryTampers(), ipv6Tampers(), ownVPCTampers())
}

// On gives the example that the tamper needs.
func (t *Tamper) On() string { return cmp.Or(t.Manifest, DefaultExample) }

// FindingOf gives what a detector's finding says in the words of expected ones.
func FindingOf(f *detector.Finding) Finding {
	out := Finding{
		Kind: f.Resource.Kind, ID: f.Resource.ID, Status: f.Status,
	}
	if f.Owner.Kind != "" {
		out.Owner = f.Owner.Kind + "/" + f.Owner.Name
	}
	for _, d := range f.Diffs {
		out.Diffs = append(out.Diffs, Diff{Path: d.Path, Type: d.Type, Want: d.Want.Text(), Have: d.Have.Text(), Adopted: d.Adopted})
	}
	sortDiffs(out.Diffs)
	return out
}

// SortFindings orders findings for comparison.
func SortFindings(findings []Finding) {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Status, b.Status))
	})
	for i := range findings {
		sortDiffs(findings[i].Diffs)
	}
}

func sortDiffs(diffs []Diff) {
	slices.SortFunc(diffs, func(a, b Diff) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Want, b.Want), cmp.Compare(a.Have, b.Have))
	})
}

func changed(path, want, have string) Diff {
	return Diff{Path: path, Type: detector.Changed, Want: want, Have: have}
}

func added(path, have string) Diff { return Diff{Path: path, Type: detector.Added, Have: have} }

func removed(path, want string) Diff { return Diff{Path: path, Type: detector.Removed, Want: want} }

func adopted(d Diff) Diff {
	d.Adopted = true
	return d
}

func tagPath(key string) string { return providers.Pointer("tags", key) }

// noFindings is the damage of what must not be noticed.
func noFindings(undo func(context.Context) error) *Damage { return &Damage{Undo: undo} }

// machineDrift is a drifted instance.
func machineDrift(m *machine, diffs ...Diff) Finding {
	return Finding{Owner: "AWSMachine/" + m.aws.Name, Kind: providers.KindInstance, ID: m.id, Status: detector.Drifted, Diffs: diffs}
}

// machineGone is a lost instance: one finding with one difference.
func machineGone(m *machine, gone string) Finding {
	f := machineDrift(m, Diff{Path: "/state", Type: detector.Removed, Want: "running", Have: gone})
	f.Status = detector.Missing
	return f
}

// clusterDrift is a drifted resource of the AWSCluster.
func (e *Environment) clusterDrift(kind, id string, diffs ...Diff) Finding {
	return Finding{Owner: "AWSCluster/" + e.AWSCluster.Name, Kind: kind, ID: id, Status: detector.Drifted, Diffs: diffs}
}

// clusterGone is a lost resource of the AWSCluster.
func (e *Environment) clusterGone(kind, id, want, gone string) Finding {
	f := e.clusterDrift(kind, id, Diff{Path: "/state", Type: detector.Removed, Want: want, Have: gone})
	f.Status = detector.Missing
	return f
}

// machine is a machine's objects and its instance id.
type machine struct {
	core *clusterv1.Machine
	aws  *infrav1.AWSMachine
	id   string
}

// machineOf finds machine number n of a control plane or MachineDeployment.
func (e *Environment) machineOf(pool string, n int) (*machine, error) {
	for i, m := range e.Machines {
		if m.Labels[clusterv1.MachineDeploymentNameLabel] != pool && m.Labels[clusterv1.MachineControlPlaneNameLabel] != pool {
			continue
		}
		if n == 0 {
			return &machine{core: m, aws: e.AWSMachines[i], id: *e.AWSMachines[i].Spec.InstanceID}, nil
		}
		n--
	}
	return nil, fmt.Errorf("cluster %s has no such machine in pool %q", e.Cluster.Name, pool)
}

// Machines that tampers are done to, by what their template has.
func (e *Environment) worker() (*machine, error)  { return e.machineOf(e.Cluster.Name+"-general", 0) }
func (e *Environment) storage() (*machine, error) { return e.machineOf(e.Cluster.Name+"-storage", 0) }
func (e *Environment) controlPlane() (*machine, error) {
	return e.machineOf(e.ControlPlane.Name, 0)
}

// onMachine makes a tamper's Do of a function for one machine.
func onMachine(pick func(*Environment) (*machine, error), do func(context.Context, *Environment, *machine) (*Damage, error)) func(context.Context, *Environment) (*Damage, error) {
	return func(ctx context.Context, e *Environment) (*Damage, error) {
		m, err := pick(e)
		if err != nil {
			return nil, err
		}
		return do(ctx, e, m)
	}
}

// What moto cannot show after a repair.
const (
	motoForgets  = "moto forgets the metadata options that a call leaves out"
	motoProfile  = "moto's DescribeInstances goes on showing the profile of the launch"
	motoHidesENI = "moto's DescribeInstances goes on showing the groups of the launch"
)

// Waiting for the cloud while tampering.
const (
	tamperPoll     = 50 * time.Millisecond
	tamperPatience = time.Minute
)
