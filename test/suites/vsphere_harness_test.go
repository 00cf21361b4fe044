package suites

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-io/holdfast/detector"
	vsphereexamples "github.com/holdfast-io/holdfast/examples/vsphere"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// vsphereEnv makes the example cluster in a simulated vCenter.
func vsphereEnv(t testing.TB, edit func(*vspherecluster.Manifest)) *vspherecluster.Environment {
	t.Helper()
	v, err := vspherecluster.StartVCenter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	m, err := vspherecluster.Load(vsphereexamples.Files, vspherecluster.DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	e, err := vspherecluster.Build(t.Context(), v, vspherecluster.Options{Manifest: m, Edit: edit})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// vsphereReader serves an environment's objects.
func vsphereReader(e *vspherecluster.Environment) client.Reader {
	return fake.NewClientBuilder().WithScheme(vspherecluster.Scheme()).WithObjects(e.Objects()...).Build()
}

func vsphereProvider(t testing.TB, e *vspherecluster.Environment) *vsphere.Provider {
	t.Helper()
	p := vsphere.New(vsphereReader(e), func(string) string { return "" })
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// vsphereSweep compares every owner with one snapshot of its scope, and
// confirms absences, as a scan does.
func vsphereSweep(t testing.TB, p providers.Provider, owners []*providers.Owner) []detector.Finding {
	t.Helper()
	findings, err := sweepAll(t.Context(), p, owners)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

func sweepAll(ctx context.Context, p providers.Provider, owners []*providers.Owner) ([]detector.Finding, error) {
	byScope := map[providers.Scope][]*providers.Owner{}
	var results []detector.Result
	for _, o := range owners {
		scope, err := p.Scope(ctx, o)
		if err != nil {
			results = append(results, detector.Unread(o, scope, detector.NotChecked, err.Error()))
			continue
		}
		byScope[scope] = append(byScope[scope], o)
	}
	for scope, owners := range byScope {
		r, err := sweepScope(ctx, p, scope, owners)
		if err != nil {
			return nil, err
		}
		results = append(results, r...)
	}
	var findings []detector.Finding
	for _, r := range results {
		findings = append(findings, r.Findings...)
	}
	detector.Sort(findings)
	return findings, nil
}

func sweepScope(ctx context.Context, p providers.Provider, scope providers.Scope, owners []*providers.Owner) ([]detector.Result, error) {
	var results []detector.Result
	snap, err := p.Observe(ctx, scope)
	if err != nil {
		for _, o := range owners {
			results = append(results, detector.Unread(o, scope, detector.NotChecked, err.Error()))
		}
		return results, nil
	}
	for _, o := range owners {
		want, err := p.Desired(o, snap)
		if err != nil {
			results = append(results, detector.Unread(o, scope, detector.Unknown, err.Error()))
			continue
		}
		results = append(results, detector.Compare(o, want, snap, detector.Options{}))
	}
	results = detector.DoubleClaims(results, snap)
	if ids := detector.Unconfirmed(results...); len(ids) > 0 {
		confirmation, err := p.Confirm(ctx, scope, ids)
		if err != nil {
			return nil, err
		}
		for i := range results {
			results[i] = detector.Settle(results[i], snap, confirmation, detector.Options{})
		}
	}
	return results, nil
}

// vsphereSays checks that findings are the expected ones and no others.
func vsphereSays(t testing.TB, findings []detector.Finding, want []vspherecluster.Finding) {
	t.Helper()
	got := []vspherecluster.Finding{}
	for i := range findings {
		got = append(got, vspherecluster.FindingOf(&findings[i]))
	}
	want = append([]vspherecluster.Finding{}, want...)
	vspherecluster.SortFindings(want)
	vspherecluster.SortFindings(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
		for _, f := range findings {
			t.Logf("%s %s/%s: %s %s", f.Status, f.Resource.Kind, f.Resource.Name, f.Reason, f.Warnings)
		}
	}
}
