package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// saveReadings writes what was seen for a later --snapshot.
func saveReadings(path string, readings []sweep.Reading) error {
	snapshots := make([]*providers.Snapshot, 0, len(readings))
	for i := range readings {
		if s := readings[i].Settled(); s != nil {
			snapshots = append(snapshots, s)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--save-snapshot: %w", err)
	}
	if err := errors.Join(providers.WriteSnapshots(f, snapshots), f.Close()); err != nil {
		return fmt.Errorf("--save-snapshot %s: %w", path, err)
	}
	return nil
}

// replay puts saved snapshots in front of the providers.
func replay(path string, clouds map[string]providers.Provider) (map[string]providers.Provider, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--snapshot: %w", err)
	}
	defer func() { _ = f.Close() }()
	snapshots, err := providers.ReadSnapshots(f)
	if err != nil {
		return nil, fmt.Errorf("--snapshot %s: %w", path, err)
	}
	out := maps.Clone(clouds)
	for name, p := range clouds {
		out[name] = &replayed{Provider: p, name: name, path: path, snapshots: snapshots}
	}
	return out, nil
}

// replayed is a provider whose cloud is a file: it observes what was saved and
// calls nothing.
type replayed struct {
	providers.Provider
	name, path string
	snapshots  []*providers.Snapshot
}

func (r *replayed) Scope(_ context.Context, owner *providers.Owner) (providers.Scope, error) {
	cluster := detector.ClusterRef{Namespace: owner.Cluster.Namespace, Name: owner.Cluster.Name}
	for _, s := range r.snapshots {
		if s.Scope.Provider == r.name && (slices.Contains(s.Serves, owner.Ref.String()) || slices.Contains(s.Serves, cluster.String())) {
			return s.Scope, nil
		}
	}
	return providers.Scope{}, fmt.Errorf("%s holds no %s snapshot that was taken for cluster %s", r.path, r.name, cluster)
}

func (r *replayed) Observe(_ context.Context, scope providers.Scope) (*providers.Snapshot, error) {
	for _, s := range r.snapshots {
		if s.Scope == scope {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s holds no snapshot of %s", r.path, scope)
}

var errReplayed = errors.New("a saved snapshot cannot be read again")

func (r *replayed) Confirm(ctx context.Context, scope providers.Scope, ids []providers.ID) (*providers.Confirmation, error) {
	s, err := r.Observe(ctx, scope)
	if err != nil {
		return nil, err
	}
	c := &providers.Confirmation{Unconfirmed: map[providers.ID]error{}}
	for _, id := range ids {
		if !slices.Contains(s.ConfirmedAbsent, id) {
			c.Unconfirmed[id] = errReplayed
		}
	}
	return c, nil
}
