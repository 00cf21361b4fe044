package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkRead reads a cluster of a thousand Nodes that are as full as real ones
// are, and says how much of it is kept.
func BenchmarkRead(b *testing.B) {
	const nodes = 1000
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	for i := range nodes {
		list.Items = append(list.Items, *fullNode(fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250, i%250)))
	}
	body, err := json.Marshal(list)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write(body)
	}))
	defer server.Close()
	cluster := types.NamespacedName{Namespace: "prod", Name: "eu-1"}
	made, err := connect(kubeconfigTo(server.URL, nil), cluster)
	if err != nil {
		b.Fatal(err)
	}
	defer made.close()
	p := &Provider{limits: defaultLimits, count: &counter{}}
	f := newForm(cluster, func(yield func(string) bool) { _ = yield("pool") && yield("example.com/storage") })
	var before, after runtime.MemStats
	kept := 0
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		all, err := p.pages(b.Context(), made.client, f, 0)
		if err != nil || len(all) != nodes {
			b.Fatalf("%d Nodes: %v", len(all), err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		kept = int(after.HeapAlloc) - int(before.HeapAlloc)
		runtime.KeepAlive(all)
	}
	b.ReportMetric(float64(len(body))/nodes, "B/node-served")
	b.ReportMetric(float64(kept)/nodes, "B/node-kept")
}

// fullNode is a Node with the labels, conditions and images that a kubelet
// reports.
func fullNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{"pool": "general", "example.com/storage": "ssd"}},
		Spec: corev1.NodeSpec{ProviderID: "aws:///eu-central-1a/i-" + name, PodCIDRs: []string{"10.1.0.0/24"}}}
	for i := range 20 {
		n.Labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-%d", i)] = "true"
	}
	n.Status.NodeInfo.KubeletVersion = testVersion
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi")}
	for _, c := range []corev1.NodeConditionType{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: "True", Reason: "KubeletReady", Message: strings.Repeat("x", 60)})
	}
	for i := range 40 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", i, i), fmt.Sprintf("registry.example.com/team/image-%d:v1", i)}, SizeBytes: 1 << 28})
	}
	return n
}
