package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of all types here.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// AddToScheme registers the types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &DriftPolicy{}, &DriftPolicyList{}, &Remediation{}, &RemediationList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
