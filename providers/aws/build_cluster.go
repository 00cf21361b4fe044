package aws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

func init() {
	creators[providers.KindVPC] = (*building).createVPC
	creators[providers.KindSubnet] = (*building).createSubnet
	creators[providers.KindInternetGateway] = (*building).createGateway
	creators[providers.KindNATGateway] = (*building).createNAT
	creators[providers.KindRouteTable] = (*building).createTable
	creators[providers.KindSecurityGroup] = (*building).createGroup
	creators[providers.KindLoadBalancer] = (*building).createBalancer

	removers[providers.KindVPC] = (*building).removeVPC
	removers[providers.KindSubnet] = (*building).removeSubnet
	removers[providers.KindInternetGateway] = (*building).removeGateway
	removers[providers.KindNATGateway] = (*building).removeNAT
	removers[providers.KindRouteTable] = (*building).removeTable
	removers[providers.KindSecurityGroup] = (*building).removeGroup
	removers[providers.KindLoadBalancer] = (*building).removeBalancer
}

// madeForTag tells several of a kind that are made for one owner apart, where
// nothing else does: it has the creation's token.
const madeForTag = "drift.holdfast.io/made-for"

// uid is what the owner tag of the owner's resources has.
func (b *building) uid() string { return string(b.owner.Infra.GetUID()) }

// view is what the owner says without any snapshot.
func (b *building) view() *clusterView { return recordView(b.owner) }

// recordView is what an owner records. Views of it can be made without a read.
func recordView(owner *providers.Owner) *clusterView {
	c := newClusterView(owner, &providers.Snapshot{}, true)
	if c.spec != nil {
		c.resolveSubnets()
	}
	return c
}

// tagsOfWant gives the planned tags with the owner's mark.
func (b *building) tagsOfWant(want *providers.Resource) map[string]string {
	out := map[string]string{ownerTag: b.uid()}
	for path, f := range want.Fields.All() {
		if within(path, "/tags") {
			out[lastSegment(path)] = f.Value.Text()
		}
	}
	return out
}

// tagSpec gives tags in EC2's words, in order.
func tagSpec(kind ec2types.ResourceType, tags map[string]string) []ec2types.TagSpecification {
	spec := ec2types.TagSpecification{ResourceType: kind}
	for _, key := range sorted(tags) {
		spec.Tags = append(spec.Tags, ec2types.Tag{Key: ptr(key), Value: ptr(tags[key])})
	}
	return []ec2types.TagSpecification{spec}
}

// where makes filters of names and values.
func where(pairs ...string) (out []ec2types.Filter) {
	for pair := range slices.Chunk(pairs, 2) {
		out = append(out, ec2types.Filter{Name: &pair[0], Values: pair[1:]})
	}
	return out
}

// once keeps the SDK from sending a call again whose answer was lost: EC2 would
// make a second resource. A throttled call was not made.
func once(o *ec2.Options) {
	o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxAttempts
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		o.Retryables = []retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			return aws.BoolTernary(isThrottle(err))
		})}
	})
}

// lookPause and lookTimes bound how long is looked for what was perhaps made.
const (
	lookPause = 2 * time.Second
	lookTimes = 5
)

// makeOnce makes what EC2 knows no token for: find finds what an earlier call
// made. Where the answer of make is lost it is looked for a while, since EC2
// shows what is new to some before others (EC2 API developer guide, "Eventual
// consistency"), and whoever tries again at once would make another one.
func (b *building) makeOnce(ctx context.Context, find, create func() (string, error)) (string, error) {
	id, err := find()
	if err != nil || id != "" {
		return id, err
	}
	id, err = create()
	if err == nil || apiCode(err) != "" {
		return id, err
	}
	for range lookTimes {
		timer := b.clock.NewTimer(lookPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return "", err
		case <-timer.C():
		}
		if id, again := find(); again == nil && id != "" {
			return id, nil
		}
	}
	return "", err
}

// buildHints say what to do about what EC2 and Elastic Load Balancing refuse.
var buildHints = map[string]string{
	"VpcLimitExceeded":                "the region has as many VPCs as the account may have: delete one, raise the quota \"VPCs per Region\", or name a VPC in spec.network.vpc.id",
	"AddressLimitExceeded":            "each zone with private subnets needs an Elastic IP for its NAT gateway: release some, raise the quota \"EC2-VPC Elastic IPs\", or lower spec.network.vpc.availabilityZoneUsageLimit",
	"NatGatewayLimitExceeded":         "raise the quota \"NAT gateways per Availability Zone\", or lower spec.network.vpc.availabilityZoneUsageLimit",
	"InternetGatewayLimitExceeded":    "raise the quota \"Internet gateways per Region\"",
	"SubnetLimitExceeded":             "raise the quota \"Subnets per VPC\"",
	"RouteTableLimitExceeded":         "raise the quota \"Route tables per VPC\"",
	"SecurityGroupLimitExceeded":      "raise the quota \"VPC security groups per Region\"",
	"InvalidSubnet.Conflict":          "another subnet of the VPC has some of these addresses: choose others in spec.network.subnets[].cidrBlock",
	"InvalidSubnet.Range":             "spec.network.subnets[].cidrBlock has to be within the VPC's blocks, and between /16 and /28",
	"InvalidVpc.Range":                "spec.network.vpc.cidrBlock has to be between /16 and /28",
	"UnauthorizedOperation":           "the identity lacks the permission: docs/permissions-aws-build.json has all that building needs",
	"AccessDenied":                    "the identity lacks the permission: docs/permissions-aws-build.json has all that building needs",
	"AccessDeniedException":           "the identity lacks the permission: docs/permissions-aws-build.json has all that building needs",
	"TooManyAccessPoints":             "raise the quota \"Classic Load Balancers per Region\"",
	"TooManyLoadBalancers":            "raise the quota of load balancers per Region",
	"TooManyTargetGroups":             "raise the quota \"Target Groups per Region\"",
	"TooManyListeners":                "raise the quota of listeners of a load balancer",
	"TooManyRegistrationsForTargetId": "raise the quota of registrations of one target",
}

