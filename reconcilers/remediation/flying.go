package remediation

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// flying remembers which records were in flight when this process last saw or
// wrote them, so that a list that lacks one is known for what it is: by it more
// would begin than may.
type flying struct {
	mu  sync.Mutex
	uid map[types.NamespacedName]types.UID
}

func (f *flying) note(r *v1alpha1.Remediation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := client.ObjectKeyFromObject(r)
	if !r.Status.Phase.InFlight() {
		delete(f.uid, key)
		return
	}
	if f.uid == nil {
		f.uid = map[types.NamespacedName]types.UID{}
	}
	f.uid[key] = r.UID
}

func (f *flying) forget(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.uid, key)
}

// without gives those that are not among records.
func (f *flying) without(records []v1alpha1.Remediation) map[types.NamespacedName]types.UID {
	there := make(map[types.NamespacedName]bool, len(records))
	for i := range records {
		there[client.ObjectKeyFromObject(&records[i])] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[types.NamespacedName]types.UID{}
	for key, uid := range f.uid {
		if !there[key] {
			out[key] = uid
		}
	}
	return out
}

// complete says with an error that a list lacks a record that is in flight.
func (s *Store) complete(ctx context.Context, records []v1alpha1.Remediation) error {
	for key, uid := range s.flying.without(records) {
		r := &v1alpha1.Remediation{}
		err := s.Reader.Get(ctx, key, r)
		switch {
		case apierrors.IsNotFound(err), err == nil && (r.UID != uid || !r.Status.Phase.InFlight()):
			s.flying.forget(key)
		case err != nil:
			return fmt.Errorf("get Remediation %s, which a list lacks: %w", key, err)
		default:
			return fmt.Errorf("list Remediations: the list lacks %s, which is in flight", key)
		}
	}
	for i := range records {
		s.flying.note(&records[i])
	}
	return nil
}
