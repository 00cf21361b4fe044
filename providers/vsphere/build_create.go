package vsphere

import (
	"context"
	"fmt"
	"slices"

	vimobject "github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Create clones the virtual machine and sets what needs it to be off and never
// to have run: hardware, adapters, the metadata that names them. It leaves the
// machine off; what can be set in place, power last, is Apply's.
//
// How far it has got is read from vCenter each time. The clone has the instance
// UUID of its owner from the first moment on, so that one whose answer was lost
// is found; one that is still under way is found at its template, and by its
// name. A machine that is on is complete, since only Apply powers it on, and
// that after Create.
func (p *Provider) Create(ctx context.Context, scope providers.Scope, creation providers.Creation) (providers.ID, error) {
	c, err := p.connection(scope)
	if err != nil {
		return providers.ID{}, err
	}
	m, err := p.newMaker(c, scope, &creation)
	if err != nil {
		return providers.ID{}, fmt.Errorf("create %s: %w", creation.Want.ID, err)
	}
	var made providers.ID
	err = c.do(ctx, func(live *liveSession) (err error) {
		made, err = m.run(ctx, live)
		return err
	})
	if err != nil {
		return providers.ID{}, fmt.Errorf("create virtual machine %s: %w", creation.Want.Name, faulted("make it", err))
	}
	return made, nil
}

// maker makes one virtual machine, in one call of Create.
type maker struct {
	*writer
	w        *wantedMachine
	creation *providers.Creation
	name     string
	instance string
	// guest are the options that the machine boots with; they are secret.
	guest []types.BaseOptionValue
}

func (p *Provider) newMaker(c *connection, scope providers.Scope, creation *providers.Creation) (*maker, error) {
	owner := creation.Owner
	infra, ok := owner.Infra.(*infrav1.VSphereMachine)
	if !ok || creation.Want.ID.Kind != providers.KindVirtualMachine {
		return nil, refusal(providers.ReasonUnsupported, "a %s of a %s is not made here", creation.Want.ID.Kind, owner.Ref.Kind)
	}
	name, err := nameOf(owner, infra)
	if err != nil {
		return nil, refusal(providers.ReasonRefused, "%w", err)
	}
	instance, err := instanceUUID(owner.Ref)
	if err != nil {
		return nil, refusal(providers.ReasonRefused, "%w", err)
	}
	guest, err := bootOptions(creation.Bootstrap)
	if err != nil {
		return nil, err
	}
	return &maker{
		writer: &writer{provider: p, conn: c, scope: scope, change: &providers.Change{
			Resource: creation.Want.ID, Owner: owner.Ref, Want: creation.Want, Token: creation.Token,
		}},
		w: resolve(owner, infra), creation: creation, name: name, instance: instance, guest: guest,
	}, nil
}

func (m *maker) run(ctx context.Context, live *liveSession) (providers.ID, error) {
	m.live, m.done = live, map[string]bool{}
	ref, err := m.find(ctx)
	if err != nil {
		return providers.ID{}, err
	}
	if ref == nil {
		if err := m.clone(ctx); err != nil {
			return providers.ID{}, err
		}
		if ref, err = m.find(ctx); err != nil {
			return providers.ID{}, err
		}
		if ref == nil {
			// Its index may be behind its tasks.
			return providers.ID{}, providers.ErrPending
		}
	}
	return virtualMachine(m.instance), m.setUp(ctx, *ref)
}

// find looks for the owner's clone by instance UUID, nil if there is none.
func (m *maker) find(ctx context.Context) (*types.ManagedObjectReference, error) {
	instance := true
	found, err := vimobject.NewSearchIndex(m.live.vim).FindAllByUuid(ctx, nil, m.instance, true, &instance)
	if err != nil && !notFound(err) {
		return nil, fmt.Errorf("look for it by instance UUID: %w", err)
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		ref := found[0].Reference()
		return &ref, nil
	default:
		return nil, refusal(providers.ReasonMoved, "%d virtual machines have instance UUID %s, which is this machine's: remove the copies", len(found), m.instance)
	}
}

// clone begins the clone and waits for it, unless one is under way.
func (m *maker) clone(ctx context.Context) error {
	if err := m.earlier(ctx); err != nil {
		return m.unlessMade(ctx, err)
	}
	if ref, err := m.find(ctx); err != nil || ref != nil {
		return err
	}
	inv, err := readInventory(ctx, m.live.vim)
	if err != nil {
		return fmt.Errorf("read the inventory: %w", err)
	}
	m.inv = inv
	at, err := m.place(ctx)
	if err != nil {
		return err
	}
	source, err := m.source(ctx, at)
	if err != nil {
		return err
	}
	running, err := m.underWay(ctx, source)
	if err != nil {
		return fmt.Errorf("look for a clone under way: %w", err)
	}
	if running {
		return providers.ErrPending
	}
	if ref, err := m.find(ctx); err != nil || ref != nil {
		return err // it has ended since it was looked for first
	}
	spec, err := m.cloneSpec(ctx, source, at)
	if err != nil {
		return err
	}
	res, err := methods.CloneVM_Task(ctx, m.live.vim, &types.CloneVM_Task{This: source.ref, Folder: at.folder.ref, Name: m.name, Spec: *spec})
	if err == nil {
		err = m.finish(ctx, res.Returnval)
	}
	return m.unlessMade(ctx, faulted("clone "+source.str("name")+" to "+at.folder.path+"/"+m.name, err))
}

// unlessMade forgives a clone that its name stood against, where it was this
// machine that another call had made meanwhile.
func (m *maker) unlessMade(ctx context.Context, err error) error {
	if !hasFault[*types.DuplicateName](err) {
		return err
	}
	if ref, findErr := m.find(ctx); findErr == nil && ref != nil {
		return nil
	}
	return err
}

// underWay reports whether a clone of the source to this machine's name runs, and
// waits a moment for it: one that this process or another began, and whose answer
// nobody waits for.
// Tasks do not tell what they make; the event that a clone begins with does
// (VmBeingClonedEvent).
func (m *maker) underWay(ctx context.Context, source *object) (bool, error) {
	all, _ := source.props["recentTask"].(types.ArrayOfManagedObjectReference)
	if len(all.ManagedObjectReference) == 0 {
		return false, nil
	}
	infos, err := m.taskInfos(ctx, all.ManagedObjectReference)
	if notFound(err) {
		return false, providers.ErrPending // one has aged out meanwhile
	}
	if err != nil {
		return false, err
	}
	infos = slices.DeleteFunc(infos, func(i types.TaskInfo) bool { return !cloning(&i) })
	if len(infos) == 0 {
		return false, nil
	}
	names, err := cloneNames(ctx, m.live.vim, infos)
	if err != nil {
		return false, err
	}
	if len(names) > 0 && !names[m.name] {
		return false, nil
	}
	if err := m.await(ctx, infos[0].Task); ctx.Err() != nil {
		return false, err
	}
	return true, nil
}

// setUp sets what the clone lacks of what needs it off.
func (m *maker) setUp(ctx context.Context, ref types.ManagedObjectReference) error {
	found, err := readRefs(ctx, m.live.vim, []types.ManagedObjectReference{ref}, writeProps...)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return refusal(providers.ReasonMoved, "the virtual machine with its instance UUID %s is a template now", m.instance)
	}
	if m.inv == nil {
		if m.inv, err = readInventory(ctx, m.live.vim); err != nil {
			return fmt.Errorf("read the inventory: %w", err)
		}
	}
	have := (&machineReader{inv: m.inv, secret: m.provider.secret}).resource(&found[0])
	if have.Unknown != "" {
		return fmt.Errorf("its state cannot be told: %s", have.Unknown)
	}
	if have.Fields.Get(powerPath).Value.Text() != string(infrav1.VirtualMachinePowerStatePoweredOff) {
		return nil
	}
	change := m.offChange(have)
	if len(change.Fields) > 0 {
		w := &writer{provider: m.provider, conn: m.conn, scope: m.scope, change: change, inv: m.inv}
		if err := w.run(ctx, m.live); err != nil {
			return fmt.Errorf("set it up: %w", err)
		}
	}
	return m.setGuest(ctx, have)
}

