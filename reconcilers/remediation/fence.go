package remediation

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var coreVersion = clusterv1.GroupVersion.String()

// fencedClient asks before its first write whether this process still leads.
type fencedClient struct {
	client.Client
	fence func(context.Context) error
	asked bool
}

func (f *fencedClient) ask(ctx context.Context) error {
	if f.fence == nil || f.asked {
		return nil
	}
	if err := f.fence(ctx); err != nil {
		return fmt.Errorf("this process may not write: %w", err)
	}
	f.asked = true
	return nil
}

// Create asks first.
func (f *fencedClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := f.ask(ctx); err != nil {
		return err
	}
	return f.Client.Create(ctx, o, opts...)
}

// Update asks first.
func (f *fencedClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if err := f.ask(ctx); err != nil {
		return err
	}
	return f.Client.Update(ctx, o, opts...)
}

// Status asks first; an answer is kept for the writer's own error.
func (f *fencedClient) Status() client.SubResourceWriter {
	return &fencedStatus{SubResourceWriter: f.Client.Status(), client: f}
}

type fencedStatus struct {
	client.SubResourceWriter
	client *fencedClient
}

// Update asks first.
func (f *fencedStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	if err := f.client.ask(ctx); err != nil {
		return err
	}
	return f.SubResourceWriter.Update(ctx, o, opts...)
}
