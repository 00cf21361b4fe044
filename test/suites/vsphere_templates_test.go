package suites

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/vsphere"
)

// templateVariables fill CAPV's templates with names of the simulator's
// inventory.
var templateVariables = map[string]string{
	"CLUSTER_NAME": "c1", "NAMESPACE": "prod", "CLUSTER_CLASS_NAME": "vsphere-class", "KUBERNETES_VERSION": "v1.34.2",
	"CONTROL_PLANE_ENDPOINT_IP": "10.20.0.10", "CONTROL_PLANE_MACHINE_COUNT": "3", "WORKER_MACHINE_COUNT": "2",
	"VSPHERE_SERVER": "vcenter.example.com", "VSPHERE_USERNAME": "capv", "VSPHERE_PASSWORD": "secret",
	"VSPHERE_TLS_THUMBPRINT": "3B:5D:02:9A:61:C4:7E:88:10:F2:AD:45:9C:33:E7:0B:52:6D:81:FE",
	"VSPHERE_DATACENTER":     "fra1", "VSPHERE_DATASTORE": "nvme-1", "VSPHERE_FOLDER": "prod-fra", "VSPHERE_NETWORK": "k8s-nodes",
	"VSPHERE_RESOURCE_POOL": "*/Resources/k8s-prod", "VSPHERE_STORAGE_POLICY": "gold", "VSPHERE_TEMPLATE": "ubuntu-2404-kube-v1.34.2",
	"VSPHERE_SSH_AUTHORIZED_KEY": "ssh-ed25519 AAAA", "VSPHERE_IMAGE_NAME": "ubuntu", "VSPHERE_MACHINE_CLASS_NAME": "best-effort-large",
	"VSPHERE_STORAGE_CLASS": "gold", "CPI_IMAGE_K8S_VERSION": "v1.34.0", "NAMESERVER": "10.20.0.2",
	"NODE_IPAM_POOL_API_GROUP": "ipam.cluster.x-k8s.io", "NODE_IPAM_POOL_KIND": "InClusterIPPool", "NODE_IPAM_POOL_NAME": "nodes",
}

var templateVariable = regexp.MustCompile(`\$?\$\{([A-Z0-9_]+)(?::?[=-]([^}]*))?\}`)

// fill does what clusterctl does to a template: "$${X}" is a literal "${X}",
// which only scripts hold; here it becomes $X, since the loader takes it for an
// unfilled variable.
func fill(t *testing.T, text string) string {
	return templateVariable.ReplaceAllStringFunc(text, func(s string) string {
		m := templateVariable.FindStringSubmatch(s)
		if strings.HasPrefix(s, "$$") {
			return "$" + m[1]
		}
		if v, ok := templateVariables[m[1]]; ok {
			return v
		}
		if strings.Contains(s, "=") {
			return strings.Trim(m[2], `"`)
		}
		t.Errorf("variable %s has no value here", m[1])
		return ""
	})
}

func capvTemplates(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api-provider-vsphere").Output()
	if err != nil {
		t.Fatalf("find CAPV's module: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "templates", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("CAPV's module has no templates: %v", err)
	}
	return files
}

// Each of CAPV's own cluster templates loads and gives a desired state, and
// what belongs to its supervisor mode is not compared, by name.
func TestVSphereUpstreamTemplates(t *testing.T) {
	kinds, err := inventory.NewKinds(vsphere.Registration())
	if err != nil {
		t.Fatal(err)
	}
	e := vsphereEnv(t, nil)
	p := vsphereProvider(t, e)
	scope, err := p.Scope(t.Context(), e.Owners()[0])
	if err != nil {
		t.Fatal(err)
	}
	snap, err := p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range capvTemplates(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := fill(t, string(data))
			path := filepath.Join(t.TempDir(), "objects.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			set, err := inventory.FromFiles(kinds, []string{path}, nil)
			if err != nil {
				t.Fatal(err)
			}
			supervisor := strings.Contains(file, "supervisor")
			checkClusters(t, kinds, set, p, snap, supervisor)
			checkMachineTemplates(t, text, p, snap, supervisor)
		})
	}
}

func checkClusters(t *testing.T, kinds *inventory.Kinds, set *inventory.Set, p providers.Provider, snap *providers.Snapshot, supervisor bool) {
	inv, err := inventory.Group(kinds, set, inventory.Selection{})
	if err != nil {
		if strings.Contains(err.Error(), "no Cluster") {
			return // a cluster class alone is no cluster
		}
		t.Fatal(err)
	}
	for _, c := range inv.Clusters {
		for _, o := range c.Owners {
			if _, err := p.Desired(&o.Owner, snap); err != nil {
				t.Errorf("%s: %v", o.Ref, err)
			}
		}
		named := false
		for _, u := range c.Uncompared {
			named = named || u.Provider == vsphere.Name && strings.Contains(u.Reason, "supervisor")
		}
		topology := c.Object.Spec.Topology.IsDefined()
		if supervisor && !topology && !named {
			t.Errorf("nothing of %s is named as not compared: %v", c.Key(), c.Uncompared)
		}
		if !supervisor && !topology && len(c.Owners) == 0 {
			t.Errorf("%s has no owner", c.Key())
		}
	}
}

// checkMachineTemplates makes a machine from each machine template and asks
// what it wants.
func checkMachineTemplates(t *testing.T, text string, p providers.Provider, snap *providers.Snapshot, supervisor bool) {
	n := 0
	for _, doc := range strings.Split(text, "\n---\n") {
		var tpl infrav1.VSphereMachineTemplate
		if err := yaml.Unmarshal([]byte(doc), &tpl); err != nil || tpl.Kind != "VSphereMachineTemplate" ||
			schema.FromAPIVersionAndKind(tpl.APIVersion, tpl.Kind).Group != infrav1.GroupVersion.Group {
			continue
		}
		n++
		machine := &infrav1.VSphereMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: tpl.Namespace, Name: tpl.Name + "-0"},
			Spec:       tpl.Spec.Template.Spec,
		}
		machine.Spec.ProviderID = "vsphere://4213cc4f-88f3-67bc-88fd-f5a04ad10a56"
		owner := &providers.Owner{
			Ref:     providers.OwnerRef{Kind: "VSphereMachine", Namespace: machine.Namespace, Name: machine.Name},
			Cluster: &clusterv1.Cluster{}, Machine: &clusterv1.Machine{ObjectMeta: machine.ObjectMeta}, Infra: machine,
		}
		want, err := p.Desired(owner, snap)
		if err != nil {
			t.Errorf("%s: %v", tpl.Name, err)
			continue
		}
		for _, path := range []string{"/numCPUs", "/memoryMiB", "/folder", "/resourcePool", "/datastore", "/networks/0/networkName"} {
			if _, ok := want[0].Fields.Lookup(path); !ok && tpl.Spec.Template.Spec.NumCPUs > 0 {
				t.Errorf("%s wants no %s", tpl.Name, path)
			}
		}
	}
	if n == 0 && !supervisor && !strings.Contains(text, "topology:") {
		t.Error("no machine template in it")
	}
}
