package vsphere

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	// taskPatience is how long one call waits for a task. Reconfigurations take
	// a second or two; what takes longer is pending.
	taskPatience = 4 * time.Second
	// taskPauseFirst and taskPauseMost bound the time between two looks at a
	// task.
	taskPauseFirst = 20 * time.Millisecond
	taskPauseMost  = time.Second
	// recentTasks is how many of a machine's latest tasks are looked at.
	recentTasks = 16
)

// startedTasks remembers the tasks that outlasted a call, so that the next one
// learns how they ended. It is no more than that: after a crash a task that
// still runs is found at its machine, and one that has failed is tried again.
type startedTasks map[startedKey]types.ManagedObjectReference

type startedKey struct {
	scope    providers.Scope
	resource providers.ID
	token    string
}

func (w *writer) key() startedKey {
	return startedKey{scope: w.scope, resource: w.change.Resource, token: w.change.Token}
}

func (w *writer) remember(ref types.ManagedObjectReference) {
	p := w.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started == nil {
		p.started = startedTasks{}
	}
	p.started[w.key()] = ref
}

func (w *writer) forget() {
	p := w.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.started, w.key())
}

// earlier waits for the task that an earlier call of this change has left
// running, and gives its error.
func (w *writer) earlier(ctx context.Context) error {
	p := w.provider
	p.mu.Lock()
	ref, ok := p.started[w.key()]
	p.mu.Unlock()
	if !ok {
		return nil
	}
	err := w.await(ctx, ref)
	if !errors.Is(err, providers.ErrPending) {
		w.forget()
	}
	if notFound(err) {
		return nil // vCenter forgets tasks, or was restarted
	}
	return faulted("the task begun earlier", err)
}

// await waits for a task to end and gives its error; ErrPending when it does
// not for long.
func (w *writer) await(ctx context.Context, ref types.ManagedObjectReference) error {
	patience := time.NewTimer(taskPatience)
	defer patience.Stop()
	for pause := taskPauseFirst; ; pause = min(2*pause, taskPauseMost) {
		info, err := w.taskInfo(ctx, ref)
		if err == nil && ref == w.begun {
			w.provider.noteOwn(w.scope, info.EventChainId)
		}
		switch {
		case err != nil:
			return err
		case info.State == types.TaskInfoStateSuccess:
			return nil
		case info.State == types.TaskInfoStateError:
			return taskError(info)
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-patience.C:
			next.Stop()
			return providers.ErrPending
		case <-ctx.Done():
			next.Stop()
			return ctx.Err()
		}
	}
}

func taskError(info *types.TaskInfo) error {
	if info.Error == nil {
		return fmt.Errorf("task %s failed and gives no reason", info.Key)
	}
	return task.Error{LocalizedMethodFault: info.Error, Description: info.Description}
}

func (w *writer) taskInfo(ctx context.Context, ref types.ManagedObjectReference) (*types.TaskInfo, error) {
	found, err := w.taskInfos(ctx, []types.ManagedObjectReference{ref})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("vCenter tells nothing about task %s", ref.Value)
	}
	return &found[0], nil
}

func (w *writer) taskInfos(ctx context.Context, refs []types.ManagedObjectReference) ([]types.TaskInfo, error) {
	objects, err := retrieveRefs(ctx, w.live.vim, refs, []types.PropertySpec{{Type: "Task", PathSet: []string{"info"}}})
	if err != nil {
		return nil, err
	}
	var out []types.TaskInfo
	for i := range objects {
		if info, ok := objects[i].props["info"].(types.TaskInfo); ok {
			out = append(out, info)
		}
	}
	return out, nil
}

// busy waits for whatever task runs at the machine, begun by this change before
// a crash or by somebody else, and reports whether there was one: vCenter does
// one thing at a time to a machine, and what the task made of it is to be read.
// How a task ends that this call has not begun is not its matter.
func (w *writer) busy(ctx context.Context, m *machine) (waited bool, err error) {
	all, _ := m.props["recentTask"].(types.ArrayOfManagedObjectReference)
	refs := all.ManagedObjectReference
	if len(refs) > recentTasks {
		refs = refs[len(refs)-recentTasks:]
	}
	if len(refs) == 0 {
		return false, nil
	}
	infos, err := w.taskInfos(ctx, refs)
	if notFound(err) {
		return false, nil // one has aged out meanwhile; a running one refuses the next step
	}
	if err != nil {
		return false, fmt.Errorf("read its tasks: %w", err)
	}
	running := slices.IndexFunc(infos, func(i types.TaskInfo) bool {
		return i.State == types.TaskInfoStateRunning || i.State == types.TaskInfoStateQueued
	})
	if running < 0 {
		return false, nil
	}
	err = w.await(ctx, infos[running].Task)
	var failed task.Error
	if errors.As(err, &failed) || notFound(err) {
		err = nil
	}
	return true, err
}

// finish waits for the task that a step has begun, and remembers it where it
// takes long.
func (w *writer) finish(ctx context.Context, ref types.ManagedObjectReference) error {
	w.begun = ref
	err := w.await(ctx, ref)
	if errors.Is(err, providers.ErrPending) {
		w.remember(ref)
	}
	return err
}
