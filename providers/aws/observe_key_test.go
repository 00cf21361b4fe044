package aws

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// observeWithAlias observes the scope of a machine whose root volume names its
// key by an alias.
func observeWithAlias(t *testing.T) *providers.Snapshot {
	t.Helper()
	p := provider(t)
	machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) { s.RootVolume = &infrav1.Volume{EncryptionKey: "alias/disks"} }))
	scopeOf(t, p) // the AWSCluster is asked for as well, in whatever order
	scope, err := p.Scope(t.Context(), machineOwner(machine))
	if err != nil {
		t.Fatal(err)
	}
	scopeOf(t, p)
	snap, err := p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// Aliases are read where one is named, page by page.
func TestKeyAliasesAreRead(t *testing.T) {
	aws := newFakeAWS(t)
	aws.on("kms.ListAliases", func(_ int, form url.Values) (int, string) {
		if form.Get("Marker") == "" {
			return http.StatusOK, `{"Aliases":[{"AliasName":"alias/aws/ebs"}],"Truncated":true,"NextMarker":"m"}`
		}
		return http.StatusOK, `{"Aliases":[{"AliasName":"alias/disks","TargetKeyId":"1234ABCD-12ab-34cd-56ef-1234567890ab"}],"Truncated":false}`
	})
	snap := observeWithAlias(t)
	if err, known := snap.Covered(kindKeyAlias, ""); err != nil || !known {
		t.Errorf("coverage %v, known %v", err, known)
	}
	got := snap.Resources[providers.ID{Kind: kindKeyAlias, Name: "alias/disks"}]
	if got == nil || got.Fields.Get(pathKeyID).Value.Text() != "1234abcd-12ab-34cd-56ef-1234567890ab" || len(snap.OfKind(kindKeyAlias)) != 2 {
		t.Errorf("alias %+v of %d", got, len(snap.OfKind(kindKeyAlias)))
	}
	if n := aws.count("kms.ListAliases"); n != 2 {
		t.Errorf("%d calls, want one for each page", n)
	}
}

// A refused permission, on whichever page, costs the aliases and nothing else.
func TestKeyAliasesNotPermitted(t *testing.T) {
	aws := newFakeAWS(t)
	aws.on("kms.ListAliases", func(_ int, form url.Values) (int, string) {
		if form.Get("Marker") == "" {
			return http.StatusOK, `{"Aliases":[{"AliasName":"alias/disks","TargetKeyId":"k-1"}],"Truncated":true,"NextMarker":"m"}`
		}
		return http.StatusBadRequest, `{"__type":"AccessDeniedException","Message":"not authorized to perform kms:ListAliases"}`
	})
	snap := observeWithAlias(t)
	for part, err := range snap.Coverage {
		if (err != nil) != (part == kindKeyAlias) || err != nil && !strings.Contains(err.Error(), "kms:ListAliases") {
			t.Errorf("coverage of %s: %v", part, err)
		}
	}
	if n := len(snap.OfKind(kindKeyAlias)); n != 0 {
		t.Errorf("%d aliases of half a listing", n)
	}
}

// Where nobody names an alias, nobody is asked for them.
func TestKeyAliasesAreNotAskedFor(t *testing.T) {
	aws := newFakeAWS(t)
	p := provider(t)
	snap, err := p.Observe(t.Context(), scopeOf(t, p))
	if err != nil {
		t.Fatal(err)
	}
	if _, known := snap.Covered(kindKeyAlias, ""); known || aws.count("kms.ListAliases") != 0 {
		t.Error("aliases were read")
	}
}
