package aws

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// A machine is made, is behind its load balancer, is said to be ready, is looked
// at again without a change, and goes.
func TestMachine(t *testing.T) {
	for name, ground := range map[string]func(t *testing.T) *machineGround{
		"network load balancer": func(t *testing.T) *machineGround { return newMachineGround(t, "prod-eu.yaml", ec2sim.Options{}) },
		"classic":               func(t *testing.T) *machineGround { return newMachineGround(t, "dev-classic.yaml", ec2sim.Options{}) },
		"moto":                  func(t *testing.T) *machineGround { return newMotoGround(t, "dev-classic.yaml") },
	} {
		t.Run(name, func(t *testing.T) {
			g := ground(t)
			instance := g.made()
			m := g.m
			id := *instance.InstanceId
			if want := "aws:///eu-central-1a/" + id; deref(m.Spec.ProviderID) != want || !m.Status.Ready || deref(m.Status.InstanceState) != "running" {
				t.Errorf("provider id %q, ready %t, state %q: want %s and ready", deref(m.Spec.ProviderID), m.Status.Ready, deref(m.Status.InstanceState), want)
			}
			for _, kind := range []string{"Ready", "InstanceReady", "SecurityGroupsReady", "ELBAttached"} {
				if got := conditionOf(m, kind); got != "True" {
					t.Errorf("%s is %q: %s", kind, got, messageOf(m, kind))
				}
			}
			addresses := []clusterv1beta1.MachineAddress{
				{Type: "InternalDNS", Address: *instance.NetworkInterfaces[0].PrivateDnsName}, {Type: "InternalIP", Address: *instance.PrivateIpAddress},
			}
			if diff := cmp.Diff(addresses, m.Status.Addresses[:2]); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			if got := g.booted(); got != bootData {
				t.Errorf("it boots with %q", got)
			}
			for _, key := range []string{ownerTag, machineNameTag, "sigs.k8s.io/cluster-api-provider-aws/cluster/" + g.cluster.Name, "kubernetes.io/cluster/" + g.cluster.Name} {
				if tagged(instance.Tags, key) == "" {
					t.Errorf("no tag %s", key)
				}
			}
			// What is as wanted stays, in the cloud and in the object.
			before := m.DeepCopy()
			g.observe()
			if waiting, err := g.pass(); waiting != "" || err != nil {
				t.Errorf("a second pass waits for %q: %v", waiting, err)
			}
			if diff := cmp.Diff(before, m); diff != "" {
				t.Errorf("a second pass changed the object:\n%s", diff)
			}
			if all := g.all(); len(all) != 1 {
				t.Errorf("instances %v", all)
			}
			rest, err := g.unmake()
			if err != nil {
				t.Fatal(err)
			}
			if len(rest) > 0 {
				if rest, err = g.unmake(); err != nil || len(rest) > 0 {
					t.Errorf("left: %v, %v", rest, err)
				}
			}
			if got := conditionOf(m, "InstanceReady"); got != "False Deleted" {
				t.Errorf("InstanceReady is %q", got)
			}
			if state := g.instance().State.Name; state != "terminated" {
				t.Errorf("the instance is %s", state)
			}
		})
	}
}

// The volumes and interfaces of an instance carry its tags, so that they can be
// told to be the cluster's.
func TestMachineTagsWhatComesWithIt(t *testing.T) {
	g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
	g.made()
	byOwner := []ec2types.Filter{{Name: ptr("tag:" + ownerTag), Values: []string{string(g.m.UID)}}}
	volumes, err := g.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{Filters: byOwner})
	if err != nil || len(volumes.Volumes) != 1 {
		t.Errorf("volumes %v, %v", volumes, err)
	}
	interfaces, err := g.ec2.DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{Filters: byOwner})
	if err != nil || len(interfaces.NetworkInterfaces) != 1 {
		t.Errorf("interfaces %v, %v", interfaces, err)
	}
}

// While it starts, a machine waits for it, and is not registered anywhere.
func TestMachinePending(t *testing.T) {
	g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{Delays: &ec2sim.Delays{Pending: time.Hour}})
	g.observe()
	waiting, err := g.pass()
	if err != nil || waiting != "instance "+deref(g.m.Spec.InstanceID)+" is pending" {
		t.Fatalf("waiting for %q, %v", waiting, err)
	}
	if g.m.Status.Ready || conditionOf(g.m, "InstanceReady") != "False InstanceNotReady" || conditionOf(g.m, "ELBAttached") != "False ELBAttachFailed" {
		t.Errorf("%+v", g.m.Status)
	}
}

