package detector_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

const (
	drifted, missing, notChecked = detector.Drifted, detector.Missing, detector.NotChecked
	changed, added, removed      = detector.Changed, detector.Added, detector.Removed
)

func TestCompareFields(t *testing.T) {
	tests := map[string]struct {
		reason     string
		want, have resourceMod
		lines      []line
		notChecked int
	}{
		"equal": {
			reason: "equal values are in sync",
			want:   str("/type", "m5"), have: str("/type", "m5"),
		},
		"changed": {
			reason: "another value is a change",
			want:   str("/type", "m5"), have: str("/type", "m6"),
			lines: []line{{drifted, "/type", changed, "m5", "m6"}},
		},
		"case": {
			reason: "values are compared byte for byte",
			want:   str("/type", "m5"), have: str("/type", "M5"),
			lines: []line{{drifted, "/type", changed, "m5", "M5"}},
		},
		"other kind of value": {
			reason: "a number is not its digits",
			want:   str("/size", "8"), have: field("/size", providers.Int(8)),
			lines: []line{{drifted, "/size", changed, "8", "8"}},
		},
		"not modelled": {
			reason: "a path that was not seen and is not closed is not checked",
			want:   str("/type", "m5"), have: str("/other", "x"),
			lines: []line{{Status: notChecked}}, notChecked: 1,
		},
		"closed": {
			reason: "a path under a closed prefix that was not seen does not exist",
			want:   str("/tags/a", "x"), have: closed("/tags"),
			lines: []line{{drifted, "/tags/a", removed, "x", ""}},
		},
		"closed prefix ends at a segment": {
			reason: "/tagsets is not under /tags",
			want:   str("/tagsets/a", "x"), have: closed("/tags"),
			lines: []line{{Status: notChecked}}, notChecked: 1,
		},
		"closed itself": {
			reason: "a closed prefix covers its own path",
			want:   str("/profile", "nodes"), have: closed("/profile"),
			lines: []line{{drifted, "/profile", removed, "nodes", ""}},
		},
		"seen beyond the wanted": {
			reason: "an unset field is no opinion",
			want:   str("/type", "m5"), have: both(str("/type", "m5"), str("/size", "8")),
		},
		"wanted absent, absent": {
			reason: "an absent wanted value is satisfied by absence",
			want:   field("/tags/a", providers.Value{}), have: closed("/tags"),
		},
		"wanted absent, present": {
			reason: "an absent wanted value is not satisfied by a value",
			want:   field("/tags/a", providers.Value{}), have: str("/tags/a", "x"),
			lines: []line{{drifted, "/tags/a", added, "", "x"}},
		},
		"set order": {
			reason: "order and repetition mean nothing",
			want:   set("/groups", "b", "a", "b"), have: set("/groups", "a", "b"),
		},
		"set elements": {
			reason: "each differing element is a diff",
			want:   set("/groups", "a", "b", "d"), have: set("/groups", "b", "c", "e"),
			lines: []line{
				{drifted, "/groups", removed, "a", ""}, {drifted, "/groups", added, "", "c"},
				{drifted, "/groups", removed, "d", ""}, {drifted, "/groups", added, "", "e"},
			},
		},
		"empty set wanted": {
			reason: "an empty set is an opinion",
			want:   set("/egress"), have: set("/egress", "all to 0.0.0.0/0"),
			lines: []line{{drifted, "/egress", added, "", "all to 0.0.0.0/0"}},
		},
		"empty set and absence": {
			reason: "no elements, or no set: the same",
			want:   set("/egress"), have: closed("/egress"),
		},
		"set and absence": {
			reason: "each wanted element is missing from an absent set",
			want:   set("/groups", "a", "b"), have: closed("/groups"),
			lines: []line{{drifted, "/groups", removed, "a", ""}, {drifted, "/groups", removed, "b", ""}},
		},
		"set against a string": {
			reason: "a string is not the set of it",
			want:   set("/groups", "a"), have: str("/groups", "a"),
			lines: []line{{drifted, "/groups", changed, "a", "a"}},
		},
		"one of": {
			reason: "membership is enough",
			want:   field("/subnet", providers.Set("s-1", "s-2"), matching(providers.OneOf)), have: str("/subnet", "s-2"),
		},
		"none of": {
			reason: "a value outside the set is one change",
			want:   field("/subnet", providers.Set("s-1", "s-2"), matching(providers.OneOf)), have: str("/subnet", "s-3"),
			lines: []line{{drifted, "/subnet", changed, "s-1, s-2", "s-3"}},
		},
		"one of, absent": {
			reason: "absence is not one of them",
			want:   field("/subnet", providers.Set("s-1"), matching(providers.OneOf)), have: closed("/subnet"),
			lines: []line{{drifted, "/subnet", removed, "s-1", ""}},
		},
		"one of, a string wanted": {
			reason: "one candidate may come as a string",
			want:   str("/subnet", "s-1", matching(providers.OneOf)), have: str("/subnet", "s-1"),
		},
		"at least": {
			reason: "more is enough",
			want:   field("/size", providers.Int(80), matching(providers.AtLeast)), have: field("/size", providers.Int(100)),
		},
		"less than": {
			reason: "less is not",
			want:   field("/size", providers.Int(80), matching(providers.AtLeast)), have: field("/size", providers.Int(79)),
			lines: []line{{drifted, "/size", changed, "80", "79"}},
		},
		"at least, of text": {
			reason: "text has no order",
			want:   field("/size", providers.Int(80), matching(providers.AtLeast)), have: str("/size", "90"),
			lines: []line{{drifted, "/size", changed, "80", "90"}},
		},
		"contains": {
			reason: "extras do not matter, missing elements do",
			want:   field("/addresses", providers.Set("a", "b"), matching(providers.Contains)), have: set("/addresses", "0", "b", "c"),
			lines: []line{{drifted, "/addresses", removed, "a", ""}},
		},
		"foreign element": {
			reason: "what somebody else owns stands in a finding of its own",
			want:   set("/ingress", "a"), have: field("/ingress", providers.Set("a", "lb", "x"), foreignElement("lb", "load balancer controller")),
			lines: []line{{drifted, "/ingress", added, "", "x"}, {detector.Foreign, "/ingress", added, "", "lb"}},
		},
		"claimed element": {
			reason: "what only claims to be somebody's is drift, apart from what nobody claims",
			want:   set("/ingress", "a"), have: field("/ingress", providers.Set("a", "lb", "x"), claimedElement("lb", "load balancer controller")),
			lines: []line{{drifted, "/ingress", added, "", "lb"}, {drifted, "/ingress", added, "", "x"}},
		},
		"claimed element alone": {
			reason: "nothing of a resource with one is in sync",
			want:   set("/ingress"), have: field("/ingress", providers.Set("lb"), claimedElement("lb", "load balancer controller")),
			lines: []line{{drifted, "/ingress", added, "", "lb"}},
		},
		"foreign element that is wanted": {
			reason: "the owner's wish makes it the owner's",
			want:   set("/ingress", "lb"), have: field("/ingress", providers.Set("lb"), foreignElement("lb", "load balancer controller")),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := detector.Compare(genOwner("m1"), []providers.Resource{want("i-1", tt.want)}, snapshot(have("i-1", tt.have)), options)
			if diff := cmp.Diff(tt.lines, lines(r.Findings)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
			if r.NotChecked != tt.notChecked || r.Checked != 1-tt.notChecked {
				t.Errorf("checked %d, not checked %d", r.Checked, r.NotChecked)
			}
			drift := len(r.Findings) > 0 && r.Findings[0].Status != detector.Foreign
			if (len(r.InSync) == 1) == drift {
				t.Errorf("in sync: %v", r.InSync)
			}
		})
	}
}

