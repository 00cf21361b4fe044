package ec2sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	v2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// Elastic Load Balancing API reference, version 2012-06-01.
func TestClassicLoadBalancer(t *testing.T) {
	w := newWorld(t, ec2sim.Options{Delays: &ec2sim.Delays{}})
	n := w.network(t)
	ctx := t.Context()
	client := elb.NewFromConfig(w.config())
	name := str("c1-apiserver")
	in := &elb.CreateLoadBalancerInput{
		LoadBalancerName: name, Subnets: []string{n.subnet}, SecurityGroups: []string{n.group}, Scheme: str("internal"),
		Listeners: []elbtypes.Listener{{Protocol: str("tcp"), LoadBalancerPort: 6443, InstancePort: aws.Int32(6443)}},
		Tags:      []elbtypes.Tag{{Key: str("role"), Value: str("apiserver")}},
	}
	must(client.CreateLoadBalancer(ctx, in))(t)
	wantCode(t, second(client.CreateLoadBalancer(ctx, in)), "DuplicateLoadBalancerName", 400)
	check := &elbtypes.HealthCheck{Target: str("SSL:6443"), Interval: aws.Int32(10), Timeout: aws.Int32(5), HealthyThreshold: aws.Int32(5), UnhealthyThreshold: aws.Int32(3)}
	must(client.ConfigureHealthCheck(ctx, &elb.ConfigureHealthCheckInput{LoadBalancerName: name, HealthCheck: check}))(t)
	i := elbtypes.Instance{InstanceId: w.run(t, n).InstanceId}
	must(client.RegisterInstancesWithLoadBalancer(ctx, &elb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: name, Instances: []elbtypes.Instance{i, i}}))(t)
	wantCode(t, second(client.RegisterInstancesWithLoadBalancer(ctx, &elb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: name, Instances: []elbtypes.Instance{{InstanceId: str("i-none")}}})), "InvalidInstance", 400)
	must(client.CreateLoadBalancerListeners(ctx, &elb.CreateLoadBalancerListenersInput{LoadBalancerName: name, Listeners: []elbtypes.Listener{{Protocol: str("TCP"), LoadBalancerPort: 8132, InstancePort: aws.Int32(8132)}}}))(t)
	must(client.DeleteLoadBalancerListeners(ctx, &elb.DeleteLoadBalancerListenersInput{LoadBalancerName: name, LoadBalancerPorts: []int32{8132}}))(t)

	got := must(client.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{LoadBalancerNames: []string{*name}}))(t).LoadBalancerDescriptions[0]
	if *got.Scheme != "internal" || *got.VPCId != n.vpc || got.Subnets[0] != n.subnet || got.SecurityGroups[0] != n.group || len(got.Instances) != 1 || *got.Instances[0].InstanceId != *i.InstanceId {
		t.Errorf("load balancer %+v", got)
	}
	if l := got.ListenerDescriptions; len(l) != 1 || *l[0].Listener.Protocol != "TCP" || *l[0].Listener.InstanceProtocol != "TCP" || l[0].Listener.LoadBalancerPort != 6443 {
		t.Errorf("listeners %+v", l)
	}
	if *got.HealthCheck.Target != "SSL:6443" || *got.HealthCheck.Interval != 10 {
		t.Errorf("health check %+v", got.HealthCheck)
	}
	health := must(client.DescribeInstanceHealth(ctx, &elb.DescribeInstanceHealthInput{LoadBalancerName: name}))(t)
	if *health.InstanceStates[0].State != "InService" {
		t.Errorf("health %+v", health.InstanceStates)
	}
	_, err := w.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &n.subnet})
	wantCode(t, err, "DependencyViolation", 400)

	must(client.ModifyLoadBalancerAttributes(ctx, &elb.ModifyLoadBalancerAttributesInput{LoadBalancerName: name, LoadBalancerAttributes: &elbtypes.LoadBalancerAttributes{
		CrossZoneLoadBalancing: &elbtypes.CrossZoneLoadBalancing{Enabled: true}, ConnectionSettings: &elbtypes.ConnectionSettings{IdleTimeout: aws.Int32(600)},
	}}))(t)
	attributes := must(client.DescribeLoadBalancerAttributes(ctx, &elb.DescribeLoadBalancerAttributesInput{LoadBalancerName: name}))(t).LoadBalancerAttributes
	if !attributes.CrossZoneLoadBalancing.Enabled || *attributes.ConnectionSettings.IdleTimeout != 600 || *attributes.ConnectionDraining.Timeout != 300 {
		t.Errorf("attributes %+v", attributes)
	}
	must(client.ApplySecurityGroupsToLoadBalancer(ctx, &elb.ApplySecurityGroupsToLoadBalancerInput{LoadBalancerName: name, SecurityGroups: []string{n.group}}))(t)
	more := must(w.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &n.vpc, CidrBlock: str("10.0.64.0/18"), AvailabilityZone: str(region + "b")}))(t).Subnet.SubnetId
	must(client.AttachLoadBalancerToSubnets(ctx, &elb.AttachLoadBalancerToSubnetsInput{LoadBalancerName: name, Subnets: []string{*more}}))(t)
	must(client.DetachLoadBalancerFromSubnets(ctx, &elb.DetachLoadBalancerFromSubnetsInput{LoadBalancerName: name, Subnets: []string{*more}}))(t)
	must(client.AddTags(ctx, &elb.AddTagsInput{LoadBalancerNames: []string{*name}, Tags: []elbtypes.Tag{{Key: str("a"), Value: str("b")}}}))(t)
	must(client.RemoveTags(ctx, &elb.RemoveTagsInput{LoadBalancerNames: []string{*name}, Tags: []elbtypes.TagKeyOnly{{Key: str("role")}}}))(t)
	tags := must(client.DescribeTags(ctx, &elb.DescribeTagsInput{LoadBalancerNames: []string{*name}}))(t).TagDescriptions[0].Tags
	if len(tags) != 1 || *tags[0].Key != "a" {
		t.Errorf("tags %+v", tags)
	}
	wantCode(t, second(client.DescribeTags(ctx, &elb.DescribeTagsInput{LoadBalancerNames: make([]string, 21)})), "ValidationError", 400)
	must(client.DeregisterInstancesFromLoadBalancer(ctx, &elb.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: name, Instances: []elbtypes.Instance{i}}))(t)
	must(client.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerName: name}))(t)
	must(client.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerName: name}))(t)
	_, err = client.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{LoadBalancerNames: []string{*name}})
	wantCode(t, err, "LoadBalancerNotFound", 400)
}

