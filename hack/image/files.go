package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// file is one file of the image, owned by root and written by nobody.
type file struct {
	// path is relative to the root and slash-separated.
	path string
	mode int64
	data []byte
}

// user is who the program runs as; the chart's securityContext says the same.
const user = 65532

// staticFiles are all files but the program. Time zones are in the program itself
// (package policies embeds time/tzdata).
func staticFiles(licence []byte) []file {
	return []file{
		{path: "LICENSE", mode: 0o644, data: licence},
		{path: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", user)},
		{path: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:%d:%d:nonroot:/:/sbin/nologin\n", user, user)},
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: rootCertificates()},
	}
}

// rootCertificates are Mozilla's, of the module that go.mod pins, so that they do
// not depend on the machine that builds. Roots that Mozilla trusts with conditions
// are left out: a PEM file cannot say those.
func rootCertificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if c, err := x509.ParseCertificate(root.Certificate); err == nil {
			fmt.Fprintf(&b, "# %s\n", strings.Map(printable, c.Subject.String()))
		}
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes all
	}
	return b.Bytes()
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

// folders are the parents of all files, each before what is in it.
func folders(files []file) []string {
	var all []string
	for _, f := range files {
		for dir := path.Dir(f.path); dir != "."; dir = path.Dir(dir) {
			all = append(all, dir)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// archive writes files as a tar file that is the same for the same files and time.
func archive(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range folders(files) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.path, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// writeFiles writes files below dir, which is made; it must be empty, so that no
// file of somebody else gets into an image.
func writeFiles(dir string, files []file, at time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		if err == nil {
			err = fmt.Errorf("%s is not empty", dir)
		}
		return err
	}
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, f.data, os.FileMode(f.mode)); err != nil {
			return err
		}
		// WriteFile's mode is cut by the umask.
		if err := os.Chmod(name, os.FileMode(f.mode)); err != nil {
			return err
		}
		if err := os.Chtimes(name, at, at); err != nil {
			return err
		}
	}
	dirs := folders(files)
	slices.Reverse(dirs)
	for _, d := range dirs {
		name := filepath.Join(dir, filepath.FromSlash(d))
		if err := os.Chmod(name, 0o755); err != nil {
			return err
		}
		if err := os.Chtimes(name, at, at); err != nil {
			return err
		}
	}
	return nil
}
