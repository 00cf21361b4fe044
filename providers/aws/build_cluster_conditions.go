package aws

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	"github.com/holdfast-io/holdfast/providers"
)

// aspect is what one condition is about.
type aspect struct {
	condition clusterv1beta1.ConditionType
	kind      string
	// failed and started are CAPA's reasons for it.
	failed, started string
	// ours says that it is about what the cluster has in a VPC of its own only.
	ours bool
}

// reasonWaiting is why a condition is false where CAPA, which waits within one
// reconcile, has no word.
const reasonWaiting = "Waiting"

var aspects = []aspect{
	{infrav1.VpcReadyCondition, providers.KindVPC, infrav1.VpcReconciliationFailedReason, infrav1.VpcCreationStartedReason, false},
	{infrav1.SubnetsReadyCondition, providers.KindSubnet, infrav1.SubnetsReconciliationFailedReason, reasonWaiting, false},
	{infrav1.InternetGatewayReadyCondition, providers.KindInternetGateway, infrav1.InternetGatewayFailedReason, reasonWaiting, true},
	{infrav1.NatGatewaysReadyCondition, providers.KindNATGateway, infrav1.NatGatewaysReconciliationFailedReason, infrav1.NatGatewaysCreationStartedReason, true},
	{infrav1.RouteTablesReadyCondition, providers.KindRouteTable, infrav1.RouteTableReconciliationFailedReason, reasonWaiting, true},
	{infrav1.ClusterSecurityGroupsReadyCondition, providers.KindSecurityGroup, infrav1.ClusterSecurityGroupReconciliationFailedReason, reasonWaiting, false},
	{infrav1.LoadBalancerReadyCondition, providers.KindLoadBalancer, infrav1.LoadBalancerFailedReason, infrav1.WaitForDNSNameReason, false},
}

func (n *clusterNote) aspects() []aspect {
	return slices.DeleteFunc(slices.Clone(aspects), func(x aspect) bool { return x.ours && !n.c.managed })
}

// conditions says of each aspect what is open, and of the whole what the cluster
// waits for. What is not known now is left as it was.
func (n *clusterNote) conditions(waiting string) {
	n.understood()
	if n.progress.Plan != nil {
		for _, x := range n.aspects() {
			n.aspect(&x)
		}
	}
	switch {
	case waiting == "":
		n.set(clusterv1beta1.Condition{Type: clusterv1beta1.ReadyCondition, Status: "True"})
	case n.progress.Failed != nil:
		n.set(clusterv1beta1.Condition{
			Type: clusterv1beta1.ReadyCondition, Status: "False", Reason: n.failedReason(), Severity: severityOf(n.progress.Failed), Message: waiting,
		})
	default:
		n.set(clusterv1beta1.Condition{Type: clusterv1beta1.ReadyCondition, Status: "False", Reason: reasonWaiting, Severity: clusterv1beta1.ConditionSeverityInfo, Message: waiting})
	}
}

// SpecUnderstoodCondition is false where a spec has what is no field of its kind,
// which has no effect. CAPA has no condition for it.
const (
	SpecUnderstoodCondition clusterv1beta1.ConditionType = "SpecUnderstood"

	reasonMisplaced = "MisplacedFields"
)

// understood says what of the spec has no effect. Nothing is said of a spec that
// never had any such thing.
func (n *clusterNote) understood() {
	if text := n.progress.Misplaced; text != "" {
		n.set(clusterv1beta1.Condition{
			Type: SpecUnderstoodCondition, Status: "False", Reason: reasonMisplaced, Severity: clusterv1beta1.ConditionSeverityWarning, Message: clean(text),
		})
		return
	}
	if slices.ContainsFunc(n.a.Status.Conditions, func(c clusterv1beta1.Condition) bool { return c.Type == SpecUnderstoodCondition }) {
		n.set(clusterv1beta1.Condition{Type: SpecUnderstoodCondition, Status: "True"})
	}
}

// failedReason is that of what failed.
func (n *clusterNote) failedReason() string {
	for _, x := range aspects {
		if x.kind == n.progress.At.Kind {
			return x.failed
		}
	}
	return "Failed"
}

