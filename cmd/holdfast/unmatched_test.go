package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
)

// TestReportWarnsOfUnmatchedPolicies: a policy with a misspelt name is told, unless
// only some of the clusters were asked for.
func TestReportWarnsOfUnmatchedPolicies(t *testing.T) {
	set, problems := policies.Load(policyOptions(), write(t, "p.yaml", "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: p}\nspec: {match: {clusters: [{name: ue}]}}\n"))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	inv := func(names ...string) *inventory.Inventory {
		out := &inventory.Inventory{}
		for _, n := range names {
			out.Clusters = append(out.Clusters, &inventory.Cluster{Object: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: n}}})
		}
		return out
	}
	namespace := "prod"
	for name, tc := range map[string]struct {
		flags reportFlags
		inv   *inventory.Inventory
		want  string
	}{
		"misspelt":      {reportFlags{}, inv("eu"), "p.yaml:1:1: warning: policy p is for no cluster: spec.match.clusters names */ue; did you mean prod/eu?\n"},
		"there":         {reportFlags{}, inv("eu", "ue"), ""},
		"no clusters":   {reportFlags{}, inv(), ""},
		"one cluster":   {reportFlags{clusters: []string{"prod/eu"}}, inv("eu"), ""},
		"one namespace": {reportFlags{kube: &genericclioptions.ConfigFlags{Namespace: &namespace}}, inv("eu"), ""},
		"some files":    {reportFlags{objects: []string{"eu.yaml"}}, inv("eu"), ""},
	} {
		if tc.flags.kube == nil {
			tc.flags.kube = &genericclioptions.ConfigFlags{Namespace: new(string)}
		}
		var b strings.Builder
		tc.flags.warnOfUnmatched(&b, set, tc.inv)
		if got := b.String(); (tc.want == "") != (got == "") || !strings.HasSuffix(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
