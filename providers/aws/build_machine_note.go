package aws

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	"sigs.k8s.io/cluster-api/util/deprecated/v1beta1/conditions"

	"github.com/holdfast-io/holdfast/providers"
)

// machineNote writes what a snapshot says of a machine into its object, in
// CAPA's (2.13) words: its conditions, reasons and severities.
type machineNote struct {
	owner    *providers.Owner
	m        *infrav1.AWSMachine
	snap     *providers.Snapshot
	progress providers.Progress
	id       string
	// seen is nil where the instance was not seen, and known says that it was
	// looked for.
	seen  *providers.Resource
	known bool
}

// noteMachine implements [providers.Builder] for machines.
func noteMachine(owner *providers.Owner, m *infrav1.AWSMachine, snap *providers.Snapshot, progress providers.Progress) string {
	n := &machineNote{owner: owner, m: m, snap: snap, progress: progress}
	waiting := n.write()
	n.summary()
	return waiting
}

func (n *machineNote) write() string {
	id, why := machineIdentity(n.owner, n.m)
	if id == "" && why == "" {
		id = n.found()
	}
	n.id = id
	if n.snap != nil && id != "" {
		err, known := n.snap.Covered(providers.KindInstance, "")
		n.seen = n.snap.Resources[providers.ID{Kind: providers.KindInstance, Name: id}]
		n.known = n.seen != nil || known && err == nil
	}
	switch {
	case n.progress.Deleting:
		return n.deleting()
	case ofMachinePool(n.owner):
		return "the machine belongs to a machine pool, whose instances Holdfast does not make"
	case why != "":
		n.unknown(infrav1.InstanceReadyCondition, infrav1.InstanceNotFoundReason, why)
		return n.clean(why)
	case id == "":
		return n.launching()
	case n.seen == nil && n.known:
		text := "instance " + id + " is recorded, and EC2 does not show it"
		n.unknown(infrav1.InstanceReadyCondition, infrav1.InstanceNotFoundReason, text)
		return text
	case n.seen == nil || n.seen.Unknown != "":
		return n.failure("instance " + id + " could not be read")
	}
	return n.launched()
}

// found gives an instance that the plan has taken up, which was launched for this
// very object and not recorded.
func (n *machineNote) found() string {
	for i := range n.progress.Plan {
		if id := n.progress.Plan[i].ID; id.Kind == providers.KindInstance && !id.Provisional() && !strings.Contains(id.Name, "/") {
			return id.Name
		}
	}
	return ""
}

// launching is before there is an instance.
func (n *machineNote) launching() string {
	cluster, machine := n.owner.Cluster, n.owner.Machine
	switch {
	case n.progress.Failed != nil:
		text := n.failure("")
		n.not(infrav1.InstanceReadyCondition, infrav1.InstanceProvisionFailedReason, clusterv1beta1.ConditionSeverityError, text)
		return text
	case !deref(cluster.Status.Initialization.InfrastructureProvisioned):
		n.not(infrav1.InstanceReadyCondition, infrav1.WaitingForClusterInfrastructureReason, clusterv1beta1.ConditionSeverityInfo, "")
		return "the cluster's infrastructure"
	case machine != nil && machine.Spec.Bootstrap.DataSecretName == nil:
		n.not(infrav1.InstanceReadyCondition, infrav1.WaitingForBootstrapDataReason, clusterv1beta1.ConditionSeverityInfo, "")
		return "the machine's bootstrap data"
	case conditions.GetReason(n.m, infrav1.InstanceReadyCondition) != infrav1.InstanceProvisionFailedReason:
		// A failure stands until there is something better to say.
		n.not(infrav1.InstanceReadyCondition, infrav1.InstanceProvisionStartedReason, clusterv1beta1.ConditionSeverityInfo, "")
	}
	return "the launch of an instance"
}

