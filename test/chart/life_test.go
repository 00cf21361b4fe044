package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/management"
)

// living are values with which the program does everything that it can, and keeps
// one record of it.
const living = `mode: enforce
crds: {enabled: false}
reports: {enabled: true, crds: {enabled: true}}
config: {startSpread: 0s, creationGrace: 1s, verifyAfter: 1s, pollInterval: 1s, remediationsKeep: 1,
  leaderElectionLeaseDuration: 120s, leaderElectionRenewDeadline: 100s}
metrics: {readers: [{namespace: monitoring, name: prometheus-k8s}]}
policies:
  default.yaml: null
  life.yaml:
    apiVersion: drift.holdfast.io/v1alpha1
    kind: DriftPolicy
    metadata: {name: life}
    spec:
      mode: enforce
      safety: {maxDriftRatio: 100%, maxUnhealthyZone: 100%, minHealthy: 0, controlPlane: enforce}
      budgets:
      - {scope: cluster, actions: [patch, replace], max: 10}
      - {scope: pool, actions: [patch, replace], max: 10}
      rules:
      - {id: told, target: {provider: aws, kind: Instance, statuses: [Drifted]}, paths: [/tags/Told], action: observe}
      - {id: patched, target: {provider: aws, kind: Instance, statuses: [Drifted]}, paths: [/tags/Patched], action: patch, grace: {for: 0s, observations: 1}}
      - {id: asked, target: {provider: aws, kind: Instance, statuses: [Drifted]}, paths: [/tags/Asked], action: replace, grace: {for: 0s, observations: 1}}
      - {id: deleted, target: {provider: aws, kind: Instance, statuses: [Drifted]}, paths: [/tags/Deleted], action: replace, replace: {strategy: delete}, grace: {for: 0s, observations: 1}}
      - {id: surged, target: {provider: aws, kind: Instance, statuses: [Drifted]}, paths: [/tags/Surged], action: replace, replace: {strategy: STRATEGY}, approval: required, grace: {for: 0s, observations: 1}}
      - {id: vsphere-vm-cpu, action: patch, disruptive: allowed, grace: {for: 0s, observations: 1}}
      - {id: vsphere-vm-missing, action: replace, grace: {for: 0s, observations: 1}}
`

func life(strategy string) string { return strings.Replace(living, "STRATEGY", strategy, 1) }

// TestLifeCycle has the program do all that part of its life that needs rights, as
// the chart's ServiceAccount and on upstream's Cluster API: nothing is refused, and
// nothing is granted that it does not use. An observing install is then tried with
// everything else.
func TestLifeCycle(t *testing.T) {
	g := newGround(t)
	t.Run("cluster-wide", func(t *testing.T) { g.live(t, false) })
	t.Run("one namespace", func(t *testing.T) {
		g.live(t, true, "--set", "watchNamespace="+g.Namespace, "--set", "rbac.secretNamespaces={capa-system,capv-system}")
	})
	t.Run("observing", g.observing)
}

