package aws

import (
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
	for name, mod := range map[string]func(*infrav1.AWSCluster){"classic": func(*infrav1.AWSCluster) {}, "network": withNLB} {
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
			y.declare("default", "my-cluster", mod)
			before := y.census(ctx)
			y.build(ctx)
			made := y.census(ctx)
			for kind, n := range map[string]int{"vpc": 1, "subnet": 6, "nat": 3, "address": 3, "table": 6, "group": 4, "igw": 1} {
				if got := len(made[kind]) - len(before[kind]); got != n {
					t.Errorf("%d of kind %s were made, want %d", got, kind, n)
				}
			}
			y.inSync()
			y.unmake(ctx)
			if diff := cmp.Diff(before, y.census(ctx)); diff != "" {
				t.Errorf("left or gone (-before +now):\n%s", diff)
			}
		})
	}
}
