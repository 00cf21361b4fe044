package policies

import (
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// vars are what expressions see of one finding. They are built when the first
// expression asks, since most findings meet none.
type vars struct {
	finding *detector.Finding
	cluster *ClusterFacts
	owner   *OwnerFacts
	history map[string]History
	now     time.Time
	diff    *detector.Diff
	built   map[string]any
}

func varsOf(r *run, f *detector.Finding, c *candidate) *vars {
	return &vars{finding: f, cluster: c.cluster, owner: c.owner, history: r.History, now: r.Now}
}

func (v *vars) setDiff(d *detector.Diff) {
	v.diff = d
	delete(v.built, "diff")
}

// holds evaluates a condition; no condition always holds.
func (v *vars) holds(e *expression) (bool, error) {
	if e == nil {
		return true, nil
	}
	if v.built == nil {
		v.built = make(map[string]any, len(celVariables))
	}
	for name := range e.uses {
		if _, done := v.built[name]; !done {
			v.built[name] = v.variable(name)
		}
	}
	return e.holds(v.built)
}

func (v *vars) variable(name string) any {
	f := v.finding
	switch name {
	case "want":
		return nested(f.Want)
	case "have":
		return nested(f.Have)
	case "owner":
		m := map[string]any{"apiVersion": f.Owner.APIVersion, "kind": f.Owner.Kind, "namespace": f.Owner.Namespace,
			"name": f.Owner.Name, "uid": string(f.Owner.UID), "pool": f.Pool, "zone": f.Zone, "controlPlane": f.ControlPlane,
			"labels": map[string]string{}, "annotations": map[string]string{}}
		if v.owner != nil {
			m["labels"], m["annotations"] = notNil(v.owner.Labels), notNil(v.owner.Annotations)
		}
		return m
	case "cluster":
		m := map[string]any{"namespace": f.Cluster.Namespace, "name": f.Cluster.Name,
			"labels": map[string]string{}, "annotations": map[string]string{}}
		if v.cluster != nil {
			m["labels"], m["annotations"] = notNil(v.cluster.Labels), notNil(v.cluster.Annotations)
		}
		return m
	case "finding":
		paths := make([]string, len(f.Diffs))
		for i := range f.Diffs {
			paths[i] = f.Diffs[i].Path
		}
		return map[string]any{"status": string(f.Status), "reason": f.Reason, "fingerprint": f.Fingerprint,
			"observations": max(v.history[HistoryKey(f.Owner, f.Fingerprint)].Observations, 1), "paths": paths,
			"resource": map[string]any{"provider": f.Resource.Provider, "kind": f.Resource.Kind, "id": f.Resource.ID, "name": f.Resource.Name}}
	case "diff":
		return diffVariable(v.diff)
	case "now":
		return v.now
	default:
		return nil
	}
}

func diffVariable(d *detector.Diff) map[string]any {
	if d == nil {
		d = &detector.Diff{}
	}
	return map[string]any{"path": d.Path, "want": d.Want.Any(), "have": d.Have.Any(), "type": string(d.Type),
		"mutability": d.Mutability.String(), "adopted": d.Adopted, "sensitive": d.Sensitive, "foreign": d.Foreign}
}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// nested turns fields by pointer into nested maps, so that /rootVolume/size
// reads as have.rootVolume.size. Where a field stands above others, those
// below it win.
func nested(r *providers.Resource) map[string]any {
	out := map[string]any{}
	if r == nil {
		return out
	}
	for path, f := range r.Fields.All() {
		segments := providers.Segments(path)
		if len(segments) == 0 {
			continue
		}
		m := out
		for _, s := range segments[:len(segments)-1] {
			inner, ok := m[s].(map[string]any)
			if !ok {
				inner = map[string]any{}
				m[s] = inner
			}
			m = inner
		}
		last := segments[len(segments)-1]
		if _, below := m[last].(map[string]any); !below {
			m[last] = f.Value.Any()
		}
	}
	return out
}
