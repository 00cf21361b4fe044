package vsphere

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// The disks of the spec are found by their places, whatever else is attached
// or gone.
func TestWantedDisks(t *testing.T) {
	disk := func(fields map[string]providers.Value, key, position, foreign string, parent bool) {
		fields["/disks/"+key+"/position"] = providers.String(position)
		fields["/disks/"+key+"/sizeGiB"] = providers.Int(10)
		if foreign != "" {
			fields["/disks/"+key+"/foreign"] = providers.String(foreign)
		}
		if parent {
			fields["/disks/"+key+"/hasParent"] = providers.Bool(true)
		}
	}
	template := func(positions ...string) *providers.Resource {
		fields := map[string]providers.Value{"/path": providers.String("/dc/vm/tpl")}
		for i, p := range positions {
			disk(fields, []string{"2000", "2001", "2002"}[i], p, "", false)
		}
		return seen(providers.ID{Kind: kindTemplate, Name: "vm-t"}, "tpl", fields)
	}
	dc := seen(providers.ID{Kind: kindDatacenter, Name: "dc-1"}, "dc", map[string]providers.Value{"/path": providers.String("/dc")})
	type have struct {
		key, position, foreign string
		parent                 bool
	}
	tests := map[string]struct {
		spec     func(*infrav1.VSphereMachine)
		template *providers.Resource
		have     []have
		mode     infrav1.CloneMode // as CAPV recorded it
		want     map[string]string
	}{
		"primary": {
			spec: func(m *infrav1.VSphereMachine) { m.Spec.DiskGiB = 40 }, template: template("scsi0:0"),
			have: []have{{key: "2000", position: "scsi0:0"}}, want: map[string]string{"/disks/2000/sizeGiB": "40 AtLeast"},
		},
		"CSI disk in front by key": {
			spec: func(m *infrav1.VSphereMachine) { m.Spec.DiskGiB = 40 }, template: template("scsi1:0"),
			have: []have{{key: "2000", position: "scsi0:0", foreign: "csi"}, {key: "2016", position: "scsi1:0"}},
			want: map[string]string{"/disks/2016/sizeGiB": "40 AtLeast"},
		},
		"CSI disk in a data disk's place": {
			spec: func(m *infrav1.VSphereMachine) {
				m.Spec.DiskGiB = 40
				m.Spec.DataDisks = []infrav1.VSphereDisk{{Name: "etcd", SizeGiB: 20}}
			},
			template: template("scsi0:0"),
			have:     []have{{key: "2000", position: "scsi0:0"}, {key: "2001", position: "scsi0:1", foreign: "csi"}},
			want:     map[string]string{"/disks/2000/sizeGiB": "40 AtLeast", "/disks/etcd/sizeGiB": "20 AtLeast"},
		},
		"additional and data disks": {
			spec: func(m *infrav1.VSphereMachine) {
				m.Spec.DiskGiB, m.Spec.AdditionalDisksGiB = 40, []int32{50}
				m.Spec.DataDisks = []infrav1.VSphereDisk{{Name: "etcd", SizeGiB: 20}, {Name: "logs", SizeGiB: 5}}
			},
			template: template("scsi0:0", "scsi0:2"),
			have:     []have{{key: "2000", position: "scsi0:0"}, {key: "2001", position: "scsi0:1"}, {key: "2002", position: "scsi0:2"}, {key: "2003", position: "scsi0:3"}},
			want: map[string]string{
				"/disks/2000/sizeGiB": "40 AtLeast", "/disks/2002/sizeGiB": "50 AtLeast",
				"/disks/2001/sizeGiB": "20 AtLeast", "/disks/2003/sizeGiB": "5 AtLeast",
			},
		},
		"middle disk gone": {
			spec: func(m *infrav1.VSphereMachine) {
				m.Spec.DiskGiB = 40
				m.Spec.DataDisks = []infrav1.VSphereDisk{{Name: "etcd", SizeGiB: 20}, {Name: "logs", SizeGiB: 5}}
			},
			template: template("scsi0:0"), have: []have{{key: "2000", position: "scsi0:0"}, {key: "2002", position: "scsi0:2"}},
			want: map[string]string{"/disks/2000/sizeGiB": "40 AtLeast", "/disks/etcd/sizeGiB": "20 AtLeast", "/disks/2002/sizeGiB": "5 AtLeast"},
		},
		"unit 7 is the controller's": {
			spec: func(m *infrav1.VSphereMachine) {
				for range 8 {
					m.Spec.DataDisks = append(m.Spec.DataDisks, infrav1.VSphereDisk{Name: "d", SizeGiB: 1})
				}
				m.Spec.DataDisks = m.Spec.DataDisks[:8]
				m.Spec.DataDisks[6].Name = "seventh"
			},
			template: template("scsi0:0"), have: []have{
				{key: "2001", position: "scsi0:1"}, {key: "2002", position: "scsi0:2"}, {key: "2003", position: "scsi0:3"}, {key: "2004", position: "scsi0:4"},
				{key: "2005", position: "scsi0:5"}, {key: "2006", position: "scsi0:6"}, {key: "2008", position: "scsi0:8"}, {key: "2009", position: "scsi0:9"},
			},
			want: map[string]string{
				"/disks/2001/sizeGiB": "1 AtLeast", "/disks/2002/sizeGiB": "1 AtLeast", "/disks/2003/sizeGiB": "1 AtLeast", "/disks/2004/sizeGiB": "1 AtLeast",
				"/disks/2005/sizeGiB": "1 AtLeast", "/disks/2006/sizeGiB": "1 AtLeast", "/disks/2008/sizeGiB": "1 AtLeast", "/disks/2009/sizeGiB": "1 AtLeast",
			},
		},
		"template gone: by order, CSI disks left out": {
			spec: func(m *infrav1.VSphereMachine) {
				m.Spec.DiskGiB = 40
				m.Spec.DataDisks = []infrav1.VSphereDisk{{Name: "etcd", SizeGiB: 20}}
			},
			have: []have{{key: "2000", position: "scsi0:0"}, {key: "2001", position: "scsi0:1", foreign: "csi"}, {key: "2002", position: "scsi0:2"}},
			want: map[string]string{"/disks/2000/sizeGiB": "40 AtLeast", "/disks/2002/sizeGiB": "20 AtLeast"},
		},
		"linked clone keeps the template's size": {
			spec: func(m *infrav1.VSphereMachine) { m.Spec.DiskGiB = 40 }, template: template("scsi0:0"), mode: infrav1.LinkedClone,
			have: []have{{key: "2000", position: "scsi0:0", parent: true}}, want: map[string]string{},
		},
		"wanted linked, cloned in full for want of a snapshot": {
			spec:     func(m *infrav1.VSphereMachine) { m.Spec.DiskGiB, m.Spec.CloneMode = 40, infrav1.LinkedClone },
			template: template("scsi0:0"), mode: infrav1.FullClone,
			have: []have{{key: "2000", position: "scsi0:0"}}, want: map[string]string{"/disks/2000/sizeGiB": "40 AtLeast"},
		},
		"mode not recorded, no parent": {
			spec: func(m *infrav1.VSphereMachine) { m.Spec.DiskGiB = 40 }, template: template("scsi0:0"),
			have: []have{{key: "2000", position: "scsi0:0"}}, want: map[string]string{"/disks/2000/sizeGiB": "40 AtLeast"},
		},
		"mode not recorded, a parent": {
			spec: func(m *infrav1.VSphereMachine) { m.Spec.DiskGiB = 40 }, template: template("scsi0:0"),
			have: []have{{key: "2000", position: "scsi0:0", parent: true}}, want: map[string]string{},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			fields := map[string]providers.Value{}
			for _, h := range tt.have {
				disk(fields, h.key, h.position, h.foreign, h.parent)
			}
			resources := []*providers.Resource{seenVM(fields), dc}
			if tt.template != nil {
				resources = append(resources, tt.template)
			}
			owner := machineOwner(tt.spec)
			if tt.mode != "" {
				owner.Related = []client.Object{vsphereVM(func(vm *infrav1.VSphereVM) { vm.Status.CloneMode = tt.mode })}
			}
			got := texts(&wanted(t, owner, snapshotOf(resources...))[0])
			maps.DeleteFunc(got, func(p, _ string) bool { return !strings.HasPrefix(p, "/disks") })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
