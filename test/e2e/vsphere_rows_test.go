package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	vspherev1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// vspherePatched are the tampers that are set back in place on vSphere.
var vspherePatched = []string{
	"powered off", "suspended", "fewer CPUs", "cores per socket", "less memory", "MAC address changed", "older hardware version",
	"adapter of another type in its place", "adapter removed", "adapter on another distributed port group", "adapter on a standard network",
	"disk restored from an old backup", "VMX key changed",
	"moved to another folder", "moved to another resource pool", "moved to another datastore",
	"taken out of its VM group", "renamed", "snapshot left behind", "tag removed",
	"nested virtualisation switched off", "fault tolerance in the clear", "vMotion in the clear", "vGPU taken away",
	"CPU reservation lowered", "CPU limit lowered", "CPU shares lowered",
	"memory reservation lowered", "memory limit lowered", "memory shares lowered",
}

// vsphereWatched are those that nothing is done about: a guest's address.
var vsphereWatched = []string{"static address missing"}

// Each row of the catalog that can be set back on vSphere, as
// [TestAWSRowsAreSetBack] has them.
func TestVSphereRowsAreSetBack(t *testing.T) {
	long(t)
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	c := g.VSphereCluster(ctx, management.VSphere{ControlPlanes: 3, Workers: 2, Batch: 2, Ingress: true, Edit: vspherecluster.Full})
	c.WaitReady(ctx)
	env := c.VSphereEnvironment(ctx)
	rows, watched := vsphereRows(t, env, vspherePatched), vsphereRows(t, env, vsphereWatched)
	rehearse(ctx, t, slices.Concat(rows, watched))
	rows = append(rows, policyLost(t, g, env))
	c.WaitReady(ctx)

	drifted := cover(vsphere.Registration().Catalog)
	policy := setBackOn("vsphere")
	d := start(t, g, strings.ReplaceAll(policy, "MODE", "observe"))
	w := on(t, g, c, d, policy, func() []string { return g.VSphere().Log.Mutating() }, drifted)
	w.quiet(ctx)
	for _, batch := range batches(rows) {
		w.play(ctx, batch, w.repaired)
		c.WaitReady(ctx)
	}
	for _, batch := range batches(watched) {
		w.play(ctx, batch, w.left)
	}
	drifted.check(t, vspherePlayed)
}

func vsphereRows(t *testing.T, env *vspherecluster.Environment, names []string) (rows []*row) {
	t.Helper()
	left := map[string]bool{}
	for _, name := range names {
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

// vsanPolicy is the storage policy that every vCenter has.
const vsanPolicy = "vSAN Default Storage Policy"

// policyLost declares a storage policy that a machine's home does not have. The
// simulator knows policies and does not keep which machine has which, so that
// what stands before it keeps that, from the calls that set one.
func policyLost(t *testing.T, g *management.Ground, env *vspherecluster.Environment) *row {
	t.Helper()
	i := slices.IndexFunc(env.Machines, func(m *clusterv1.Machine) bool { return strings.Contains(m.Name, "-general-") })
	vsm := env.VSphereMachines[i]
	_, moid, _ := strings.Cut(env.VSphereVMs[i].Status.VMRef, ":")
	var (
		mu sync.Mutex
		id string
	)
	set := regexp.MustCompile(`<profileId>([^<]+)</profileId>`)
	g.VSphere().Log.Fail(func(c vspherecluster.Call, w http.ResponseWriter) bool {
		mu.Lock()
		defer mu.Unlock()
		switch c.Method {
		case "ReconfigVM_Task":
			if found := set.FindStringSubmatch(c.Body); found != nil && strings.Contains(c.Body, ">"+moid+"<") {
				id = found[1]
			}
		case "PbmQueryAssociatedProfiles":
			associated(w, moid, id)
			return true
		}
		return false
	})
	t.Cleanup(func() { g.VSphere().Log.Fail(nil) })
	owner := "VSphereMachine/" + vsm.Name
	return &row{name: "storage policy declared", do: func(ctx context.Context) ([]expected, func(context.Context) error, error) {
		now := &vspherev1.VSphereMachine{}
		if err := g.Client.Get(ctx, client.ObjectKeyFromObject(vsm), now); err != nil {
			return nil, nil, err
		}
		base := now.DeepCopy()
		now.Spec.StoragePolicyName = vsanPolicy
		return []expected{{owner: owner, kind: "VirtualMachine", status: "Drifted", diffs: []difference{{"/storagePolicy", vsanPolicy, ""}}}}, nil,
			g.Client.Patch(ctx, now, client.MergeFrom(base))
	}, touches: []string{"VirtualMachine of " + owner + " /storagePolicy"}}
}

// associated answers which storage policy a machine's home has.
func associated(w http.ResponseWriter, moid, id string) {
	profile := ""
	if id != "" {
		profile = "<profileId><uniqueId>" + id + "</uniqueId></profileId>"
	}
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>
<PbmQueryAssociatedProfilesResponse xmlns="urn:pbm"><returnval><object><objectType>virtualMachine</objectType><key>%s</key></object>%s</returnval></PbmQueryAssociatedProfilesResponse>
</soapenv:Body></soapenv:Envelope>`, moid, profile)
}
