package aws

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/providers"
)

// apiCall is a call that CloudTrail recorded (AWS CloudTrail user guide,
// "CloudTrail record contents").
func apiCall(detail object, n *notice) (EventOutcome, error) {
	action := detail.text("eventName")
	if action == "" {
		return "", errors.New("it has no eventName")
	}
	switch {
	case reads(action) || isTrue(detail["readOnly"]):
		return EventRead, nil
	case detail.text("errorCode") != "" || detail.text("errorMessage") != "":
		return EventFailed, nil
	}
	n.at(detail.text("eventTime"))
	if region := detail.text("awsRegion"); region != "" {
		n.region = region
	}
	n.event.What = action
	n.event.By, n.principal = whoDid(detail.object("userIdentity"))
	n.agent = detail.text("userAgent")
	request, err := leavesOf(detail["requestParameters"])
	if err != nil {
		return "", err
	}
	response, err := leavesOf(detail["responseElements"])
	if err != nil {
		return "", err
	}
	switch detail.text("eventSource") {
	case "ec2.amazonaws.com":
		n.changed(action, request, response)
	case "elasticloadbalancing.amazonaws.com":
		n.balanced(request, response)
	default:
		return EventNothing, nil
	}
	if len(n.event.IDs) == 0 && len(n.groups) == 0 && !n.event.Gap {
		return EventNothing, nil
	}
	return EventTold, nil
}

// reads reports whether an action only reads, by its name.
func reads(action string) bool {
	for _, verb := range []string{"Describe", "Get", "List", "Search"} {
		if strings.HasPrefix(action, verb) {
			return true
		}
	}
	return false
}

func isTrue(raw json.RawMessage) bool {
	s := string(raw)
	return s == "true" || s == `"true"`
}

// shape says where the record of one action names what it changed. A record
// also names what the action only refers to: the subnet of a launch, the
// gateway of a route. Telling of those would name a person as the one who
// changed them.
type shape struct {
	// request and response are paths to ids. Where neither has a text, the
	// record does not say what was changed.
	request, response []string
	// nameless actions name what they change by an id that no read takes: an
	// association's.
	nameless bool
	// nothing is compared of what the action changes.
	nothing bool
}

// Paths, as leavesOf spells them.
var (
	byGroup     = shape{request: []string{"groupid"}, response: []string{"securitygroupruleset.groupid"}}
	byTable     = shape{request: []string{"routetableid"}}
	byACL       = shape{request: []string{"networkaclid"}}
	byGateway   = shape{request: []string{"internetgatewayid"}}
	byResources = shape{request: []string{"resourcesset.resourceid", "resourceid"}}
	byProfile   = shape{request: []string{"instanceid"}, response: []string{"iaminstanceprofileassociation.instanceid"}}
	byVolume    = shape{request: []string{"volumeid", "instanceid"}, response: []string{"instanceid"}}
	byInterface = shape{request: []string{"networkinterfaceid"}}
	nameless    = shape{nameless: true}
	addressOnly = shape{nothing: true}
)

// shapes are the EC2 actions that the general rule (see changed) would read
// wrongly. EC2 API reference: the parameters of each.
var shapes = map[string]shape{
	"RunInstances":                         {response: []string{"instancesset.instanceid"}},
	"CreateReplaceRootVolumeTask":          {request: []string{"instanceid"}},
	"CreateTags":                           byResources,
	"DeleteTags":                           byResources,
	"AuthorizeSecurityGroupIngress":        byGroup,
	"AuthorizeSecurityGroupEgress":         byGroup,
	"RevokeSecurityGroupIngress":           byGroup,
	"RevokeSecurityGroupEgress":            byGroup,
	"ModifySecurityGroupRules":             byGroup,
	"CreateRoute":                          byTable,
	"ReplaceRoute":                         byTable,
	"DeleteRoute":                          byTable,
	"ReplaceRouteTableAssociation":         nameless,
	"DisassociateRouteTable":               nameless,
	"CreateNetworkAclEntry":                byACL,
	"ReplaceNetworkAclEntry":               byACL,
	"DeleteNetworkAclEntry":                byACL,
	"ReplaceNetworkAclAssociation":         nameless,
	"DisassociateVpcCidrBlock":             nameless,
	"DisassociateSubnetCidrBlock":          nameless,
	"DisassociateAddress":                  nameless,
	"AttachInternetGateway":                byGateway,
	"DetachInternetGateway":                byGateway,
	"AssociateIamInstanceProfile":          byProfile,
	"DisassociateIamInstanceProfile":       byProfile,
	"ReplaceIamInstanceProfileAssociation": byProfile,
	"AttachVolume":                         byVolume,
	"DetachVolume":                         byVolume,
	"ModifyVolume":                         {request: []string{"volumeid"}},
	"AttachNetworkInterface":               byInterface,
	"ModifyNetworkInterfaceAttribute":      byInterface,
	// CNI plugins do these all day, with interfaces that nobody declared.
	"AssignPrivateIpAddresses":   addressOnly,
	"UnassignPrivateIpAddresses": addressOnly,
	"AssignIpv6Addresses":        addressOnly,
	"UnassignIpv6Addresses":      addressOnly,
	"DetachNetworkInterface":     addressOnly,
}

