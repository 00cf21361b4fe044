package providerobjects

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/hack/clusterapi"
)

const header = "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Provider\n"

// provider reads one from YAML.
func provider(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(header+text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func name(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func TestRead(t *testing.T) {
	secret := name("capi-provider-system", "aws-credentials")
	bootstrap := name("capa-system", "capa-manager-bootstrap-credentials")
	for title, c := range map[string]struct {
		object  string
		want    Registered
		problem string
	}{
		"with a spec": {
			"metadata: {name: infrastructure-aws, namespace: capi-provider-system}\n" +
				"spec: {type: InfrastructureProvider, version: v2.3.0, configSecret: {name: aws-credentials, namespace: capi-provider-system}}",
			Registered{Object: name("capi-provider-system", "infrastructure-aws"), Type: "InfrastructureProvider", Name: "aws", Part: AWS, Version: "v2.3.0", Contract: "v1beta1", Secret: &secret}, "",
		},
		"with a spec and a name, Secret beside it": {
			"metadata: {name: our-cloud, namespace: capi-provider-system}\nspec: {type: InfrastructureProvider, providerName: aws, version: 2.13.1, configSecret: {name: aws-credentials}}",
			Registered{Object: name("capi-provider-system", "our-cloud"), Type: "InfrastructureProvider", Name: "aws", Part: AWS, Version: "2.13.1", Contract: "v1beta1", Secret: &secret}, "",
		},
		"as clusterctl writes it": {
			"metadata: {name: infrastructure-aws, namespace: capa-system}\nproviderName: aws\ntype: InfrastructureProvider\nversion: v2.13.0",
			Registered{Object: name("capa-system", "infrastructure-aws"), Type: "InfrastructureProvider", Name: "aws", Part: AWS, Version: "v2.13.0", Contract: "v1beta1", Secret: &bootstrap, SecretMayLack: true}, "",
		},
		"core": {
			"metadata: {name: cluster-api, namespace: capi-system}\nproviderName: cluster-api\ntype: CoreProvider\nversion: v1.14.2",
			Registered{Object: name("capi-system", "cluster-api"), Type: "CoreProvider", Name: "cluster-api", Part: Core, Version: "v1.14.2", Contract: "v1beta2"}, "",
		},
		"core with a spec": {
			"metadata: {name: cluster-api, namespace: capi-system}\nspec: {type: CoreProvider, version: v1.10.0}",
			Registered{Object: name("capi-system", "cluster-api"), Type: "CoreProvider", Name: "cluster-api", Part: Core, Version: "v1.10.0", Contract: "v1beta1"}, "",
		},
		"control plane": {
			"metadata: {name: control-plane-kubeadm, namespace: x}\nspec: {type: ControlPlaneProvider, version: v1.14.0}",
			Registered{Object: name("x", "control-plane-kubeadm"), Type: "ControlPlaneProvider", Name: "kubeadm", Part: Kubeadm, Version: "v1.14.0", Contract: "v1beta2"}, "",
		},
		"a spec holds over what is beside it": {
			"metadata: {name: infrastructure-vsphere, namespace: x}\nproviderName: vsphere\ntype: InfrastructureProvider\nversion: v1.3.0\nspec: {type: InfrastructureProvider, version: v1.16.1}",
			Registered{Object: name("x", "infrastructure-vsphere"), Type: "InfrastructureProvider", Name: "vsphere", Part: VSphere, Version: "v1.16.1", Contract: "v1beta2"}, "",
		},
		"another provider": {
			"metadata: {name: infrastructure-azure, namespace: x}\nspec: {type: InfrastructureProvider, version: v1.0.0}",
			Registered{Object: name("x", "infrastructure-azure"), Type: "InfrastructureProvider", Name: "azure", Version: "v1.0.0"},
			`UnknownProvider: Holdfast has no reconcilers for type "InfrastructureProvider" name "azure": its own controllers serve it, if they run; Holdfast has them for CoreProvider cluster-api, ` +
				"BootstrapProvider kubeadm, ControlPlaneProvider kubeadm, InfrastructureProvider aws, InfrastructureProvider vsphere",
		},
		"nothing": {"metadata: {name: x, namespace: x}", Registered{Object: name("x", "x")}, "UnknownProvider: Holdfast has no reconcilers for no type no name"},
		"too new": {
			"metadata: {name: infrastructure-aws, namespace: x}\nspec: {type: InfrastructureProvider, version: v2.14.0}",
			Registered{Object: name("x", "infrastructure-aws"), Type: "InfrastructureProvider", Name: "aws", Part: AWS, Version: "v2.14.0"},
			`VersionMismatch: version "v2.14.0" does not fit: Holdfast serves infrastructure-aws of versions v2.0 to v2.13; set one of them`,
		},
		"too old": {
			"metadata: {name: infrastructure-aws, namespace: x}\nspec: {type: InfrastructureProvider, version: v1.5.2}",
			Registered{Object: name("x", "infrastructure-aws"), Type: "InfrastructureProvider", Name: "aws", Part: AWS, Version: "v1.5.2"}, `VersionMismatch: version "v1.5.2" does not fit`,
		},
		"no version": {
			"metadata: {name: infrastructure-vsphere, namespace: x}\nspec: {type: InfrastructureProvider}",
			Registered{Object: name("x", "infrastructure-vsphere"), Type: "InfrastructureProvider", Name: "vsphere", Part: VSphere},
			"VersionMismatch: no version does not fit: Holdfast serves infrastructure-vsphere of versions v1.0 to v1.16",
		},
		"not a version": {
			"metadata: {name: infrastructure-aws, namespace: x}\nspec: {type: InfrastructureProvider, version: latest}",
			Registered{Object: name("x", "infrastructure-aws"), Type: "InfrastructureProvider", Name: "aws", Part: AWS, Version: "latest"}, `VersionMismatch: version "latest" does not fit`,
		},
		"another namespace": {
			"metadata: {name: cluster-api, namespace: x}\nproviderName: cluster-api\ntype: CoreProvider\nversion: v1.14.2\nwatchedNamespace: team",
			Registered{Object: name("x", "cluster-api"), Type: "CoreProvider", Name: "cluster-api", Part: Core, Version: "v1.14.2", Contract: "v1beta2", WatchedNamespace: "team"},
			`NamespaceMismatch: watchedNamespace is "team", and Holdfast looks after all namespaces`,
		},
		"of other types": {
			"metadata: {name: x, namespace: x}\nproviderName: [aws]\ntype: {}\nversion: 2\nspec: [type]",
			Registered{Object: name("x", "x")}, "UnknownProvider",
		},
	} {
		t.Run(title, func(t *testing.T) {
			got := Read(provider(t, c.object))
			if d := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(Registered{})); d != "" {
				t.Error(d)
			}
			said := ""
			if p := got.Fits(""); p != nil {
				said = p.Reason + ": " + p.Text
			}
			if (c.problem == "") != (said == "") || !strings.HasPrefix(said, c.problem) {
				t.Errorf("the problem is %q, want %q", said, c.problem)
			}
		})
	}
}

// However long and odd what an object says, a condition's message may hold 32768
// letters, and reads on one line.
func TestHostileObject(t *testing.T) {
	long := strings.Repeat("ä\n", 1<<16)
	for _, spec := range []map[string]any{
		{"type": long, "version": long, "providerName": long},
		{"type": "InfrastructureProvider", "version": long, "providerName": "aws"},
		{"type": "InfrastructureProvider", "version": "v1", "providerName": long},
	} {
		u := provider(t, "metadata: {name: x, namespace: x}")
		u.Object["spec"] = spec
		p := Read(u).Fits("")
		if p == nil || len(p.Text) > 1000 || strings.Contains(p.Text, "\n") {
			t.Errorf("the problem is %.1200v", p)
		}
	}
}

// What fits is what the modules of go.mod say of themselves.
func TestVersionsFit(t *testing.T) {
	for module, names := range map[string][]string{
		"sigs.k8s.io/cluster-api":                  {"cluster-api", "kubeadm"},
		"sigs.k8s.io/cluster-api-provider-aws/v2":  {"aws"},
		"sigs.k8s.io/cluster-api-provider-vsphere": {"vsphere"},
	} {
		dir, err := clusterapi.ModuleDir(module)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "metadata.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		metadata := &clusterctlv1.Metadata{}
		if err := yaml.Unmarshal(data, metadata); err != nil {
			t.Fatal(err)
		}
		_, at, _ := strings.Cut(dir[strings.LastIndex(dir, "@"):], "@")
		for _, k := range providers {
			if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+k.name+" ") {
				continue
			}
			if _, ok := k.contract(at); !ok {
				t.Errorf("%s %s: %s, whose types are compiled in, does not fit", k.kind, k.name, at)
			}
			last := k.fits[len(k.fits)-1]
			if !strings.HasPrefix(at, fmt.Sprintf("v%d.%d.", last.major, last.to)) {
				t.Errorf("%s %s: v%d.%d fits, later than %s", k.kind, k.name, last.major, last.to, at)
			}
			seen := 0
			for _, s := range metadata.ReleaseSeries {
				contract, ok := k.contract(fmt.Sprintf("v%d.%d.0", s.Major, s.Minor))
				if !ok {
					continue
				}
				seen++
				if contract != s.Contract {
					t.Errorf("%s %s v%d.%d: contract %s, want %s", k.kind, k.name, s.Major, s.Minor, contract, s.Contract)
				}
			}
			want := 0
			for _, s := range k.fits {
				want += int(s.to - s.from + 1)
			}
			if seen != want {
				t.Errorf("%s %s: %d of the versions that fit are upstream's, want %d", k.kind, k.name, seen, want)
			}
		}
	}
}

// clusterctl reads what we read.
func TestClusterctlReads(t *testing.T) {
	u := provider(t, "metadata: {name: infrastructure-aws, namespace: x}\nproviderName: aws\ntype: InfrastructureProvider\nversion: v2.3.0\n"+
		"spec: {type: InfrastructureProvider, version: v2.3.0, configSecret: {name: s}}\nstatus: {conditions: [{type: Ready, status: \"True\"}]}")
	var theirs clusterctlv1.Provider
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &theirs); err != nil {
		t.Fatal(err)
	}
	ours := Read(u)
	if theirs.ProviderName != ours.Name || theirs.Type != ours.Type || theirs.Version != ours.Version || theirs.InstanceName() != "x/infrastructure-aws" {
		t.Errorf("clusterctl reads %+v, Holdfast %+v", theirs, ours)
	}
}

