package suites

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// vsanPolicy is the simulator's, with vCenter's own id and name.
const (
	vsanPolicy   = "vSAN Default Storage Policy"
	vsanPolicyID = "aa6d5a82-1c88-45da-85d3-3d74b91a5bad"
)

// The simulator associates no policies, so that a proxy in front of it answers
// that one question as vCenter does; names come from the simulator again.
func TestVSphereStoragePolicy(t *testing.T) {
	e := vsphereEnv(t, nil)
	p := vsphereProvider(t, e)
	_, moid, _ := strings.Cut(e.VSphereVMs[0].Status.VMRef, ":")
	for name, tt := range map[string]struct {
		want, says string
		ids        []string
	}{
		"as wanted": {want: vsanPolicy, ids: []string{vsanPolicyID}},
		"another":   {want: "gold", ids: []string{vsanPolicyID}, says: "changed gold " + vsanPolicy},
		"none":      {want: "gold", says: "removed gold "},
		"unset":     {ids: []string{vsanPolicyID}},
	} {
		t.Run(name, func(t *testing.T) {
			e.VSphereMachines[0].Spec.StoragePolicyName = tt.want
			e.Log.Fail(func(c vspherecluster.Call, w http.ResponseWriter) bool {
				if c.Method != "PbmQueryAssociatedProfiles" {
					return false
				}
				associated(w, moid, tt.ids)
				return true
			})
			defer e.Log.Fail(nil)
			got := ""
			for _, f := range vsphereSweep(t, p, e.Owners()) {
				if f.Status != detector.Drifted {
					continue
				}
				for _, d := range f.Diffs {
					got += fmt.Sprint(d.Type, " ", d.Want.Text(), " ", d.Have.Text())
				}
			}
			if got != tt.says {
				t.Errorf("drift %q, want %q", got, tt.says)
			}
		})
	}
}

func associated(w io.Writer, moid string, ids []string) {
	profiles := ""
	for _, id := range ids {
		profiles += "<profileId><uniqueId>" + id + "</uniqueId></profileId>"
	}
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>
<PbmQueryAssociatedProfilesResponse xmlns="urn:pbm"><returnval><object><objectType>virtualMachine</objectType><key>%s</key></object>%s</returnval></PbmQueryAssociatedProfilesResponse>
</soapenv:Body></soapenv:Envelope>`, moid, profiles)
}
