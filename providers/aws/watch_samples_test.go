package aws

import (
	"encoding/json"
	"fmt"
	"testing"
)

// sample is one message with what it is to be understood as. The records have
// the forms of the examples in the user guides of CloudTrail, EC2, Elastic Load
// Balancing and AWS Health; ids and accounts are made up.
type sample struct {
	source, detailType, detail string
	ids                        []string
	what, by                   string
	gap                        bool
	groups                     []string
	outcome                    EventOutcome // EventTold where it is empty
}

func (s sample) want() EventOutcome {
	if s.outcome == "" {
		return EventTold
	}
	return s.outcome
}

// body is the event as EventBridge hands it to a queue.
func (s sample) body(t testing.TB) string {
	t.Helper()
	if !json.Valid([]byte(s.detail)) {
		t.Fatalf("the sample's detail is no JSON: %s", s.detail)
	}
	return fmt.Sprintf(`{"version":"0","id":"6f87d04b-9f74-4f04-a780-7acf4b0a9b38","detail-type":%q,"source":%q,"account":"123456789012","time":"2026-11-30T10:00:00Z","region":"eu-central-1","resources":[],"detail":%s}`, s.detailType, s.source, s.detail)
}

const (
	alice   = `{"type":"AssumedRole","principalId":"AROAEXAMPLE:alice","arn":"arn:aws:sts::123456789012:assumed-role/Admin/alice","accountId":"123456789012","sessionContext":{"sessionIssuer":{"type":"Role","arn":"arn:aws:iam::123456789012:role/Admin","userName":"Admin"}}}`
	byAlice = "arn:aws:sts::123456789012:assumed-role/Admin/alice"

	i1, i2 = "i-0123456789abcdef0", "i-0123456789abcdef1"
	nlb    = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/c1-apiserver/50dc6c495c0c9188"
	nlbLis = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:listener/net/c1-apiserver/50dc6c495c0c9188/0467ef3c8400ae65"
	nlbTG  = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/apiserver-target/73e2d6bc24d8a067"
)

// call makes a CloudTrail sample by alice.
func call(service, action, request, response string, ids ...string) sample {
	return callBy(alice, service, action, request, response, byAlice, ids...)
}

func callBy(identity, service, action, request, response, by string, ids ...string) sample {
	detail := fmt.Sprintf(`{"eventVersion":"1.11","userIdentity":%s,"eventTime":"2026-11-30T09:58:00Z","eventSource":"%s.amazonaws.com","eventName":%q,"awsRegion":"eu-central-1","sourceIPAddress":"192.0.2.1","userAgent":"aws-cli/2.31","requestParameters":%s,"responseElements":%s,"requestID":"r","eventID":"e","readOnly":false,"eventType":"AwsApiCall","managementEvent":true,"recipientAccountId":"123456789012"}`, identity, service, action, request, response)
	return sample{source: "aws." + service, detailType: detailAPICall, detail: detail, ids: ids, what: action, by: by}
}

func noticeOf(detailType, detail, what string, ids ...string) sample {
	return sample{source: sourceEC2, detailType: detailType, detail: detail, what: what, ids: ids}
}

func (s sample) but(mod func(*sample)) sample { mod(&s); return s }

func withGap(s *sample)      { s.gap = true }
func aboutNothing(s *sample) { s.outcome, s.ids, s.what, s.by = EventNothing, nil, "", "" }

