package management

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// save writes what has changed in an object, status too, and nothing if
// nothing has.
func save(ctx context.Context, c client.Client, before, after client.Object) error {
	diff := client.MergeFrom(before)
	data, err := diff.Data(after)
	if err != nil {
		return err
	}
	if string(data) == "{}" {
		return nil
	}
	// Each write overwrites what it is given by what it gets back.
	main, status := after.DeepCopyObject().(client.Object), after.DeepCopyObject().(client.Object)
	if err := c.Patch(ctx, main, diff); err != nil {
		return fmt.Errorf("save %s: %w", client.ObjectKeyFromObject(after), err)
	}
	// Its finalizer may have been the last.
	if err := c.Status().Patch(ctx, status, diff); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("save status of %s: %w", client.ObjectKeyFromObject(after), err)
	}
	return nil
}
