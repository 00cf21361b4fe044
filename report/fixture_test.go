package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// at is the time of every fixture.
var at = time.Date(2026, 11, 30, 10, 16, 45, 0, time.UTC)

func awsMachine(cluster, name string) providers.OwnerRef {
	return providers.OwnerRef{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "AWSMachine",
		Namespace: "prod", Name: cluster + "-" + name, UID: types.UID("uid-" + cluster + "-" + name),
	}
}

func awsCluster(name string) providers.OwnerRef {
	return providers.OwnerRef{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "AWSCluster",
		Namespace: "prod", Name: name, UID: types.UID("uid-" + name),
	}
}

func vsphereMachine(name string) providers.OwnerRef {
	return providers.OwnerRef{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "VSphereMachine",
		Namespace: "edge", Name: name, UID: types.UID("uid-" + name),
	}
}

func resource(provider, kind, id, name string) detector.ResourceRef {
	return detector.ResourceRef{Provider: provider, Kind: kind, ID: id, Name: name}
}

func changed(path string, want, have providers.Value) detector.Diff {
	return detector.Diff{Path: path, Want: want, Have: have, Type: detector.Changed}
}

func added(path, element string) detector.Diff {
	return detector.Diff{Path: path, Have: providers.String(element), Type: detector.Added}
}

func removed(path, element string) detector.Diff {
	return detector.Diff{Path: path, Want: providers.String(element), Type: detector.Removed}
}

// decision makes one, observed by a policy in observe mode, with mods.
func decision(cluster string, owner providers.OwnerRef, r detector.ResourceRef, mods ...func(*policies.Decision)) policies.Decision {
	d := policies.Decision{
		Finding: detector.Finding{
			Cluster: detector.ClusterRef{Namespace: "prod", Name: cluster}, Owner: owner, Resource: r,
			Status: detector.Drifted, SeenAt: at,
		},
		Action: policies.Observe, Severity: policies.Medium, Mode: policies.ModeObserve,
		Rule:   policies.RuleRef{ID: "tags", Policy: "aws-defaults", Position: policies.Position{File: "builtin/aws.yaml", Line: 41, Column: 5}},
		Reason: "tags can be written in place",
	}
	for _, m := range mods {
		m(&d)
	}
	if d.Finding.Fingerprint == "" {
		paths := ""
		for _, diff := range d.Finding.Diffs {
			paths += diff.Path + " "
		}
		sum := sha256.Sum256(fmt.Append(nil, d.Finding.Cluster, owner, r.Kind, r.ID, d.Finding.Status, paths))
		d.Finding.Fingerprint = hex.EncodeToString(sum[:16])
	}
	return d
}

func with(diffs ...detector.Diff) func(*policies.Decision) {
	return func(d *policies.Decision) { d.Finding.Diffs = diffs }
}

func status(s detector.Status, reason string) func(*policies.Decision) {
	return func(d *policies.Decision) { d.Finding.Status, d.Finding.Reason = s, reason }
}

func severity(s policies.Severity, a policies.Action) func(*policies.Decision) {
	return func(d *policies.Decision) { d.Severity, d.Action = s, a }
}

func rule(id, policy, file string, line int) func(*policies.Decision) {
	return func(d *policies.Decision) {
		d.Rule = policies.RuleRef{ID: id, Policy: policy, Position: policies.Position{File: file, Line: line}}
	}
}

func pool(name string) func(*policies.Decision) {
	return func(d *policies.Decision) { d.Finding.Pool = name }
}

func since(t time.Time) func(*policies.Decision) {
	return func(d *policies.Decision) { d.FirstSeen = t }
}

func blocked(by, detail string, until time.Time) func(*policies.Decision) {
	return func(d *policies.Decision) {
		d.Blocked = append(d.Blocked, policies.Block{By: by, Detail: detail, Until: until})
	}
}

func observing() func(*policies.Decision) {
	return blocked("Mode", "policy aws-defaults is in observe mode (builtin/aws.yaml:6)", time.Time{})
}

func ignored(by, reason string, until time.Time) func(*policies.Decision) {
	return func(d *policies.Decision) {
		d.Ignored = &policies.Ignored{By: by, Reason: reason, ExpiresAt: until, Position: policies.Position{File: "policies/prod.yaml", Line: 30}}
	}
}

func awsScope() providers.Scope {
	return providers.Scope{Provider: "aws", Account: "111122223333", Region: "eu-central-1"}
}