// changed takes the ids of an EC2 action. What has no shape of its own is read
// by a general rule, so that actions which AWS adds are understood too: what is
// made is in the response under the noun's own id, and anything else is named
// by the request's own ids, or by those in its lists where it has none.
func (n *notice) changed(action string, request, response []leaf) {
	s, known := shapes[action]
	noun, makes := strings.CutPrefix(action, "Create")
	switch {
	case s.nothing:
	case s.nameless:
		n.event.Gap = true
	case known:
		asked, answered := n.take(request, s.request...), n.take(response, s.response...)
		n.event.Gap = !asked && !answered
	case makes:
		id := strings.ToLower(noun) + "id"
		n.take(response, id, strings.ToLower(noun)+"."+id, "groupid")
	default:
		n.takeAll(request, 1)
		if len(n.event.IDs) == 0 {
			n.takeAll(request, 2)
		}
	}
}

// take adds the ids at the paths, and reports whether anything was there.
func (n *notice) take(leaves []leaf, paths ...string) bool {
	there := false
	for _, l := range leaves {
		if !slices.Contains(paths, l.path) {
			continue
		}
		there = true
		n.add(l.value)
	}
	return there
}

// takeAll adds every id at a depth.
func (n *notice) takeAll(leaves []leaf, depth int) {
	for _, l := range leaves {
		if strings.Count(l.path, ".") == depth-1 {
			n.add(l.value)
		}
	}
}

func (n *notice) add(value string) {
	if id, ok := idOf(value); ok {
		n.event.IDs = append(n.event.IDs, id)
	}
}

// balanced takes the ids of a call of Elastic Load Balancing, of either
// version: ARNs anywhere but in the actions and conditions of listeners,
// classic names, and instances.
func (n *notice) balanced(request, response []leaf) {
	for _, l := range slices.Concat(request, response) {
		switch l.path {
		case "loadbalancerarn", "listenerarn", "rulearn", "targetgrouparn", "resourcearns",
			"loadbalancers.loadbalancerarn", "listeners.listenerarn", "rules.rulearn":
			n.addARN(l.value)
		case "loadbalancername", "loadbalancernames":
			if classicName.MatchString(l.value) {
				n.event.IDs = append(n.event.IDs, providers.ID{Kind: providers.KindLoadBalancer, Name: classicPrefix + l.value})
			}
		case "targets.id", "instances.instanceid":
			n.add(l.value)
		}
	}
}

var (
	// Names of load balancers (Elastic Load Balancing API, CreateLoadBalancer).
	classicName = regexp.MustCompile(`^[A-Za-z0-9-]{1,32}$`)
	// ARNs of load balancers and what belongs to them (Service authorization
	// reference, "Elastic Load Balancing V2", resource types).
	balancerARN = regexp.MustCompile(`^(arn:aws[a-z-]*:elasticloadbalancing:[a-z0-9-]+:[0-9]{12}:)(loadbalancer|listener|listener-rule)/((?:app|net|gwy)/[A-Za-z0-9-]{1,32}/[0-9a-f]{1,32})((?:/[0-9a-f]{1,32})*)$`)
	groupARN    = regexp.MustCompile(`^arn:aws[a-z-]*:elasticloadbalancing:[a-z0-9-]+:[0-9]{12}:targetgroup/([A-Za-z0-9-]{1,32})/[0-9a-f]{1,32}$`)
)

// addARN adds the load balancer that an ARN belongs to: a listener's holds its
// load balancer's.
func (n *notice) addARN(arn string) {
	if m := balancerARN.FindStringSubmatch(arn); m != nil {
		n.event.IDs = append(n.event.IDs, providers.ID{Kind: providers.KindLoadBalancer, Name: m[1] + "loadbalancer/" + m[3]})
	}
	if m := groupARN.FindStringSubmatch(arn); m != nil {
		n.groups = append(n.groups, m[1])
	}
}

// resourceID is the form of EC2's ids: a prefix for the type and 8 or 17
// hexadecimal digits (EC2 user guide, "Resource IDs").
var resourceID = regexp.MustCompile(`^([a-z]+)-[0-9a-f]{8,17}$`)

var idKinds = map[string]string{
	"i": providers.KindInstance, "vol": providers.KindVolume, "eni": providers.KindNetworkInterface,
	"sg": providers.KindSecurityGroup, "vpc": providers.KindVPC, "subnet": providers.KindSubnet,
	"igw": providers.KindInternetGateway, "eigw": providers.KindInternetGateway, "nat": providers.KindNATGateway,
	"rtb": providers.KindRouteTable, "acl": providers.KindNetworkACL,
}

// idOf tells the kind of an EC2 id. What it refuses never gets into a call.
func idOf(s string) (providers.ID, bool) {
	if len(s) > 32 {
		return providers.ID{}, false
	}
	m := resourceID.FindStringSubmatch(s)
	if m == nil || idKinds[m[1]] == "" {
		return providers.ID{}, false
	}
	return providers.ID{Kind: idKinds[m[1]], Name: s}, true
}
