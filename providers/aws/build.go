package aws

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

var _ providers.Builder = (*Provider)(nil)

// Settle implements [providers.Builder].
func (p *Provider) Settle(ctx context.Context, scope providers.Scope, owner *providers.Owner) error {
	b, err := p.building(ctx, scope, owner)
	if err != nil {
		return err
	}
	switch infra := owner.Infra.(type) {
	case *infrav1.AWSCluster:
		return b.settleCluster(ctx, infra)
	case *infrav1.AWSMachine:
		return b.settleMachine(ctx, infra)
	default:
		return notBuilt(owner)
	}
}

// Plan implements [providers.Builder].
func (p *Provider) Plan(owner *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	return wanted(owner, snap, true)
}

// Create implements [providers.Builder].
func (p *Provider) Create(ctx context.Context, scope providers.Scope, creation providers.Creation) (providers.ID, error) {
	kind := creation.Want.ID.Kind
	create, ok := creators[kind]
	if !ok {
		return providers.ID{}, unsupported("%s: Holdfast makes no resources of kind %s", creation.Want.ID, kind)
	}
	b, err := p.building(ctx, scope, creation.Owner)
	if err != nil {
		return providers.ID{}, err
	}
	name, err := create(b, ctx, &creation)
	if err != nil && refusesCaller(err) {
		p.forget(scope, b.session)
	}
	return providers.ID{Kind: kind, Name: name}, err
}

// Record implements [providers.Builder].
func (p *Provider) Record(owner *providers.Owner, planned, made providers.ID) error {
	switch infra := owner.Infra.(type) {
	case *infrav1.AWSCluster:
		return recordInCluster(owner, infra, planned, made)
	case *infrav1.AWSMachine:
		return recordInMachine(infra, made)
	default:
		return notBuilt(owner)
	}
}

// Doomed implements [providers.Builder].
func (p *Provider) Doomed(owner *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	switch infra := owner.Infra.(type) {
	case *infrav1.AWSCluster:
		return doomedOfCluster(owner, infra, snap)
	case *infrav1.AWSMachine:
		return doomedOfMachine(owner, infra, snap)
	default:
		return nil, notBuilt(owner)
	}
}

// Delete implements [providers.Builder].
func (p *Provider) Delete(ctx context.Context, scope providers.Scope, deletion providers.Deletion) error {
	kind := deletion.Have.ID.Kind
	remove, ok := removers[kind]
	if !ok {
		return unsupported("%s: Holdfast deletes no resources of kind %s", deletion.Have.ID, kind)
	}
	b, err := p.building(ctx, scope, deletion.Owner)
	if err != nil {
		return err
	}
	err = remove(b, ctx, &deletion)
	if err != nil && refusesCaller(err) {
		p.forget(scope, b.session)
	}
	return err
}

// Note implements [providers.Builder].
func (p *Provider) Note(owner *providers.Owner, snap *providers.Snapshot, progress providers.Progress) (waiting string) {
	switch infra := owner.Infra.(type) {
	case *infrav1.AWSCluster:
		return noteCluster(owner, infra, snap, progress)
	case *infrav1.AWSMachine:
		return noteMachine(owner, infra, snap, progress)
	default:
		return notBuilt(owner).Error()
	}
}

// creators and removers make and unmake one resource of a kind. What they are
// given has a kind of theirs.
var (
	creators = map[string]func(b *building, ctx context.Context, c *providers.Creation) (name string, err error){}
	removers = map[string]func(b *building, ctx context.Context, d *providers.Deletion) error{}
)

// building is what one write for one owner works with.
type building struct {
	reader
	owner *providers.Owner
	clock clock.Clock
}

func (p *Provider) building(ctx context.Context, scope providers.Scope, owner *providers.Owner) (*building, error) {
	s, err := p.ready(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("build %s in %s: %w", owner.Ref, scope, err)
	}
	return &building{reader: reader{session: s, converter: newConverter()}, owner: owner, clock: p.clock}, nil
}

func notBuilt(owner *providers.Owner) error {
	return unsupported("%s: a %T is neither an AWSMachine nor an AWSCluster", owner.Ref, owner.Infra)
}