// sample is a scan of two AWS clusters and a vSphere one, with every status
// and every severity in it.
func sample() BuildInput {
	in := BuildInput{Version: "v0.1.0", Now: at}
	in.Clusters = []ClusterInput{
		{
			Ref: detector.ClusterRef{Namespace: "prod", Name: "eu-1"}, Provider: "aws", Scope: awsScope(),
			SnapshotTime: at.Add(-42 * time.Second), Checked: 312, NotChecked: 14, Owners: awsOwners("eu-1"),
		},
		{
			Ref: detector.ClusterRef{Namespace: "prod", Name: "eu-2"}, Provider: "aws", Scope: awsScope(),
			SnapshotTime: at.Add(-42 * time.Second), Checked: 198, Owners: awsOwners("eu-2"),
		},
		{
			Ref: detector.ClusterRef{Namespace: "edge", Name: "plant-7"}, Provider: "vsphere",
			Scope:        providers.Scope{Provider: "vsphere", Account: "vcenter.plant-7.example.com"},
			SnapshotTime: at.Add(-3 * time.Minute), Checked: 57, NotChecked: 3,
			Owners: []Owner{{OwnerRef: vsphereMachine("plant-7-cp-0"), Pool: "KubeadmControlPlane/plant-7"}, {OwnerRef: vsphereMachine("plant-7-w-0")}},
		},
	}
	in.Decisions = append(machineDecisions(), clusterDecisions()...)
	in.Decisions = append(in.Decisions, edgeDecisions()...)
	in.Problems = []Problem{
		{Object: "clusters/staging.yaml:12", Reason: "UnmodelledKind", Message: "AWSManagedControlPlane prod/staging is not modelled: EKS control planes are not compared"},
		{Cluster: &detector.ClusterRef{Namespace: "edge", Name: "plant-7"}, Reason: "CredentialsUnavailable", Object: "VSphereClusterIdentity plant-7",
			Message: "Secret capv-system/plant-7 has no key \"password\": tags were not read"},
	}
	return in
}

func awsOwners(cluster string) []Owner {
	owners := []Owner{{OwnerRef: awsCluster(cluster), Source: "clusters/" + cluster + ".yaml:14", InSync: []detector.ResourceRef{
		resource("aws", "VPC", "vpc-0a", cluster+"-vpc"), resource("aws", "Subnet", "subnet-0a", ""), resource("aws", "Subnet", "subnet-0b", ""),
	}}}
	for _, name := range []string{"cp-0", "cp-1", "cp-2"} {
		owners = append(owners, Owner{OwnerRef: awsMachine(cluster, name), Pool: "KubeadmControlPlane/" + cluster + "-cp",
			InSync: []detector.ResourceRef{resource("aws", "Instance", "i-"+name, cluster+"-"+name)}})
	}
	for _, name := range []string{"md-0-7xk2p", "md-0-9qq1r", "md-0-zz81c", "md-1-a1b2c"} {
		owners = append(owners, Owner{OwnerRef: awsMachine(cluster, name), Pool: "MachineDeployment/" + cluster + "-" + name[:4],
			Source: "clusters/" + cluster + ".yaml:120"})
	}
	return owners
}

func machineDecisions() []policies.Decision {
	var out []policies.Decision
	for i, name := range []string{"md-0-7xk2p", "md-0-9qq1r", "md-0-zz81c"} {
		id := fmt.Sprintf("i-0a1b2c3d4e5f6a7b%d", i)
		out = append(out,
			decision("eu-1", awsMachine("eu-1", name), resource("aws", "Instance", id, "eu-1-"+name),
				with(changed("/instanceType", providers.String("m5.large"), providers.String("m5.4xlarge"))),
				severity(policies.High, policies.Replace), rule("instance-type", "aws-defaults", "builtin/aws.yaml", 14),
				pool("MachineDeployment/eu-1-md-0"), since(at.Add(-time.Duration(50+i)*time.Hour)), observing()),
			decision("eu-1", awsMachine("eu-1", name), resource("aws", "Instance", id, "eu-1-"+name),
				with(removed("/tags/cost-centre", "4711"), changed("/tags/owner", providers.String("platform"), providers.String("Platform"))),
				severity(policies.Low, policies.Patch), pool("MachineDeployment/eu-1-md-0"), observing()),
		)
	}
	return append(out,
		decision("eu-1", awsMachine("eu-1", "md-1-a1b2c"), resource("aws", "Instance", "i-0dead0000beef0000", "eu-1-md-1-a1b2c"),
			status(detector.Missing, "terminated: Server.SpotInstanceTermination"),
			with(changed("/state", providers.String("running"), providers.Value{})), severity(policies.High, policies.Replace),
			rule("instance-gone", "prod", "policies/prod.yaml", 22), pool("MachineDeployment/eu-1-md-1"), since(at.Add(-17*time.Minute)),
			blocked("Window", "deny window business-hours: no replace on weekdays from 08:00 to 18:00 Europe/Berlin", at.Add(7*time.Hour)),
			blocked("Budget", "pool MachineDeployment/eu-1-md-1 allows 1 and 1 is in flight", time.Time{})),
		decision("eu-1", awsMachine("eu-1", "cp-1"), resource("aws", "Instance", "i-cp-1", "eu-1-cp-1"),
			with(changed("/userData", providers.String("a"), providers.String("b")), changed("/rootVolume/size", providers.Int(80), providers.Int(120)),
				added("/securityGroups", "sg-0ff0ff0ff0ff0ff0f")),
			func(d *policies.Decision) { d.Finding.Diffs[0].Sensitive = true },
			severity(policies.Medium, policies.Observe), pool("KubeadmControlPlane/eu-1-cp"),
			rule("root-volume", "aws-defaults", "builtin/aws.yaml", 60)),
		decision("eu-1", awsMachine("eu-1", "cp-2"), resource("aws", "Volume", "", ""), status(detector.NotChecked,
			"DescribeVolumes: UnauthorizedOperation: not allowed to perform ec2:DescribeVolumes"), pool("KubeadmControlPlane/eu-1-cp"), severity(policies.Info, policies.Observe)),
		decision("eu-1", awsMachine("eu-1", "cp-0"), resource("aws", "Volume", "", ""), status(detector.NotChecked,
			"DescribeVolumes: UnauthorizedOperation: not allowed to perform ec2:DescribeVolumes"), pool("KubeadmControlPlane/eu-1-cp"), severity(policies.Info, policies.Observe)),
	)
}

