package aws

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// TestBuildPermissions checks that the documented policy for building has all
// that is called in build*.go beyond the policies for reading and for repairs,
// which building needs too, and nothing else.
func TestBuildPermissions(t *testing.T) {
	known := append(readPolicy(t, "permissions-aws.json").Statement[0].Action, readPolicy(t, "permissions-aws-write.json").Statement[0].Action...)
	want := slices.DeleteFunc(clientCalls(t, "build*.go"), func(action string) bool { return slices.Contains(known, action) })
	if len(want) < 20 {
		t.Fatalf("only %d actions were found in the code", len(want))
	}
	// Secrets and parameters are tagged by the calls that make them.
	secrets := []string{"secretsmanager:TagResource", "ssm:AddTagsToResource"}
	want = slices.DeleteFunc(want, func(action string) bool {
		secret := strings.HasPrefix(action, "secretsmanager:") || strings.HasPrefix(action, "ssm:")
		if secret {
			secrets = append(secrets, action)
		}
		return secret
	})
	slices.Sort(secrets)
	policy := readPolicy(t, "permissions-aws-build.json")
	for i, want := range [][]string{want, secrets, {"iam:CreateServiceLinkedRole"}} {
		if diff := cmp.Diff(want, policy.Statement[i].Action); diff != "" {
			t.Errorf("docs/permissions-aws-build.json is not what is called (-code +document):\n%s", diff)
		}
	}
}

// TestBuildCallsOnlyWhatIsDocumented holds the three policies to the calls that
// are really made.
func TestBuildCallsOnlyWhatIsDocumented(t *testing.T) {
	var allowed []string
	for _, policy := range []string{"permissions-aws.json", "permissions-aws-write.json", "permissions-aws-build.json"} {
		allowed = append(allowed, readPolicy(t, policy).Statement[0].Action...)
	}
	services := map[string]string{"ec2": "ec2:", "elb": "elasticloadbalancing:", "elbv2": "elasticloadbalancing:"}
	for _, mod := range []func(*infrav1.AWSCluster){func(*infrav1.AWSCluster) {}, withNLB} {
		y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster", mod)
		y.build(t.Context())
		y.unmake(t.Context())
		for _, call := range y.cloud.Calls() {
			if action := services[call.Service] + call.Action; call.Service != "sts" && !slices.Contains(allowed, action) {
				t.Errorf("%s is in no policy", action)
			}
		}
	}
}
