package node

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	testProviderID = "aws:///eu-1a/i-1"
	testVersion    = "v1.33.1"
)

var created = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// genOwner makes a worker's infrastructure object with its Machine, whose Node
// Cluster API has found.
func genOwner(mods ...func(*providers.Owner)) *providers.Owner {
	infra := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m1", CreationTimestamp: metav1.NewTime(created)}}
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m1"}}
	m.Spec.ProviderID, m.Spec.Version = testProviderID, testVersion
	m.Status.NodeRef.Name, m.Status.Phase = "n1", string(clusterv1.MachinePhaseRunning)
	m.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	o := &providers.Owner{
		Ref:     providers.OwnerRef{Kind: "AWSMachine", Namespace: "prod", Name: "m1", UID: "u1"},
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c1", UID: "c"}},
		Machine: m, Infra: infra,
	}
	for _, mod := range mods {
		mod(o)
	}
	return o
}

func labelled(pairs ...string) func(*providers.Owner) {
	return func(o *providers.Owner) {
		o.Machine.Labels = map[string]string{}
		for _, p := range pairs {
			key, value, _ := strings.Cut(p, "=")
			o.Machine.Labels[key] = value
		}
	}
}

func controlPlane(o *providers.Owner) { o.ControlPlane = true }

func tainted(taints ...clusterv1.MachineTaint) func(*providers.Owner) {
	return func(o *providers.Owner) { o.Machine.Spec.Taints = taints }
}

// registered makes options for how a node registers.
func registered(labels string, taints ...corev1.Taint) bootstrapv1.NodeRegistrationOptions {
	var r bootstrapv1.NodeRegistrationOptions
	if labels != "" {
		r.KubeletExtraArgs = []bootstrapv1.Arg{{Name: "cloud-provider", Value: new("external")}, {Name: argNodeLabels, Value: &labels}}
	}
	if taints != nil {
		r.Taints = &taints
	}
	return r
}

func withArg(name, value string) bootstrapv1.NodeRegistrationOptions {
	return bootstrapv1.NodeRegistrationOptions{KubeletExtraArgs: []bootstrapv1.Arg{{Name: name, Value: &value}}}
}

func boots(init, join bootstrapv1.NodeRegistrationOptions) func(*providers.Owner) {
	return func(o *providers.Owner) {
		c := &bootstrapv1.KubeadmConfig{}
		c.Spec.InitConfiguration.NodeRegistration, c.Spec.JoinConfiguration.NodeRegistration = init, join
		o.Bootstrap = c
	}
}

func joins(r bootstrapv1.NodeRegistrationOptions) func(*providers.Owner) {
	return boots(bootstrapv1.NodeRegistrationOptions{}, r)
}

// genSnapshot makes one in which the cluster's Nodes were read.
func genSnapshot(nodes ...*corev1.Node) *providers.Snapshot {
	o := genOwner()
	s := &providers.Snapshot{TakenAt: created.Add(time.Hour), Coverage: map[string]error{
		providers.KindNode: nil, providers.ClusterPart(providers.KindNode, "prod", "c1"): nil,
	}, Resources: map[providers.ID]*providers.Resource{}}
	f := newForm(clusterOf(o), func(func(string) bool) {})
	for _, n := range nodes {
		r := f.resource(n)
		s.Resources[r.ID] = r
	}
	return s
}

func genNode(mods ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{ProviderID: testProviderID}}
	n.Status.NodeInfo.KubeletVersion = testVersion
	for _, mod := range mods {
		mod(n)
	}
	return n
}

// shape gives a wanted Node's fields as text.
func shape(r *providers.Resource) map[string]string {
	if r == nil {
		return nil
	}
	out := map[string]string{}
	if r.Unchecked != "" {
		out["unchecked"] = r.Unchecked
	}
	for path, f := range r.Fields.All() {
		out[path] = f.Match.String() + " " + f.Mutability.String() + " " + f.Value.Text()
	}
	return out
}