// samples are what a queue may bring, by a name.
func samples() map[string]sample {
	const ec2, elb = "ec2", "elasticloadbalancing"
	out := map[string]sample{
		"state change":      noticeOf("EC2 Instance State-change Notification", `{"instance-id":"`+i1+`","state":"stopped"}`, "instance stopped", "Instance/"+i1),
		"spot interruption": noticeOf("EC2 Spot Instance Interruption Warning", `{"instance-id":"`+i1+`","instance-action":"terminate"}`, "spot interruption: terminate", "Instance/"+i1),
		"rebalance":         noticeOf("EC2 Instance Rebalance Recommendation", `{"instance-id":"`+i1+`"}`, "rebalance recommendation", "Instance/"+i1),
		"retirement": {source: sourceHealth, detailType: "AWS Health Event", what: "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED", ids: []string{"Instance/" + i1, "Instance/" + i2},
			detail: `{"eventArn":"arn:aws:health:eu-central-1::event/EC2/X/1","service":"EC2","eventTypeCode":"AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED","eventTypeCategory":"scheduledChange","affectedAccount":"123456789012","eventRegion":"eu-central-1","affectedEntities":[{"entityValue":"` + i1 + `","status":"PENDING"},{"entityValue":"` + i2 + `"}]}`},
		"health of a database": {source: sourceHealth, detailType: "AWS Health Event", outcome: EventNothing, detail: `{"service":"RDS","eventTypeCode":"AWS_RDS_X","affectedEntities":[{"entityValue":"db-1"}]}`},

		"launch": call(ec2, "RunInstances",
			`{"instancesSet":{"items":[{"imageId":"ami-0123456789abcdef0","minCount":1,"maxCount":2}]},"groupSet":{"items":[{"groupId":"sg-0123456789abcdef0"}]},"subnetId":"subnet-0123456789abcdef0","instanceType":"m5.large"}`,
			`{"reservationId":"r-0123456789abcdef0","ownerId":"123456789012","groupSet":{},"instancesSet":{"items":[{"instanceId":"`+i1+`","vpcId":"vpc-0123456789abcdef0","subnetId":"subnet-0123456789abcdef0","groupSet":{"items":[{"groupId":"sg-0123456789abcdef0"}]},"networkInterfaceSet":{"items":[{"networkInterfaceId":"eni-0123456789abcdef0"}]}},{"instanceId":"`+i2+`"}]}}`,
			"Instance/"+i1, "Instance/"+i2),
		"stop": call(ec2, "StopInstances", `{"instancesSet":{"items":[{"instanceId":"`+i1+`"}]},"force":false}`,
			`{"instancesSet":{"items":[{"instanceId":"`+i1+`","currentState":{"code":64,"name":"stopping"}}]}}`, "Instance/"+i1),
		"terminate several":     call(ec2, "TerminateInstances", `{"instancesSet":{"items":[{"instanceId":"`+i1+`"},{"instanceId":"`+i2+`"},{"instanceId":"`+i1+`"}]}}`, `null`, "Instance/"+i1, "Instance/"+i2),
		"groups of an instance": call(ec2, "ModifyInstanceAttribute", `{"instanceId":"`+i1+`","groupSet":{"items":[{"groupId":"sg-0123456789abcdef0"}]}}`, `{"requestId":"r","_return":true}`, "Instance/"+i1),
		"metadata options":      call(ec2, "ModifyInstanceMetadataOptions", `{"ModifyInstanceMetadataOptionsRequest":{"HttpTokens":"optional","InstanceId":"`+i1+`"}}`, `{"ModifyInstanceMetadataOptionsResponse":{"xmlns":"http://ec2.amazonaws.com/doc/2016-11-15/","instanceId":"`+i1+`"}}`, "Instance/"+i1),
		"tags": call(ec2, "CreateTags", `{"resourcesSet":{"items":[{"resourceId":"`+i1+`"},{"resourceId":"subnet-0123456789abcdef0"},{"resourceId":"snap-0123456789abcdef0"}]},"tagSet":{"items":[{"key":"peer","value":"vpc-0123456789abcdef9"}]}}`, `{"_return":true}`,
			"Instance/"+i1, "Subnet/subnet-0123456789abcdef0"),
		"untag a snapshot": call(ec2, "DeleteTags", `{"resourcesSet":{"items":[{"resourceId":"snap-0123456789abcdef0"}]},"tagSet":{"items":[{"key":"a"}]}}`, `{"_return":true}`).but(aboutNothing),
		"a rule": call(ec2, "AuthorizeSecurityGroupIngress", `{"groupId":"sg-0123456789abcdef0","ipPermissions":{"items":[{"ipProtocol":"tcp","fromPort":22,"toPort":22,"groups":{"items":[{"groupId":"sg-0123456789abcdef9"}]},"ipRanges":{"items":[{"cidrIp":"0.0.0.0/0"}]}}]}}`,
			`{"_return":true,"securityGroupRuleSet":{"items":[{"groupId":"sg-0123456789abcdef0","securityGroupRuleId":"sgr-0123456789abcdef0"}]}}`, "SecurityGroup/sg-0123456789abcdef0"),
		"a rule by the group's name":  call(ec2, "AuthorizeSecurityGroupIngress", `{"groupName":"default","ipPermissions":{}}`, `{"securityGroupRuleSet":{"items":[{"groupId":"sg-0123456789abcdef0"}]}}`, "SecurityGroup/sg-0123456789abcdef0"),
		"revoked by the group's name": call(ec2, "RevokeSecurityGroupIngress", `{"groupName":"default","ipPermissions":{}}`, `{"_return":true}`).but(withGap),
		"rules changed":               call(ec2, "ModifySecurityGroupRules", `{"ModifySecurityGroupRulesRequest":{"GroupId":"sg-0123456789abcdef0","SecurityGroupRule":{"SecurityGroupRuleId":"sgr-0123456789abcdef0","tag":1,"SecurityGroupRule":{"ReferencedGroupId":"sg-0123456789abcdef9"}}}}`, `{"ModifySecurityGroupRulesResponse":{"return":true}}`, "SecurityGroup/sg-0123456789abcdef0"),
		"group made":                  call(ec2, "CreateSecurityGroup", `{"groupName":"g","groupDescription":"d","vpcId":"vpc-0123456789abcdef0"}`, `{"_return":true,"groupId":"sg-0123456789abcdef0"}`, "SecurityGroup/sg-0123456789abcdef0"),
		"group deleted":               call(ec2, "DeleteSecurityGroup", `{"groupId":"sg-0123456789abcdef0"}`, `{"_return":true}`, "SecurityGroup/sg-0123456789abcdef0"),
		"route to an instance":        call(ec2, "ReplaceRoute", `{"routeTableId":"rtb-0123456789abcdef0","destinationCidrBlock":"0.0.0.0/0","instanceId":"`+i1+`"}`, `{"_return":true}`, "RouteTable/rtb-0123456789abcdef0"),
		"route deleted":               call(ec2, "DeleteRoute", `{"routeTableId":"rtb-0123456789abcdef0","destinationCidrBlock":"0.0.0.0/0"}`, `{"_return":true}`, "RouteTable/rtb-0123456789abcdef0"),
		"table associated":            call(ec2, "AssociateRouteTable", `{"routeTableId":"rtb-0123456789abcdef0","subnetId":"subnet-0123456789abcdef0"}`, `{"associationId":"rtbassoc-0123456789abcdef0"}`, "RouteTable/rtb-0123456789abcdef0", "Subnet/subnet-0123456789abcdef0"),
		"association replaced":        call(ec2, "ReplaceRouteTableAssociation", `{"associationId":"rtbassoc-0123456789abcdef0","routeTableId":"rtb-0123456789abcdef0"}`, `{"newAssociationId":"rtbassoc-1"}`).but(withGap),
		"profile replaced":            call(ec2, "ReplaceIamInstanceProfileAssociation", `{"ReplaceIamInstanceProfileAssociationRequest":{"AssociationId":"iip-assoc-0123456789abcdef0","IamInstanceProfile":{"Name":"x"}}}`, `{"ReplaceIamInstanceProfileAssociationResponse":{"iamInstanceProfileAssociation":{"instanceId":"`+i1+`","associationId":"iip-assoc-1"}}}`, "Instance/"+i1),
		"volume grown":                call(ec2, "ModifyVolume", `{"ModifyVolumeRequest":{"VolumeId":"vol-0123456789abcdef0","Size":100}}`, `{"ModifyVolumeResponse":{"volumeModification":{"volumeId":"vol-0123456789abcdef0","targetSize":100}}}`, "Volume/vol-0123456789abcdef0"),
		"volume made":                 call(ec2, "CreateVolume", `{"size":"8","zone":"eu-central-1a","snapshotId":"snap-37beda4c"}`, `{"volumeId":"vol-97c02b3e","status":"creating"}`, "Volume/vol-97c02b3e"),
		"volume detached":             call(ec2, "DetachVolume", `{"volumeId":"vol-0123456789abcdef0"}`, `{"volumeId":"vol-0123456789abcdef0","instanceId":"`+i1+`","device":"/dev/sdf"}`, "Instance/"+i1, "Volume/vol-0123456789abcdef0"),
		"snapshot made":               call(ec2, "CreateSnapshot", `{"volumeId":"vol-0123456789abcdef0"}`, `{"snapshotId":"snap-0123456789abcdef0","volumeId":"vol-0123456789abcdef0"}`).but(aboutNothing),
		"groups of an interface":      call(ec2, "ModifyNetworkInterfaceAttribute", `{"networkInterfaceId":"eni-0123456789abcdef0","groupSet":{"items":[{"groupId":"sg-0123456789abcdef0"}]}}`, `{"_return":true}`, "NetworkInterface/eni-0123456789abcdef0"),
		"a CNI's address":             call(ec2, "AssignPrivateIpAddresses", `{"networkInterfaceId":"eni-0123456789abcdef0"}`, `{"_return":true}`).but(aboutNothing),
		"subnet made":                 call(ec2, "CreateSubnet", `{"vpcId":"vpc-0123456789abcdef0","cidrBlock":"10.0.0.0/24"}`, `{"subnet":{"subnetId":"subnet-0123456789abcdef0","vpcId":"vpc-0123456789abcdef0"}}`, "Subnet/subnet-0123456789abcdef0"),
		"public addresses":            call(ec2, "ModifySubnetAttribute", `{"subnetId":"subnet-0123456789abcdef0","mapPublicIpOnLaunch":{"value":true}}`, `{"_return":true}`, "Subnet/subnet-0123456789abcdef0"),
		"gateway attached":            call(ec2, "AttachInternetGateway", `{"internetGatewayId":"igw-0123456789abcdef0","vpcId":"vpc-0123456789abcdef0"}`, `{"_return":true}`, "InternetGateway/igw-0123456789abcdef0"),
		"NAT gateway made":            call(ec2, "CreateNatGateway", `{"CreateNatGatewayRequest":{"SubnetId":"subnet-0123456789abcdef0","AllocationId":"eipalloc-1"}}`, `{"CreateNatGatewayResponse":{"natGateway":{"natGatewayId":"nat-0123456789abcdef0","subnetId":"subnet-0123456789abcdef0"}}}`, "NATGateway/nat-0123456789abcdef0"),
		"NAT gateway deleted":         call(ec2, "DeleteNatGateway", `{"DeleteNatGatewayRequest":{"NatGatewayId":"nat-0123456789abcdef0"}}`, `{"DeleteNatGatewayResponse":{"natGatewayId":"nat-0123456789abcdef0"}}`, "NATGateway/nat-0123456789abcdef0"),
		"egress-only gateway deleted": call(ec2, "DeleteEgressOnlyInternetGateway", `{"DeleteEgressOnlyInternetGatewayRequest":{"EgressOnlyInternetGatewayId":"eigw-0123456789abcdef0"}}`, `null`, "InternetGateway/eigw-0123456789abcdef0"),
		"ACL entry":                   call(ec2, "CreateNetworkAclEntry", `{"networkAclId":"acl-0123456789abcdef0","ruleNumber":1,"cidrBlock":"0.0.0.0/0"}`, `{"_return":true}`, "NetworkACL/acl-0123456789abcdef0"),
		"DNS of a VPC":                call(ec2, "ModifyVpcAttribute", `{"vpcId":"vpc-0123456789abcdef0","enableDnsHostnames":{"value":false}}`, `{"_return":true}`, "VPC/vpc-0123456789abcdef0"),
		"an action that AWS added":    call(ec2, "ModifyInstanceNovelty", `{"ModifyInstanceNoveltyRequest":{"InstanceId":"`+i1+`","Novelty":"on"}}`, `null`, "Instance/"+i1),
		"an action on something else": call(ec2, "ModifyTransitGateway", `{"DelTGwReq":{"TransitGatewayId":"tgw-0123456789abcdef0"}}`, `null`).but(aboutNothing),

		"targets deregistered":      call(elb, "DeregisterTargets", `{"targetGroupArn":"`+nlbTG+`","targets":[{"id":"`+i1+`"}]}`, `null`, "Instance/"+i1).but(func(s *sample) { s.groups = []string{"apiserver-target"} }),
		"health check changed":      call(elb, "ModifyTargetGroup", `{"targetGroupArn":"`+nlbTG+`","healthCheckPath":"/"}`, `null`).but(func(s *sample) { s.groups = []string{"apiserver-target"} }),
		"listener deleted":          call(elb, "DeleteListener", `{"listenerArn":"`+nlbLis+`"}`, `null`, "LoadBalancer/"+nlb),
		"load balancer deleted":     call(elb, "DeleteLoadBalancer", `{"loadBalancerArn":"`+nlb+`"}`, `null`, "LoadBalancer/"+nlb),
		"load balancer tagged":      call(elb, "AddTags", `{"tags":[{"value":"Internal","key":"WAF"}],"resourceArns":["`+nlb+`"]}`, `null`, "LoadBalancer/"+nlb),
		"attributes":                call(elb, "ModifyLoadBalancerAttributes", `{"loadBalancerArn":"`+nlb+`","attributes":[{"key":"load_balancing.cross_zone.enabled","value":"false"}]}`, `null`, "LoadBalancer/"+nlb),
		"classic deregistered":      call(elb, "DeregisterInstancesFromLoadBalancer", `{"loadBalancerName":"c1-apiserver","instances":[{"instanceId":"`+i1+`"}]}`, `{"instances":[]}`, "Instance/"+i1, "LoadBalancer/classic/c1-apiserver"),
		"classic with hostile name": call(elb, "DeleteLoadBalancer", `{"loadBalancerName":"../c1 \u0007"}`, `null`).but(aboutNothing),
	}
	for name, s := range refusedSamples() {
		out[name] = s
	}
	for name, s := range callers() {
		out["by "+name] = s
	}
	return out
}

