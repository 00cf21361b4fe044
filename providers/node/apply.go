package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// fieldManager is whom a Node's managed fields name.
const fieldManager = "holdfast"

// Apply implements [providers.Applier]: labels and taints of Nodes are patched
// in the workload cluster, and whatever else is the other provider's to write.
func (p *Provider) Apply(ctx context.Context, scope providers.Scope, change providers.Change) error {
	if change.Resource.Kind != providers.KindNode {
		if a, ok := p.inner.(providers.Applier); ok {
			return a.Apply(ctx, scope, change)
		}
		return refuse(providers.ReasonUnsupported, "provider %s writes nothing", scope.Provider)
	}
	if err := change.Refused(); err != nil {
		return err
	}
	edits, err := editsOf(&change)
	if err != nil {
		return err
	}
	cluster, name, ok := fromID(change.Resource)
	if !ok {
		return refuse(providers.ReasonRefused, "%s: want NAMESPACE/CLUSTER/NODE", change.Resource)
	}
	ctx, cancel := context.WithTimeout(ctx, p.limits.cluster)
	defer cancel()
	c, err := p.connect(ctx, cluster)
	if err != nil {
		return applyError(&change, err)
	}
	return p.write(ctx, c, name, &change, edits)
}

func refuse(reason, format string, args ...any) error {
	return &providers.ApplyError{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// edits are what a change makes of a Node.
type edits struct {
	labels map[string]string
	taints []corev1.Taint
}

// editsOf reads a change, and refuses it as a whole where a part of it cannot be
// written.
func editsOf(change *providers.Change) (*edits, error) {
	e := &edits{labels: map[string]string{}}
	for i := range change.Fields {
		f := &change.Fields[i]
		if f.Want.IsAbsent() {
			return nil, refuse(providers.ReasonUnsupported, "%s of %s is not taken away: nothing declares that it must not be there", f.Path, change.Resource)
		}
		key, isLabel := strings.CutPrefix(f.Path, pathLabels)
		switch {
		case isLabel && len(providers.Segments(key)) == 1:
			e.labels[providers.Segments(key)[0]] = f.Want.Text()
		case f.Path == pathTaints:
			for _, text := range f.Want.Elements() {
				t, err := parseTaint(text)
				if err != nil {
					return nil, refuse(providers.ReasonRefused, "%s of %s: %w", f.Path, change.Resource, err)
				}
				e.taints = append(e.taints, t)
			}
		default:
			return nil, refuse(providers.ReasonUnsupported, "%s of %s cannot be written", f.Path, change.Resource)
		}
	}
	return e, nil
}

// conflicts is how often a Node is read again when somebody else wrote to it
// between reading and writing, as kubelet does every few seconds.
const conflicts = 5

// write reads the Node, sees that it is the Machine's own, and patches what is
// not as wanted already.
func (p *Provider) write(ctx context.Context, c client.Client, name string, change *providers.Change, e *edits) error {
	for attempt := 1; ; attempt++ {
		n, err := p.get(ctx, c, name)
		if err != nil {
			return applyError(change, err)
		}
		if want := change.Want.Fields.Get(pathProviderID).Value.Text(); want == "" || n.Spec.ProviderID != want {
			return refuse(providers.ReasonMoved, "%s is the Node of another instance than its Machine's by now", change.Resource)
		}
		patch, err := e.patch(n)
		if err != nil || patch == nil {
			return err
		}
		err = p.call(ctx, opPatch, func(ctx context.Context) error {
			return c.Patch(ctx, n, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager))
		})
		switch {
		case err == nil:
			return nil
		case attempt < conflicts && (apierrors.IsConflict(err) || anotherUID(err)):
		default:
			return applyError(change, err)
		}
	}
}

// anotherUID reports that a Node of the name was made anew: API servers call the
// uid of the one that was read a change of an immutable field.
func anotherUID(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// patch gives the merge patch that makes the edits, nil if none is left to make.
// It holds for this very Node and no later one of its name; the list of taints,
// which a merge patch sets as a whole, for this very version of it.
func (e *edits) patch(n *corev1.Node) ([]byte, error) {
	metadata := map[string]any{"uid": n.UID}
	labels := map[string]string{}
	for key, value := range e.labels {
		if have, ok := n.Labels[key]; !ok || have != value {
			labels[key] = value
		}
	}
	body := map[string]any{"metadata": metadata}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	taints, changed := append([]corev1.Taint(nil), n.Spec.Taints...), false
	for _, t := range e.taints {
		var did bool
		taints, did = ensure(taints, t)
		changed = changed || did
	}
	if changed {
		metadata["resourceVersion"] = n.ResourceVersion
		body["spec"] = map[string]any{"taints": taints}
	}
	if len(labels) == 0 && !changed {
		return nil, nil
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("patch Node %s: %w", n.Name, err)
	}
	return data, nil
}

// applyError sorts what a workload cluster answered: what it will answer again is
// an *[providers.ApplyError], what may pass by itself is not.
func applyError(change *providers.Change, err error) error {
	cluster, name, _ := fromID(change.Resource)
	told := fmt.Errorf("patch Node %s of cluster %s: %w", name, cluster, &unreadable{text: cause(err), err: err})
	var status apierrors.APIStatus
	switch {
	case saysAbsent(err, name):
		return &providers.ApplyError{Reason: providers.ReasonMoved, Err: told}
	case apierrors.IsForbidden(err):
		return &providers.ApplyError{Reason: providers.ReasonNotPermitted, Err: told}
	case errors.As(err, &status) && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
		return &providers.ApplyError{Reason: providers.ReasonRefused, Err: told}
	default:
		return told
	}
}
