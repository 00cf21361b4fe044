package vsphere

import "github.com/holdfast-io/holdfast/providers"

// ownChains are the chains of events that this process's own tasks have made
// (TaskInfo.eventChainId, Event.chainId), so that a watch can tell them from
// those of others who use the same account. The oldest go first.
type ownChains struct {
	chains map[ownChain]bool
	order  []ownChain
}

type ownChain struct {
	scope providers.Scope
	id    int32
}

// mostChains is enough for the tasks of the last minutes.
const mostChains = 1024

func (p *Provider) noteOwn(scope providers.Scope, chain int32) {
	if chain == 0 {
		return // not every server gives one
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := ownChain{scope: scope, id: chain}
	if p.own.chains[c] {
		return
	}
	if p.own.chains == nil {
		p.own.chains = map[ownChain]bool{}
	}
	if len(p.own.order) >= mostChains {
		delete(p.own.chains, p.own.order[0])
		p.own.order = p.own.order[1:]
	}
	p.own.chains[c] = true
	p.own.order = append(p.own.order, c)
}

func (p *Provider) isOwn(scope providers.Scope, chain int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own.chains[ownChain{scope: scope, id: chain}]
}
