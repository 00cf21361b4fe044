package vsphere

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// errNeedsStop says that vCenter does not make a change while the machine runs.
var errNeedsStop = errors.New("vCenter refuses this while the machine runs")

// reconfigured reports whether a field is set by ReconfigVM_Task.
func reconfigured(path string) bool {
	switch path {
	case cpusPath, coresPath, memoryPath, nestedPath, ftPath, migratePath, pciPath, countPath, policyPath:
		return true
	}
	for _, prefix := range []string{optionsPrefix, disksPrefix, networksPrefix, shareoutPrefix} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// stopping gives the fields that the machine has to be stopped for.
func (w *writer) stopping(m *machine) []*providers.FieldChange {
	if m.off() {
		return nil
	}
	return w.left(m, func(path string) bool {
		if w.stop && reconfigured(path) {
			return true
		}
		switch path {
		case coresPath, nestedPath, ftPath, pciPath, versionPath:
			return true
		case cpusPath, memoryPath:
			return !w.hot(m, path)
		default:
			return networkStops(m, path)
		}
	})
}

// hot reports whether vSphere changes processors or memory of the running
// machine (VirtualMachineConfigInfo.cpuHotAddEnabled, cpuHotRemoveEnabled,
// memoryHotAddEnabled). Memory is never taken away live.
func (w *writer) hot(m *machine, path string) bool {
	f := w.leftAt(m, path)
	if f == nil || !m.on() {
		return false
	}
	want, _ := f.Want.Number()
	have, _ := m.now.Fields.Get(path).Value.Number()
	switch {
	case path == memoryPath:
		return want > have && m.may("config.memoryHotAddEnabled")
	case want > have:
		return m.may("config.cpuHotAddEnabled")
	default:
		return m.may("config.cpuHotRemoveEnabled")
	}
}

// reconfigureStep sets everything that the machine takes in the state that it
// is in, in one task: it is taken as a whole or not at all.
func (w *writer) reconfigureStep(ctx context.Context, m *machine) (*step, error) {
	name := "reconfigure it"
	if m.off() {
		name = "reconfigure it while it is off"
	}
	if w.done[name] {
		return nil, nil
	}
	stopping := w.stopping(m)
	r := &reconfiguration{w: w, m: m}
	// The configuration must be the one that was read: nothing that changed
	// since is overwritten (VirtualMachineConfigSpec.changeVersion).
	r.spec.ChangeVersion = m.str("config.changeVersion")
	for _, f := range w.left(m, reconfigured) {
		if len(stopping) > 0 && (w.stop || f.Mutability == providers.InPlaceDisruptive) {
			continue // with the others, once it is off
		}
		if err := r.set(ctx, f); err != nil {
			return nil, err
		}
	}
	if err := r.adapters(ctx, len(stopping) > 0); err != nil {
		return nil, err
	}
	if !r.any {
		return nil, nil
	}
	return &step{name: name, do: func(ctx context.Context) error {
		res, err := methods.ReconfigVM_Task(ctx, w.live.vim, &types.ReconfigVM_Task{This: m.ref, Spec: r.spec})
		if err == nil {
			err = w.finish(ctx, res.Returnval)
		}
		if !m.off() && hasFault[*types.InvalidPowerState](err) {
			return fmt.Errorf("%w: %w", errNeedsStop, err)
		}
		return err
	}}, nil
}

// reconfiguration collects what one ReconfigVM_Task sets.
type reconfiguration struct {
	w    *writer
	m    *machine
	spec types.VirtualMachineConfigSpec
	any  bool
}

func (r *reconfiguration) set(ctx context.Context, f *providers.FieldChange) error {
	if strings.HasPrefix(f.Path, networksPrefix) || f.Path == countPath {
		return nil // all adapters together: see adapters
	}
	r.any = true
	switch f.Path {
	case cpusPath, coresPath, memoryPath:
		return r.size(f)
	case nestedPath:
		on, ok := f.Want.Any().(bool)
		r.spec.NestedHVEnabled = &on
		return wrongUnless(ok, f)
	case ftPath:
		r.spec.FtEncryptionMode = f.Want.Text()
		return nil
	case migratePath:
		r.spec.MigrateEncryption = f.Want.Text()
		return nil
	case pciPath:
		return r.pci(f)
	case policyPath:
		return r.policy(ctx, f)
	}
	switch {
	case strings.HasPrefix(f.Path, optionsPrefix):
		return r.option(ctx, f)
	case strings.HasPrefix(f.Path, disksPrefix):
		return r.grow(f)
	default:
		return r.allocation(f)
	}
}

func wrongUnless(ok bool, f *providers.FieldChange) error {
	if ok {
		return nil
	}
	return refusal(providers.ReasonRefused, "%s cannot be %q", f.Path, f.Want.Text())
}

func number(f *providers.FieldChange) (int32, error) {
	n, ok := f.Want.Number()
	if !ok || n < 1 || n > math.MaxInt32 {
		return 0, wrongUnless(false, f)
	}
	return int32(n), nil
}

func (r *reconfiguration) size(f *providers.FieldChange) error {
	n, err := number(f)
	switch f.Path {
	case cpusPath:
		r.spec.NumCPUs = n
	case coresPath:
		r.spec.NumCoresPerSocket = &n
	case memoryPath:
		r.spec.MemoryMB = int64(n)
	}
	return err
}

// allocation sets one of reservation, limit and shares. The others are sent as
// they are: vCenter keeps what is left out, and not every server does.
func (r *reconfiguration) allocation(f *providers.FieldChange) error {
	segments := providers.Segments(f.Path) // resources, requests, cpu
	n, ok := f.Want.Number()
	if len(segments) != 3 || !ok {
		return wrongUnless(false, f)
	}
	to, property := &r.spec.CpuAllocation, "config.cpuAllocation"
	if segments[2] == "memory" {
		to, property = &r.spec.MemoryAllocation, "config.memoryAllocation"
	}
	if *to == nil {
		now, _ := r.m.props[property].(types.ResourceAllocationInfo)
		*to = &now
	}
	switch segments[1] {
	case "requests":
		(*to).Reservation = &n
	case "limits":
		(*to).Limit = &n
	case "shares":
		shares, err := number(f)
		(*to).Shares = &types.SharesInfo{Level: types.SharesLevelCustom, Shares: shares}
		return err
	default:
		return wrongUnless(false, f)
	}
	return nil
}

// option sets one VMX key that the spec names.
func (r *reconfiguration) option(ctx context.Context, f *providers.FieldChange) error {
	segments := providers.Segments(f.Path)
	if len(segments) != 2 {
		return wrongUnless(false, f)
	}
	value, err := r.w.optionValue(ctx, segments[1], f)
	if err != nil {
		return err
	}
	r.spec.ExtraConfig = append(r.spec.ExtraConfig, &types.OptionValue{Key: segments[1], Value: value})
	return nil
}
