package main

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// TestReplyThatTimesOut: an answer that did not arrive is not told as given.
func TestReplyThatTimesOut(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	r := &v1alpha1.Remediation{}
	r.Namespace, r.Name = "prod", "r"
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(r).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return context.DeadlineExceeded
		}}).Build()
	_, err := changeOne(t.Context(), c, client.ObjectKeyFromObject(r), "me", func(*v1alpha1.Remediation, string) (string, error) { return "approved", nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}