func fields(more ...string) map[string]string {
	out := map[string]string{pathProviderID: "Exactly ReadOnly " + testProviderID, pathVersion: "Exactly Immutable " + testVersion}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func TestWanted(t *testing.T) {
	gpu := corev1.Taint{Key: "example.com/gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	for name, tc := range map[string]struct {
		reason string
		owner  *providers.Owner
		snap   *providers.Snapshot
		want   map[string]string
	}{
		"a cluster's infrastructure": {
			reason: "it is no machine",
			owner:  genOwner(func(o *providers.Owner) { o.Machine = nil }),
		},
		"no Node found yet": {
			reason: "until then Cluster API itself tells what is missing",
			owner:  genOwner(func(o *providers.Owner) { o.Machine.Status.NodeRef.Name = "" }),
		},
		"what each Machine declares": {owner: genOwner(), want: fields()},
		"no version declared": {
			reason: "unset is no opinion",
			owner:  genOwner(func(o *providers.Owner) { o.Machine.Spec.Version = "" }),
			want:   map[string]string{pathProviderID: "Exactly ReadOnly " + testProviderID},
		},
		"labels that Cluster API syncs": {
			reason: "the rule is upstream's: three domains, two of them with subdomains; the others stay the Machine's",
			owner: genOwner(labelled("node-role.kubernetes.io/worker=", "node-restriction.kubernetes.io/a=1", "x.node-restriction.kubernetes.io/b=2",
				"node.cluster.x-k8s.io/c=3", "x.node.cluster.x-k8s.io/d=4", "cluster.x-k8s.io/cluster-name=c1", "team=core", "evilnode.cluster.x-k8s.io/e=5")),
			want: fields("/metadata/labels/node-role.kubernetes.io~1worker", "Exactly InPlace ",
				"/metadata/labels/node-restriction.kubernetes.io~1a", "Exactly InPlace 1", "/metadata/labels/x.node-restriction.kubernetes.io~1b", "Exactly InPlace 2",
				"/metadata/labels/node.cluster.x-k8s.io~1c", "Exactly InPlace 3", "/metadata/labels/x.node.cluster.x-k8s.io~1d", "Exactly InPlace 4"),
		},
		"labels that kubelet registered": {
			owner: genOwner(joins(registered("pool=general,example.com/tier=gold, empty=,bare"))),
			want: fields("/metadata/labels/pool", "Exactly InPlace general", "/metadata/labels/example.com~1tier", "Exactly InPlace gold",
				"/metadata/labels/empty", "Exactly InPlace ", "/metadata/labels/bare", "Exactly InPlace "),
		},
		"labels that are no labels": {
			reason: "they are filled in on the machine, or kubelet would not have started",
			owner:  genOwner(joins(registered(`zone=${ZONE},host={{ ds.meta_data.hostname }},=x,,ok=1,a b=c`))),
			want:   fields("/metadata/labels/ok", "Exactly InPlace 1"),
		},
		"the Machine's label over kubelet's": {
			reason: "Cluster API sets its own again and again",
			owner:  genOwner(labelled("node.cluster.x-k8s.io/a=machine"), joins(registered("node.cluster.x-k8s.io/a=kubelet"))),
			want:   fields("/metadata/labels/node.cluster.x-k8s.io~1a", "Exactly InPlace machine"),
		},
		"an initialisation that a worker does not run": {
			owner: genOwner(boots(registered("a=1"), registered("b=1"))),
			want:  fields("/metadata/labels/b", "Exactly InPlace 1"),
		},
		"the first control plane": {
			owner: genOwner(controlPlane, boots(registered("a=1"), bootstrapv1.NodeRegistrationOptions{})),
			want:  fields("/metadata/labels/a", "Exactly InPlace 1"),
		},
		"a control plane with both": {
			reason: "which of them the node ran cannot be told",
			owner:  genOwner(controlPlane, boots(registered("a=1,b=1", gpu), registered("a=1,b=2", gpu))),
			want:   fields("/metadata/labels/a", "Exactly InPlace 1", pathTaints, "Contains InPlace example.com/gpu=yes:NoSchedule"),
		},
		"another kind of bootstrap": {
			owner: genOwner(func(o *providers.Owner) { o.Bootstrap = client.Object(&corev1.Secret{}) }), want: fields(),
		},
		"taints": {
			reason: "those of the Machine that are kept, and those the node registered with and that do not go by themselves",
			owner: genOwner(tainted(
				clusterv1.MachineTaint{Key: "always", Value: "1", Effect: corev1.TaintEffectNoExecute, Propagation: clusterv1.MachineTaintPropagationAlways},
				clusterv1.MachineTaint{Key: "once", Effect: corev1.TaintEffectNoSchedule, Propagation: clusterv1.MachineTaintPropagationOnInitialization},
			), joins(registered("", gpu, clusterv1.NodeUninitializedTaint, corev1.Taint{Key: "node.cilium.io/agent-not-ready", Effect: corev1.TaintEffectNoExecute}))),
			want: fields(pathTaints, "Contains InPlace always=1:NoExecute, example.com/gpu=yes:NoSchedule"),
		},
		"taints by flag": {
			reason: "the flag overrides kubeadm's list",
			owner:  genOwner(joins(withArg(argTaints, "a=b:NoSchedule,c:NoExecute,nonsense,d:Sometimes"))),
			want:   fields(pathTaints, "Contains InPlace a=b:NoSchedule, c:NoExecute"),
		},
		"a Machine's taint over the one that the node registered with": {
			owner: genOwner(tainted(clusterv1.MachineTaint{Key: gpu.Key, Value: "no", Effect: gpu.Effect, Propagation: clusterv1.MachineTaintPropagationAlways}), joins(registered("", gpu))),
			want:  fields(pathTaints, "Contains InPlace example.com/gpu=no:NoSchedule"),
		},
		"an empty list of taints": {
			reason: "it wants none, which other controllers' taints are no breach of",
			owner:  genOwner(joins(registered("", []corev1.Taint{}...))), want: fields(),
		},
		"a vendor's kubelet": {
			owner: genOwner(), snap: genSnapshot(genNode(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = testVersion + "-eks-1" })),
			want: fields(pathVersion, "Exactly Immutable "+testVersion+"-eks-1"),
		},
		"an older kubelet": {
			owner: genOwner(), snap: genSnapshot(genNode(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.32.9" })), want: fields(),
		},
		"being updated in place": {
			reason: "the spec is ahead of the Node",
			owner: genOwner(func(o *providers.Owner) {
				o.Machine.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
			}),
			snap: genSnapshot(genNode(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.32.9" })),
			want: map[string]string{pathProviderID: "Exactly ReadOnly " + testProviderID},
		},
		"being updated in place, by its condition": {
			owner: genOwner(func(o *providers.Owner) {
				o.Machine.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue}}
			}),
			want: map[string]string{pathProviderID: "Exactly ReadOnly " + testProviderID},
		},
		"another machine's Node": {
			reason: "its labels and version are that machine's",
			owner:  genOwner(joins(registered("a=1"))), snap: genSnapshot(genNode(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu-1a/i-2" })),
			want: map[string]string{pathProviderID: "Exactly ReadOnly " + testProviderID},
		},
		"a Node that says nothing of its instance": {
			owner: genOwner(joins(registered("a=1"))), snap: genSnapshot(genNode(func(n *corev1.Node) { n.Spec.ProviderID = "" })),
			want: map[string]string{pathProviderID: "Exactly ReadOnly " + testProviderID},
		},
		"no providerID": {
			owner: genOwner(func(o *providers.Owner) { o.Machine.Spec.ProviderID = "" }),
			want:  map[string]string{"unchecked": "Machine m1 has no providerID, by which its Node could be told to be its own"},
		},
		"not asked for": {
			owner: genOwner(), snap: &providers.Snapshot{},
			want: map[string]string{"unchecked": "the Nodes of cluster prod/c1 were not read"},
		},
		"not read": {
			owner: genOwner(), snap: &providers.Snapshot{Coverage: map[string]error{providers.ClusterPart(providers.KindNode, "prod", "c1"): errors.New("no answer")}},
			want: map[string]string{"unchecked": "no answer"},
		},
		"another cluster's API server is away": {
			owner: genOwner(), want: fields(),
			snap: &providers.Snapshot{Coverage: map[string]error{
				providers.ClusterPart(providers.KindNode, "prod", "c1"): nil, providers.ClusterPart(providers.KindNode, "prod", "c2"): errors.New("no answer")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			snap := tc.snap
			if snap == nil {
				snap = genSnapshot(genNode())
			}
			got := wanted(tc.owner, snap)
			if diff := cmp.Diff(tc.want, shape(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if got != nil && (got.ID != providers.ID{Kind: "Node", Name: "prod/c1/n1"} || got.Owner != tc.owner.Ref || got.Name != "n1") {
				t.Errorf("it is %s %q of %s", got.ID, got.Name, got.Owner)
			}
		})
	}
}

func TestSince(t *testing.T) {
	later := created.Add(time.Hour)
	for name, tc := range map[string]struct {
		phase   clusterv1.MachinePhase
		updated time.Time
		want    time.Time
	}{
		"began to run later":  {clusterv1.MachinePhaseRunning, later, later},
		"another phase since": {clusterv1.MachinePhaseFailed, later, created},
		"nothing recorded":    {clusterv1.MachinePhaseRunning, time.Time{}, created},
	} {
		o := genOwner(func(o *providers.Owner) {
			o.Machine.Status.Phase, o.Machine.Status.LastUpdated = string(tc.phase), metav1.NewTime(tc.updated)
		})
		if got := since(o); !got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestSameVersion(t *testing.T) {
	for _, tc := range []struct {
		declared, kubelet string
		want              bool
	}{
		{"v1.33.1", "v1.33.1", true},
		{"1.33.1", "v1.33.1", true},
		{"v1.33.1", "v1.33.1-eks-1234567", true},
		{"v1.33.1", "v1.33.1+rke2r1", true},
		{"v1.33.1", "v1.33.1-gke.100", true},
		{"v1.33.1+rke2r1", "v1.33.1+rke2r1", true},
		{"v1.33.1+rke2r1", "v1.33.1+rke2r2", false},
		{"v1.33.1+rke2r1", "v1.33.1", false},
		{"v1.33.1-eks-1", "v1.33.1", false},
		{"v1.33.0", "v1.33.0-rc.1", false},
		{"v1.33.0", "v1.33.0-beta.0", false},
		{"v1.33.0", "v1.33.0-alpha.3+abc", false},
		{"v1.33.0-rc.1", "v1.33.0-rc.1", true},
		{"v1.33.0-rc.1", "v1.33.0-rc.10", false},
		{"v1.33.1", "v1.33.10", false},
		{"v1.33.1", "v1.33.2", false},
		{"v1.33.1", "", false},
	} {
		if got := sameVersion(tc.declared, tc.kubelet); got != tc.want {
			t.Errorf("declared %s, kubelet %s: %v", tc.declared, tc.kubelet, got)
		}
	}
}

func TestTransientTaints(t *testing.T) {
	for key, want := range map[string]bool{
		"node.cluster.x-k8s.io/uninitialized":                true,
		"node.cloudprovider.kubernetes.io/uninitialized":     true,
		"node.kubernetes.io/unschedulable":                   true,
		"node.cilium.io/agent-not-ready":                     true,
		"ebs.csi.aws.com/agent-not-ready":                    true,
		"startup-taint.cluster-autoscaler.kubernetes.io/gpu": true,
		"readiness.k8s.io/network":                           true,
		"ToBeDeletedByClusterAutoscaler":                     true,
		"node-role.kubernetes.io/control-plane":              false,
		"dedicated":                                          false,
		"nvidia.com/gpu":                                     false,
	} {
		if got := transient(key); got != want {
			t.Errorf("%s: %v", key, got)
		}
	}
}

func TestParseTaint(t *testing.T) {
	for text, want := range map[string]*corev1.Taint{
		"a=b:NoSchedule":      {Key: "a", Value: "b", Effect: "NoSchedule"},
		"x.io/a:NoExecute":    {Key: "x.io/a", Effect: "NoExecute"},
		"a=:PreferNoSchedule": {Key: "a", Effect: "PreferNoSchedule"},
		"a":                   nil,
		"a=b":                 nil,
		":NoSchedule":         nil,
		"a:noschedule":        nil,
		"":                    nil,
	} {
		got, err := parseTaint(text)
		if (err == nil) != (want != nil) || want != nil && got != *want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if want == nil {
			continue
		}
		again, err := parseTaint(want.ToString())
		if err != nil || again != *want {
			t.Errorf("%q is written as %q and read as %+v, %v", text, want.ToString(), again, err)
		}
	}
}

// What is not compared is not kept: ten thousand Nodes have dozens of labels.
func TestResourceKeepsWhatIsCompared(t *testing.T) {
	f := newForm(clusterOf(genOwner()), slices.Values([]string{"pool", "gone"}))
	n := genNode(func(n *corev1.Node) {
		n.Labels = map[string]string{"pool": "general", "kubernetes.io/hostname": "n1"}
		n.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}, {Key: "gpu", Effect: "NoSchedule"}}
	})
	r := f.resource(n)
	var got []string
	for path, field := range r.Fields.All() {
		got = append(got, path+"="+field.Value.Text())
	}
	want := []string{"/metadata/labels/pool=general", "/spec/providerID=" + testProviderID, "/spec/taints=gpu:NoSchedule", "/status/nodeInfo/kubeletVersion=" + testVersion}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if !r.Closes("/metadata/labels/gone") || r.Closes("/metadata/labels/other") || !r.Closes(pathTaints) {
		t.Errorf("closed are %v: what was asked for, and nothing else", r.Closed)
	}
}

func TestFromID(t *testing.T) {
	for name, ok := range map[string]bool{"prod/c1/n1": true, "prod/c1": false, "prod//n1": false, "a/b/c/d": false, "": false} {
		cluster, node, got := fromID(providers.ID{Kind: "Node", Name: name})
		if got != ok {
			t.Errorf("%q: %v", name, got)
		}
		if ok && idOf(cluster, node).Name != name {
			t.Errorf("%q became %s", name, idOf(cluster, node))
		}
	}
}
