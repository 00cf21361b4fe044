package node

import (
	"context"
	"errors"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/providers"
)

// Operations, after the name that stands for all workload clusters together.
const (
	opList  = "workload:ListNodes"
	opGet   = "workload:GetNode"
	opPatch = "workload:PatchNode"
)

// codeNoAnswer is the code of a call that no server answered.
const codeNoAnswer = "NoAnswer"

// call makes one call in the time that one may take, and counts it.
func (p *Provider) call(ctx context.Context, op string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.limits.call)
	defer cancel()
	err := do(ctx)
	p.count.add(op, err)
	return err
}

type counter struct {
	mu    sync.Mutex
	calls map[counted]int64
}

type counted struct{ op, code string }

func (c *counter) add(op string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[counted]int64{}
	}
	c.calls[counted{op, codeOf(err)}]++
}

// codeOf gives the reason of an API server's answer; servers that give none, or
// one that Kubernetes does not have, are told by their status.
func codeOf(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &status):
		return codeNoAnswer
	}
	switch reason := apierrors.ReasonForError(err); reason {
	case metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonNotFound, metav1.StatusReasonConflict,
		metav1.StatusReasonInvalid, metav1.StatusReasonExpired, metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout,
		metav1.StatusReasonTooManyRequests, metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable:
		return string(reason)
	default:
		return "HTTP" + strconv.Itoa(int(min(max(status.Status().Code, 0), 999)))
	}
}

func (c *counter) stats() []providers.CallStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]providers.CallStats, 0, len(c.calls))
	for call, n := range c.calls {
		out = append(out, providers.CallStats{Operation: call.op, Code: call.code, Count: n,
			Throttled: call.code == string(metav1.StatusReasonTooManyRequests)})
	}
	return out
}
