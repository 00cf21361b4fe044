package aws

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// noted is a machine and what is known of it, for one Note.
type noted struct {
	owner    *providers.Owner
	m        *infrav1.AWSMachine
	seen     *providers.Resource
	want     *providers.Resource
	snap     *providers.Snapshot
	progress providers.Progress
}

const notedID = "i-0123456789abcdef0"

func newNoted() *noted {
	id := providers.ID{Kind: providers.KindInstance, Name: notedID}
	n := &noted{
		m: &infrav1.AWSMachine{
			TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "AWSMachine"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m0", UID: "u"},
			Spec:       infrav1.AWSMachineSpec{InstanceID: ptr(notedID)},
		},
		seen: &providers.Resource{ID: id, Name: "m0"},
		want: &providers.Resource{ID: id, Name: "m0"},
	}
	n.set("running", map[string]string{
		pathZone:      "eu-central-1a",
		pathAddresses: "InternalDNS=ip-10-0-0-5.ec2.internal InternalIP=10.0.0.5 ExternalIP=192.0.2.1 InternalIP=2001:DB8::5 InternalIP=fe80::1",
	})
	n.seen.Set("/loadBalancers/apiserver", providers.Field{Value: providers.String(registered)})
	n.want.Set("/loadBalancers/apiserver", providers.Field{Value: providers.String(registered)})
	n.seen.Set(pathSecurityGroups, providers.Field{Value: providers.Set("sg-1", "sg-2")})
	n.want.Set(pathSecurityGroups, providers.Field{Value: providers.Set("sg-1", "sg-2")})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c1"}}
	cluster.Status.Initialization.InfrastructureProvisioned = ptr(true)
	machine := &clusterv1.Machine{}
	machine.Spec.Bootstrap.DataSecretName = ptr("boot")
	n.owner = &providers.Owner{Ref: providers.RefOf(n.m), Cluster: cluster, Machine: machine, Infra: n.m, ControlPlane: true}
	n.snap = &providers.Snapshot{
		Coverage:  map[string]error{providers.KindInstance: nil},
		Resources: map[providers.ID]*providers.Resource{id: n.seen},
	}
	n.progress.Plan = []providers.Resource{*n.want}
	return n
}

func (n *noted) set(state string, more map[string]string) {
	n.seen.Set(pathState, providers.Field{Value: providers.String(state)})
	for path, value := range more {
		n.seen.Set(path, providers.Field{Value: providers.String(value)})
	}
}

func (n *noted) forget() {
	n.m.Spec.InstanceID = nil
	n.snap.Resources = nil
	n.progress.Plan[0].ID = providers.Provisional(providers.KindInstance, "m0")
}

