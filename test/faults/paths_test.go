package faults

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	vim "github.com/vmware/govmomi/vim25/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// step is something that is done on a ground about the Machine that drifts.
type step func(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine)

// path is drift, and what it is to come to.
type path struct {
	name   string
	policy string
	// writes are some that are on the path.
	writes []string
	// reset forgets what was done in the cloud so far.
	reset func(*management.Ground)
	drift step
	// done says what is missing yet; check what must not have been.
	done  func(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine) error
	check func(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine, before []*clusterv1.Machine)
}

// stage is a cluster and the paths that are gone down on it, one after the
// other; stages are side by side.
type stage struct {
	name    string
	long    bool
	set     func(context.Context, *testing.T, *management.Ground) (*management.Cluster, *front)
	prepare func(context.Context, *testing.T, *management.Ground, *management.Cluster)
	paths   []path
}

func stages() []stage {
	return []stage{
		{name: "AWS", set: onAWS, paths: []path{patchPath}},
		{name: "AWS, stopped for it", long: true, set: onAWS, paths: []path{retypePath}},
		{name: "replaced by the MachineSet", long: true, set: onAWS, paths: []path{
			replacePath("owner remediation", "", "PATCH machines/status"),
			replacePath("delete", ", replace: {strategy: delete}", "DELETE machines"),
		}},
		{name: "replaced under a MachineHealthCheck", long: true, set: onAWS, prepare: healthCheck, paths: []path{
			replacePath("health check", "", "PATCH machines "+clusterv1.RemediateMachineAnnotation),
		}},
		{name: "replaced by a surge", long: true, set: onAWS, paths: []path{surgePath()}},
		{name: "vSphere", long: true, set: onVSphere, paths: []path{extraConfigPath, tagPath, powerPath, resizePath}},
	}
}

func onAWS(ctx context.Context, t *testing.T, g *management.Ground) (*management.Cluster, *front) {
	t.Helper()
	return g.AWSCluster(ctx, management.AWS{Workers: 3}), awsFront(t, g)
}

func onVSphere(ctx context.Context, t *testing.T, g *management.Ground) (*management.Cluster, *front) {
	t.Helper()
	return g.VSphereCluster(ctx, management.VSphere{Workers: 3, Edit: func(m *vspherecluster.Manifest) {
		for _, template := range m.MachineTemplates {
			template.Spec.Template.Spec.CustomVMXKeys = map[string]string{vmxKey: "low"}
		}
	}}), vsphereFront(t, g)
}

func healthCheck(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster) {
	t.Helper()
	deployment := c.Deployments(ctx)[0].Name
	h := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "workers"}}
	h.Spec.ClusterName = c.Name
	h.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: deployment}
	long := int32(3600)
	h.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{Type: "Ready", Status: "Unknown", TimeoutSeconds: &long}}
	if err := g.Client.Create(ctx, h); err != nil {
		t.Fatal(err)
	}
}

func resetAWS(g *management.Ground)     { g.AWS().Server.ResetCalls() }
func resetVSphere(g *management.Ground) { g.VSphere().Log.Reset() }

var patchPath = path{
	name: "patch", policy: policyOf("aws-instance-tags, action: patch", "aws-instance-missing, action: replace"),
	writes: []string{"CreateTags"}, reset: resetAWS,
	drift: func(ctx context.Context, t *testing.T, g *management.Ground, _ *management.Cluster, m *clusterv1.Machine) {
		t.Helper()
		if err := g.AWS().Tag(ctx, management.Instance(m), "Pool", ""); err != nil {
			t.Fatal(err)
		}
	},
	done: repaired, check: calledAWS("CreateTags"),
}

// retypePath sets the type of an instance, for which its node is emptied and
// the instance stopped.
var retypePath = path{
	name: "patch", policy: policyOf("aws-instance-type, action: patch, disruptive: allowed"),
	writes: []string{"PATCH nodes true", "CreateTags", "StopInstances", "ModifyInstanceAttribute", "StartInstances", "DeleteTags", "PATCH nodes unschedulable"}, reset: resetAWS,
	drift: retype, done: readyAgain,
	check: calledAWS("CreateTags", "StopInstances", "ModifyInstanceAttribute", "StartInstances", "DeleteTags"),
}

