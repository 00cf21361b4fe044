package remediation

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// TestReadOlderThanTheLastWrite: such a read says nothing; one that is as old,
// newer, or of a server whose versions are no numbers does.
func TestReadOlderThanTheLastWrite(t *testing.T) {
	record := func(uid, version string) *v1alpha1.Remediation {
		return &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), ResourceVersion: version}}
	}
	v := &versions{}
	if err := v.list("1"); err != nil {
		t.Errorf("before any write: %v", err)
	}
	v.wrote(record("a", "10"))
	v.wrote(record("b", "12"))
	v.wrote(record("c", "opaque"))
	for version, behind := range map[string]bool{"11": true, "9": true, "12": false, "100": false, "opaque": false, "": false} {
		if err := v.list(version); (err != nil) != behind {
			t.Errorf("list at %q: %v", version, err)
		}
	}
	for version, behind := range map[string]bool{"9": true, "10": false, "11": false, "opaque": false} {
		if err := v.get(record("a", version)); apierrors.IsConflict(err) != behind {
			t.Errorf("get at %q: %v", version, err)
		}
	}
	if err := v.get(record("d", "1")); err != nil {
		t.Errorf("another's record: %v", err)
	}
	again := record("a", "9")
	again.UID = "made anew"
	if err := v.get(again); err != nil {
		t.Errorf("another record of the same name: %v", err)
	}
	v.forget(types.NamespacedName{Name: "a"})
	if err := v.get(record("a", "9")); err != nil {
		t.Errorf("a forgotten one: %v", err)
	}
}
