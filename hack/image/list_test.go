package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listTar has a line "NAME MODE UID:GID" for each entry, sorted.
func listTar(t *testing.T, r io.Reader) []string {
	t.Helper()
	var out []string
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(out)
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			h.Name = strings.TrimSuffix(h.Name, "/") + "/"
		}
		out = append(out, fmt.Sprintf("%s %o %d:%d", h.Name, h.Mode, h.Uid, h.Gid))
	}
}

// listFolder has a line "NAME MODE" for each file and folder, sorted.
func listFolder(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		info, err := os.Lstat(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		if d.IsDir() {
			path += "/"
		}
		out = append(out, fmt.Sprintf("%s %o", path, info.Mode().Perm()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func trimOwners(lines []string) []string {
	out := slices.Clone(lines)
	for i := range out {
		out[i] = strings.TrimSuffix(out[i], " 0:0")
	}
	return out
}
