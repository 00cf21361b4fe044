package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// TestUnusable: why a cloud cannot be read shows until it can, whichever way it
// was told.
func TestUnusable(t *testing.T) {
	s := NewSink()
	refs := []detector.ClusterRef{{Namespace: "ns", Name: "a"}}
	nowhere := newScene().cluster("a", "m1")
	nowhere.Result.Clusters[0].TakenAt, nowhere.Result.Clusters[0].Scope = time.Time{}, providers.Scope{}
	nowhere.Result.Clusters[0].Unusable = providers.ReasonForbidden
	for _, step := range []struct {
		what string
		do   func()
		want []string
	}{
		{"an identity is not allowed", func() { consume(t, s, nowhere) }, []string{"aws IdentityNotAllowed"}},
		{"it is, and the cloud is read", func() { consume(t, s, newScene().cluster("a", "m1")) }, nil},
		{"credentials are refused in the middle", func() {
			s.SweepFailed(scope, refs, fmt.Errorf("read: %w", &providers.ScopeError{Reason: providers.ReasonCredentials, Err: errors.New("x")}))
		}, []string{"aws CredentialsUnavailable"}},
		{"another reason takes its place", func() { s.SweepFailed(scope, refs, errors.New("x")) }, []string{"aws Other"}},
		{"it is not known where", func() { s.SweepFailed(providers.Scope{}, refs, errors.New("x")) }, []string{" Other", "aws Other"}},
		{"the cloud is read again", func() { consume(t, s, newScene().cluster("a", "m1")) }, nil},
	} {
		step.do()
		var got []string
		for series := range gathered(t, s) {
			if strings.HasPrefix(series, "holdfast_cloud_unusable{") {
				got = append(got, value(series, "provider")+" "+value(series, "reason"))
			}
		}
		slices.Sort(got)
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, d)
		}
	}
}

// value is a label's.
func value(series, label string) string {
	_, rest, _ := strings.Cut(series, label+`="`)
	out, _, _ := strings.Cut(rest, `"`)
	return out
}

// TestPlacesAreLeft: what was read under an identity that the cluster has no
// more does not look ever staler.
func TestPlacesAreLeft(t *testing.T) {
	s := NewSink()
	consume(t, s, newScene().cluster("a", "m1"))
	s.SweepFailed(scope, []detector.ClusterRef{{Namespace: "ns", Name: "a"}}, errors.New("x"))
	elsewhere := providers.Scope{Provider: "aws", Account: "2", Region: "r"}
	moved := newScene().cluster("a", "m1")
	moved.Result.Clusters[0].Scope, moved.Result.Clusters[0].TakenAt = elsewhere, now.Add(time.Hour)
	moved.Scopes = map[detector.ClusterRef][]providers.Scope{{Namespace: "ns", Name: "a"}: {elsewhere}}
	consume(t, s, moved)
	got := gathered(t, s)
	const last = `holdfast_sweep_last_success_timestamp_seconds{cluster_name="a",cluster_namespace="ns",provider="aws"}`
	if v := got[last]; v != float64(now.Add(time.Hour).Unix()) {
		t.Errorf("the cluster is as old as what it has left: %v", time.Unix(int64(v), 0).UTC())
	}
	for series := range got {
		if strings.HasPrefix(series, "holdfast_cloud_unusable{") {
			t.Errorf("%s, of a place that it has left", series)
		}
	}
}
