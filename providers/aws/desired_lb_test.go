package aws

import (
	"strings"
	"testing"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

const arn = "arn:aws:elasticloadbalancing:eu-central-1:111122223333:loadbalancer/net/prod-c1-apiserver/1"

func withLB(kind infrav1.LoadBalancerType, mods ...func(*infrav1.AWSLoadBalancerSpec)) func(*infrav1.AWSCluster) {
	return func(c *infrav1.AWSCluster) {
		lb := &infrav1.AWSLoadBalancerSpec{LoadBalancerType: kind}
		for _, mod := range mods {
			mod(lb)
		}
		c.Spec.ControlPlaneLoadBalancer = lb
		c.Status.Network.APIServerELB = infrav1.LoadBalancer{Name: "prod-c1-apiserver", ARN: arn}
	}
}

func seenNLB(pairs ...any) *providers.Resource {
	return seenResource(providers.KindLoadBalancer, arn, append(append([]any{
		"/type", "network", "/vpcId", "vpc-1", "/securityGroups", []string{"sg-api"},
		"/targetGroups/apiserver-target-x1/port", 6443, "/targetGroups/apiserver-target-x1/protocol", "TCP",
		"/targetGroups/additional-listener-y2/port", 8132, "/targetGroups/additional-listener-y2/protocol", "TCP",
		"/targetGroups/a-foreign-one/port", 6443, "/targetGroups/a-foreign-one/protocol", "TCP",
		"/targetGroups/other/port", 6443, "/targetGroups/other/protocol", "TCP",
	}, owned("prod-c1-apiserver")...), pairs...)...)
}

func TestClassicLoadBalancer(t *testing.T) {
	// Neither a load balancer nor its type is in the spec.
	all := get(t, clusterOwner(genAWSCluster(withNetwork)), genSnapshot())
	r := pick(t, all, providers.KindLoadBalancer, "classic/c1-apiserver")
	for path, want := range map[string]any{
		"/type": "classic", "/scheme": "internet-facing", "/vpcId": "vpc-1", "/subnets": []string{"subnet-pub1", "subnet-pub2"},
		"/securityGroups": []string{"sg-api"}, "/listeners": []string{"TCP:6443 to TCP:6443"},
		"/healthCheck/target": "TCP:6443", "/healthCheck/interval": int64(5), "/healthCheck/timeout": int64(4),
		"/healthCheck/healthyThreshold": int64(2), "/healthCheck/unhealthyThreshold": int64(6),
		"/attributes/idleTimeout": int64(600), "/attributes/crossZone": false,
		"/tags/Name": "c1-apiserver", "/tags/sigs.k8s.io~1cluster-api-provider-aws~1role": "apiserver",
	} {
		checkField(t, r, path, want)
	}
}

func TestLoadBalancerOptions(t *testing.T) {
	type mod = func(*infrav1.AWSLoadBalancerSpec)
	tests := map[string]struct {
		kind infrav1.LoadBalancerType
		mod  mod
		want map[string]any
	}{
		"classic, HTTPS": {"classic", func(s *infrav1.AWSLoadBalancerSpec) { s.HealthCheckProtocol = &infrav1.ELBProtocolHTTPS }, map[string]any{"/healthCheck/target": "HTTPS:6443/readyz"}},
		"classic, SSL":   {"classic", func(s *infrav1.AWSLoadBalancerSpec) { s.HealthCheckProtocol = &infrav1.ELBProtocolSSL }, map[string]any{"/healthCheck/target": "SSL:6443"}},
		"internal":       {"nlb", func(s *infrav1.AWSLoadBalancerSpec) { s.Scheme = &infrav1.ELBSchemeInternal }, map[string]any{"/scheme": "internal", "/subnets": []string{"subnet-priv1", "subnet-priv2"}}},
		"own subnets":    {"nlb", func(s *infrav1.AWSLoadBalancerSpec) { s.Subnets = []string{"subnet-9"} }, map[string]any{"/subnets": []string{"subnet-9"}}},
		"own groups":     {"nlb", func(s *infrav1.AWSLoadBalancerSpec) { s.AdditionalSecurityGroups = []string{"sg-x"} }, map[string]any{"/securityGroups": []string{"sg-api", "sg-x"}}},
		"cross zone":     {"nlb", func(s *infrav1.AWSLoadBalancerSpec) { s.CrossZoneLoadBalancing = true }, map[string]any{"/attributes/crossZone": true, "/attributes/idleTimeout": nil}},
		"application":    {"alb", func(*infrav1.AWSLoadBalancerSpec) {}, map[string]any{"/type": "application", "/attributes/crossZone": nil, "/attributes/idleTimeout": int64(60)}},
		"health check by lookup": {"nlb", func(*infrav1.AWSLoadBalancerSpec) {}, map[string]any{
			"/targetGroups/apiserver-target-x1/port": int64(6443), "/targetGroups/apiserver-target-x1/protocol": "TCP",
			"/targetGroups/apiserver-target-x1/healthCheck/protocol": "TCP", "/targetGroups/apiserver-target-x1/healthCheck/port": "6443",
			"/targetGroups/apiserver-target-x1/healthCheck/path": nil, "/targetGroups/apiserver-target-x1/healthCheck/interval": nil,
			"/targetGroups/other/port": nil, "/targetGroups/additional-listener-y2/port": nil,
			"/listeners": []string{"TCP:6443 to target group apiserver-target-x1"},
		}},
		"health check": {"nlb", func(s *infrav1.AWSLoadBalancerSpec) {
			s.HealthCheckProtocol = &infrav1.ELBProtocolHTTPS
			s.HealthCheck = &infrav1.TargetGroupHealthCheckAPISpec{IntervalSeconds: pt(int64(10)), UnhealthyThresholdCount: pt(int64(3))}
		}, map[string]any{
			"/targetGroups/apiserver-target-x1/healthCheck/protocol": "HTTPS", "/targetGroups/apiserver-target-x1/healthCheck/path": "/readyz",
			"/targetGroups/apiserver-target-x1/healthCheck/interval": int64(10), "/targetGroups/apiserver-target-x1/healthCheck/timeout": nil,
			"/targetGroups/apiserver-target-x1/healthCheck/unhealthyThreshold": int64(3),
		}},
		"additional listeners": {"nlb", func(s *infrav1.AWSLoadBalancerSpec) {
			s.AdditionalListeners = []infrav1.AdditionalListenerSpec{
				{Port: 8132, HealthCheck: &infrav1.TargetGroupHealthCheckAdditionalSpec{Protocol: pt("HTTP"), Path: pt("/ok"), Port: pt("9000")}},
				{Port: 22623, Protocol: "TCP"},
			}
		}, map[string]any{
			"/listeners": []string{
				"TCP:22623 to target group additional-listener-*", "TCP:6443 to target group apiserver-target-x1",
				"TCP:8132 to target group additional-listener-y2",
			},
			"/targetGroups/additional-listener-y2/healthCheck/protocol": "HTTP", "/targetGroups/additional-listener-y2/healthCheck/path": "/ok",
			"/targetGroups/additional-listener-y2/healthCheck/port": "9000",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := genAWSCluster(withNetwork, withLB(tt.kind, tt.mod))
			id := arn
			if tt.kind == "classic" {
				id = "classic/prod-c1-apiserver"
			}
			r := pick(t, get(t, clusterOwner(cluster), genSnapshot(seenNLB())), providers.KindLoadBalancer, id)
			for path, want := range tt.want {
				checkField(t, r, path, want)
			}
		})
	}
}

// A network load balancer that was made without groups can never get any.
func TestNLBWithoutGroups(t *testing.T) {
	r := pick(t, get(t, clusterOwner(genAWSCluster(withNetwork, withLB("nlb"))), genSnapshot(seenNLB("/securityGroups", []string{}))), providers.KindLoadBalancer, arn)
	checkField(t, r, "/securityGroups", nil)
}

// Of several subnets in a zone CAPA took the first that it had then.
func TestLoadBalancerZoneWithTwoSubnets(t *testing.T) {
	cluster := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.Subnets = append(c.Spec.NetworkSpec.Subnets,
			infrav1.SubnetSpec{ID: "extra", ResourceID: "subnet-extra", IsPublic: true, AvailabilityZone: "a"},
			infrav1.SubnetSpec{ID: "pods", ResourceID: "subnet-pods", IsPublic: true, AvailabilityZone: "b", Tags: infrav1.Tags{infrav1.NameAWSSubnetAssociation: "secondary"}})
	})
	r := pick(t, get(t, clusterOwner(cluster), genSnapshot()), providers.KindLoadBalancer, "classic/c1-apiserver")
	checkField(t, r, "/subnets", "Contains subnet-pub2")
}