func clusterDecisions() []policies.Decision {
	owner := awsCluster("eu-1")
	return []policies.Decision{
		decision("eu-1", owner, resource("aws", "SecurityGroup", "sg-0a1b2c3d4e5f60718", "eu-1-controlplane"),
			with(added("/ingress", "tcp 22-22 from 0.0.0.0/0"), removed("/ingress", "tcp 6443-6443 from 10.0.0.0/16")),
			severity(policies.Critical, policies.Patch), rule("open-to-the-world", "aws-defaults", "builtin/aws.yaml", 88),
			since(at.Add(-5*24*time.Hour)), observing()),
		decision("eu-1", owner, resource("aws", "RouteTable", "rtb-0c0ffee0c0ffee000", "eu-1-private-a"),
			with(changed("/routes/0.0.0.0~10", providers.String("nat-0123456789abcdef0"), providers.String("igw-0fedcba9876543210"))),
			func(d *policies.Decision) { d.Finding.Diffs[0].Adopted = true },
			severity(policies.Critical, policies.Observe), rule("private-subnet-exposed", "aws-defaults", "builtin/aws.yaml", 101)),
		decision("eu-1", owner, resource("aws", "LoadBalancer", "arn:aws:elasticloadbalancing:eu-central-1:111122223333:loadbalancer/net/eu-1-apiserver/50dc6c495c0c9188", "eu-1-apiserver"),
			with(changed("/attributes/crossZone", providers.Bool(true), providers.Bool(false))),
			severity(policies.Info, policies.Observe), rule("load-balancer", "aws-defaults", "builtin/aws.yaml", 130),
			func(d *policies.Decision) {
				d.Finding.Warnings = []string{"a port limit on protocol -1 has no effect"}
			}),
		decision("eu-1", providers.OwnerRef{}, resource("aws", "Instance", "i-0aaaaaaaaaaaaaaaa", "eu-1-old-bastion"),
			status(detector.Unexpected, "carries the tag of cluster eu-1 and belongs to no object"),
			severity(policies.Medium, policies.Observe), rule("orphans", "aws-defaults", "builtin/aws.yaml", 150)),
		decision("eu-1", owner, resource("aws", "SecurityGroup", "sg-node", "eu-1-node"), status(detector.Foreign, "rules of a load-balancer controller"),
			with(added("/ingress", "tcp 8080-8080 from sg-lb")), severity(policies.Info, policies.Observe)),
		decision("eu-1", owner, resource("aws", "Subnet", "subnet-0a", "eu-1-a"), with(removed("/tags/backup~1last", "2026-11-29")),
			ignored("storage-team", "backup tool", at.Add(90*24*time.Hour))),
	}
}

func edgeDecisions() []policies.Decision {
	edge := func(d *policies.Decision) {
		d.Finding.Cluster = detector.ClusterRef{Namespace: "edge", Name: "plant-7"}
	}
	return []policies.Decision{
		decision("plant-7", vsphereMachine("plant-7-cp-0"), resource("vsphere", "VirtualMachine", "422e2bd0-5a4e-9f0c-6a2e-000000000001", "plant-7-cp-0"), edge,
			with(changed("/numCPUs", providers.Int(4), providers.Int(8)), changed("/memoryMiB", providers.Int(8192), providers.Int(16384)),
				changed("/networks/0/networkName", providers.String("/Werk 7/network/Fertigung-Süd"), providers.String("/Werk 7/network/検査ライン"))),
			severity(policies.Medium, policies.Replace), rule("hardware", "plant", "policies/plant.yaml", 9), pool("KubeadmControlPlane/plant-7"),
			blocked("ControlPlane", "machines of a control plane are only observed (safety.controlPlane)", time.Time{})),
		decision("plant-7", vsphereMachine("plant-7-w-0"), resource("vsphere", "VirtualMachine", "422e2bd0-5a4e-9f0c-6a2e-000000000002", "plant-7-w-0"), edge,
			status(detector.Unknown, "the VM is inaccessible: its host esx-3 does not answer"), severity(policies.Info, policies.Observe)),
	}
}
