package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
)

// TestForgedRecords: whoever may write records, by hand and of anything, does not
// thereby end the scrape: names that are too long for a label are one series.
func TestForgedRecords(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 2*maxWord)
	objects := fake.NewClientBuilder().WithScheme(scheme)
	r := &Remediations{sink: NewSink(), repairs: newRepairs(), attempts: map[detector.ClusterRef]map[attemptKey]float64{}}
	for _, end := range []string{"x", "y"} {
		record := &v1alpha1.Remediation{
			ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: end},
			Spec:       v1alpha1.RemediationSpec{ClusterName: long + end, Action: "patch", Pool: long + end},
		}
		r.changed(record, withAttempt(record))
		flying := withAttempt(record)
		flying.Name, flying.Spec.ClusterName, flying.Status.Phase = "flying-"+end, "c1", v1alpha1.PhaseRunning
		objects = objects.WithObjects(withAttempt(record), flying)
	}
	r.reader = objects.Build()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r)
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}

func withAttempt(r *v1alpha1.Remediation) *v1alpha1.Remediation {
	out := r.DeepCopy()
	out.Status.Attempts = []v1alpha1.Attempt{{Number: 1, Outcome: v1alpha1.OutcomeFailed}}
	return out
}
