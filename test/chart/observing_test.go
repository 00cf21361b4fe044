package chart

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/running"
)

// observed is all that RBAC lets an observing install write: what it is told apart
// from by fields alone is refused by the chart's admission policy.
var observed = []string{
	"create authentication.k8s.io tokenreviews", "create authorization.k8s.io subjectaccessreviews", // who reads metrics
	"create events.k8s.io events", "patch events.k8s.io events",
	"patch cluster.x-k8s.io clusters", "patch cluster.x-k8s.io clusters/status", "patch cluster.x-k8s.io machines/status",
	"patch infrastructure.cluster.x-k8s.io awsclusters/status", "patch infrastructure.cluster.x-k8s.io awsmachines/status",
	"patch infrastructure.cluster.x-k8s.io vsphereclusters/status", "patch infrastructure.cluster.x-k8s.io vspheremachines/status",
	"update drift.holdfast.io driftpolicies/status",
}

// anybody may write these: the role system:basic-user.
var anybody = []string{
	"create authentication.k8s.io selfsubjectreviews", "create authorization.k8s.io selfsubjectaccessreviews", "create authorization.k8s.io selfsubjectrulesreviews",
}

// observing: whoever holds an observing install's token can write conditions,
// events, the answer to a requested sweep, and nothing else.
func (g *ground) observing(t *testing.T) {
	g.install(t, "mode: observe\ncrds: {enabled: false}\n")
	cfg := must(clientcmd.BuildConfigFromFlags("", g.account(t, release)))(t)
	cfg.QPS = -1
	me := must(client.New(cfg, client.Options{Scheme: g.Scheme()}))(t)
	if d := cmp.Diff(slices.Sorted(slices.Values(slices.Concat(observed, anybody))), mayWrite(t, kubernetes.NewForConfigOrDie(cfg), g.Namespace)); d != "" {
		t.Errorf("writes that are allowed (-want +got):\n%s", d)
	}

	cluster, infra, machine := &clusterv1.Cluster{}, &capa.AWSCluster{}, g.aws.ControlPlanes(t.Context())[0]
	g.aws.Get(t.Context(), g.aws.Name, cluster)
	g.aws.Get(t.Context(), g.aws.Name, infra)
	patch := func(o client.Object, status bool, text string) error {
		ctx, body := context.Background(), client.RawPatch(apitypes.MergePatchType, []byte(text))
		o = o.DeepCopyObject().(client.Object)
		if status {
			return me.Status().Patch(ctx, o, body, client.DryRunAll)
		}
		return me.Patch(ctx, o, body, client.DryRunAll)
	}
	const paused = `{"spec":{"paused":true}}`
	running.Eventually(t, patience, "held by the admission policy", func() error {
		if err := patch(cluster, false, paused); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "mode observe") {
			return errors.Join(errors.New("a Cluster may be paused"), err)
		}
		return nil
	})
	for _, c := range []struct {
		of     client.Object
		status bool
		patch  string
	}{
		{cluster, false, `{"metadata":{"labels":{"mine":"yes"}}}`},
		{cluster, false, `{"metadata":{"annotations":{"mine":"yes"}}}`},
		{cluster, false, `{"metadata":{"annotations":{"drift.holdfast.io/sweep-now":"mine"}}}`},
		{cluster, false, `{"metadata":{"finalizers":["example.com/mine"]}}`},
		{cluster, false, `{"metadata":{"finalizers":null}}`},
		{cluster, true, `{"status":{"phase":"Failed"}}`},
		{machine, true, `{"status":{"nodeRef":{"name":"other"}}}`},
		{machine, false, `{"spec":{"providerID":"aws:///a/i-1"}}`},
		{infra, true, `{"status":{"ready":false}}`},
		{infra, false, `{"spec":{"region":"us-east-1"}}`},
	} {
		if err := patch(c.of, c.status, c.patch); !apierrors.IsForbidden(err) {
			t.Errorf("%T takes %s: %v", c.of, c.patch, err)
		}
	}
	if err := patch(cluster, false, `{"metadata":{"annotations":{"drift.holdfast.io/swept":"1"}}}`); err != nil {
		t.Errorf("the answer to a request is refused: %v", err)
	}
	for _, o := range []client.Object{cluster, machine, infra} {
		list := `[{"type":"DriftDetected","status":"True","reason":"Drifted","message":"a tag differs","severity":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]`
		if err := patch(o, true, `{"status":{"conditions":`+list+`}}`); err != nil {
			t.Errorf("%T does not take conditions: %v", o, err)
		}
	}
	if err := me.Delete(t.Context(), machine, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("a Machine is deleted: %v", err)
	}
}

// mayWrite asks for every resource that the API server has, and every verb that
// writes, whether it is allowed.
func mayWrite(t *testing.T, c kubernetes.Interface, ns string) []string {
	t.Helper()
	_, lists, err := c.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	out, asked := map[string]bool{}, map[string]bool{}
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group = ""
		}
		for i := range list.APIResources {
			for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
				name := verb + " " + group + " " + list.APIResources[i].Name
				if asked[name] || !slices.Contains(list.APIResources[i].Verbs, verb) {
					continue
				}
				asked[name] = true
				resource, sub, _ := strings.Cut(list.APIResources[i].Name, "/")
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: ns, Verb: verb, Group: group, Resource: resource, Subresource: sub}}}
				answer, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if answer.Status.Allowed {
					out[name] = true
				}
			}
		}
	}
	if len(asked) < 200 {
		t.Errorf("only %d writes were asked for", len(asked))
	}
	return slices.Sorted(maps.Keys(out))
}