// A load balancer that the user named and that lacks the cluster's tag was
// brought: instances are registered in it, and the rest is the user's.
func TestBroughtLoadBalancer(t *testing.T) {
	seen := seenResource(providers.KindLoadBalancer, arn, "name", "mine", "/type", "network",
		"/targetGroups/tg-mine/port", 6443, "/targetGroups/tg-mine/protocol", "TCP")
	cluster := genAWSCluster(withNetwork, withLB("nlb", func(s *infrav1.AWSLoadBalancerSpec) { s.Name = pt("mine") }))
	if r := pick(t, get(t, clusterOwner(cluster), genSnapshot(seen)), providers.KindLoadBalancer, arn); len(r.Fields) != 0 {
		t.Errorf("wants %v", r.Fields)
	}
	checkField(t, instance(t, machineOwner(genAWSMachine(), controlPlane, inCluster(cluster)), genSnapshot(seen)), "/loadBalancers/tg-mine", "registered")
	// With the tag it is the cluster's own, and a tag that was lost from a
	// generated name is drift.
	own := seenNLB("name", "mine")
	checkField(t, pick(t, get(t, clusterOwner(cluster), genSnapshot(own)), providers.KindLoadBalancer, arn), "/type", "network")
	untagged := seenNLB()
	untagged.Fields.Delete(providers.Pointer("tags", infrav1.ClusterTagKey("c1")))
	generated := genAWSCluster(withNetwork, withLB("nlb"))
	checkField(t, pick(t, get(t, clusterOwner(generated), genSnapshot(untagged)), providers.KindLoadBalancer, arn), "/type", "network")
}

