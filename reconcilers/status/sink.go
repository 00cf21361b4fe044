package status

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// Reasons of Kubernetes events about a Machine, or about an infrastructure
// object or a Cluster that has none.
const (
	// EventDriftDetected: something drifts that did not before.
	EventDriftDetected = "DriftDetected"
	// EventDriftResolved: nothing drifts any more.
	EventDriftResolved = "DriftResolved"
	// EventDriftUnknown: it cannot be told any more whether something drifts.
	EventDriftUnknown = "DriftUnknown"
)

// eventAction is the action of every event: the events.k8s.io API wants one.
const eventAction = "Compare"

// Options are what a Sink works with.
type Options struct {
	// Reader reads live objects; it must not be a cache.
	Reader client.Reader
	// Client writes their status; its RESTMapper says which versions there are.
	Client client.Client
	// OpenAPI says where kinds keep their conditions.
	OpenAPI openapi.Client
	// Events takes the events.
	Events events.EventRecorder
	// Now is the clock; nil is the real one.
	Now func() time.Time
}

// Sink shows outcomes on objects. It is a [sweep.Sink].
type Sink struct {
	writer writer
	events events.EventRecorder

	mu       sync.Mutex
	memory   *memory
	requests requests
}

var _ sweep.Sink = (*Sink)(nil)

// New makes a Sink. It does no I/O.
func New(o Options) *Sink {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sink{
		writer: writer{reader: o.Reader, client: o.Client, places: &places{mapper: o.Client.RESTMapper(), openAPI: o.OpenAPI, now: o.Now}},
		events: o.Events,
		memory: newMemory(), requests: requests{},
	}
}

// writes bounds how many objects are written at once: a first sweep writes each
// of them.
const writes = 8

// maxErrors bounds how many errors of one outcome are told.
const maxErrors = 5

// Consume implements [sweep.Sink]. It goes on where one object cannot be
// written, and joins the errors.
func (s *Sink) Consume(ctx context.Context, outcome *sweep.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs := plan(outcome, s.memory)
	var (
		mu   sync.Mutex
		errs []error
		g    errgroup.Group
	)
	g.SetLimit(writes)
	for i := range jobs {
		g.Go(func() error {
			if err := s.do(ctx, &jobs[i], outcome.At); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = g.Wait()
	if len(errs) == 0 { // whoever waits for the answer then looks at the conditions
		if err := s.answer(ctx, outcome); err != nil {
			errs = append(errs, err)
		}
	}
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors], fmt.Errorf("and %d more objects", more))
	}
	return errors.Join(errs...)
}

func (s *Sink) do(ctx context.Context, j *job, at time.Time) error {
	done, err := s.writer.set(ctx, j.object, j.conditions, at)
	if err != nil || done.before == nil || !j.speaks {
		return err
	}
	for i := range done.changed {
		if c := &done.changed[i]; c.kind == typeDriftDetected {
			s.tell(ctx, j, c, done.before[c.kind])
		}
	}
	return nil
}

// tell sends the event of a change, if it is one that a person wants to know.
func (s *Sink) tell(ctx context.Context, j *job, now, before *condition) {
	was := metav1.ConditionStatus("")
	if before != nil {
		was = before.status
	}
	switch {
	case now.status == metav1.ConditionTrue && (was != metav1.ConditionTrue || j.redrifted):
		s.event(ctx, j, corev1.EventTypeWarning, EventDriftDetected, noteOn(now.message, j.by))
	case now.status == metav1.ConditionUnknown && before == nil && now.reason == ReasonNotChecked:
		// It is being made, or is of a kind that is not compared: nothing that
		// was known is not known any more.
	case now.status == metav1.ConditionUnknown && (was != metav1.ConditionUnknown || before.reason != now.reason):
		s.event(ctx, j, corev1.EventTypeWarning, EventDriftUnknown, now.message)
	case now.status == metav1.ConditionFalse && was == metav1.ConditionTrue:
		s.event(ctx, j, corev1.EventTypeNormal, EventDriftResolved, "Everything that was compared is as declared")
	case now.status == metav1.ConditionFalse && was == metav1.ConditionUnknown:
		s.event(ctx, j, corev1.EventTypeNormal, EventDriftResolved, "Compared again, and everything that was compared is as declared")
	}
}

// noteOn is the note on drift, with who is said to have made it where that is
// known: at the end, and kept when the rest is cut.
func noteOn(message, by string) string {
	if by == "" {
		return message
	}
	by = "; changed by " + by
	return bounded(message, max(maxNote-len(by), 0)-len("…")) + by
}

// event says something about the object of a job, on the object and in the log.
func (s *Sink) event(ctx context.Context, j *job, kind, reason, message string) {
	var about runtime.Object
	if j.about != nil {
		about = j.about
	}
	message = bounded(message, maxNote)
	logr.FromContextOrDiscard(ctx).Info("Condition changed", "condition", typeDriftDetected, "reason", reason,
		"kind", j.object.GetObjectKind().GroupVersionKind().Kind, "object", client.ObjectKeyFromObject(j.object).String(), "note", message)
	s.events.Eventf(j.object, about, kind, reason, eventAction, "%s", message)
}