// Whatever call loses its answer, whether it was performed or not, one instance
// is made and all is well in the end.
func TestMachineLostAnswers(t *testing.T) {
	for _, performed := range []bool{true, false} {
		for _, action := range []string{"DescribeInstances", "RunInstances", "RegisterInstancesWithLoadBalancer", "DescribeImages"} {
			t.Run(action, func(t *testing.T) {
				g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
				g.m.Spec.AMI.ID = nil
				if _, err := g.sim.AddImage(g.sim.DefaultScope("eu-central-1"), ec2sim.Image{Name: "capa-ami-ubuntu-24.04-v1.34.2-1", Owner: imageOwner}); err != nil {
					t.Fatal(err)
				}
				g.observe()
				// All attempts of the first call are lost, as by a network that is down.
				remove := g.sim.InjectFault(ec2sim.Fault{Action: action, Kind: ec2sim.FaultDrop, AfterSuccess: performed, Times: maxAttempts})
				_, err := g.pass()
				remove()
				if err == nil {
					t.Fatal("no failure was seen")
				}
				if refusal := conditionOf(g.m, "InstanceReady"); action != "RegisterInstancesWithLoadBalancer" && refusal != "False InstanceProvisionFailed" {
					t.Errorf("InstanceReady is %q", refusal)
				}
				g.observe()
				if waiting, err := g.pass(); err != nil || waiting != "" {
					t.Fatalf("waiting for %q, %v", waiting, err)
				}
				if all := g.all(); len(all) != 1 || !g.m.Status.Ready {
					t.Errorf("instances %v, ready %t", all, g.m.Status.Ready)
				}
			})
		}
	}
}

// As long as EC2 does not show the tags of what was launched, the token tells.
func TestMachineToken(t *testing.T) {
	g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{Consistency: ec2sim.Consistency{TagsFor: time.Hour}})
	g.control = false
	g.observe()
	remove := g.sim.InjectFault(ec2sim.Fault{Action: "RunInstances", Kind: ec2sim.FaultDrop, AfterSuccess: true})
	if _, err := g.pass(); err == nil || len(g.all()) != 1 {
		t.Fatalf("%v, instances %v", err, g.all())
	}
	remove()
	g.observe()
	if _, err := g.pass(); err != nil || len(g.all()) != 1 || deref(g.m.Spec.InstanceID) != g.all()[0] {
		t.Errorf("%v, recorded %q of %v", err, deref(g.m.Spec.InstanceID), g.all())
	}
}

// Whatever call of its end loses its answer, a machine goes.
func TestMachineLostEnd(t *testing.T) {
	for _, performed := range []bool{true, false} {
		for action, example := range map[string]string{
			"DeregisterInstancesFromLoadBalancer": "dev-classic.yaml", "TerminateInstances": "dev-classic.yaml", "DeregisterTargets": "prod-eu.yaml",
		} {
			t.Run(action, func(t *testing.T) {
				g := newMachineGround(t, example, ec2sim.Options{})
				g.made()
				remove := g.sim.InjectFault(ec2sim.Fault{Action: action, Kind: ec2sim.FaultDrop, AfterSuccess: performed, Times: maxAttempts})
				if _, err := g.unmake(); err == nil {
					t.Fatal("no failure was seen")
				}
				remove()
				if rest, err := g.unmake(); err != nil || len(rest) > 0 || g.instance().State.Name != "terminated" {
					t.Errorf("left %v, %v", rest, err)
				}
			})
		}
	}
}

// A load balancer that may not be written, or is gone, keeps no machine.
func TestMachineGoesWithoutItsBalancer(t *testing.T) {
	for _, code := range []string{"AccessDenied", "LoadBalancerNotFound"} {
		g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
		g.made()
		g.sim.InjectFault(ec2sim.Fault{Action: "Deregister*", Kind: ec2sim.FaultError, Code: code})
		if rest, err := g.unmake(); err != nil || len(rest) > 0 {
			t.Errorf("%s: left %v, %v", code, rest, err)
		}
	}
}

