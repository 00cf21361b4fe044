package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

// world is a management cluster with the Secrets of some workload clusters, all
// of which are one real API server behind a front of each cluster's own, and a
// cloud with an instance for each machine.
type world struct {
	t         *testing.T
	client    client.Client
	namespace string
	cloud     *fake.Provider
	provider  *Provider
	fronts    map[string]*front
	// nodes are the names of those that were registered.
	nodes map[string]bool
}

var namespaces atomic.Int32

func newWorld(t *testing.T, options ...Option) *world {
	t.Helper()
	c, err := client.New(server.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, client: c, namespace: fmt.Sprintf("t%d", namespaces.Add(1)), fronts: map[string]*front{}, nodes: map[string]bool{}}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.cloud = fake.New("1", "eu", func() time.Time { return created.Add(time.Hour) }, providers.KindInstance)
	if w.provider, err = New(w.cloud, c, options...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.provider.Close(); err != nil {
			t.Error(err)
		}
		// Nodes have no namespace: none may be left for the next test.
		for name := range w.nodes {
			if err := client.IgnoreNotFound(c.Delete(context.Background(), &corev1.Node{ObjectMeta: w.meta(name)})); err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// owner makes a machine of a cluster, its instance, and if need be the cluster's
// front and Secret.
func (w *world) owner(cluster, machine string, mods ...func(*providers.Owner)) *providers.Owner {
	w.t.Helper()
	if w.fronts[cluster] == nil {
		w.fronts[cluster] = newFront(w.t)
		w.secret(cluster, w.fronts[cluster].kubeconfig())
	}
	o := genOwner(mods...)
	o.Ref.Namespace, o.Ref.Name, o.Ref.UID = w.namespace, machine, types.UID(machine)
	o.Cluster.Namespace, o.Cluster.Name, o.Cluster.UID = w.namespace, cluster, types.UID(cluster)
	o.Machine.Namespace, o.Machine.Name, o.Machine.Status.NodeRef.Name = w.namespace, machine, machine
	o.Machine.Spec.ProviderID = "aws:///eu-1a/i-" + machine
	w.cloud.Put(&providers.Resource{ID: providers.ID{Kind: providers.KindInstance, Name: "i-" + machine}})
	w.cloud.Want(o.Ref, providers.Resource{ID: providers.ID{Kind: providers.KindInstance, Name: "i-" + machine}})
	return o
}

func (w *world) secret(cluster string, kubeconfig []byte) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: cluster + "-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}},
		Data:       map[string][]byte{"value": kubeconfig},
	}
	w.create(s)
	return s
}

// node registers the Node of a machine, as kubelet does.
func (w *world) node(name string, mods ...func(*corev1.Node)) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "aws:///eu-1a/i-" + name}}
	for _, mod := range mods {
		mod(n)
	}
	w.create(n)
	w.nodes[name] = true
	n.Status.NodeInfo.KubeletVersion = testVersion
	if err := w.client.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// edit changes a Node, as a person does.
func (w *world) edit(name string, change func(*corev1.Node)) {
	w.t.Helper()
	n := &corev1.Node{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		w.t.Fatal(err)
	}
	base := n.DeepCopy()
	change(n)
	if err := w.client.Patch(w.t.Context(), n, client.MergeFrom(base)); err != nil {
		w.t.Fatal(err)
	}
}

// observe asks for owners and reads their scope.
func (w *world) observe(owners ...*providers.Owner) *providers.Snapshot {
	w.t.Helper()
	var scope providers.Scope
	for _, o := range owners {
		var err error
		if scope, err = w.provider.Scope(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
	snap, err := w.provider.Observe(w.t.Context(), scope)
	if err != nil {
		w.t.Fatal(err)
	}
	return snap
}

// covers gives what a snapshot says of a cluster's Nodes: empty if they were
// read.
func (w *world) covers(snap *providers.Snapshot, cluster string) string {
	err, asked := snap.Coverage[providers.ClusterPart(providers.KindNode, w.namespace, cluster)]
	switch {
	case !asked:
		return "not asked for"
	case err != nil:
		return err.Error()
	default:
		return ""
	}
}

// front stands before the API server, as a load balancer does. It is what tests
// bend; it changes no answer of its own accord.
type front struct {
	server *httptest.Server
	mu     sync.Mutex
	// bend answers in the API server's place where it is true.
	bend func(http.ResponseWriter, *http.Request) bool
	// calls are the requests so far, as METHOD PATH?QUERY.
	calls []string
}

func newFront(t *testing.T) *front {
	t.Helper()
	to, err := url.Parse(server.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = transport
	f := &front{}
	f.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.calls = append(f.calls, r.Method+" "+r.URL.RequestURI())
		bend := f.bend
		f.mu.Unlock()
		if bend == nil || !bend(rw, r) {
			proxy.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(f.server.Close)
	return f
}

func (f *front) bent(bend func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bend = bend
}

func (f *front) count(want func(string) bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(f.calls), func(s string) bool { return !want(s) }))
}

// kubeconfig leads to the front.
func (f *front) kubeconfig() []byte { return kubeconfigTo(f.server.URL, nil) }

func kubeconfigTo(address string, change func(*clientcmdapi.Config)) []byte {
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: address}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	if change != nil {
		change(c)
	}
	data, err := clientcmd.Write(*c)
	if err != nil {
		panic(err)
	}
	return data
}

// closedAddress is where nobody answers.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

func (w *world) meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// kubelet has a Node report another version.
func (w *world) kubelet(name, version string) {
	w.t.Helper()
	n := &corev1.Node{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		w.t.Fatal(err)
	}
	n.Status.NodeInfo.KubeletVersion = version
	if err := w.client.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

// replace puts another kubeconfig into a cluster's Secret.
func (w *world) replace(cluster string, kubeconfig []byte) {
	w.t.Helper()
	w.remove(cluster + "-kubeconfig")
	w.secret(cluster, kubeconfig)
}

func (w *world) remove(secret string) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: secret}}); err != nil {
		w.t.Fatal(err)
	}
}

// stranger is a kubeconfig to the API server itself with a token that it does
// not know, or does not know any more.
func (w *world) stranger() []byte {
	return kubeconfigTo(server.Config.Host, func(c *clientcmdapi.Config) {
		c.Clusters["c"].CertificateAuthorityData = server.Config.CAData
		c.AuthInfos["u"].Token = "expired"
	})
}

func (w *world) deleteNode(name string) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), &corev1.Node{ObjectMeta: w.meta(name)}); err != nil {
		w.t.Fatal(err)
	}
}
