package suites_test

import (
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// TestAWSApplyEdited repairs what drifts only because more is declared than
// there is.
func TestAWSApplyEdited(t *testing.T) {
	storage := func(c *awsApplyCase) *infrav1.AWSMachine {
		at := slices.IndexFunc(c.env.AWSMachines, func(m *infrav1.AWSMachine) bool { return len(m.Spec.NonRootVolumes) > 0 })
		return c.env.AWSMachines[at]
	}
	for name, edit := range map[string]func(t *testing.T, c *awsApplyCase) (kind, path string){
		"root volume": func(_ *testing.T, c *awsApplyCase) (string, string) {
			storage(c).Spec.RootVolume.Size += 20
			return providers.KindInstance, "/rootVolume/size"
		},
		"further volume": func(_ *testing.T, c *awsApplyCase) (string, string) {
			v := &storage(c).Spec.NonRootVolumes[0]
			v.Size += 50
			return providers.KindInstance, providers.Pointer("nonRootVolumes", v.DeviceName, "size")
		},
		"profile by ARN": func(t *testing.T, c *awsApplyCase) (string, string) {
			if err := c.env.InstanceProfile(t.Context(), "others"); err != nil {
				t.Fatal(err)
			}
			storage(c).Spec.IAMInstanceProfile = "arn:aws:iam::123456789012:instance-profile/others"
			return providers.KindInstance, "/iamInstanceProfileArn"
		},
		"second interface": func(t *testing.T, c *awsApplyCase) (string, string) {
			m := storage(c)
			in := c.instance(t, *m.Spec.InstanceID)
			made, err := c.env.EC2.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: in.SubnetId})
			if err != nil {
				t.Fatal(err)
			}
			m.Spec.NetworkInterfaces = []string{*in.NetworkInterfaces[0].NetworkInterfaceId, *made.NetworkInterface.NetworkInterfaceId}
			return providers.KindNetworkInterface, "/instanceId"
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newAWSApplyOn(t, &ec2sim.Delays{})
			kind, path := edit(t, c)
			change := c.due(t, kind)
			if !slices.ContainsFunc(change.Fields, func(f providers.FieldChange) bool { return f.Path == path }) {
				t.Fatalf("%s did not drift: %+v", path, change.Fields)
			}
			if err := c.apply(t, change); err != nil {
				t.Fatal(err)
			}
			c.expectInSync(t)
		})
	}
}

// The second modification of a volume within six hours is refused, and the text
// says why.
func TestAWSApplyOneModificationInSixHours(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{})
	c.play(t, "root volume slowed down")
	err := c.apply(t, c.due(t, providers.KindInstance))
	if reasonOf(err) != providers.ReasonRefused || !strings.Contains(err.Error(), "six hours") {
		t.Errorf("got %v", err)
	}
}

// While a modification has not come through, the volume shows the old values:
// asking again is success and no second modification.
func TestAWSApplyVolumeUnderModification(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{VolumeModifying: 1 << 40})
	c.env.AWSMachines[0].Spec.RootVolume.Size += 20
	change := c.due(t, providers.KindInstance)
	c.server.ResetCalls()
	for range 3 {
		if err := c.apply(t, change); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.server.CallCounts()["ec2:ModifyVolume"]; n != 1 {
		t.Errorf("%d modifications", n)
	}
}

// C10: an interface of the CNI's keeps its groups when those of the primary one
// are repaired.
func TestC10RepairLeavesTheCNIsInterfaceAlone(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{})
	c.play(t, "security group detached from an instance")
	c.play(t, "interface of a CNI with groups of its own")
	change := c.due(t, providers.KindInstance)
	before := c.instance(t, change.Resource.Name)
	if len(before.NetworkInterfaces) < 2 {
		t.Fatal("the instance has no second interface")
	}
	if err := c.apply(t, change); err != nil {
		t.Fatal(err)
	}
	groups := func(in *ec2types.Instance, index int32) (ids []string) {
		for _, eni := range in.NetworkInterfaces {
			if sdk.ToInt32(eni.Attachment.DeviceIndex) == index {
				for _, g := range eni.Groups {
					ids = append(ids, sdk.ToString(g.GroupId))
				}
			}
		}
		return ids
	}
	after := c.instance(t, change.Resource.Name)
	if !slices.Equal(groups(before, 1), groups(after, 1)) || slices.Equal(groups(before, 0), groups(after, 0)) {
		t.Errorf("groups were %v and %v, and are %v and %v", groups(before, 0), groups(before, 1), groups(after, 0), groups(after, 1))
	}
	c.expectInSync(t)
}

// C07: a rule that the load balancer controller has made since the change was
// decided is not revoked.
func TestC07ForeignRuleIsNotRevoked(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{})
	c.play(t, "SSH opened to the world")
	change := c.due(t, providers.KindSecurityGroup)
	c.play(t, "rule of the load balancer controller")
	for _, f := range c.scan(t) {
		if f.Status != "Foreign" {
			continue
		}
		change.Fields = []providers.FieldChange{{Path: "/ingress", Have: f.Diffs[0].Have, Element: true, Mutability: providers.InPlace}}
	}
	c.server.ResetCalls()
	if got := reasonOf(c.apply(t, change)); got != providers.ReasonForeign {
		t.Errorf("got %q", got)
	}
	if n := len(c.server.Mutations()); n > 0 {
		t.Errorf("%d mutating calls", n)
	}
}

