package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/controlplane"
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

// Bootstrap configurations are listed in full loads; narrow ones take them from
// there. Machines that boot alike share one.
func TestLiveBootstraps(t *testing.T) {
	ctx := t.Context()
	kinds := bootstrapKinds(t, "aws")
	c, err := client.NewWithWatch(controlplane.Start(t), client.Options{Scheme: kinds.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	create := func(o client.Object) {
		t.Helper()
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c1"}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSCluster", Name: "c1"}}}
	create(cluster)
	machine := func(name, labels string) {
		t.Helper()
		meta := metav1.ObjectMeta{Namespace: "prod", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}}
		config := &bootstrapv1.KubeadmConfig{ObjectMeta: meta}
		config.Spec.Files = []bootstrapv1.File{{Path: "/etc/" + name, Content: "hidden"}}
		config.Spec.JoinConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{{Name: "node-labels", Value: &labels}}
		create(config)
		create(&infrav1.AWSMachine{ObjectMeta: meta, Spec: infrav1.AWSMachineSpec{InstanceType: "m5.large"}})
		m := &clusterv1.Machine{ObjectMeta: meta}
		m.Spec.ClusterName = "c1"
		m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig", Name: name}
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "AWSMachine", Name: name}
		create(m)
	}
	machine("m1", "a=1")
	machine("m2", "a=1")
	machine("m3", "a=2")

	lists := 0
	live := &Live{Kinds: kinds, Mapper: c.RESTMapper(), Reader: interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*bootstrapv1.KubeadmConfigList); is {
				lists++
			}
			return c.List(ctx, list, opts...)
		},
	})}
	load := func(s Selection, wantLists int) map[string]client.Object {
		t.Helper()
		lists = 0
		inv, err := live.Load(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		if lists != wantLists {
			t.Errorf("%d lists of bootstrap configurations, want %d", lists, wantLists)
		}
		out := map[string]client.Object{}
		for _, c := range inv.Clusters {
			for _, o := range c.Owners {
				out[o.Ref.Name] = o.Bootstrap
			}
		}
		return out
	}
	says := func(o client.Object) string {
		config, ok := o.(*bootstrapv1.KubeadmConfig)
		if !ok {
			return "none"
		}
		if config.Spec.Files != nil || config.Name != "" {
			t.Errorf("too much is kept: %+v", config)
		}
		return *config.Spec.JoinConfiguration.NodeRegistration.KubeletExtraArgs[0].Value
	}
	check := func(what string, got map[string]client.Object, want ...string) {
		t.Helper()
		for i, w := range want {
			if name := fmt.Sprintf("m%d", i+1); says(got[name]) != w {
				t.Errorf("%s: %s boots with %s, want %s", what, name, says(got[name]), w)
			}
		}
	}
	narrow := Selection{Exactly: []types.NamespacedName{{Namespace: "prod", Name: "c1"}}, Narrow: true}
	check("narrow, before anything is known", load(narrow, 1), "a=1", "a=1", "a=2")
	all := load(Selection{}, 1)
	check("everything", all, "a=1", "a=1", "a=2")
	if all["m1"] != all["m2"] || all["m1"] == all["m3"] {
		t.Error("machines that boot alike do not share, or others do")
	}
	machine("m4", "a=4")
	check("narrow", load(narrow, 0), "a=1", "a=1", "a=2", "none")
	if err := c.Delete(ctx, &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m3"}}); err != nil {
		t.Fatal(err)
	}
	check("everything again", load(Selection{}, 1), "a=1", "a=1", "none", "a=4")
	check("narrow again", load(narrow, 0), "a=1", "a=1", "none", "a=4")
	if err := c.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	other := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c2"}, Spec: cluster.Spec}
	create(other)
	load(Selection{}, 1)
	if len(live.bootstraps) != 0 || len(live.booted) != 1 {
		t.Errorf("of a cluster that is gone %d are kept; listed were %v", len(live.bootstraps), live.booted)
	}
}
