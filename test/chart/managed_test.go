package chart

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/reconcilers/core"
	"github.com/holdfast-io/holdfast/test/management"
)

// managing are values with which the program is a Cluster API, and repairs.
const managing = `mode: enforce
crds: {enabled: false}
reconcilers:
  core: {enabled: true}
  kubeadm: {enabled: true}
  aws: {enabled: true}
  featureGates: {ClusterTopology: true}
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
      rules:
      - {id: patched, target: {provider: aws, kind: Instance, statuses: [Drifted]}, paths: [/tags/Patched], action: patch, grace: {for: 0s, observations: 1}}
      - {id: deleted, target: {provider: aws, kind: Instance, statuses: [Drifted]}, paths: [/tags/Deleted], action: replace, replace: {strategy: delete}, grace: {for: 0s, observations: 1}}
`

// webhookName is the Service's and the Secret's, hooksName the webhook configurations'.
const webhookName, hooksName = release + "-webhook", namespace + "-" + release

// newManagedGround is a management cluster on which nothing of upstream's runs, nor
// what plays its infrastructure, and nothing is installed of it but CRDs that are
// converted by the chart's Service.
func newManagedGround(t *testing.T) *ground {
	t.Helper()
	ctx := t.Context()
	g := &ground{Ground: management.Start(t, management.Boots())}
	g.cluster = &cluster{config: g.Config, kubeconfig: g.Kubeconfig, client: g.Client}
	for _, o := range []client.Object{&admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}} {
		if err := g.Client.DeleteAllOf(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	g.olden(t)
	for _, name := range core.Definitions(slices.Concat(core.Parts(), []core.Part{core.AWS})...) {
		crd := must(get[apiextensionsv1.CustomResourceDefinition](ctx, g.cluster, "", name))(t)
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{Namespace: namespace, Name: webhookName, Path: ptr.To("/convert"), Port: ptr.To[int32](443)},
			},
			ConversionReviewVersions: []string{"v1"},
		}}
		if err := g.Client.Update(ctx, crd); err != nil {
			t.Fatal(err)
		}
	}
	g.system(t)
	g.ledger = newLedger(t, g.Config)
	return g
}

// aged has the API server believe that objects are stored in an older version, so
// that they are to be migrated.
func (g *ground) aged(t *testing.T) {
	t.Helper()
	for _, name := range core.Definitions(core.Parts()...) {
		crd := must(get[apiextensionsv1.CustomResourceDefinition](t.Context(), g.cluster, "", name))(t)
		crd.Status.StoredVersions = nil
		for _, v := range crd.Spec.Versions {
			crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
		}
		if err := g.Client.Status().Update(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
	}
}

// olden makes objects of kinds that are migrated, and nothing else is done with.
func (g *ground) olden(t *testing.T) {
	t.Helper()
	g.apply(t, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDrainRule
metadata: {name: all}
spec: {drain: {behavior: Drain}, machines: [{selector: {matchLabels: {old: "yes"}}}]}
---
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddressClaim
metadata: {name: one}
spec: {poolRef: {apiGroup: ipam.example.com, kind: Pool, name: pool}}
---
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddress
metadata: {name: one}
spec: {claimRef: {name: one}, poolRef: {apiGroup: ipam.example.com, kind: Pool, name: pool}, address: 10.0.0.1, prefix: 24, gateway: 10.0.0.254}
`)
}

// apply has kubectl apply objects to the ground's namespace.
func (g *ground) apply(t *testing.T, text string) {
	t.Helper()
	g.kubectl(t, "apply", "-n", g.Namespace, "-f", valuesFile(t, text))
}

// replicas starts as many programs as the Deployment has, and has the Service lead
// to them, as the kubelet and the controller of EndpointSlices would.
func (g *ground) replicas(t *testing.T, environ ...string) []*process {
	t.Helper()
	var out []*process
	for n := range 2 {
		address := net.JoinHostPort(hostAddress(t), freePort(t))
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
		slice.Namespace, slice.Name = namespace, fmt.Sprintf("%s-%d", webhookName, n)
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: webhookName}
		host, port, _ := net.SplitHostPort(address)
		number := int32(must(strconv.Atoi(port))(t))
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
		slice.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("webhooks"), Port: &number}}
		p := g.startWith(t, []string{"--webhook-bind-address", address}, environ...)
		p.webhooks = address
		if err := client.IgnoreNotFound(g.Client.Delete(t.Context(), slice.DeepCopy())); err != nil {
			t.Fatal(err)
		}
		g.make(t, slice)
		out = append(out, p)
	}
	return out
}

// hostAddress is one of this machine's that an EndpointSlice may have: no loopback.
func hostAddress(t *testing.T) string {
	t.Helper()
	for _, a := range must(net.InterfaceAddrs())(t) {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatal("this machine has no IPv4 address but loopback, by which the API server could come to a Service's endpoint")
	return ""
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(hostAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// idle are rights that reconcilers need in situations which the life below does not
// have, by what these are.
var idle = situations(map[string][]string{
	"The API server asks about it where its plugin OwnerReferencesPermissionEnforcement is on, which it is not by itself.": {
		"update addons.cluster.x-k8s.io */finalizers", "update bootstrap.cluster.x-k8s.io */finalizers",
		"update cluster.x-k8s.io */finalizers", "update controlplane.cluster.x-k8s.io */finalizers",
	},
	"The CRD migrator reads an object once more that somebody else has just written.": {
		"get addons.cluster.x-k8s.io clusterresourcesets", "get addons.cluster.x-k8s.io clusterresourcesetbindings",
		"get bootstrap.cluster.x-k8s.io *", "get cluster.x-k8s.io clusterclasses", "get cluster.x-k8s.io machinedrainrules",
		"get cluster.x-k8s.io machinehealthchecks", "get cluster.x-k8s.io machinepools", "get ipam.cluster.x-k8s.io ipaddresses",
		"get ipam.cluster.x-k8s.io ipaddressclaims",
	},
	"The CRD migrator takes older versions out of the managed fields of objects that were written in them.": {
		"patch cluster.x-k8s.io clusterclasses", "patch ipam.cluster.x-k8s.io ipaddressclaims",
	},
	"client-go tells an event a second time by a patch of the first.":                            {"patch  events"},
	"A ClusterClass may have pools that are MachinePools, for which CAPA has a gate of its own.": {"create cluster.x-k8s.io machinepools"},
})

func situations(of map[string][]string) map[string]excuse {
	out := map[string]excuse{}
	for why, rights := range of {
		for _, r := range rights {
			out[r] = excuse{why: why, sometimes: true}
		}
	}
	return out
}
