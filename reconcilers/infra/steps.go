package infra

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// step is one thing to do next for an owner.
type step struct {
	// want is the planned resource; have is nil where it is to be made.
	want, have *providers.Resource
	// fields are those to set, of a resource that is there.
	fields []providers.FieldChange
}

func (s *step) creates() bool { return s.have == nil }

// steps is what a plan and a snapshot come to.
type steps struct {
	todo []step
	// open are the resources that are not as planned, with why.
	open map[providers.ID]string
	// look are ids that are recorded and were not seen: they are to be read
	// again.
	look []providers.ID
	// failed stands against going on, at the resource at.
	failed error
	at     providers.ID
}

// longAgo has a comparison take everything for as old as it need be: what was
// made just now is looked at for its differences, which are not waited out.
const longAgo = 24 * time.Hour

// next says what can be done for an owner now. set says that fields may be set
// in place too. It is pure.
func next(owner *providers.Owner, plan []providers.Resource, snap *providers.Snapshot, set func(providers.ID) bool) *steps {
	out := &steps{open: map[providers.ID]string{}}
	found := findings(detector.Compare(owner, plan, snap, detector.Options{Now: snap.TakenAt.Add(longAgo), Building: true}))
	var ready []*providers.Resource
	for i := range plan {
		w := &plan[i]
		switch {
		case w.Unchecked != "":
			out.fail(w.ID, refusal("%s: %s", w.Name, w.Unchecked))
		case w.Unknown != "":
			out.fail(w.ID, errors.New(w.Unknown))
		case w.Unsettled:
			out.open[w.ID] = "it is being made"
		case w.ID.Provisional():
			out.open[w.ID] = "it is to be made"
			ready = append(ready, w)
		default:
			out.compare(w, found[w.ID], snap, set(w.ID))
		}
	}
	for _, w := range ready {
		if need, waits := out.needed(w, snap); waits {
			out.open[w.ID] = "it needs " + name(plan, need)
			continue
		}
		out.todo = append(out.todo, step{want: w})
	}
	return out
}

func findings(r detector.Result) map[providers.ID][]detector.Finding {
	out := map[providers.ID][]detector.Finding{}
	for i := range r.Findings {
		id := providers.ID{Kind: r.Findings[i].Resource.Kind, Name: r.Findings[i].Resource.ID}
		out[id] = append(out[id], r.Findings[i])
	}
	return out
}

// compare takes in what was found about a resource that has an id.
func (s *steps) compare(w *providers.Resource, found []detector.Finding, snap *providers.Snapshot, set bool) {
	for i := range found {
		f := &found[i]
		switch {
		case f.Status == detector.Drifted:
			s.differs(w, f, set)
		case f.Status == detector.Missing || f.Tentative:
			s.open[w.ID] = "it is recorded, and the cloud does not show it"
			s.look = append(s.look, w.ID)
		case f.Status == detector.Unknown:
			s.open[w.ID] = f.Reason
		case f.Status == detector.NotChecked && snap.Resources[w.ID] == nil:
			s.fail(w.ID, errors.New(f.Reason))
		}
	}
}

// differs makes a step of what can be set in place. What is only to be had by
// making the resource anew stands against the owner's being built at all.
func (s *steps) differs(w *providers.Resource, f *detector.Finding, set bool) {
	st := step{want: w, have: f.Have}
	var waits []string
	for i := range f.Diffs {
		d := &f.Diffs[i]
		switch {
		case d.Want.Provisional():
			waits = append(waits, d.Path)
		case d.Mutability == providers.InPlace && d.Foreign == "":
			st.fields = append(st.fields, providers.FieldChange{
				Path: d.Path, Want: d.Want, Have: d.Have, Element: d.Element, Mutability: d.Mutability,
			})
		case d.Mutability == providers.Immutable && set:
			s.fail(w.ID, refusal("%s exists as %s, and its %s is %q where %q is wanted, which cannot be changed: it is another's, or made by hand",
				w.Name, w.ID.Name, strings.TrimPrefix(d.Path, "/"), d.Have.Text(), d.Want.Text()))
			return
		}
	}
	switch {
	case len(st.fields) > 0 && set:
		s.open[w.ID] = "it is being set up"
		s.todo = append(s.todo, st)
	case len(waits) > 0:
		s.open[w.ID] = "its " + strings.Join(waits, ", ") + " wait for what is still to be made"
	}
}

// needed gives the first thing that must be there, and be set up, before a
// resource can be made.
func (s *steps) needed(w *providers.Resource, snap *providers.Snapshot) (providers.ID, bool) {
	for _, need := range w.Needs {
		have := snap.Resources[need]
		inTheWay := slices.ContainsFunc(s.todo, func(st step) bool { return st.want.ID == need })
		if need.Provisional() || have == nil || have.Gone != "" || inTheWay {
			return need, true
		}
	}
	return providers.ID{}, false
}

func (s *steps) fail(at providers.ID, err error) {
	if s.failed == nil {
		s.failed, s.at = err, at
	}
	s.open[at] = err.Error()
}

func name(plan []providers.Resource, id providers.ID) string {
	for i := range plan {
		if plan[i].ID == id && plan[i].Name != "" {
			return plan[i].Name
		}
	}
	return id.Name
}

func refusal(format string, args ...any) error {
	return &providers.ApplyError{Reason: providers.ReasonRefused, Err: fmt.Errorf(format, args...)}
}

// creations is the namespace of tokens for what is made.
var creations = uuid.MustParse("0b0a6f0e-7f6e-4d1c-9f25-4c2a4e9b7d55")

// token names what is made for an owner: the same for every try, also by another
// process.
func token(owner *providers.Owner, planned providers.ID) string {
	return uuid.NewSHA1(creations, []byte(string(owner.Ref.UID)+"\x00"+planned.String())).String()
}
