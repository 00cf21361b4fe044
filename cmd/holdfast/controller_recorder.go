package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

const (
	// quietFor is how long nothing was written when nothing is on its way any
	// more: client-go hands events on from one goroutine to the next.
	quietFor = 100 * time.Millisecond
	// lastEvents is how long the last events may take to be written.
	lastEvents = time.Second
)

// recorder writes Kubernetes events. The manager's own recorder gives up what
// is on its way when the manager stops, and logs that as an error; what was done
// in the last second before a stop is what a person looks for after it.
type recorder struct {
	events.EventRecorder
	broadcaster events.EventBroadcaster
	sink        *countingSink
	cancel      context.CancelFunc
}

func newRecorder(cfg *rest.Config, hc *http.Client, scheme *runtime.Scheme, log logr.Logger) (*recorder, error) {
	api, err := typedeventsv1.NewForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, err
	}
	sink := &countingSink{EventSink: &events.EventSinkImpl{Interface: api}}
	r := &recorder{broadcaster: events.NewBroadcaster(sink), sink: sink}
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), log.WithName("events")))
	r.cancel = cancel
	if err := r.broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		cancel()
		return nil, err
	}
	r.EventRecorder = r.broadcaster.NewRecorder(scheme, v1alpha1.FieldManager)
	return r, nil
}

// Eventf implements [events.EventRecorder].
func (r *recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.sink.touch()
	r.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

// close waits until what was recorded is written, and ends.
func (r *recorder) close() {
	tick := time.NewTicker(quietFor / 10)
	defer tick.Stop()
	for end := time.Now().Add(lastEvents); !r.sink.quiet(quietFor) && time.Now().Before(end); {
		<-tick.C
	}
	r.broadcaster.Shutdown()
	r.cancel()
}

// countingSink knows whether events are being written.
type countingSink struct {
	events.EventSink

	mu       sync.Mutex
	underWay int
	last     time.Time
}

func (s *countingSink) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
}

// quiet reports that nothing is being written, and nothing was for a time.
func (s *countingSink) quiet(d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.underWay == 0 && time.Since(s.last) >= d
}

func (s *countingSink) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay += n
	s.last = time.Now()
}

// Create implements [events.EventSink].
func (s *countingSink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.count(1)
	defer s.count(-1)
	return s.EventSink.Create(ctx, e)
}

// Update implements [events.EventSink].
func (s *countingSink) Update(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.count(1)
	defer s.count(-1)
	return s.EventSink.Update(ctx, e)
}

// Patch implements [events.EventSink].
func (s *countingSink) Patch(ctx context.Context, e *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	s.count(1)
	defer s.count(-1)
	return s.EventSink.Patch(ctx, e, data)
}
