package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
)

// buildsAWS runs the program with everything that a cluster on AWS takes.
func buildsAWS(t *testing.T, g *management.Ground, policy string, flags ...string) *daemon {
	t.Helper()
	address, folder := g.Webhooks()
	return launch(t, g.Environ(), policy, append([]string{"--reconcilers", "core,kubeadm,aws",
		"--webhook-bind-address", address, "--webhook-cert-dir", folder, "--leader-election-namespace", g.Namespace}, flags...)...)
}

// present lists what is there in the ground's region.
func present(t *testing.T, a *management.AWSCloud) []string {
	t.Helper()
	out, err := a.Server.Resources(ec2sim.Scope{Account: a.Daemon.Account, Region: management.Region})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// statusOf is what `holdfast status` says of a ground's clusters.
func statusOf(ctx context.Context, t *testing.T, g *management.Ground) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, program, "status", "-n", g.Namespace)
	cmd.Env = g.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("holdfast status: %v\n%s", err, out)
	}
	return string(out)
}

// One program makes a cluster on AWS of what a user applies, scales it, keeps it as
// it is declared, and leaves nothing behind when it is deleted.
func TestBuiltCluster(t *testing.T) {
	long(t)
	ctx := t.Context()
	g := management.Start(t, management.Boots())
	cloud := g.AWS()
	before := present(t, cloud)
	d := buildsAWS(t, g, atOnce)
	c := g.AWSCluster(ctx, management.AWS{ControlPlanes: 3, Workers: 1})
	onItsWay := regexp.MustCompile(regexp.QuoteMeta(g.Namespace+"/"+c.Name) + ": (infrastructure|control plane|workers) for ")
	told := func(is bool) func(context.Context) error {
		return func(ctx context.Context) error {
			if out := statusOf(ctx, t, g); onItsWay.MatchString(out) != is {
				return errors.New(out)
			}
			return nil
		}
	}
	c.Eventually(ctx, "told to be on its way", told(true))
	c.WaitReady(ctx)
	c.Eventually(ctx, "told to be there", told(false))
	cluster := &clusterv1.Cluster{}
	c.Get(ctx, c.Name, cluster)
	if cluster.Status.Phase != string(clusterv1.ClusterPhaseProvisioned) {
		t.Errorf("the Cluster's phase is %q", cluster.Status.Phase)
	}

	t.Log("what it has made is no drift")
	sweepNow(ctx, t, g, c)
	for _, m := range c.Machines(ctx) {
		drifts(ctx, c, m, metav1.ConditionFalse)
	}

	t.Log("a pool is scaled up and down")
	for _, n := range []int32{5, 2} {
		pool := &clusterv1.MachineDeployment{}
		c.Get(ctx, c.Name+"-general", pool)
		base := pool.DeepCopy()
		pool.Spec.Replicas = ptr.To(n)
		if err := g.Client.Patch(ctx, pool, client.MergeFrom(base)); err != nil {
			t.Fatal(err)
		}
		c.Eventually(ctx, fmt.Sprintf("%d workers", n), func(ctx context.Context) error {
			if have := len(c.Workers(ctx, "general")); have != int(n) {
				return fmt.Errorf("there are %d", have)
			}
			return nil
		})
		c.WaitReady(ctx)
	}

	t.Log("drift of what it has made is put back")
	m := c.Workers(ctx, "general")[0]
	if err := cloud.Tag(ctx, management.Instance(m), "Pool", ""); err != nil {
		t.Fatal(err)
	}
	sweepNow(ctx, t, g, c)
	succeeded(ctx, t, g, c, m, "patch")

	t.Log("deleted, it leaves nothing")
	if err := g.Client.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	c.Eventually(ctx, "gone", func(ctx context.Context) error {
		err := g.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	left := slices.DeleteFunc(present(t, cloud), func(id string) bool { return slices.Contains(before, id) })
	if len(left) > 0 {
		t.Errorf("after the cluster is gone there are still %s", strings.Join(left, ", "))
	}
	d.stop(t)
	if text := d.output.String(); strings.Contains(text, "panic") {
		t.Errorf("it has logged what it should not have:\n%s", text)
	}
}

// The same on vSphere: virtual machines are cloned, placed and set up of what a user
// applies, and none of them is left.
func TestBuiltVSphereCluster(t *testing.T) {
	long(t)
	ctx := t.Context()
	g := management.Start(t, management.Boots())
	cloud := g.VSphere()
	before, err := cloud.PowerStates(ctx)
	if err != nil {
		t.Fatal(err)
	}
	address, folder := g.Webhooks()
	// The simulator locks up when several clients wait for its tasks at once.
	launch(t, g.Environ(), atOnce, "--reconcilers", "core,kubeadm,vsphere", "--reconcilers-concurrency", "vspheremachine=1",
		"--webhook-bind-address", address, "--webhook-cert-dir", folder, "--leader-election-namespace", g.Namespace)
	c := g.VSphereCluster(ctx, management.VSphere{ControlPlanes: 3, Workers: 2})
	c.WaitReady(ctx)

	t.Log("what it has made is no drift")
	sweepNow(ctx, t, g, c)
	for _, m := range c.Machines(ctx) {
		drifts(ctx, c, m, metav1.ConditionFalse)
	}

	t.Log("deleted, it leaves nothing")
	cluster := &clusterv1.Cluster{}
	c.Get(ctx, c.Name, cluster)
	if err := g.Client.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	c.Eventually(ctx, "gone", func(ctx context.Context) error {
		err := g.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	after, err := cloud.PowerStates(ctx)
	if err != nil || len(after) != len(before) {
		t.Errorf("there were %d virtual machines before the cluster, and are %d after it, %v", len(before), len(after), err)
	}
}
