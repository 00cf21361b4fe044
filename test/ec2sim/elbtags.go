package ec2sim

import "slices"

// elbTags are the tags of a load balancer's resources, by key.
func elbTags(m *meta, c *call) []Tag { return m.TagSet.visible(c.now) }

// maxTagged is how many resources one DescribeTags names at most (both ELB
// API references).
const maxTagged = 20

func checkTagged(names []string) *apiError {
	if len(names) == 0 || len(names) > maxTagged {
		return failf("ValidationError", "%d resources are named; expecting 1 to %d", len(names), maxTagged)
	}
	return nil
}

// retagAll adds and removes tags of load balancer resources.
func (c *call) retagAll(found []*meta, add []Tag, remove []string) *apiError {
	if err := checkTags(add); err != nil {
		return failf("ValidationError", "%s", err.Message)
	}
	for _, m := range found {
		tags := slices.DeleteFunc(slices.Clone(m.TagSet.now), func(old Tag) bool {
			return slices.Contains(remove, old.Key) || slices.ContainsFunc(add, func(t Tag) bool { return t.Key == old.Key })
		})
		if tags = append(tags, add...); len(tags) > 50 {
			return failf("TooManyTags", "The quota for the number of tags that can be assigned to a load balancer has been reached")
		}
		m.TagSet.set(tags, c.now, c.srv.options.Consistency.TagsFor)
	}
	return nil
}

// marker is how the ELB APIs page: 400 entries unless fewer are asked for.
type marker struct {
	Marker   string
	PageSize *int
}

func listMarked[T resource](c *call, t *table[T], keep func(T) bool, p marker) ([]T, string, *apiError) {
	most := 400
	if p.PageSize != nil {
		most = *p.PageSize
		if most < 1 || most > 400 {
			return nil, "", failf("ValidationError", "The page size %d is not valid; expecting 1 to 400", most)
		}
	}
	return pageFrom(c, t, keep, p.Marker, most)
}

// balancerUses tells that any load balancer uses a subnet or security group.
func (c *call) balancerUses(id string) bool {
	return c.classic.any(func(b *classicBalancer) bool {
		return slices.Contains(b.Subnets, id) || slices.Contains(b.SecurityGroups, id)
	}) || c.balancers.any(func(b *balancer) bool {
		return slices.Contains(b.SecurityGroups, id) ||
			slices.ContainsFunc(b.AvailabilityZones, func(z balancerZone) bool { return z.SubnetID == id })
	})
}

// placeBalancer finds the subnets and groups of a load balancer; all are in
// one VPC.
func (c *call) placeBalancer(subnetIDs, groupIDs []string) ([]*subnet, *apiError) {
	var subnets []*subnet
	for _, id := range subnetIDs {
		s, known := c.subnets.byID[id]
		if !known {
			return nil, failf("SubnetNotFound", "The subnet ID '%s' does not exist", id)
		}
		if len(subnets) > 0 && s.VPCID != subnets[0].VPCID {
			return nil, failf("InvalidConfigurationRequest", "The subnets are of different VPCs")
		}
		subnets = append(subnets, s)
	}
	for _, id := range groupIDs {
		g, known := c.groups.byID[id]
		if !known || len(subnets) > 0 && g.VPCID != subnets[0].VPCID {
			return nil, failf("InvalidSecurityGroup", "One or more security groups are invalid: %s", id)
		}
	}
	return subnets, nil
}
