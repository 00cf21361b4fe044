package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/report"
)

// TestStageTakesDown: whatever ends a play, all that was put up comes down, the
// last first, and what failed is told.
func TestStageTakesDown(t *testing.T) {
	for name, tt := range map[string]struct {
		play func(*stage)
		say  string
	}{
		"to the end": {func(*stage) {}, ""},
		"fatal":      {func(s *stage) { s.Fatalf("no %s", "good") }, "no good"},
		"must":       {func(s *stage) { s.must(errors.New("no good")) }, "no good"},
		"error":      {func(s *stage) { s.Errorf("no good") }, "no good"},
		"panic":      {func(*stage) { panic("no good") }, "panic: no good"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t.Context())
			var down []int
			err := s.perform(func() {
				s.Cleanup(func() { down = append(down, 1) })
				s.Cleanup(func() { panic("while taking down") })
				s.Cleanup(func() { down = append(down, 3) })
				tt.play(s)
			})
			if !slices.Equal(down, []int{3, 1}) {
				t.Errorf("taken down: %v", down)
			}
			if err == nil || !strings.Contains(err.Error(), tt.say) || !strings.Contains(err.Error(), "while taking down") {
				t.Errorf("it says %v, want %q and what failed while taking down", err, tt.say)
			}
		})
	}
}

// TestHostileText: what clouds and objects say is inert, and colour is for
// terminals.
func TestHostileText(t *testing.T) {
	for _, color := range []bool{false, true} {
		var b bytes.Buffer
		s := &story{out: &b, begun: time.Now(), style: report.Style{Color: color}, lost: func() {}}
		s.tell(condition, "%s", "x\x1b[2J\ny\u202e"+strings.Repeat("z ", 5000))
		s.say("%s", "x\x1b[2J\n\x07")
		s.chapter("%s", "x\x1b[2J")
		text := strings.NewReplacer("\x1b[1m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(b.String())
		if strings.ContainsAny(text, "\x1b\x07\u202e") || len(text) > 4*maxText {
			t.Errorf("colour %t: %d bytes: %q", color, len(text), text[:200])
		}
		if color != strings.Contains(b.String(), "\x1b[33m") {
			t.Errorf("colour %t: %q", color, b.String()[:80])
		}
	}
}

// TestReaderGoesAway: a closed pipe ends the play instead of the process.
func TestReaderGoesAway(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &story{out: closed{}, begun: time.Now(), lost: cancel}
	s.say("anybody there?")
	if ctx.Err() == nil {
		t.Error("it goes on")
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestArguments(t *testing.T) {
	for name, args := range map[string][]string{
		"no program":  {},
		"bad colour":  {"--holdfast", "x", "--color", "pink"},
		"an argument": {"--holdfast", "x", "y"},
		"no patience": {"--holdfast", "x", "--patience", "0s"},
		"bad flag":    {"--nothing"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != exitUsage || errs.Len() == 0 {
			t.Errorf("%s: exit %d, %q", name, code, errs.String())
		}
	}
}