func refusedSamples() map[string]sample {
	stop := call("ec2", "StopInstances", `{"instancesSet":{"items":[{"instanceId":"`+i1+`"}]}}`, `null`)
	described := call("ec2", "DescribeInstances", `{"instancesSet":{"items":[{"instanceId":"`+i1+`"}]}}`, `null`)
	failed := stop
	failed.detail = stop.detail[:len(stop.detail)-1] + `,"errorCode":"Client.UnauthorizedOperation","errorMessage":"You are not authorized"}`
	failed.outcome, failed.what, failed.by = EventFailed, "", ""
	described.outcome, described.what, described.by = EventRead, "", ""
	return map[string]sample{
		"read":                     described,
		"refused":                  failed,
		"of another service":       {source: "aws.s3", detailType: detailAPICall, detail: `{}`, outcome: EventUnknown},
		"of a type that AWS added": {source: sourceEC2, detailType: "EC2 Novelty", detail: `{}`, outcome: EventUnknown},
	}
}

// callers are the forms of userIdentity (AWS CloudTrail user guide,
// "CloudTrail userIdentity element"), each with who it names.
func callers() map[string]sample {
	out := map[string]sample{}
	for name, c := range map[string][2]string{
		"user":                     {`{"type":"IAMUser","principalId":"AIDA","arn":"arn:aws:iam::123456789012:user/bob","accountId":"123456789012","userName":"bob"}`, "arn:aws:iam::123456789012:user/bob"},
		"root":                     {`{"type":"Root","principalId":"123456789012","arn":"arn:aws:iam::123456789012:root"}`, "arn:aws:iam::123456789012:root"},
		"service":                  {`{"type":"AWSService","invokedBy":"autoscaling.amazonaws.com"}`, "autoscaling.amazonaws.com"},
		"service-linked role":      {`{"type":"AssumedRole","arn":"arn:aws:sts::123456789012:assumed-role/AWSServiceRoleForAutoScaling/AutoScaling","invokedBy":"autoscaling.amazonaws.com"}`, "autoscaling.amazonaws.com"},
		"person through a service": {`{"type":"IAMUser","arn":"arn:aws:iam::123456789012:user/bob","invokedBy":"cloudformation.amazonaws.com"}`, "arn:aws:iam::123456789012:user/bob through cloudformation.amazonaws.com"},
		"another account":          {`{"type":"AWSAccount","principalId":"AROA:carol","accountId":"210987654321"}`, "account 210987654321, principal AROA:carol"},
		"role without ARN":         {`{"type":"AssumedRole","principalId":"AROA:dave","sessionContext":{"sessionIssuer":{"arn":"arn:aws:iam::123456789012:role/Ops"}}}`, "arn:aws:iam::123456789012:role/Ops/dave"},
		"identity centre":          {`{"type":"IdentityCenterUser","accountId":"123456789012","onBehalfOf":{"userId":"u-1","identityStoreArn":"arn:aws:identitystore::123456789012:identitystore/d-1"}}`, "IAM Identity Center user u-1"},
		"web identity":             {`{"type":"WebIdentityUser","principalId":"accounts.example:app:erin","userName":"erin"}`, "erin"},
		"nobody":                   {`null`, ""},
		"nonsense":                 {`["x"]`, ""},
	} {
		out[name] = callBy(c[0], "ec2", "StopInstances", `{"instancesSet":{"items":[{"instanceId":"`+i1+`"}]}}`, `null`, c[1], "Instance/"+i1)
	}
	return out
}
