package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// newImage is the image of one platform, of two layers: what hardly ever changes,
// and the program.
func newImage(p v1.Platform, s source, licence []byte, program file) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	// The time of the files that hardly ever change is not the commit's, so that
	// their layer stays the same from one version to the next.
	layers := []struct {
		what  string
		files []file
		at    time.Time
	}{
		{"LICENSE, accounts and root certificates", staticFiles(licence), time.Unix(0, 0).UTC()},
		{"holdfast " + s.version, []file{program}, s.created},
	}
	for _, l := range layers {
		data, err := archive(l.files, l.at)
		if err != nil {
			return nil, err
		}
		opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
		layer, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression))
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:   layer,
			History: v1.History{Created: v1.Time{Time: s.created}, CreatedBy: "hack/image", Comment: l.what},
		})
		if err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = p.OS, p.Architecture
	config.Created = v1.Time{Time: s.created}
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Entrypoint: []string{"/holdfast"},
		Cmd:        []string{"controller"},
		WorkingDir: "/",
		Labels:     s.labels(),
	}
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(image, s.labels()).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("an annotated image is no image")
	}
	return annotated, nil
}

// newIndex lists the images of all platforms.
func newIndex(s source, images []v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}},
		})
	}
	annotated, ok := mutate.Annotations(index, s.labels()).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("an annotated index is no index")
	}
	return annotated, nil
}

// writeLayout replaces the layout in dir by one with index alone. A folder that is
// anything else is left alone.
func writeLayout(dir string, index v1.ImageIndex, tag string) error {
	there, err := os.ReadDir(dir)
	switch {
	case os.IsNotExist(err):
	case err != nil:
		return err
	case len(there) > 0:
		if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
			return fmt.Errorf("%s has files in it and is no OCI layout: name another folder", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write layout %s: %w", dir, err)
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag}))
}

// readLayout is the one image of a layout.
func readLayout(dir string) (v1.ImageIndex, error) {
	path, err := layout.FromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("read layout %s (make image makes one): %w", dir, err)
	}
	all, err := path.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("layout %s has %d images: want 1", dir, len(manifest.Manifests))
	}
	return all.ImageIndex(manifest.Manifests[0].Digest)
}

// pushCommand pushes by the credentials of ~/.docker/config.json.
func pushCommand(ctx context.Context, dir string, names []string, out io.Writer) error {
	index, err := readLayout(dir)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	for _, n := range names {
		ref, err := name.NewTag(n, name.StrictValidation)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return fmt.Errorf("push %s: %w", ref, err)
		}
		if _, err := fmt.Fprintln(out, ref.Context().Digest(digest.String())); err != nil {
			return err
		}
	}
	return nil
}