func TestNoLoadBalancer(t *testing.T) {
	for id := range get(t, clusterOwner(genAWSCluster(withNetwork, withLB("disabled"))), genSnapshot()) {
		if id.Kind == providers.KindLoadBalancer {
			t.Errorf("%s is wanted", id)
		}
	}
	r := instance(t, machineOwner(genAWSMachine(), controlPlane, inCluster(genAWSCluster(withLB("disabled")))), genSnapshot())
	for path := range r.Fields.All() {
		if strings.HasPrefix(path, "/loadBalancers/") {
			t.Errorf("%s is wanted", path)
		}
	}
}

// Without a recorded ARN the name finds it; one that was never recorded and is
// not there was never made.
func TestLoadBalancerByName(t *testing.T) {
	unrecorded := genAWSCluster(withNetwork, withLB("nlb"), func(c *infrav1.AWSCluster) { c.Status.Network.APIServerELB = infrav1.LoadBalancer{} })
	pick(t, get(t, clusterOwner(unrecorded), genSnapshot(seenNLB())), providers.KindLoadBalancer, arn)
	if got := reasons(get(t, clusterOwner(unrecorded), genSnapshot()), providers.KindLoadBalancer); len(got) != 1 || got[0] != "load balancer prod-c1-apiserver not created yet" {
		t.Errorf("reasons %q", got)
	}
	classic := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) { c.Status.Network.APIServerELB = infrav1.LoadBalancer{} })
	if got := reasons(get(t, clusterOwner(classic), genSnapshot()), providers.KindLoadBalancer); len(got) != 1 || got[0] != "load balancer c1-apiserver not created yet" {
		t.Errorf("reasons %q", got)
	}
}

