package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers"
)

// Bounds of what an event holds, beside its note's.
const (
	maxName     = 200
	maxInstance = 128
)

// EventValid is the reason of the event about a file that is in effect again.
const EventValid = "PolicyValid"

// actionLoad is what was done to a file, in the words of an event.
const actionLoad = "Load"

// Announcer makes events of files that are bad, and of their being good again. A
// file is no object that could have one: they are about the pod that reads it. It
// runs on the leader alone, and tells each problem once; a leader that takes over
// tells again what is still wrong.
//
// The events are written here and not by a recorder: client-go's takes two events
// about one pod for one that repeats, whatever they say.
type Announcer struct {
	Source *Source
	Client client.Client
	// Pod is the one that this process is in.
	Pod corev1.ObjectReference
	Now func() time.Time

	said map[string]string // by path: the note that was written last about a bad file
}

// NeedLeaderElection lets the leader alone write.
func (a *Announcer) NeedLeaderElection() bool { return true }

// Start writes until the context ends.
func (a *Announcer) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.Source.Loaded():
	}
	for {
		var again <-chan time.Time
		if err := a.announce(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Event about a policy file could not be written")
			t := time.NewTimer(retryAfter)
			defer t.Stop()
			again = t.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.Source.announced:
		case <-again:
		}
	}
}

// announce writes what is new about each file.
func (a *Announcer) announce(ctx context.Context) error {
	a.Source.mu.Lock()
	states := slices.Clone(a.Source.states)
	a.Source.mu.Unlock()
	said := map[string]string{}
	var first error
	for i := range states {
		st := &states[i]
		if st.Object {
			continue
		}
		now, before := note(st), a.said[st.Name]
		if now == before {
			said[st.Name] = now
			continue
		}
		if err := a.write(ctx, st, now); err != nil {
			said[st.Name] = before // it is tried again
			if first == nil {
				first = err
			}
			continue
		}
		said[st.Name] = now
	}
	a.said = said // a file that is gone is forgotten
	return first
}

// note says what is wrong with a file; nothing if it is in effect.
func note(st *State) string {
	if st.Valid {
		return ""
	}
	what := "its last good version stays in effect"
	if !st.inEffect {
		what = "no version of it is in effect, and nothing is enforced"
	}
	return bounded(fmt.Sprintf("Policy file %s is not valid, %s: %s", clean(st.Name), what, strings.ReplaceAll(message(st), "\n", "; ")))
}

// bounded keeps a note within what an event takes.
func bounded(note string) string {
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote], "") + "…"
}

func clean(path string) string { return providers.Cleaner{Max: maxName}.Clean(path) }

func (a *Announcer) write(ctx context.Context, st *State, note string) error {
	kind, reason := corev1.EventTypeWarning, EventInvalid
	if note == "" {
		kind, reason = corev1.EventTypeNormal, EventValid
		note = fmt.Sprintf("Policy file %s is valid again, and in effect", clean(st.Name))
	}
	now := a.Now()
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: a.Pod.Namespace, Name: util.GenerateEventName(a.Pod.Name, now.UnixNano())},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: v1alpha1.FieldManager, ReportingInstance: a.Pod.Name[:min(len(a.Pod.Name), maxInstance)],
		Type: kind, Reason: reason, Action: actionLoad, Regarding: a.Pod, Note: note,
	}
	if err := a.Client.Create(ctx, event); err != nil {
		return fmt.Errorf("write the event %s about policy file %s: %w", reason, st.Name, err)
	}
	return nil
}