// offChange is the change of what the machine must be off for, and of its
// adapters, whose addresses the metadata names. Power is not wanted in it, so
// that it ends with the machine off.
func (m *maker) offChange(have *providers.Resource) *providers.Change {
	want := *m.creation.Want
	want.ID, want.Fields = have.ID, want.Fields.Clone()
	want.Fields.Delete(powerPath)
	change := &providers.Change{
		Resource: have.ID, Owner: m.creation.Owner.Ref, Want: &want, Have: have, Disruptive: true, Token: m.creation.Token,
	}
	check := &writer{change: change}
	for path, f := range want.Fields.All() {
		_, part, network := networkField(path)
		wiring := network && part == "networkName" || path == countPath
		if !wiring && f.Mutability != providers.InPlaceDisruptive && !unreported(have, path) {
			continue
		}
		fc := providers.FieldChange{Path: path, Want: f.Value, Have: have.Fields.Get(path).Value, Mutability: f.Mutability}
		if !check.satisfied(&fc, have) {
			change.Fields = append(change.Fields, fc)
		}
	}
	return change
}

// setGuest gives the machine the options that it boots with, where it has others.
func (m *maker) setGuest(ctx context.Context, have *providers.Resource) error {
	w := &writer{provider: m.provider, conn: m.conn, scope: m.scope, live: m.live, inv: m.inv,
		change: &providers.Change{Resource: have.ID, Have: have, Want: have, Token: m.creation.Token + "-guest"}}
	if err := w.earlier(ctx); err != nil {
		return err
	}
	now, err := w.read(ctx)
	if err != nil {
		return err
	}
	if !now.off() {
		return nil
	}
	metadata, err := m.metadata(now)
	if err != nil {
		return err
	}
	options := lacking(now, append(metadata, m.guest...))
	if len(options) == 0 {
		return nil
	}
	res, err := methods.ReconfigVM_Task(ctx, m.live.vim, &types.ReconfigVM_Task{This: now.ref, Spec: types.VirtualMachineConfigSpec{
		ChangeVersion: now.str("config.changeVersion"), ExtraConfig: options,
	}})
	if err == nil {
		err = w.finish(ctx, res.Returnval)
	}
	return faulted("set what it boots with", err)
}
