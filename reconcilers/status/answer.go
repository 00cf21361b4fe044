package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// answer tells those who asked for a sweep that it has come to something: the
// request that stood at the Cluster before its clouds were read is written
// beside it, after the conditions. That is one write for each request, and none
// for a sweep that nobody asked for.
func (s *Sink) answer(ctx context.Context, o *sweep.Outcome) error {
	var errs []error
	for _, c := range s.requests.answered(o) {
		asked := c.Annotations[v1alpha1.AnnotationSweepNow]
		if err := s.answerOne(ctx, c, asked); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("answer the request for a sweep of Cluster %s/%s: %w", c.Namespace, c.Name, err))
		}
	}
	return errors.Join(errs...)
}

// requests are those for a sweep of which some scopes were read and others were
// not. They are lost with the process: the next one reads everything anyway.
type requests map[detector.ClusterRef]*request

type request struct {
	asked string
	read  map[providers.Scope]bool
}

// answered gives the Clusters of which every scope has been read, by this
// outcome and by those before it, since somebody asked.
func (r requests) answered(o *sweep.Outcome) []*clusterv1.Cluster {
	for _, ref := range o.Gone {
		delete(r, ref)
	}
	if o.Targeted() || o.Inventory == nil || o.Result == nil {
		return nil
	}
	read := map[detector.ClusterRef]bool{}
	for i := range o.Result.Clusters {
		c := &o.Result.Clusters[i]
		known, seen := read[c.Ref]
		read[c.Ref] = (known || !seen) && !c.TakenAt.IsZero()
	}
	var out []*clusterv1.Cluster
	for _, c := range o.Inventory.Clusters {
		asked := c.Object.Annotations[v1alpha1.AnnotationSweepNow]
		ref := detector.ClusterRef{Namespace: c.Object.Namespace, Name: c.Object.Name}
		if asked == "" || asked == c.Object.Annotations[v1alpha1.AnnotationSwept] {
			delete(r, ref)
			continue
		}
		if !read[ref] {
			continue
		}
		if r[ref] == nil || r[ref].asked != asked {
			r[ref] = &request{asked: asked, read: map[providers.Scope]bool{}}
		}
		r[ref].read[o.Scope] = true
		if !slices.ContainsFunc(o.Scopes[ref], func(s providers.Scope) bool { return !r[ref].read[s] }) {
			out = append(out, c.Object)
		}
	}
	return out
}

func (s *Sink) answerOne(ctx context.Context, c *clusterv1.Cluster, asked string) error {
	gvk, _, err := s.writer.places.of(c.GroupVersionKind())
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": c.UID, "annotations": map[string]string{v1alpha1.AnnotationSwept: asked}}})
	if err != nil {
		return err
	}
	u := metadataOf(gvk, c)
	return s.writer.client.Patch(ctx, u, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldManager))
}
