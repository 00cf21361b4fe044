package inventory

import (
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Objects that say the same share the text of it, and are what they were.
func TestTextsAreShared(t *testing.T) {
	machine := func() *clusterv1.Machine {
		say := strings.Clone // each of its own, as decoding makes them
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: say("m"), Labels: map[string]string{say("pool"): say("a")}, CreationTimestamp: metav1.Now()}}
		m.OwnerReferences = []metav1.OwnerReference{{Kind: say("MachineSet")}}
		m.Spec.ClusterName, m.Spec.Bootstrap.DataSecretName = say("c"), new(string)
		*m.Spec.Bootstrap.DataSecretName = say("m")
		m.Status.Conditions = []metav1.Condition{{Message: strings.Repeat("x", longText+1)}}
		return m
	}
	one, two := machine(), machine()
	want := two.DeepCopy()
	said := texts{}
	said.share(reflect.ValueOf(one).Elem())
	said.share(reflect.ValueOf(two).Elem())
	if diff := cmp.Diff(want, two); diff != "" {
		t.Errorf("the object has changed:\n%s", diff)
	}
	same := func(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
	for what, pair := range map[string][2]string{
		"the name":           {one.Name, two.Name},
		"a pointer":          {one.Name, *two.Spec.Bootstrap.DataSecretName},
		"an element's field": {one.OwnerReferences[0].Kind, two.OwnerReferences[0].Kind},
		"a map's value":      {one.Labels["pool"], two.Labels["pool"]},
		"a nested field":     {one.Spec.ClusterName, two.Spec.ClusterName},
	} {
		if !same(pair[0], pair[1]) {
			t.Errorf("%s stands twice", what)
		}
	}
	if _, kept := said[one.Status.Conditions[0].Message]; kept {
		t.Error("long text is kept")
	}
}