// buildError sorts what AWS said to a call that makes or unmakes something, with
// what to do about it. What the call refers to was seen: that AWS says it is not
// there is of those that do not know of it yet (EC2 API developer guide,
// "Eventual consistency").
func buildError(err error, what string) error {
	if err == nil {
		return nil
	}
	code := apiCode(err)
	if isNotFound(err) || code == "SubnetNotFound" || code == "InvalidSecurityGroup" || code == "ResourceInUse" {
		return &answer{what, code, err}
	}
	err = applyError(err, what)
	hint := buildHints[code]
	refusal := (*providers.ApplyError)(nil)
	switch {
	case hint == "":
		return err
	case errors.As(err, &refusal):
		return &providers.ApplyError{Reason: refusal.Reason, Err: withHint(refusal.Err, hint)}
	default:
		return withHint(err, hint)
	}
}

// foreign refuses what belongs to another cluster.
func foreign(format string, args ...any) error {
	err := refused(format, args...)
	return &providers.ApplyError{Reason: providers.ReasonForeign, Err: errors.Unwrap(err)}
}

// whose says to whom a resource belongs by its tags, for people.
func whose(tags map[string]string) string {
	var clusters []string
	for _, key := range sorted(tags) {
		if name := owningCluster(key, tags[key]); name != "" && !strings.Contains(strings.Join(clusters, ","), name) {
			clusters = append(clusters, name)
		}
	}
	switch uid := tags[ownerTag]; {
	case len(clusters) > 0 && uid != "":
		return "a cluster " + strings.Join(clusters, ", ") + " whose object has the UID " + uid
	case len(clusters) > 0:
		return "a cluster " + strings.Join(clusters, ", ")
	default:
		return "no cluster by its tags"
	}
}

func ec2TagMap(tags []ec2types.Tag) map[string]string {
	out := make(map[string]string, len(tags))
	for i := range tags {
		out[deref(tags[i].Key)] = deref(tags[i].Value)
	}
	return out
}

// mineInVPC reports what was made for the owner, or for its cluster when its
// objects lived elsewhere and had other UIDs. In a VPC of the cluster's own that
// is what CAPA made too, and what was made for the same object as the VPC; in one
// that was brought, for the same object as the endpoint's load balancer.
func (b *building) mineInVPC(ctx context.Context, tags map[string]string, vpc string) (bool, error) {
	c := b.view()
	switch uid := tags[ownerTag]; {
	case uid == b.uid():
		return true, nil
	case c.vpc().ID == "" || c.vpc().ID != vpc || tags[infrav1.ClusterTagKey(c.name)] != string(infrav1.ResourceLifecycleOwned):
		return false, nil
	case !c.managed:
		maker, err := b.endpointMaker(ctx, c)
		return err == nil && uid != "" && maker == uid, err
	case uid == "":
		return true, nil
	default:
		now, err := b.vpcTags(ctx, vpc)
		return err == nil && now[ownerTag] == uid, err
	}
}

// endpointMaker gives the owner tag of the load balancer whose address is the
// cluster's endpoint; empty if there is none.
func (b *building) endpointMaker(ctx context.Context, c *clusterView) (string, error) {
	host := c.spec.Spec.ControlPlaneEndpoint.Host
	for _, lb := range c.loadBalancers() {
		if host == "" {
			break
		}
		dns, tags, err := b.balancerNamed(ctx, &lb)
		if err != nil {
			return "", err
		}
		if dns == host {
			return tags[ownerTag], nil
		}
	}
	return "", nil
}

func (b *building) vpcTags(ctx context.Context, id string) (map[string]string, error) {
	out, err := b.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{id}})
	if err != nil {
		return nil, buildError(err, "read "+id)
	}
	for i := range out.Vpcs {
		if deref(out.Vpcs[i].VpcId) == id {
			return ec2TagMap(out.Vpcs[i].Tags), nil
		}
	}
	return nil, moved("%s does not exist any more", id)
}

// lasting reports an error that does not pass by itself.
func lasting(err error) bool {
	var refusal *providers.ApplyError
	return errors.As(err, &refusal)
}
