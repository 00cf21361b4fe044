package suites_test

import (
	"net/http"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/report"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// C07: somebody opens a port of every node to the world, and describes the rule
// as the load balancer controller's. The report shows it, critical, and fails;
// and a policy that repairs all that it can does not revoke it, for the
// controller may after all have made it. Its own rule for a load balancer's
// group stays foreign.
func TestC07ForgedDescriptionIsReported(t *testing.T) {
	server, image := newEC2Sim(t)
	cloud := &awsCloud{
		options: awscluster.Options{Simulator: server, Image: image},
		clients: func(region string) awscluster.Clients { return awscluster.ClientsFrom(server.Config(region)) },
	}
	env := cloud.build(t, &awscluster.Variants()[0], 1)
	groups := env.AWSCluster.Status.Network.SecurityGroups
	const controllers = "elbv2.k8s.aws/targetGroupBinding=shared"
	if _, err := env.EC2.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId: sdk.String(groups[infrav1.SecurityGroupNode].ID),
		IpPermissions: []ec2types.IpPermission{{
			IpProtocol: sdk.String("tcp"), FromPort: sdk.Int32(22), ToPort: sdk.Int32(22),
			IpRanges:         []ec2types.IpRange{{CidrIp: sdk.String("0.0.0.0/0"), Description: sdk.String(controllers)}},
			UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: sdk.String(groups[infrav1.SecurityGroupLB].ID), Description: sdk.String(controllers)}},
		}},
	}); err != nil {
		t.Fatal(err)
	}
	set, problems := policies.LoadSources(policies.Options{}, policies.Source{Name: "everything.yaml", Data: []byte(`
apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: everything}
spec:
  match: {clusters: [{namespace: "*", name: "*"}]}
  mode: enforce
  rules:
  - {id: everything, target: {provider: aws, kind: SecurityGroup, statuses: [Drifted, Foreign]}, severity: low, action: patch}
`)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	findings := scanAWS(t, env)
	for name, tt := range map[string]struct {
		set      *policies.Set
		severity policies.Severity
	}{"built-in policies": {nil, policies.Critical}, "a policy that repairs everything": {set, policies.Low}} {
		t.Run(name, func(t *testing.T) {
			decisions := policies.Decide(policies.Input{Findings: findings, Policies: tt.set})
			for i := range decisions {
				if d := &decisions[i]; d.Executable() || d.Action != policies.Observe {
					t.Errorf("%s %s is answered by %s", d.Finding.Resource.ID, d.Finding.Status, d.Action)
				}
			}
			r := report.Build(report.BuildInput{Decisions: decisions})
			if len(r.Findings) != 1 || r.Summary.Foreign != 1 {
				t.Fatalf("%d findings listed and %d foreign, want 1 and 1", len(r.Findings), r.Summary.Foreign)
			}
			f := &r.Findings[0]
			if f.Status != detector.Drifted || f.Severity != tt.severity || f.Diffs[0].Have.Text() != "tcp 22-22 from 0.0.0.0/0" {
				t.Errorf("listed as %s, %s: %+v", f.Status, f.Severity, f.Diffs)
			}
			if r.Outcome(policies.Low) != report.OutcomeDrift {
				t.Error("the report does not fail")
			}
		})
	}
}

// A root volume's key may be named by an alias. It is compared by the key that
// the alias points at; without the permission to look, that field alone is not
// checked.
func TestKeyAliasOnSimulator(t *testing.T) {
	server, image := newEC2Sim(t)
	for _, alias := range []string{"alias/disks", "alias/other"} {
		if _, err := server.AddKey(server.DefaultScope(simRegion), alias); err != nil {
			t.Fatal(err)
		}
	}
	cloud := &awsCloud{
		options: awscluster.Options{Simulator: server, Image: image},
		clients: func(region string) awscluster.Clients { return awscluster.ClientsFrom(server.Config(region)) },
	}
	env := cloud.build(t, &awscluster.Variant{Manifest: awscluster.DefaultExample, Edit: func(m *awscluster.Manifest) {
		for _, template := range m.MachineTemplates {
			template.Spec.Template.Spec.RootVolume.EncryptionKey = "alias/disks"
		}
	}}, 1) // expects no finding
	machine := env.AWSMachines[0]
	key := func() string {
		t.Helper()
		out, err := env.EC2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{Filters: []ec2types.Filter{
			{Name: sdk.String("attachment.instance-id"), Values: []string{*machine.Spec.InstanceID}},
		}})
		if err != nil || len(out.Volumes) == 0 {
			t.Fatalf("find the volumes of %s: %v", *machine.Spec.InstanceID, err)
		}
		arn := sdk.ToString(out.Volumes[0].KmsKeyId)
		return arn[strings.LastIndexByte(arn, '/')+1:]
	}
	machine.Spec.RootVolume.EncryptionKey = "alias/other"
	var other string
	findings := scanAWS(t, env)
	for _, f := range findings {
		if f.Status == detector.Drifted && len(f.Diffs) == 1 && f.Diffs[0].Path == "/rootVolume/kmsKeyId" {
			other = f.Diffs[0].Want.Text()
			if have := f.Diffs[0].Have.Text(); have != key() || other == have || strings.HasPrefix(other, "alias/") {
				t.Errorf("wanted %q, seen %q, and the volume has %q", other, have, key())
			}
		}
	}
	if other == "" || len(findings) != 1 {
		t.Errorf("findings %+v, want the other key alone", findings)
	}

	defer server.InjectFault(ec2sim.Fault{Action: "ListAliases", Kind: ec2sim.FaultError, Code: "AccessDeniedException", Status: http.StatusBadRequest})()
	provider, owners := loadAWS(t, env)
	var scope providers.Scope
	var err error
	for _, o := range owners {
		if scope, err = provider.Scope(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := provider.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	unchecked := 0
	for _, o := range owners {
		want, err := provider.Desired(o, snap)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range detector.Compare(o, want, snap, detector.Options{}).Findings {
			if f.Status != detector.NotChecked || !strings.Contains(f.Reason, "AccessDenied") {
				t.Errorf("%s of %s: %s", f.Status, f.Owner, f.Reason)
			}
			unchecked++
		}
	}
	if unchecked != len(env.AWSMachines) {
		t.Errorf("%d findings, want one for the key of each of %d machines", unchecked, len(env.AWSMachines))
	}
}
