package ec2sim

import (
	"reflect"
	"strconv"
	"time"
)

var instanceActions = []*action{
	read("DescribeInstances", (*call).describeInstances),
	write("StartInstances", (*call).startInstances),
	write("StopInstances", (*call).stopInstances),
	write("RebootInstances", (*call).rebootInstances),
	write("TerminateInstances", (*call).terminateInstances),
}

type describeInstancesIn struct {
	filterIns
	pageIn
	InstanceID []string
}

type describeInstancesOut struct {
	ReservationSet []reservationView
	NextToken      string
}

type reservationView struct {
	ReservationID string
	OwnerID       string
	GroupSet      []groupRef
	InstancesSet  []instanceItem
}

// instanceItem renders its view only while the page is written, so that a
// page of a thousand does not hold a thousand views.
type instanceItem struct{ *instance }

func (item *instanceItem) appendWire(b []byte, e *encoder) []byte {
	return e.content(b, reflect.ValueOf(item.view()))
}

func onInterfaces(value func(*networkInterface) []string) func(*instance) []string {
	return func(i *instance) []string {
		var values []string
		for _, nic := range i.interfaces {
			values = append(values, value(nic)...)
		}
		return values
	}
}

func onDevices(value func(*attachment) string) func(*instance) []string {
	return func(i *instance) []string {
		var values []string
		for _, d := range i.devices {
			values = append(values, value(d))
		}
		return values
	}
}

// onPrimary gives a value of the primary interface, while there is one.
func onPrimary(value func(*networkInterface) string) func(*instance) []string {
	return func(i *instance) []string {
		if len(i.interfaces) == 0 {
			return nil
		}
		return one(value(i.interfaces[0]))
	}
}

var instanceFilters = func() filters[*instance] {
	all := filters[*instance]{
		"instance-id":              func(i *instance) []string { return []string{i.id} },
		"instance-state-name":      func(i *instance) []string { return []string{i.state} },
		"instance-state-code":      func(i *instance) []string { return []string{strconv.Itoa(stateCodes[i.state])} },
		"instance-type":            func(i *instance) []string { return []string{i.kind} },
		"instance-lifecycle":       func(i *instance) []string { return one(i.view().InstanceLifecycle) },
		"image-id":                 func(i *instance) []string { return []string{i.image.id} },
		"architecture":             func(i *instance) []string { return []string{i.image.Architecture} },
		"key-name":                 func(i *instance) []string { return one(i.keyName) },
		"client-token":             func(i *instance) []string { return one(i.clientToken) },
		"reservation-id":           func(i *instance) []string { return []string{i.reservation.id} },
		"availability-zone":        func(i *instance) []string { return []string{i.zone} },
		"tenancy":                  func(i *instance) []string { return []string{i.placement.Tenancy} },
		"placement-group-name":     func(i *instance) []string { return one(i.placement.GroupName) },
		"launch-time":              func(i *instance) []string { return []string{i.launched.UTC().Format(wireTime)} },
		"root-device-name":         func(i *instance) []string { return []string{i.image.RootDeviceName} },
		"spot-instance-request-id": func(i *instance) []string { return one(i.spotRequest) },
		"vpc-id":                   onPrimary(func(n *networkInterface) string { return n.VPCID }),
		"subnet-id":                onPrimary(func(n *networkInterface) string { return n.SubnetID }),
		"private-ip-address":       onPrimary(func(n *networkInterface) string { return n.PrivateIPAddress }),
		"private-dns-name":         onPrimary(func(n *networkInterface) string { return n.PrivateDNSName }),
		"ip-address":               func(i *instance) []string { return one(i.view().IPAddress) },
		"instance.group-id":        func(i *instance) []string { return ids(i.view().GroupSet) },
		"instance.group-name":      func(i *instance) []string { return names(i.view().GroupSet) },
		"state-reason-code": func(i *instance) []string {
			if i.reason == nil {
				return nil
			}
			return []string{i.reason.Code}
		},
		"iam-instance-profile.arn": func(i *instance) []string {
			if i.profile == nil {
				return nil
			}
			return []string{i.profile.profile.ARN}
		},
		"metadata-options.http-tokens":                   func(i *instance) []string { return []string{i.metadata.HTTPTokens} },
		"metadata-options.http-endpoint":                 func(i *instance) []string { return []string{i.metadata.HTTPEndpoint} },
		"block-device-mapping.volume-id":                 onDevices(func(d *attachment) string { return d.volume.id }),
		"block-device-mapping.device-name":               onDevices(func(d *attachment) string { return d.device }),
		"block-device-mapping.status":                    onDevices(func(d *attachment) string { return d.status }),
		"block-device-mapping.delete-on-termination":     onDevices(func(d *attachment) string { return yesNo(d.deleteOnTermination)[0] }),
		"network-interface.network-interface-id":         onInterfaces(interfaceFilters["network-interface-id"]),
		"network-interface.attachment.instance-id":       onInterfaces(interfaceFilters["attachment.instance-id"]),
		"network-interface.attachment.attachment-id":     onInterfaces(interfaceFilters["attachment.attachment-id"]),
		"network-interface.attachment.device-index":      onInterfaces(interfaceFilters["attachment.device-index"]),
		"network-interface.attachment.status":            onInterfaces(interfaceFilters["attachment.status"]),
		"network-interface.addresses.private-ip-address": onInterfaces(interfaceFilters["private-ip-address"]),
	}
	for _, name := range []string{
		"vpc-id", "subnet-id", "group-id", "group-name", "status", "description", "availability-zone", "mac-address",
		"owner-id", "requester-managed",
	} {
		all["network-interface."+name] = onInterfaces(interfaceFilters[name])
	}
	return all
}()

