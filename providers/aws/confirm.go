package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/providers"
)

// confirmBatch is how many resources one live read names. EC2 advises to keep
// such lists short; a list of 100 costs one call as well.
const confirmBatch = 100

// Confirm implements [providers.Provider]. A resource is absent when AWS, asked
// for its very id, says that it does not exist or leaves it out of a complete
// answer. Any other failure leaves it unconfirmed.
//
// The resources have all that Observe joins from other reads, because repairs
// are decided by them. Where such a read fails, its fields stay open: they are
// neither there nor closed, so that nothing is concluded from them.
func (p *Provider) Confirm(ctx context.Context, scope providers.Scope, ids []providers.ID) (*providers.Confirmation, error) {
	out := &providers.Confirmation{Resources: map[providers.ID]*providers.Resource{}, Unconfirmed: map[providers.ID]error{}}
	if len(ids) == 0 {
		return out, nil
	}
	s, err := p.ready(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("confirm resources in %s: %w", scope, err)
	}
	o := &observation{
		reader: reader{session: s, converter: newConverter()}, scope: scope,
		interest: p.interestIn(scope), coverage: map[string]error{},
	}
	kinds := o.lookups()
	var queries []*query
	for kind, names := range byLookup(ids) {
		lookup, ok := kinds[kind]
		if !ok {
			for _, name := range names {
				id := providers.ID{Kind: kindOf(kind), Name: name}
				out.Unconfirmed[id] = fmt.Errorf("confirm %s: kind %s is not modelled", id, id.Kind)
			}
			continue
		}
		queries = append(queries, &query{kind: kindOf(kind), scope: scope, read: lookup, names: names, failed: map[string]error{}})
	}
	var g errgroup.Group
	g.SetLimit(detailsAtOnce)
	for _, q := range queries {
		g.Go(func() error { q.run(ctx); return nil })
	}
	_ = g.Wait() // failures are in the queries
	found := map[string][]*providers.Resource{}
	for _, q := range queries {
		found[q.kind] = append(found[q.kind], q.found...)
	}
	o.complete(ctx, found)
	for _, q := range queries {
		for _, r := range found[q.kind] {
			out.Resources[r.ID] = r
		}
		for name, err := range q.failed {
			out.Unconfirmed[providers.ID{Kind: q.kind, Name: name}] = err
		}
	}
	return out, nil
}

// Kinds that two APIs serve are looked up apart.
const (
	lookupEgressOnly = providers.KindInternetGateway + "/egressOnly"
	lookupClassic    = providers.KindLoadBalancer + "/classic"
)

func kindOf(lookup string) string { kind, _, _ := strings.Cut(lookup, "/"); return kind }

func byLookup(ids []providers.ID) map[string][]string {
	out := map[string][]string{}
	for _, id := range ids {
		key := id.Kind
		switch {
		case id.Kind == providers.KindInternetGateway && strings.HasPrefix(id.Name, "eigw-"):
			key = lookupEgressOnly
		case id.Kind == providers.KindLoadBalancer && strings.HasPrefix(id.Name, classicPrefix):
			key = lookupClassic
		}
		if !slices.Contains(out[key], id.Name) {
			out[key] = append(out[key], id.Name)
		}
	}
	return out
}

// lookupFunc reads the chosen ids of a kind.
type lookupFunc func(ctx context.Context, only *choice) ([]*providers.Resource, error)

// errNoFilter says that a kind cannot be asked for by filter.
var errNoFilter = errors.New("ids of this form cannot be asked for")