// launched is the instance as it was seen.
func (n *machineNote) launched() string {
	m, state := n.m, textOf(n.seen, pathState)
	n.facts()
	setTo(&m.Status.InstanceState, infrav1.InstanceState(state))
	switch infrav1.InstanceState(state) {
	case infrav1.InstanceStatePending:
		n.not(infrav1.InstanceReadyCondition, infrav1.InstanceNotReadyReason, clusterv1beta1.ConditionSeverityWarning, "")
	case infrav1.InstanceStateRunning:
		conditions.MarkTrue(m, infrav1.InstanceReadyCondition)
	case infrav1.InstanceStateStopping, infrav1.InstanceStateStopped:
		n.not(infrav1.InstanceReadyCondition, infrav1.InstanceStoppedReason, clusterv1beta1.ConditionSeverityError, "")
	case infrav1.InstanceStateShuttingDown, infrav1.InstanceStateTerminated:
		return n.terminated(state)
	default:
		m.Status.Ready = false
		n.unknown(infrav1.InstanceReadyCondition, "", "")
		return n.clean(fmt.Sprintf("instance %s is in the state %q, which is not known", n.id, state))
	}
	n.addresses()
	waits := n.securityGroups()
	if lb := n.balancers(state); lb != "" {
		waits = lb
	}
	// CAPA calls it ready as soon as it runs, and sets up the rest whenever it
	// comes by. Here what differs once it has been ready is drift, so the rest
	// comes first.
	m.Status.Ready = state == stateRunning && (m.Status.Ready || n.progress.WasReady || waits == "" && n.planned() != nil)
	if state != stateRunning {
		return n.failure(fmt.Sprintf("instance %s is %s", n.id, state))
	}
	return n.failure(waits)
}

// facts are what an instance keeps.
func (n *machineNote) facts() {
	spec := &n.m.Spec
	setTo(&spec.InstanceID, n.id)
	if zone := textOf(n.seen, pathZone); zoneName.MatchString(zone) {
		setTo(&spec.ProviderID, providerID(zone, n.id))
	}
	count, err := strconv.ParseInt(tagOf(n.seen, secretsTag), 10, 32)
	if err == nil && spec.CloudInit.SecretPrefix != "" && count > 0 && count <= mostPieces {
		spec.CloudInit.SecretCount = int32(count)
	}
	// CAPA says so of machines with options for spot only.
	if spec.SpotMarketOptions != nil || spec.MarketType == infrav1.MarketTypeSpot {
		n.m.Status.Interruptible = true
	}
}

// terminated is for the machine to be replaced: whatever health checks look at,
// they find a failure (MachineHealthCheck, status.failureReason).
func (n *machineNote) terminated(state string) string {
	n.m.Status.Ready = false
	text := fmt.Sprintf("EC2 instance state %q is unexpected", state)
	if reason := textOf(n.seen, pathStateReason); reason != "" {
		text += ": " + reason
	}
	text = n.clean(text)
	n.not(infrav1.InstanceReadyCondition, infrav1.InstanceTerminatedReason, clusterv1beta1.ConditionSeverityError, text)
	if state == string(infrav1.InstanceStateTerminated) && n.m.Status.FailureReason == nil {
		setTo(&n.m.Status.FailureReason, "UpdateError")
		setTo(&n.m.Status.FailureMessage, text)
	}
	return fmt.Sprintf("instance %s is %s; the Machine has to be replaced", n.id, state)
}

// addresses takes over what was seen, as far as it is an address at all.
func (n *machineNote) addresses() {
	var out []clusterv1beta1.MachineAddress
	for word := range strings.FieldsSeq(textOf(n.seen, pathAddresses)) {
		kind, address, _ := strings.Cut(word, "=")
		t := clusterv1beta1.MachineAddressType(kind)
		switch t {
		case clusterv1beta1.MachineInternalDNS, clusterv1beta1.MachineExternalDNS:
			if len(validation.IsDNS1123Subdomain(address)) > 0 {
				continue
			}
		default:
			ip, err := netip.ParseAddr(address)
			if err != nil || ip.Zone() != "" || ip.IsLinkLocalUnicast() {
				continue
			}
			address = ip.String()
		}
		out = append(out, clusterv1beta1.MachineAddress{Type: t, Address: address})
	}
	if len(out) > 0 && !slices.Equal(out, n.m.Status.Addresses) {
		n.m.Status.Addresses = out
	}
}

