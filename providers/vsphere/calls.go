package vsphere

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/vmware/govmomi/vim25/soap"

	"github.com/holdfast-io/holdfast/providers"
)

// noAnswer is the code of calls that failed without an answer of vCenter.
const noAnswer = "NoAnswer"

type call struct{ operation, code string }

// callCounter counts calls by operation and outcome. A nil one counts nothing.
type callCounter struct {
	mu    sync.Mutex
	count map[call]int64
}

func (c *callCounter) add(operation, code string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[call]int64{}
	}
	c.count[call{operation, code}]++
}

var _ providers.Metered = (*Provider)(nil)

// CallStats implements [providers.Metered]. vCenter has no quota to keep to, so
// nothing waits.
func (p *Provider) CallStats() []providers.CallStats {
	p.count.mu.Lock()
	defer p.count.mu.Unlock()
	out := make([]providers.CallStats, 0, len(p.count.count))
	for c, n := range p.count.count {
		out = append(out, providers.CallStats{Operation: c.operation, Code: c.code, Count: n,
			Throttled: c.code == fmt.Sprint(http.StatusTooManyRequests) || c.code == fmt.Sprint(http.StatusServiceUnavailable)})
	}
	return out
}

// countedSOAP counts the calls of vSphere's API by method.
type countedSOAP struct {
	soap.RoundTripper
	count *callCounter
}

func (t countedSOAP) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	err := t.RoundTripper.RoundTrip(ctx, req, res)
	t.count.add("vim:"+methodOf(req), faultOf(err, res))
	return err
}

func methodOf(req soap.HasFault) string {
	return strings.TrimSuffix(reflect.Indirect(reflect.ValueOf(req)).Type().Name(), "Body")
}

// faultOf names vCenter's fault by its type, which govmomi knows a closed list
// of.
func faultOf(err error, res soap.HasFault) string {
	if err == nil {
		return ""
	}
	f := res.Fault()
	if f == nil && soap.IsSoapFault(err) {
		f = soap.ToSoapFault(err)
	}
	if f == nil {
		return noAnswer
	}
	if detail := reflect.ValueOf(f.VimFault()); detail.IsValid() {
		return reflect.Indirect(detail).Type().Name()
	}
	return "Fault"
}

// countedREST counts the calls of vCenter's REST API by method: paths hold ids.
type countedREST struct {
	http.RoundTripper
	count *callCounter
}

func (t countedREST) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(req)
	code := ""
	switch {
	case err != nil:
		code = noAnswer
	case res.StatusCode >= http.StatusBadRequest:
		code = fmt.Sprint(res.StatusCode)
	}
	t.count.add("rest:"+req.Method, code)
	return res, err
}
