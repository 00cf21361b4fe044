package awscluster_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

const region = "eu-central-1"

func build(t *testing.T, name string, edit func(*awscluster.Manifest)) (*awscluster.Environment, error) {
	t.Helper()
	server := ec2sim.New(ec2sim.Options{Regions: []string{region}, Delays: &ec2sim.Delays{}})
	t.Cleanup(server.Close)
	image, err := server.AddImage(server.DefaultScope(region), ec2sim.Image{Name: "node"})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := awscluster.Load(awsexamples.Files, name)
	if err != nil {
		t.Fatal(err)
	}
	return awscluster.Build(t.Context(), awscluster.ClientsFrom(server.Config(region)), awscluster.Options{
		Manifest: manifest, Edit: edit, Image: image, Simulator: server, Workers: map[string]int32{"prod-eu-general": 1},
	})
}

// The builder is a witness of its own, so what it made is read back here
// without any of Holdfast's providers.
func TestBuild(t *testing.T) {
	for name, want := range map[string]struct {
		machines, subnets int
		groups            []string
	}{
		"prod-eu.yaml":     {3 + 1 + 2, 6, []string{"default", "prod-eu-apiserver-lb", "prod-eu-controlplane", "prod-eu-lb", "prod-eu-node"}},
		"dev-classic.yaml": {1 + 1, 4, []string{"default", "dev-classic-apiserver-lb", "dev-classic-controlplane", "dev-classic-lb", "dev-classic-node"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, err := build(t, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			checkInstances(ctx, t, env, want.machines)
			subnets, err := env.EC2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
			if err != nil || len(subnets.Subnets) != want.subnets {
				t.Errorf("%d subnets, %v: want %d", len(subnets.Subnets), err, want.subnets)
			}
			groups, err := env.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, g := range groups.SecurityGroups {
				names = append(names, aws.ToString(g.GroupName))
			}
			slices.Sort(names)
			if diff := cmp.Diff(want.groups, names); diff != "" {
				t.Errorf("security groups (-want +got):\n%s", diff)
			}
			if owners := env.Owners(); len(owners) != want.machines+1 {
				t.Errorf("%d owners, want every machine and the cluster", len(owners))
			}
			if env.AWSCluster.Spec.ControlPlaneEndpoint.Host == "" || !env.AWSCluster.Status.Ready {
				t.Error("the AWSCluster has no endpoint or is not ready")
			}
		})
	}
}

// checkInstances compares the instances that run with the machines that record
// them, and their tags with those that CAPA documents.
func checkInstances(ctx context.Context, t *testing.T, env *awscluster.Environment, want int) {
	t.Helper()
	out, err := env.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	running := map[string]map[string]string{}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			tags := map[string]string{}
			for _, tag := range i.Tags {
				tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
			}
			running[aws.ToString(i.InstanceId)] = tags
		}
	}
	if len(running) != want || len(env.Machines) != want {
		t.Fatalf("%d instances and %d machines, want %d", len(running), len(env.Machines), want)
	}
	for i, m := range env.Machines {
		id := aws.ToString(env.AWSMachines[i].Spec.InstanceID)
		tags, ok := running[id]
		if !ok || !strings.HasSuffix(m.Spec.ProviderID, "/"+id) {
			t.Errorf("machine %s records %s and %s, and no such instance runs", m.Name, id, m.Spec.ProviderID)
		}
		if tags["Name"] != m.Name || tags["MachineName"] != m.Namespace+"/"+m.Name || tags[infrav1.ClusterTagKey(env.Cluster.Name)] != "owned" {
			t.Errorf("instance of %s is tagged %v", m.Name, tags)
		}
	}
}

// What the builder cannot play it refuses: left out in silence it would be
// drift that nobody made.
func TestBuildRefusesWhatItCannotPlay(t *testing.T) {
	for name, edit := range map[string]func(*infrav1.AWSClusterSpec){
		"a VPC that exists":     func(s *infrav1.AWSClusterSpec) { s.NetworkSpec.VPC.ID = "vpc-1" },
		"a block of IPv6":       func(s *infrav1.AWSClusterSpec) { s.NetworkSpec.VPC.IPv6 = &infrav1.IPv6{CidrBlock: "2001:db8::/56"} },
		"generated subnets":     func(s *infrav1.AWSClusterSpec) { s.NetworkSpec.Subnets = nil },
		"a bastion of no image": func(s *infrav1.AWSClusterSpec) { s.Bastion.Enabled = true },
		"a nameless second load balancer": func(s *infrav1.AWSClusterSpec) {
			s.SecondaryControlPlaneLoadBalancer = &infrav1.AWSLoadBalancerSpec{}
		},
		"an unknown type": func(s *infrav1.AWSClusterSpec) { s.ControlPlaneLoadBalancer.LoadBalancerType = "elb" },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build(t, "prod-eu.yaml", func(m *awscluster.Manifest) { edit(&m.AWSCluster.Spec) })
			if err == nil || !strings.Contains(err.Error(), "not played here") {
				t.Errorf("got %v, want a refusal", err)
			}
		})
	}
}

func TestLoadIsStrict(t *testing.T) {
	good, err := awsexamples.Files.ReadFile("dev-classic.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(string) string{
		"unknown field": func(s string) string { return strings.Replace(s, "  region:", "  regoin: x\n  region:", 1) },
		"duplicate key": func(s string) string { return strings.Replace(s, "  region:", "  region: x\n  region:", 1) },
		"unknown kind": func(s string) string {
			return strings.Replace(s, "kind: MachineDeployment", "kind: MachineDeplyoment", 1)
		},
		"second cluster": func(s string) string { return s + "\n---\n" + s },
		"no AWSCluster": func(s string) string {
			return strings.Join(slices.DeleteFunc(strings.Split(s, "---\n"), func(d string) bool { return strings.Contains(d, "\nkind: AWSCluster\n") }), "---\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{"c.yaml": {Data: []byte(edit(string(good)))}}
			if _, err := awscluster.Load(files, "c.yaml"); err == nil || !strings.Contains(err.Error(), "c.yaml") {
				t.Errorf("got %v, want an error that names the file", err)
			}
		})
	}
}

// A tamper's name is a subtest's, and the catalog's rows are what users read.
func TestTampersAreNamedAndPlaced(t *testing.T) {
	names := map[string]bool{}
	rows := map[string]bool{}
	for _, tamper := range awscluster.Tampers() {
		if tamper.Name == "" || tamper.Row == "" || tamper.Do == nil || names[tamper.Name] {
			t.Errorf("tamper %q lacks a name of its own, a row or what to do", tamper.Name)
		}
		if tamper.NotOnMoto != "" && tamper.NotOnSim != "" {
			t.Errorf("tamper %q is done nowhere", tamper.Name)
		}
		names[tamper.Name], rows[tamper.Row] = true, true
	}
	want := []string{
		"IAM instance profile", "NAT gateways", "VPC", "a private subnet with an internet-gateway route", "a rule", "bastion", "existence",
		"foreign security group attached", "further volumes", "image", "instance type", "internet gateway, egress-only gateway",
		"key pair", "load balancer", "load balancer registration",
		"market and tenancy, placement group, capacity reservation, cpu options", "metadata options", "network ACLs", "orphans",
		"public address", "root volume encryption, key", "root volume size, type, iops, throughput", "route tables",
		"scheduled events", "security groups", "security groups on the primary interface", "stopped by a person",
		"stopped by the cloud, spot reclaimed, retired", "subnet, zone", "subnets", "tags", "terminated",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Errorf("rows of the drift catalog (-want +got):\n%s", diff)
	}
}
