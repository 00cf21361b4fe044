package aws

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// place wants the zone of the machine's failure domain and a subnet that the
// spec's reference allows. Without a reference CAPA picks one of the cluster's
// subnets: no opinion of the spec's. Given interfaces bring their own subnet.
func (i *instanceWants) place() {
	zone := ""
	if i.owner.Machine != nil {
		zone = i.owner.Machine.Spec.FailureDomain
	}
	ref := i.m.Spec.Subnet
	if ref == nil || ref.ID == nil && ref.Filters == nil || len(i.m.Spec.NetworkInterfaces) > 0 {
		wantString(i.r, pathZone, zone, providers.Immutable)
		return
	}
	subnets, why := i.subnets(ref, zone)
	switch {
	case why != "":
		i.unchecked(providers.KindSubnet, "spec.subnet", why)
		return
	case len(subnets) == 1:
		want(i.r, pathSubnetID, providers.String(subnets[0]), providers.Immutable)
	default:
		// CAPA took one of them at creation; any of them is what was asked for.
		wantMatch(i.r, pathSubnetID, providers.Set(subnets...), providers.OneOf, providers.Immutable)
	}
	wantString(i.r, pathZone, zone, providers.Immutable)
}

// subnets gives the ids that the reference allows, filtered as CAPA does
// after it has asked EC2. None at all is the spec's fault or the network's,
// never the instance's.
func (i *instanceWants) subnets(ref *infrav1.AWSResourceReference, zone string) (ids []string, why string) {
	filters := slices.Clone(ref.Filters)
	if ref.ID != nil {
		filters = append(filters, infrav1.Filter{Name: "subnet-id", Values: []string{escapeWildcards(*ref.ID)}})
	}
	found, why := lookup(i.cluster.snap, providers.KindSubnet, filters)
	switch {
	case why != "" && ref.ID != nil && len(ref.Filters) == 0:
		return []string{*ref.ID}, ""
	case why != "":
		return nil, "spec.subnet: " + why
	case len(found) == 0:
		return nil, "spec.subnet: no subnet matches " + filterWords(filters)
	}
	var refused []string
	for _, subnet := range found {
		if reason := i.refuses(subnet, zone); reason != "" {
			refused = append(refused, reason)
			continue
		}
		ids = append(ids, subnet.ID.Name)
	}
	if len(ids) == 0 {
		return nil, fmt.Sprintf("spec.subnet: of the subnets that match %s none can be used: %s",
			filterWords(filters), strings.Join(refused, "; "))
	}
	return ids, ""
}

func (i *instanceWants) refuses(subnet *providers.Resource, zone string) string {
	id := subnet.ID.Name
	if seen := textOf(subnet, pathZone); zone != "" && seen != zone {
		return fmt.Sprintf("%s is in %s, and the Machine's failureDomain is %s", id, seen, zone)
	}
	if tagOf(subnet, infrav1.NameAWSSubnetAssociation) == infrav1.SecondarySubnetTagValue {
		return id + " is a secondary subnet for pods"
	}
	if deref(i.m.Spec.PublicIP) && i.cluster.spec != nil {
		spec := i.cluster.spec.Spec.NetworkSpec.Subnets.FindByID(id)
		switch {
		case spec == nil:
			return id + " is not one of the AWSCluster's subnets, as spec.publicIP demands"
		case !spec.IsPublic:
			return id + " is private, and spec.publicIP is true"
		}
	}
	return ""
}

var wildcardEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`)

// escapeWildcards makes a filter value of a plain text.
func escapeWildcards(s string) string { return wildcardEscaper.Replace(s) }
