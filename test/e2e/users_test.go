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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
)

// usersManifests are files as a user wrote them.
const usersManifests = "../management/testdata"

// A user registers a provider by an object, with credentials in a Secret, and
// applies a cluster as it stands in their files; the program makes it, and says
// what in them has no effect.
func TestUsersManifests(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t, management.Boots(), management.In(metav1.NamespaceDefault))
	cloud := g.StartAWS(ec2sim.Options{
		Regions: []string{"us-west-2"}, BalancerHost: func(string) string { return "127.0.0.1" },
	})
	if _, err := cloud.Server.AddImage(cloud.Server.DefaultScope("us-west-2"), ec2sim.Image{
		Name: "capa-ami-ubuntu-24.04-v1.28.0-1700000000", Owner: "819546954734",
	}); err != nil {
		t.Fatal(err)
	}
	account := cloud.Clients(cloud.Operator)
	if err := errors.Join(
		account.InstanceProfile(ctx, "control-plane.cluster-api-provider-aws.sigs.k8s.io"),
		account.KeyPair(ctx, "my-key"),
	); err != nil {
		t.Fatal(err)
	}
	// Where the simulator's load balancers are said to be.
	c := g.ServeAt(ctx, "my-cluster", 6443)
	apply := func(name string) string {
		t.Helper()
		out, err := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"),
			"--kubeconfig", g.Kubeconfig, "apply", "-f", filepath.Join(usersManifests, name)).CombinedOutput()
		if err != nil {
			t.Fatalf("apply %s: %v: %s", name, err, out)
		}
		return string(out)
	}
	apply("provider.yaml")
	if err := g.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capi-provider-system", Name: "aws-credentials"},
		StringData: map[string]string{"AccessKeyID": cloud.Daemon.AccessKeyID, "SecretAccessKey": cloud.Daemon.SecretAccessKey},
	}); err != nil {
		t.Fatal(err)
	}
	address, folder := g.Webhooks()
	launch(t, append(g.Environ(), "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY="), atOnce,
		"--reconcilers", "core,kubeadm,auto", "--webhook-bind-address", address, "--webhook-cert-dir", folder,
		"--leader-election-namespace", g.Namespace)

	if out := apply("aws-cluster.yaml"); !strings.Contains(out, "Warning: spec.vpc is not a field of AWSCluster; you mean spec.network.vpc") {
		t.Errorf("whoever applies it is not warned: %s", out)
	}
	c.WaitReady(ctx)
	cluster, infra := &clusterv1.Cluster{}, &awsv1.AWSCluster{}
	c.Get(ctx, "my-cluster", cluster)
	c.Get(ctx, "my-cluster", infra)
	if n := len(c.ControlPlanes(ctx)); cluster.Status.Phase != string(clusterv1.ClusterPhaseProvisioned) || n != 3 {
		t.Errorf("the Cluster is %s with %d control planes", cluster.Status.Phase, n)
	}
	if e := infra.Spec.ControlPlaneEndpoint; e.Host != "127.0.0.1" || e.Port != 6443 {
		t.Errorf("its endpoint is %v, want the load balancer's", e)
	}
	told := ""
	for _, cond := range infra.Status.Conditions {
		told += fmt.Sprintf("%s=%s %s: %s\n", cond.Type, cond.Status, cond.Reason, cond.Message)
	}
	if !strings.Contains(told, "spec.vpc is not a field of AWSCluster; you mean spec.network.vpc") {
		t.Errorf("no condition says that spec.vpc has no effect:\n%s", told)
	}

	t.Log("and deletes it")
	before := cluster.DeepCopy()
	if err := g.Client.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	c.Eventually(ctx, "gone", func(ctx context.Context) error {
		if err := g.Client.Get(ctx, client.ObjectKeyFromObject(before), cluster); client.IgnoreNotFound(err) != nil || err == nil {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	left, err := cloud.Server.Resources(cloud.Server.DefaultScope("us-west-2"))
	if err != nil || len(left) > 0 {
		t.Errorf("after the cluster is gone there are still %q, %v", left, err)
	}
}

// A cluster of a ClusterClass is made, scaled and upgraded by fields of its
// topology alone.
func TestClassyCluster(t *testing.T) {
	long(t)
	ctx := t.Context()
	g := management.Start(t, management.Boots())
	cloud := g.AWS()
	account := cloud.Clients(cloud.Operator)
	for _, profile := range []string{"control-plane", "nodes"} {
		if err := account.InstanceProfile(ctx, profile+".cluster-api-provider-aws.sigs.k8s.io"); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"1.35.2", "1.36.1"} {
		if _, err := cloud.Server.AddImage(cloud.Server.DefaultScope(management.Region), ec2sim.Image{
			Name: "capa-ami-ubuntu-24.04-v" + version + "-1700000000", Owner: "819546954734",
		}); err != nil {
			t.Fatal(err)
		}
	}
	before := present(t, cloud)
	buildsAWS(t, g, atOnce, "--feature-gates", "ClusterTopology=true")
	host, port := g.Endpoint(ctx, "web")
	// The class leaves the endpoint to the load balancer, which nothing can connect
	// to here.
	manifest, err := os.ReadFile("../../examples/clusterclass/aws.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(manifest), "      controlPlaneLoadBalancer: {loadBalancerType: nlb}\n",
		fmt.Sprintf("      controlPlaneLoadBalancer: {loadBalancerType: nlb}\n      controlPlaneEndpoint: {host: %s, port: %d}\n", host, port), 1)
	kubectl := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "--kubeconfig", g.Kubeconfig, "apply", "-n", g.Namespace, "-f", "-")
	kubectl.Stdin = strings.NewReader(text)
	if out, err := kubectl.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := g.Topology(ctx, "web")
	c.WaitReady(ctx)

	patch := func(change func(*clusterv1.Cluster)) {
		t.Helper()
		cluster := &clusterv1.Cluster{}
		c.Get(ctx, "web", cluster)
		base := cluster.DeepCopy()
		change(cluster)
		if err := g.Client.Patch(ctx, cluster, client.MergeFrom(base)); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("scaled by the topology")
	patch(func(cluster *clusterv1.Cluster) {
		cluster.Spec.Topology.Workers.MachineDeployments[0].Replicas = ptr.To[int32](4)
	})
	c.Eventually(ctx, "4 workers", func(ctx context.Context) error {
		if n := len(c.Workers(ctx, "")); n != 4 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	c.WaitReady(ctx)

	t.Log("upgraded by one field")
	patch(func(cluster *clusterv1.Cluster) { cluster.Spec.Topology.Version = "v1.36.1" })
	c.Eventually(ctx, "upgraded", func(ctx context.Context) error {
		for _, m := range c.Machines(ctx) {
			if m.Spec.Version != "v1.36.1" {
				return fmt.Errorf("machine %s is of %s", m.Name, m.Spec.Version)
			}
		}
		return nil
	})
	c.WaitReady(ctx)

	t.Log("and deleted")
	cluster := &clusterv1.Cluster{}
	c.Get(ctx, "web", cluster)
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
	if left := slices.DeleteFunc(present(t, cloud), func(id string) bool { return slices.Contains(before, id) }); len(left) > 0 {
		t.Errorf("after the cluster is gone there are still %q", left)
	}
}
