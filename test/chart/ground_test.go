package chart

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	capv "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/running"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// tags are those that each machine on AWS is declared to have: what becomes of one
// that is lost is the policy's to say, another way for each.
var tags = []string{"Patched", "Told", "Asked", "Deleted", "Surged"}

var roleARN = "arn:aws:iam::" + ec2sim.DefaultCredential().Account + ":role/holdfast"

// ground is a management cluster with upstream's reconcilers, and a cluster in each
// cloud.
type ground struct {
	*management.Ground
	*cluster
	aws, vsphere *management.Cluster
	// repaired are the actions that have succeeded, by the UIDs of Machines: of
	// the records one alone is kept.
	repaired sync.Map
	process  *process
	// begun is when the last damage was done.
	begun time.Time
}

func newGround(t *testing.T) *ground {
	t.Helper()
	ctx := t.Context()
	g := &ground{Ground: management.Start(t, management.Alone())}
	g.cluster = &cluster{config: g.Config, kubeconfig: g.Kubeconfig, client: g.Client}
	g.system(t)
	g.ledger = newLedger(t, g.Config)
	g.StartAWS(ec2sim.Options{Roles: []ec2sim.Role{{ARN: roleARN}}})
	g.aws = g.AWSCluster(ctx, management.AWS{ControlPlanes: 3, Workers: 3, Storage: 1, Edit: func(m *awscluster.Manifest) {
		for _, template := range m.MachineTemplates {
			add := &template.Spec.Template.Spec.AdditionalTags
			if *add == nil {
				*add = capa.Tags{}
			}
			for _, tag := range tags {
				(*add)[tag] = "yes"
			}
		}
	}})
	g.vsphere = g.VSphereCluster(ctx, management.VSphere{Workers: 2, Batch: 1})
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "general"}}
	check.Spec.ClusterName = g.aws.Name
	check.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: g.aws.Name + "-general"}
	late := int32(3600)
	check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{Type: "Ready", Status: "Unknown", TimeoutSeconds: &late}}
	g.make(t, check)
	g.aws.WaitReady(ctx)
	g.vsphere.WaitReady(ctx)
	g.identities(t)
	g.watchRecords(t)
	return g
}

func (g *ground) make(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := g.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// identities has both clusters use identities that allow their namespace by its
// labels, and whose Secrets are in the providers' namespaces. On AWS it is a role,
// assumed by whom a static identity names.
func (g *ground) identities(t *testing.T) {
	t.Helper()
	here := metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: g.Namespace}}
	allowed := capa.AWSClusterIdentitySpec{AllowedNamespaces: &capa.AllowedNamespaces{Selector: here}}
	cloud := g.AWS()
	static := &capa.AWSClusterStaticIdentity{ObjectMeta: metav1.ObjectMeta{Name: "static"}}
	static.Spec.AWSClusterIdentitySpec, static.Spec.SecretRef = allowed, "static"
	assumed := &capa.AWSClusterRoleIdentity{ObjectMeta: metav1.ObjectMeta{Name: "role"}}
	assumed.Spec.AWSClusterIdentitySpec, assumed.Spec.RoleArn = allowed, roleARN
	assumed.Spec.SourceIdentityRef = &capa.AWSIdentityReference{Kind: capa.ClusterStaticIdentityKind, Name: "static"}
	vcenter := &capv.VSphereClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: "vcenter"}}
	vcenter.Spec.SecretName = "vcenter"
	vcenter.Spec.AllowedNamespaces = &capv.AllowedNamespaces{Selector: here}
	g.make(t, static, assumed, vcenter,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "capa-system", Name: "static"},
			StringData: map[string]string{"AccessKeyID": cloud.Daemon.AccessKeyID, "SecretAccessKey": cloud.Daemon.SecretAccessKey}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "capv-system", Name: "vcenter"},
			StringData: map[string]string{"username": vspherecluster.Username, "password": vspherecluster.Password}})
	g.identify(t, &capa.AWSIdentityReference{Kind: capa.ClusterRoleIdentityKind, Name: "role"})
	of := &capv.VSphereCluster{}
	g.vsphere.Get(t.Context(), g.vsphere.Name, of)
	base := of.DeepCopy()
	of.Spec.IdentityRef = capv.VSphereIdentityReference{Kind: capv.VSphereClusterIdentityKind, Name: "vcenter"}
	if err := g.Client.Patch(t.Context(), of, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
}

