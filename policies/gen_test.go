package policies

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// What follows makes inputs for Decide: a healthy cluster in which a machine
// of a pool of ten has another type than wanted, under a policy that replaces
// it at once.

const enforceTypes = `spec:
  mode: enforce
  rules:
  - {id: aws-instance-type, grace: {for: 0s, observations: 1}}
  - {id: aws-instance-tags, grace: {for: 0s, observations: 1}}
`

var testCluster = detector.ClusterRef{Namespace: "prod", Name: "eu-1"}

var loaded sync.Map // sets by their spec: they are immutable

func mustLoad(t testing.TB, spec string) *Set {
	t.Helper()
	if set, ok := loaded.Load(spec); ok {
		return set.(*Set)
	}
	set, problems := LoadSources(Options{Catalog: testCatalog}, Source{Name: "p.yaml", Data: []byte(head + spec)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	loaded.Store(spec, set)
	return set
}

type inputMod func(*Input)

func makeInput(t testing.TB, mods ...inputMod) Input {
	in := Input{
		Now:      testNow,
		Policies: mustLoad(t, enforceTypes),
		Clusters: map[detector.ClusterRef]ClusterFacts{testCluster: {
			Owners: 14, Machines: 13, ControlPlane: Yes("3 of 3"), Breaker: No(),
			Pools: map[string]PoolFacts{"MachineDeployment/a": {Desired: 10, Ready: 10}, "KubeadmControlPlane/cp": {Desired: 3, Ready: 3}},
			Zones: map[string]ZoneFacts{"z1": {Machines: 13}},
		}},
		Owners:   map[providers.OwnerRef]OwnerFacts{},
		InFlight: []InFlight{},
		History:  map[string]History{},
	}
	for i := range 10 {
		in.Owners[workerRef(i)] = healthyOwner()
	}
	for i := range 3 {
		in.Owners[controlPlaneRef(i)] = healthyOwner()
	}
	in.Owners[infraRef] = clusterOwner()
	in.Findings = []detector.Finding{typeDrift(0)}
	for _, m := range mods {
		m(&in)
	}
	return in
}

var infraRef = providers.OwnerRef{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "AWSCluster", Namespace: "prod", Name: "eu-1", UID: "c1"}

func workerRef(i int) providers.OwnerRef { return machineRef(fmt.Sprintf("a-%d", i)) }

func controlPlaneRef(i int) providers.OwnerRef { return machineRef(fmt.Sprintf("cp-%d", i)) }

func machineRef(name string) providers.OwnerRef {
	return providers.OwnerRef{APIVersion: infraRef.APIVersion, Kind: "AWSMachine", Namespace: "prod", Name: name, UID: types.UID("uid-" + name)}
}

func healthyOwner() OwnerFacts {
	o := clusterOwner()
	o.Replaceable, o.Ready = Yes("MachineSet a"), Yes("")
	return o
}

func clusterOwner() OwnerFacts {
	return OwnerFacts{Paused: No(), Deleting: No(), Moving: No(), ExternallyManaged: No(), Rollout: No(), OldRevision: No(),
		SkipRemediation: No(), Ambiguous: No(), Replaceable: No(), HealthCheck: No()}
}

func instanceFinding(owner providers.OwnerRef, mods ...func(*detector.Finding)) detector.Finding {
	f := detector.Finding{
		Cluster: testCluster, Owner: owner, Pool: "MachineDeployment/a", Zone: "z1", Status: detector.Drifted, SeenAt: testNow.Add(-time.Minute),
		Resource: detector.ResourceRef{Provider: "aws", Kind: "Instance", ID: "i-" + owner.Name, Name: owner.Name},
		Have:     &providers.Resource{Fields: providers.FieldsOf(map[string]providers.Field{"/state": {Value: providers.String("running")}})},
	}
	for _, m := range mods {
		m(&f)
	}
	f.Fingerprint = detector.Fingerprint(&f)
	return f
}

func withDiffs(diffs ...detector.Diff) func(*detector.Finding) {
	return func(f *detector.Finding) { f.Diffs = diffs }
}

func controlPlane(f *detector.Finding) {
	f.ControlPlane, f.Pool = true, "KubeadmControlPlane/cp"
}

var typeDiff = detector.Diff{Path: "/instanceType", Want: providers.String("m5.large"), Have: providers.String("t3.nano"),
	Type: detector.Changed, Mutability: providers.InPlaceDisruptive}

func tagDiff(key string) detector.Diff {
	return detector.Diff{Path: providers.Pointer("tags", key), Want: providers.String("x"), Type: detector.Removed, Mutability: providers.InPlace}
}

func typeDrift(i int) detector.Finding { return instanceFinding(workerRef(i), withDiffs(typeDiff)) }

// policy replaces the policy of the input.
func withPolicy(t testing.TB, spec string) inputMod {
	return func(in *Input) { in.Policies = mustLoad(t, spec) }
}

func withFindings(fs ...detector.Finding) inputMod {
	return func(in *Input) { in.Findings = fs }
}

func owner(ref providers.OwnerRef, change func(*OwnerFacts)) inputMod {
	return func(in *Input) {
		facts := in.Owners[ref]
		change(&facts)
		in.Owners[ref] = facts
	}
}

func cluster(change func(*ClusterFacts)) inputMod {
	return func(in *Input) {
		facts := in.Clusters[testCluster]
		change(&facts)
		in.Clusters[testCluster] = facts
	}
}

func history(h History) inputMod {
	return func(in *Input) {
		for i := range in.Findings {
			in.History[HistoryKey(in.Findings[i].Owner, in.Findings[i].Fingerprint)] = h
		}
	}
}

// gatesOf names what blocks a decision.
func gatesOf(d Decision) []string {
	var out []string
	for _, b := range d.Blocked {
		out = append(out, b.By)
	}
	return out
}

// summary writes decisions down, one a line, for comparison.
func summary(ds []Decision) []string {
	var out []string
	for _, d := range ds {
		line := fmt.Sprintf("%s %s %s", d.Finding.Owner.Name, d.Finding.Resource.ID, d.Action)
		for i := range d.Finding.Diffs {
			line += " " + d.Finding.Diffs[i].Path
		}
		for _, b := range d.Blocked {
			line += " !" + b.By
		}
		out = append(out, line)
	}
	return out
}

// claimed is an element that names an owner in a way that anybody could forge.
func claimed(path, have string) detector.Diff {
	return detector.Diff{Path: path, Element: true, Have: providers.String(have), Type: detector.Added, Mutability: providers.InPlace, Foreign: "a controller"}
}
