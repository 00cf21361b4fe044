package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed krew.yaml.tmpl
var krewTemplate string

// krewPlatform is one of krew's platforms
// (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/).
type krewPlatform struct{ OS, Arch, URI, SHA256, Program string }

// krewManifest is the plugin's manifest for the archives in dir, by their sums.
func krewManifest(version, dir string) (string, error) {
	if _, err := parseVersion(version); err != nil {
		return "", err
	}
	data, err := os.ReadFile(filepath.Join(dir, checksums)) //nolint:gosec // of the folder that the caller names
	if err != nil {
		return "", fmt.Errorf("sums of the archives (make archives writes them): %w", err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			sums[name] = sum
		}
	}
	var all []krewPlatform
	for _, p := range platforms {
		name := p.archive(version)
		if sums[name] == "" {
			return "", fmt.Errorf("%s has no line for %s", filepath.Join(dir, checksums), name)
		}
		all = append(all, krewPlatform{p.os, p.arch, repository + "/releases/download/" + version + "/" + name, sums[name], p.program()})
	}
	var b strings.Builder
	err = template.Must(template.New("krew").Parse(krewTemplate)).Execute(&b, map[string]any{
		"Version": version, "Home": repository, "Platforms": all,
	})
	return b.String(), err
}
