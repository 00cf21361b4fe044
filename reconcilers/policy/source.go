package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Options are what a Source works with.
type Options struct {
	// Catalog of every provider, against which policies are checked.
	Catalog map[string][]providers.CatalogRow
	// Paths are files and folders.
	Paths []string
	// Objects serves DriftPolicies; nil takes none.
	Objects cache.Cache
	// Told, if not nil, gets what became of each source after each load.
	Told func([]State)
	// Poll is how often files are read without having been heard of; zero is
	// half a minute.
	Poll time.Duration
	Log  logr.Logger
}

// State is what became of one source.
type State struct {
	// Name is an object's name, or a file's path.
	Name   string
	Object bool
	// Valid says that the newest version is in effect.
	Valid bool
	// Problems say what is wrong with it, one sentence each.
	Problems []string

	generation, goodGeneration int64
	// inEffect says that some version is.
	inEffect bool
}

// Source keeps the policies that hold. It runs in every replica.
type Source struct {
	Options

	mu      sync.Mutex
	set     *policies.Set
	held    string // the name of a source that has no version in effect
	states  []State
	good    map[string]candidate // by name: the version in effect
	said    map[string]string    // by name: the problems that were logged
	notRead map[string]bool      // by path: that it was logged
	loaded  chan struct{}
	changes chan struct{}
	// written wakes the writer of statuses.
	written chan struct{}
	// announced wakes the one of events about files.
	announced chan struct{}
	wake      chan struct{}
}

