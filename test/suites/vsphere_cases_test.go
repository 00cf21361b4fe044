package suites

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// playCase does every tamper that plays a case, each to a cluster of its own.
func playCase(t *testing.T, id string) {
	t.Helper()
	n := 0
	for _, tamper := range vspherecluster.Tampers() {
		if !slices.Contains(tamper.Cases, id) {
			continue
		}
		n++
		t.Run(tamper.Name, func(t *testing.T) {
			e := vsphereEnv(t, nil)
			damage, err := tamper.Do(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			vsphereSays(t, vsphereSweep(t, vsphereProvider(t, e), e.Owners()), damage.Findings)
		})
	}
	if n == 0 {
		t.Errorf("no tamper plays %s", id)
	}
}

// DRS moves machines between hosts and storage DRS between the datastores of a
// cluster: neither is drift. Leaving the pool or the datastore cluster is, by
// the tampers of their row.
func TestC32Relocations(t *testing.T) { playCase(t, "C32") }

// A BIOS UUID that changed, or that two machines share, is doubt about an
// identity and not a loss.
func TestC34IdentityMismatch(t *testing.T) {
	playCase(t, "C34")
	t.Run("another managed object after a restore of vCenter", func(t *testing.T) {
		e := vsphereEnv(t, nil)
		for _, vm := range e.VSphereVMs {
			vm.Status.VMRef = "VirtualMachine:vm-999999"
		}
		vsphereSays(t, vsphereSweep(t, vsphereProvider(t, e), e.Owners()), nil)
	})
	t.Run("another object's machine of the same name is no lookalike", func(t *testing.T) {
		e := vsphereEnv(t, nil)
		p := vsphereProvider(t, e)
		// Machine 0 has lost its machine; its VSphereVM is named like machine
		// 1, whose provider id claims the virtual machine of that name.
		e.VSphereMachines[0].Spec.ProviderID = "vsphere://4c4c4544-0051-3610-8054-b4c04f4d5131"
		e.VSphereVMs[0].Name, e.VSphereVMs[0].UID, e.VSphereVMs[0].Status.VMRef = e.VSphereVMs[1].Name, "", ""
		e.VSphereVMs[0].OwnerReferences[0].Name = e.VSphereMachines[0].Name
		findings := vsphereSweep(t, p, e.Owners())
		if f := of(findings, e.VSphereMachines[0].Name); f == nil || f.Status != detector.Missing {
			t.Errorf("finding %+v, want Missing", f)
		}
		if f := of(findings, e.VSphereMachines[1].Name); f != nil {
			t.Errorf("the other machine has finding %s %s", f.Status, f.Reason)
		}
	})
}

func of(findings []detector.Finding, owner string) *detector.Finding {
	for i := range findings {
		if findings[i].Owner.Name == owner {
			return &findings[i]
		}
	}
	return nil
}

// After a failover vCenter may report empty UUIDs, and provider ids may be
// made from them. An empty UUID matches nothing.
func TestC35EmptyUUID(t *testing.T) {
	playCase(t, "C35")
	t.Run("provider id without a UUID", func(t *testing.T) {
		e := vsphereEnv(t, nil)
		e.VSphereMachines[0].Spec.ProviderID = "vsphere://"
		findings := vsphereSweep(t, vsphereProvider(t, e), e.Owners())
		f := of(findings, e.VSphereMachines[0].Name)
		if f == nil || f.Status != detector.NotChecked || !strings.Contains(f.Reason, "holds no UUID") {
			t.Errorf("finding %+v, want NotChecked", f)
		}
	})
	t.Run("no provider id yet", func(t *testing.T) {
		e := vsphereEnv(t, nil)
		e.VSphereMachines[0].Spec.ProviderID, e.VSphereVMs[0].Spec.BiosUUID = "", ""
		findings := vsphereSweep(t, vsphereProvider(t, e), e.Owners())
		f := of(findings, e.VSphereMachines[0].Name)
		if f == nil || f.Status != detector.NotChecked || !strings.Contains(f.Reason, "still making") {
			t.Errorf("finding %+v, want NotChecked", f)
		}
	})
}

// A machine that is there and inaccessible is Unknown; one whose reference no
// longer exists is Missing once a read by UUID confirms it.
func TestC36InaccessibleOrGone(t *testing.T) { playCase(t, "C36") }

// Guests report bridges and link-local addresses first, and leave out virtual
// ones: only a declared static address that is absent while the tools run is
// drift.
func TestC39GuestAddresses(t *testing.T) { playCase(t, "C39") }

// A tag of the wanted name in another category is another tag.
func TestC40TagCategory(t *testing.T) {
	playCase(t, "C40")
	t.Run("by category and name", func(t *testing.T) {
		e := vsphereEnv(t, nil)
		for _, m := range e.VSphereMachines {
			if len(m.Spec.TagIDs) > 0 {
				m.Spec.TagIDs = []string{"cost:prod"}
			}
		}
		for _, f := range vsphereSweep(t, vsphereProvider(t, e), e.Owners()) {
			if f.Status == detector.Drifted && (len(f.Diffs) != 1 || f.Diffs[0].Path != "/tags/cost:prod") {
				t.Errorf("%s: %v, want the tag of category cost removed", f.Resource.Name, f.Diffs)
			}
		}
	})
}

// A template that cannot be found now is a warning: the machines run.
func TestC41TemplateGone(t *testing.T) { playCase(t, "C41") }

// Without an opinion in the spec any number of cores per socket will do,
// vCenter's default among them; with one it counts.
func TestPlatformCoresPerSocket(t *testing.T) { playCase(t, "CoresPerSocket") }

// A CSI driver grows its volumes in place, and takes any free place for them:
// neither is the spec's, nor does a volume stand for a disk of the spec's.
func TestPlatformCSIVolumeGrows(t *testing.T) { playCase(t, "CSIGrowth") }

// No spec says anything of disk modes. One that discards writes is remarked
// upon, and none is drift.
func TestPlatformIndependentDisks(t *testing.T) { playCase(t, "DiskModes") }

// A machine that is destroyed while the inventory is listed aborts the listing:
// it starts again, and a listing that keeps breaking off proves no absence.
func TestC44ListingAborted(t *testing.T) {
	e := vsphereEnv(t, nil)
	for name, times := range map[string]int{"once": 1, "always": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			left := times
			e.Log.Fail(func(c vspherecluster.Call, w http.ResponseWriter) bool {
				if left == 0 || c.Method != "RetrievePropertiesEx" || !strings.Contains(c.Body, "config.hardware") {
					return false
				}
				left--
				objectNotFound(w)
				return true
			})
			defer e.Log.Fail(nil)
			findings := vsphereSweep(t, vsphereProvider(t, e), e.Owners())
			if name == "once" {
				vsphereSays(t, findings, nil)
				return
			}
			for _, f := range findings {
				if f.Status != detector.NotChecked {
					t.Errorf("%s is %s, want NotChecked", f.Resource.Name, f.Status)
				}
				if f.Resource.Kind == providers.KindVirtualMachine && !strings.Contains(f.Reason, "kept disappearing") {
					t.Errorf("reason %q", f.Reason)
				}
			}
		})
	}
}

func objectNotFound(w http.ResponseWriter) {
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>
<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>The object has already been deleted</faultstring><detail>
<ManagedObjectNotFoundFault xmlns="urn:vim25" xsi:type="ManagedObjectNotFound"><obj type="VirtualMachine">vm-42</obj></ManagedObjectNotFoundFault>
</detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>`)
}
