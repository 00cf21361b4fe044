package status

import (
	"strings"
	"testing"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

func noneUnread(*detector.Finding) bool { return false }

func drifted(id string, diffs ...detector.Diff) *policies.Decision {
	return &policies.Decision{Action: policies.Observe, Mode: policies.ModeObserve, Finding: detector.Finding{
		Status: detector.Drifted, Resource: detector.ResourceRef{Kind: "Instance", ID: id}, Diffs: diffs, Fingerprint: id}}
}

// TestHostileText: a cloud's values neither steer a terminal, nor make a second
// line, nor grow a message beyond its bound, nor show secrets.
func TestHostileText(t *testing.T) {
	hostile := "x\x1b[31m\n\u202eevil\u200b" + strings.Repeat("A", 100_000)
	var ds []*policies.Decision
	for _, id := range []string{hostile, "i-1", "i-2"} {
		ds = append(ds, drifted(id,
			detector.Diff{Path: "/tags/" + hostile, Type: detector.Added, Have: providers.String(hostile)},
			detector.Diff{Path: "/userData", Type: detector.Changed, Have: providers.String("s3cret"), Want: providers.String("s3cret2"), Sensitive: true}))
	}
	ds = append(ds, &policies.Decision{Finding: detector.Finding{Status: detector.Missing, Reason: hostile}})
	for _, v := range []verdict{judge(ds, noneUnread), judge([]*policies.Decision{{Finding: detector.Finding{Status: detector.Unknown, Reason: hostile}}}, noneUnread)} {
		if len(v.message) > maxMessage+len("…") {
			t.Errorf("a message of %d bytes", len(v.message))
		}
		if i := strings.IndexFunc(v.message, func(r rune) bool { return unicode.IsControl(r) || r == '\u202e' || r == '\u200b' }); i >= 0 {
			t.Errorf("%q at %d", v.message[i:], i)
		}
		if strings.Contains(v.message, "s3cret") {
			t.Error("a sensitive value is shown")
		}
	}
	if n := bounded(strings.Repeat("検", 1000), maxNote); len(n) > maxNote+len("…") || !strings.HasSuffix(n, "検…") {
		t.Errorf("an event's note is cut within a character: %q", n[len(n)-8:])
	}
}

// TestOrderDoesNotMatter: equal decisions in any order give equal conditions.
func TestOrderDoesNotMatter(t *testing.T) {
	a := drifted("i-1", detector.Diff{Path: "/a", Type: detector.Changed})
	b := drifted("i-2", detector.Diff{Path: "/b", Type: detector.Changed})
	c := &policies.Decision{Finding: detector.Finding{Status: detector.Missing, Fingerprint: "m", Resource: detector.ResourceRef{Kind: "Volume", ID: "v"}}}
	one, two := judge([]*policies.Decision{a, b, c}, noneUnread), judge([]*policies.Decision{c, b, a}, noneUnread)
	if one != two {
		t.Errorf("%+v\n%+v", one, two)
	}
	if one.reason != ReasonMissing {
		t.Errorf("reason %s, want the worst", one.reason)
	}
}

func TestSame(t *testing.T) {
	base := condition{kind: "T", status: metav1.ConditionUnknown, reason: "R", message: "read: RequestID: 1a2b, port 4711", generation: 2}
	with := func(f func(*condition)) condition { c := base; f(&c); return c }
	cases := map[string]struct {
		now  condition
		same bool
	}{
		"equal":                       {base, true},
		"another request id":          {with(func(c *condition) { c.message = "read: RequestID: 9f8e, port 1234" }), true},
		"another text":                {with(func(c *condition) { c.message = "denied" }), false},
		"another reason":              {with(func(c *condition) { c.reason = "S" }), false},
		"another status":              {with(func(c *condition) { c.status = metav1.ConditionTrue }), false},
		"another generation":          {with(func(c *condition) { c.generation = 3 }), false},
		"a place without generations": {with(func(c *condition) { c.generation = 0 }), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.now.same(&base); got != c.same {
				t.Errorf("same = %v, want %v", got, c.same)
			}
		})
	}
	definite := with(func(c *condition) { c.status, c.message = metav1.ConditionTrue, "/cpu is 4" })
	if other := (condition{status: metav1.ConditionTrue, reason: "R", message: "/cpu is 8"}); other.same(&definite) {
		t.Error("other values of a drift are the same")
	}
}

// TestInfrastructureDriftedGates: only gates that a replacement closes by itself
// leave the condition True, and only while it is under way.
func TestInfrastructureDriftedGates(t *testing.T) {
	idle := &clusterv1.Machine{}
	asked := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{clusterv1.RemediateMachineAnnotation: ""}}}
	was := &condition{status: metav1.ConditionTrue}
	for _, gate := range policies.Gates() {
		d := drifted("i-1")
		d.Action, d.Mode, d.Blocked = policies.Replace, policies.ModeEnforce, []policies.Block{{By: gate}}
		v := judge([]*policies.Decision{d}, noneUnread)
		own := gate == "Budget" || gate == "MinHealthy" || gate == "ControlPlane" || gate == "Attempts"
		if c := v.infrastructureDrifted(asked, was); (c.status == metav1.ConditionTrue) != own {
			t.Errorf("%s while it is replaced: %s", gate, c.status)
		}
		if c := v.infrastructureDrifted(idle, was); c.status == metav1.ConditionTrue {
			t.Errorf("%s before anything was begun: True", gate)
		}
		if c := v.infrastructureDrifted(asked, nil); c.status == metav1.ConditionTrue {
			t.Errorf("%s, never decided: True", gate)
		}
	}
}

// TestPlaces finds each contract's list in a description like the API server's.
func TestPlaces(t *testing.T) {
	kinds, err := parsePlaces([]byte(`{"components": {"schemas": {
 "new": {"x-kubernetes-group-version-kind": [{"kind": "New"}], "properties": {"status": {"properties": {"conditions": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}}}}},
 "between": {"x-kubernetes-group-version-kind": [{"kind": "Between"}], "properties": {"status": {"properties": {"conditions": {}, "v1beta2": {"properties": {"conditions": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}}}}}}},
 "old": {"x-kubernetes-group-version-kind": [{"kind": "Old"}], "properties": {"status": {"properties": {"conditions": {"type": "array"}}}}},
 "none": {"x-kubernetes-group-version-kind": [{"kind": "None"}], "properties": {"status": {}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"New": "status.conditions true", "Between": "status.v1beta2.conditions true", "Old": "status.conditions false", "None": " false"} {
		p := kinds[kind]
		if got := strings.Join(p.path, ".") + map[bool]string{true: " true", false: " false"}[p.keyed]; got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

func TestTransitionTimeStays(t *testing.T) {
	c := condition{kind: "T", status: metav1.ConditionTrue}
	at := place{keyed: true}
	old := &condition{status: metav1.ConditionTrue, since: "2026-01-01T00:00:00Z"}
	if got := c.entry(at, old, time.Now())["lastTransitionTime"]; got != old.since {
		t.Errorf("status unchanged, since %v", got)
	}
	old.status = metav1.ConditionFalse
	if got := c.entry(at, old, time.Unix(0, 0))["lastTransitionTime"]; got != "1970-01-01T00:00:00Z" {
		t.Errorf("status changed, since %v", got)
	}
}
