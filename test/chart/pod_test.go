package chart

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// thisPod is the one that the program runs in. There is none here, as there is no
// node: the kubelet, which this test is, tells the program of it all the same.
var thisPod = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: release + "-5d9c7b-x2k4q", UID: "11f2b3c4-5d6e-4f70-8a91-b2c3d4e5f607"}

// downward is what the kubelet fills in for a variable that names a field of the pod.
func downward(t *testing.T, e *corev1.EnvVar) string {
	t.Helper()
	if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
		return ""
	}
	value, known := map[string]string{"metadata.name": thisPod.Name, "metadata.namespace": thisPod.Namespace, "metadata.uid": string(thisPod.UID)}[e.ValueFrom.FieldRef.FieldPath]
	if !known {
		t.Fatalf("%s is the pod's %s, which nobody here knows", e.Name, e.ValueFrom.FieldRef.FieldPath)
	}
	return value
}

// told wants an event about the pod, one alone that says certain words.
func (c *cluster) told(t *testing.T, reason string, words ...string) error {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := c.client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		return err
	}
	n := 0
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == reason && e.Regarding == thisPod && says(e.Note, words) {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("%d events %s that say %q, want 1", n, reason, words)
	}
	return nil
}

func says(note string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(note, w) {
			return false
		}
	}
	return true
}
