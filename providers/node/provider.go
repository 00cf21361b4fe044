package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// Extend gives a registration whose provider has the Nodes of its machines
// beside what it has by itself. The reader that its New is given needs to serve
// Secrets.
func Extend(r providers.Registration, options ...Option) providers.Registration {
	inner, types := r.New, r.AddToScheme
	r.AddToScheme = func(s *runtime.Scheme) error {
		return errors.Join(types(s), corev1.AddToScheme(s), bootstrapv1beta1.AddToScheme(s), bootstrapv1.AddToScheme(s))
	}
	r.Bootstrap = append(slices.Clone(r.Bootstrap), bootstrapv1.GroupVersion.WithKind("KubeadmConfig"))
	r.Catalog = slices.Concat(r.Catalog, catalog)
	r.New = func(reader client.Reader) (providers.Provider, error) {
		p, err := inner(reader)
		if err != nil {
			return nil, err
		}
		return New(p, reader, options...)
	}
	return r
}

// Provider is another provider with Nodes. Beside [providers.Provider] it is
// whatever else the other may be; asked for what the other is not, it says so as
// the contract has it. It is safe for concurrent use.
type Provider struct {
	inner   providers.Provider
	clock   clock.Clock
	limits  limits
	clients *clients
	count   *counter

	mu     sync.Mutex
	places map[providers.Scope]*place
	// failures counts how often a cluster failed in a row: it is read last.
	failures map[types.NamespacedName]int
}

var (
	_ providers.Provider = (*Provider)(nil)
	_ providers.Applier  = (*Provider)(nil)
	_ providers.Watcher  = (*Provider)(nil)
	_ providers.Metered  = (*Provider)(nil)
	_ io.Closer          = (*Provider)(nil)
)

// Option changes how a Provider works.
type Option func(*Provider)

// New puts Nodes beside what a provider has. It makes no call.
func New(inner providers.Provider, reader client.Reader, options ...Option) (*Provider, error) {
	if inner == nil || reader == nil {
		return nil, fmt.Errorf("make the provider of nodes: it needs a provider to stand beside, and a reader for kubeconfig Secrets")
	}
	p := &Provider{
		inner: inner, clock: clock.RealClock{}, limits: defaultLimits, count: &counter{},
		places: map[providers.Scope]*place{}, failures: map[types.NamespacedName]int{},
	}
	p.clients = &clients{reader: reader, kept: map[types.NamespacedName]*connection{}}
	for _, o := range options {
		o(p)
	}
	return p, nil
}

// Cloud is the provider that the Nodes stand beside. Machines are made by that
// one: Nodes come by themselves.
func (p *Provider) Cloud() providers.Provider { return p.inner }

// Scope implements [providers.Provider]: the place is the other provider's.
func (p *Provider) Scope(ctx context.Context, owner *providers.Owner) (providers.Scope, error) {
	scope, err := p.inner.Scope(ctx, owner)
	if err == nil {
		p.ask(scope, owner)
	}
	return scope, err
}

// Desired implements [providers.Provider].
func (p *Provider) Desired(owner *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	out, err := p.inner.Desired(owner, snap)
	if err != nil {
		return nil, err
	}
	if r := wanted(owner, snap); r != nil {
		out = append(out, *r)
	}
	return out, nil
}

// Watch implements [providers.Watcher] by what the other provider is told.
// Nodes are not watched: the next sweep reads them, and whatever of them Cluster
// API takes over into a Machine's spec tells of itself.
func (p *Provider) Watch(ctx context.Context, scope providers.Scope, tell func(providers.Event)) error {
	if w, ok := p.inner.(providers.Watcher); ok {
		return w.Watch(ctx, scope, tell)
	}
	return providers.ErrNotWatched
}

// CallStats implements [providers.Metered].
func (p *Provider) CallStats() []providers.CallStats {
	out := p.count.stats()
	if m, ok := p.inner.(providers.Metered); ok {
		out = append(out, m.CallStats()...)
	}
	return out
}

// Close ends all connections, and the other provider's sessions.
func (p *Provider) Close() error {
	p.clients.close()
	if c, ok := p.inner.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
