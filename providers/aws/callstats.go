package aws

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/holdfast-io/holdfast/providers"
)

var _ providers.Metered = (*Provider)(nil)

// serviceNames are the short names of services whose ids are long; other ids
// are lowered.
var serviceNames = map[string]string{
	"Elastic Load Balancing":    "elb",
	"Elastic Load Balancing v2": "elbv2",
}

// CallStats implements [providers.Metered].
func (p *Provider) CallStats() []providers.CallStats {
	p.count.mu.Lock()
	defer p.count.mu.Unlock()
	out := make([]providers.CallStats, 0, len(p.count.count))
	for call, n := range p.count.count {
		service := serviceNames[call.Service]
		if service == "" {
			service = strings.ToLower(call.Service)
		}
		_, throttled := retry.DefaultThrottleErrorCodes[call.Code]
		out = append(out, providers.CallStats{Operation: service + ":" + call.Operation, Code: call.Code,
			Throttled: throttled, Count: n, Waited: p.count.waited[call]})
	}
	return out
}
