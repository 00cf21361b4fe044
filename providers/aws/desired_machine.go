package aws

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// Values of an instance's fields.
const (
	stateRunning      = "running"
	statePending      = "pending"
	stateShuttingDown = "shutting-down"
	registered        = "registered"
)

// machine adds what an AWSMachine wants: its instance, and a resource for each
// reference that leads nowhere.
func (w *wants) machine(m *infrav1.AWSMachine) {
	id, why := machineIdentity(w.owner, m)
	switch {
	case why != "":
		w.unrecorded(providers.KindInstance, m.Name, why)
		return
	case id == "" && w.cluster.plan:
		id = w.launched(m)
	case id == "":
		w.unsettledMachine(m)
		return
	}
	r := providers.Resource{
		ID:    providers.ID{Kind: providers.KindInstance, Name: id},
		Name:  m.Name,
		Since: since(m, m.Status.Conditions, infrav1.InstanceReadyCondition),
	}
	if ofMachinePool(w.owner) {
		r.Unchecked = "the machine belongs to a machine pool, whose launch template is not modelled"
		w.add(r)
		return
	}
	if why := beingDeleted(w.owner); why != "" {
		w.add(r)
		w.release(why)
		return
	}
	i := &instanceWants{wants: w, r: &r, m: m, seen: w.cluster.snap.Resources[r.ID]}
	i.all()
	r.Unsettled = w.cluster.plan && textOf(i.seen, pathState) == statePending
	w.add(r)
}

// launched gives the instance that was launched for this very AWSMachine and is
// not recorded yet, else a provisional id.
func (w *wants) launched(m *infrav1.AWSMachine) string {
	for _, seen := range ofKind(w.cluster.snap, providers.KindInstance) {
		if seen.Gone == "" && tagOf(seen, ownerTag) == string(m.UID) {
			return seen.ID.Name
		}
	}
	return providers.Provisional(providers.KindInstance, m.Name).Name
}

// machineIdentity gives the instance that the machine's objects record. Two
// records that disagree name no instance: acting on either could hit a
// stranger.
func machineIdentity(owner *providers.Owner, m *infrav1.AWSMachine) (id, why string) {
	type record struct{ field, value string }
	records := []record{{"spec.providerID", deref(m.Spec.ProviderID)}, {"spec.instanceID", deref(m.Spec.InstanceID)}}
	if owner.Machine != nil {
		records = append(records, record{"the Machine's spec.providerID", owner.Machine.Spec.ProviderID})
	}
	var from string
	for _, rec := range records {
		if rec.value == "" {
			continue
		}
		found, ok := canonical.InstanceID(rec.value)
		switch {
		case !ok:
			return "", fmt.Sprintf("%s %q names no EC2 instance", rec.field, rec.value)
		case id == "":
			id, from = found, rec.field
		case id != found:
			return "", fmt.Sprintf("%s names %s and %s names %s", from, id, rec.field, found)
		}
	}
	return id, ""
}

// unsettledMachine adds an instance that is still being made. Instances that
// carry the machine's name are pointed at and not claimed: a tag is no
// identity, and the controller may be about to record one of them.
func (w *wants) unsettledMachine(m *infrav1.AWSMachine) {
	r := providers.Resource{
		ID:        providers.ID{Kind: providers.KindInstance},
		Name:      m.Name,
		Unsettled: true,
		Since:     m.CreationTimestamp.Time,
		Warnings:  []string{"no provider id recorded yet"},
	}
	var spares []string
	for _, seen := range ofKind(w.cluster.snap, providers.KindInstance) {
		if seen.Name == m.Name && seen.Gone == "" && ownedBy(seen, w.cluster.name) {
			spares = append(spares, seen.ID.Name)
		}
	}
	if len(spares) > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"tagged for this machine and not recorded by it: %s", strings.Join(spares, ", ")))
	}
	w.add(r)
}

