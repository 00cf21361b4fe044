package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/management"
)

// Versions between which clusters of templates are upgraded.
const (
	olderVersion = "v1.35.2"
	newerVersion = "v1.36.1"
)

// templatesOf gives the folder with a provider's templates, in the module of the
// version that go.mod names.
func templatesOf(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("find module %s: %v", module, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "templates")
}

// generate is `clusterctl generate cluster --from`, by clusterctl's own processor.
func generate(t *testing.T, file string, variables map[string]string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out, err := yamlprocessor.NewSimpleProcessor().Process(raw, func(name string) (string, error) {
		if v, ok := variables[name]; ok {
			return v, nil
		}
		return "", fmt.Errorf("%s is not set", name)
	})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return string(out)
}

// existence is a cluster of a template, from its user's first command to the last.
type existence struct {
	t *testing.T
	g *management.Ground
	c *management.Cluster
	// text is the template, filled in.
	text string
	// infra is the kind of the Cluster's infrastructure, as kubectl takes it.
	infra string
	// held is what the cloud holds of whomever.
	held func(context.Context) ([]string, error)
	// before is what it held before there was the cluster.
	before []string
}

// run has a user do something by kubectl in the ground's namespace.
func run(t *testing.T, g *management.Ground, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--namespace", g.Namespace}, args...)...)
	cmd.Env, cmd.Stdin = g.Environ(), strings.NewReader(stdin)
	warnings := &strings.Builder{} // such as of versions that are deprecated
	cmd.Stderr = warnings
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s%s", strings.Join(args, " "), err, out, warnings)
	}
	return string(out)
}

func (e *existence) kubectl(stdin string, args ...string) {
	e.t.Helper()
	run(e.t, e.g, stdin, args...)
}

// ready waits for what a user takes for ready: a Cluster that is Provisioned, and
// Machines that run.
func (e *existence) ready(ctx context.Context) {
	e.t.Helper()
	e.c.WaitReady(ctx)
	e.c.Eventually(ctx, "said to be", func(ctx context.Context) error {
		cluster := &clusterv1.Cluster{}
		e.c.Get(ctx, e.c.Name, cluster)
		if cluster.Status.Phase != string(clusterv1.ClusterPhaseProvisioned) {
			return fmt.Errorf("the Cluster's phase is %q", cluster.Status.Phase)
		}
		for _, m := range e.c.Machines(ctx) {
			if m.Status.Phase != string(clusterv1.MachinePhaseRunning) {
				return fmt.Errorf("the phase of machine %s is %q", m.Name, m.Status.Phase)
			}
		}
		return nil
	})
}

// grow scales, upgrades and rolls the cluster, as the users of its kind do.
func (e *existence) grow(ctx context.Context) {
	e.t.Helper()
	for _, n := range []int32{5, 2} {
		e.t.Logf("scaled to %d", n)
		e.scale(ctx, n)
		e.c.Eventually(ctx, fmt.Sprintf("%d workers", n), func(ctx context.Context) error {
			if have := len(e.c.Workers(ctx, "")); have != int(n) {
				return fmt.Errorf("there are %d", have)
			}
			return nil
		})
		e.ready(ctx)
	}
	e.t.Log("upgraded")
	e.upgrade(ctx)
	e.c.Eventually(ctx, "of "+newerVersion, func(ctx context.Context) error { return ofVersion(e.c.Machines(ctx), newerVersion) })
	e.ready(ctx)

	e.t.Log("the control plane rolled")
	old := e.c.ControlPlanes(ctx)
	kcp := e.c.KubeadmControlPlane(ctx)
	base := kcp.DeepCopy()
	kcp.Spec.Rollout.After = metav1.Now()
	e.patch(ctx, kcp, base)
	e.c.Eventually(ctx, "rid of the old control plane", func(ctx context.Context) error {
		for _, m := range e.c.ControlPlanes(ctx) {
			if slices.ContainsFunc(old, func(o *clusterv1.Machine) bool { return o.UID == m.UID }) {
				return fmt.Errorf("machine %s is there", m.Name)
			}
		}
		return nil
	})
	e.ready(ctx)
}

func ofVersion(machines []*clusterv1.Machine, version string) error {
	for _, m := range machines {
		if m.Spec.Version != version {
			return fmt.Errorf("machine %s is of %s", m.Name, m.Spec.Version)
		}
	}
	return nil
}

func (e *existence) patch(ctx context.Context, o, base client.Object) {
	e.t.Helper()
	if err := e.g.Client.Patch(ctx, o, client.MergeFrom(base)); err != nil {
		e.t.Fatal(err)
	}
}

// change patches the Cluster if it has a topology.
func (e *existence) change(ctx context.Context, change func(*clusterv1.Topology)) bool {
	e.t.Helper()
	cluster := &clusterv1.Cluster{}
	e.c.Get(ctx, e.c.Name, cluster)
	if !cluster.Spec.Topology.IsDefined() {
		return false
	}
	base := cluster.DeepCopy()
	change(&cluster.Spec.Topology)
	e.patch(ctx, cluster, base)
	return true
}

func (e *existence) scale(ctx context.Context, n int32) {
	e.t.Helper()
	if !e.change(ctx, func(t *clusterv1.Topology) { t.Workers.MachineDeployments[0].Replicas = ptr.To(n) }) {
		e.kubectl("", "scale", "machinedeployment/"+e.c.Name+"-md-0", fmt.Sprintf("--replicas=%d", n))
	}
}

