package remediation

import (
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// versions remembers what this process has written itself, so that a read that
// is older than that is known for what it is: an API server that lags behind,
// whose records would lack an attempt that has begun. Versions of one kind of
// object can be compared as numbers (Kubernetes API concepts, "Resource
// versions"); where one is no number, nothing is said.
type versions struct {
	mu     sync.Mutex
	latest uint64
	of     map[types.NamespacedName]written
}

// written is the last version of one record.
type written struct {
	uid     types.UID
	version uint64
}

func (v *versions) wrote(r *v1alpha1.Remediation) {
	n, err := strconv.ParseUint(r.ResourceVersion, 10, 64)
	if err != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil {
		v.of = map[types.NamespacedName]written{}
	}
	key := client.ObjectKeyFromObject(r)
	if last := v.of[key]; last.uid != r.UID || last.version < n {
		v.of[key] = written{r.UID, n}
	}
	v.latest = max(v.latest, n)
}

// forget is for a record that is gone.
func (v *versions) forget(key types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.of, key)
}

// list says with an error that a list is older than the last write.
func (v *versions) list(version string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n, err := strconv.ParseUint(version, 10, 64); err == nil && n < v.latest {
		return fmt.Errorf("list Remediations: the API server is behind: it answers with version %d, and version %d was written before", n, v.latest)
	}
	return nil
}

// get says with a conflict, upon which the step is taken anew, that a record is
// older than what was written to it.
func (v *versions) get(r *v1alpha1.Remediation) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	last := v.of[client.ObjectKeyFromObject(r)]
	if n, err := strconv.ParseUint(r.ResourceVersion, 10, 64); err == nil && last.uid == r.UID && n < last.version {
		return apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.Group, Resource: "remediations"}, r.Name,
			fmt.Errorf("the API server is behind: it answers with version %d, and version %d was written before", n, last.version))
	}
	return nil
}
