package chart

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/management"
)

// TestManagedLife has the program be a Cluster API as the chart's ServiceAccount
// and with the chart's configuration, webhooks, Service and certificate: it makes a
// cluster on AWS, repairs, heals and ends it, nothing is refused, and nothing is granted
// that it does not use. What the engine alone needs is TestLifeCycle's.
func TestManagedLife(t *testing.T) {
	g := newManagedGround(t)
	g.manage(t)
}

func (g *ground) manage(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g.ledger.whenRefused(func(c call) { // whoever waits need not any longer
		t.Errorf("%s is refused", c)
		cancel()
	})
	defer g.ledger.whenRefused(nil)
	g.AWS()
	g.aged(t)
	g.install(t, managing)
	all := g.replicas(t, g.Variables()...)
	g.process = all[0]
	g.aws = g.AWSCluster(ctx, management.AWS{ControlPlanes: 1, Workers: 2, Edit: func(m *awscluster.Manifest) {
		m.Cluster.Labels = map[string]string{"addons": "yes"}
		for _, template := range m.MachineTemplates {
			add := &template.Spec.Template.Spec.AdditionalTags
			if *add == nil {
				*add = capa.Tags{}
			}
			(*add)["Patched"], (*add)["Deleted"] = "yes", "yes"
		}
	}})
	g.extras(t)
	g.aws.WaitReady(ctx)
	g.class(t)
	g.upgraded(t)
	g.rekeyed(t, all)
	g.repairs(ctx, t)
	g.added(ctx, t)
	g.ended(ctx, t)
	for _, p := range all {
		p.stop(t)
	}
	rendered := must(g.helm(t, "3").template(t, "-f", valuesFile(t, managing)))(t)
	g.ledger.balance(t, rendered, idle, "-observe", "-enforce")
}

// extras are objects beside the cluster's: a health check, a provider, add-ons, and
// a pool of machines that nobody makes.
func (g *ground) extras(t *testing.T) {
	t.Helper()
	g.apply(t, strings.ReplaceAll(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: general}
spec:
  clusterName: CLUSTER
  selector: {matchLabels: {cluster.x-k8s.io/deployment-name: CLUSTER-general}}
  checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 3600}]}
---
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Provider
metadata: {name: infrastructure-aws}
spec: {type: InfrastructureProvider, version: v2.13.0}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: addon}
data: {addon.yaml: "{apiVersion: v1, kind: ConfigMap, metadata: {name: addon, namespace: default}}"}
---
apiVersion: v1
kind: Secret
metadata: {name: addon}
type: addons.cluster.x-k8s.io/resource-set
stringData: {addon.yaml: "{apiVersion: v1, kind: ConfigMap, metadata: {name: addon-2, namespace: default}}"}
---
apiVersion: addons.cluster.x-k8s.io/v1beta2
kind: ClusterResourceSet
metadata: {name: addons}
spec:
  clusterSelector: {matchLabels: {addons: "yes"}}
  resources: [{kind: ConfigMap, name: addon}, {kind: Secret, name: addon}]
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: pool}
spec:
  clusterName: CLUSTER
  replicas: 0
  template:
    spec:
      clusterName: CLUSTER
      bootstrap: {dataSecretName: ""}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachinePool, name: pool}
`, "CLUSTER", g.aws.Name))
}

// class makes a cluster of a class, whose machines nobody waits for.
func (g *ground) class(t *testing.T) {
	t.Helper()
	infra := &capa.AWSCluster{}
	g.aws.Get(t.Context(), g.aws.Name, infra)
	g.apply(t, strings.NewReplacer("CLUSTER", g.aws.Name, "REGION", infra.Spec.Region).Replace(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSClusterTemplate
metadata: {name: class}
spec: {template: {spec: {region: REGION}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: class}
spec: {template: {spec: {kubeadmConfigSpec: {format: cloud-config}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: class}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSClusterTemplate, name: class}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: class}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachineTemplate, name: CLUSTER-control-plane}}
  workers:
    machineDeployments:
    - class: general
      bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: CLUSTER-workers}}
      infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachineTemplate, name: CLUSTER-general}}
      healthCheck: {checks: {nodeStartupTimeoutSeconds: 3600}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: classy}
spec:
  topology:
    classRef: {name: class}
    version: v1.33.0
    controlPlane: {replicas: 1}
    workers: {machineDeployments: [{class: general, name: one, replicas: 0}]}
`))
}

