package inventory

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// flaky fails once, then serves any object, and counts.
type flaky struct {
	client.Reader
	calls int
}

func (f *flaky) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	f.calls++
	if f.calls == 1 {
		return errors.New("connection refused")
	}
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	return nil
}

// TestReaderAsksOnce: what the API server gave is kept, and its failures are
// not (C49).
func TestReaderAsksOnce(t *testing.T) {
	server := &flaky{}
	r := newSet().Reader(awsKinds(t), server)
	key := client.ObjectKey{Namespace: "prod", Name: "credentials"}
	if err := r.Get(t.Context(), key, &corev1.Secret{}); err == nil {
		t.Fatal("the server's failure is lost")
	}
	for range 3 {
		var secret corev1.Secret
		if err := r.Get(t.Context(), key, &secret); err != nil || secret.Name != key.Name {
			t.Fatalf("%q, %v", secret.Name, err)
		}
	}
	if server.calls != 2 {
		t.Errorf("the server was asked %d times, want twice", server.calls)
	}
}
