package reports

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

var reportKind = openreports.SchemeGroupVersion.WithKind("Report")

// errMissing: the API server does not serve reports.
var errMissing = errors.New("the API server does not serve " + reportKind.GroupVersion().String() + " Reports")

// store reads and writes Report objects.
type store struct {
	client    client.Client
	namespace string
}

// backoff is for what may go better at once: sinks are called one after the
// other, so it is short. The next outcome tries again.
var backoff = wait.Backoff{Steps: 5, Duration: 50 * time.Millisecond, Factor: 3, Jitter: .2}

func mayPass(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) && !tooLarge(err) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

// tooLarge reports that an object is refused for its size: by the API server, or
// by etcd behind it, whose word comes through as it is.
func tooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || err != nil && strings.Contains(err.Error(), "request is too large")
}

// try calls until it goes well, or goes wrong for good. client-go's own loop
// takes a call that was cancelled or timed out for one that went well.
func try(ctx context.Context, do func() error) error {
	b := backoff
	for {
		err := do()
		if err == nil || b.Steps <= 1 || !mayPass(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(b.Step()):
		}
	}
}

// served tells whether the API server serves reports.
func (s *store) served() error {
	_, err := s.client.RESTMapper().RESTMapping(reportKind.GroupKind(), reportKind.Version)
	if meta.IsNoMatchError(err) {
		return errMissing
	}
	return err
}

// pageSize of a list.
const pageSize = 500

// list gives the metadata of all of the controller's reports.
func (s *store) list(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	var out []metav1.PartialObjectMetadata
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(reportKind.GroupVersion().WithKind(reportKind.Kind + "List"))
	for {
		err := try(ctx, func() error {
			return s.client.List(ctx, page, client.InNamespace(s.namespace), client.MatchingLabels{LabelManagedBy: managedBy},
				client.HasLabels{LabelCluster}, client.Limit(pageSize), client.Continue(page.Continue))
		})
		if apierrors.IsNotFound(err) { // it was served once
			return nil, errMissing
		}
		if err != nil {
			return nil, fmt.Errorf("list Reports: %w", err)
		}
		out = append(out, page.Items...)
		if page.Continue == "" {
			return out, nil
		}
	}
}

// get gives a report; nil if it is gone.
func (s *store) get(ctx context.Context, key types.NamespacedName) (*openreports.Report, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(reportKind)
	err := try(ctx, func() error { return s.client.Get(ctx, key, u) })
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	out := &openreports.Report{}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
	}
	if err != nil {
		return nil, fmt.Errorf("read Report %s: %w", key, err)
	}
	return out, nil
}

// apply writes a report, and gives the object that it is then; nil where its
// namespace is on its way out.
func (s *store) apply(ctx context.Context, r *openreports.Report) (*object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		return nil, fmt.Errorf("write Report %s/%s: %w", r.Namespace, r.Name, err)
	}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	var u *unstructured.Unstructured
	err = try(ctx, func() error {
		u = (&unstructured.Unstructured{Object: content}).DeepCopy()
		return s.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
	})
	switch {
	case ending(err):
		return nil, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, errMissing
	case err != nil:
		return nil, fmt.Errorf("write Report %s/%s: %w", r.Namespace, r.Name, err)
	}
	return &object{uid: u.GetUID(), generation: u.GetGeneration(), digest: digest(r)}, nil
}

// ending reports that the namespace goes, or is gone.
func ending(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	if details := status.Status().Details; apierrors.IsNotFound(err) && details != nil && details.Kind == "namespaces" {
		return true
	}
	return apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// remove deletes a report, if it still is the same object.
func (s *store) remove(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(reportKind)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	err := try(ctx, func() error { return s.client.Delete(ctx, u, client.Preconditions{UID: &uid}) })
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // a conflict: it is another's by now
		return fmt.Errorf("delete Report %s: %w", key, err)
	}
	return nil
}
