package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	vspherev1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
)

const (
	driftDetected = "DriftDetected"
	driftResolved = "DriftResolved"
)

// found waits until metrics and conditions tell of the findings.
func (w *world) found(ctx context.Context, mode string, wanted map[string]*expected) {
	w.t.Helper()
	w.eventually(ctx, fmt.Sprintf("so that %d findings are told in mode %s", len(wanted), mode), func(ctx context.Context) error {
		return errors.Join(w.counted(wanted), w.told(ctx, wanted))
	})
}

// counted compares the metric of open findings.
func (w *world) counted(wanted map[string]*expected) error {
	counts := map[string]float64{}
	for _, f := range wanted {
		counts[f.kind+" "+string(f.status)]++
	}
	var errs []error
	total, err := w.d.sum("holdfast_findings", map[string]string{"cluster_name": w.cluster})
	if err == nil && w.shared {
		var anyones float64
		anyones, err = w.d.sum("holdfast_findings", map[string]string{"cluster_name": w.cluster, "pool": "", "status": string(detector.Unknown)})
		total -= anyones
	}
	if err == nil && int(total) != len(wanted) {
		err = fmt.Errorf("the metric counts %v findings, not %d; %s", total, len(wanted), w.drifting())
	}
	errs = append(errs, err)
	for key, want := range counts {
		kind, status, _ := strings.Cut(key, " ")
		have, err := w.d.sum("holdfast_findings", map[string]string{"cluster_name": w.cluster, "kind": kind, "status": status})
		if err == nil && have != want {
			err = fmt.Errorf("the metric counts %v %s %s, not %v", have, status, kind, want)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// drifting is what the conditions of Machines and Clusters say, for an error.
func (w *world) drifting() string {
	var out []string
	for _, kind := range []string{"Machine", "AWSCluster", "Cluster"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(groups[kind].WithKind(kind + "List"))
		if err := w.client.List(context.Background(), list, client.InNamespace(w.namespace)); err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if status, message := condition(&list.Items[i]); status != "False" {
				out = append(out, fmt.Sprintf("%s %s has DriftDetected=%q: %s", kind, list.Items[i].GetName(), status, message))
			}
		}
	}
	return strings.Join(out, "; ")
}

// told compares the conditions of owners and of their Machines.
func (w *world) told(ctx context.Context, wanted map[string]*expected) error {
	var errs []error
	for owner, list := range byOwner(wanted) {
		for _, about := range w.about(owner) {
			o, err := w.object(ctx, about)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			status, message := condition(o)
			if status != "True" {
				errs = append(errs, fmt.Errorf("%s has DriftDetected=%q: %s", about, status, message))
				continue
			}
			if err := says(message, list); err != nil {
				errs = append(errs, fmt.Errorf("the condition of %s %w", about, err))
			}
		}
	}
	return errors.Join(errs...)
}

// clean says which owners' conditions do not say yet that nothing drifts.
func (w *world) clean(ctx context.Context, wanted map[string]*expected) error {
	var errs []error
	for owner := range byOwner(wanted) {
		for _, about := range w.about(owner) {
			o, err := w.object(ctx, about)
			if err != nil {
				errs = append(errs, err)
			} else if status, message := condition(o); status != "False" {
				errs = append(errs, fmt.Errorf("%s has DriftDetected=%q: %s", about, status, message))
			}
		}
	}
	return errors.Join(errs...)
}

// announced waits for an event of each finding: about the Machine, else about
// the owner.
func (w *world) announced(ctx context.Context, wanted map[string]*expected, since time.Time, reason string) {
	w.t.Helper()
	w.eventually(ctx, fmt.Sprintf("so that events %s are there", reason), func(ctx context.Context) error {
		list := &eventsv1.EventList{}
		if err := w.client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		var errs []error
		for owner, findings := range byOwner(wanted) {
			abouts := w.about(owner)
			about := abouts[len(abouts)-1]
			o, err := w.object(ctx, about)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			err = errors.New("is not there")
			for _, e := range list.Items {
				if e.Reason != reason || e.Regarding.UID != o.GetUID() || e.EventTime.Time.Before(since) {
					continue
				}
				if err = nil; reason == driftDetected {
					err = says(e.Note, findings)
				}
				if err == nil {
					break
				}
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("event %s of %s %w", reason, about, err))
			}
		}
		return errors.Join(errs...)
	})
}

// Bounds of what a condition and an event say: how many resources, how many
// values of each, and how long an event's note is.
const (
	manyEntries = 8
	manyDiffs   = 6
	longNote    = 850
)

// says compares a text with what it must tell: each resource, and each value
// of it that there is room for.
func says(text string, list []*expected) error {
	if len(list) > manyEntries || len(text) > longNote {
		return nil
	}
	for _, f := range list {
		if f.id != "" && !strings.Contains(text, f.id) {
			return fmt.Errorf("says nothing of %s: %s", f.id, text)
		}
		if len(f.diffs) > manyDiffs || f.status != detector.Drifted {
			continue
		}
		for _, d := range f.diffs {
			if !strings.Contains(text, d.path) {
				return fmt.Errorf("says nothing of %s: %s", d.path, text)
			}
		}
	}
	return nil
}

func byOwner(wanted map[string]*expected) map[string][]*expected {
	out := map[string][]*expected{}
	for _, f := range wanted {
		out[f.owner] = append(out[f.owner], f)
	}
	return out
}

// about names the objects whose conditions tell of an owner's drift, the last of
// which events are about. What belongs to nobody stands on the Cluster.
func (w *world) about(owner string) []string {
	f := expected{owner: owner}
	switch {
	case owner == "":
		return []string{"Cluster/" + w.cluster}
	case f.machine() != "":
		return []string{owner, "Machine/" + f.machine()}
	default:
		return []string{owner}
	}
}

var groups = map[string]schema.GroupVersion{
	"Cluster": clusterv1.GroupVersion, "Machine": clusterv1.GroupVersion,
	"AWSCluster": awsv1.GroupVersion, "AWSMachine": awsv1.GroupVersion,
	"VSphereCluster": vspherev1.GroupVersion, "VSphereMachine": vspherev1.GroupVersion,
}

// object reads one by kind and name.
func (w *world) object(ctx context.Context, about string) (*unstructured.Unstructured, error) {
	kind, name, _ := strings.Cut(about, "/")
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(groups[kind].WithKind(kind))
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, o); err != nil {
		return nil, fmt.Errorf("%s: %w", about, err)
	}
	return o, nil
}

// condition gives the status and message of DriftDetected, which every kind
// here keeps among its conditions.
func condition(o *unstructured.Unstructured) (status, message string) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == driftv1.ConditionDriftDetected {
			status, _ = c["status"].(string)
			message, _ = c["message"].(string)
			return status, message
		}
	}
	return "", ""
}
