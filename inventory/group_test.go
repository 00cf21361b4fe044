package inventory

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const prodObjects = cluster + `
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSCluster
metadata: {name: c1, namespace: prod}
spec: {region: eu-central-1}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: Machine
metadata:
  name: w1
  namespace: prod
  labels: {cluster.x-k8s.io/cluster-name: c1, cluster.x-k8s.io/deployment-name: md-0}
spec:
  clusterName: c1
  failureDomain: eu-central-1a
  bootstrap: {dataSecretName: x}
  infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, name: w1}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachine
metadata: {name: w1, namespace: prod}
spec: {instanceType: m5.large}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: Machine
metadata: {name: lost, namespace: prod}
spec:
  clusterName: c1
  bootstrap: {dataSecretName: x}
  infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, name: nowhere}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachine
metadata: {name: spare, namespace: prod, labels: {cluster.x-k8s.io/cluster-name: c1}}
spec: {instanceType: m5.large}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachinePool
metadata: {name: mp, namespace: prod, labels: {cluster.x-k8s.io/cluster-name: c1}}
spec: {}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: az, namespace: prod}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AzureCluster, name: az}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: AzureCluster
metadata: {name: az, namespace: prod}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachine
metadata: {name: nobodys, namespace: prod}
spec: {instanceType: m5.large}
`

func group(t *testing.T, objects string, s Selection) (*Inventory, error) {
	t.Helper()
	kinds := awsKinds(t)
	set, err := FromFiles(kinds, []string{Stdin}, strings.NewReader(objects))
	if err != nil {
		t.Fatal(err)
	}
	return Group(kinds, set, s)
}

// outline makes one line of each thing that was grouped.
func outline(inv *Inventory) []string {
	var out []string
	for _, c := range inv.Clusters {
		out = append(out, "cluster "+c.Key().String())
		for _, o := range c.Owners {
			out = append(out, strings.TrimRight("owner "+o.Ref.String()+" pool="+o.Pool+" zone="+o.Zone, " "))
		}
		for _, u := range c.Uncompared {
			out = append(out, "uncompared "+u.Ref.String()+": "+u.Reason)
		}
	}
	for _, p := range inv.Problems {
		out = append(out, "problem "+p.At.String()+" "+p.Reason+": "+p.Message)
	}
	return out
}

func TestGroup(t *testing.T) {
	inv, err := group(t, prodObjects, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"cluster prod/az",
		"uncompared AzureCluster prod/az: AzureCluster.infrastructure.cluster.x-k8s.io belongs to an infrastructure provider that is not modelled",
		"cluster prod/c1",
		"owner AWSCluster prod/c1 pool= zone=",
		"owner AWSMachine prod/w1 pool=MachineDeployment/md-0 zone=eu-central-1a",
		"uncompared AWSMachine prod/spare: no Machine refers to it",
		"uncompared AWSMachinePool prod/mp: machine pools are not modelled",
		"uncompared Machine prod/lost: its infrastructure object AWSMachine nowhere is not among the objects",
		"problem standard input:59 NoCluster: AWSMachine prod/nobodys: no Cluster among the objects refers to it, so it is not compared",
	}
	if d := cmp.Diff(want, outline(inv)); d != "" {
		t.Errorf("inventory (-want +got):\n%s", d)
	}
	if got := inv.Clusters[1].Owners[1].Machine.Spec.InfrastructureRef.APIGroup; got != "infrastructure.cluster.x-k8s.io" {
		t.Errorf("v1beta1 reference was converted to apiGroup %q", got)
	}
}

func TestGroupSelection(t *testing.T) {
	tests := map[string]struct {
		selection Selection
		want      []string
		elsewhere []string
		err       string
	}{
		"by name":        {selection: Selection{Clusters: []string{"prod/c1"}}, want: []string{"prod/c1"}, elsewhere: []string{"prod/az of "}},
		"by pattern":     {selection: Selection{Clusters: []string{"*/a?"}}, want: []string{"prod/az"}, elsewhere: []string{"prod/c1 of aws"}},
		"name alone":     {selection: Selection{Clusters: []string{"c1"}}, want: []string{"prod/c1"}, elsewhere: []string{"prod/az of "}},
		"by namespace":   {selection: Selection{Namespace: "prod"}, want: []string{"prod/az", "prod/c1"}},
		"nothing":        {selection: Selection{Clusters: []string{"prod/x"}}, err: "no Cluster matches prod/x ; there are: prod/az, prod/c1"},
		"broken pattern": {selection: Selection{Clusters: []string{"prod/[", "a"}}, err: `cluster pattern "prod/[": want NAMESPACE/NAME`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv, err := group(t, prodObjects, tc.selection)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range inv.Clusters {
				got = append(got, c.Key().String())
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("clusters (-want +got):\n%s", d)
			}
			var elsewhere []string
			for _, c := range inv.Elsewhere {
				elsewhere = append(elsewhere, c.Key.String()+" of "+c.Provider)
			}
			if d := cmp.Diff(tc.elsewhere, elsewhere); d != "" {
				t.Errorf("clusters that were not selected (-want +got):\n%s", d)
			}
			for _, p := range inv.Problems {
				if strings.Contains(p.Message, "w1") {
					t.Errorf("a machine of a cluster that was not selected is no stray: %s", p.Message)
				}
			}
		})
	}
}

// TestUpstreamTemplates loads each of CAPA's own cluster templates, with its
// variables filled.
func TestUpstreamTemplates(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api-provider-aws/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "templates", "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d templates, %v", len(files), err)
	}
	kinds := awsKinds(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			filled := variable.ReplaceAllStringFunc(string(data), func(v string) string {
				if strings.Contains(v, "COUNT") {
					return "3"
				}
				name, _, _ := strings.Cut(strings.Trim(v, "${}"), ":")
				return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
			})
			set, err := FromFiles(kinds, []string{Stdin}, strings.NewReader(filled))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range set.Problems {
				t.Errorf("%s %s: %s", p.At, p.Reason, p.Message)
			}
			inv, err := Group(kinds, set, Selection{})
			if err != nil && !strings.Contains(filled, "kind: Cluster\n") {
				return // a ClusterClass alone
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range inv.Clusters {
				if len(c.Owners)+len(c.Uncompared) == 0 {
					t.Errorf("cluster %s has nothing compared and nothing named", c.Key())
				}
			}
		})
	}
}

// TestUncomparedMachine keeps the Machine of what is not compared: it is still
// a member of its pool and of etcd.
func TestUncomparedMachine(t *testing.T) {
	machine := func(name, infra string) string {
		return "---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: " + name + ", namespace: prod}\nspec:\n  clusterName: c1\n" +
			"  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: " + infra + ", name: " + name + "}\n"
	}
	inv, err := group(t, cluster+machine("gone", "AWSMachine")+machine("strange", "StrangeMachine")+
		"---\napiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: StrangeMachine\nmetadata: {name: strange, namespace: prod}\n", Selection{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, u := range inv.Clusters[0].Uncompared {
		got[u.Ref.Kind+"/"+u.Ref.Name] = ""
		if u.Machine != nil {
			got[u.Ref.Kind+"/"+u.Ref.Name] = u.Machine.Name
		}
	}
	want := map[string]string{"AWSCluster/c1": "", "Machine/gone": "gone", "StrangeMachine/strange": "strange"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("machines of what is not compared (-want +got):\n%s", d)
	}
}
