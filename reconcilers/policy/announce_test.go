package policy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/reconcilers/policy"
)

// testFileEvents: a bad file is told once for each thing that is wrong with it, as
// is its being good again; what could not be written is written later; and nothing
// in a file makes an event that the API server refuses.
func testFileEvents(t *testing.T, c client.WithWatch) {
	pod := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "holdfast-" + strings.Repeat("a", 140), UID: "1234"}
	cm := &configMap{dir: t.TempDir()}
	name := strings.Repeat("\u202eü", 40) + ".yaml"
	const b = "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: q}\nspec: {}\n"
	files := map[string]string{"a.yaml": text("dryRun"), "b.yaml": b}
	cm.write(t, files)
	s := start(t, policy.Options{Paths: []string{cm.dir}, Poll: time.Hour})
	var refuse atomic.Bool
	var refused atomic.Int32
	refuse.Store(true)
	refusing := interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if refuse.Load() {
			refused.Add(1)
			return errors.New("too early")
		}
		return c.Create(ctx, o, opts...)
	}})
	a := &policy.Announcer{Source: s, Client: refusing, Pod: pod, Now: time.Now}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	want := func(want ...string) {
		t.Helper()
		eventually(t, "events", func() error { return eventsAre(t.Context(), c, &pod, want) })
	}
	write := func(file, content string) {
		files[file] = content
		cm.write(t, files)
	}

	write("a.yaml", text("sometimes"))
	eventually(t, "bad, and not to be told", func() error {
		if refused.Load() == 0 {
			return errors.New("no event was tried")
		}
		return wantMode(s, policies.ModeDryRun)()
	})
	refuse.Store(false)
	// Two about one pod within a moment are two.
	write("b.yaml", "nonsense\n")
	const last = "its last good version stays in effect"
	want("PolicyInvalid a.yaml "+last, "PolicyInvalid b.yaml "+last)
	// Wrong in another way.
	write("a.yaml", strings.Replace(text("off"), "mode", "mood", 1))
	want("PolicyInvalid a.yaml "+last, "PolicyInvalid a.yaml "+last, "PolicyInvalid b.yaml "+last)
	// Mended, and one that never was good, full of what nobody can read.
	files["a.yaml"], files["b.yaml"] = text("off"), b
	write(name, "kind: \"\\e[31m\u202e"+strings.Repeat("ü", 3000)+"\"\n")
	want("PolicyInvalid .yaml no version of it is in effect, and nothing is enforced", "PolicyInvalid a.yaml "+last, "PolicyInvalid a.yaml "+last,
		"PolicyInvalid b.yaml "+last, "PolicyValid a.yaml valid again", "PolicyValid b.yaml valid again")
}

// eventsAre wants events: a reason, a file and what the note says.
func eventsAre(ctx context.Context, c client.Client, pod *corev1.ObjectReference, want []string) error {
	list := &eventsv1.EventList{}
	if err := c.List(ctx, list, client.InNamespace(pod.Namespace)); err != nil {
		return err
	}
	var got []string
	for i := range list.Items {
		e := &list.Items[i]
		if e.Regarding != *pod {
			continue
		}
		if strings.ContainsAny(e.Note, "\x1b\n\u202e") {
			return fmt.Errorf("the note %q", e.Note)
		}
		got = append(got, e.Reason+" "+e.Note)
	}
	left := slices.Clone(got)
	for _, w := range want {
		part := strings.SplitN(w, " ", 3)
		i := slices.IndexFunc(left, func(g string) bool {
			return strings.HasPrefix(g, part[0]+" ") && strings.Contains(g, part[1]) && strings.Contains(g, part[2])
		})
		if i < 0 {
			return fmt.Errorf("no %q among %q", w, got)
		}
		left = slices.Delete(left, i, i+1)
	}
	if len(left) > 0 {
		return fmt.Errorf("%d events too many: %q", len(left), left)
	}
	return nil
}
