package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

const capv = "sigs.k8s.io/cluster-api-provider-vsphere"

// capvVariables are what CAPV's quick start has a user set, of the ground's vCenter.
func capvVariables(g *management.Ground, name, endpoint string) map[string]string {
	cloud := g.VSphere()
	host, port, _ := net.SplitHostPort(endpoint)
	return map[string]string{
		"CLUSTER_NAME": name, "NAMESPACE": g.Namespace, "CLUSTER_CLASS_NAME": "quick-start", "KUBERNETES_VERSION": olderVersion,
		"CONTROL_PLANE_ENDPOINT_IP": host, "CONTROL_PLANE_ENDPOINT_PORT": port, "CONTROL_PLANE_MACHINE_COUNT": "1", "WORKER_MACHINE_COUNT": "1",
		"VSPHERE_SERVER": cloud.Server(), "VSPHERE_TLS_THUMBPRINT": cloud.Thumbprint(),
		"VSPHERE_USERNAME": vspherecluster.Username, "VSPHERE_PASSWORD": vspherecluster.Password,
		"VSPHERE_DATACENTER": "fra1", "VSPHERE_DATASTORE": "nvme-1", "VSPHERE_FOLDER": "prod-fra", "VSPHERE_NETWORK": "k8s-nodes",
		"VSPHERE_RESOURCE_POOL": "*/Resources/k8s-prod", "VSPHERE_STORAGE_POLICY": "vSAN Default Storage Policy", "VSPHERE_TEMPLATE": vspherecluster.Template,
		"VSPHERE_SSH_AUTHORIZED_KEY": "ssh-ed25519 AAAA", "CPI_IMAGE_K8S_VERSION": "v1.35.0",
		"NAMESERVER": "10.20.0.2", "NODE_IPAM_POOL_API_GROUP": "ipam.cluster.x-k8s.io", "NODE_IPAM_POOL_KIND": "InClusterIPPool", "NODE_IPAM_POOL_NAME": "nodes",
		"VSPHERE_IMAGE_NAME": "ubuntu", "VSPHERE_MACHINE_CLASS_NAME": "best-effort-large", "VSPHERE_STORAGE_CLASS": "gold",
		// What Ignition's scripts have of their own, clusterctl would take for its.
		"COREOS_CUSTOM_HOSTNAME": "$COREOS_CUSTOM_HOSTNAME", "OUTPUT": "$OUTPUT",
	}
}

// capvGround has a vCenter with a machine template, and the program that looks
// after it.
func capvGround(t *testing.T) *management.Ground {
	t.Helper()
	g := management.Start(t, management.Boots())
	g.VSphere()
	address, folder := g.Webhooks()
	// The simulator locks up when several clients wait for its tasks at once.
	launch(t, append(g.Environ(), "VSPHERE_USERNAME=", "VSPHERE_PASSWORD="), atOnce,
		"--reconcilers", "core,kubeadm,vsphere", "--reconcilers-concurrency", "vspheremachine=1", "--feature-gates", "ClusterTopology=true",
		"--webhook-bind-address", address, "--webhook-cert-dir", folder, "--leader-election-namespace", "default")
	return g
}

// fromCAPV applies some of CAPV's templates.
func fromCAPV(t *testing.T, g *management.Ground, name string, templates ...string) *existence {
	t.Helper()
	ctx := t.Context()
	cloud := g.VSphere()
	port := g.ServeVSphere(ctx, name)
	e := &existence{
		t: t, g: g, infra: "vsphereclusters.infrastructure.cluster.x-k8s.io",
		held: func(ctx context.Context) ([]string, error) {
			all, err := cloud.PowerStates(ctx)
			return slices.Sorted(maps.Keys(all)), err
		},
	}
	var err error
	if e.before, err = e.held(ctx); err != nil {
		t.Fatal(err)
	}
	variables := capvVariables(g, name, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	for _, template := range templates {
		e.text += "---\n" + strings.TrimSuffix(generate(t, filepath.Join(templatesOf(t, capv), template), variables), "\n") + "\n"
	}
	e.kubectl(e.text, "apply", "-f", "-")
	e.c = g.VSphereTopology(ctx, name)
	return e
}

// CAPV's quick start is followed to its end, whichever way a user ends it.
func TestCAPVQuickStart(t *testing.T) {
	long(t)
	g := capvGround(t)
	for i, o := range orders() {
		e := fromCAPV(t, g, fmt.Sprintf("quick-%d", i), "cluster-template.yaml")
		e.ready(t.Context())
		e.end(t.Context(), o)
	}
}

// Each of CAPV's templates that is said to run goes the whole life.
func TestCAPVTemplates(t *testing.T) {
	long(t)
	g := capvGround(t)
	for i, r := range templateTable(t) {
		if r.provider != "CAPV" || !r.runs || strings.HasPrefix(r.file, "clusterclass") {
			continue
		}
		t.Log(r.file)
		files := []string{r.file}
		if strings.Contains(r.file, "topology") {
			files = []string{"clusterclass-template.yaml", r.file}
		}
		e := fromCAPV(t, g, fmt.Sprintf("life-%d", i), files...)
		e.ready(t.Context())
		e.grow(t.Context())
		e.end(t.Context(), orders()[0])
	}
}