// What is noted in each situation is what CAPA would note.
func TestNoteMachine(t *testing.T) {
	failed := &providers.ApplyError{Reason: providers.ReasonRefused, Err: errors.New("no\nsuch thing")}
	for name, tc := range map[string]struct {
		edit       func(n *noted)
		waiting    string
		conditions string // InstanceReady, SecurityGroupsReady, ELBAttached, Ready
		ready      bool
		message    string // of InstanceReady
	}{
		"ready":                    {edit: func(*noted) {}, ready: true, conditions: "True|True|True|True"},
		"the cluster is not there": {edit: func(n *noted) { n.forget(); n.owner.Cluster.Status.Initialization.InfrastructureProvisioned = nil }, waiting: "the cluster's infrastructure", conditions: "False WaitingForClusterInfrastructure|||False WaitingForClusterInfrastructure"},
		"no bootstrap data":        {edit: func(n *noted) { n.forget(); n.owner.Machine.Spec.Bootstrap.DataSecretName = nil }, waiting: "the machine's bootstrap data", conditions: "False WaitingForBootstrapData|||False WaitingForBootstrapData"},
		"to be launched":           {edit: func(n *noted) { n.forget() }, waiting: "the launch of an instance", conditions: "False InstanceProvisionStarted|||False InstanceProvisionStarted"},
		"not to be launched":       {edit: func(n *noted) { n.forget(); n.progress.Failed = failed }, waiting: `no\nsuch thing`, message: `no\nsuch thing`, conditions: "False InstanceProvisionFailed|||False InstanceProvisionFailed"},
		"no snapshot":              {edit: func(n *noted) { n.snap = nil; n.progress = providers.Progress{Failed: failed} }, waiting: `no\nsuch thing`, conditions: "|||"},
		"found":                    {edit: func(n *noted) { n.m.Spec.InstanceID = nil }, ready: true, conditions: "True|True|True|True"},
		"pending":                  {edit: func(n *noted) { n.set("pending", nil); n.seen.Fields.Delete("/loadBalancers/apiserver") }, waiting: "instance " + notedID + " is pending", conditions: "False InstanceNotReady|True|False ELBAttachFailed|False InstanceNotReady"},
		"stopped":                  {edit: func(n *noted) { n.set("stopped", nil) }, waiting: "instance " + notedID + " is stopped", conditions: "False InstanceStopped|True|True|False InstanceStopped"},
		"terminated": {
			edit: func(n *noted) {
				n.seen.Gone = "terminated"
				n.set("terminated", map[string]string{pathStateReason: "Client.UserInitiatedShutdown"})
			},
			waiting: "instance " + notedID + " is terminated; the Machine has to be replaced", conditions: "False InstanceTerminated|||False InstanceTerminated",
			message: `EC2 instance state "terminated" is unexpected: Client.UserInitiatedShutdown`,
		},
		"odd":        {edit: func(n *noted) { n.set("dreaming", nil) }, waiting: `instance ` + notedID + ` is in the state "dreaming", which is not known`, conditions: "Unknown|||Unknown"},
		"not shown":  {edit: func(n *noted) { n.snap.Resources = nil }, waiting: "instance " + notedID + " is recorded, and EC2 does not show it", conditions: "Unknown InstanceNotFound|||Unknown InstanceNotFound"},
		"not read":   {edit: func(n *noted) { n.snap.Resources = nil; n.snap.Coverage = nil }, waiting: "instance " + notedID + " could not be read", conditions: "|||"},
		"not known":  {edit: func(n *noted) { n.seen.Unknown = "?" }, waiting: "instance " + notedID + " could not be read", conditions: "|||"},
		"unlike ids": {edit: func(n *noted) { n.m.Spec.ProviderID = ptr("aws:///a/i-0fedcba9876543210") }, waiting: "spec.providerID names i-0fedcba9876543210 and spec.instanceID names " + notedID, conditions: "Unknown InstanceNotFound|||Unknown InstanceNotFound"},
		"groups": {
			edit:    func(n *noted) { n.seen.Set(pathSecurityGroups, providers.Field{Value: providers.Set("sg-1")}) },
			waiting: "the security groups of " + notedID, conditions: "True|False SecurityGroupsSyncFailed|True|False SecurityGroupsSyncFailed",
		},
		"not registered": {
			edit:    func(n *noted) { n.seen.Fields.Delete("/loadBalancers/apiserver") },
			waiting: "registration with load balancer apiserver", conditions: "True|True|False ELBAttachFailed|False ELBAttachFailed",
		},
		"not to be registered": {
			edit: func(n *noted) {
				n.seen.Fields.Delete("/loadBalancers/apiserver")
				n.progress.Failed, n.progress.At = failed, n.want.ID
			},
			waiting: `no\nsuch thing`, conditions: "True|True|False ELBAttachFailed|False ELBAttachFailed",
		},
		"ready before, and not registered any more": {
			edit: func(n *noted) { n.m.Status.Ready = true; n.seen.Fields.Delete("/loadBalancers/apiserver") }, ready: true,
			waiting: "registration with load balancer apiserver", conditions: "True|True|False ELBAttachFailed|False ELBAttachFailed",
		},
		"ready before it was moved here": {
			edit: func(n *noted) { n.progress.WasReady = true; n.seen.Fields.Delete("/loadBalancers/apiserver") }, ready: true,
			waiting: "registration with load balancer apiserver", conditions: "True|True|False ELBAttachFailed|False ELBAttachFailed",
		},
		"not planned": {edit: func(n *noted) { n.progress = providers.Progress{Failed: failed} }, waiting: `no\nsuch thing`, conditions: "True|||True"},
		"a worker": {
			edit: func(n *noted) {
				n.owner.ControlPlane = false
				n.progress.Plan[0].Fields.Delete("/loadBalancers/apiserver")
			}, ready: true,
			conditions: "True|True||True",
		},
		"going": {
			edit:    func(n *noted) { n.progress.Deleting = true; n.set("shutting-down", nil); n.seen.Gone = "terminated" },
			waiting: "instance " + notedID + " is shutting-down", conditions: "False Deleted||False Deleted|False Deleted",
		},
		"not to go": {
			edit:    func(n *noted) { n.progress.Deleting = true; n.progress.Failed = failed },
			waiting: `no\nsuch thing`, message: `no\nsuch thing`, conditions: "False DeletingFailed|||False DeletingFailed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNoted()
			tc.edit(n)
			if got := noteMachine(n.owner, n.m, n.snap, n.progress); got != tc.waiting {
				t.Errorf("waiting for %q, want %q", got, tc.waiting)
			}
			var got []string
			for _, kind := range []string{"InstanceReady", "SecurityGroupsReady", "ELBAttached", "Ready"} {
				got = append(got, conditionOf(n.m, kind))
			}
			if strings.Join(got, "|") != tc.conditions || n.m.Status.Ready != tc.ready {
				t.Errorf("conditions %s, ready %t: want %s, %t", strings.Join(got, "|"), n.m.Status.Ready, tc.conditions, tc.ready)
			}
			if got := messageOf(n.m, "InstanceReady"); got != tc.message && tc.message != "" {
				t.Errorf("InstanceReady says %q", got)
			}
			if strings.Contains(tc.conditions, "Terminated") != (n.m.Status.FailureReason != nil) {
				t.Errorf("failure %q", deref(n.m.Status.FailureReason))
			}
			before := n.m.DeepCopy()
			noteMachine(n.owner, n.m, n.snap, n.progress)
			if diff := cmp.Diff(before, n.m); diff != "" {
				t.Errorf("a second Note changed:\n%s", diff)
			}
		})
	}
}

