package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
)

const capa = "sigs.k8s.io/cluster-api-provider-aws/v2"

// simpleRole is what CAPA's test of multi-tenancy has its controller assume.
const simpleRole = "arn:aws:iam::123456789012:role/multi-tenancy-role"

// capaVariables are what CAPA's quick start has a user set.
func capaVariables(name string) map[string]string {
	return map[string]string{
		"CLUSTER_NAME": name, "AWS_REGION": management.Region, "AWS_SSH_KEY_NAME": "default", "KUBERNETES_VERSION": olderVersion,
		"CONTROL_PLANE_MACHINE_COUNT": "1", "AWS_CONTROL_PLANE_MACHINE_TYPE": "t3.large",
		"WORKER_MACHINE_COUNT": "1", "AWS_NODE_MACHINE_TYPE": "t3.large", "CNI_RESOURCES": "",
		"MULTI_TENANCY_SIMPLE_IDENTITY_NAME": "simple", "MULTI_TENANCY_SIMPLE_ROLE_ARN": simpleRole,
	}
}

// capaGround has an account as `clusterawsadm bootstrap iam` and the quick start's
// prerequisites leave it, and the program that looks after it.
func capaGround(t *testing.T, o ec2sim.Options) *management.Ground {
	t.Helper()
	g := management.Start(t, management.Boots())
	// Where load balancers are said to be, a workload cluster answers.
	o.BalancerHost = func(string) string { return "127.0.0.1" }
	cloud := g.StartAWS(o)
	account := cloud.Clients(cloud.Operator)
	errs := []error{account.KeyPair(t.Context(), "default")}
	for _, profile := range []string{"control-plane", "nodes"} {
		errs = append(errs, account.InstanceProfile(t.Context(), profile+".cluster-api-provider-aws.sigs.k8s.io"))
	}
	for _, version := range []string{olderVersion, newerVersion} {
		_, err := cloud.Server.AddImage(cloud.Server.DefaultScope(management.Region), ec2sim.Image{
			Name: "capa-ami-ubuntu-24.04-" + version + "-1700000000", Owner: "819546954734",
		})
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	address, folder := g.Webhooks()
	// Its lease is not in the namespace that a test deletes.
	launch(t, g.Environ(), atOnce, "--reconcilers", "core,kubeadm,aws", "--feature-gates", "ClusterTopology=true",
		"--webhook-bind-address", address, "--webhook-cert-dir", folder, "--leader-election-namespace", "default")
	return g
}

// fromCAPA applies one of CAPA's templates.
func fromCAPA(t *testing.T, g *management.Ground, template, name string, more map[string]string) *existence {
	t.Helper()
	ctx := t.Context()
	variables := capaVariables(name)
	for k, v := range more {
		variables[k] = v
	}
	e := &existence{
		t: t, g: g, c: g.ServeAt(ctx, name, 6443), infra: "awsclusters.infrastructure.cluster.x-k8s.io",
		text: generate(t, filepath.Join(templatesOf(t, capa), template), variables),
		held: func(context.Context) ([]string, error) { return present(t, g.AWS()), nil },
	}
	e.before = present(t, g.AWS())
	e.kubectl(e.text, "apply", "-f", "-")
	e.c = g.Topology(ctx, name)
	return e
}

// CAPA's quick start is followed to its end, whichever way a user ends it.
func TestCAPAQuickStart(t *testing.T) {
	long(t)
	g := capaGround(t, ec2sim.Options{})
	for i, o := range orders() {
		e := fromCAPA(t, g, "cluster-template.yaml", fmt.Sprintf("quick-%d", i), nil)
		e.ready(t.Context())
		e.end(t.Context(), o)
	}
}

// Each of CAPA's templates that is said to run goes the whole life.
func TestCAPATemplates(t *testing.T) {
	long(t)
	g := capaGround(t, ec2sim.Options{})
	for i, r := range templateTable(t) {
		if r.provider != "CAPA" || !r.runs {
			continue
		}
		t.Log(r.file)
		e := fromCAPA(t, g, r.file, fmt.Sprintf("life-%d", i), nil)
		e.ready(t.Context())
		e.grow(t.Context())
		e.end(t.Context(), orders()[0])
	}
}

// A tenant's cluster is made by a role. Whoever deletes the role's identity together
// with the cluster is told what is missing, and gets rid of it all by applying it
// again.
func TestCAPAMultiTenancy(t *testing.T) {
	long(t)
	ctx := t.Context()
	g := capaGround(t, ec2sim.Options{Roles: []ec2sim.Role{{ARN: simpleRole}}})
	e := fromCAPA(t, g, "../test/e2e/data/infrastructure-aws/withoutclusterclass/e2e_test_templates/cluster-template-simple-multitenancy.yaml", "tenant", nil)
	e.ready(ctx)
	e.grow(ctx)

	t.Log("deleted with its identity")
	e.kubectl(e.text, "delete", "-f", "-", "--wait=false")
	e.c.Eventually(ctx, "told what is missing", func(context.Context) error {
		out := run(t, g, "", "get", "awsclusters,awsmachines", "-o", "jsonpath={.items[*].status.conditions}")
		if !strings.Contains(out, "read AWSClusterRoleIdentity/simple") {
			return fmt.Errorf("conditions are %s", out)
		}
		return nil
	})
	for _, doc := range strings.Split(e.text, "\n---") {
		if strings.Contains(doc, "\nkind: AWSClusterRoleIdentity\n") {
			e.kubectl(doc, "apply", "-f", "-")
		}
	}
	e.gone(ctx, orders()[0])
}