// planned is the instance as it is wanted; nil where that could not be planned.
func (n *machineNote) planned() *providers.Resource {
	for i := range n.progress.Plan {
		if r := &n.progress.Plan[i]; r.ID.Kind == providers.KindInstance && r.ID.Name == n.id {
			return r
		}
	}
	return nil
}

// securityGroups says whether the instance has its groups, and what it waits for
// if it has not.
func (n *machineNote) securityGroups() string {
	want := n.planned()
	if want == nil {
		return ""
	}
	f, wanted := want.Fields.Lookup(pathSecurityGroups)
	have := n.seen.Fields.Get(pathSecurityGroups).Value
	if !wanted || have.Equal(f.Value) || f.Match == providers.Contains && have.HasAll(f.Value) {
		conditions.MarkTrue(n.m, infrav1.SecurityGroupsReadyCondition)
		return ""
	}
	waits := "the security groups of " + n.id
	severity := clusterv1beta1.ConditionSeverityInfo
	if n.failed() {
		severity = clusterv1beta1.ConditionSeverityError
	}
	n.not(infrav1.SecurityGroupsReadyCondition, infrav1.SecurityGroupsFailedReason, severity, n.failure(waits))
	return waits
}

// balancers says whether a control plane's instance is behind its load
// balancers.
func (n *machineNote) balancers(state string) (waits string) {
	want := n.planned()
	if want == nil || !n.owner.ControlPlane {
		return ""
	}
	var missing []string
	wanted := false
	for path, f := range want.Fields.All() {
		if s := providers.Segments(path); len(s) == 2 && s[0] == "loadBalancers" {
			wanted = true
			if !n.seen.Fields.Get(path).Value.Equal(f.Value) {
				missing = append(missing, s[1])
			}
		}
	}
	severity := clusterv1beta1.ConditionSeverityInfo
	switch {
	case !wanted: // there is none, or the instance is not to be in it
		return ""
	case len(missing) == 0:
		conditions.MarkTrue(n.m, infrav1.ELBAttachedCondition)
		return ""
	case state != stateRunning:
		n.not(infrav1.ELBAttachedCondition, infrav1.ELBAttachFailedReason, severity, "instance not running")
		return ""
	case n.failed():
		severity = clusterv1beta1.ConditionSeverityError
	}
	waits = "registration with load balancer " + strings.Join(missing, ", ")
	n.not(infrav1.ELBAttachedCondition, infrav1.ELBAttachFailedReason, severity, n.failure(waits))
	return waits
}

// deleting is while the instance goes.
func (n *machineNote) deleting() string {
	state := textOf(n.seen, pathState)
	if state != "" {
		setTo(&n.m.Status.InstanceState, infrav1.InstanceState(state))
		n.m.Status.Ready = n.m.Status.Ready && state == stateRunning
	}
	reason, severity, text := clusterv1beta1.DeletingReason, clusterv1beta1.ConditionSeverityInfo, ""
	switch {
	case n.progress.Failed != nil:
		reason, severity, text = "DeletingFailed", clusterv1beta1.ConditionSeverityWarning, n.failure("")
	case n.seen != nil && n.seen.Gone != "", n.seen == nil && n.known:
		reason = clusterv1beta1.DeletedReason
	}
	n.not(infrav1.InstanceReadyCondition, reason, severity, text)
	if n.owner.ControlPlane && n.progress.Failed == nil {
		n.not(infrav1.ELBAttachedCondition, clusterv1beta1.DeletedReason, clusterv1beta1.ConditionSeverityInfo, "")
	}
	switch {
	case text != "":
		return text
	case n.id == "" || state == "":
		return "the end of its instance"
	}
	return fmt.Sprintf("instance %s is %s", n.id, state)
}