// upgrade is one field of a topology; else it is the control plane's version, and
// the workers' when it has it, each with a machine template of its own.
func (e *existence) upgrade(ctx context.Context) {
	e.t.Helper()
	if e.change(ctx, func(t *clusterv1.Topology) { t.Version = newerVersion }) {
		return
	}
	kcp := e.c.KubeadmControlPlane(ctx)
	base := kcp.DeepCopy()
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = e.newTemplate(ctx, kcp.Spec.MachineTemplate.Spec.InfrastructureRef)
	kcp.Spec.Version = newerVersion
	e.patch(ctx, kcp, base)
	e.c.Eventually(ctx, "with a control plane of "+newerVersion, func(ctx context.Context) error {
		return errors.Join(ofVersion(e.c.ControlPlanes(ctx), newerVersion))
	})
	e.c.WaitReady(ctx)
	for _, d := range e.c.Deployments(ctx) {
		base := d.DeepCopy()
		d.Spec.Template.Spec.InfrastructureRef.Name = e.newTemplate(ctx, d.Spec.Template.Spec.InfrastructureRef)
		d.Spec.Template.Spec.Version = newerVersion
		e.patch(ctx, &d, base)
	}
}

// newTemplate copies a machine template, which cannot be changed, under a new name.
func (e *existence) newTemplate(ctx context.Context, ref clusterv1.ContractVersionedObjectReference) string {
	e.t.Helper()
	old := &unstructured.Unstructured{}
	old.SetGroupVersionKind(schema.GroupVersionKind{Group: ref.APIGroup, Version: "v1beta2", Kind: ref.Kind})
	e.c.Get(ctx, ref.Name, old)
	made := &unstructured.Unstructured{Object: map[string]any{"spec": old.Object["spec"]}}
	made.SetGroupVersionKind(old.GroupVersionKind())
	made.SetNamespace(e.g.Namespace)
	made.SetName(ref.Name + "-" + strings.ReplaceAll(newerVersion, ".", "-"))
	if err := e.g.Client.Create(ctx, made); err != nil && client.IgnoreAlreadyExists(err) != nil {
		e.t.Fatal(err)
	}
	return made.GetName()
}

// order is one in which users delete a cluster.
type order struct {
	name string
	do   func(e *existence)
	// takes says that more than the Cluster is to be gone in the end.
	takes taking
}

type taking int

const (
	takesCluster taking = iota
	takesTemplate
	takesNamespace
)

// orders are those that users try; the last leaves no namespace for others.
func orders() []order {
	return []order{
		{"the cluster", func(e *existence) { e.kubectl("", "delete", "cluster", e.c.Name, "--wait=false") }, takesCluster},
		{"all at once", func(e *existence) { e.kubectl(e.text, "delete", "-f", "-", "--wait=false") }, takesTemplate},
		{"the infrastructure first", func(e *existence) {
			e.kubectl("", "delete", e.infra, "--selector", clusterv1.ClusterNameLabel+"="+e.c.Name, "--wait=false")
			e.waitsForMachines()
			e.kubectl("", "delete", "cluster", e.c.Name, "--wait=false")
		}, takesCluster},
		{"the namespace", func(e *existence) { e.kubectl("", "delete", "namespace", e.g.Namespace, "--wait=false") }, takesNamespace},
	}
}

// waitsForMachines expects a deleted infrastructure object to say that machines
// stand against it, all of which stay as they are.
func (e *existence) waitsForMachines() {
	e.t.Helper()
	ctx := e.t.Context()
	e.c.Eventually(ctx, "told what it waits for", func(context.Context) error {
		out := run(e.t, e.g, "", "get", e.infra, "--selector", clusterv1.ClusterNameLabel+"="+e.c.Name, "-o", "jsonpath={.items[*].status.conditions}")
		if !strings.Contains(out, "machines of the cluster are still there") {
			return fmt.Errorf("its conditions are %s", out)
		}
		return nil
	})
	e.ready(ctx)
}

// end deletes the cluster and expects nothing of it to be left anywhere.
func (e *existence) end(ctx context.Context, o order) {
	e.t.Helper()
	e.t.Logf("deleted: %s", o.name)
	o.do(e)
	e.gone(ctx, o)
}

func (e *existence) gone(ctx context.Context, o order) {
	e.t.Helper()
	kinds := []string{"clusters.v1beta2.cluster.x-k8s.io", "machines.v1beta2.cluster.x-k8s.io", "machinesets.v1beta2.cluster.x-k8s.io",
		"machinedeployments.v1beta2.cluster.x-k8s.io", "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", "kubeadmconfigs.bootstrap.cluster.x-k8s.io",
		e.infra, strings.Replace(e.infra, "cluster", "machine", 1)}
	e.c.Eventually(ctx, "gone", func(context.Context) error {
		out := run(e.t, e.g, "", "get", strings.Join(kinds, ","), "-o", "name", "--ignore-not-found")
		if o.takes == takesTemplate {
			out += run(e.t, e.g, e.text, "get", "-f", "-", "-o", "name", "--ignore-not-found")
		}
		if o.takes == takesNamespace {
			out += run(e.t, e.g, "", "get", "namespace", e.g.Namespace, "-o", "name", "--ignore-not-found")
		}
		if out != "" {
			return fmt.Errorf("there are %s", strings.ReplaceAll(out, "\n", " "))
		}
		return nil
	})
	held, err := e.held(ctx)
	if left := slices.DeleteFunc(held, func(id string) bool { return slices.Contains(e.before, id) }); err != nil || len(left) > 0 {
		e.t.Errorf("%s is gone, and there are still %q, %v", e.c.Name, left, err)
	}
	e.c.Close()
}
