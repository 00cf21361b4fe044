package ec2sim

import (
	"strings"
	"time"
)

// ScheduledEvent is an event of an instance, as DescribeInstanceStatus shows
// it. The description of a finished one begins with "[Completed]" or
// "[Canceled]" (InstanceStatusEvent, EC2 API reference).
type ScheduledEvent struct {
	// ID is made where it is empty: instance-event-….
	ID string `wire:"instanceEventId"`
	// Code is instance-reboot, system-reboot, system-maintenance,
	// instance-retirement or instance-stop.
	Code              string
	Description       string
	NotBefore         time.Time
	NotAfter          time.Time
	NotBeforeDeadline time.Time
}

// ScheduleEvent injects an event and gives its id; one of an id that the
// instance already has replaces it.
func (s *Server) ScheduleEvent(scope Scope, instanceID string, event ScheduledEvent) (string, error) {
	defer s.handOn()
	err := s.onInstance(scope, instanceID, func(r *region, i *instance, now time.Time) {
		if event.ID == "" {
			event.ID = "instance-event-" + strings.TrimPrefix(r.newID("x"), "x-")
		}
		for n := range i.events {
			if i.events[n].ID == event.ID {
				i.events[n] = event
				return
			}
		}
		i.events = append(i.events, event)
		r.announce(i, event, now)
	})
	return event.ID, err
}

var statusActions = []*action{read("DescribeInstanceStatus", (*call).describeStatus)}

type describeStatusIn struct {
	filterIns
	pageIn
	InstanceID          []string
	IncludeAllInstances bool
}

type describeStatusOut struct {
	InstanceStatusSet []statusItem
	NextToken         string
}

type statusItem struct {
	InstanceID         string
	AvailabilityZone   string
	AvailabilityZoneID string
	EventsSet          []ScheduledEvent `wire:"eventsSet,omitempty"`
	InstanceState      instanceState
	SystemStatus       statusSummary
	InstanceStatus     statusSummary
}

type statusSummary struct {
	Status  string
	Details []statusDetail
}

type statusDetail struct{ Name, Status string }

func (c *call) checks(i *instance) statusSummary {
	switch {
	case i.state != "running":
		return statusSummary{Status: "not-applicable"}
	case c.now.Before(i.launched.Add(c.srv.delays.StatusChecks)):
		return statusSummary{"initializing", []statusDetail{{"reachability", "initializing"}}}
	}
	return statusSummary{"ok", []statusDetail{{"reachability", "passed"}}}
}

// describeStatus shows running instances unless all are asked for
// (DescribeInstanceStatus reference: IncludeAllInstances).
func (c *call) describeStatus(in *describeStatusIn) (out describeStatusOut, err *apiError) {
	keep, err := condition(c, in.filterIns, filters[*instance]{
		"availability-zone":   func(i *instance) []string { return []string{i.zone} },
		"instance-state-name": func(i *instance) []string { return []string{i.state} },
		"event.code": func(i *instance) []string {
			var codes []string
			for _, event := range i.events {
				codes = append(codes, event.Code)
			}
			return codes
		},
		"event.instance-event-id": func(i *instance) []string {
			var events []string
			for _, event := range i.events {
				events = append(events, event.ID)
			}
			return events
		},
		"instance-status.status": func(i *instance) []string { return []string{c.checks(i).Status} },
		"system-status.status":   func(i *instance) []string { return []string{c.checks(i).Status} },
	})
	if err != nil {
		return out, err
	}
	found, next, err := list(c, &c.instances, in.InstanceID, func(i *instance) bool {
		return (in.IncludeAllInstances || i.state == "running") && keep(i)
	}, in.pageIn, instanceLimits)
	for _, i := range found {
		checks := c.checks(i)
		out.InstanceStatusSet = append(out.InstanceStatusSet, statusItem{
			i.id, i.zone, c.zoneID(i.zone), i.events, i.shownState(), checks, checks,
		})
	}
	out.NextToken = next
	return out, err
}
