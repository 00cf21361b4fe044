package vsphere

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

var _ providers.Applier = (*Provider)(nil)

// Apply changes one virtual machine. How far a change has got is read from the
// machine each time, and kept nowhere else: each step is the first one that the
// machine still needs, so that a process that takes over after a crash goes on
// where the last one was. A step's task is waited for a few seconds; after that
// it is ErrPending, and the next call finds the task running at the machine
// instead of starting it again.
//
// With Change.Disruptive, a running machine is shut down by its guest, or
// powered off where no guest answers, changed, and powered on again if it is
// wanted on: also when it was found off, as it is after a crash in between. The
// change is complete when Apply returns nil, not when the fields show.
//
// Where vSphere can change processors or memory of a running machine, it is not
// stopped for that.
func (p *Provider) Apply(ctx context.Context, scope providers.Scope, change providers.Change) error {
	c, err := p.connection(scope)
	if err != nil {
		return err
	}
	w := &writer{provider: p, conn: c, scope: scope, change: &change}
	if err := w.refuse(); err != nil {
		return fmt.Errorf("apply to %s: %w", change.Resource, err)
	}
	if err := c.do(ctx, func(live *liveSession) error { return w.run(ctx, live) }); err != nil {
		return fmt.Errorf("apply to %s: %w", change.Resource, faulted("change the virtual machine", err))
	}
	return nil
}

// writer makes one change, in one call of Apply.
type writer struct {
	provider *Provider
	conn     *connection
	scope    providers.Scope
	change   *providers.Change

	live *liveSession
	inv  *inventory
	// done are the steps of this call that vCenter has taken: what they set
	// need not show yet.
	done map[string]bool
	// begun is the task that this call has begun last.
	begun types.ManagedObjectReference
	// stop says that vCenter refused to make a change while the machine runs.
	stop bool
}

// refuse says why a change cannot be made at all, before anything is written.
func (w *writer) refuse() error {
	if err := w.change.Refused(); err != nil {
		return err
	}
	if w.change.Resource.Kind != providers.KindVirtualMachine {
		return refusal(providers.ReasonUnsupported, "a %s is not written to", w.change.Resource.Kind)
	}
	for i := range w.change.Fields {
		if err := w.refuseField(&w.change.Fields[i]); err != nil {
			return err
		}
	}
	return nil
}

// refuseField keeps to what the owner has an opinion on: tags, keys, disks and
// adapters that it does not name belong to others.
func (w *writer) refuseField(f *providers.FieldChange) error {
	if _, ok := w.change.Want.Fields.Lookup(f.Path); !ok {
		return refusal(providers.ReasonForeign, "%s is not the owner's: its spec does not name it", f.Path)
	}
	if f.Want.IsAbsent() && (!f.Element || f.Path != snapshotsPath) {
		return refusal(providers.ReasonForeign, "%s is never taken away: %q is somebody else's", f.Path, f.Have.Text())
	}
	if settable(f.Path) {
		return nil
	}
	return refusal(providers.ReasonUnsupported, "%s cannot be set on an existing machine", f.Path)
}

// Paths of single fields.
const (
	powerPath      = "/powerState"
	cpusPath       = "/numCPUs"
	coresPath      = "/coresPerSocket"
	memoryPath     = "/memoryMiB"
	versionPath    = "/hardwareVersion"
	nestedPath     = "/nestedHV"
	ftPath         = "/ftEncryptionMode"
	migratePath    = "/migrateEncryption"
	pciPath        = "/pciDevices"
	countPath      = "/networkCount"
	folderPath     = "/folder"
	poolPath       = "/resourcePool"
	datastorePath  = "/datastore"
	policyPath     = "/storagePolicy"
	groupsPath     = "/vmGroups"
	namePath       = "/name"
	snapshotsPath  = "/snapshots"
	tagsPrefix     = "/tags/"
	optionsPrefix  = "/extraConfig/"
	disksPrefix    = "/disks/"
	networksPrefix = "/networks/"
	shareoutPrefix = "/resources/"
)

func settable(path string) bool {
	for _, prefix := range []string{tagsPrefix, optionsPrefix, disksPrefix, networksPrefix, shareoutPrefix} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		powerPath, cpusPath, coresPath, memoryPath, versionPath, nestedPath, ftPath, migratePath, pciPath, countPath,
		folderPath, poolPath, datastorePath, policyPath, groupsPath, namePath, snapshotsPath,
	}, path)
}

// step is one thing that a machine still needs. It starts at most one task.
type step struct {
	// name is the same for the same thing.
	name string
	do   func(context.Context) error
}

// maxSteps bounds one call. No change needs as many.
const maxSteps = 32

