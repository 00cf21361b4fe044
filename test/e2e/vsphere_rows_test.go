package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	vspherev1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// vspherePatched are the rows of the catalog, by tampers, that are set back in
// place on vSphere; the values say why a tamper is played elsewhere.
var vspherePatched = map[string]string{
	"powered off": "", "fewer CPUs": "", "less memory": "", "MAC address changed": "the ground makes no pool with fixed addresses: played by the suites on the provider",
	"suspended":                            aloneControlPlane,
	"cores per socket":                     aloneControlPlane,
	"older hardware version":               aloneControlPlane,
	"adapter of another type in its place": "", "adapter removed": "",
	"adapter on another distributed port group": "", "adapter on a standard network": "",
	"disk restored from an old backup": "", "VMX key changed": "",
	"moved to another folder": "", "moved to another resource pool": "", "moved to another datastore": "",
	"taken out of its VM group": "", "renamed": "", "snapshot left behind": "", "tag removed": "",
	"nested virtualisation switched off": aloneControlPlane, "fault tolerance in the clear": aloneControlPlane, "vGPU taken away": aloneControlPlane,
	"vMotion in the clear":    "",
	"CPU reservation lowered": "", "CPU limit lowered": "", "CPU shares lowered": "",
	"memory reservation lowered": "", "memory limit lowered": "", "memory shares lowered": "",
}

const aloneControlPlane = "a control plane of one cannot be stopped: played by the suites on the provider"

// Each row of the catalog that can be set back on vSphere, as
// [TestAWSRowsAreSetBack] has them.
func TestVSphereRowsAreSetBack(t *testing.T) {
	long(t)
	ctx := t.Context()
	g := management.Start(t)
	c := g.VSphereCluster(ctx, management.VSphere{Workers: 2, Batch: 2, Edit: vspherecluster.Full})
	c.WaitReady(ctx)
	env := c.VSphereEnvironment(ctx)
	rows := vsphereRows(t, env)
	rehearse(ctx, t, rows)
	c.WaitReady(ctx)
	policy := strings.Replace(setBack, "provider: aws", "provider: vsphere", 1)
	w := &world{
		Ground: g, t: t, c: c, policy: policy,
		d:         start(t, g, strings.ReplaceAll(policy, "MODE", "observe")),
		mutations: func() []string { return g.VSphere().Log.Mutating() },
		condition: func(ctx context.Context, owner string) (string, string, error) {
			return vsphereCondition(ctx, c, owner)
		},
	}
	c.Eventually(ctx, "without a finding", func(context.Context) error { return w.counted(nil) })
	for _, batch := range batches(rows) {
		w.play(ctx, batch)
		if t.Failed() {
			return
		}
	}
	uids := map[string]types.UID{}
	for _, m := range slices.Concat(c.Workers(ctx, "general")[:1], c.Workers(ctx, "batch")[:1]) {
		uids["Machine "+m.Name] = m.UID
	}
	for who, uid := range uids {
		told := w.eventsOf(ctx, uid)
		for _, reason := range []string{"DriftDetected", "DriftResolved"} {
			if !slices.Contains(told, reason) {
				t.Errorf("no event %s about %s among %v", reason, who, told)
			}
		}
	}
}

func vsphereRows(t *testing.T, env *vspherecluster.Environment) (rows []*row) {
	t.Helper()
	left := map[string]bool{}
	for _, name := range playedHere(vspherePatched) {
		left[name] = true
	}
	for _, tamper := range slices.Concat(vspherecluster.Tampers(), vspherecluster.FullTampers()) {
		if !left[tamper.Name] {
			continue
		}
		delete(left, tamper.Name)
		rows = append(rows, &row{name: tamper.Name, do: func(ctx context.Context) ([]expected, func(context.Context) error, error) {
			damage, err := tamper.Do(ctx, env)
			if err != nil {
				return nil, nil, err
			}
			return vsphereExpected(damage.Findings), damage.Undo, nil
		}})
	}
	for name := range left {
		t.Errorf("there is no tamper %q", name)
	}
	return rows
}

func vsphereExpected(findings []vspherecluster.Finding) (out []expected) {
	for _, f := range findings {
		e := expected{owner: f.Owner, kind: f.Kind, status: f.Status}
		for _, d := range f.Diffs {
			e.diffs = append(e.diffs, difference{d.Path, d.Want, d.Have})
		}
		out = append(out, e)
	}
	return out
}

// vsphereCondition gives the condition DriftDetected of a VSphereMachine.
func vsphereCondition(ctx context.Context, c *management.Cluster, owner string) (status, message string, err error) {
	kind, name, _ := strings.Cut(owner, "/")
	if kind != "VSphereMachine" {
		return "", "", fmt.Errorf("no condition is known of %s", owner)
	}
	m := &vspherev1.VSphereMachine{}
	c.Get(ctx, name, m)
	have := meta.FindStatusCondition(m.Status.Conditions, driftv1.ConditionDriftDetected)
	if have == nil {
		return "", "", fmt.Errorf("%s has no condition DriftDetected", owner)
	}
	return string(have.Status), have.Message, nil
}
