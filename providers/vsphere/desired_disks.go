package vsphere

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// wantedDisk is a disk that the spec gives a size for.
type wantedDisk struct {
	// name is how a missing one is called, since it has no device key.
	name     string
	size     int32
	position string // empty where it is not known
	resized  bool   // by growing the template's disk, which a linked clone cannot
}

// disks wants a size for each of the spec's disks. The disks of a machine are
// the template's, in the template's places, and then the data disks in the
// next free places of the first disk's controller (CAPV, package vcenter,
// createDataDisks). Whatever else is attached, by the CSI driver or by hand,
// is not the spec's.
func (d *desired) disks() {
	wanted := d.wantedDisks()
	if len(wanted) == 0 {
		return
	}
	if d.seen == nil {
		for _, disk := range wanted {
			d.wantDisk(disk.name, disk.size, providers.Immutable)
		}
		return
	}
	have := seenDisks(d.seen)
	byPosition := map[string]seenDisk{}
	var plain []seenDisk
	for _, s := range have {
		if s.foreign != "" {
			continue // a CSI volume is not the spec's, also in a place of the spec's
		}
		byPosition[s.position] = s
		plain = append(plain, s)
	}
	for i, disk := range wanted {
		var s seenDisk
		if disk.position != "" {
			s = byPosition[disk.position]
		} else if at := d.ordinal(i, disk); at < len(plain) {
			s = plain[at]
		}
		switch {
		case s.key == "":
			// An empty disk in its place would not bring back what was on it.
			d.wantDisk(disk.name, disk.size, providers.Immutable)
		case disk.resized && !d.resizable(s):
		default:
			d.wantDisk(s.key, disk.size, providers.InPlace)
		}
	}
}

func (d *desired) wantDisk(key string, size int32, m providers.Mutability) {
	// A bigger disk cannot be shrunk and is no harm: CSI drivers, people and
	// the guest's own growth all make disks bigger.
	d.want(providers.Pointer("disks", key, "sizeGiB"), providers.Int(size), m, providers.AtLeast)
}

// ordinal is a disk's place among the plain ones, where the template is not
// there to tell its position.
func (d *desired) ordinal(i int, disk wantedDisk) int {
	if disk.resized {
		n, _ := strconv.Atoi(strings.TrimPrefix(disk.name, "additional-"))
		return n
	}
	data := i - len(d.w.spec.AdditionalDisksGiB)
	if d.w.spec.DiskGiB > 0 {
		data--
	}
	return 1 + len(d.w.spec.AdditionalDisksGiB) + data
}

// resizable reports whether the spec's size was ever applied: linked clones
// keep the size of their template (VirtualMachineCloneSpec.cloneMode). Where
// CAPV has not recorded the mode, a disk without a parent is no linked clone.
func (d *desired) resizable(s seenDisk) bool {
	mode := d.w.spec.CloneMode
	if d.w.vm != nil && d.w.vm.Status.CloneMode != "" {
		mode = d.w.vm.Status.CloneMode
		return mode == infrav1.FullClone
	}
	return mode == infrav1.FullClone || !s.parent
}

func (d *desired) wantedDisks() []wantedDisk {
	spec := &d.w.spec
	template := d.templateDisks()
	position := func(i int) string {
		if i < len(template) {
			return template[i].position
		}
		return ""
	}
	var out []wantedDisk
	if spec.DiskGiB > 0 {
		out = append(out, wantedDisk{name: "primary", size: spec.DiskGiB, position: position(0), resized: true})
	}
	for i, size := range spec.AdditionalDisksGiB {
		if size > 0 {
			out = append(out, wantedDisk{name: "additional-" + strconv.Itoa(i+1), size: size, position: position(i + 1), resized: true})
		}
	}
	places := dataDiskPlaces(template, len(spec.DataDisks))
	for i, disk := range spec.DataDisks {
		out = append(out, wantedDisk{name: disk.Name, size: disk.SizeGiB, position: places[i]})
	}
	return out
}

// templateDisks are the disks of the machine's template, if exactly one
// template is meant and it is still there.
func (d *desired) templateDisks() []seenDisk {
	found := d.places.template(d.w.spec.Template)
	if len(found) != 1 {
		return nil
	}
	return seenDisks(found[0])
}

// scsiOwnUnit is the unit that a SCSI controller takes itself.
const scsiOwnUnit = 7

// dataDiskPlaces gives the units that data disks get: the free ones of the
// controller of the template's first disk, counted up.
func dataDiskPlaces(template []seenDisk, n int) []string {
	out := make([]string, n)
	if len(template) == 0 {
		return out
	}
	bus, _, ok := strings.Cut(template[0].position, ":")
	if !ok || bus == "" {
		return out
	}
	used := map[string]bool{}
	for _, t := range template {
		used[t.position] = true
	}
	if strings.HasPrefix(bus, "scsi") {
		used[fmt.Sprintf("%s:%d", bus, scsiOwnUnit)] = true
	}
	unit := 0
	for i := range out {
		for used[fmt.Sprintf("%s:%d", bus, unit)] {
			unit++
		}
		out[i] = fmt.Sprintf("%s:%d", bus, unit)
		used[out[i]] = true
	}
	return out
}

// seenDisk is a disk as a resource's fields give it.
type seenDisk struct {
	key, position, foreign string
	parent                 bool
}

// seenDisks gives a resource's disks in the order of their device keys.
func seenDisks(r *providers.Resource) []seenDisk {
	var out []seenDisk
	for p, f := range r.Fields.All() {
		segments := providers.Segments(p)
		if len(segments) != 3 || segments[0] != "disks" || segments[2] != "position" {
			continue
		}
		key := segments[1]
		out = append(out, seenDisk{
			key:      key,
			position: f.Value.Text(),
			foreign:  r.Fields.Get(providers.Pointer("disks", key, "foreign")).Value.Text(),
			parent:   !r.Fields.Get(providers.Pointer("disks", key, "hasParent")).Value.IsAbsent(),
		})
	}
	slices.SortFunc(out, func(a, b seenDisk) int {
		x, _ := strconv.Atoi(a.key)
		y, _ := strconv.Atoi(b.key)
		return x - y
	})
	return out
}
