package vsphere

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// defaultShutdownPatience is how long a guest may take to shut down before its
// machine is powered off.
const defaultShutdownPatience = 3 * time.Minute

// stopStep stops the machine if what is left cannot be set while it runs: by
// its guest, and by powering it off where no tools answer or the guest has been
// at it for too long. When the guest was asked is read from vCenter's events,
// so that another process knows it too.
func (w *writer) stopStep(ctx context.Context, m *machine) (*step, error) {
	stopping := w.stopping(m)
	if len(stopping) == 0 {
		return nil, nil
	}
	tools := m.str("guest.toolsRunningStatus") == string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)
	if !m.on() || !tools {
		return w.powerOff(m), nil
	}
	asked, now, err := w.shutdownAsked(ctx, m)
	if err != nil {
		return nil, err
	}
	switch {
	case asked.IsZero():
		return &step{name: "shut down its guest", do: func(ctx context.Context) error {
			_, err := methods.ShutdownGuest(ctx, w.live.vim, &types.ShutdownGuest{This: m.ref})
			if hasFault[*types.ToolsUnavailable](err) {
				return w.powerOff(m).do(ctx)
			}
			if err != nil {
				return err
			}
			return providers.ErrPending
		}}, nil
	case now.Sub(asked) < w.provider.shutdownPatience:
		return &step{name: "wait for its guest", do: func(context.Context) error { return providers.ErrPending }}, nil
	default:
		return w.powerOff(m), nil
	}
}

func (w *writer) powerOff(m *machine) *step {
	return &step{name: "power it off", do: func(ctx context.Context) error {
		res, err := methods.PowerOffVM_Task(ctx, w.live.vim, &types.PowerOffVM_Task{This: m.ref})
		if err != nil {
			return err
		}
		return w.finish(ctx, res.Returnval)
	}}
}

// shutdownAsked gives when this identity last asked the guest to shut down since
// the machine was powered on, and the present, both by vCenter's clock; zero if
// it did not (VmGuestShutdownEvent). Another user's request starts no time: what
// came of it is that user's matter.
func (w *writer) shutdownAsked(ctx context.Context, m *machine) (asked, now time.Time, err error) {
	clock, err := methods.GetCurrentTime(ctx, w.live.vim)
	if err != nil {
		return asked, now, fmt.Errorf("read vCenter's clock: %w", err)
	}
	// Within a day: a guest that was asked before that is asked again.
	since := clock.Add(-24 * time.Hour)
	if boot, ok := m.props["summary.runtime.bootTime"].(time.Time); ok && boot.After(since) {
		since = boot
	}
	res, err := methods.QueryEvents(ctx, w.live.vim, &types.QueryEvents{
		This: *w.live.vim.ServiceContent.EventManager,
		Filter: types.EventFilterSpec{
			Entity:      &types.EventFilterSpecByEntity{Entity: m.ref, Recursion: types.EventFilterSpecRecursionOptionSelf},
			Time:        &types.EventFilterSpecByTime{BeginTime: &since},
			EventTypeId: []string{"VmGuestShutdownEvent"},
		},
	})
	if err != nil {
		return asked, now, fmt.Errorf("read its events: %w", err)
	}
	if len(res.Returnval) == 0 {
		return asked, *clock, nil
	}
	me, err := w.live.manager.UserSession(ctx)
	if err == nil && me == nil {
		err = errors.New("it tells of no session")
	}
	if err != nil {
		return asked, now, fmt.Errorf("ask vCenter who is logged in: %w", err)
	}
	for _, e := range res.Returnval {
		if event := e.GetEvent(); strings.EqualFold(event.UserName, me.UserName) && event.CreatedTime.After(asked) {
			asked = event.CreatedTime
		}
	}
	return asked, *clock, nil
}

// upgradeStep raises the hardware version of a machine that is off
// (VirtualMachine.UpgradeVM_Task). vSphere knows no way back.
func (w *writer) upgradeStep(_ context.Context, m *machine) (*step, error) {
	f := w.leftAt(m, versionPath)
	if f == nil || !m.off() {
		return nil, nil
	}
	n, err := number(f)
	if err != nil {
		return nil, err
	}
	version := fmt.Sprintf("vmx-%02d", n)
	return &step{name: "upgrade it to " + version, do: func(ctx context.Context) error {
		res, err := methods.UpgradeVM_Task(ctx, w.live.vim, &types.UpgradeVM_Task{This: m.ref, Version: version})
		if err == nil {
			err = w.finish(ctx, res.Returnval)
		}
		if hasFault[*types.AlreadyUpgraded](err) {
			return nil
		}
		return err
	}}, nil
}

// powerOnStep powers the machine on where the change asks for it, and where the
// change has stopped it.
func (w *writer) powerOnStep(_ context.Context, m *machine) (*step, error) {
	on := string(types.VirtualMachinePowerStatePoweredOn)
	f := w.leftAt(m, powerPath)
	switch {
	case f != nil && f.Want.Text() != on:
		return nil, refusal(providers.ReasonUnsupported, "a machine is powered on, and never into %q", f.Want.Text())
	case m.on(), f == nil && !w.startsAgain():
		return nil, nil
	}
	return &step{name: "power it on", do: func(ctx context.Context) error {
		res, err := methods.PowerOnVM_Task(ctx, w.live.vim, &types.PowerOnVM_Task{This: m.ref})
		if err != nil {
			return err
		}
		return w.finish(ctx, res.Returnval)
	}}, nil
}

// startsAgain reports whether the machine is on at the end: the change may stop
// it, and the owner wants it on.
func (w *writer) startsAgain() bool {
	if !w.change.Disruptive || w.change.Want.Fields.Get(powerPath).Value.Text() != string(types.VirtualMachinePowerStatePoweredOn) {
		return false
	}
	for i := range w.change.Fields {
		if w.change.Fields[i].Mutability == providers.InPlaceDisruptive || w.stop {
			return true
		}
	}
	return false
}

// restart powers a machine on again that was stopped for a change which vCenter
// then refused.
func (w *writer) restart(ctx context.Context, m *machine, err error) error {
	if !m.off() || !w.startsAgain() {
		return err
	}
	s, planErr := w.powerOnStep(ctx, m)
	if planErr != nil || s == nil {
		return err
	}
	if onErr := s.do(ctx); onErr != nil {
		return fmt.Errorf("%w; and powering it on again: %w", err, onErr)
	}
	return err
}
