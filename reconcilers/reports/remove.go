package reports

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Remover deletes the reports of a controller that writes none any more. It is a
// runnable of the manager.
type Remover struct {
	// Client reads and writes at the API server itself.
	Client client.Client
	// Namespace is the only one to look in; empty is all.
	Namespace string
	Log       logr.Logger
}

// NeedLeaderElection has the leader alone do it.
func (r *Remover) NeedLeaderElection() bool { return true }

// Start removes what there is, once. That it cannot is told, and stops nothing
// else.
func (r *Remover) Start(ctx context.Context) error {
	n, err := r.Remove(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.Log.Error(err, "Reports of an earlier run are left behind")
	case n > 0:
		r.Log.Info("Reports removed: they are switched off", "count", n)
	}
	return nil
}

// Remove deletes the controller's reports and gives how many there were: none
// where the kind is not served, or where it has no right to, which it asks for
// first.
func (r *Remover) Remove(ctx context.Context) (int, error) {
	s := store{client: r.Client, namespace: r.Namespace}
	if err := s.served(); errors.Is(err, errMissing) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("look for the kind Report: %w", err)
	}
	for _, verb := range []string{"list", "delete"} {
		if may, err := r.may(ctx, verb); err != nil || !may {
			return 0, err
		}
	}
	found, err := s.list(ctx)
	if err != nil && !errors.Is(err, errMissing) {
		return 0, err
	}
	var errs []error
	for i := range found {
		if err := s.remove(ctx, client.ObjectKeyFromObject(&found[i]), found[i].UID); err != nil {
			errs = append(errs, err)
		}
	}
	return len(found) - len(errs), errors.Join(errs[:min(len(errs), maxErrors)]...)
}

// may asks the API server, which answers everybody about themselves.
func (r *Remover) may(ctx context.Context, verb string) (bool, error) {
	review := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"resourceAttributes": map[string]any{
		"namespace": r.Namespace, "verb": verb, "group": reportKind.Group, "resource": "reports"}}}}
	review.SetGroupVersionKind(schema.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview"})
	err := r.Client.Create(ctx, review)
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for the right to %s Reports: %w", verb, err)
	}
	allowed, _, err := unstructured.NestedBool(review.Object, "status", "allowed")
	return allowed, err
}
