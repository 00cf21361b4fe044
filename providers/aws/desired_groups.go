package aws

import (
	"fmt"
	"slices"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// groupRoles are the security groups that CAPA makes for a cluster.
func (c *clusterView) groupRoles() []infrav1.SecurityGroupRole {
	roles := []infrav1.SecurityGroupRole{
		infrav1.SecurityGroupAPIServerLB, infrav1.SecurityGroupLB,
		infrav1.SecurityGroupControlPlane, infrav1.SecurityGroupNode,
	}
	if c.spec.Spec.Bastion.Enabled {
		roles = append(roles, infrav1.SecurityGroupBastion)
	}
	return roles
}

// groupWants adds the cluster's security groups. Egress is wanted nowhere but
// on the VPC's default group: an AWSCluster cannot declare it otherwise, and
// EC2's allow-all is no drift.
func (w *wants) groupWants() {
	c := w.cluster
	overridden := map[string]bool{}
	for _, role := range c.groupRoles() {
		id, why := c.group(role)
		switch override := c.spec.Spec.NetworkSpec.SecurityGroupOverrides[role]; {
		case override != "" && overridden[override]:
		case override != "":
			// Another team's group: it must be there, and is not ours to judge.
			overridden[override] = true
			w.add(w.made(providers.KindSecurityGroup, override, string(role), infrav1.ClusterSecurityGroupsReadyCondition))
		case id == "":
			w.unrecorded(providers.KindSecurityGroup, c.groupName(role), why)
		default:
			w.managedGroup(role, id)
		}
	}
	w.defaultGroup()
}

func (w *wants) managedGroup(role infrav1.SecurityGroupRole, id string) {
	c := w.cluster
	name := c.groupName(role)
	r := w.made(providers.KindSecurityGroup, id, name, infrav1.ClusterSecurityGroupsReadyCondition)
	r.Needs = w.needs(providers.KindVPC, c.vpcID)
	wantString(&r, pathVPCID, c.vpcID, providers.Immutable)
	wantTags(&r, c.name, c.groupTags(role, name))
	rules := c.rules(role)
	match := providers.Exactly
	if role == infrav1.SecurityGroupLB || len(rules.problems) > 0 {
		// The lb group is handed to the cloud controller manager, which adds
		// rules for Services. And where a rule is not known, what is there
		// may be it.
		match = providers.Contains
	}
	if words := providers.Set(rules.words...); words.Provisional() {
		match = providers.Contains // what is there may be what is not known yet
	}
	if match == providers.Exactly || len(rules.words) > 0 {
		wantMatch(&r, pathIngress, providers.Set(rules.words...), match, providers.InPlace)
	}
	r.Warnings = rules.warnings
	if why := rules.problemWords(); why != "" {
		w.unchecked(providers.KindSecurityGroup, name+" rules", why)
	}
	w.add(r)
}

// groupTags keep the cloud provider's tag on the lb group alone: with two
// tagged groups on an instance, the cloud provider cannot choose.
func (c *clusterView) groupTags(role infrav1.SecurityGroupRole, name string) infrav1.Tags {
	var more infrav1.Tags
	if role == infrav1.SecurityGroupLB {
		more = c.cloudProviderTag()
	}
	tags := c.clusterTags(name, string(role), more)
	if role != infrav1.SecurityGroupLB {
		delete(tags, infrav1.ClusterAWSCloudProviderTagKey(c.name))
	}
	return tags
}

// defaultGroup wants the VPC's default group without rules where the spec says
// so (vpc.emptyRoutesDefaultVPCSecurityGroup).
func (w *wants) defaultGroup() {
	c := w.cluster
	if !c.managed || !c.vpc().EmptyRoutesDefaultVPCSecurityGroup {
		return
	}
	const name = "default"
	groups := ofKind(c.snap, providers.KindSecurityGroup)
	at := slices.IndexFunc(groups, c.inVPC(name))
	if at < 0 && c.plan {
		// EC2 makes it with the VPC, and the next read shows it.
		w.add(providers.Resource{ID: providers.Provisional(providers.KindSecurityGroup, whatDefaultGroup), Name: whatDefaultGroup, Unsettled: true})
		return
	}
	if at < 0 {
		w.unrecorded(providers.KindSecurityGroup, name, fmt.Sprintf("the default group of VPC %q was not seen", c.vpcID))
		return
	}
	r := w.made(providers.KindSecurityGroup, groups[at].ID.Name, name, infrav1.ClusterSecurityGroupsReadyCondition)
	want(&r, pathIngress, providers.Set(), providers.InPlace)
	want(&r, pathEgress, providers.Set(), providers.InPlace)
	w.add(r)
}
