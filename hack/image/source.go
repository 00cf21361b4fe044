package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// source is what an image is made from; nothing else gets into it but files.
type source struct {
	version, commit string
	// created is the time of the commit, which all that has a time bears.
	created time.Time
}

func sourceFromEnvironment(getenv func(string) string) (source, error) {
	s := source{version: getenv("VERSION"), commit: getenv("COMMIT")}
	if s.version == "" || s.commit == "" {
		return s, fmt.Errorf("VERSION and COMMIT are not set: run hack/image/run.sh, which sets them from git")
	}
	epoch, err := strconv.ParseInt(getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH=%q: want seconds since 1970", getenv("SOURCE_DATE_EPOCH"))
	}
	s.created = time.Unix(epoch, 0).UTC()
	return s, nil
}

// labels are those of the OCI image specification (annotations.md, "Pre-Defined
// Annotation Keys"); they stand in the configuration and in the manifests.
func (s source) labels() map[string]string {
	const home = "https://github.com/holdfast-io/holdfast"
	return map[string]string{
		"org.opencontainers.image.title":         "holdfast",
		"org.opencontainers.image.description":   "Detects drift between Cluster API objects and what runs in AWS and vSphere",
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.source":        home,
		"org.opencontainers.image.url":           home,
		"org.opencontainers.image.documentation": home + "/tree/main/docs",
		"org.opencontainers.image.version":       s.version,
		"org.opencontainers.image.revision":      s.commit,
		"org.opencontainers.image.created":       s.created.Format(time.RFC3339),
	}
}

// buildTags leave out the demo and its simulators, for which a container has no use.
const buildTags = "nodemo"

// buildProgram compiles the program as it is released, for one platform.
func buildProgram(ctx context.Context, p v1.Platform, temp string) (file, error) {
	out := filepath.Join(temp, "holdfast-"+p.Architecture)
	cmd := exec.CommandContext(ctx, "hack/release/build.sh", p.String(), out, buildTags)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return file{}, fmt.Errorf("build holdfast for %s: %w", p, err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return file{}, err
	}
	return file{path: "holdfast", mode: 0o755, data: data}, nil
}