// An instance that was launched by a process that died, and whose token EC2 has
// forgotten, is found by its owner.
func TestMachineFindsItsInstance(t *testing.T) {
	g := newMotoGround(t, "dev-classic.yaml") // moto knows no tokens
	g.observe()
	empty := g.snap
	g.made()
	id := deref(g.m.Spec.InstanceID)
	g.m.Spec.InstanceID, g.m.Spec.ProviderID = nil, nil
	g.snap = empty // as read before the launch
	if _, err := g.pass(); err != nil {
		t.Fatal(err)
	}
	if deref(g.m.Spec.InstanceID) != id || len(g.all()) != 1 {
		t.Errorf("recorded %q of %v, want %s alone", deref(g.m.Spec.InstanceID), g.all(), id)
	}
	// One that is gone is not followed by another.
	g.m.Spec.InstanceID, g.m.Spec.ProviderID = nil, nil
	if _, err := g.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	g.observe()
	waiting, err := g.pass()
	if err != nil || !strings.Contains(waiting, "has to be replaced") || deref(g.m.Status.FailureReason) != "UpdateError" || len(g.all()) != 1 {
		t.Errorf("waiting for %q, %v, failure %q, instances %v", waiting, err, deref(g.m.Status.FailureReason), g.all())
	}
}

// A terminated instance is a failure of its machine, and stays one.
func TestMachineTerminated(t *testing.T) {
	g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
	id := *g.made().InstanceId
	if err := g.sim.TerminateInstance(g.sim.DefaultScope("eu-central-1"), id, "Server.SpotInstanceTermination", "it was needed elsewhere"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		g.observe()
		if waiting, err := g.pass(); err != nil || !strings.Contains(waiting, "has to be replaced") {
			t.Fatalf("waiting for %q, %v", waiting, err)
		}
	}
	if g.m.Status.Ready || conditionOf(g.m, "InstanceReady") != "False InstanceTerminated" ||
		deref(g.m.Status.FailureMessage) != `EC2 instance state "terminated" is unexpected: Server.SpotInstanceTermination` {
		t.Errorf("%s %q", conditionOf(g.m, "InstanceReady"), deref(g.m.Status.FailureMessage))
	}
	if len(g.all()) != 1 {
		t.Errorf("instances %v", g.all())
	}
	if rest, err := g.unmake(); err != nil || len(rest) > 0 {
		t.Errorf("left %v, %v", rest, err)
	}
}

// Termination protection is said and left.
func TestMachineProtected(t *testing.T) {
	g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
	id := g.made().InstanceId
	if _, err := g.ec2.ModifyInstanceAttribute(t.Context(), &ec2.ModifyInstanceAttributeInput{InstanceId: id, DisableApiTermination: &ec2types.AttributeBooleanValue{Value: ptr(true)}}); err != nil {
		t.Fatal(err)
	}
	rest, err := g.unmake()
	if got := reasonOf(err); got != providers.ReasonProtected || len(rest) != 1 {
		t.Errorf("reason %q of %v, left %d", got, err, len(rest))
	}
	if got := messageOf(g.m, "InstanceReady"); conditionOf(g.m, "InstanceReady") != "False DeletingFailed" || !strings.Contains(got, "protected") {
		t.Errorf("%s %q", conditionOf(g.m, "InstanceReady"), got)
	}
	if calls := g.sim.CallCounts(); calls["ec2:ModifyInstanceAttribute"] > 1 || calls["ModifyInstanceAttribute"] > 1 {
		t.Errorf("the protection was touched: %v", calls)
	}
}

