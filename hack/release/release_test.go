package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNotes(t *testing.T) {
	changelog := write(t, "CHANGELOG.md", `# Changes

## Unreleased

- not yet

## 1.1.0 - 2026-12-24

### Added

- One, see [alerts](docs/alerts.md) and [elsewhere](https://example.com/a.md).

## [1.0.0] - 2026-11-30

- The first.

## 0.9.0

## 0.8.0
`)
	for version, want := range map[string]string{
		"v1.1.0": "### Added\n\n- One, see [alerts](https://github.com/holdfast-io/holdfast/blob/v1.1.0/docs/alerts.md) and [elsewhere](https://example.com/a.md).\n",
		"v1.0.0": "- The first.\n",
	} {
		if got, err := notesOf(changelog, version); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", version, got, err, want)
		}
	}
	for version, want := range map[string]string{
		"v1.2.0": "has no section", "v0.9.0": "says nothing", "v1.1": "want one like", "1.1.0": "want one like", "v1.1.0/..": "want one like",
	} {
		if got, err := notesOf(changelog, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want an error with %q", version, got, err, want)
		}
	}
}

func TestCheckChart(t *testing.T) {
	chart := write(t, "Chart.yaml", "name: holdfast\nversion: 1.0.0\nappVersion: 1.0.0\n")
	if err := checkChart(chart, "v1.0.0"); err != nil {
		t.Error(err)
	}
	if err := checkChart(chart, "v1.0.1"); err == nil || !strings.Contains(err.Error(), "must be 1.0.1") {
		t.Errorf("another version: %v", err)
	}
}

// TestValues puts a digest into the chart as it is, and nothing else.
func TestValues(t *testing.T) {
	const file = "../../charts/holdfast/values.yaml"
	digest := "sha256:" + strings.Repeat("ab", 32)
	got, err := valuesWith(file, digest)
	if err != nil {
		t.Fatal(err)
	}
	var before, after map[string]any
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(yaml.Unmarshal(old, &before), yaml.Unmarshal([]byte(got), &after)); err != nil {
		t.Fatal(err)
	}
	image, ok := before["image"].(map[string]any)
	if !ok {
		t.Fatal("the chart has no image")
	}
	image["digest"] = digest
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("values are\n%v\nwant\n%v", after, before)
	}
	if _, err := valuesWith(file, "latest"); err == nil {
		t.Error("latest is a digest")
	}
	elsewhere := write(t, "values.yaml", "image:\n  tag: \"\"\n\nother:\n  digest: \"\"\n")
	if got, err := valuesWith(elsewhere, digest); err == nil {
		t.Errorf("a digest was set elsewhere: %s", got)
	}
}

// TestArchives packs twice and reads what is in it, and krew's manifest of it.
func TestArchives(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	common := []member{{"LICENSE", 0o644, []byte("licence")}, {"man/holdfast.1", 0o644, []byte("page")}}
	build := func(p platform) (string, error) { return write(t, p.program(), "program of "+p.os+p.arch), nil }
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		if err := writeArchives(dir, "v1.0.0", common, at, build); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := os.ReadFile(filepath.Join(dirs[0], checksums))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(dirs[1], checksums)); err != nil || !bytes.Equal(sums, again) {
		t.Errorf("packed twice:\n%s\nand\n%s (%v)", sums, again, err)
	}
	for _, p := range platforms {
		data, err := os.ReadFile(filepath.Join(dirs[0], p.archive("v1.0.0")))
		if err != nil {
			t.Fatal(err)
		}
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(data), p.archive("v1.0.0")); !strings.Contains(string(sums), line) {
			t.Errorf("no line %q in\n%s", line, sums)
		}
		unpack := unpackTar
		if p.os == "windows" {
			unpack = unpackZip
		}
		want := "LICENSE -rw-r--r-- licence\n" + p.program() + " -rwxr-xr-x program of " + p.os + p.arch + "\nman/holdfast.1 -rw-r--r-- page\n"
		if got := unpack(t, data); got != want {
			t.Errorf("%s has\n%swant\n%s", p.archive("v1.0.0"), got, want)
		}
	}
	checkKrew(t, dirs[0], string(sums))
}

func checkKrew(t *testing.T, dir, sums string) {
	t.Helper()
	text, err := krewManifest("v1.0.0", dir)
	if err != nil {
		t.Fatal(err)
	}
	// The fields of https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/.
	var m struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Version          string `json:"version"`
			Homepage         string `json:"homepage"`
			ShortDescription string `json:"shortDescription"`
			Description      string `json:"description"`
			Caveats          string `json:"caveats"`
			Platforms        []struct {
				Selector struct {
					MatchLabels struct {
						OS   string `json:"os"`
						Arch string `json:"arch"`
					} `json:"matchLabels"`
				} `json:"selector"`
				URI    string `json:"uri"`
				SHA256 string `json:"sha256"`
				Bin    string `json:"bin"`
				Files  []struct {
					From string `json:"from"`
					To   string `json:"to"`
				} `json:"files"`
			} `json:"platforms"`
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &m); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if m.Metadata.Name != "holdfast" || m.Spec.Version != "v1.0.0" || len(m.Spec.ShortDescription) > 50 || len(m.Spec.Platforms) != len(platforms) {
		t.Errorf("manifest:\n%s", text)
	}
	for i, p := range m.Spec.Platforms {
		want := platforms[i]
		if p.Selector.MatchLabels.OS != want.os || p.Selector.MatchLabels.Arch != want.arch || p.Bin != want.program() || p.Files[0].From != want.program() {
			t.Errorf("platform %d is %+v, want %v", i, p, want)
		}
		if !strings.Contains(sums, p.SHA256+"  "+filepath.Base(p.URI)+"\n") {
			t.Errorf("%s has sum %s, which is not in\n%s", p.URI, p.SHA256, sums)
		}
	}
	if _, err := krewManifest("v1.0.1", dir); err == nil {
		t.Error("archives of another version are taken")
	}
}

func unpackTar(t *testing.T, data []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %s %s\n", h.Name, h.FileInfo().Mode(), content)
	}
}

func unpackZip(t *testing.T, data []byte) string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err := errors.Join(err, in.Close()); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %s %s\n", f.Name, f.Mode(), content)
	}
	return out.String()
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"notes"}, {"fly", "x"}, {"krew", "v1.0.0"}} {
		if err := run(t.Context(), args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
