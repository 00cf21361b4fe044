package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
)

// expected is a finding that a tamper makes, whatever the cloud.
type expected struct {
	// owner is the object's kind and name, id the resource's; empty is the only
	// one of its kind that the owner has.
	owner, kind, id string
	status          detector.Status
	diffs           []difference
}

// key tells findings apart.
func (e *expected) key() string {
	if e.id == "" {
		return e.kind + " of " + e.owner
	}
	return e.kind + " " + e.id
}

// machine is the name of the owner's Machine, which Cluster API gives its
// infrastructure object too; empty is an owner that is a cluster.
func (e *expected) machine() string {
	kind, name, _ := strings.Cut(e.owner, "/")
	if !strings.HasSuffix(kind, "Machine") {
		return ""
	}
	return name
}

// difference is one, with its values as text; empty is absence.
type difference struct{ path, want, have string }

// row is a tamper of a table as these tests play it.
type row struct {
	name string
	// do tampers, and gives what must be found and how it is undone.
	do func(context.Context) ([]expected, func(context.Context) error, error)
	// touches are the fields that it changes; a machine that it stops is touched
	// as a whole.
	touches []string
}

// batches puts rows together that touch nothing in common.
func batches(rows []*row) (out [][]*row) {
	for _, r := range rows {
		i := slices.IndexFunc(out, func(batch []*row) bool {
			return !slices.ContainsFunc(batch, func(o *row) bool { return overlap(o.touches, r.touches) })
		})
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], r)
	}
	return out
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool {
			x, whole := strings.CutSuffix(x, "*")
			y, wholeY := strings.CutSuffix(y, "*")
			return x == y || whole && strings.HasPrefix(y, x) || wholeY && strings.HasPrefix(x, y)
		})
	})
}

// rehearse does and undoes each row, to learn what it touches.
func rehearse(ctx context.Context, t *testing.T, rows []*row) {
	t.Helper()
	for _, r := range rows {
		found, undo, err := r.do(ctx)
		if err == nil && undo == nil {
			err = errors.New("it cannot be undone")
		}
		if err == nil {
			err = undo(ctx)
		}
		if err != nil {
			t.Fatalf("rehearse %s: %v", r.name, err)
		}
		for _, f := range found {
			for _, d := range f.diffs {
				r.touches = append(r.touches, touched(&f, d.path))
			}
		}
	}
}

// touched is what no other tamper may change together with a field.
func touched(f *expected, path string) string {
	if apart(path) || f.machine() == "" && f.status == detector.Missing {
		return f.key() + " *"
	}
	switch at := strings.LastIndex(path, "/"); {
	case strings.HasPrefix(path, "/nonRootVolumes/"), // a device may not be there at all
		strings.HasPrefix(path, "/metadataOptions/"): // one call sets them
		path = path[:at]
	case strings.HasPrefix(path, "/iamInstanceProfile"): // wanted by name or by ARN
		path = "/iamInstanceProfile"
	}
	return f.key() + " " + path
}

// apart are fields that leave no other tamper room: the machine does not run
// while they differ or is stopped to set them back, or is not found where it was.
func apart(path string) bool {
	return slices.Contains([]string{"/state", "/instanceType", "/powerState", "/numCPUs", "/memoryMiB", "/folder", "/name"}, path)
}

// played is a row as it was played.
type played struct {
	*row
	found []expected
	undo  func(context.Context) error
}

// findings are those of rows that were played together, by their keys: what
// several do to one resource is one finding.
func findings(rows []played) map[string]*expected {
	out := map[string]*expected{}
	for _, r := range rows {
		for _, f := range r.found {
			key := f.key()
			if out[key] == nil {
				out[key] = &expected{owner: f.owner, kind: f.kind, id: f.id, status: f.status}
			}
			out[key].diffs = append(out[key].diffs, f.diffs...)
		}
	}
	return out
}
