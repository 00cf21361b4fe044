package detector_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

var update = flag.Bool("update", false, "rewrite golden files")

func genFinding(mods ...func(*detector.Finding)) detector.Finding {
	f := detector.Finding{
		Cluster:  detector.ClusterRef{Namespace: "prod", Name: "c1"},
		Owner:    providers.OwnerRef{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "AWSMachine", Namespace: "prod", Name: "m1", UID: "uid-1"},
		Resource: detector.ResourceRef{Provider: "aws", Kind: "Instance", ID: "i-1", Name: "web"},
		Status:   detector.Drifted,
		Diffs: []detector.Diff{
			{Path: "/instanceType", Type: detector.Changed, Want: providers.String("m5"), Have: providers.String("m6")},
			{Path: "/securityGroups", Type: detector.Added, Have: providers.String("sg-2"), Element: true},
			{Path: "/securityGroups", Type: detector.Removed, Want: providers.String("sg-1"), Element: true},
		},
		SeenAt: time.Unix(1, 0),
	}
	for _, mod := range mods {
		mod(&f)
	}
	return f
}

// What a fingerprint must and must not depend on.
func TestFingerprint(t *testing.T) {
	type mod = func(*detector.Finding)
	same := map[string]mod{
		"seen value":        func(f *detector.Finding) { f.Diffs[0].Have = providers.String("m7") },
		"wanted value":      func(f *detector.Finding) { f.Diffs[0].Want = providers.String("m4") },
		"time":              func(f *detector.Finding) { f.SeenAt = time.Unix(2, 0) },
		"reason":            func(f *detector.Finding) { f.Reason = "other" },
		"display name":      func(f *detector.Finding) { f.Resource.Name = "other" },
		"order of diffs":    func(f *detector.Finding) { slices.Reverse(f.Diffs) },
		"pool and zone":     func(f *detector.Finding) { f.Pool, f.Zone, f.ControlPlane = "p", "z", true },
		"warnings":          func(f *detector.Finding) { f.Warnings = []string{"w"} },
		"renamed, same UID": func(f *detector.Finding) { f.Owner.Name = "m2" },
		"API version":       func(f *detector.Finding) { f.Owner.APIVersion = "v9" },
		"resources":         func(f *detector.Finding) { f.Want, f.Have = &providers.Resource{}, &providers.Resource{} },
	}
	other := map[string]mod{
		"owner":          func(f *detector.Finding) { f.Owner.UID = "uid-2" },
		"owner, no UID":  func(f *detector.Finding) { f.Owner.UID = "" },
		"provider":       func(f *detector.Finding) { f.Resource.Provider = "fake" },
		"kind":           func(f *detector.Finding) { f.Resource.Kind = "Volume" },
		"id":             func(f *detector.Finding) { f.Resource.ID = "i-2" },
		"status":         func(f *detector.Finding) { f.Status = detector.Foreign },
		"path":           func(f *detector.Finding) { f.Diffs[0].Path = "/imageId" },
		"type":           func(f *detector.Finding) { f.Diffs[0].Type = detector.Removed },
		"element":        func(f *detector.Finding) { f.Diffs[1].Have = providers.String("sg-3") },
		"fewer diffs":    func(f *detector.Finding) { f.Diffs = f.Diffs[:2] },
		"no diffs":       func(f *detector.Finding) { f.Diffs = nil },
		"parts run over": func(f *detector.Finding) { f.Resource.Kind, f.Resource.ID = "Instancei", "-1" },
	}
	base := genFinding()
	fp := detector.Fingerprint(&base)
	for name, m := range same {
		f := genFinding(m)
		if detector.Fingerprint(&f) != fp {
			t.Errorf("%s changes the fingerprint", name)
		}
	}
	seen := map[string]string{fp: "the original"}
	for name, m := range other {
		f := genFinding(m)
		got := detector.Fingerprint(&f)
		if before, ok := seen[got]; ok {
			t.Errorf("%s has the fingerprint of %s", name, before)
		}
		seen[got] = name
	}
	secret := func(e string) mod {
		return func(f *detector.Finding) { f.Diffs[1].Sensitive, f.Diffs[1].Have = true, providers.String(e) }
	}
	a, b := genFinding(secret("hmac:1")), genFinding(secret("hmac:2"))
	if detector.Fingerprint(&a) != detector.Fingerprint(&b) {
		t.Error("a digest under another key changes the fingerprint")
	}
}

// The fingerprints of the golden file are in users' ignore lists and records:
// a change that alters one needs a new fingerprint version and a migration.
func TestFingerprintsNeverChange(t *testing.T) {
	findings := map[string]detector.Finding{
		"drifted":   genFinding(),
		"no uid":    genFinding(func(f *detector.Finding) { f.Owner.UID = "" }),
		"no diffs":  genFinding(func(f *detector.Finding) { f.Status, f.Diffs = detector.NotChecked, nil }),
		"one diff":  genFinding(func(f *detector.Finding) { f.Diffs = f.Diffs[1:2] }),
		"empty":     {},
		"sensitive": genFinding(func(f *detector.Finding) { f.Diffs[1].Sensitive = true }),
	}
	w := want("i-1", str("/state", "running"))
	missingResult := detector.Compare(genOwner("m1"), []providers.Resource{w}, snapshot(have("i-1", gone("terminated"))), options)
	findings["missing"] = missingResult.Findings[0]
	if mass := detector.MassDrifts(fleet("a", 2, 0, 0), scope, detector.Threshold{Ratio: 0.3}); len(mass) == 2 {
		findings["mass drift"] = detector.Finding{Fingerprint: mass[1].Fingerprint}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(findings)) {
		f := findings[name]
		fp := f.Fingerprint
		if fp == "" {
			fp = detector.Fingerprint(&f)
		}
		fmt.Fprintf(&b, "%s: %s\n", name, fp)
	}
	path := filepath.Join("testdata", "fingerprints.golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), b.String()); diff != "" {
		t.Errorf("fingerprints changed (-golden +now):\n%s", diff)
	}
}

// A resource that the cloud calls terminated, and later does not show at all,
// is one drift.
func TestMissingKeepsItsFingerprint(t *testing.T) {
	w := []providers.Resource{want("i-1", str("/state", "running"))}
	shown := detector.Compare(genOwner("m1"), w, snapshot(have("i-1", gone("terminated"))), options)
	snap := snapshot()
	purged := detector.Settle(detector.Compare(genOwner("m1"), w, snap, options), snap, &providers.Confirmation{}, options)
	if shown.Findings[0].Fingerprint != purged.Findings[0].Fingerprint {
		t.Error("one loss has two fingerprints")
	}
}
