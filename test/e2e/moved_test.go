package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/management"
)

// onlySeen tells of drift and repairs none.
var onlySeen = strings.Replace(atOnce, "mode: enforce", "mode: observe", 1)

// clusterctl lists providers, describes a cluster, gives its kubeconfig and moves it
// to another management cluster, where it goes on: nothing is done to the cloud by
// the move, drift is still drift, and the cluster is scaled and deleted there.
func TestMovedCluster(t *testing.T) {
	long(t)
	ctx := t.Context()
	from := management.Start(t, management.Boots())
	cloud := from.AWS()
	before := present(t, cloud)
	providers := inventory(t)
	kubectl(t, from.Kubeconfig, providers, "apply", "-f", "-")
	d := buildsAWS(t, from, onlySeen)
	c := from.AWSCluster(ctx, management.AWS{ControlPlanes: 3, Workers: 2})
	c.WaitReady(ctx)

	t.Log("its providers are listed")
	config, versions := repository(t)
	list := clusterctl(t, from, "upgrade", "plan", "--config", config)
	for _, label := range []string{"cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm", "infrastructure-aws"} {
		if line := regexp.MustCompile(`(?m)^` + label + `\s+holdfast-system\s+\w+Provider\s+` + regexp.QuoteMeta(versions[label]) + `\s+Already up to date$`); !line.MatchString(list) {
			t.Errorf("it does not list %s %s:\n%s", label, versions[label], list)
		}
	}
	useWith(ctx, t, from, c)

	t.Log("what drifts before the move")
	worker := c.Workers(ctx, "general")[0]
	infra := &awsv1.AWSCluster{}
	c.Get(ctx, c.Name, infra)
	vpc := infra.Spec.NetworkSpec.VPC.ID
	if err := errors.Join(cloud.Tag(ctx, management.Instance(worker), "Pool", ""), cloud.Tag(ctx, vpc, "Environment", "")); err != nil {
		t.Fatal(err)
	}
	sweepNow(ctx, t, from, c)
	drifts(ctx, c, worker, metav1.ConditionTrue)

	t.Log("moved")
	to := management.Start(t, management.Beside(from))
	kubectl(t, to.Kubeconfig, providers, "apply", "-f", "-")
	there := buildsAWS(t, to, onlySeen)
	calls, resources, uids := len(cloud.Mutations()), present(t, cloud), map[string]string{}
	for _, m := range c.Machines(ctx) {
		uids[m.Name] = string(m.UID)
	}
	kubectl(t, from.Kubeconfig, "", "create", "secret", "generic", "login", "--namespace", from.Namespace)
	kubectl(t, from.Kubeconfig, "", "label", "secret", "login", "--namespace", from.Namespace, "clusterctl.cluster.x-k8s.io/move=")
	clusterctl(t, from, "move", "--namespace", from.Namespace, "--to-kubeconfig", to.Kubeconfig)
	if left := kubectl(t, from.Kubeconfig, "", "get", "clusters,machines,machinesets,machinedeployments,kubeadmcontrolplanes,kubeadmconfigs,awsclusters,awsmachines,secrets",
		"--namespace", from.Namespace, "-o", "name"); left != "" {
		t.Errorf("in the first management cluster there are still %s", left)
	}
	kubectl(t, to.Kubeconfig, "", "get", "secret", "login", "--namespace", to.Namespace)
	c = c.MovedTo(to)
	c.WaitReady(ctx)
	for _, m := range c.Machines(ctx) {
		if uid, ok := uids[m.Name]; !ok || uid == string(m.UID) {
			t.Errorf("Machine %s has UID %s, and had %q before the move", m.Name, m.UID, uid)
		}
	}
	useWith(ctx, t, to, c)

	t.Log("drift is still drift, and nothing was done to the cloud")
	sweepNow(ctx, t, to, c)
	for _, m := range c.Machines(ctx) {
		want := metav1.ConditionFalse
		if m.Name == worker.Name {
			want, worker = metav1.ConditionTrue, m
		}
		drifts(ctx, c, m, want)
	}
	if more := cloud.Mutations()[calls:]; len(more) > 0 {
		var actions []string
		for _, call := range more {
			actions = append(actions, call.Action)
		}
		t.Errorf("the move has had %q called", actions)
	}
	if now := present(t, cloud); !slices.Equal(now, resources) {
		t.Errorf("there are %q after the move, and were %q", now, resources)
	}
	there.follow(t, atOnce)
	sweepNow(ctx, t, to, c)
	succeeded(ctx, t, to, c, worker, "patch")

	t.Log("scaled")
	scaled(ctx, t, to, c, 3)

	t.Log("rolled")
	old := c.Workers(ctx, "general")
	clusterctl(t, to, "alpha", "rollout", "restart", "machinedeployment/"+c.Name+"-general", "--namespace", to.Namespace)
	for _, m := range old {
		c.WaitReplaced(ctx, m)
	}

	t.Log("deleted, it leaves nothing")
	deleted(ctx, t, to, c)
	if left := slices.DeleteFunc(present(t, cloud), func(id string) bool { return slices.Contains(before, id) }); len(left) > 0 {
		t.Errorf("after the cluster is gone there are still %q", left)
	}
	there.stop(t)
	d.stop(t)
}

// scaled waits until the pool general has as many machines, and all is ready.
func scaled(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, n int32) {
	t.Helper()
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

// deleted deletes a Cluster and waits until it is gone.
func deleted(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster) {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	c.Get(ctx, c.Name, cluster)
	if err := g.Client.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	c.Eventually(ctx, "gone", func(ctx context.Context) error {
		err := g.Client.Get(ctx, c.Key(), cluster)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

// useWith describes a cluster, and asks its API server by the kubeconfig that it
// is given.
func useWith(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster) {
	t.Helper()
	var well []*regexp.Regexp
	for _, object := range []string{"Cluster %s/" + c.Name, "AWSCluster %s/" + c.Name, "KubeadmControlPlane %s/" + c.ControlPlane, "MachineDeployment %s/" + c.Name + "-general"} {
		well = append(well, regexp.MustCompile(`(?m)(^|─)`+regexp.QuoteMeta(fmt.Sprintf(object, g.Namespace))+`[ ,].*\sTrue\s`))
	}
	c.Eventually(ctx, "described as well", func(context.Context) error {
		tree := clusterctl(t, g, "describe", "cluster", c.Name, "--namespace", g.Namespace)
		for _, line := range well {
			if !line.MatchString(tree) {
				return fmt.Errorf("it has no line %s:\n%s", line, tree)
			}
		}
		return nil
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(clusterctl(t, g, "get", "kubeconfig", c.Name, "--namespace", g.Namespace)), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := strings.Fields(kubectl(t, file, "", "get", "nodes", "-o", "name"))
	for _, m := range c.Machines(ctx) {
		if !slices.Contains(nodes, "node/"+m.Status.NodeRef.Name) {
			t.Errorf("its API server knows no node %s: %q", m.Status.NodeRef.Name, nodes)
		}
	}
}