// live takes the program through its life, with the chart installed by arguments.
func (g *ground) live(t *testing.T, older bool, args ...string) {
	t.Helper()
	ctx := t.Context()
	g.ledger.reset(older)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: release}}
	if err := g.Client.Delete(ctx, lease); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	pool := g.spare(t)
	upgrade := g.install(t, life("delete"), args...)
	g.identify(t, &capa.AWSIdentityReference{Kind: capa.ControllerIdentityKind, Name: capa.AWSClusterControllerIdentityName})
	g.forgotten(t)
	p := g.start(t, g.Variables()...)
	g.process = p
	g.identify(t, &capa.AWSIdentityReference{Kind: capa.ClusterRoleIdentityKind, Name: "role"})
	planes, general, storage, vms := g.aws.ControlPlanes(ctx), g.aws.Workers(ctx, "general"), g.aws.Workers(ctx, "storage")[0], g.vsphere.Workers(ctx, "general")
	for _, m := range slices.Concat(planes, general, g.vsphere.Machines(ctx), []*clusterv1.Machine{storage}) {
		g.drifting(t, m, metav1.ConditionFalse)
	}
	g.policyObject(ctx, t)

	g.begun = time.Now()
	g.tag(t, general[0], "Patched", "")
	g.tag(t, general[1], "Asked", "")
	g.tag(t, general[2], "Deleted", "")
	g.tag(t, storage, "Surged", "")
	g.occupy(ctx, t, g.vsphere, vms[0])
	g.shrink(t, vms[0])
	g.vsphere.Terminate(ctx, vms[1])
	g.sweep(ctx, t, g.aws)
	g.sweep(ctx, t, g.vsphere)
	g.repair(ctx, t, general[0], "patch", "")
	g.repair(ctx, t, general[1], "replace", driftv1.StrategyHealthCheck)
	g.repair(ctx, t, general[2], "replace", driftv1.StrategyDelete)
	g.repair(ctx, t, vms[0], "patch", "")
	g.repair(ctx, t, vms[1], "replace", driftv1.StrategyOwnerRemediation)

	// While it waits for a person, it is to be done in another way.
	g.planned(ctx, t, storage, driftv1.ReplaceDelete)
	upgrade(life("surge"), args...)
	p.mount(t)
	g.approve(ctx, t, g.planned(ctx, t, storage, driftv1.ReplaceSurge))
	g.repair(ctx, t, storage, "replace", driftv1.StrategySurge)
	g.misread(t, fmt.Sprintf("broken-%t.yaml", older))

	g.tag(t, planes[0], "Asked", "")
	g.sweep(ctx, t, g.aws)
	g.repair(ctx, t, planes[0], "replace", driftv1.StrategyOwnerRemediation)
	g.aws.WaitReady(ctx)

	p.stop(t) // who comes after it finds its reports and records
	p = g.start(t, g.Variables()...)
	g.process = p
	g.repeated(ctx, t, planes[1])
	g.pooled(ctx, t, pool)
	p.stop(t)
	g.ledger.balance(t, must(g.helm(t, "3").template(t, append([]string{"-f", valuesFile(t, life("surge"))}, args...)...))(t), unused)
	for _, c := range []*management.Cluster{g.aws, g.vsphere} {
		if !g.ledger.has(right{verb: "get", resource: "secrets", namespace: g.Namespace, name: c.Name + "-kubeconfig"}) {
			t.Errorf("the Nodes of cluster %s were not read", c.Name)
		}
	}
}

// forgotten takes the conditions of clusters' infrastructure back, so that they are
// to be written once more.
func (g *ground) forgotten(t *testing.T) {
	t.Helper()
	for kind, name := range map[string]string{"awsclusters": g.aws.Name, "vsphereclusters": g.vsphere.Name} {
		g.kubectl(t, "patch", kind+".infrastructure.cluster.x-k8s.io", "-n", g.Namespace, name, "--subresource=status",
			"--type=merge", "-p", `{"status":{"conditions":null,"v1beta2":{"conditions":null}}}`)
	}
}

