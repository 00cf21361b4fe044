package canonical_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/providers/canonical"
)

func gzipped(t *testing.T, payload []byte, header gzip.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w.Header = header
	if _, err := w.Write(payload); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func wrapLines(s string, n int) string {
	var b strings.Builder
	for len(s) > n {
		b.WriteString(s[:n] + "\n")
		s = s[n:]
	}
	return b.String() + s + "\n"
}

// C23: raw, base64, gzip and gzip in base64 hold one payload; gzip's header is
// no part of it, and empty equals absent.
func TestC23UserData(t *testing.T) {
	payload := []byte("#cloud-config\nwrite_files: []\n")
	b64 := base64.StdEncoding.EncodeToString
	packed := gzipped(t, payload, gzip.Header{})
	other := gzipped(t, payload, gzip.Header{Name: "user-data", Comment: "x", ModTime: time.Unix(1e9, 0), OS: 3})
	forms := map[string]string{
		"raw":                  string(payload),
		"base64":               b64(payload),
		"base64 in lines":      wrapLines(b64(payload), 20),
		"base64 twice":         b64([]byte(b64(payload))),
		"gzip":                 string(packed),
		"gzip in base64":       b64(packed),
		"gzip, another header": b64(other),
	}
	for name, raw := range forms {
		t.Run(name, func(t *testing.T) {
			got, err := canonical.UserData(raw)
			if err != nil || !bytes.Equal(got, payload) {
				t.Errorf("got %q, %v; want %q", got, err, payload)
			}
		})
	}
	for name, raw := range map[string]string{"empty": "", "gzip of nothing": string(gzipped(t, nil, gzip.Header{}))} {
		t.Run(name, func(t *testing.T) {
			if got, err := canonical.UserData(raw); err != nil || got != nil {
				t.Errorf("got %q, %v; want nil", got, err)
			}
		})
	}
}

func TestUserDataErrors(t *testing.T) {
	bomb := gzipped(t, make([]byte, canonical.MaxUserData+1), gzip.Header{})
	whole := gzipped(t, []byte("secret payload that is long enough to cut"), gzip.Header{})
	deep := "#!/bin/sh"
	for range 6 {
		deep = base64.StdEncoding.EncodeToString([]byte(deep))
	}
	tests := map[string]struct{ raw, err string }{
		"bomb":       {string(bomb), "unpacks to more than"},
		"too large":  {strings.Repeat("#", canonical.MaxUserData+1), "at most"},
		"cut short":  {string(whole[:len(whole)-9]), "cut short"},
		"bad header": {"\x1f\x8b", "bad header"},
		"too deep":   {deep, "more than 4 times"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := canonical.UserData(tt.raw)
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("got %d bytes, error %v; want one with %q", len(got), err, tt.err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q quotes the data", err)
			}
		})
	}
}

func TestDigest(t *testing.T) {
	a := canonical.Digest([]byte("key"), []byte("payload"))
	tests := map[string]struct {
		key, payload string
		equal        bool
	}{
		"same":          {"key", "payload", true},
		"other payload": {"key", "payloaf", false},
		"other key":     {"kez", "payload", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := canonical.Digest([]byte(tt.key), []byte(tt.payload)); (got == a) != tt.equal {
				t.Errorf("%s and %s: equal should be %v", got, a, tt.equal)
			}
		})
	}
	if strings.Contains(a, "payload") || !strings.HasPrefix(a, "hmac-sha256:") {
		t.Errorf("digest %q", a)
	}
}

func FuzzUserData(f *testing.F) {
	f.Add("#cloud-config")
	f.Add("YWJj")
	f.Add("\x1f\x8b\x08")
	f.Fuzz(func(t *testing.T, s string) {
		once, err := canonical.UserData(s)
		if err != nil {
			return
		}
		twice, err := canonical.UserData(string(once))
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("payload %q unwraps again to %q, %v", once, twice, err)
		}
	})
}
