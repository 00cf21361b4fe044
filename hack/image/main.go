// Command image makes the container image of Holdfast without a container engine
// and without a registry: an OCI layout, or the plain files for a Dockerfile. The
// same commit, version and Go give the same digest.
//
// It runs in the repository's root, with VERSION, COMMIT and SOURCE_DATE_EPOCH set:
// hack/image/run.sh sees to both.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// platforms are those of the image, in the order in which its index lists them.
var platforms = []v1.Platform{
	{OS: "linux", Architecture: "amd64"},
	{OS: "linux", Architecture: "arm64"},
}

const usage = `usage:
  image layout DIR [OS/ARCH...] write the image of all platforms, or of those named, as an OCI layout, and print its digest
  image rootfs OS/ARCH DIR      write the files of one platform
  image digest DIR              print the digest of a layout
  image push DIR NAME:TAG...    push a layout to a registry, and print NAME@DIGEST`

var errUsage = errors.New(usage)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	command, args := args[0], args[1:]
	switch {
	case command == "layout" && len(args) >= 1:
		return layoutCommand(ctx, args[0], args[1:], out)
	case command == "rootfs" && len(args) == 2:
		return rootfsCommand(ctx, args[0], args[1])
	case command == "digest" && len(args) == 1:
		index, err := readLayout(args[0])
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, digest)
		return err
	case command == "push" && len(args) >= 2:
		return pushCommand(ctx, args[0], args[1:], out)
	}
	return errUsage
}

func layoutCommand(ctx context.Context, dir string, named []string, out io.Writer) error {
	chosen := platforms
	if len(named) > 0 {
		chosen = nil
	}
	for _, n := range named {
		p, err := parsePlatform(n)
		if err != nil {
			return err
		}
		chosen = append(chosen, p)
	}
	s, err := sourceFromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "holdfast-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	var images []v1.Image
	for _, p := range chosen {
		program, err := buildProgram(ctx, p, temp)
		if err != nil {
			return err
		}
		image, err := newImage(p, s, licence, program)
		if err != nil {
			return fmt.Errorf("image of %s: %w", p, err)
		}
		images = append(images, image)
	}
	index, err := newIndex(s, images)
	if err != nil {
		return err
	}
	if err := writeLayout(dir, index, s.version); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, digest)
	return err
}

func rootfsCommand(ctx context.Context, platform, dir string) error {
	s, err := sourceFromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	p, err := parsePlatform(platform)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "holdfast-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	program, err := buildProgram(ctx, p, temp)
	if err != nil {
		return err
	}
	return writeFiles(dir, append(staticFiles(licence), program), s.created)
}

func parsePlatform(s string) (v1.Platform, error) {
	var known []string
	for _, p := range platforms {
		if p.String() == s {
			return p, nil
		}
		known = append(known, p.String())
	}
	return v1.Platform{}, fmt.Errorf("platform %q: want one of %s", s, strings.Join(known, ", "))
}