// DescribeLoadBalancers, PageSize and Marker.
func TestLoadBalancerPages(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	client := elb.NewFromConfig(w.config())
	for i := range 5 {
		must(client.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{LoadBalancerName: str(fmt.Sprint("lb", i)), Subnets: []string{n.subnet}, Listeners: []elbtypes.Listener{{Protocol: str("TCP"), LoadBalancerPort: 80, InstancePort: aws.Int32(80)}}}))(t)
	}
	var sizes []int
	pages := elb.NewDescribeLoadBalancersPaginator(client, &elb.DescribeLoadBalancersInput{PageSize: aws.Int32(2)})
	for pages.HasMorePages() {
		sizes = append(sizes, len(must(pages.NextPage(ctx))(t).LoadBalancerDescriptions))
	}
	if diff := cmp.Diff([]int{2, 2, 1}, sizes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantCode(t, second(client.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{PageSize: aws.Int32(401)})), "ValidationError", 400)
}

// Elastic Load Balancing API reference, version 2015-12-01.
func TestNetworkLoadBalancer(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	client := elbv2.NewFromConfig(w.config())
	id := w.run(t, n).InstanceId
	w.pass(time.Minute)
	in := &elbv2.CreateLoadBalancerInput{Name: str("c1-nlb"), Type: "network", Subnets: []string{n.subnet}, SecurityGroups: []string{n.group}, Tags: []v2types.Tag{{Key: str("a"), Value: str("")}}}
	made := must(client.CreateLoadBalancer(ctx, in))(t).LoadBalancers[0]
	if again := must(client.CreateLoadBalancer(ctx, in))(t).LoadBalancers[0]; *again.LoadBalancerArn != *made.LoadBalancerArn {
		t.Error("the same request gives two load balancers")
	}
	in.Scheme = "internal"
	wantCode(t, second(client.CreateLoadBalancer(ctx, in)), "DuplicateLoadBalancerName", 400)
	group := must(client.CreateTargetGroup(ctx, &elbv2.CreateTargetGroupInput{Name: str("c1-tg"), Protocol: "TCP", Port: aws.Int32(6443), VpcId: &n.vpc, HealthCheckProtocol: "HTTPS", HealthCheckPath: str("/readyz"), HealthCheckIntervalSeconds: aws.Int32(10)}))(t).TargetGroups[0]
	listener := must(client.CreateListener(ctx, &elbv2.CreateListenerInput{LoadBalancerArn: made.LoadBalancerArn, Protocol: "TCP", Port: aws.Int32(6443), DefaultActions: []v2types.Action{{Type: "forward", TargetGroupArn: group.TargetGroupArn}}}))(t).Listeners[0]
	must(client.RegisterTargets(ctx, &elbv2.RegisterTargetsInput{TargetGroupArn: group.TargetGroupArn, Targets: []v2types.TargetDescription{{Id: id}}}))(t)
	health := func() string {
		out := must(client.DescribeTargetHealth(ctx, &elbv2.DescribeTargetHealthInput{TargetGroupArn: group.TargetGroupArn}))(t).TargetHealthDescriptions
		if len(out) == 0 {
			return "none"
		}
		return string(out[0].TargetHealth.State)
	}
	states := []string{string(made.State.Code), health()}
	w.pass(3 * time.Minute)
	got := must(client.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{Names: []string{"c1-nlb"}}))(t).LoadBalancers[0]
	states = append(states, string(got.State.Code), health())
	must(client.DeregisterTargets(ctx, &elbv2.DeregisterTargetsInput{TargetGroupArn: group.TargetGroupArn, Targets: []v2types.TargetDescription{{Id: id}}}))(t)
	states = append(states, health())
	w.pass(time.Minute)
	states = append(states, health())
	if diff := cmp.Diff([]string{"provisioning", "initial", "active", "healthy", "draining", "none"}, states); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if *got.AvailabilityZones[0].SubnetId != n.subnet || got.Type != "network" || got.Scheme != "internet-facing" || got.SecurityGroups[0] != n.group || *got.VpcId != n.vpc {
		t.Errorf("load balancer %+v", got)
	}
	shown := must(client.DescribeTargetGroups(ctx, &elbv2.DescribeTargetGroupsInput{LoadBalancerArn: made.LoadBalancerArn}))(t).TargetGroups[0]
	if shown.LoadBalancerArns[0] != *made.LoadBalancerArn || shown.HealthCheckProtocol != "HTTPS" || *shown.HealthCheckPath != "/readyz" || *shown.HealthCheckIntervalSeconds != 10 || *shown.HealthCheckPort != "traffic-port" || *shown.Matcher.HttpCode != "200" {
		t.Errorf("target group %+v", shown)
	}
	must(client.ModifyTargetGroup(ctx, &elbv2.ModifyTargetGroupInput{TargetGroupArn: group.TargetGroupArn, UnhealthyThresholdCount: aws.Int32(3)}))(t)
	listeners := must(client.DescribeListeners(ctx, &elbv2.DescribeListenersInput{LoadBalancerArn: made.LoadBalancerArn}))(t).Listeners
	if len(listeners) != 1 || *listeners[0].DefaultActions[0].TargetGroupArn != *group.TargetGroupArn || *listeners[0].Port != 6443 {
		t.Errorf("listeners %+v", listeners)
	}
	wantCode(t, second(client.DescribeTargetGroups(ctx, &elbv2.DescribeTargetGroupsInput{Names: []string{"none"}})), "TargetGroupNotFound", 400)
	wantCode(t, second(client.DescribeListeners(ctx, &elbv2.DescribeListenersInput{ListenerArns: []string{"none"}})), "ListenerNotFound", 400)
	wantCode(t, second(client.DeleteTargetGroup(ctx, &elbv2.DeleteTargetGroupInput{TargetGroupArn: group.TargetGroupArn})), "ResourceInUse", 400)

	zone := []v2types.LoadBalancerAttribute{{Key: str("load_balancing.cross_zone.enabled"), Value: str("true")}}
	must(client.ModifyLoadBalancerAttributes(ctx, &elbv2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: made.LoadBalancerArn, Attributes: zone}))(t)
	attributes := map[string]string{}
	for _, a := range must(client.DescribeLoadBalancerAttributes(ctx, &elbv2.DescribeLoadBalancerAttributesInput{LoadBalancerArn: made.LoadBalancerArn}))(t).Attributes {
		attributes[*a.Key] = aws.ToString(a.Value)
	}
	if attributes["load_balancing.cross_zone.enabled"] != "true" || attributes["deletion_protection.enabled"] != "false" {
		t.Errorf("attributes %v", attributes)
	}
	must(client.ModifyTargetGroupAttributes(ctx, &elbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: group.TargetGroupArn, Attributes: []v2types.TargetGroupAttribute{{Key: str("preserve_client_ip.enabled"), Value: str("false")}}}))(t)
	must(client.DescribeTargetGroupAttributes(ctx, &elbv2.DescribeTargetGroupAttributesInput{TargetGroupArn: group.TargetGroupArn}))(t)
	must(client.ModifyListener(ctx, &elbv2.ModifyListenerInput{ListenerArn: listener.ListenerArn, Port: aws.Int32(443)}))(t)
	must(client.SetSecurityGroups(ctx, &elbv2.SetSecurityGroupsInput{LoadBalancerArn: made.LoadBalancerArn, SecurityGroups: []string{n.group}}))(t)
	must(client.SetSubnets(ctx, &elbv2.SetSubnetsInput{LoadBalancerArn: made.LoadBalancerArn, Subnets: []string{n.subnet}}))(t)

	must(client.AddTags(ctx, &elbv2.AddTagsInput{ResourceArns: []string{*made.LoadBalancerArn, *group.TargetGroupArn}, Tags: []v2types.Tag{{Key: str("b"), Value: str("c")}}}))(t)
	must(client.RemoveTags(ctx, &elbv2.RemoveTagsInput{ResourceArns: []string{*made.LoadBalancerArn}, TagKeys: []string{"a"}}))(t)
	for _, d := range must(client.DescribeTags(ctx, &elbv2.DescribeTagsInput{ResourceArns: []string{*made.LoadBalancerArn, *group.TargetGroupArn}}))(t).TagDescriptions {
		if len(d.Tags) != 1 || *d.Tags[0].Key != "b" {
			t.Errorf("tags of %s: %+v", *d.ResourceArn, d.Tags)
		}
	}
	must(client.DeleteListener(ctx, &elbv2.DeleteListenerInput{ListenerArn: listener.ListenerArn}))(t)
	must(client.DeleteTargetGroup(ctx, &elbv2.DeleteTargetGroupInput{TargetGroupArn: group.TargetGroupArn}))(t)
	must(client.DeleteLoadBalancer(ctx, &elbv2.DeleteLoadBalancerInput{LoadBalancerArn: made.LoadBalancerArn}))(t)
	wantCode(t, second(client.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{Names: []string{"c1-nlb"}})), "LoadBalancerNotFound", 400)
}