// misread has a file among the policies that is none, for as long as it takes to be
// told by an event.
func (g *ground) misread(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join(g.process.policies, name)
	if err := os.WriteFile(path, []byte("kind: Nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.eventually(t, "told that "+name+" is no policy", func() error { return g.cluster.told(t, "PolicyInvalid", name) })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// drifting waits until a Machine's condition says whether it drifts.
func (g *ground) drifting(t *testing.T, m *clusterv1.Machine, want metav1.ConditionStatus) {
	t.Helper()
	g.eventually(t, fmt.Sprintf("so that %s has DriftDetected=%s", m.Name, want), func() error {
		return g.drift(t, client.ObjectKeyFromObject(m), want)
	})
}

// sweep asks for one, and waits for the answer.
func (g *ground) sweep(ctx context.Context, t *testing.T, c *management.Cluster) {
	t.Helper()
	asked := time.Now().Format(time.RFC3339Nano)
	g.kubectl(t, "annotate", "--overwrite", "clusters.cluster.x-k8s.io", "-n", g.Namespace, c.Name, driftv1.AnnotationSweepNow+"="+asked)
	g.eventually(t, "swept", func() error {
		of := &clusterv1.Cluster{}
		c.Get(ctx, c.Name, of)
		if of.Annotations[driftv1.AnnotationSwept] != asked {
			return errors.New("the answer is " + of.Annotations[driftv1.AnnotationSwept])
		}
		return nil
	})
}

// planned waits until a Machine's replacement waits for a person and is to take a
// path.
func (g *ground) planned(ctx context.Context, t *testing.T, m *clusterv1.Machine, path driftv1.ReplacePath) *driftv1.Remediation {
	t.Helper()
	var out *driftv1.Remediation
	g.eventually(t, fmt.Sprintf("so that %s of %s waits for approval", path, m.Name), func() error {
		list := &driftv1.RemediationList{}
		if err := g.Client.List(ctx, list, client.InNamespace(g.Namespace)); err != nil {
			return err
		}
		i := slices.IndexFunc(list.Items, func(r driftv1.Remediation) bool { return r.Spec.Machine != nil && r.Spec.Machine.UID == m.UID })
		if i < 0 {
			return errors.New("there is no record")
		}
		if out = &list.Items[i]; out.Spec.Strategy != path || out.Status.Phase != driftv1.PhaseAwaitingApproval {
			return fmt.Errorf("%s by %q is %s: %s %v", out.Spec.Action, out.Spec.Strategy, out.Status.Phase, out.Status.Message, out.Status.Blocked)
		}
		return nil
	})
	return out
}

func (g *ground) approve(ctx context.Context, t *testing.T, r *driftv1.Remediation) {
	t.Helper()
	base, yes := r.DeepCopy(), true
	r.Spec.Approved, r.Spec.ApprovedBy = &yes, "anna"
	if err := g.Client.Patch(ctx, r, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
}

// policyObject: a DriftPolicy is taken, and told to be wrong each time that it is.
func (g *ground) policyObject(ctx context.Context, t *testing.T) {
	t.Helper()
	policy := &driftv1.DriftPolicy{}
	if err := yaml.UnmarshalStrict([]byte("apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: wrong}\nspec:\n  rules:\n"+unknownKind[4:]), policy); err != nil {
		t.Fatal(err)
	}
	g.make(t, policy)
	for n := 1; n <= 2; n++ {
		g.eventually(t, fmt.Sprintf("told to be wrong %d times", n), func() error {
			return g.told(ctx, "default", policy.UID, n)
		})
		base := policy.DeepCopy()
		policy.Spec.Rules[0].ID += "-still"
		if err := g.Client.Patch(ctx, policy, client.MergeFrom(base)); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Client.Delete(ctx, policy); err != nil { // while it is there nothing is enforced
		t.Fatal(err)
	}
}

// told wants warnings about an object to have come a number of times.
func (g *ground) told(ctx context.Context, ns string, about apitypes.UID, want int) error {
	list := &eventsv1.EventList{}
	if err := g.Client.List(ctx, list, client.InNamespace(ns)); err != nil {
		return err
	}
	n := 0
	for _, e := range list.Items {
		if e.Regarding.UID == about && e.Type == corev1.EventTypeWarning {
			n++
		}
	}
	if n < want {
		return fmt.Errorf("%d warnings among %d events", n, len(list.Items))
	}
	return nil
}

// repeated: what comes a second time within minutes is told a second time.
func (g *ground) repeated(ctx context.Context, t *testing.T, m *clusterv1.Machine) {
	t.Helper()
	for n := 1; n <= 2; n++ {
		g.tag(t, m, "Told", "")
		g.sweep(ctx, t, g.aws)
		g.drifting(t, m, metav1.ConditionTrue)
		g.eventually(t, fmt.Sprintf("told %d times", n), func() error { return g.told(ctx, g.Namespace, m.UID, n) })
		g.tag(t, m, "Told", "yes")
		g.sweep(ctx, t, g.aws)
		g.drifting(t, m, metav1.ConditionFalse)
	}
}

// spare makes one pool more on AWS.
func (g *ground) spare(t *testing.T) *clusterv1.MachineDeployment {
	t.Helper()
	like := &clusterv1.MachineDeployment{}
	g.aws.Get(t.Context(), g.aws.Name+"-storage", like)
	pool := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.aws.Name + "-spare", Labels: like.Labels}}
	like.Spec.DeepCopyInto(&pool.Spec)
	pool.Spec.Selector, pool.Spec.Template.Labels = metav1.LabelSelector{}, nil
	g.make(t, pool)
	g.aws.WaitReady(t.Context())
	return pool
}

// pooled: the Report of a pool goes when the pool does.
func (g *ground) pooled(ctx context.Context, t *testing.T, pool *clusterv1.MachineDeployment) {
	t.Helper()
	report := func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(openreports.SchemeGroupVersion.WithKind("ReportList"))
		err := g.Client.List(ctx, list, client.InNamespace(g.Namespace))
		return slices.ContainsFunc(list.Items, func(u unstructured.Unstructured) bool { return strings.Contains(u.GetName(), pool.Name) }), err
	}
	if there, err := report(ctx); err != nil || !there {
		t.Errorf("no Report of pool %s: %v", pool.Name, err)
	}
	if err := g.Client.Delete(ctx, pool); err != nil {
		t.Fatal(err)
	}
	g.eventually(t, "rid of pool "+pool.Name, func() error {
		if err := g.Client.Get(ctx, client.ObjectKeyFromObject(pool), pool); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	g.sweep(ctx, t, g.aws)
	g.eventually(t, "rid of its Report", func() error {
		if there, err := report(ctx); err != nil || there {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
}
