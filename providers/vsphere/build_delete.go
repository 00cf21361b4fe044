package vsphere

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Delete powers the virtual machine off as spec.powerOffMode says, takes from it
// every disk that is not its own, and destroys it with the rest. Disks of the CSI
// driver lose their machine and keep their file. A disk of which it is not certain
// whose it is, or a snapshot that holds somebody else's, stops it.
//
// [providers.ErrPending] says that another call is needed to go on.
func (p *Provider) Delete(ctx context.Context, scope providers.Scope, deletion providers.Deletion) error {
	have := deletion.Have
	owner, ok := deletion.Owner.Infra.(*infrav1.VSphereMachine)
	if !ok || have.ID.Kind != providers.KindVirtualMachine {
		return fmt.Errorf("delete %s: %w", have.ID, refusal(providers.ReasonUnsupported, "a %s of a %s is not deleted here", have.ID.Kind, deletion.Owner.Ref.Kind))
	}
	c, err := p.connection(scope)
	if err != nil {
		return err
	}
	d := &destroyer{owner: owner, writer: &writer{provider: p, conn: c, scope: scope, change: &providers.Change{
		Resource: have.ID, Owner: deletion.Owner.Ref, Want: have, Have: have, Token: "delete",
	}}}
	if err := c.do(ctx, func(live *liveSession) error { return d.run(ctx, live) }); err != nil {
		return fmt.Errorf("delete virtual machine %s: %w", have.Name, faulted("delete it", err))
	}
	return nil
}

type destroyer struct {
	*writer
	owner *infrav1.VSphereMachine
}

// run takes step after step, each by what the machine is then.
func (d *destroyer) run(ctx context.Context, live *liveSession) error {
	d.live, d.done = live, map[string]bool{}
	if err := d.earlier(ctx); err != nil && !hasFault[*types.ManagedObjectNotFound](err) {
		return err
	}
	for range maxSteps {
		gone, err := d.gone(ctx)
		if err != nil || gone {
			return err
		}
		m, err := d.read(ctx)
		if err != nil {
			return err
		}
		waited, err := d.busy(ctx, m)
		if err != nil {
			return err
		}
		if waited {
			continue
		}
		next, err := d.next(ctx, m)
		if err != nil {
			return err
		}
		if err := next.do(ctx); err != nil {
			return faulted(next.name, err)
		}
		if next.name == destroyStep {
			return nil
		}
	}
	return providers.ErrPending
}

// gone reports whether the machine is there no more. One that was marked as a
// template holds its disks yet, and is not.
func (d *destroyer) gone(ctx context.Context) (bool, error) {
	name := d.change.Resource.Name
	refs, err := candidates(ctx, d.live.vim, name)
	if err != nil {
		return false, err
	}
	if len(refs) == 0 {
		return true, showsSomething(ctx, d.live.vim)
	}
	found, err := readRefs(ctx, d.live.vim, refs)
	if errors.Is(err, errVanished) && !named(name) {
		return true, nil
	}
	if err == nil && len(found) == 0 {
		err = refusal(providers.ReasonMoved, "it has been marked as a template: mark it as a machine again, or destroy it by hand")
	}
	return false, err
}

const destroyStep = "destroy it"

func (d *destroyer) next(ctx context.Context, m *machine) (*step, error) {
	if !m.off() {
		return d.powerOffStep(ctx, m)
	}
	foreign, err := d.foreign(m)
	if err != nil {
		return nil, err
	}
	if err := d.snapshotsHoldNone(ctx, m, len(foreign) > 0); err != nil {
		return nil, err
	}
	if len(foreign) > 0 {
		return &step{name: "detach the disks that are not its own", do: func(ctx context.Context) error {
			res, err := methods.ReconfigVM_Task(ctx, d.live.vim, &types.ReconfigVM_Task{This: m.ref, Spec: types.VirtualMachineConfigSpec{
				ChangeVersion: m.str("config.changeVersion"), DeviceChange: foreign,
			}})
			if err != nil {
				return err
			}
			return d.finish(ctx, res.Returnval)
		}}, nil
	}
	return &step{name: destroyStep, do: func(ctx context.Context) error {
		res, err := methods.Destroy_Task(ctx, d.live.vim, &types.Destroy_Task{This: m.ref})
		if err == nil {
			err = d.finish(ctx, res.Returnval)
		}
		if hasFault[*types.ManagedObjectNotFound](err) {
			return nil
		}
		return err
	}}, nil
}

