package policies

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FactsOf gives the labels and annotations of an owner and its Machine
// together, as OwnerFacts takes them; earlier objects win. Of this project's
// own annotations, which can only make things safer, the safer value of all
// objects is kept, and ignored paths add up. It is pure.
func FactsOf(objects ...metav1.Object) (labels, annotations map[string]string) {
	labels, annotations = map[string]string{}, map[string]string{}
	var ignored []string
	for i := len(objects) - 1; i >= 0; i-- {
		maps.Copy(labels, objects[i].GetLabels())
		for key, value := range objects[i].GetAnnotations() {
			old, have := annotations[key]
			switch {
			case key == AnnotationIgnore:
				ignored = append(ignored, value)
				continue
			case key == AnnotationMode && have && modeRank(Mode(old)) < modeRank(Mode(value)):
				continue
			case key == AnnotationSkipReplace && have && old != "false":
				continue
			}
			annotations[key] = value
		}
	}
	if len(ignored) > 0 {
		annotations[AnnotationIgnore] = strings.Join(ignored, ",")
	}
	return labels, annotations
}
