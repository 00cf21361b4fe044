package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/holdfast-io/holdfast/test/management"
)

// stage is what the play stands on: it ends the play at the first failure, and
// takes down whatever was put up, as a test does. It is a [management.T].
type stage struct {
	ctx context.Context

	mu       sync.Mutex
	takeDown []func()
	failures []error
	// cleanups are the failures of taking down.
	cleanups []error
	over     bool
}

var _ management.T = (*stage)(nil)

func newStage(ctx context.Context) *stage { return &stage{ctx: ctx} }

// perform runs the play to its end, takes everything down, and gives what
// failed.
func (s *stage) perform(play func()) error {
	s.guarded(play)
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for {
		s.mu.Lock()
		n := len(s.takeDown)
		if n == 0 {
			defer s.mu.Unlock()
			return errors.Join(append(s.failures, s.cleanups...)...)
		}
		next := s.takeDown[n-1]
		s.takeDown = s.takeDown[:n-1]
		s.mu.Unlock()
		s.guarded(next)
	}
}

// guarded runs f in a goroutine that Fatal can end, and takes a panic for a
// failure: what was put up must come down all the same.
func (s *stage) guarded(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				s.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		f()
	}()
	<-done
}

func (s *stage) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		s.cleanups = append(s.cleanups, err)
		return
	}
	s.failures = append(s.failures, err)
}

// Name implements [management.T].
func (s *stage) Name() string { return "demo-live" }

// Helper implements [management.T].
func (s *stage) Helper() {}

// Logf implements [management.T]: the ground's own words are no part of the
// story.
func (s *stage) Logf(string, ...any) {}

// Errorf implements [management.T].
func (s *stage) Errorf(format string, args ...any) { s.fail(fmt.Errorf(format, args...)) }

// Fatal implements [management.T].
func (s *stage) Fatal(args ...any) {
	s.fail(errors.New(fmt.Sprint(args...)))
	runtime.Goexit()
}

// Fatalf implements [management.T].
func (s *stage) Fatalf(format string, args ...any) {
	s.fail(fmt.Errorf(format, args...))
	runtime.Goexit()
}

// Cleanup implements [management.T].
func (s *stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeDown = append(s.takeDown, f)
}

// must ends the play at an error.
func (s *stage) must(err error) {
	if err != nil {
		s.Fatal(err)
	}
}
