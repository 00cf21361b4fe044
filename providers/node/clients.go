package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clients keeps one connection for each cluster, for as long as its Secret is
// the same and the cluster is asked for.
type clients struct {
	reader client.Reader

	mu     sync.Mutex
	kept   map[types.NamespacedName]*connection
	closed bool
}

// get gives a cluster's client. The Secret is read each time: it is renewed long
// before its certificate ends, and a cluster of the same name is another one.
func (c *clients) get(ctx context.Context, cluster types.NamespacedName) (client.Client, error) {
	data, err := kubeconfigOf(ctx, c.reader, cluster)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(data)
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.kept[cluster]
	switch {
	case c.closed:
		return nil, errors.New("the connections to workload clusters are closed")
	case old != nil && old.digest == digest:
		return old.client, nil
	}
	made, err := connect(data, cluster)
	if err != nil {
		return nil, err
	}
	made.digest = digest
	if old != nil {
		old.close()
	}
	c.kept[cluster] = made
	return made.client, nil
}

// keep closes the connections to all other clusters.
func (c *clients) keep(there map[types.NamespacedName]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.kept, func(name types.NamespacedName, one *connection) bool {
		if !there[name] {
			one.close()
		}
		return !there[name]
	})
}

func (c *clients) close() {
	c.keep(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// connect makes a client. It makes no call: the one kind that is read needs no
// discovery.
func connect(data []byte, cluster types.NamespacedName) (*connection, error) {
	cfg, err := restConfig(data, cluster)
	if err != nil {
		return nil, err
	}
	// Each call has its own deadline. A transport with a proxy function is not
	// shared with other configurations, so that closing it closes all of it.
	cfg.Timeout = 0
	if cfg.Proxy == nil {
		cfg.Proxy = http.ProxyFromEnvironment
	}
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	over, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig in Secret %s has credentials or certificates that cannot be used", secretName(cluster))
	}
	made, err := client.New(cfg, client.Options{Scheme: nodeScheme, Mapper: nodeMapper, HTTPClient: over})
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig in Secret %s names a server that cannot be used", secretName(cluster))
	}
	return &connection{client: made, http: over}, nil
}

// nodeScheme and nodeMapper know Nodes and nothing else.
var nodeScheme, nodeMapper = func() (*runtime.Scheme, meta.RESTMapper) {
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		panic(err) // of two types of one name, in a scheme with nothing in it
	}
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return s, m
}()