func (c *call) describeInstances(in *describeInstancesIn) (out describeInstancesOut, err *apiError) {
	keep, err := condition(c, in.filterIns, instanceFilters)
	if err != nil {
		return out, err
	}
	found, next, err := list(c, &c.instances, in.InstanceID, keep, in.pageIn, instanceLimits)
	if err != nil {
		return out, err
	}
	out.NextToken = next
	for _, i := range found {
		n := len(out.ReservationSet)
		if n == 0 || out.ReservationSet[n-1].ReservationID != i.reservation.id {
			out.ReservationSet = append(out.ReservationSet, reservationView{ReservationID: i.reservation.id, OwnerID: c.account.id})
			n++
		}
		r := &out.ReservationSet[n-1]
		r.InstancesSet = append(r.InstancesSet, instanceItem{i})
	}
	return out, nil
}

type instancesIn struct {
	InstanceID     []string `wire:",required"`
	Force          bool
	Hibernate      bool
	SkipOsShutdown bool
}

type stateChangesOut struct{ InstancesSet []stateChange }

type stateChange struct {
	InstanceID    string
	CurrentState  instanceState
	PreviousState instanceState
}

// change applies a state change to all named instances, or to none if one
// does not allow it.
func (c *call) change(ids []string, allowed func(*instance) *apiError, apply func(*instance)) (out stateChangesOut, err *apiError) {
	found, err := c.instances.pick(c, ids)
	if err != nil {
		return out, err
	}
	for _, i := range found {
		if err := allowed(i); err != nil {
			return out, err
		}
	}
	for _, i := range found {
		previous := i.shownState()
		apply(i)
		out.InstancesSet = append(out.InstancesSet, stateChange{i.id, i.shownState(), previous})
	}
	return out, nil
}

func (c *call) startInstances(in *instancesIn) (stateChangesOut, *apiError) {
	return c.change(in.InstanceID, func(i *instance) *apiError {
		switch i.state {
		case "stopped", "running", "pending":
			return nil
		}
		return failf("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be started.", i.id)
	}, func(i *instance) {
		if i.state == "stopped" {
			c.start(i, c.now)
		}
	})
}

var userShutdown = stateReason{"Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"}

func (c *call) stopInstances(in *instancesIn) (stateChangesOut, *apiError) {
	return c.change(in.InstanceID, func(i *instance) *apiError {
		switch {
		case i.state == "terminated" || i.state == "shutting-down" || i.state == "pending":
			return failf("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be stopped.", i.id)
		case i.keepStarted:
			return failf("OperationNotPermitted", "The instance '%s' may not be stopped. Modify its 'disableApiStop' instance attribute and try again.", i.id)
		case i.spotRequest != "":
			return failf("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request.", i.id)
		}
		return nil
	}, func(i *instance) {
		if i.state == "running" {
			c.stop(i, c.now, userShutdown, userInitiated(c.now))
		}
	})
}

func (c *call) rebootInstances(in *instancesIn) (done, *apiError) {
	_, err := c.change(in.InstanceID, func(i *instance) *apiError {
		if i.state != "running" {
			return incorrectState(i)
		}
		return nil
	}, func(*instance) {})
	return done{err == nil}, err
}

// terminateInstances is idempotent: a terminated instance stays as it is.
func (c *call) terminateInstances(in *instancesIn) (stateChangesOut, *apiError) {
	return c.change(in.InstanceID, func(i *instance) *apiError {
		if i.keepRunning {
			return failf("OperationNotPermitted", "The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", i.id)
		}
		return nil
	}, func(i *instance) {
		if i.state != "terminated" && i.state != "shutting-down" {
			c.terminate(i, c.now, userShutdown, userInitiated(c.now))
		}
	})
}

// StopInstance stops an instance as AWS itself does, for the reason of that
// code: Server.ScheduledStop, Server.SpotInstanceShutdown … ("StateReason",
// EC2 API reference). It is not in the call log.
func (s *Server) StopInstance(scope Scope, id, code, message string) error {
	defer s.handOn()
	return s.onInstance(scope, id, func(r *region, i *instance, now time.Time) {
		r.warn(i, now, code, "stop")
		r.stop(i, now, stateReason{code, code + ": " + message}, "Server initiated ("+now.UTC().Format("2006-01-02 15:04:05")+" GMT)")
	})
}

// TerminateInstance terminates an instance as AWS itself does:
// Server.SpotInstanceTermination, Server.InternalError …
func (s *Server) TerminateInstance(scope Scope, id, code, message string) error {
	defer s.handOn()
	return s.onInstance(scope, id, func(r *region, i *instance, now time.Time) {
		r.warn(i, now, code, "terminate")
		r.terminate(i, now, stateReason{code, code + ": " + message}, "Server initiated ("+now.UTC().Format("2006-01-02 15:04:05")+" GMT)")
	})
}

// onInstance does something to an instance from Go.
func (s *Server) onInstance(scope Scope, id string, do func(*region, *instance, time.Time)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.region(scope)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	r.settle(now)
	i, ok := r.instances.byID[id]
	if !ok {
		return kindInstance.missingError(id)
	}
	do(r, i, now)
	return nil
}
