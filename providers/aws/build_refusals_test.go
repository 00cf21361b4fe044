package aws

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// EC2's refusals are told in its own words, and with what to do.
func TestBuildRefusals(t *testing.T) {
	for _, tc := range []struct {
		action, code, hint string
		about              clusterv1beta1.ConditionType
	}{
		{"CreateVpc", "VpcLimitExceeded", "VPCs per Region", infrav1.VpcReadyCondition},
		{"AllocateAddress", "AddressLimitExceeded", "availabilityZoneUsageLimit", infrav1.NatGatewaysReadyCondition},
		{"CreateSubnet", "InvalidSubnet.Conflict", "spec.network.subnets[].cidrBlock", infrav1.SubnetsReadyCondition},
		{"CreateSubnet", "InvalidSubnet.Range", "spec.network.subnets[].cidrBlock", infrav1.SubnetsReadyCondition},
		{"CreateSecurityGroup", "UnauthorizedOperation", "permissions-aws-build.json", infrav1.ClusterSecurityGroupsReadyCondition},
		{"CreateLoadBalancer", "TooManyLoadBalancers", "quota of load balancers", infrav1.LoadBalancerReadyCondition},
	} {
		t.Run(tc.code, func(t *testing.T) {
			y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster")
			remove := y.cloud.InjectFault(ec2sim.Fault{Action: tc.action, Kind: ec2sim.FaultError, Code: tc.code, Message: "EC2's own words\x1b[31m"})
			var err error
			for range 5 {
				if err = y.pass(t.Context()); err != nil {
					break
				}
			}
			if err == nil || !lasting(err) {
				t.Fatalf("got %v, want a refusal", err)
			}
			c := y.condition(tc.about)
			for _, want := range []string{tc.code, "EC2's own words", tc.hint} {
				if !strings.Contains(c.Message, want) {
					t.Errorf("the condition says %q, without %q", c.Message, want)
				}
			}
			if c.Status != "False" || c.Severity != clusterv1beta1.ConditionSeverityError || strings.Contains(c.Message, "\x1b") {
				t.Errorf("the condition is %+v", c)
			}
			for range 5 { // the rest goes on
				_ = y.pass(t.Context())
			}
			stored := string(y.stored)
			_ = y.pass(t.Context())
			if diff := cmp.Diff(stored, string(y.stored)); diff != "" {
				t.Errorf("saying it again changes the object:\n%s", diff)
			}
			remove()
			y.build(t.Context())
			if diff := cmp.Diff(classicCounts, y.counts(t.Context())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What Holdfast does not make is refused by the field that asks for it, before
// anything is made.
func TestNotBuildable(t *testing.T) {
	for field, mod := range map[string]func(*infrav1.AWSCluster){
		"spec.network.vpc.ipv6":     func(a *infrav1.AWSCluster) { a.Spec.NetworkSpec.VPC.IPv6 = &infrav1.IPv6{} },
		"spec.network.vpc.ipamPool": func(a *infrav1.AWSCluster) { a.Spec.NetworkSpec.VPC.IPAMPool = &infrav1.IPAMPool{ID: "p"} },
		"spec.bastion.enabled":      func(a *infrav1.AWSCluster) { a.Spec.Bastion.Enabled = true },
		"spec.s3Bucket":             func(a *infrav1.AWSCluster) { a.Spec.S3Bucket = &infrav1.S3Bucket{Name: "b"} },
		"spec.controlPlaneLoadBalancer.loadBalancerType": func(a *infrav1.AWSCluster) {
			a.Spec.ControlPlaneLoadBalancer = &infrav1.AWSLoadBalancerSpec{LoadBalancerType: "elb"}
		},
		"spec.secondaryControlPlaneLoadBalancer.name": func(a *infrav1.AWSCluster) { a.Spec.SecondaryControlPlaneLoadBalancer = &infrav1.AWSLoadBalancerSpec{} },
		"spec.network.securityGroupOverrides": func(a *infrav1.AWSCluster) {
			a.Spec.NetworkSpec.SecurityGroupOverrides = map[infrav1.SecurityGroupRole]string{"node": "sg-1"}
		},
		"spec.network.vpc.elasticIpPool.publicIpv4Pool": func(a *infrav1.AWSCluster) {
			a.Spec.NetworkSpec.VPC.ElasticIPPool = &infrav1.ElasticIPPool{PublicIpv4Pool: ptr("ipv4pool-ec2-1")}
		},
		"spec.network.vpc.cidrBlock: 10.0.0.0/27":  func(a *infrav1.AWSCluster) { a.Spec.NetworkSpec.VPC.CidrBlock = "10.0.0.0/27" },
		"spec.network.vpc.cidrBlock: \"nonsense\"": func(a *infrav1.AWSCluster) { a.Spec.NetworkSpec.VPC.CidrBlock = "nonsense" },
		"spec.network.vpc.id": func(a *infrav1.AWSCluster) {
			a.Spec.NetworkSpec.VPC.ID = "vpc-00000000"
			a.Spec.NetworkSpec.Subnets = infrav1.Subnets{{ID: "subnet-1"}}
		},
		"spec.network.subnets is empty": func(a *infrav1.AWSCluster) { a.Spec.NetworkSpec.VPC.ID = "vpc-00000000" },
		"spec.network.subnets[0].cidrBlock": func(a *infrav1.AWSCluster) {
			a.Spec.NetworkSpec.Subnets = infrav1.Subnets{{ID: "x", AvailabilityZone: "us-west-2a", IsPublic: true}}
		},
		"spec.network.subnets[0].availabilityZone": func(a *infrav1.AWSCluster) {
			a.Spec.NetworkSpec.Subnets = infrav1.Subnets{{ID: "x", CidrBlock: "10.0.0.0/20", IsPublic: true}}
		},
		"spec.network.subnets has no public": func(a *infrav1.AWSCluster) {
			a.Spec.NetworkSpec.Subnets = infrav1.Subnets{{ID: "x", CidrBlock: "10.0.0.0/20", AvailabilityZone: "us-west-2a"}}
		},
		"spec.network.subnets[0].availabilityZone: moon-1": func(a *infrav1.AWSCluster) {
			a.Spec.NetworkSpec.Subnets = infrav1.Subnets{{ID: "x", CidrBlock: "10.0.0.0/20", AvailabilityZone: "moon-1a", IsPublic: true}}
		},
	} {
		t.Run(field, func(t *testing.T) {
			y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster", mod)
			err := y.pass(t.Context())
			if err == nil || !lasting(err) || !strings.Contains(err.Error(), field) {
				t.Errorf("got %v, want a refusal that names %s", err, field)
			}
			if made := y.cloud.Mutations(); len(made) > 0 {
				t.Errorf("it was written: %v", made)
			}
		})
	}
}
