package aws

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// Moto, which nobody of this project wrote, builds the same, and nothing is
// left of it afterwards.
func TestBuildOnMoto(t *testing.T) {
	for name, mod := range map[string]func(*infrav1.AWSCluster){"network": withNLB} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			isolate(t, motoServer.URL)
			if err := motoServer.Reset(ctx); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.LoadDefaultConfig(ctx)
			if err != nil {
				t.Fatal(err)
			}
			y := &yard{t: t, region: cfg.Region, ec2: ec2.NewFromConfig(cfg), elb: elb.NewFromConfig(cfg), elbv2: elbv2.NewFromConfig(cfg)}
			y.declare("default", "my-cluster", mod, func(a *infrav1.AWSCluster) {
				// Moto wants ports of protocol 4, which has none.
				a.Spec.NetworkSpec.CNI = &infrav1.CNISpec{CNIIngressRules: infrav1.CNIIngressRules{{Description: "bgp", Protocol: infrav1.SecurityGroupProtocolTCP, FromPort: 179, ToPort: 179}}}
			})
			before := y.census(ctx)
			y.build(ctx)
			made := y.census(ctx)
			for kind, n := range map[string]int{"vpc": 1, "subnet": 6, "nat": 3, "address": 3, "table": 6, "group": 4, "igw": 1} {
				if got := len(made[kind]) - len(before[kind]); got != n {
					t.Errorf("%d of kind %s were made, want %d", got, kind, n)
				}
			}
			y.inSync()
			for range 10 {
				gone, err := y.unmakePass(ctx)
				if gone {
					break
				}
				if err != nil && !strings.Contains(err.Error(), "still use") {
					t.Fatal(err)
				}
				y.freeNATs(ctx)
			}
			if diff := cmp.Diff(before, y.census(ctx)); diff != "" {
				t.Errorf("left or gone (-before +now):\n%s", diff)
			}
		})
	}
}

// freeNATs does what moto leaves out: a NAT gateway that is deleted lets its
// address and its interface go.
func (y *yard) freeNATs(ctx context.Context) {
	for _, a := range must[*ec2.DescribeAddressesOutput](y.t)(y.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{})).Addresses {
		if a.AssociationId != nil {
			must[*ec2.DisassociateAddressOutput](y.t)(y.ec2.DisassociateAddress(ctx, &ec2.DisassociateAddressInput{AssociationId: a.AssociationId}))
		}
	}
	for _, n := range must[*ec2.DescribeNetworkInterfacesOutput](y.t)(y.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{})).NetworkInterfaces {
		must[*ec2.DeleteNetworkInterfaceOutput](y.t)(y.ec2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: n.NetworkInterfaceId}))
	}
}
