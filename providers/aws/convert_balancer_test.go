package aws

import (
	"testing"

	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"
)

func TestClassicBalancer(t *testing.T) {
	got := newConverter().classicBalancer(&elbtypes.LoadBalancerDescription{
		LoadBalancerName: ptr("c1-apiserver"), Scheme: ptr("internet-facing"), VPCId: ptr("vpc-1"), Subnets: []string{"subnet-2", "subnet-1"}, SecurityGroups: []string{"sg-1"},
		ListenerDescriptions: []elbtypes.ListenerDescription{{Listener: &elbtypes.Listener{Protocol: ptr("tcp"), LoadBalancerPort: 6443, InstanceProtocol: ptr("TCP"), InstancePort: ptr[int32](6443)}}, {}},
		Instances:            []elbtypes.Instance{{InstanceId: ptr("i-2")}, {InstanceId: ptr("i-1")}},
		HealthCheck:          &elbtypes.HealthCheck{Target: ptr("SSL:6443"), Interval: ptr[int32](10), Timeout: ptr[int32](5), HealthyThreshold: ptr[int32](5), UnhealthyThreshold: ptr[int32](3)},
	})
	want := map[string]any{
		"/name": "c1-apiserver", "/type": "classic", "/scheme": "internet-facing", "/vpcId": "vpc-1", "/subnets": []string{"subnet-1", "subnet-2"}, "/securityGroups": []string{"sg-1"},
		"/listeners": []string{"TCP:6443 to TCP:6443"}, "/targets": []string{"i-1", "i-2"},
		"/healthCheck/target": "SSL:6443", "/healthCheck/interval": int64(10), "/healthCheck/timeout": int64(5), "/healthCheck/healthyThreshold": int64(5), "/healthCheck/unhealthyThreshold": int64(3),
	}
	if diff := cmp.Diff(want, fieldsOf(got)); diff != "" {
		t.Error(diff)
	}
	if got.ID.Name != "classic/c1-apiserver" || got.Closes("/tags/x") {
		t.Errorf("id %s, closed %v: tags were not read yet", got.ID, got.Closed)
	}
}

func TestListeners(t *testing.T) {
	const arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/"
	forward := func(arns ...string) elbv2types.Action {
		a := elbv2types.Action{Type: "forward", ForwardConfig: &elbv2types.ForwardActionConfig{}}
		for _, x := range arns {
			a.ForwardConfig.TargetGroups = append(a.ForwardConfig.TargetGroups, elbv2types.TargetGroupTuple{TargetGroupArn: ptr(arn + x)})
		}
		a.TargetGroupArn = ptr(arn + arns[0])
		return a
	}
	c := newConverter()
	r := c.balancer(&elbv2types.LoadBalancer{LoadBalancerArn: ptr("arn:lb"), LoadBalancerName: ptr("c1"), Type: "network", Scheme: "internal", VpcId: ptr("vpc-1"), AvailabilityZones: []elbv2types.AvailabilityZone{{SubnetId: ptr("subnet-1")}}})
	groups := c.listeners(r, []elbv2types.Listener{
		{Protocol: "TCP", Port: ptr[int32](6443), DefaultActions: []elbv2types.Action{forward("api/1")}},
		{Protocol: "TCP", Port: ptr[int32](22623), DefaultActions: []elbv2types.Action{forward("a/1", "b/2")}},
		{Protocol: "HTTP", Port: ptr[int32](80), DefaultActions: []elbv2types.Action{{Type: "redirect"}}},
		{Protocol: "TCP", Port: ptr[int32](9)},
	}, map[string]string{arn + "api/1": "apiserver-target-1"})
	want := []string{
		"HTTP:80 to redirect", "TCP:22623 to target group a", "TCP:22623 to target group b", "TCP:6443 to target group apiserver-target-1", "TCP:9",
	}
	if diff := cmp.Diff(want, r.Fields.Get("/listeners").Value.Elements()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{arn + "api/1", arn + "a/1", arn + "b/2"}, groups); diff != "" {
		t.Error(diff)
	}
}

func TestBalancerAttributes(t *testing.T) {
	c := newConverter()
	r := c.balancer(&elbv2types.LoadBalancer{LoadBalancerArn: ptr("arn:lb")})
	c.balancerAttributes(r, []elbv2types.LoadBalancerAttribute{
		{Key: ptr("load_balancing.cross_zone.enabled"), Value: ptr("true")}, {Key: ptr("idle_timeout.timeout_seconds"), Value: ptr("60")},
		{Key: ptr("deletion_protection.enabled"), Value: ptr("perhaps")}, {Key: ptr("access_logs.s3.bucket"), Value: ptr("b")},
	})
	got := fieldsOf(r)
	if got["/attributes/crossZone"] != true || got["/attributes/idleTimeout"] != int64(60) {
		t.Errorf("attributes %v", got)
	}
	if _, has := got["/attributes/deletionProtection"]; has {
		t.Error("a value that is neither true nor false was taken for one")
	}
}

// A draining target was deregistered; every other state is that of a target
// that is in, on the group's port or another.
func TestRegisteredTargets(t *testing.T) {
	in := func(id, state string, port ...int32) elbv2types.TargetHealthDescription {
		d := elbv2types.TargetHealthDescription{Target: &elbv2types.TargetDescription{Id: &id}, TargetHealth: &elbv2types.TargetHealth{State: elbv2types.TargetHealthStateEnum(state)}}
		if len(port) > 0 {
			d.Target.Port = &port[0]
		}
		return d
	}
	seen := []elbv2types.TargetHealthDescription{
		in("i-5", "unused"), in("i-1", "healthy", 6443), in("i-2", "draining"), in("i-3", "unhealthy", 8080), in("i-4", "initial", 8080), in("i-4", "initial", 6443), {},
	}
	tests := map[string]struct {
		port *int32
		want []string
	}{
		"the group's port": {port: ptr(int32(6443)), want: []string{"i-1 registered", "i-3 registered on port 8080", "i-4 registered", "i-5 registered"}},
		"any port":         {want: []string{"i-1 registered", "i-3 registered", "i-4 registered", "i-5 registered"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range registeredTargets(seen, tc.port) {
				got = append(got, r.id+" "+r.value.Text())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