func (o *observation) lookups() map[string]lookupFunc {
	r := o.reader
	unfiltered := func(read lookupFunc) lookupFunc {
		return func(ctx context.Context, only *choice) ([]*providers.Resource, error) {
			if only.byFilter {
				return nil, errNoFilter
			}
			return read(ctx, only)
		}
	}
	return map[string]lookupFunc{
		providers.KindInstance: func(ctx context.Context, only *choice) ([]*providers.Resource, error) {
			seen, err := r.instances(ctx, only)
			if err == nil {
				o.seenInstances = append(o.seenInstances, seen...)
			}
			out := make([]*providers.Resource, len(seen))
			for i := range seen {
				out[i] = seen[i].Resource
			}
			return out, err
		},
		providers.KindVolume:           r.volumes,
		providers.KindNetworkInterface: r.interfaces,
		providers.KindSecurityGroup:    r.groups,
		providers.KindVPC:              r.vpcs,
		providers.KindSubnet:           r.subnets,
		providers.KindInternetGateway:  r.internetGateways,
		lookupEgressOnly:               unfiltered(r.egressOnlyGateways),
		providers.KindNATGateway:       r.natGateways,
		providers.KindRouteTable:       r.routeTables,
		providers.KindNetworkACL:       r.networkACLs,
		providers.KindLoadBalancer: unfiltered(func(ctx context.Context, only *choice) ([]*providers.Resource, error) {
			return r.modernBalancers(ctx, only.ids)
		}),
		lookupClassic: unfiltered(func(ctx context.Context, only *choice) ([]*providers.Resource, error) {
			names := make([]string, len(only.ids))
			for i, id := range only.ids {
				names[i] = strings.TrimPrefix(id, classicPrefix)
			}
			return r.classicBalancers(ctx, names)
		}),
	}
}

// query looks for some resources of one kind.
type query struct {
	kind   string
	scope  providers.Scope
	read   lookupFunc
	names  []string
	found  []*providers.Resource
	failed map[string]error
}

// run asks in batches. When one id of a batch does not exist, or has a form
// that EC2 refuses, EC2 refuses the batch: its ids are asked for again, those
// in doubt until each has an answer of its own.
func (q *query) run(ctx context.Context) {
	queue := batches(q.names, confirmBatch)
	for len(queue) > 0 {
		batch := queue[0]
		queue = queue[1:]
		found, err := q.read(ctx, &choice{ids: batch})
		switch {
		case err == nil:
			q.found = append(q.found, found...)
		case isNotFound(err) && len(batch) == 1:
		case isNotFound(err):
			queue = append(queue, again(batch, err)...)
		case isMalformed(err) && len(batch) == 1:
			q.byFilter(ctx, batch[0], err)
		case isMalformed(err):
			queue = append(queue, halves(batch)...)
		default:
			q.fail(batch, err)
		}
	}
}

// again gives what to ask for after a batch in which some ids do not exist.
// Those that the message names are asked for one by one, since a message is no
// proof (moto names living ids too); a message that names none or all tells
// nothing about the others.
func again(batch []string, err error) (out [][]string) {
	message := err.Error()
	var others []string
	for _, id := range batch {
		if mentions(message, id) {
			out = append(out, []string{id})
		} else {
			others = append(others, id)
		}
	}
	switch len(others) {
	case 0:
		return out
	case len(batch):
		return halves(batch)
	default:
		return append(out, others)
	}
}

// mentions reports whether a message has the id as a word: i-1 is not in
// "i-12".
func mentions(message, id string) bool {
	for at := 0; ; {
		i := strings.Index(message[at:], id)
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(id)
		if (start == 0 || !isIDByte(message[start-1])) && (end == len(message) || !isIDByte(message[end])) {
			return true
		}
		at = start + 1
	}
}

func isIDByte(b byte) bool {
	return b == '-' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func halves(batch []string) [][]string {
	return [][]string{batch[:len(batch)/2], batch[len(batch)/2:]}
}

// byFilter asks for an id that the API refuses as a parameter: a filter takes
// any text, and an empty answer is a complete one.
func (q *query) byFilter(ctx context.Context, id string, refusal error) {
	found, err := q.read(ctx, &choice{ids: []string{escapeWildcards(id)}, byFilter: true})
	switch {
	case errors.Is(err, errNoFilter):
		q.fail([]string{id}, refusal)
	case err != nil:
		q.fail([]string{id}, err)
	default:
		q.found = append(q.found, found...)
	}
}

func (q *query) fail(batch []string, err error) {
	for _, id := range batch {
		q.failed[id] = fmt.Errorf("confirm %s %s in %s: %w", q.kind, id, q.scope, err)
	}
}
