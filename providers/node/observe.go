package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// limits bound what reading Nodes may take.
type limits struct {
	// call is for one answer, cluster for all pages of a cluster, scope for all
	// clusters of a read.
	call, cluster, scope time.Duration
	// atOnce is how many clusters are read at once, page how many Nodes are
	// asked for at once.
	atOnce int
	page   int64
}

// defaultLimits have a cluster that does not answer cost ten seconds, which most
// scopes take to be read anyhow, and a thousand of them a minute.
var defaultLimits = limits{call: 10 * time.Second, cluster: 30 * time.Second, scope: time.Minute, atOnce: 16, page: 500}

// WithTimes replaces how long one call, one cluster and one scope may take.
func WithTimes(call, cluster, scope time.Duration) Option {
	return func(p *Provider) { p.limits.call, p.limits.cluster, p.limits.scope = call, cluster, scope }
}

// WithPage replaces how many Nodes are asked for at once.
func WithPage(n int64) Option { return func(p *Provider) { p.limits.page = n } }

// Observe implements [providers.Provider]: the other provider's snapshot, with
// the Nodes of each cluster that was asked for since, which are read meanwhile.
// Coverage has a part for each of them.
func (p *Provider) Observe(ctx context.Context, scope providers.Scope) (*providers.Snapshot, error) {
	aside, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := make(chan *sight, 1)
	targets := p.begin(scope)
	go func() { seen <- p.readAll(aside, targets) }()
	snap, err := p.inner.Observe(ctx, scope)
	if err != nil {
		cancel()
		<-seen
		return nil, err
	}
	out := *snap
	out.Coverage, out.Resources = maps.Clone(snap.Coverage), maps.Clone(snap.Resources)
	(<-seen).into(&out)
	return &out, nil
}

// sight is what was seen of some clusters, in their order.
type sight struct {
	targets []target
	nodes   []map[providers.ID]*providers.Resource
	errs    []error
}

func (s *sight) into(snap *providers.Snapshot) {
	if snap.Coverage == nil {
		snap.Coverage = map[string]error{}
	}
	if snap.Resources == nil {
		snap.Resources = map[providers.ID]*providers.Resource{}
	}
	snap.Coverage[providers.KindNode] = nil
	for i, t := range s.targets {
		snap.Coverage[providers.ClusterPart(providers.KindNode, t.cluster.Namespace, t.cluster.Name)] = s.errs[i]
		maps.Copy(snap.Resources, s.nodes[i])
	}
}

// errNotReached is of clusters that came after too many that do not answer.
var errNotReached = errors.New("other clusters, which do not answer, took up all of the time for it")

// readAll reads clusters, each for itself.
func (p *Provider) readAll(ctx context.Context, targets []target) *sight {
	out := &sight{targets: targets, nodes: make([]map[providers.ID]*providers.Resource, len(targets)), errs: make([]error, len(targets))}
	ctx, cancel := context.WithTimeout(ctx, p.limits.scope)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(p.limits.atOnce)
	for i, t := range targets {
		g.Go(func() error {
			if ctx.Err() != nil {
				out.errs[i] = failure(t.cluster, errNotReached)
				return nil // no failure of its own: it is first the next time
			}
			nodes, err := p.read(ctx, t.form)
			if err != nil {
				out.errs[i] = failure(t.cluster, err)
			} else {
				out.nodes[i] = nodes
			}
			p.answered(t.cluster, err)
			return nil
		})
	}
	_ = g.Wait() // failures are in the answer
	return out
}

// read gives all Nodes of a cluster, or none.
func (p *Provider) read(ctx context.Context, f *form) (map[providers.ID]*providers.Resource, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.cluster)
	defer cancel()
	c, err := p.connect(ctx, f.cluster)
	if err != nil {
		return nil, err
	}
	nodes, err := p.pages(ctx, c, f, p.limits.page)
	if apierrors.IsResourceExpired(err) {
		// The list was changed so much between two pages that the server lost
		// the thread (Kubernetes API concepts, "Retrieving large results sets in
		// chunks"): once more, and all at once.
		return p.pages(ctx, c, f, 0)
	}
	return nodes, err
}

// connect gives a cluster's client; reading its Secret is bounded as a call is.
func (p *Provider) connect(ctx context.Context, cluster types.NamespacedName) (client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.call)
	defer cancel()
	return p.clients.get(ctx, cluster)
}

func (p *Provider) pages(ctx context.Context, c client.Client, f *form, size int64) (map[providers.ID]*providers.Resource, error) {
	out := map[providers.ID]*providers.Resource{}
	next := ""
	for {
		page := &corev1.NodeList{}
		err := p.call(ctx, opList, func(ctx context.Context) error {
			return c.List(ctx, page, client.Limit(size), client.Continue(next))
		})
		if err == nil && page.ResourceVersion == "" {
			// {} reads as a list of nothing. An API server's lists say which
			// version of everything they are (Kubernetes API, ListMeta).
			err = errors.New("what answers in place of its API server lists no Nodes in the form of one")
		}
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			n := &page.Items[i]
			if n.Name == "" {
				return nil, fmt.Errorf("its API server listed a Node without a name")
			}
			r := f.resource(n)
			out[r.ID] = r
		}
		if next = page.Continue; next == "" {
			return out, nil
		}
	}
}
