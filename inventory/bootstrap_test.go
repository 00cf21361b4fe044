package inventory

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// bootstrapKinds has two providers that ask for bootstrap configurations, and
// one that does not.
func bootstrapKinds(t *testing.T, asking ...string) *Kinds {
	t.Helper()
	registration := func(name string, owner schema.GroupVersionKind) providers.Registration {
		r := providers.Registration{Name: name, AddToScheme: func(s *runtime.Scheme) error {
			for _, add := range []func(*runtime.Scheme) error{infrav1.AddToScheme, bootstrapv1.AddToScheme, bootstrapv1beta1.AddToScheme} {
				if err := add(s); err != nil {
					return err
				}
			}
			return nil
		}, Owners: []providers.OwnerKind{{GVK: owner, Role: providers.RoleMachine}}}
		for _, a := range asking {
			if a == name {
				r.Bootstrap = []schema.GroupVersionKind{bootstrapv1.GroupVersion.WithKind("KubeadmConfig")}
			}
		}
		return r
	}
	gv := infrav1.GroupVersion
	k, err := NewKinds(registration("aws", gv.WithKind("AWSMachine")), registration("other", gv.WithKind("AWSMachinePool")))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func machineWith(apiVersion string) string {
	return strings.ReplaceAll(cluster+`
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: w1, namespace: prod}
spec:
  clusterName: c1
  bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: w1-boot}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachine, name: w1}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachine
metadata: {name: w1, namespace: prod}
spec: {instanceType: m5.large}
---
apiVersion: bootstrap.cluster.x-k8s.io/VERSION
kind: KubeadmConfig
metadata: {name: w1-boot, namespace: prod, annotations: {note: hidden-note}}
spec:
  files: [{path: /etc/x, content: hidden-file, owner: root}]
  preKubeadmCommands: [echo hidden-command]
  users: [{name: hidden-user}]
  joinConfiguration:
    discovery: {bootstrapToken: {token: hidden.token, apiServerEndpoint: "x:1"}}
    nodeRegistration:
      kubeletExtraArgs: ARGS
      taints: [{key: gpu, effect: NoSchedule}]
`, "VERSION", apiVersion)
}

// A machine's owner has its bootstrap configuration, in the wanted version
// whatever it was written in, and nothing in it but how the node registers.
func TestBootstrap(t *testing.T) {
	for version, args := range map[string]string{"v1beta2": `[{name: node-labels, value: "a=1"}]`, "v1beta1": `{node-labels: "a=1"}`} {
		t.Run(version, func(t *testing.T) {
			kinds := bootstrapKinds(t, "aws", "other")
			set, err := FromFiles(kinds, []string{Stdin}, strings.NewReader(strings.ReplaceAll(machineWith(version), "ARGS", args)))
			if err != nil {
				t.Fatal(err)
			}
			inv, err := Group(kinds, set, Selection{})
			if err != nil {
				t.Fatal(err)
			}
			config, ok := inv.Clusters[0].Owners[0].Bootstrap.(*bootstrapv1.KubeadmConfig)
			if !ok {
				t.Fatalf("the bootstrap configuration is a %T", inv.Clusters[0].Owners[0].Bootstrap)
			}
			r := config.Spec.JoinConfiguration.NodeRegistration
			if len(r.KubeletExtraArgs) != 1 || *r.KubeletExtraArgs[0].Value != "a=1" || r.Taints == nil || len(*r.Taints) != 1 {
				t.Errorf("it registers with %+v", r)
			}
			text, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "hidden") {
				t.Errorf("more is kept than how the node registers: %s", text)
			}
		})
	}
}

// Whoever does not ask for it has none, and what it refers to need not be there.
func TestNoBootstrap(t *testing.T) {
	objects := strings.ReplaceAll(machineWith("v1beta2"), "ARGS", `[]`)
	without, _, _ := strings.Cut(objects, "---\napiVersion: bootstrap")
	for name, tc := range map[string]struct {
		asking  []string
		objects string
	}{
		"nobody asks":     {nil, objects},
		"another asks":    {[]string{"other"}, objects},
		"it is not there": {[]string{"aws"}, without},
		"all of that":     {nil, without},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := bootstrapKinds(t, tc.asking...)
			set, err := FromFiles(kinds, []string{Stdin}, strings.NewReader(tc.objects))
			if err != nil {
				t.Fatal(err)
			}
			inv, err := Group(kinds, set, Selection{})
			if err != nil {
				t.Fatal(err)
			}
			if b := inv.Clusters[0].Owners[0].Bootstrap; b != nil {
				t.Errorf("it has %v", b)
			}
		})
	}
}
