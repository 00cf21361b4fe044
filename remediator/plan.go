package remediator

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// maxPlan is how many changes a record lists, as its schema allows.
const maxPlan = 200

// Subject is what a record says beyond its decision.
type Subject struct {
	// Machine is the owner's Machine, nil for owners that are clusters.
	Machine *v1alpha1.ObjectRef
	// Scope is the place in the cloud.
	Scope providers.Scope
	// ChangedBy names who made the change, if known. It is hostile text.
	ChangedBy string
}

// Name gives the name of the record of a decision: the owner's name, so that
// people find it, and a hash of the owner's UID and the drift's fingerprint, so
// that the same drift has the same record.
func Name(owner providers.OwnerRef, fingerprint string) string {
	sum := sha256.Sum256([]byte(string(owner.UID) + "\x00" + fingerprint))
	name := owner.Name
	if len(name) > 200 { // a name has 253 characters at most
		name = strings.TrimRight(name[:200], "-.")
	}
	return name + "-" + hex.EncodeToString(sum[:5])
}

// Spec is the record of a decision. It is pure. Values of sensitive fields are
// left out, and every text of a cloud is bounded, on one line and without what
// cannot be seen.
func Spec(d *policies.Decision, s Subject) v1alpha1.RemediationSpec {
	f := &d.Finding
	attempts := d.Attempts
	spec := v1alpha1.RemediationSpec{
		ClusterName: f.Cluster.Name,
		Owner:       v1alpha1.ObjectRef{APIVersion: f.Owner.APIVersion, Kind: f.Owner.Kind, Name: f.Owner.Name, UID: f.Owner.UID},
		Machine:     s.Machine,
		Pool:        f.Pool, Zone: f.Zone, ControlPlane: f.ControlPlane,
		Scope:       v1alpha1.ScopeRef{Provider: s.Scope.Provider, Account: s.Scope.Account, Region: s.Scope.Region, Identity: s.Scope.Identity},
		Resource:    v1alpha1.ResourceRef{Kind: f.Resource.Kind, ID: Line(f.Resource.ID, maxValue), Name: Line(f.Resource.Name, maxName)},
		Fingerprint: f.Fingerprint,
		Action:      v1alpha1.WriteAction(d.Action),
		Severity:    v1alpha1.Severity(d.Severity),
		Rule:        v1alpha1.DecidingRule{ID: d.Rule.ID, Policy: d.Rule.Policy},
		Attempts:    &attempts,
		Disruptive:  d.Disruptive,
		Plan:        plan(f.Diffs),
		ChangedBy:   Line(s.ChangedBy, maxName),
	}
	if d.Action == policies.Replace {
		spec.Strategy = d.Strategy
	}
	if !d.FirstSeen.IsZero() {
		at := metav1.NewTime(d.FirstSeen.UTC().Truncate(1e9))
		spec.FirstSeen = &at
	}
	return spec
}

func plan(diffs []detector.Diff) []v1alpha1.PlannedChange {
	out := make([]v1alpha1.PlannedChange, 0, min(len(diffs), maxPlan))
	for i := range diffs[:min(len(diffs), maxPlan)] {
		d := &diffs[i]
		c := v1alpha1.PlannedChange{Path: Line(d.Path, maxValue), Type: string(d.Type), Element: d.Element, Sensitive: d.Sensitive}
		if !d.Sensitive {
			c.Want, c.Seen = shown(d.Want), shown(d.Have)
		}
		out = append(out, c)
	}
	return out
}

func shown(v providers.Value) *string {
	if v.IsAbsent() {
		return nil
	}
	s := Line(v.Text(), maxValue)
	return &s
}

// sameValue reports whether a differing value is one that the plan is about:
// at its path and, for an element of a set, that element.
func sameValue(c *v1alpha1.PlannedChange, d *detector.Diff) bool {
	if c.Path != Line(d.Path, maxValue) || c.Element != d.Element {
		return false
	}
	if !c.Element || c.Sensitive {
		return true
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	pick := func(want, seen string) string {
		if want != "" {
			return want
		}
		return seen
	}
	return pick(text(c.Want), text(c.Seen)) == pick(text(shown(d.Want)), text(shown(d.Have)))
}