func retype(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine) {
	t.Helper()
	api, id := g.AWS().Clients(g.AWS().Operator).EC2, management.Instance(m)
	c.Stop(ctx, m)
	if err := ec2.NewInstanceStoppedWaiter(api, func(o *ec2.InstanceStoppedWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, time.Second
	}).Wait(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{
		InstanceId: &id, InstanceType: &types.AttributeValue{Value: aws.String("t3.nano")},
	}); err != nil {
		t.Fatal(err)
	}
	c.Restart(ctx, m)
	c.WaitNode(ctx, m, "True")
	c.WaitReady(ctx)
}

// readyAgain: repaired, and the machine works again.
func readyAgain(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine) error {
	t.Helper()
	if err := repaired(ctx, t, g, c, m); err != nil {
		return err
	}
	if s := c.NodeReady(ctx, m.Status.NodeRef.Name); s != "True" {
		return errors.New("its node is not ready")
	}
	return nil
}

// calledAWS expects that the program changed the cloud by these calls, each
// once, and that no machine was made or ended.
func calledAWS(want ...string) func(context.Context, *testing.T, *management.Ground, *management.Cluster, *clusterv1.Machine, []*clusterv1.Machine) {
	return func(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, _ *clusterv1.Machine, before []*clusterv1.Machine) {
		t.Helper()
		sameCalls(t, actions(g.AWS().Mutations()), want)
		sameMachines(ctx, t, c, before)
	}
}

func calledVSphere(want ...string) func(context.Context, *testing.T, *management.Ground, *management.Cluster, *clusterv1.Machine, []*clusterv1.Machine) {
	return func(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, _ *clusterv1.Machine, before []*clusterv1.Machine) {
		t.Helper()
		var got []string
		for _, method := range g.VSphere().Log.Mutating() {
			got = append(got, withoutID(method))
		}
		sameCalls(t, got, want)
		sameMachines(ctx, t, c, before)
	}
}

func sameCalls(t *testing.T, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes of the cloud (-want +got):\n%s", diff)
	}
}

func sameMachines(ctx context.Context, t *testing.T, c *management.Cluster, before []*clusterv1.Machine) {
	t.Helper()
	uids := func(ms []*clusterv1.Machine) map[string]bool {
		out := map[string]bool{}
		for _, m := range ms {
			out[string(m.UID)] = true
		}
		return out
	}
	if !maps.Equal(uids(c.Workers(ctx, "general")), uids(before)) {
		t.Error("the machines are others than before")
	}
}

func replacePath(name, strategy string, writes ...string) path {
	return path{
		name: name, policy: policyOf("aws-instance-missing, action: replace" + strategy), writes: writes, reset: resetAWS,
		drift: func(ctx context.Context, t *testing.T, _ *management.Ground, c *management.Cluster, m *clusterv1.Machine) {
			t.Helper()
			c.Terminate(ctx, m)
		},
		done: func(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine) error {
			t.Helper()
			if slices.ContainsFunc(c.Workers(ctx, "general"), func(o *clusterv1.Machine) bool { return o.UID == m.UID }) {
				return errors.New("the old machine is there")
			}
			return repaired(ctx, t, g, c, m)
		},
		check: replacedOnce,
	}
}

// surgePath has an instance that works replaced: that is what a surge is for.
func surgePath() path {
	p := replacePath("surge", "", "PATCH machinedeployments", "PATCH machines "+clusterv1.DeleteMachineAnnotation)
	p.policy, p.drift = policyOf("aws-instance-type, action: replace, replace: {strategy: surge}", "aws-instance-missing, action: observe"), retype
	return p
}

