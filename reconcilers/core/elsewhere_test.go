package core

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func lease(name string, renewed time.Duration, holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capi-system", Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: &metav1.MicroTime{Time: noon.Add(-renewed)}},
	}
}

func deployment(provider string, replicas *int32, running int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capi-system", Name: provider, Labels: map[string]string{labelProvider: provider}},
		Spec:       appsv1.DeploymentSpec{Replicas: replicas}, Status: appsv1.DeploymentStatus{Replicas: running},
	}
}

func reader(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).
		WithIndex(&coordinationv1.Lease{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()
}

// Two controllers of one kind never run: whoever holds a lease of upstream's or is
// about to run a program of upstream's stands in the way of its part, and of no
// other.
func TestElsewhere(t *testing.T) {
	const coreLease, planeLease = "controller-leader-election-capi", "kubeadm-control-plane-manager-leader-election-capi"
	for name, c := range map[string]struct {
		there []client.Object
		parts []Part
		say   string // nothing stands in the way
	}{
		"nobody":                     {parts: Parts()},
		"a lease that is renewed":    {there: []client.Object{lease(coreLease, 3*time.Second, "capi-0")}, parts: Parts(), say: `core: lease capi-system/controller-leader-election-capi is held by "capi-0"`},
		"of another part":            {there: []client.Object{lease(coreLease, 3*time.Second, "capi-0")}, parts: []Part{Kubeadm}},
		"of a kubeadm program":       {there: []client.Object{lease(planeLease, 3*time.Second, "kcp-0")}, parts: []Part{Kubeadm}, say: "kubeadm: lease"},
		"a lease that has run out":   {there: []client.Object{lease(coreLease, 16*time.Second, "capi-0")}, parts: Parts()},
		"a lease that is given back": {there: []client.Object{lease(coreLease, 3*time.Second, "")}, parts: Parts()},
		"another lease":              {there: []client.Object{lease("holdfast", 3*time.Second, "me")}, parts: Parts()},
		"a deployment":               {there: []client.Object{deployment("cluster-api", nil, 0)}, parts: Parts(), say: "core: Deployment capi-system/cluster-api is to run"},
		"a deployment of 0":          {there: []client.Object{deployment("cluster-api", ptr.To[int32](0), 0)}, parts: Parts()},
		"a deployment that ends":     {there: []client.Object{deployment("bootstrap-kubeadm", ptr.To[int32](0), 1)}, parts: Parts(), say: "kubeadm: Deployment"},
		"another provider":           {there: []client.Object{deployment("infrastructure-aws", nil, 1)}, parts: Parts()},
		"the same provider":          {there: []client.Object{deployment("infrastructure-aws", nil, 1)}, parts: []Part{AWS}, say: "aws: Deployment capi-system/infrastructure-aws is to run"},
	} {
		t.Run(name, func(t *testing.T) {
			switch err := refuse(t.Context(), reader(t, c.there...), c.parts, noon); {
			case c.say == "" && err != nil:
				t.Error(err)
			case c.say != "" && (err == nil || !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), "--reconcilers-takeover")):
				t.Errorf("the error is %v, want one that says %q and what to do", err, c.say)
			}
		})
	}
}

// A leader ends when upstream's program is started beside it.
func TestGuard(t *testing.T) {
	c := reader(t)
	g := &guard{reader: c, parts: Parts(), now: func() time.Time { return noon }, every: time.Millisecond}
	if !g.NeedLeaderElection() {
		t.Error("a standby looks too")
	}
	done := make(chan error, 1)
	go func() { done <- g.Start(t.Context()) }()
	select {
	case err := <-done:
		t.Fatalf("it ended without a reason: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if err := c.Create(t.Context(), lease("controller-leader-election-capi", 0, "capi-0")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "were started") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it goes on beside another controller manager")
	}
}
