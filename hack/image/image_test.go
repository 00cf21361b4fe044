package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var testSource = source{version: "v1.2.3", commit: strings.Repeat("ab", 20), created: time.Unix(1_700_000_000, 0).UTC()}

// testIndex has a few bytes where the program is; hack/image/verify.sh does the
// same with the program.
func testIndex(t *testing.T, s source, program string) v1.ImageIndex {
	t.Helper()
	var images []v1.Image
	for _, p := range platforms {
		image, err := newImage(p, s, []byte("licence\n"), file{path: "holdfast", mode: 0o755, data: []byte(program + p.Architecture)})
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	index, err := newIndex(s, images)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func digestOf(t *testing.T, index v1.ImageIndex) v1.Hash {
	t.Helper()
	d, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDigestFollowsContent(t *testing.T) {
	first := digestOf(t, testIndex(t, testSource, "program"))
	if again := digestOf(t, testIndex(t, testSource, "program")); again != first {
		t.Errorf("made twice: %s and %s", first, again)
	}
	other := testSource
	other.version = "v1.2.4"
	for what, index := range map[string]v1.ImageIndex{
		"version": testIndex(t, other, "program"), "program": testIndex(t, testSource, "other"),
	} {
		if digestOf(t, index) == first {
			t.Errorf("another %s gives the same digest", what)
		}
	}
}

// TestLayoutAndPush writes a layout, pushes it to a registry, and reads from there
// what a node would.
func TestLayoutAndPush(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layout")
	want := testIndex(t, testSource, "program")
	for range 2 { // the second replaces the first
		if err := writeLayout(dir, want, testSource.version); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	tag := strings.TrimPrefix(server.URL, "http://") + "/holdfast:v1.2.3"
	var out bytes.Buffer
	if err := run(context.Background(), []string{"push", dir, tag}, &out); err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewDigest(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if ref.DigestStr() != digestOf(t, want).String() {
		t.Errorf("pushed %s, made %s", ref.DigestStr(), digestOf(t, want))
	}
	pulled, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(pulled); err != nil {
		t.Errorf("what the registry has is not valid: %v", err)
	}
	for _, p := range platforms {
		image, err := remote.Image(ref, remote.WithPlatform(p))
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, p, image)
	}
}

func checkImage(t *testing.T, p v1.Platform, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.OS + "/" + config.Architecture; got != p.String() {
		t.Errorf("platform %s: %s", p, got)
	}
	c := config.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/holdfast"}) || !slices.Equal(c.Cmd, []string{"controller"}) {
		t.Errorf("%s: user %q, entrypoint %q, command %q", p, c.User, c.Entrypoint, c.Cmd)
	}
	if c.Labels["org.opencontainers.image.revision"] != testSource.commit || !config.Created.Equal(testSource.created) {
		t.Errorf("%s: labels %v, created %s", p, c.Labels, config.Created)
	}
	rootfs := filepath.Join(t.TempDir(), p.Architecture)
	flat := mutate.Extract(image)
	defer func() { _ = flat.Close() }()
	got := listTar(t, flat)
	want := []string{"LICENSE 644 0:0", "etc/ 755 0:0", "etc/group 644 0:0", "etc/passwd 644 0:0", "etc/ssl/ 755 0:0", "etc/ssl/certs/ 755 0:0", "etc/ssl/certs/ca-certificates.crt 644 0:0", "holdfast 755 0:0"}
	if !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", p, got, want)
	}
	// What a Dockerfile takes has the same files.
	if err := writeFiles(rootfs, append(staticFiles([]byte("licence\n")), file{path: "holdfast", mode: 0o755}), testSource.created); err != nil {
		t.Fatal(err)
	}
	if got := listFolder(t, rootfs); !slices.Equal(got, trimOwners(want)) {
		t.Errorf("rootfs has %q, want %q", got, trimOwners(want))
	}
}

func TestWriteLayoutLeavesOthersFilesAlone(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeLayout(dir, testIndex(t, testSource, "program"), "v1"); err == nil {
		t.Error("a folder that is no layout was replaced")
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}

func TestRootCertificates(t *testing.T) {
	pool := x509.NewCertPool()
	all := rootCertificates()
	if !pool.AppendCertsFromPEM(all) {
		t.Fatal("no certificate is read")
	}
	if n := bytes.Count(all, []byte("BEGIN CERTIFICATE")); n < 100 {
		t.Errorf("%d roots: want Mozilla's hundred and more", n)
	}
	// Who signs for AWS (docs: Amazon Trust Services).
	for _, cn := range []string{"Amazon Root CA 1", "Amazon Root CA 4", "Starfield Services Root Certificate Authority - G2"} {
		if !bytes.Contains(all, []byte("CN="+cn)) {
			t.Errorf("%s is missing", cn)
		}
	}
}

// TestDockerfileSaysTheSame holds the Dockerfile to the configuration that is made
// here; its files come from this program.
func TestDockerfileSaysTheSame(t *testing.T) {
	data, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "\\\n", " ")
	for _, line := range []string{"USER 65532:65532", `ENTRYPOINT ["/holdfast"]`, `CMD ["controller"]`, "WORKDIR /", "COPY --from=build /rootfs /"} {
		if !slices.Contains(strings.Split(text, "\n"), line) {
			t.Errorf("Dockerfile has no line %q", line)
		}
	}
	expand := strings.NewReplacer("$VERSION", testSource.version, "$COMMIT", testSource.commit, "$CREATED", testSource.created.Format(time.RFC3339))
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`(org\.opencontainers\.image\.[a-z]+)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		got[m[1]] = expand.Replace(m[2])
	}
	for key, value := range testSource.labels() {
		if got[key] != value {
			t.Errorf("Dockerfile: label %s is %q, want %q", key, got[key], value)
		}
	}
	if len(got) != len(testSource.labels()) {
		t.Errorf("Dockerfile has labels %v", got)
	}
}

// TestChartRunsTheSameUser: a pod that must not be root names who it is.
func TestChartRunsTheSameUser(t *testing.T) {
	data, err := os.ReadFile("../../charts/holdfast/templates/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "runAsUser: 65532\n") {
		t.Error("the chart's pods run as somebody else")
	}
}

func TestBadInput(t *testing.T) {
	for _, args := range [][]string{nil, {"layout"}, {"push", "dir"}, {"fly", "x"}} {
		if err := run(context.Background(), args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	if _, err := parsePlatform("linux/mips"); err == nil || !strings.Contains(err.Error(), "linux/arm64") {
		t.Errorf("linux/mips: %v", err)
	}
	env := map[string]string{"VERSION": "v1", "COMMIT": "c", "SOURCE_DATE_EPOCH": "yesterday"}
	if _, err := sourceFromEnvironment(func(k string) string { return env[k] }); err == nil {
		t.Error("SOURCE_DATE_EPOCH=yesterday is accepted")
	}
	if _, err := readLayout(t.TempDir()); err == nil {
		t.Error("an empty folder is a layout")
	}
}