// New makes a Source. It reads no file and no object yet.
func New(o Options) *Source {
	if o.Poll == 0 {
		o.Poll = 30 * time.Second
	}
	return &Source{Options: o, good: map[string]candidate{}, said: map[string]string{}, loaded: make(chan struct{}),
		changes: make(chan struct{}, 1), written: make(chan struct{}, 1), announced: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// Set gives the policies that hold now; nil before the first load, which means
// the built-in ones: those only observe.
func (s *Source) Set() *policies.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

// Changes is told after the policies that hold have changed.
func (s *Source) Changes() <-chan struct{} { return s.changes }

// Loaded is closed after the first load.
func (s *Source) Loaded() <-chan struct{} { return s.loaded }

// Ready gives an error until the first load.
func (s *Source) Ready() error {
	select {
	case <-s.loaded:
		return nil
	default:
		return errors.New("the policies are not loaded yet")
	}
}

// NeedLeaderElection lets every replica load: one that takes over has them.
func (s *Source) NeedLeaderElection() bool { return false }

// Start loads, and loads again whenever something changed, until the context
// ends.
func (s *Source) Start(ctx context.Context) error {
	if err := s.watchObjects(ctx); err != nil {
		return err
	}
	files := newFileWatch(s.Paths, s.Log)
	defer files.close()
	poll := time.NewTicker(s.Poll)
	defer poll.Stop()
	for {
		files.follow() // before they are read: what changes from here on is heard of
		if err := s.load(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error(err, "Policies could not be read, the last ones stay")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-files.changed():
			if !pause(ctx, fileDebounce) {
				return nil
			}
			files.drain()
		case <-poll.C:
		}
	}
}

// fileDebounce lets whoever writes several files finish.
const fileDebounce = 200 * time.Millisecond

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// watchObjects has changes of objects wake the loop, and waits for the first
// list: half of the objects would be other policies.
func (s *Source) watchObjects(ctx context.Context) error {
	if s.Objects == nil {
		return nil
	}
	informer, err := s.Objects.GetInformer(ctx, &v1alpha1.DriftPolicy{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch DriftPolicies: %w", err)
	}
	nudge := func() { poke(s.wake) }
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { nudge() },
		DeleteFunc: func(any) { nudge() },
		UpdateFunc: func(before, now any) {
			a, ok1 := before.(*v1alpha1.DriftPolicy)
			b, ok2 := now.(*v1alpha1.DriftPolicy)
			if ok1 && ok2 && (a.Generation != b.Generation || a.UID != b.UID) {
				nudge()
			}
		},
	}); err != nil {
		return fmt.Errorf("watch DriftPolicies: %w", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) && ctx.Err() == nil {
		return errors.New("watch DriftPolicies: the first list did not come")
	}
	return nil
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// load reads every source and takes over what is good.
func (s *Source) load(ctx context.Context) error {
	candidates, err := s.candidates(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	candidates = s.withGood(candidates)
	set, results := settle(policies.Options{Catalog: s.Catalog, Now: time.Now()}, candidates)
	before := s.fingerprint()
	s.good = map[string]candidate{}
	states := make([]State, 0, len(results))
	for i := range results {
		r := &results[i]
		s.keep(r)
		states = append(states, s.state(r))
	}
	held := hold(results)
	changed := s.set == nil || before != s.fingerprint() || held != s.held
	if changed {
		s.set, s.held = set, held
		if held != "" {
			s.set = set.Held(policies.Position{File: held})
			s.Log.Info("Nothing is enforced while a policy has no version in effect", "policy", held)
		}
		poke(s.written) // a file that changed and is as valid as before may be for other clusters
	}
	if !slices.EqualFunc(s.states, states, sameState) {
		s.states = states
		poke(s.written)
		poke(s.announced)
	}
	if s.Told != nil {
		s.Told(slices.Clone(states))
	}
	select {
	case <-s.loaded:
		if changed {
			poke(s.changes)
		}
	default:
		close(s.loaded)
	}
	return nil
}

// hold names a source of which no version is in effect, also because this
// process has not seen the last good one. It may be the one that keeps a
// cluster from what a broader policy enforces, so that nothing is enforced.
func hold(results []result) string {
	for i := range results {
		if !results[i].inEffect {
			return results[i].Name
		}
	}
	return ""
}

// withGood adds the last good version of each source.
func (s *Source) withGood(candidates []candidate) []candidate {
	for i := range candidates {
		if g, ok := s.good[candidates[i].Name]; ok {
			candidates[i].good, candidates[i].goodGeneration = g.Data, g.generation
		}
	}
	return candidates
}

// keep remembers the version that is in effect.
func (s *Source) keep(r *result) {
	switch {
	case r.valid():
		s.good[r.Name] = candidate{Source: r.Source, generation: r.generation}
	case r.inEffect:
		s.good[r.Name] = candidate{Source: policies.Source{Name: r.Name, Data: r.good}, generation: r.goodGeneration}
	}
}

// fingerprint tells two sets of versions apart.
func (s *Source) fingerprint() string {
	names := make([]string, 0, len(s.good))
	for name, c := range s.good {
		names = append(names, name+"\x00"+string(c.Data))
	}
	slices.Sort(names)
	return strings.Join(names, "\x01")
}

// state tells what became of a source, and logs what is new of it.
func (s *Source) state(r *result) State {
	st := State{Name: strings.TrimPrefix(r.Name, objectPrefix), Object: isObject(r.Name), Valid: r.valid(), inEffect: r.inEffect, generation: r.generation}
	if good, ok := s.good[r.Name]; ok {
		st.goodGeneration = good.generation
	}
	st.Problems = sentences(r)
	text := strings.Join(st.Problems, "\n")
	if text != s.said[r.Name] {
		s.said[r.Name] = text
		if text != "" {
			what := "Policy is not valid, and no version of it is in effect"
			if r.inEffect {
				what = "Policy is not valid, its last good version stays"
			}
			s.Log.Info(what, "policy", r.Name, "problems", st.Problems, "inEffect", r.inEffect)
		} else {
			s.Log.Info("Policy is valid again", "policy", r.Name)
		}
	}
	return st
}

func sameState(a, b State) bool {
	return a.Name == b.Name && a.Object == b.Object && a.Valid == b.Valid && a.inEffect == b.inEffect && a.generation == b.generation &&
		a.goodGeneration == b.goodGeneration && slices.Equal(a.Problems, b.Problems)
}

// candidates reads every source as it is now, in a stable order.
func (s *Source) candidates(ctx context.Context) ([]candidate, error) {
	var out []candidate
	sources, problems := policies.ReadSources(s.Paths...)
	for _, src := range sources {
		out = append(out, candidate{Source: src})
	}
	out = append(out, s.lost(problems)...)
	s.sayNotRead(problems)
	if s.Objects == nil {
		return out, nil
	}
	list := &v1alpha1.DriftPolicyList{}
	if err := s.Objects.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list DriftPolicies: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.DriftPolicy) int { return strings.Compare(a.Name, b.Name) })
	for i := range list.Items {
		c, err := candidateOf(&list.Items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// lost gives the sources of files and folders that cannot be read: a mount that
// went away takes no policy with it. An empty folder is no error here.
func (s *Source) lost(problems policies.Problems) []candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []candidate
	for _, p := range problems {
		if p.Code != "Unreadable" {
			continue
		}
		found := false
		for name, c := range s.good {
			if name == p.File || strings.HasPrefix(name, strings.TrimSuffix(p.File, "/")+"/") {
				out = append(out, candidate{Source: policies.Source{Name: c.Name}, unreadable: p.Message})
				found = true
			}
		}
		if !found {
			out = append(out, candidate{Source: policies.Source{Name: p.File}, unreadable: p.Message})
		}
	}
	slices.SortFunc(out, func(a, b candidate) int { return strings.Compare(a.Name, b.Name) })
	return out
}
