package inventory

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// counting is a reader that has every Secret but "none".
type counting struct {
	client.Reader
	gets int
}

func (c *counting) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.gets++
	if key.Name == "none" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	into.SetName(key.Name)
	into.SetLabels(map[string]string{"a": "b"})
	return nil
}

func TestRecent(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	source := &counting{}
	r := NewRecent(source, awsKinds(t), 10*time.Second, clock)
	get := func(name string, want int) *corev1.Secret {
		t.Helper()
		s := &corev1.Secret{}
		err := r.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: name}, s)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if source.gets != want {
			t.Fatalf("the API server was asked %d times, want %d", source.gets, want)
		}
		return s
	}
	get("a", 1).Labels["a"] = "changed by its reader"
	if got := get("a", 1); got.Name != "a" || got.Labels["a"] != "b" {
		t.Errorf("what one reader did is seen by the next: %+v", got.ObjectMeta)
	}
	get("b", 2)
	get("none", 3)
	get("none", 4) // an error is not kept
	clock.SetTime(clock.Now().Add(10 * time.Second))
	get("a", 5)
	if n := len(r.(*recent).got); n != 1 {
		t.Errorf("%d objects are kept after their time, want the one just read", n)
	}
}