// upgraded: neither an upgrade nor a rollback takes the CA from the webhook
// configurations, and what takes it away as a whole does so for seconds.
func (g *ground) upgraded(t *testing.T) {
	t.Helper()
	before := g.bundle(t)
	if len(before) == 0 {
		t.Fatal("the webhook configurations have no CA, or several")
	}
	for major, h := range map[string]*helm{"3": g.helm(t, "3"), "4": g.helm(t, "4")} {
		h.run(t, "upgrade", release, folder, "-n", namespace, "-f", valuesFile(t, managing), "--set", "replicas=3,webhooks.timeoutSeconds=11")
		if !bytes.Equal(g.bundle(t), before) {
			t.Errorf("an upgrade by Helm %s takes the CA away", major)
		}
		h.run(t, "rollback", release, "1", "-n", namespace)
		if !bytes.Equal(g.bundle(t), before) {
			t.Errorf("a rollback by Helm %s takes the CA away", major)
		}
	}
	hooks := &admissionv1.ValidatingWebhookConfiguration{}
	hooks.Name = hooksName
	g.kubectl(t, "patch", "validatingwebhookconfiguration", hooksName, "--type=json", "-p", `[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`)
	g.eventually(t, "so that the CA is back", func() error {
		if !bytes.Equal(g.bundle(t), before) {
			return errors.New("it is not")
		}
		return nil
	})
}

// bundle is the CA of all of the release's webhooks, nil if they have different ones.
func (g *ground) bundle(t *testing.T) []byte {
	t.Helper()
	validating := must(get[admissionv1.ValidatingWebhookConfiguration](t.Context(), g.cluster, "", hooksName))(t)
	mutating := must(get[admissionv1.MutatingWebhookConfiguration](t.Context(), g.cluster, "", hooksName))(t)
	out := validating.Webhooks[0].ClientConfig.CABundle
	for i := range validating.Webhooks {
		if !bytes.Equal(validating.Webhooks[i].ClientConfig.CABundle, out) {
			return nil
		}
	}
	for i := range mutating.Webhooks {
		if !bytes.Equal(mutating.Webhooks[i].ClientConfig.CABundle, out) {
			return nil
		}
	}
	return out
}

// rekeyed: who empties the Secret has every replica serve by new keys, none of
// which is restarted, and goes on being answered.
func (g *ground) rekeyed(t *testing.T, all []*process) {
	t.Helper()
	before := map[*process][]byte{}
	for _, p := range all {
		before[p] = g.served(t, p)
	}
	g.kubectl(t, "patch", "secret", "-n", namespace, webhookName, "--type=json", "-p", `[{"op":"remove","path":"/data"}]`)
	g.eventually(t, "so that all serve by new keys", func() error {
		for _, p := range all {
			if bytes.Equal(g.served(t, p), before[p]) {
				return fmt.Errorf("%s does not", p.webhooks)
			}
		}
		bad := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "bad"}}
		bad.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"10.0.0.0"}
		if err := g.Client.Create(t.Context(), bad, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "10.0.0.0") {
			return fmt.Errorf("a Cluster with a bad network is answered by %w", err)
		}
		return nil
	})
}

// served is the certificate that a replica serves by.
func (g *ground) served(t *testing.T, p *process) []byte {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // it is looked at
	conn := must(dialer.DialContext(t.Context(), "tcp", p.webhooks))(t)
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw
}

// repairs are the engine's, of what the reconcilers have made.
func (g *ground) repairs(ctx context.Context, t *testing.T) {
	t.Helper()
	g.watchRecords(t)
	g.begun = time.Now()
	workers := g.aws.Workers(ctx, "general")
	g.sweep(ctx, t, g.aws)
	g.occupy(ctx, t, g.aws, workers[1])
	g.tag(t, workers[0], "Patched", "")
	g.tag(t, workers[1], "Deleted", "")
	g.sweep(ctx, t, g.aws)
	g.repair(ctx, t, workers[0], "patch", "")
	g.repair(ctx, t, workers[1], "replace", "")
}

// added waits for the add-ons, and for what the class's cluster consists of.
func (g *ground) added(ctx context.Context, t *testing.T) {
	t.Helper()
	g.eventually(t, "with its add-ons", func() error {
		binding, err := get[addonsv1.ClusterResourceSetBinding](ctx, g.cluster, g.Namespace, g.aws.Name)
		if err != nil {
			return err
		}
		for _, b := range binding.Spec.Bindings {
			for _, r := range b.Resources {
				if r.Applied == nil || !*r.Applied {
					return fmt.Errorf("%s %s is not applied", r.Kind, r.Name)
				}
			}
		}
		return nil
	})
	g.eventually(t, "a cluster of a class", func() error {
		list := &clusterv1.MachineDeploymentList{}
		if err := g.Client.List(ctx, list, client.InNamespace(g.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: "classy"}); err != nil || len(list.Items) == 1 {
			return err
		}
		return errors.New("it has no pool")
	})
}

// ended deletes both clusters, and waits until they are gone.
func (g *ground) ended(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, name := range []string{"classy", g.aws.Name} {
		of := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: name}}
		if err := g.Client.Delete(ctx, of); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"classy", g.aws.Name} {
		g.eventually(t, "rid of cluster "+name, func() error {
			of := &clusterv1.Cluster{}
			err := g.Client.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: name}, of)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, fmt.Errorf("it is there: %+v", of.Status.Conditions))
		})
	}
}