func both(mods ...resourceMod) resourceMod {
	return func(r *providers.Resource) {
		for _, mod := range mods {
			mod(r)
		}
	}
}

func TestCompareResources(t *testing.T) {
	tests := map[string]struct {
		reason    string
		want      providers.Resource
		snap      *providers.Snapshot
		lines     []line
		says      string
		tentative bool
		inSync    bool
	}{
		"no fields": {
			reason: "existence alone may be wanted",
			want:   want("i-1"), snap: snapshot(have("i-1")), inSync: true,
		},
		"unchecked": {
			reason: "what the provider cannot compare is not checked, though it is there",
			want:   want("i-1", func(r *providers.Resource) { r.Unchecked = "EKS is not modelled" }), snap: snapshot(have("i-1")),
			lines: []line{{Status: notChecked}}, says: "EKS is not modelled",
		},
		"unsettled": {
			reason: "nothing about a resource in the making is drift",
			want:   want("i-1", unsettled, str("/type", "m5")), snap: snapshot(have("i-1", str("/type", "m6"))),
			lines: []line{{Status: notChecked}}, says: "still making",
		},
		"no id": {
			reason: "without an identity nothing can be looked for",
			want:   want(""), snap: snapshot(),
			lines: []line{{Status: notChecked}}, says: "no identity",
		},
		"kind not modelled": {
			reason: "a kind that nobody read is not checked, never missing",
			want:   want("x", kind("Elevator")), snap: snapshot(),
			lines: []line{{Status: notChecked}}, says: "Elevator is not modelled by provider fake",
		},
		"kind not read": {
			reason: "unknown is never absence",
			want:   want("i-1"), snap: uncovered(snapshot(), "Instance", errThrottled),
			lines: []line{{Status: notChecked}}, says: "RequestLimitExceeded",
		},
		"absent": {
			reason: "absence awaits a live read",
			want:   want("i-1"), snap: snapshot(),
			lines: []line{{Status: detector.Unknown}}, says: "not read again yet", tentative: true,
		},
		"absent and young": {
			reason: "within the creation grace a live read would tell no more",
			want:   want("i-1", since(now)), snap: snapshot(),
			lines: []line{{Status: detector.Unknown}}, says: "may not show it yet",
		},
		"unknown": {
			reason: "seen, and its state cannot be told",
			want:   want("i-1", str("/type", "m5")), snap: snapshot(have("i-1", unknown("inaccessible"))),
			lines: []line{{Status: detector.Unknown}}, says: "inaccessible",
		},
		"unknown and gone": {
			reason: "doubt wins",
			want:   want("i-1"), snap: snapshot(have("i-1", unknown("disconnected"), gone("terminated"))),
			lines: []line{{Status: detector.Unknown}}, says: "disconnected",
		},
		"wanted unknown, absent": {
			reason: "an owner whose identity is in doubt has lost nothing",
			want:   want("i-1", unknown("identity mismatch")), snap: snapshot(),
			lines: []line{{Status: detector.Unknown}}, says: "identity mismatch",
		},
		"wanted unknown, exists": {
			reason: "what cannot be told to be the owner's is not compared with its wants",
			want:   want("i-1", unknown("identity mismatch"), str("/type", "m5")), snap: snapshot(have("i-1", str("/type", "m6"))),
			lines: []line{{Status: detector.Unknown}}, says: "identity mismatch",
		},
		"wanted absent, absent": {
			reason: "as wanted",
			want:   want("i-1", wantedAbsent), snap: snapshot(), inSync: true,
		},
		"wanted absent, gone": {
			reason: "as wanted",
			want:   want("i-1", wantedAbsent), snap: snapshot(have("i-1", gone("terminated"))), inSync: true,
		},
		"wanted absent, exists": {
			reason: "what must not exist is unexpected",
			want:   want("i-1", wantedAbsent), snap: snapshot(have("i-1", str("/state", "running"))),
			lines: []line{{detector.Unexpected, "/state", added, "", "running"}}, says: "wanted absent",
		},
		"wanted absent, foreign": {
			reason: "what is somebody else's is not touched",
			want:   want("i-1", wantedAbsent), snap: snapshot(have("i-1", foreign("CSI driver"))),
			lines: []line{{Status: detector.Foreign}}, says: "CSI driver",
		},
		"wanted absent, not read": {
			reason: "unknown is never absence, also where absence is wanted",
			want:   want("i-1", wantedAbsent), snap: uncovered(snapshot(), "Instance", errThrottled),
			lines: []line{{Status: notChecked}}, says: "RequestLimitExceeded",
		},
		"warnings": {
			reason: "warnings of a resource in sync are shown, once",
			want:   want("i-1", warning("a")), snap: snapshot(have("i-1", warning("a"), warning("b\nc"))),
			lines: []line{{Status: detector.InSync}}, says: "warnings", inSync: true,
		},
		"reason is one line": {
			reason: "errors of cloud clients have several",
			want:   want("i-1"), snap: uncovered(snapshot(), "Instance", linesError{}),
			lines: []line{{Status: notChecked}}, says: "first second",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := detector.Compare(genOwner("m1"), []providers.Resource{tt.want}, tt.snap, options)
			if diff := cmp.Diff(tt.lines, lines(r.Findings)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", tt.reason, diff)
			}
			if (len(r.InSync) == 1) != tt.inSync {
				t.Errorf("%s: in sync %v", tt.reason, r.InSync)
			}
			for _, f := range r.Findings {
				if !strings.Contains(f.Reason, tt.says) || strings.Contains(f.Reason, "\n") {
					t.Errorf("reason %q, want one line with %q", f.Reason, tt.says)
				}
				if f.Tentative != tt.tentative {
					t.Errorf("tentative: %v", f.Tentative)
				}
			}
		})
	}
}