// The Providers that docs/managed.md has applied for clusterctl are those that are
// compiled in.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/managed.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n### With clusterctl\n")
	_, block, _ := strings.Cut(section, "\n```yaml\n")
	block, _, _ = strings.Cut(block, "```\n")
	modules := map[string]string{"cluster-api": "sigs.k8s.io/cluster-api", "kubeadm": "sigs.k8s.io/cluster-api", "aws": "sigs.k8s.io/cluster-api-provider-aws/v2"}
	var found []string
	for _, document := range strings.Split(block, "---\n") {
		if !strings.HasPrefix(document, header) {
			continue
		}
		r := Read(provider(t, strings.TrimPrefix(document, header)))
		dir, err := clusterapi.ModuleDir(modules[r.Name])
		if err != nil {
			t.Fatal(err)
		}
		if p := r.Fits(""); p != nil || !strings.HasSuffix(dir, "@"+r.Version) {
			t.Errorf("%s %s has version %s, want that of %s: %v", r.Type, r.Name, r.Version, dir, p)
		}
		found = append(found, r.Type+" "+r.Name)
	}
	want := []string{"CoreProvider cluster-api", "BootstrapProvider kubeadm", "ControlPlaneProvider kubeadm", "InfrastructureProvider aws"}
	if !slices.Equal(found, want) {
		t.Errorf("they are %q, want %q", found, want)
	}
	dir, err := clusterapi.ModuleDir("sigs.k8s.io/cluster-api-provider-vsphere")
	if err != nil || !strings.Contains(block, "# "+dir[strings.LastIndex(dir, "@")+1:]+"\n") {
		t.Errorf("vSphere's version is not that of %s, %v", dir, err)
	}
}
