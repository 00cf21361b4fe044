package providers_test

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers"
)

var byText = cmp.Comparer(func(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
})

func sampleSnapshot() *providers.Snapshot {
	instance := &providers.Resource{
		ID: providers.ID{Kind: "Instance", Name: "i-1"}, Name: "<b>web</b>\x1b[31m\u009b\u202e\u2028\U000e0041 é😀",
		Closed: []string{"/tags"}, Needs: []providers.ID{{Kind: "Subnet", Name: "s-1"}},
		Warnings: []string{"careful"}, ClusterTags: []string{"c1"},
	}
	instance.Set("/type", providers.Field{Value: providers.String("m5")})
	instance.Set("/tags/a~1b", providers.Field{Value: providers.String("")})
	instance.Set("/size", providers.Field{Value: providers.Int(int64(1) << 60)})
	instance.Set("/spot", providers.Field{Value: providers.Bool(false)})
	instance.Set("/userData", providers.Field{Value: providers.String("hmac-sha256:00"), Sensitive: true})
	instance.Set("/ingress", providers.Field{Value: providers.Set("b", "a"), Foreign: map[string]string{"b": "LB"}, Claimed: map[string]string{"a": "CCM"}})
	instance.Set("/egress", providers.Field{Value: providers.Set()})
	return &providers.Snapshot{
		Scope:  providers.Scope{Provider: "aws", Account: "1", Region: "r", Identity: "K/n"},
		Serves: []string{"prod/c1"}, ConfirmedAbsent: []providers.ID{{Kind: "Instance", Name: "i-lost"}}, TakenAt: time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC),
		Coverage: map[string]error{"Instance": nil, "Volume": errors.New("denied\n\"quoted\""), "X": errors.New("")},
		Resources: map[providers.ID]*providers.Resource{
			instance.ID: instance,
			{Kind: "Instance", Name: "i-0"}: {
				ID: providers.ID{Kind: "Instance", Name: "i-0"}, Gone: "terminated", Unknown: "u", ForeignTo: "CSI",
			},
		},
	}
}

func write(t *testing.T, s ...*providers.Snapshot) string {
	t.Helper()
	var b bytes.Buffer
	if err := providers.WriteSnapshots(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSnapshotRoundTrip(t *testing.T) {
	first, second := sampleSnapshot(), &providers.Snapshot{
		Scope: providers.Scope{Provider: "vsphere", Account: "vc"}, TakenAt: time.Unix(1, 0).UTC(),
		Coverage: map[string]error{}, Resources: map[providers.ID]*providers.Resource{},
	}
	text := write(t, first, second)
	for range 10 {
		if again := write(t, sampleSnapshot(), second); again != text {
			t.Fatal("equal snapshots are written differently")
		}
	}
	got, err := providers.ReadSnapshots(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	first.Coverage["X"] = errors.New("no reason given") // unread stays unread
	if diff := cmp.Diff([]*providers.Snapshot{first, second}, got, byText); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
	if again := write(t, got...); again != text {
		t.Error("what was read is written differently")
	}
	if empty, err := providers.ReadSnapshots(strings.NewReader(write(t))); err != nil || len(empty) != 0 {
		t.Errorf("no snapshots: %v, %v", empty, err)
	}
	if err := providers.WriteSnapshots(&bytes.Buffer{}, []*providers.Snapshot{nil}); err == nil {
		t.Error("a nil snapshot was written")
	}
}

// What a person put into a tag must not steer the terminal of whoever looks at
// the file.
func TestSnapshotIsInert(t *testing.T) {
	text := write(t, sampleSnapshot())
	for _, r := range text {
		if r != '\n' && !strconv.IsPrint(r) {
			t.Errorf("the file holds %q", r)
		}
	}
	if !strings.Contains(text, `\u009b\u202e\u2028\udb40\udc41 é😀`) {
		t.Errorf("text is lost:\n%s", text)
	}
}

func TestReadSnapshotsRefuses(t *testing.T) {
	good := write(t, sampleSnapshot())
	swap := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("the sample has no %s", from)
		}
		return strings.Replace(good, from, to, 1)
	}
	tests := map[string]struct{ text, says string }{
		"nothing":            {"", "empty"},
		"not JSON":           {"snapshots:\n- a", "line 1"},
		"cut short":          {good[:len(good)/2], "unexpected end"},
		"another kind":       {swap("SnapshotList", "Report"), `kind is "Report", want SnapshotList`},
		"another version":    {swap("/v1alpha1", "/v9"), "save the snapshot again"},
		"unknown key":        {swap(`"closed"`, `"clsoed"`), `"clsoed"`},
		"repeated key":       {swap(`"closed"`, `"warnings": [], "closed"`), "key warnings stands twice"},
		"wrong type":         {swap(`"gone": "terminated"`, `"gone": 1`), "want string, got number"},
		"not a whole number": {swap("1152921504606846976", "1.5"), "not a whole number"},
		"null value":         {swap(`"hmac-sha256:00"`, "null"), "/userData has no value"},
		"mixed set":          {swap("\"a\",\n", "1,\n"), "element 0 of a set"},
		"no pointer":         {swap(`"/type"`, `"type"`), "no JSON pointer"},
		"no id":              {swap(`"id": "i-1"`, `"id": ""`), "kind or id is missing"},
		"same id":            {swap(`"id": "i-1"`, `"id": "i-0"`), "Instance/i-0 stands twice"},
		"same part":          {swap(`"part": "Volume"`, `"part": "Instance"`), "stands twice"},
		"no account":         {swap(`"account": "1"`, `"account": ""`), "account"},
		"no time":            {swap(`"takenAt": "2026-11-30T12:00:00.123456789Z",`, ""), "takenAt"},
		"foreign to no set":  {swap(`"b": "LB"`, `"c": "LB"`), "foreign element"},
		"text after":         {good + "x", "line"},
		"two documents":      {good + good, "line"},
		"too deep":           {swap(`"careful"`, strings.Repeat("[", 99)+strings.Repeat("]", 99)), "nested more than"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := providers.ReadSnapshots(strings.NewReader(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("got %v, error %v; want one with %q", got, err, tt.says)
			}
		})
	}
}

func FuzzReadSnapshots(f *testing.F) {
	var b bytes.Buffer
	if err := providers.WriteSnapshots(&b, []*providers.Snapshot{sampleSnapshot()}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"apiVersion":"snapshot.holdfast.io/v1alpha1","kind":"SnapshotList","snapshots":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := providers.ReadSnapshots(bytes.NewReader(data))
		if err != nil {
			return
		}
		text := write(t, first...)
		second, err := providers.ReadSnapshots(strings.NewReader(text))
		if err != nil {
			t.Fatalf("what was read is written unreadably: %v\n%s", err, text)
		}
		if again := write(t, second...); again != text {
			t.Errorf("not stable:\n%s\n%s", text, again)
		}
	})
}