// Nothing is taken down that may be another's, and nothing is taken for gone
// that was not looked for.
func TestMachineDoomed(t *testing.T) {
	g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
	id := providers.ID{Kind: providers.KindInstance, Name: *g.made().InstanceId}
	g.observe()
	seen := g.snap.Resources[id]
	for name, tc := range map[string]struct {
		edit func(m *infrav1.AWSMachine, snap *providers.Snapshot, r *providers.Resource)
		want int
		err  string
	}{
		"recorded": {edit: func(*infrav1.AWSMachine, *providers.Snapshot, *providers.Resource) {}, want: 1},
		"not recorded": {edit: func(m *infrav1.AWSMachine, _ *providers.Snapshot, _ *providers.Resource) {
			m.Spec.InstanceID, m.Spec.ProviderID = nil, nil
		}, want: 1},
		"another's by name": {edit: func(m *infrav1.AWSMachine, _ *providers.Snapshot, _ *providers.Resource) {
			m.Spec.InstanceID, m.Spec.ProviderID, m.UID = nil, nil, "another"
		}},
		"gone":          {edit: func(_ *infrav1.AWSMachine, _ *providers.Snapshot, r *providers.Resource) { r.Gone = "terminated" }},
		"not to be had": {edit: func(_ *infrav1.AWSMachine, s *providers.Snapshot, _ *providers.Resource) { delete(s.Resources, id) }},
		"going": {want: 1, edit: func(_ *infrav1.AWSMachine, _ *providers.Snapshot, r *providers.Resource) {
			r.Gone = "terminated"
			r.Fields.Set(pathState, providers.Field{Value: providers.String("shutting-down")})
		}},
		"not read": {err: "throttled", edit: func(_ *infrav1.AWSMachine, s *providers.Snapshot, _ *providers.Resource) {
			s.Coverage = map[string]error{providers.KindInstance: errThrottled}
		}},
		"unknown": {err: "cannot be told", edit: func(_ *infrav1.AWSMachine, _ *providers.Snapshot, r *providers.Resource) { r.Unknown = "no state" }},
		"foreign": {err: "Karpenter", edit: func(_ *infrav1.AWSMachine, _ *providers.Snapshot, r *providers.Resource) { r.ForeignTo = "Karpenter" }},
		"another cluster's": {err: "cluster other's", edit: func(m *infrav1.AWSMachine, _ *providers.Snapshot, r *providers.Resource) {
			r.ClusterTags = []string{"other"}
			r.Fields.Delete("/tags/sigs.k8s.io~1cluster-api-provider-aws~1cluster~1dev-classic")
			m.UID = "after-a-move"
		}},
		"two records": {err: "names", edit: func(m *infrav1.AWSMachine, _ *providers.Snapshot, _ *providers.Resource) {
			m.Spec.InstanceID = ptr("i-0123456789abcdef0")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			owner := g.owner()
			m := g.m.DeepCopy()
			owner.Infra = m
			r := *seen
			r.Fields = seen.Fields.Clone()
			snap := &providers.Snapshot{Scope: g.scope, Coverage: g.snap.Coverage, Resources: map[providers.ID]*providers.Resource{id: &r}}
			tc.edit(m, snap, &r)
			doomed, err := g.p.Doomed(owner, snap)
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want one with %q", err, tc.err)
			}
			if tc.err == "" && (err != nil || len(doomed) != tc.want) {
				t.Errorf("doomed %v, %v: want %d", doomed, err, tc.want)
			}
			if name == "going" && !doomed[0].Unsettled {
				t.Error("it is not said to be going")
			}
		})
	}
}

// An interface that the user brought gets the cluster's groups, stays when the
// instance goes, and is then rid of them.
func TestMachineWithInterface(t *testing.T) {
	g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
	subnet := g.awsCluster.Spec.NetworkSpec.Subnets.FilterPrivate()[0].GetResourceID()
	own, err := g.ec2.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{GroupName: ptr("own"), Description: ptr("own"), VpcId: &g.awsCluster.Spec.NetworkSpec.VPC.ID})
	if err != nil {
		t.Fatal(err)
	}
	eni, err := g.ec2.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: &subnet, Groups: []string{*own.GroupId}})
	if err != nil {
		t.Fatal(err)
	}
	id := *eni.NetworkInterface.NetworkInterfaceId
	g.m.Spec.NetworkInterfaces = []string{id}
	g.m.Spec.AdditionalSecurityGroups = []infrav1.AWSResourceReference{{ID: own.GroupId}}
	instance := g.made()
	if got := *instance.NetworkInterfaces[0].NetworkInterfaceId; got != id {
		t.Errorf("the instance has %s", got)
	}
	if got := len(instance.NetworkInterfaces[0].Groups); got != 4 {
		t.Errorf("%d groups, want those of three roles and the user's", got)
	}
	if _, err := g.unmake(); err != nil {
		t.Fatal(err)
	}
	out, err := g.ec2.DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{id}})
	if err != nil {
		t.Fatalf("the interface is gone: %v", err)
	}
	if groups := groupIDs(out.NetworkInterfaces[0].Groups); !slices.Equal(groups, []string{*own.GroupId}) {
		t.Errorf("groups %v, want the user's alone", groups)
	}
}
