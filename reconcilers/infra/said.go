package infra

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/providers"
)

// longestNote is what the API server takes of an event's note (events.k8s.io/v1,
// Event.note).
const longestNote = 1000

// said remembers the last failure that was told of each owner: one that goes on
// is told once.
type said struct {
	mu   sync.Mutex
	last map[types.UID]string
}

func newSaid() *said { return &said{last: map[types.UID]string{}} }

// news says whether this was not told before.
func (s *said) news(uid types.UID, what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	what = providers.Shape(what) // without what differs from call to call
	if s.last[uid] == what {
		return false
	}
	s.last[uid] = what
	return true
}

func (s *said) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, uid)
}

// tell records a warning about an owner, unless it is the one of last time.
func (r *reconciler) tell(owner *providers.Owner, reason, what string) {
	if r.said.news(owner.Ref.UID, reason+" "+what) {
		r.event(owner, corev1.EventTypeWarning, reason, what)
	}
}

func (r *reconciler) event(owner *providers.Owner, kind, reason, what string) {
	text := providers.Cleaner{Max: longestNote - 50}.Clean(providers.Redact(what))
	r.events.Eventf(owner.Infra, nil, kind, reason, "Reconcile", "%s", text)
}