// identify changes the identity of the cluster on AWS.
func (g *ground) identify(t *testing.T, ref *capa.AWSIdentityReference) {
	t.Helper()
	of := &capa.AWSCluster{}
	g.aws.Get(t.Context(), g.aws.Name, of)
	base := of.DeepCopy()
	of.Spec.IdentityRef = ref
	if err := g.Client.Patch(t.Context(), of, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
}

// watchRecords notes what has succeeded, until the test ends.
func (g *ground) watchRecords(t *testing.T) {
	t.Helper()
	w, err := g.Client.Watch(t.Context(), &driftv1.RemediationList{}, client.InNamespace(g.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	var following sync.WaitGroup
	following.Go(func() {
		for e := range w.ResultChan() {
			r, ok := e.Object.(*driftv1.Remediation)
			if ok && e.Type != watch.Deleted && r.Status.Phase == driftv1.PhaseSucceeded && r.Spec.Machine != nil && r.Status.EndedAt != nil {
				g.repaired.Store(r.Spec.Machine.UID, r)
			}
		}
	})
	t.Cleanup(func() {
		w.Stop()
		following.Wait()
	})
}

// eventually waits for something while the program runs.
func (g *ground) eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	begun := time.Now()
	running.Eventually(t, management.Patience, what, func() error {
		select {
		case <-g.process.done:
			t.Fatalf("not %s: the program has ended: %s", what, g.process.cmd.ProcessState)
		default:
		}
		return ok()
	})
	t.Logf("%s after %.1fs", what, time.Since(begun).Seconds())
}

// repair waits until a Machine has been repaired by an action, along a path.
func (g *ground) repair(ctx context.Context, t *testing.T, m *clusterv1.Machine, action driftv1.WriteAction, path driftv1.ReplaceStrategy) {
	t.Helper()
	g.eventually(t, fmt.Sprintf("so that %s %s of %s has succeeded", action, path, m.Name), func() error {
		found, ok := g.repaired.LoadAndDelete(m.UID)
		if !ok {
			return errors.New(g.standing(ctx, m.UID))
		}
		r := found.(*driftv1.Remediation)
		if r.Status.EndedAt.Time.Before(g.begun) {
			return errors.New("what has succeeded is of before")
		}
		if taken := r.Status.Replacement; r.Spec.Action != action || path != "" && (taken == nil || taken.Strategy != path) {
			return fmt.Errorf("it was %s, by %+v", r.Spec.Action, taken)
		}
		return nil
	})
}

// standing tells of the records about a Machine.
func (g *ground) standing(ctx context.Context, machine apitypes.UID) string {
	list := &driftv1.RemediationList{}
	if err := g.Client.List(ctx, list, client.InNamespace(g.Namespace)); err != nil {
		return err.Error()
	}
	says := "no record of it has succeeded"
	for _, r := range list.Items {
		if r.Spec.Machine != nil && r.Spec.Machine.UID == machine {
			says += fmt.Sprintf("; %s of %s is %s (%s): %s %v", r.Spec.Action, r.Spec.Resource.Kind, r.Status.Phase, r.Status.Reason, r.Status.Message, r.Status.Blocked)
		}
	}
	return says
}

// tag gives the instance of a Machine one of [tags], or takes it away.
func (g *ground) tag(t *testing.T, m *clusterv1.Machine, tag, value string) {
	t.Helper()
	if err := g.AWS().Tag(t.Context(), management.Instance(m), tag, value); err != nil {
		t.Fatal(err)
	}
}

// shrink takes half of its CPUs from the virtual machine of a Machine.
func (g *ground) shrink(t *testing.T, m *clusterv1.Machine) {
	t.Helper()
	vm, err := g.VSphere().VirtualMachine(t.Context(), management.Instance(m))
	if err != nil || vm == nil {
		t.Fatalf("virtual machine of %s: %v, %v", m.Name, vm, err)
	}
	task := must(vm.Reconfigure(t.Context(), vim.VirtualMachineConfigSpec{NumCPUs: 4}))(t)
	if err := task.WaitEx(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// occupy has a static Pod run on a Machine's Node: draining leaves it, and asks for
// the rules of draining, which it does not for a Node without Pods.
func (g *ground) occupy(ctx context.Context, t *testing.T, c *management.Cluster, m *clusterv1.Machine) {
	t.Helper()
	access := must(get[corev1.Secret](ctx, g.cluster, g.Namespace, c.Name+"-kubeconfig"))(t)
	cfg := must(clientcmd.RESTConfigFromKubeConfig(access.Data["value"]))(t)
	remote := must(client.New(cfg, client.Options{Scheme: g.Scheme()}))(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "proxy-" + m.Name,
		Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "yes"}}}
	pod.Spec.NodeName, pod.Spec.Containers = m.Status.NodeRef.Name, []corev1.Container{{Name: "proxy", Image: "proxy"}}
	// The cluster's API server says Conflict of a Pod that is there from before.
	if err := remote.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
}
