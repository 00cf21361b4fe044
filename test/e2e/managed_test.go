package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/running"
)

// manage runs the program with upstream's reconcilers in it, for a ground on which
// nothing of upstream's runs.
func manage(t *testing.T, g *management.Ground, policy string, flags ...string) *daemon {
	t.Helper()
	return launch(t, g.Environ(), policy, append(managed(g), flags...)...)
}

func managed(g *management.Ground) []string {
	address, folder := g.Webhooks()
	return []string{"--reconcilers", "core,kubeadm", "--webhook-bind-address", address, "--webhook-cert-dir", folder}
}

// The program starts with upstream's reconcilers, its webhooks answer, and what
// cannot be is refused before anything is done.
func TestManagedStarts(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t, management.Bare())
	for name, c := range map[string]struct {
		flags []string
		say   string
	}{
		"not known":      {flags: []string{"--reconcilers", "cores"}, say: `"cores" is not known; known: core, kubeadm, aws, vsphere`},
		"no certificate": {flags: []string{"--reconcilers", "core", "--webhook-cert-dir", t.TempDir()}, say: "need tls.crt and tls.key there"},
		"for nothing":    {flags: []string{"--feature-gates", "ClusterTopology=true"}, say: "--feature-gates: there is nothing that it is for without --reconcilers"},
		"extensions":     {flags: append(managed(g), "--feature-gates", "RuntimeSDK=true"), say: "extensions cannot be called yet"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, g, c.say, c.flags...) })
	}

	held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "controller-leader-election-capi"}}
	held.Spec.HolderIdentity, held.Spec.LeaseDurationSeconds = ptr.To("capi-0"), ptr.To[int32](3600)
	held.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	if err := g.Client.Create(ctx, held); err != nil {
		t.Fatal(err)
	}
	refused(t, g, `controller-leader-election-capi is held by "capi-0"`, managed(g)...)
	if err := g.Client.Delete(ctx, held); err != nil {
		t.Fatal(err)
	}

	address, folder := g.Webhooks()
	auto := []string{"--reconcilers", "auto", "--webhook-bind-address", address, "--webhook-cert-dir", folder}
	refused(t, g, "--reconcilers auto: no Provider object names reconcilers that there are", auto...)
	registered(ctx, t, g)
	d := launch(t, g.Environ(), atOnce, append(auto, "--leader-election-namespace", g.Namespace)...)
	served(t, g)
	bad := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "bad"}}
	bad.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"10.0.0.0"}
	bad.Spec.Paused = ptr.To(true)
	bad.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}
	err := g.Client.Create(ctx, bad)
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), "10.0.0.0") || !strings.Contains(fmt.Sprint(err), "denied the request") {
		t.Errorf("a Cluster with a bad network is answered by %v, want upstream's webhook to refuse it", err)
	}
	converted(ctx, t, g)
	running.Eventually(t, management.Patience, "reconciling", func() error {
		n, err := d.sum("controller_runtime_max_concurrent_reconciles", map[string]string{"controller": "machine"})
		if err == nil && n != 100 {
			err = fmt.Errorf("the machine controller has %v workers, want upstream's 100", n)
		}
		return err
	})
}

// registered makes the Provider objects that clusterctl would of the parts that are
// upstream's.
func registered(ctx context.Context, t *testing.T, g *management.Ground) {
	t.Helper()
	for name, spec := range map[string]map[string]string{
		"cluster-api":           {"type": "CoreProvider", "providerName": "cluster-api", "version": "v1.14.2"},
		"bootstrap-kubeadm":     {"type": "BootstrapProvider", "providerName": "kubeadm", "version": "v1.14.2"},
		"infrastructure-docker": {"type": "InfrastructureProvider", "providerName": "docker", "version": "v1.14.2"},
	} {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("clusterctl.cluster.x-k8s.io/v1alpha3")
		u.SetKind("Provider")
		u.SetNamespace(g.Namespace)
		u.SetName(name)
		for key, value := range spec {
			u.Object[key] = value
		}
		if err := g.Client.Create(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
}

// served expects Providers to be told, a user to be warned of a misplaced field, and
// CAPV's kinds to be converted.
func served(t *testing.T, g *management.Ground) {
	t.Helper()
	kubectl := func(stdin string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"-n", g.Namespace}, args...)...)
		cmd.Env, cmd.Stdin = g.Environ(), strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const ready = `jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].reason} {end}`
	running.Eventually(t, management.Patience, "Providers told", func() error {
		out, err := kubectl("", "get", "providers.clusterctl.cluster.x-k8s.io", "-o", ready)
		if want := "bootstrap-kubeadm=Served cluster-api=Served infrastructure-docker=UnknownProvider "; err == nil && out != want {
			err = fmt.Errorf("%q, want %q", out, want)
		}
		return err
	})
	const group = "apiVersion: infrastructure.cluster.x-k8s.io/"
	out, err := kubectl(group+"v1beta2\nkind: AWSCluster\nmetadata: {name: misplaced}\nspec: {vpc: {cidrBlock: 10.0.0.0/16}}\n", "apply", "-f", "-")
	if err != nil || !strings.Contains(out, "Warning: spec.vpc is not a field of AWSCluster; you mean spec.network.vpc") {
		t.Errorf("an AWSCluster with spec.vpc: %v: %s", err, out)
	}
	if out, err := kubectl(group+"v1beta1\nkind: VSphereCluster\nmetadata: {name: old}\nspec: {server: vcenter.example.com}\n", "apply", "-f", "-"); err != nil {
		t.Errorf("a VSphereCluster in v1beta1: %v: %s", err, out)
	}
	if out, err := kubectl("", "delete", "awsclusters/misplaced", "vsphereclusters.v1beta1.infrastructure.cluster.x-k8s.io/old"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// converted writes a Cluster in v1beta1 and reads it in both versions.
func converted(ctx context.Context, t *testing.T, g *management.Ground) {
	t.Helper()
	old := &clusterv1beta1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "old"}}
	old.Spec.Paused = true
	old.Spec.InfrastructureRef = &corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "AWSCluster", Name: "old", Namespace: g.Namespace}
	if err := g.Client.Create(ctx, old); err != nil {
		t.Fatalf("write a Cluster in v1beta1: %v", err)
	}
	read, again := &clusterv1.Cluster{}, &clusterv1beta1.Cluster{}
	for _, o := range []client.Object{read, again} {
		if err := g.Client.Get(ctx, client.ObjectKeyFromObject(old), o); err != nil {
			t.Fatal(err)
		}
	}
	if ref := read.Spec.InfrastructureRef; !ptr.Deref(read.Spec.Paused, false) || ref.APIGroup != "infrastructure.cluster.x-k8s.io" || ref.Kind != "AWSCluster" || ref.Name != "old" {
		t.Errorf("written in v1beta1, in v1beta2 it is %+v", read.Spec)
	}
	if ref := again.Spec.InfrastructureRef; ref == nil || ref.APIVersion != "infrastructure.cluster.x-k8s.io/v1beta2" || ref.Name != "old" {
		t.Errorf("written and read in v1beta1, its infrastructure is %+v", ref)
	}
	if err := g.Client.Delete(ctx, again); err != nil {
		t.Fatal(err)
	}
}

