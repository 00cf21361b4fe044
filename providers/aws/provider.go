package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// Provider reads EC2 and Elastic Load Balancing. It is safe for concurrent
// use; one serves a whole process, so that all clusters share its quotas.
type Provider struct {
	reader   client.Reader
	keys     Keys
	clock    clock.Clock
	sessions *sessions
	count    *callCounter
	watching watching

	mu sync.Mutex
	// bound has the session that a scope was resolved with.
	bound map[providers.Scope]*session
	// asked has what the owners of a scope refer to, by cluster.
	asked map[providers.Scope]map[clusterKey]interest
}

type clusterKey struct{ namespace, name string }

// Option changes how a Provider works.
type Option func(*Provider)

// WithClock replaces the real clock.
func WithClock(c clock.Clock) Option {
	return func(p *Provider) { p.clock = c }
}

// WithBackoff replaces the waits between the attempts of a call that met an
// error other than throttling.
func WithBackoff(backoff func(attempt int) time.Duration) Option {
	return func(p *Provider) { p.sessions.backoff = backoff }
}

// New makes a provider that reads identity objects, Secrets and Namespaces
// from the reader. It makes no call.
func New(reader client.Reader, options ...Option) (*Provider, error) {
	if reader == nil {
		return nil, fmt.Errorf("make the aws provider: no reader for identity objects")
	}
	count := &callCounter{}
	p := &Provider{
		reader:   reader,
		clock:    clock.RealClock{},
		sessions: &sessions{count: count},
		count:    count,
		bound:    map[providers.Scope]*session{},
		asked:    map[providers.Scope]map[clusterKey]interest{},
	}
	for _, o := range options {
		o(p)
	}
	p.sessions.limit = newLimiter(p.clock)
	if err := p.watching.events.Validate(); err != nil {
		return nil, fmt.Errorf("make the aws provider: %w", err)
	}
	return p, nil
}

// Calls gives the number of calls made so far, each attempt counted, by
// operation and outcome.
func (p *Provider) Calls() map[Call]int64 { return p.count.snapshot() }

// Scope implements [providers.Provider]. The region is the AWSCluster's, the
// account is the one that AWS reports for the cluster's identity.
func (p *Provider) Scope(ctx context.Context, owner *providers.Owner) (providers.Scope, error) {
	cluster, err := clusterOf(owner)
	if err != nil {
		return providers.Scope{}, err
	}
	who, err := identities{reader: p.reader, namespace: cluster.Namespace, keys: p.keys}.resolve(ctx, cluster.Spec.IdentityRef)
	if err != nil {
		return providers.Scope{}, fmt.Errorf("identity of AWSCluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	s, err := p.sessions.get(ctx, who, cluster.Spec.Region)
	if err != nil {
		return providers.Scope{}, fmt.Errorf("AWSCluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	if err := checkAccount(owner, cluster, who, s.account); err != nil {
		return providers.Scope{}, fmt.Errorf("AWSCluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	scope := providers.Scope{Provider: Name, Account: s.account, Region: s.region}
	if who != nil {
		scope.Identity = who.name
	}
	p.remember(scope, s, owner, cluster)
	return scope, nil
}

// clusterOf gives the AWSCluster that says where the owner lives.
func clusterOf(owner *providers.Owner) (*infrav1.AWSCluster, error) {
	if cluster, ok := owner.Infra.(*infrav1.AWSCluster); ok {
		return cluster, nil
	}
	switch cluster := owner.InfraCluster.(type) {
	case *infrav1.AWSCluster:
		return cluster, nil
	case nil:
		return nil, invalidSpec("%s: its cluster's infrastructure object was not found, so its region and identity are unknown", owner.Ref)
	default:
		return nil, invalidSpec("%s: the region and identity of a cluster on %s are not modelled: want an AWSCluster", owner.Ref, cluster.GetObjectKind().GroupVersionKind().Kind)
	}
}

func (p *Provider) remember(scope providers.Scope, s *session, owner *providers.Owner, cluster *infrav1.AWSCluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound[scope] = s
	if p.asked[scope] == nil {
		p.asked[scope] = map[clusterKey]interest{}
	}
	key := clusterKey{owner.Cluster.Namespace, owner.Cluster.Name}
	now := interestOf(cluster)
	before := p.asked[scope][key]
	now.keyAliases = before.keyAliases || namesKeyAlias(owner)
	if now.planes = before.planes; owner.ControlPlane {
		if m, ok := owner.Infra.(*infrav1.AWSMachine); ok && m != nil && deref(m.Spec.InstanceID) != "" {
			if now.planes == nil {
				now.planes = map[string]bool{}
			}
			now.planes[*m.Spec.InstanceID] = true
		}
	}
	p.asked[scope][key] = now
}

// Desired implements [providers.Provider].
func (p *Provider) Desired(owner *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	return desired(owner, snap)
}

// sessionOf gives a scope's session, and makes one where the scope was not
// resolved in this process and needs no identity object.
func (p *Provider) sessionOf(ctx context.Context, scope providers.Scope) (*session, error) {
	if scope.Provider != Name {
		return nil, fmt.Errorf("scope %s is not of provider %s", scope, Name)
	}
	p.mu.Lock()
	s := p.bound[scope]
	p.mu.Unlock()
	if s != nil {
		return s, nil
	}
	if scope.Identity != "" {
		return nil, fmt.Errorf("scope %s of identity %s is not resolved yet: call Scope for one of its owners first", scope, scope.Identity)
	}
	s, err := p.sessions.get(ctx, nil, scope.Region)
	if err != nil {
		return nil, err
	}
	if s.account != scope.Account {
		return nil, &providers.ScopeError{Reason: providers.ReasonWrongAccount, Err: fmt.Errorf("the credentials belong to account %s, not %s", s.account, scope.Account)}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound[scope] = s
	return s, nil
}

// ready gives a scope's session after asking AWS once more who is calling. A
// session that fails is forgotten.
func (p *Provider) ready(ctx context.Context, scope providers.Scope) (*session, error) {
	s, err := p.sessionOf(ctx, scope)
	if err != nil {
		return nil, err
	}
	if err := s.verify(ctx); err != nil {
		p.forget(scope, s)
		return nil, err
	}
	return s, nil
}

func (p *Provider) forget(scope providers.Scope, s *session) {
	p.sessions.drop(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bound[scope] == s {
		delete(p.bound, scope)
	}
}
