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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	long(t)
	ctx := t.Context()
	g := management.Start(t, management.Boots(), management.In(metav1.NamespaceDefault))
	cloud := g.StartAWS(ec2sim.Options{
		Regions: []string{"us-west-2"}, BalancerHost: func(string) string { return "127.0.0.1" },
	})
	if _, err := cloud.Server.AddImage(cloud.Server.DefaultScope("us-west-2"), ec2sim.Image{
		Name: "capa-ami-ubuntu-24.04-1.28.0-1700000000", Owner: "819546954734",
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
