package main

import (
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/reconcilers/policy"
)

// Environment variables by which a pod's manifest tells the program which pod it
// is in (the downward API).
const (
	podNameVariable      = "POD_NAME"
	podNamespaceVariable = "POD_NAMESPACE"
	podUIDVariable       = "POD_UID"
)

// ownPod is the pod that the program is in; false where it has not been told.
func ownPod(getenv func(string) string) (corev1.ObjectReference, bool) {
	pod := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: getenv(podNamespaceVariable), Name: getenv(podNameVariable),
		UID: types.UID(getenv(podUIDVariable))}
	return pod, pod.Namespace != "" && pod.Name != "" && pod.UID != ""
}

// announce adds what makes events of policy files that are bad.
func (d *controller) announce(source *policy.Source, getenv func(string) string, log logr.Logger) error {
	pod, told := ownPod(getenv)
	if !told {
		log.V(1).Info("Policy files that are not valid are told in the log and the metrics, and in no event: it is not known which pod this is",
			"variables", []string{podNameVariable, podNamespaceVariable, podUIDVariable})
		return nil
	}
	return d.manager.Add(&policy.Announcer{Source: source, Client: d.client, Pod: pod, Now: time.Now})
}
