package vsphere

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

// kindClone are the clones under way: machines that are about to be there, and
// that no listing shows by their UUIDs yet.
const kindClone = "Clone"

// eventLead is how long before its task a clone's event may have been.
const eventLead = time.Minute

// clones reads which clones run, from vCenter's recent tasks.
func (s *sweep) clones(ctx context.Context, live *liveSession) error {
	manager := live.vim.ServiceContent.TaskManager
	if manager == nil {
		return errors.New("vCenter has no task manager")
	}
	objects, err := retrievePages(ctx, live.vim, types.PropertyFilterSpec{
		PropSet: []types.PropertySpec{{Type: "Task", PathSet: []string{"info"}}},
		ObjectSet: []types.ObjectSpec{{Obj: *manager, Skip: types.NewBool(true), SelectSet: []types.BaseSelectionSpec{
			&types.TraversalSpec{Type: manager.Type, Path: "recentTask"},
		}}},
	})
	if err != nil {
		return err
	}
	var running []types.TaskInfo
	for i := range objects {
		if info, ok := objects[i].props["info"].(types.TaskInfo); ok && cloning(&info) {
			running = append(running, info)
		}
	}
	if len(running) == 0 {
		return nil
	}
	names, err := cloneNames(ctx, live.vim, running)
	if err != nil {
		return err
	}
	if len(names) == 0 { // it is not told what they make
		names = map[string]bool{"": true}
	}
	for name := range names {
		r := &providers.Resource{ID: providers.ID{Kind: kindClone, Name: running[0].Key + "/" + name}, Name: name}
		s.snap.Resources[r.ID] = r
	}
	return nil
}

// cloning reports whether a task is a clone of a machine that has not ended.
func cloning(i *types.TaskInfo) bool {
	ended := i.State == types.TaskInfoStateSuccess || i.State == types.TaskInfoStateError
	method := strings.TrimSuffix(strings.ToLower(i.DescriptionId), "vm") // the simulator has cloneVm
	return !ended && method == "virtualmachine.clone"
}

// cloneNames gives what the machines will be called that running clones make.
// Tasks do not tell; the event that a clone begins with does, and is in one chain
// with its task. Where a server keeps no chains, those of clones that have ended
// since may be among them.
func cloneNames(ctx context.Context, c *vim25.Client, running []types.TaskInfo) (map[string]bool, error) {
	if c.ServiceContent.EventManager == nil {
		return nil, errors.New("vCenter has no event manager")
	}
	since, chains := running[0].QueueTime, map[int32]bool{}
	for i := range running {
		if running[i].QueueTime.Before(since) {
			since = running[i].QueueTime
		}
		chains[running[i].EventChainId] = true
	}
	since = since.Add(-eventLead)
	res, err := methods.QueryEvents(ctx, c, &types.QueryEvents{
		This: *c.ServiceContent.EventManager,
		Filter: types.EventFilterSpec{
			Time: &types.EventFilterSpecByTime{BeginTime: &since}, EventTypeId: []string{"VmBeingClonedEvent"},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("read the events of clones: %w", err)
	}
	names := map[string]bool{}
	for _, e := range res.Returnval {
		if begun, ok := e.(*types.VmBeingClonedEvent); ok && (chains[0] || chains[begun.ChainId]) {
			names[begun.DestName] = true
		}
	}
	return names, nil
}