// ofMachinePool reports a machine that mirrors one instance of an autoscaling
// group: the group's launch template decides, not the AWSMachine.
func ofMachinePool(owner *providers.Owner) bool {
	if owner.Machine == nil {
		return false
	}
	if _, ok := owner.Machine.Labels[clusterv1.MachinePoolNameLabel]; ok {
		return true
	}
	return slices.ContainsFunc(owner.Machine.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "MachinePool"
	})
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// instanceWants fills in one instance.
type instanceWants struct {
	*wants
	r *providers.Resource
	m *infrav1.AWSMachine
	// seen is the instance in the snapshot; nil if it is not there. It decides
	// what a wanted value means (which device is the root), never what is
	// wanted.
	seen *providers.Resource
}

func (i *instanceWants) all() {
	spec := &i.m.Spec
	want(i.r, pathState, providers.String(stateRunning), providers.InPlace)
	wantString(i.r, pathInstanceType, spec.InstanceType, providers.InPlaceDisruptive)
	// An image found by lookup was the newest when the instance was made. A
	// newer one today is an update, not drift, so only a given id is compared.
	wantString(i.r, pathImageID, deref(spec.AMI.ID), providers.Immutable)
	// No spec announces an event, so every one that is to come is news.
	want(i.r, pathScheduledEvents, providers.Set(), providers.ReadOnly)
	i.tags()
	i.securityGroups()
	i.profile()
	i.place()
	i.publicAddress()
	i.metadata()
	i.volumes()
	i.keyAndMarket()
	i.placement()
	i.cpu()
	i.registration()
	i.interfaces()
	i.unmodelled()
}

func (i *instanceWants) role() string {
	if i.owner.ControlPlane {
		return "control-plane"
	}
	return "node"
}

func (i *instanceWants) tags() {
	tags := i.cluster.machineTags(i.m, i.role())
	if i.owner.Machine != nil && tagOf(i.seen, machineNameTag) != "" && tags[machineNameTag] == "" {
		tags[machineNameTag] = i.owner.Machine.Namespace + "/" + i.owner.Machine.Name
	}
	wantTags(i.r, i.cluster.name, tags)
}

// profile wants the name of the profile, or the whole ARN where the spec gives
// one: EC2 reports an ARN with a path and a partition that names leave out.
func (i *instanceWants) profile() {
	profile := i.m.Spec.IAMInstanceProfile
	if canonical.IsARN(profile) {
		want(i.r, pathProfileARN, providers.String(profile), providers.InPlace)
		return
	}
	wantString(i.r, pathProfile, canonical.InstanceProfile(profile), providers.InPlace)
}

// publicAddress is compared while the instance runs: EC2 takes the address
// back when it stops, which is part of being stopped.
func (i *instanceWants) publicAddress() {
	if i.m.Spec.PublicIP != nil && i.runs() {
		want(i.r, pathPublicIP, providers.Bool(*i.m.Spec.PublicIP), providers.Immutable)
	}
}

// runs reports whether the instance is running or starting, as far as it was
// seen at all.
func (i *instanceWants) runs() bool {
	state := textOf(i.seen, pathState)
	return state == "" || state == stateRunning || state == statePending
}

// registration wants a control-plane instance in every load balancer of the
// API server. CAPA takes instances out that do not run, so a stopped one is
// one finding.
func (i *instanceWants) registration() {
	if !i.owner.ControlPlane || !i.runs() {
		return
	}
	for _, lb := range i.cluster.loadBalancers() {
		for _, name := range lb.registrations {
			want(i.r, providers.Pointer("loadBalancers", name), providers.String(registered), providers.InPlace)
		}
	}
}

// interfaces wants the interfaces that the spec names at their places.
func (i *instanceWants) interfaces() {
	for index, id := range i.m.Spec.NetworkInterfaces {
		if id == "" {
			continue
		}
		eni := providers.Resource{
			ID:    providers.ID{Kind: providers.KindNetworkInterface, Name: id},
			Name:  i.m.Name,
			Since: i.r.Since,
		}
		want(&eni, pathInstanceID, providers.String(i.r.ID.Name), providers.InPlaceDisruptive)
		want(&eni, pathDeviceIndex, providers.Int(index), providers.InPlaceDisruptive)
		i.add(eni)
	}
}