// Addresses are in CAPA's order, and what is none is left out.
func TestNoteMachineFields(t *testing.T) {
	n := newNoted()
	n.m.Spec.SpotMarketOptions = &infrav1.SpotMarketOptions{}
	n.m.Spec.CloudInit.SecretPrefix = "p"
	n.seen.Set(providers.Pointer("tags", secretsTag), providers.Field{Value: providers.String("3")})
	noteMachine(n.owner, n.m, n.snap, n.progress)
	want := []clusterv1beta1.MachineAddress{
		{Type: "InternalDNS", Address: "ip-10-0-0-5.ec2.internal"}, {Type: "InternalIP", Address: "10.0.0.5"},
		{Type: "ExternalIP", Address: "192.0.2.1"}, {Type: "InternalIP", Address: "2001:db8::5"},
	}
	if diff := cmp.Diff(want, n.m.Status.Addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if deref(n.m.Spec.ProviderID) != "aws:///eu-central-1a/"+notedID || !n.m.Status.Interruptible || deref(n.m.Status.InstanceState) != "running" || n.m.Spec.CloudInit.SecretCount != 3 {
		t.Errorf("%+v %+v", n.m.Spec, n.m.Status)
	}
	for _, hostile := range []string{"InternalDNS=a\x1bb", "InternalDNS=<script>", "InternalIP=10.0.0.300", "InternalIP=fe80::1%eth0"} {
		n := newNoted()
		n.set("running", map[string]string{pathAddresses: hostile, pathZone: "a/b i"})
		noteMachine(n.owner, n.m, n.snap, n.progress)
		if len(n.m.Status.Addresses) > 0 || n.m.Spec.ProviderID != nil {
			t.Errorf("%q became %v, %q", hostile, n.m.Status.Addresses, deref(n.m.Spec.ProviderID))
		}
	}
}

// A failure whose text differs in its numbers only is written once; a refusal
// is never taken for another one.
func TestNoteMachineWritesNewsOnly(t *testing.T) {
	say := func(n *noted, err error) string {
		n.progress.Failed = err
		noteMachine(n.owner, n.m, n.snap, n.progress)
		return messageOf(n.m, "InstanceReady")
	}
	n := newNoted()
	n.forget()
	first := say(n, fmt.Errorf("dial tcp 10.0.0.1:40001: refused"))
	if second := say(n, fmt.Errorf("dial tcp 10.0.0.1:40002: refused")); second != first {
		t.Errorf("%q became %q", first, second)
	}
	say(n, &providers.ApplyError{Reason: providers.ReasonRefused, Err: errors.New("is 4 GiB and needs 8")})
	if got := say(n, &providers.ApplyError{Reason: providers.ReasonRefused, Err: errors.New("is 5 GiB and needs 8")}); got != "is 5 GiB and needs 8" {
		t.Errorf("it still says %q", got)
	}
	n.progress.Failed = nil
	noteMachine(n.owner, n.m, n.snap, n.progress)
	if got := conditionOf(n.m, "InstanceReady"); got != "False InstanceProvisionFailed" {
		t.Errorf("the failure went without anything better: %q", got)
	}
}

// One machine is one instance.
func TestRecordInMachine(t *testing.T) {
	m := &infrav1.AWSMachine{}
	made := providers.ID{Kind: providers.KindInstance, Name: notedID}
	for range 2 {
		if err := recordInMachine(m, made); err != nil || deref(m.Spec.InstanceID) != notedID {
			t.Fatalf("%v, %q", err, deref(m.Spec.InstanceID))
		}
	}
	for _, other := range []providers.ID{{Kind: providers.KindInstance, Name: "i-0fedcba9876543210"}, {Kind: providers.KindVPC, Name: notedID}, {Kind: providers.KindInstance, Name: "x"}} {
		if err := recordInMachine(m, other); err == nil || deref(m.Spec.InstanceID) != notedID {
			t.Errorf("%s: %v, recorded %q", other, err, deref(m.Spec.InstanceID))
		}
	}
}