// run takes step after step until none is needed. It may run twice, when the
// session was lost in the middle.
func (w *writer) run(ctx context.Context, live *liveSession) error {
	w.live, w.done = live, map[string]bool{}
	if err := w.earlier(ctx); err != nil {
		return err
	}
	for i := range maxSteps {
		m, err := w.read(ctx)
		if err != nil {
			return err
		}
		if i == 0 {
			if err := w.unmoved(m); err != nil {
				return err
			}
		}
		if err := w.mayStop(m); err != nil {
			return err
		}
		waited, err := w.busy(ctx, m)
		if err != nil {
			return err
		}
		if waited {
			continue
		}
		next, err := w.next(ctx, m)
		if err != nil {
			return w.failed(ctx, m, err)
		}
		if next == nil {
			return nil
		}
		switch err := next.do(ctx); {
		case errors.Is(err, errNeedsStop) && !w.stop:
			w.stop = true
		case err != nil:
			return w.failed(ctx, m, faulted(next.name, err))
		default:
			w.done[next.name] = true
		}
	}
	return providers.ErrPending
}

// failed gives the error of a step. A machine that was stopped for a change
// which cannot be made is powered on again first.
func (w *writer) failed(ctx context.Context, m *machine, err error) error {
	var refused *providers.ApplyError
	if errors.As(err, &refused) && refused.Reason != providers.ReasonMoved {
		return w.restart(ctx, m, err)
	}
	return err
}

// mayStop refuses a change for which the machine would have to be stopped
// unasked, before any of it is made.
func (w *writer) mayStop(m *machine) error {
	stopping := w.stopping(m)
	if len(stopping) == 0 || w.change.Disruptive {
		return nil
	}
	return refusal(providers.ReasonDisruptive, "%s cannot be set while the machine is %s", stopping[0].Path, m.power())
}

// next gives the first step that the machine needs, nil if it needs none.
// Whatever a running machine takes comes first, so that a change that vCenter
// refuses costs no stop.
func (w *writer) next(ctx context.Context, m *machine) (*step, error) {
	for _, plan := range []func(context.Context, *machine) (*step, error){
		w.tagStep, w.renameStep, w.folderStep, w.relocateStep, w.groupStep, w.snapshotStep,
		w.reconfigureStep, w.stopStep, w.upgradeStep, w.powerOnStep,
	} {
		s, err := plan(ctx, m)
		if err != nil {
			return nil, err
		}
		if s != nil && !w.done[s.name] {
			return s, nil
		}
	}
	return nil, nil
}

// left gives the fields of the change that the machine does not satisfy yet.
func (w *writer) left(m *machine, of func(path string) bool) []*providers.FieldChange {
	var out []*providers.FieldChange
	for i := range w.change.Fields {
		f := &w.change.Fields[i]
		if of(f.Path) && !w.satisfied(f, m.now) {
			out = append(out, f)
		}
	}
	return out
}

// leftAt gives the one field at a path, nil if it is not in the change or
// satisfied.
func (w *writer) leftAt(m *machine, path string) *providers.FieldChange {
	left := w.left(m, func(p string) bool { return p == path })
	if len(left) == 0 {
		return nil
	}
	return left[0]
}

func under(prefix string) func(string) bool {
	return func(path string) bool { return strings.HasPrefix(path, prefix) }
}

// satisfied reports whether a machine is as a field change wants it.
func (w *writer) satisfied(f *providers.FieldChange, now *providers.Resource) bool {
	have := now.Fields.Get(f.Path).Value
	if f.Element {
		if f.Want.IsAbsent() {
			return !have.Has(f.Have.Text())
		}
		return have.Has(f.Want.Text())
	}
	want := w.change.Want.Fields.Get(f.Path)
	switch {
	case want.Match == providers.AtLeast:
		least, _ := f.Want.Number()
		n, ok := have.Number()
		return ok && n >= least
	case want.Match == providers.Contains:
		return have.HasAll(f.Want)
	case f.Want.IsSet() && !have.IsSet():
		return f.Want.Has(have.Text())
	default:
		return have.Equal(f.Want)
	}
}

// unmoved checks that each field is as it was when the change was decided, or
// as it is wanted already. The power is not among them: whatever a machine is,
// on is what is wanted, and a change in progress has stopped it.
func (w *writer) unmoved(m *machine) error {
	for i := range w.change.Fields {
		f := &w.change.Fields[i]
		now, ok := m.now.Fields.Lookup(f.Path)
		if f.Element || f.Path == powerPath || !ok || w.satisfied(f, m.now) || now.Value.Equal(f.Have) {
			continue
		}
		if now.Sensitive {
			return refusal(providers.ReasonMoved, "%s has another value than when the change was decided", f.Path)
		}
		return refusal(providers.ReasonMoved, "%s is %q now, and was %q when the change was decided", f.Path, now.Value.Text(), f.Have.Text())
	}
	return nil
}
