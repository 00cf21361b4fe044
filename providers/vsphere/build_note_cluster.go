package vsphere

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

func (p *Provider) noteCluster(owner *providers.Owner, cluster *infrav1.VSphereCluster, snap *providers.Snapshot, progress *providers.Progress) string {
	now := p.now()
	kinds := []string{infrav1.VSphereClusterVCenterAvailableCondition, infrav1.VSphereClusterFailureDomainsReadyCondition}
	if progress.Deleting {
		s, waiting := deleting(progress)
		condition(cluster, kinds[0], infrav1.VCenterAvailableV1Beta1Condition, s, now)
		condition(cluster, kinds[1], infrav1.FailureDomainsAvailableV1Beta1Condition, s, now)
		ready(cluster, now, kinds...)
		if progress.Failed == nil {
			waiting = ""
		}
		return waiting
	}
	reached, waits := reachedVCenter(snap, progress)
	condition(cluster, kinds[0], infrav1.VCenterAvailableV1Beta1Condition, reached, now)
	if waits == "" {
		domains, s, why := p.failureDomains(owner, cluster, snap)
		if !reflect.DeepEqual(domains, cluster.Status.FailureDomains) {
			cluster.Status.FailureDomains = domains
		}
		if s == nil {
			withoutCondition(cluster, kinds[1], infrav1.FailureDomainsAvailableV1Beta1Condition)
		} else {
			condition(cluster, kinds[1], infrav1.FailureDomainsAvailableV1Beta1Condition, *s, now)
		}
		waits = why
	}
	if waits == "" {
		waits = noEndpoint(owner, cluster)
	}
	if waits == "" || progress.WasReady {
		cluster.Status.Initialization.Provisioned = ptr.To(true)
	}
	ready(cluster, now, kinds...)
	return waits
}

func reachedVCenter(snap *providers.Snapshot, progress *providers.Progress) (state, string) {
	text := ""
	switch {
	case progress.Failed != nil:
		text = explained(progress.Failed)
	case snap == nil:
		text = "vCenter has not been read yet"
	default:
		if err := readInFull(snap); err != nil {
			text = explained(err)
		}
	}
	if text == "" {
		return good(infrav1.VSphereClusterVCenterAvailableReason), ""
	}
	return bad(infrav1.VSphereClusterVCenterUnreachableReason, infrav1.VCenterUnreachableV1Beta1Reason, clusterv1.ConditionSeverityError, text), text
}

// noEndpoint says that nobody has given the control plane an address: vSphere has
// no load balancer of its own that could be made.
func noEndpoint(owner *providers.Owner, cluster *infrav1.VSphereCluster) string {
	e := cluster.Spec.ControlPlaneEndpoint
	switch {
	case e.Host != "" && e.Port != 0, owner.Cluster.Spec.ControlPlaneEndpoint.IsValid():
		return ""
	case e.Host != "":
		return "spec.controlPlaneEndpoint.port: give the port of the control plane's address " + oneLine(e.Host) + ", which is 6443 as a rule"
	default:
		return "spec.controlPlaneEndpoint: vSphere gives the control plane no address. " +
			"Set host and port to a free address in the machines' network that kube-vip or a load balancer of yours will hold, outside of any DHCP range"
	}
}

// failureDomains gives the deployment zones that the cluster's selector means and
// that machines can be placed in, as vCenter is now. No state is given where the
// cluster selects none.
func (p *Provider) failureDomains(owner *providers.Owner, cluster *infrav1.VSphereCluster, snap *providers.Snapshot) ([]clusterv1.FailureDomain, *state, string) {
	if cluster.Spec.FailureDomainSelector == nil {
		return nil, nil, ""
	}
	notReady := func(text string) *state {
		s := bad(infrav1.VSphereClusterFailureDomainsNotReadyReason, infrav1.FailureDomainsSkippedV1Beta1Reason, clusterv1.ConditionSeverityInfo, text)
		return &s
	}
	selector, err := metav1.LabelSelectorAsSelector(cluster.Spec.FailureDomainSelector)
	if err != nil {
		text := "spec.failureDomainSelector: " + err.Error()
		return cluster.Status.FailureDomains, notReady(text), oneLine(text)
	}
	var out []clusterv1.FailureDomain
	var wrong []string
	x := p.index.get(snap)
	for _, o := range owner.Related {
		zone, ok := o.(*infrav1.VSphereDeploymentZone)
		if !ok || !selector.Matches(labels.Set(zone.Labels)) || !sameServer(zone.Spec.Server, cluster.Spec.Server) {
			continue
		}
		if why := unusableZone(owner, zone, x); why != "" {
			wrong = append(wrong, zone.Name+" "+why)
			continue
		}
		out = append(out, clusterv1.FailureDomain{Name: zone.Name, ControlPlane: zone.Spec.ControlPlane})
	}
	slices.SortFunc(out, func(a, b clusterv1.FailureDomain) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(wrong)
	switch {
	case len(wrong) == 0 && len(out) == 0:
		return nil, nil, ""
	case len(wrong) == 0:
		s := good(infrav1.VSphereClusterFailureDomainsReadyReason)
		return out, &s, ""
	case len(out) > 0:
		return out, notReady("VSphereDeploymentZone " + strings.Join(wrong, "; ")), ""
	default:
		text := "no failure domain can be used: VSphereDeploymentZone " + strings.Join(wrong, "; ")
		return nil, notReady(text), oneLine(text)
	}
}

func sameServer(a, b string) bool {
	x, errX := parseServer(a)
	y, errY := parseServer(b)
	return errX == nil && errY == nil && hostOf(x) == hostOf(y)
}

// unusableZone says why no machine can be placed in a deployment zone, by its
// objects and the inventory: empty if one can.
func unusableZone(owner *providers.Owner, zone *infrav1.VSphereDeploymentZone, x *snapshotIndex) string {
	var domain *infrav1.VSphereFailureDomain
	for _, o := range owner.Related {
		if d, ok := o.(*infrav1.VSphereFailureDomain); ok && d.Name == zone.Spec.FailureDomain {
			domain = d
		}
	}
	if domain == nil {
		return fmt.Sprintf("names VSphereFailureDomain %q, which does not exist", zone.Spec.FailureDomain)
	}
	w := &wantedMachine{owner: owner}
	applyDomain(&w.spec, zone, domain)
	at := w.places(x)
	missing := func(what, ref string, found []string) string {
		if ref == "" || len(found) > 0 {
			return ""
		}
		return fmt.Sprintf("needs %s %q, which the inventory does not have", what, ref)
	}
	topology := &domain.Spec.Topology
	for _, why := range []string{
		missing("datacenter", topology.Datacenter, at.datacenters),
		missing("compute cluster", topology.ComputeCluster, paths(at.find(kindCompute, "/host", "/host", topology.ComputeCluster))),
		missing("resource pool", w.spec.ResourcePool, at.resourcePool(w.spec.ResourcePool)),
		missing("folder", w.spec.Folder, at.folder(w.spec.Folder)),
		missing("datastore", w.spec.Datastore, at.datastore(w.spec.Datastore)),
	} {
		if why != "" {
			return why
		}
	}
	for _, d := range w.spec.Network.Devices {
		if why := missing("network", d.NetworkName, at.network(d.NetworkName)); why != "" {
			return why
		}
	}
	return ""
}