// C05, C06: of two changes, each decided by the same read, the second finds
// everything done. It gets there by another way as well: rules that come or go
// between the read and the write are EC2's to report, and no error.
func TestC05C06RuleThatIsSoAlreadyIsSuccess(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{})
	c.play(t, "node ports narrowed to one host")
	change := c.due(t, providers.KindSecurityGroup)
	for code, action := range map[string]string{"InvalidPermission.Duplicate": "AuthorizeSecurityGroupIngress", "InvalidPermission.NotFound": "RevokeSecurityGroupIngress"} {
		defer c.server.InjectFault(ec2sim.Fault{Action: action, Kind: ec2sim.FaultError, Code: code, Status: 400})()
	}
	if err := c.apply(t, change); err != nil {
		t.Error(err)
	}
}

// C06: rules are added in one call. Where EC2 refuses the lot for one of them, the
// others are added all the same.
func TestC06RulesAreAddedTogether(t *testing.T) {
	for name, tc := range map[string]struct {
		fails string // the code with which the first call fails; empty is none
	}{
		"all":            {},
		"one is there":   {fails: "InvalidPermission.Duplicate"},
		"one is refused": {fails: "RulesPerSecurityGroupLimitExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newAWSApplyOn(t, &ec2sim.Delays{})
			ctx := t.Context()
			id := c.env.AWSCluster.Status.Network.SecurityGroups["controlplane"].ID
			out, err := c.env.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{id}})
			if err != nil {
				t.Fatal(err)
			}
			rules := out.SecurityGroups[0].IpPermissions
			if _, err := c.env.EC2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &id, IpPermissions: rules}); err != nil {
				t.Fatal(err)
			}
			change := c.due(t, providers.KindSecurityGroup)
			n := len(change.Fields)
			if n < 3 {
				t.Fatalf("%d rules are to be added", n)
			}
			want := 1
			if tc.fails != "" {
				want = 1 + n
				defer c.server.InjectFault(ec2sim.Fault{Action: "AuthorizeSecurityGroupIngress", Kind: ec2sim.FaultError, Code: tc.fails, Status: 400, Times: 1})()
			}
			c.server.ResetCalls()
			if err := c.apply(t, change); err != nil {
				t.Fatal(err)
			}
			if got := c.server.CallCounts()["ec2:AuthorizeSecurityGroupIngress"]; got != want {
				t.Errorf("%d rules took %d calls, want %d", n, got, want)
			}
			c.expectInSync(t)
		})
	}
}

// C15, C16: tags that are AWS's or another cluster's are written by no change,
// whatever it says; and what is not wanted is not written either.
func TestC16TagsOfOthersAreNotWritten(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{})
	c.play(t, "tag changed")
	change := c.due(t, providers.KindInstance)
	c.server.ResetCalls()
	for key, reason := range map[string]string{
		"aws:createdBy": providers.ReasonForeign, "AWS:x": providers.ReasonForeign,
		"kubernetes.io/cluster/other":                        providers.ReasonRefused,
		"sigs.k8s.io/cluster-api-provider-aws/cluster/other": providers.ReasonRefused,
		"Surprise": providers.ReasonRefused,
	} {
		change.Fields = []providers.FieldChange{{Path: providers.Pointer("tags", key), Want: providers.String("owned"), Mutability: providers.InPlace}}
		if strings.EqualFold(key[:4], "aws:") { // even where the wanted state has it
			change.Want = change.Want.Clone()
			change.Want.Set(change.Fields[0].Path, providers.Field{Value: providers.String("owned"), Mutability: providers.InPlace})
		}
		if got := reasonOf(c.apply(t, change)); got != reason {
			t.Errorf("%s: got %q, want %q", key, got, reason)
		}
	}
	if n := len(c.server.Mutations()); n > 0 {
		t.Errorf("%d mutating calls", n)
	}
}

// Calls that Apply makes are of the two documented policies.
func TestAWSApplyCallsOnlyWhatIsDocumented(t *testing.T) {
	allowed := append(documentedActions(t, "permissions-aws.json"), documentedActions(t, "permissions-aws-write.json")...)
	services := map[string]string{"ec2": "ec2:", "elb": "elasticloadbalancing:", "elbv2": "elasticloadbalancing:", "kms": "kms:"}
	for _, name := range []string{"listener deleted", "instance profile taken away", "root volume slowed down", "etcd rule revoked"} {
		c := newAWSApplyOn(t, &ec2sim.Delays{})
		c.play(t, name)
		c.clock.skip(restUntilModified)
		c.server.ResetCalls()
		c.repair(t, []awscluster.Finding{}, "")
		for _, call := range c.server.Calls() {
			if action := services[call.Service] + call.Action; !slices.Contains(allowed, action) && call.Service != "sts" {
				t.Errorf("%s: %s is in neither policy", name, action)
			}
		}
	}
}
