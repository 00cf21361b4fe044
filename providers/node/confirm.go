package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	// singly is how many Nodes of a cluster are got one by one; for more of them
	// its list costs less.
	singly = 20
	// singlyAtOnce is how many of those are got at once.
	singlyAtOnce = 4
)

// Confirm implements [providers.Provider]: Nodes are read from their workload
// cluster, and all else is confirmed by the other provider. A Node is absent when
// the cluster's API server, asked for it by name, says so itself, or leaves it
// out of a complete list.
func (p *Provider) Confirm(ctx context.Context, scope providers.Scope, ids []providers.ID) (*providers.Confirmation, error) {
	nodes, others := map[types.NamespacedName][]string{}, []providers.ID{}
	live := &confirming{Confirmation: &providers.Confirmation{Resources: map[providers.ID]*providers.Resource{}, Unconfirmed: map[providers.ID]error{}}}
	for _, id := range ids {
		cluster, name, ok := fromID(id)
		switch {
		case id.Kind != providers.KindNode:
			others = append(others, id)
		case !ok:
			live.Unconfirmed[id] = fmt.Errorf("confirm %s: want NAMESPACE/CLUSTER/NODE", id)
		case !slices.Contains(nodes[cluster], name):
			nodes[cluster] = append(nodes[cluster], name)
		}
	}
	aside, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.confirmNodes(aside, scope, nodes, live)
	}()
	c, err := p.inner.Confirm(ctx, scope, others)
	if err != nil {
		cancel()
	}
	<-done
	if err != nil {
		return nil, err
	}
	maps.Copy(live.Resources, c.Resources)
	maps.Copy(live.Unconfirmed, c.Unconfirmed)
	return live.Confirmation, nil
}

// confirming is an answer that several goroutines add to.
type confirming struct {
	*providers.Confirmation
	mu sync.Mutex
}

func (c *confirming) found(r *providers.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Resources[r.ID] = r
}

func (c *confirming) failed(cluster types.NamespacedName, err error, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		c.Unconfirmed[idOf(cluster, name)] = failure(cluster, err)
	}
}

func (p *Provider) confirmNodes(ctx context.Context, scope providers.Scope, nodes map[types.NamespacedName][]string, live *confirming) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.scope)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(p.limits.atOnce)
	for cluster, names := range nodes {
		g.Go(func() error {
			f := p.formOf(scope, cluster)
			if len(names) > singly {
				p.confirmByList(ctx, f, names, live)
			} else {
				p.confirmByName(ctx, f, names, live)
			}
			return nil
		})
	}
	_ = g.Wait() // failures are in the answer
}

func (p *Provider) confirmByList(ctx context.Context, f *form, names []string, live *confirming) {
	all, err := p.read(ctx, f)
	if err != nil {
		live.failed(f.cluster, err, names...)
		return
	}
	for _, name := range names {
		if r := all[idOf(f.cluster, name)]; r != nil {
			live.found(r)
		}
	}
}

// confirmByName gets Nodes. A server that says of one that there is none, in
// other words than an API server's, may be anybody's: then the list decides.
func (p *Provider) confirmByName(ctx context.Context, f *form, names []string, live *confirming) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.cluster)
	defer cancel()
	c, err := p.connect(ctx, f.cluster)
	if err != nil {
		live.failed(f.cluster, err, names...)
		return
	}
	var (
		mu       sync.Mutex
		doubtful []string
		g        errgroup.Group
	)
	g.SetLimit(singlyAtOnce)
	for _, name := range names {
		g.Go(func() error {
			n, err := p.get(ctx, c, name)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				live.found(f.resource(n))
			case saysAbsent(err, name):
			case apierrors.IsNotFound(err):
				doubtful = append(doubtful, name)
			default:
				live.failed(f.cluster, err, name)
			}
			return nil
		})
	}
	_ = g.Wait() // failures are in the answer
	if len(doubtful) > 0 {
		p.confirmByList(ctx, f, doubtful, live)
	}
}

func (p *Provider) get(ctx context.Context, c client.Client, name string) (*corev1.Node, error) {
	n := &corev1.Node{}
	err := p.call(ctx, opGet, func(ctx context.Context) error { return c.Get(ctx, client.ObjectKey{Name: name}, n) })
	if err == nil && n.Name != name {
		err = fmt.Errorf("its API server was asked for Node %s and answered with another object", name)
	}
	return n, err
}

// saysAbsent reports an API server's own answer that there is no Node of the
// name. A proxy in front of it, or another server, may say 404 as well.
func saysAbsent(err error, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	d := status.Status().Details
	return d != nil && d.Name == name && strings.EqualFold(d.Kind, "nodes") &&
		!slices.ContainsFunc(d.Causes, func(c metav1.StatusCause) bool { return c.Type == metav1.CauseTypeUnexpectedServerResponse })
}
