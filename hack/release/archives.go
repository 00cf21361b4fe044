package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// platform is an operating system and an architecture in Go's words.
type platform struct{ os, arch string }

// platforms are those that the program is released for.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"},
}

func (p platform) program() string {
	if p.os == "windows" {
		return "holdfast.exe"
	}
	return "holdfast"
}

// archive is the name of the platform's archive.
func (p platform) archive(version string) string {
	name := fmt.Sprintf("holdfast_%s_%s_%s", version, p.os, p.arch)
	if p.os == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// member is a file of an archive.
type member struct {
	name string
	mode fs.FileMode
	data []byte
}

const checksums = "checksums.txt"

func archivesCommand(ctx context.Context, version, dir string) error {
	if _, err := parseVersion(version); err != nil {
		return err
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH=%q: want the seconds since 1970 of the commit, as hack/release/vars.sh sets them", os.Getenv("SOURCE_DATE_EPOCH"))
	}
	temp, err := os.MkdirTemp("", "holdfast-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	build := func(p platform) (string, error) {
		out := filepath.Join(temp, p.os+"-"+p.arch, p.program())
		cmd := exec.CommandContext(ctx, "hack/release/build.sh", p.os+"/"+p.arch, out) //nolint:gosec // the arguments are the list above
		cmd.Env = append(os.Environ(), "VERSION="+version)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("build holdfast for %s/%s: %w", p.os, p.arch, err)
		}
		return out, nil
	}
	host, err := build(platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return err
	}
	common, err := commonMembers(ctx, host, temp)
	if err != nil {
		return err
	}
	return writeArchives(dir, version, common, time.Unix(epoch, 0).UTC(), build)
}

// commonMembers are what each archive has beside the program: man pages and
// completions as the program itself makes them.
func commonMembers(ctx context.Context, program, temp string) ([]member, error) {
	var out []member
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out = append(out, member{name, 0o644, data})
	}
	for shell, name := range map[string]string{"bash": "holdfast.bash", "zsh": "_holdfast", "fish": "holdfast.fish", "powershell": "holdfast.ps1"} {
		script, err := exec.CommandContext(ctx, program, "completion", shell).Output() //nolint:gosec // it was built a moment ago
		if err != nil {
			return nil, fmt.Errorf("completion for %s: %w", shell, err)
		}
		out = append(out, member{"completions/" + name, 0o644, script})
	}
	pages := filepath.Join(temp, "man")
	if err := exec.CommandContext(ctx, program, "man", pages).Run(); err != nil { //nolint:gosec // the same
		return nil, fmt.Errorf("man pages: %w", err)
	}
	entries, err := os.ReadDir(pages)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(pages, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, member{"man/" + e.Name(), 0o644, data})
	}
	return out, nil
}

// writeArchives packs what build makes for each platform, and writes the sums of all.
func writeArchives(dir, version string, common []member, at time.Time, build func(platform) (string, error)) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // what is in it is for others to read
		return err
	}
	var sums strings.Builder
	for _, p := range platforms {
		file, err := build(p)
		if err != nil {
			return err
		}
		program, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		members := append(slices.Clone(common), member{p.program(), 0o755, program})
		slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
		pack := packTar
		if p.os == "windows" {
			pack = packZip
		}
		data, err := pack(members, at)
		if err != nil {
			return fmt.Errorf("pack %s: %w", p.archive(version), err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.archive(version)), data, 0o644); err != nil { //nolint:gosec // into the folder that the caller names
			return err
		}
		_, _ = fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), p.archive(version))
	}
	return os.WriteFile(filepath.Join(dir, checksums), []byte(sums.String()), 0o644) //nolint:gosec // the same
}

func packTar(members []member, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, m := range members {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: m.name, Mode: int64(m.mode), Size: int64(len(m.data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(m.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func packZip(members []member, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: at}
		header.SetMode(m.mode)
		f, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(m.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