func TestSecondaryLoadBalancer(t *testing.T) {
	const second = arn + "2"
	cluster := genAWSCluster(withNetwork, withLB("nlb"), func(c *infrav1.AWSCluster) {
		c.Spec.SecondaryControlPlaneLoadBalancer = &infrav1.AWSLoadBalancerSpec{Name: pt("inner")}
		c.Status.Network.SecondaryAPIServerELB = infrav1.LoadBalancer{Name: "inner", ARN: second}
	})
	inner := seenResource(providers.KindLoadBalancer, second, append([]any{"/type", "network",
		"/targetGroups/apiserver-target-z9/port", 6443, "/targetGroups/apiserver-target-z9/protocol", "TCP"}, owned("inner")...)...)
	net := genSnapshot(seenNLB(), inner)
	r := pick(t, get(t, clusterOwner(cluster), net), providers.KindLoadBalancer, second)
	checkField(t, r, "/scheme", "internal")
	checkField(t, r, "/type", "network")
	m := instance(t, machineOwner(genAWSMachine(), controlPlane, inCluster(cluster)), net)
	checkField(t, m, "/loadBalancers/apiserver-target-x1", "registered")
	checkField(t, m, "/loadBalancers/apiserver-target-z9", "registered")
	checkField(t, m, "/loadBalancers/other", nil)
	worker := instance(t, machineOwner(genAWSMachine(), inCluster(cluster)), net)
	checkField(t, worker, "/loadBalancers/apiserver-target-x1", nil)
}

// The hashed names are what CAPA's own function gives for them (the test
// vectors of pkg/cloud/services/elb, GenerateELBName).
func TestGeneratedLBName(t *testing.T) {
	for cluster, want := range map[string]string{
		"c1":                         "c1-apiserver",
		"team.c1":                    "team-c1-apiserver",
		"0123456789012345678901":     "0123456789012345678901-apiserver",
		"01234567890123456789012":    "26o3cjil5at5qn27vukn5x09b3ql-k8s",
		"anotherverylongtoolongname": "t8gnrbbifaaf5d0k4xmwui3xwvip-k8s",
	} {
		if got := generatedLBName(cluster); got != want || len(got) > 32 {
			t.Errorf("%s: %q, want %q", cluster, got, want)
		}
	}
}

func TestBastion(t *testing.T) {
	enabled := func(c *infrav1.AWSCluster) {
		c.Spec.Bastion = infrav1.Bastion{Enabled: true, InstanceType: "t3.small", AMI: "ami-b"}
		c.Spec.SSHKeyName = pt("ops")
		c.Status.Bastion = &infrav1.Instance{ID: "i-b"}
		c.Status.Network.SecurityGroups[infrav1.SecurityGroupBastion] = infrav1.SecurityGroup{ID: "sg-bastion"}
	}
	r := pick(t, get(t, clusterOwner(genAWSCluster(withNetwork, enabled)), genSnapshot()), providers.KindInstance, "i-b")
	for path, want := range map[string]any{
		"/state": "running", "/instanceType": "t3.small", "/imageId": "ami-b", "/keyName": "ops", "/securityGroups": []string{"sg-bastion"},
		"/tags/Name": "c1-bastion", "/tags/sigs.k8s.io~1cluster-api-provider-aws~1role": "bastion", "/tags/MachineName": nil,
	} {
		checkField(t, r, path, want)
	}
	unrecorded := func(c *infrav1.AWSCluster) { c.Status.Bastion = nil }
	found := seenResource(providers.KindInstance, "i-x", append(owned("c1-bastion"), "/tags/sigs.k8s.io~1cluster-api-provider-aws~1role", "bastion")...)
	pick(t, get(t, clusterOwner(genAWSCluster(withNetwork, enabled, unrecorded)), genSnapshot(found)), providers.KindInstance, "i-x")
	if got := reasons(get(t, clusterOwner(genAWSCluster(withNetwork, enabled, unrecorded)), genSnapshot()), providers.KindInstance); len(got) != 1 || got[0] != "bastion not created yet" {
		t.Errorf("reasons %q", got)
	}
	// CAPA makes none where every subnet is public.
	for id := range get(t, clusterOwner(genAWSCluster(enabled)), genSnapshot()) {
		if id.Kind == providers.KindInstance {
			t.Errorf("%s is wanted", id)
		}
	}
}
