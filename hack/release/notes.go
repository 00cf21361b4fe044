package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

const repository = "https://github.com/holdfast-io/holdfast"

// semantic is a tag of this repository: https://semver.org with a v.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func parseVersion(version string) (withoutV string, err error) {
	if !semantic.MatchString(version) {
		return "", fmt.Errorf("version %q: want one like v1.2.3 or v1.2.3-rc.1", version)
	}
	return version[1:], nil
}

// section is the heading of a version: "## 1.2.3 - 2026-11-30", the number maybe in
// brackets.
var section = regexp.MustCompile(`^## \[?([^\]\s]+)\]?(?:\s|$)`)

// relative is a Markdown link to a file of the repository.
var relative = regexp.MustCompile(`\]\(([^)\s:#][^)\s:]*)\)`)

// notesOf is what CHANGELOG says of a version; links are to the files as they are in
// that version.
func notesOf(changelog, version string) (string, error) {
	number, err := parseVersion(version)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(changelog)
	if err != nil {
		return "", err
	}
	var lines []string
	found := false
	for line := range strings.Lines(string(data)) {
		if m := section.FindStringSubmatch(line); m != nil {
			if found {
				break
			}
			found = m[1] == number
			continue
		}
		if found {
			lines = append(lines, line)
		}
	}
	text := strings.TrimSpace(strings.Join(lines, ""))
	switch {
	case !found:
		return "", fmt.Errorf("%s has no section %q: give the section Unreleased that name, and a date", changelog, "## "+number)
	case text == "":
		return "", fmt.Errorf("%s says nothing of %s", changelog, number)
	}
	return relative.ReplaceAllString(text, "]("+repository+"/blob/"+version+"/$1)") + "\n", nil
}

// checkCommand finds before anything is published what would be missed after it.
func checkCommand(version string) error {
	_, notes := notesOf("CHANGELOG.md", version)
	return errors.Join(notes, checkChart("charts/holdfast/Chart.yaml", version))
}

func checkChart(file, version string) error {
	number, err := parseVersion(version)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var chart struct {
		Version    string `json:"version"`
		AppVersion string `json:"appVersion"`
	}
	if err := yaml.Unmarshal(data, &chart); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if chart.Version != number || chart.AppVersion != number {
		return fmt.Errorf("%s has version %s and appVersion %s: both must be %s", file, chart.Version, chart.AppVersion, number)
	}
	return nil
}

var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// valuesWith is the chart's values with the digest that its image has: who installs
// a released chart gets exactly what was signed.
func valuesWith(file, digest string) (string, error) {
	if !digestPattern.MatchString(digest) {
		return "", fmt.Errorf("digest %q: want sha256: and 64 hexadecimal digits", digest)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	// Under image, and not anywhere else; comments are to stay, so no YAML is written.
	before, rest, ok := strings.Cut(string(data), "\nimage:\n")
	end := strings.Index(rest, "\n\n")
	const unset = "\n  digest: \"\"\n"
	if !ok || end < 0 || strings.Count(rest[:end+1], unset) != 1 {
		return "", fmt.Errorf("%s: no image.digest %q is in it", file, "")
	}
	return before + "\nimage:\n" + strings.Replace(rest, unset, "\n  digest: "+digest+"\n", 1), nil
}