type linesError struct{}

func (linesError) Error() string { return "first\n\tsecond" }

// A part of a kind that was not read leaves its own fields unchecked, and the
// rest is compared all the same.
func TestCompareUnreadPart(t *testing.T) {
	w := want("i-1", str("/type", "m5"), field("/rootVolume/size", providers.Int(80)), field("/rootVolume/iops", providers.Int(3000)))
	h := have("i-1", str("/type", "m6"), field("/rootVolume/size", providers.Int(8)), closed(""))
	snap := uncovered(snapshot(h), "Instance/rootVolume", errThrottled)
	r := detector.Compare(genOwner("m1"), []providers.Resource{w}, snap, options)
	wantLines := []line{{drifted, "/type", changed, "m5", "m6"}, {Status: notChecked}}
	if diff := cmp.Diff(wantLines, lines(r.Findings)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const reason = "2 of 3 fields not checked: /rootVolume/iops, /rootVolume/size could not be read: RequestLimitExceeded on page 3"
	if got := r.Findings[1].Reason; got != reason {
		t.Errorf("reason %q", got)
	}
	if r.Checked != 1 || r.NotChecked != 2 || len(r.InSync) != 0 {
		t.Errorf("checked %d, not checked %d, in sync %v", r.Checked, r.NotChecked, r.InSync)
	}
}

func TestCompareCarriesWhatSinksNeed(t *testing.T) {
	owner := genOwner("m1", func(o *providers.Owner) { o.ControlPlane = true })
	w := want("i-1",
		str("/userData", "hmac:1", sensitive),
		str("/type", "m5", mutable),
		str("/routes/x", "nat-1", adopted),
		warning("careful"))
	h := have("i-1", str("/userData", "hmac:2"), str("/type", "m6"), str("/routes/x", "igw-1"))
	r := detector.Compare(owner, []providers.Resource{w}, snapshot(h), options)
	if len(r.Findings) != 1 {
		t.Fatalf("findings: %v", lines(r.Findings))
	}
	f := r.Findings[0]
	if f.Cluster != (detector.ClusterRef{Namespace: "prod", Name: "c1"}) || f.Owner != owner.Ref ||
		f.Pool != owner.Pool || f.Zone != "a" || !f.ControlPlane || !f.SeenAt.Equal(now.Add(-60e9)) {
		t.Errorf("context: %+v", f)
	}
	if f.Resource != (detector.ResourceRef{Provider: "fake", Kind: "Instance", ID: "i-1", Name: "name-of-i-1"}) {
		t.Errorf("resource: %+v", f.Resource)
	}
	if diff := cmp.Diff([]string{"careful"}, f.Warnings); diff != "" {
		t.Error(diff)
	}
	byPath := map[string]detector.Diff{}
	for _, d := range f.Diffs {
		byPath[d.Path] = d
	}
	if !byPath["/userData"].Sensitive || !byPath["/routes/x"].Adopted || byPath["/type"].Mutability != providers.InPlace || byPath["/type"].Adopted {
		t.Errorf("diffs: %+v", f.Diffs)
	}
	if f.Want == nil || f.Have != h {
		t.Error("want and have are not the resources themselves")
	}
}
