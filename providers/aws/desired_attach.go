package aws

import (
	"fmt"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// securityGroups wants the groups on the instance's primary interface: those
// of its roles and the additional ones. When one of them cannot be told, those
// that can be must still be there, and what else is attached is not judged.
func (i *instanceWants) securityGroups() {
	var ids []string
	complete := true
	miss := func(field, why string) {
		complete = false
		i.unchecked(providers.KindSecurityGroup, field, why)
	}
	core, why := i.coreGroups()
	ids = append(ids, core...)
	if why != "" {
		miss("securityGroups", why)
	}
	for n := range i.m.Spec.AdditionalSecurityGroups {
		field := fmt.Sprintf("spec.additionalSecurityGroups[%d]", n)
		more, why := i.additionalGroups(&i.m.Spec.AdditionalSecurityGroups[n])
		if why != "" {
			miss(field, field+": "+why)
			continue
		}
		ids = append(ids, more...)
	}
	switch {
	case complete && len(ids) > 0:
		want(i.r, pathSecurityGroups, providers.Set(ids...), providers.InPlace)
	case len(ids) > 0:
		wantMatch(i.r, pathSecurityGroups, providers.Set(ids...), providers.Contains, providers.InPlace)
	}
}

// coreGroups gives the groups of the machine's roles. In a cluster whose
// infrastructure someone else manages there are none.
func (i *instanceWants) coreGroups() (ids []string, why string) {
	c := i.cluster
	switch {
	case c.external:
		return nil, ""
	case c.spec == nil:
		return nil, "groups of the machine's roles: " + c.noSpec
	}
	roles := []infrav1.SecurityGroupRole{infrav1.SecurityGroupNode, infrav1.SecurityGroupLB}
	if i.owner.ControlPlane {
		roles = append(roles, infrav1.SecurityGroupControlPlane)
	}
	for _, role := range roles {
		id, reason := i.m.Spec.SecurityGroupOverrides[role], ""
		if id == "" {
			id, reason = c.group(role)
		}
		if id == "" {
			why = reason
			continue
		}
		ids = append(ids, id)
	}
	return ids, why
}

// additionalGroups resolves one reference. EC2 attaches groups of the
// interface's own VPC only, so a group of the same name in another VPC is
// never meant.
func (i *instanceWants) additionalGroups(ref *infrav1.AWSResourceReference) (ids []string, why string) {
	switch {
	case ref.ID != nil && *ref.ID != "":
		return []string{*ref.ID}, ""
	case len(ref.Filters) == 0:
		return nil, "neither an id nor filters are given"
	}
	found, why := lookup(i.cluster.snap, providers.KindSecurityGroup, ref.Filters)
	if why != "" {
		return nil, why
	}
	vpc := first(textOf(i.seen, pathVPCID), i.cluster.vpcID)
	vpcs := map[string]bool{}
	for _, g := range found {
		in := textOf(g, pathVPCID)
		vpcs[in] = true
		if vpc == "" || in == vpc {
			ids = append(ids, g.ID.Name)
		}
	}
	switch {
	case len(found) == 0:
		return nil, "no security group matches " + filterWords(ref.Filters)
	case vpc == "" && len(vpcs) > 1:
		return nil, fmt.Sprintf("security groups in %d VPCs match %s, and the machine's VPC is not known", len(vpcs), filterWords(ref.Filters))
	case len(ids) == 0:
		return nil, fmt.Sprintf("the security groups that match %s are in another VPC than the machine's %s", filterWords(ref.Filters), vpc)
	}
	return ids, ""
}