// powerOffStep stops the machine: at once, or by its guest first (CAPV,
// VSphereMachineSpec.powerOffMode and guestSoftPowerOffTimeoutSeconds).
func (d *destroyer) powerOffStep(ctx context.Context, m *machine) (*step, error) {
	mode := d.owner.Spec.PowerOffMode
	if mode != infrav1.VirtualMachinePowerOpModeSoft && mode != infrav1.VirtualMachinePowerOpModeTrySoft || !m.on() {
		return d.powerOff(m), nil
	}
	soft := mode == infrav1.VirtualMachinePowerOpModeSoft
	if m.str("guest.toolsRunningStatus") != string(types.VirtualMachineToolsRunningStatusGuestToolsRunning) {
		if soft {
			return nil, refusal(providers.ReasonRefused, "spec.powerOffMode is soft, and no tools run in its guest that could shut it down: shut it down, or set trySoft or hard")
		}
		return d.powerOff(m), nil
	}
	asked, now, err := d.shutdownAsked(ctx, m)
	if err != nil {
		return nil, err
	}
	patience := time.Duration(d.owner.Spec.GuestSoftPowerOffTimeoutSeconds) * time.Second
	if patience == 0 {
		patience = infrav1.GuestSoftPowerOffDefaultTimeoutSeconds * time.Second
	}
	switch {
	case asked.IsZero():
		return &step{name: "shut down its guest", do: func(ctx context.Context) error {
			if _, err := methods.ShutdownGuest(ctx, d.live.vim, &types.ShutdownGuest{This: m.ref}); err != nil {
				return err
			}
			return providers.ErrPending
		}}, nil
	case soft, now.Sub(asked) < patience:
		return &step{name: "wait for its guest", do: func(context.Context) error { return providers.ErrPending }}, nil
	default:
		return d.powerOff(m), nil
	}
}

// foreign gives what takes the disks away that are not the machine's own. Their
// files stay: no file operation is asked for (VirtualDeviceConfigSpec).
func (d *destroyer) foreign(m *machine) ([]types.BaseVirtualDeviceConfigSpec, error) {
	var out []types.BaseVirtualDeviceConfigSpec
	if m.props["config.hardware"] == nil {
		return nil, refusal(providers.ReasonRefused, "its disks cannot be read, so it is not certain that none is somebody else's: %s", m.missing["config.hardware"])
	}
	home := folderOf(m.str("config.files.vmPathName"))
	for _, device := range m.hw.Device {
		disk, ok := device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		file := fileOf(disk)
		switch {
		case diskOwner(disk, file) != "":
			out = append(out, &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: disk})
		case home == "" || folderOf(file) != home:
			return nil, refusal(providers.ReasonForeign,
				"disk %d (%s) lies in another folder than the machine (%s), so whose it is cannot be told: detach it if it is to stay, or delete it",
				disk.Key, file, m.str("config.files.vmPathName"))
		}
	}
	return out, nil
}

func fileOf(disk *types.VirtualDisk) string {
	if backing, ok := disk.Backing.(types.BaseVirtualDeviceFileBackingInfo); ok {
		return backing.GetVirtualDeviceFileBackingInfo().FileName
	}
	return ""
}

// folderOf gives the folder of a datastore path, "[datastore] folder/file". The
// datastore is left out: a machine's disks may be spread over several, in folders
// of one name.
func folderOf(file string) string {
	_, file, ok := strings.Cut(file, "] ")
	if !ok || !strings.Contains(file, "/") {
		return ""
	}
	return path.Dir(file)
}

// snapshotsHoldNone looks for disks of others in the machine's snapshots: a
// snapshot goes with its machine, and with it the files that it holds, also those
// of disks that were detached since.
func (d *destroyer) snapshotsHoldNone(ctx context.Context, m *machine, attached bool) error {
	info, _ := m.props["snapshot"].(types.VirtualMachineSnapshotInfo)
	if fault := m.missing["snapshot"]; fault != "" {
		return refusal(providers.ReasonRefused, "its snapshots cannot be read (%s), and they may hold disks of others", fault)
	}
	var refs []types.ManagedObjectReference
	pending := append([]types.VirtualMachineSnapshotTree(nil), info.RootSnapshotList...)
	for len(pending) > 0 {
		tree := pending[len(pending)-1]
		pending = append(pending[:len(pending)-1], tree.ChildSnapshotList...)
		refs = append(refs, tree.Snapshot)
	}
	if len(refs) == 0 {
		return nil
	}
	if attached {
		return refusal(providers.ReasonForeign, "it has %d snapshots and disks of others attached, whose files the snapshots may hold: remove the snapshots first", len(refs))
	}
	objects, err := retrieveRefs(ctx, d.live.vim, refs, []types.PropertySpec{{Type: "VirtualMachineSnapshot", PathSet: []string{"config.hardware"}}})
	if err != nil {
		return fmt.Errorf("read its snapshots: %w", err)
	}
	for i := range objects {
		hw, ok := objects[i].props["config.hardware"].(types.VirtualHardware)
		if !ok {
			return refusal(providers.ReasonRefused, "the disks of its snapshot %s cannot be read, and some may be somebody else's: remove the snapshot first", objects[i].ref.Value)
		}
		for _, device := range hw.Device {
			if disk, ok := device.(*types.VirtualDisk); ok && diskOwner(disk, fileOf(disk)) != "" {
				return refusal(providers.ReasonForeign, "its snapshot %s holds disk %s, which is a %s: remove the snapshot first", objects[i].ref.Value, fileOf(disk), diskOwner(disk, fileOf(disk)))
			}
		}
	}
	return nil
}