// refused expects that the program ends by itself, with 2 and the reason.
func refused(t *testing.T, g *management.Ground, say string, flags ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"controller", "--leader-elect=false",
		"--metrics-bind-address", "0", "--health-probe-bind-address", "0"}, flags...)...)
	cmd.Env = g.Environ()
	out, err := cmd.CombinedOutput()
	if end := (*exec.ExitError)(nil); !errors.As(err, &end) || end.ExitCode() != 2 || !strings.Contains(string(out), say) {
		t.Errorf("holdfast controller %s: %v, want exit status 2 and %q:\n%s", strings.Join(flags, " "), err, say, out)
	}
}

// One process is a whole Cluster API beside an infrastructure provider, and looks
// for drift of what it makes: a cluster comes up, a pool is scaled, a health check
// has a worker replaced, and a tag that somebody takes away is put back.
func TestManagedCluster(t *testing.T) {
	long(t)
	ctx := t.Context()
	g := management.Start(t, management.Bare())
	g.AWS()
	d := manage(t, g, atOnce, "--leader-election-namespace", g.Namespace, "--feature-gates", "ClusterTopology=true")
	c := g.AWSCluster(ctx, management.AWS{ControlPlanes: 3, Workers: 2})
	c.WaitReady(ctx)
	cluster := &clusterv1.Cluster{}
	c.Get(ctx, c.Name, cluster)
	if cluster.Status.Phase != string(clusterv1.ClusterPhaseProvisioned) {
		t.Errorf("the Cluster's phase is %q", cluster.Status.Phase)
	}
	old := &clusterv1beta1.Cluster{}
	c.Get(ctx, c.Name, old)
	if !old.Status.ControlPlaneReady || !old.Status.InfrastructureReady {
		t.Errorf("read in v1beta1, its status is %+v", old.Status)
	}

	t.Log("a health check has a worker replaced")
	mhc := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: c.Name + "-workers"}}
	mhc.Spec.ClusterName = c.Name
	mhc.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: c.Name + "-general"}
	mhc.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To[int32](5)},
	}
	if err := g.Client.Create(ctx, mhc); err != nil {
		t.Fatal(err)
	}
	sick := c.Workers(ctx, "general")[1]
	c.CutOff(sick, true)
	c.WaitReplaced(ctx, sick)

	t.Log("a pool is scaled in v1beta1, by replicas alone")
	pool := &clusterv1beta1.MachineDeployment{}
	c.Get(ctx, c.Name+"-general", pool)
	base := pool.DeepCopy()
	pool.Spec.Replicas = ptr.To[int32](3)
	if err := g.Client.Patch(ctx, pool, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
	c.Eventually(ctx, "3 workers", func(ctx context.Context) error {
		if n := len(c.Workers(ctx, "general")); n != 3 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	c.WaitReady(ctx)
	t.Log("drift of what it has made is seen and repaired, in the same process")
	m := c.Workers(ctx, "general")[0]
	sweepNow(ctx, t, g, c) // the first by the schedule was before there was a cluster
	drifts(ctx, c, m, metav1.ConditionFalse)
	if err := g.AWS().Tag(ctx, management.Instance(m), "Pool", ""); err != nil {
		t.Fatal(err)
	}
	sweepNow(ctx, t, g, c)
	succeeded(ctx, t, g, c, m, "patch")
	drifts(ctx, c, m, metav1.ConditionFalse)

	d.stop(t)
	if text := d.output.String(); strings.Contains(text, "panic") || strings.Contains(text, "Duplicate informer") {
		t.Errorf("it has logged what it should not have:\n%s", text)
	}
}
