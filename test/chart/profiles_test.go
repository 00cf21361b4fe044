package chart

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
)

// testProfiles takes each profile through the life of a release. The one without
// the Prometheus operator comes first, while there is none.
func testProfiles(t *testing.T, c *cluster) {
	const first = "no-prometheus-operator"
	all := profiles(t)
	i := slices.Index(all, first)
	if i < 0 {
		t.Fatalf("there is no profile %s", first)
	}
	all = append([]string{first}, slices.Delete(all, i, i+1)...)
	for n, profile := range all {
		if n == 1 {
			c.prometheusOperator(t)
		}
		major := []string{"3", "4"}[n%2]
		t.Run(profile+" by Helm "+major, func(t *testing.T) { testProfile(t, c, c.helm(t, major), profile) })
	}
}

func testProfile(t *testing.T, c *cluster, h *helm, profile string) {
	args := []string{folder, "-n", namespace, "-f", profileFile(profile)}
	deployment := func() *appsv1.Deployment {
		t.Helper()
		return must(get[appsv1.Deployment](t.Context(), c, namespace, release))(t)
	}
	notes := h.run(t, append([]string{"install", release}, args...)...)
	if !strings.Contains(notes, "rollout status deployment/"+release) {
		t.Errorf("the notes do not say what to do next:\n%s", notes)
	}
	rendered := must(h.template(t, "-f", profileFile(profile)))(t)
	c.present(t, objects(t, rendered), true)
	before := deployment()
	c.restricted(t, before)

	h.run(t, append([]string{"upgrade", release}, append(args, "--set", "replicas=3", "--set", "logLevel=debug")...)...)
	after := deployment()
	if *after.Spec.Replicas != 3 || after.Spec.Template.Annotations["checksum/config"] == before.Spec.Template.Annotations["checksum/config"] {
		t.Errorf("the upgrade has come to nothing: %+v", after.Spec)
	}
	h.run(t, "rollback", release, "1", "-n", namespace)
	if back := deployment(); *back.Spec.Replicas != *before.Spec.Replicas || back.Spec.Template.String() != before.Spec.Template.String() {
		t.Errorf("the rollback gives\n%s\nwant\n%s", back.Spec.String(), before.Spec.String())
	}
	h.run(t, "uninstall", release, "-n", namespace)
	c.present(t, objects(t, rendered), false)
}

// present looks for every object of a release; none but the CRDs may be there when
// it is gone.
func (c *cluster) present(t *testing.T, of []*unstructured.Unstructured, want bool) {
	t.Helper()
	for _, u := range of {
		live := u.DeepCopy()
		err := c.client.Get(t.Context(), client.ObjectKeyFromObject(u), live)
		switch stays := u.GetKind() == "CustomResourceDefinition"; {
		case want || stays:
			if err != nil {
				t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
			}
		case !apierrors.IsNotFound(err):
			t.Errorf("%s %s is left behind (%v)", u.GetKind(), u.GetName(), err)
		}
	}
}

// restricted has the API server admit a pod as the Deployment makes them, to a
// namespace that enforces Pod Security "restricted"; and refuse one that is less
// so, without which the first would prove nothing.
func (c *cluster) restricted(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	pod := func(edit func(*corev1.PodSpec)) error {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, GenerateName: d.Name + "-", Labels: d.Spec.Template.Labels}}
		d.Spec.Template.Spec.DeepCopyInto(&p.Spec)
		edit(&p.Spec)
		return c.client.Create(t.Context(), p, client.DryRunAll)
	}
	if err := pod(func(*corev1.PodSpec) {}); err != nil {
		t.Errorf("a pod of the Deployment is refused: %v", err)
	}
	for name, edit := range map[string]func(*corev1.PodSpec){
		"seccomp":      func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil },
		"capabilities": func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Capabilities = nil },
	} {
		if err := pod(edit); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "restricted") {
			t.Errorf("a pod without its %s is admitted: %v", name, err)
		}
	}
	if s := d.Spec.Template.Spec.Containers[0].SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		t.Error("the root file system can be written")
	}
}

// testCRDs: the chart upgrades CRDs, which Helm does not where they lie in its
// crds folder, and leaves them and their objects when it goes.
func testCRDs(t *testing.T, c *cluster) {
	h := c.helm(t, "3")
	categories := func() []string {
		t.Helper()
		return must(get[apiextensionsv1.CustomResourceDefinition](t.Context(), c, "", "driftpolicies.drift.holdfast.io"))(t).Spec.Names.Categories
	}
	old := copyChart(t, func(path, text string) string {
		if filepath.Base(path) != "drift.holdfast.io_driftpolicies.yaml" {
			return text
		}
		return strings.Replace(text, "    kind: DriftPolicy\n", "    - old\n    kind: DriftPolicy\n", 1)
	})
	h.run(t, "install", release, old, "-n", namespace)
	if !slices.Contains(categories(), "old") {
		t.Fatalf("the older chart has categories %v", categories())
	}
	policy := &driftv1.DriftPolicy{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	if err := c.client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	h.run(t, "upgrade", release, folder, "-n", namespace)
	if slices.Contains(categories(), "old") {
		t.Error("the upgrade leaves the CRD as it was")
	}
	h.run(t, "uninstall", release, "-n", namespace)
	if _, err := get[driftv1.DriftPolicy](t.Context(), c, "", policy.Name); err != nil {
		t.Errorf("the release is gone, and with it %v", err)
	}
	if err := c.client.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
}