// replacedOnce expects one new machine in the place of the old one, nothing
// done to the cloud but by Cluster API, and there one instance made.
func replacedOnce(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, m *clusterv1.Machine, before []*clusterv1.Machine) {
	t.Helper()
	c.WaitReady(ctx)
	now, stayed := c.Workers(ctx, "general"), 0
	for _, o := range now {
		if slices.ContainsFunc(before, func(b *clusterv1.Machine) bool { return b.UID == o.UID && b.UID != m.UID }) {
			stayed++
		}
	}
	if len(now) != len(before) || stayed != len(before)-1 {
		t.Errorf("%d machines, %d of them as before; %d before", len(now), stayed, len(before))
	}
	sameCalls(t, actions(g.AWS().Mutations()), nil)
	made := 0
	for _, call := range g.AWS().Server.Calls() {
		if call.Action == "RunInstances" {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d instances were made for one that was lost", made)
	}
	states, err := g.AWS().Server.InstanceStates(awsScope(g))
	if err != nil {
		t.Fatal(err)
	}
	running := 0
	for _, s := range states {
		if s == "running" {
			running++
		}
	}
	if want := len(c.Machines(ctx)); running != want {
		t.Errorf("%d instances run for %d machines", running, want)
	}
}

func actions(calls []ec2sim.Call) (out []string) {
	for _, c := range calls {
		out = append(out, c.Action)
	}
	return out
}

func awsScope(g *management.Ground) ec2sim.Scope {
	return ec2sim.Scope{Account: g.AWS().Daemon.Account, Region: management.Region}
}

var (
	extraConfigPath = path{
		name: "patch", policy: policyOf("vsphere-vm-extra-config, action: patch"), writes: []string{"ReconfigVM_Task"}, reset: resetVSphere,
		drift: reconfigured(vim.VirtualMachineConfigSpec{ExtraConfig: []vim.BaseOptionValue{&vim.OptionValue{Key: vmxKey, Value: "high"}}}),
		done:  repaired, check: calledVSphere("ReconfigVM_Task"),
	}
	tagPath = path{
		name: "patch of tags", policy: policyOf("vsphere-vm-tags, action: patch"), writes: []string{attachTag}, reset: resetVSphere,
		drift: untag, done: repaired, check: calledVSphere(attachTag),
	}
	powerPath = path{
		name: "power on", policy: policyOf("vsphere-vm-power, action: patch"), writes: []string{"PowerOnVM_Task"}, reset: resetVSphere,
		drift: func(ctx context.Context, t *testing.T, _ *management.Ground, c *management.Cluster, m *clusterv1.Machine) {
			t.Helper()
			c.Stop(ctx, m)
		},
		done: readyAgain, check: calledVSphere("PowerOnVM_Task"),
	}
	resizePath = path{
		name: "patch, stopped for it", policy: policyOf("vsphere-vm-cpu, action: patch, disruptive: allowed"),
		writes: []string{"PATCH nodes true", "ShutdownGuest", "ReconfigVM_Task", "PowerOnVM_Task", "PATCH nodes unschedulable"}, reset: resetVSphere,
		drift: reconfigured(vim.VirtualMachineConfigSpec{NumCPUs: 4}),
		done:  readyAgain, check: calledVSphere("ShutdownGuest", "ReconfigVM_Task", "PowerOnVM_Task"),
	}
)

const vmxKey = "sched.cpu.latencySensitivity"

const attachTag = "POST /rest/com/vmware/cis/tagging/tag-association?~action=attach"

// reconfigured has a person change a virtual machine.
func reconfigured(spec vim.VirtualMachineConfigSpec) step {
	return func(ctx context.Context, t *testing.T, g *management.Ground, _ *management.Cluster, m *clusterv1.Machine) {
		t.Helper()
		vm, err := g.VSphere().VirtualMachine(ctx, management.Instance(m))
		if err != nil || vm == nil {
			t.Fatalf("virtual machine of %s: %v, %v", m.Name, vm, err)
		}
		task, err := vm.Reconfigure(ctx, spec)
		if err == nil {
			err = task.WaitEx(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// untag has a person take a tag away.
func untag(ctx context.Context, t *testing.T, g *management.Ground, _ *management.Cluster, m *clusterv1.Machine) {
	t.Helper()
	v := g.VSphere()
	vm, err := v.VirtualMachine(ctx, management.Instance(m))
	if err != nil || vm == nil {
		t.Fatalf("virtual machine of %s: %v, %v", m.Name, vm, err)
	}
	tags, err := v.Tags.GetAttachedTags(ctx, vm)
	if err != nil || len(tags) == 0 {
		t.Fatalf("tags of %s: %v, %v", m.Name, tags, err)
	}
	if err := v.Tags.DetachTag(ctx, tags[0].ID, vm); err != nil {
		t.Fatal(err)
	}
}