// severityOf tells what passes by itself from what somebody has to see to.
func severityOf(err error) clusterv1beta1.ConditionSeverity {
	if lasting(err) {
		return clusterv1beta1.ConditionSeverityError
	}
	return clusterv1beta1.ConditionSeverityWarning
}

func (n *clusterNote) aspect(x *aspect) {
	if n.progress.Failed != nil && n.progress.At.Kind == x.kind {
		n.set(clusterv1beta1.Condition{
			Type: x.condition, Status: "False", Reason: x.failed, Severity: severityOf(n.progress.Failed), Message: clean(n.progress.Failed.Error()),
		})
		return
	}
	for i := range n.progress.Plan {
		r := &n.progress.Plan[i]
		if why, open := n.open(r); open && r.ID.Kind == x.kind {
			n.set(clusterv1beta1.Condition{Type: x.condition, Status: "False", Reason: x.started, Severity: clusterv1beta1.ConditionSeverityInfo, Message: why})
			return
		}
	}
	if why := n.endpointWaits(); x.kind == providers.KindLoadBalancer && why != "" {
		n.set(clusterv1beta1.Condition{Type: x.condition, Status: "False", Reason: x.started, Severity: clusterv1beta1.ConditionSeverityInfo, Message: why})
		return
	}
	n.set(clusterv1beta1.Condition{Type: x.condition, Status: "True"})
}

// Reasons of conditions on the way out.
const (
	reasonDeleting       = "Deleting"
	reasonDeleted        = "Deleted"
	reasonDeletingFailed = "DeletingFailed"
)

func (n *clusterNote) deletingConditions(waiting string) {
	info := clusterv1beta1.ConditionSeverityInfo
	for _, x := range n.aspects() {
		left := 0
		for id := range n.progress.Open {
			if id.Kind == x.kind {
				left++
			}
		}
		switch {
		case n.progress.Failed != nil && n.progress.At.Kind == x.kind:
			n.set(clusterv1beta1.Condition{Type: x.condition, Status: "False", Reason: reasonDeletingFailed, Severity: clusterv1beta1.ConditionSeverityWarning, Message: waiting})
		case left > 0 || n.progress.Open == nil:
			n.set(clusterv1beta1.Condition{Type: x.condition, Status: "False", Reason: reasonDeleting, Severity: info})
		default:
			n.set(clusterv1beta1.Condition{Type: x.condition, Status: "False", Reason: reasonDeleted, Severity: info})
		}
	}
	n.set(clusterv1beta1.Condition{Type: clusterv1beta1.ReadyCondition, Status: "False", Reason: reasonDeleting, Severity: info, Message: waiting})
}

// set stores a condition where it says something else than before. Errors have
// request ids and times in them, which say nothing new.
func (n *clusterNote) set(c clusterv1beta1.Condition) {
	list := n.a.Status.Conditions
	at := slices.IndexFunc(list, func(o clusterv1beta1.Condition) bool { return o.Type == c.Type })
	if at >= 0 {
		o := &list[at]
		if o.Status == c.Status && o.Reason == c.Reason && o.Severity == c.Severity &&
			(o.Message == c.Message || n.progress.Failed != nil && providers.Shape(o.Message) == providers.Shape(c.Message)) {
			return
		}
		c.LastTransitionTime = o.LastTransitionTime
	}
	if at < 0 || list[at].Status != c.Status {
		c.LastTransitionTime = metav1.NewTime(n.when(at))
	}
	if at >= 0 {
		list[at] = c
		return
	}
	n.a.Status.Conditions = append(list, c)
	slices.SortFunc(n.a.Status.Conditions, func(x, y clusterv1beta1.Condition) int { // as Cluster API orders them
		if (x.Type == clusterv1beta1.ReadyCondition) != (y.Type == clusterv1beta1.ReadyCondition) {
			if x.Type == clusterv1beta1.ReadyCondition {
				return -1
			}
			return 1
		}
		return strings.Compare(string(x.Type), string(y.Type))
	})
}

// when is the snapshot's time; without one, the last that is known.
func (n *clusterNote) when(at int) time.Time {
	t := n.at
	if t.IsZero() && at >= 0 {
		t = n.a.Status.Conditions[at].LastTransitionTime.Time
	}
	if t.IsZero() {
		t = n.a.CreationTimestamp.Time
	}
	return t.UTC().Truncate(time.Second)
}
