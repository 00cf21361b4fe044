package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	release   = "holdfast"
	namespace = "holdfast-system"
)

// profiles are the values of ci/.
func profiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "ci", "*-values.yaml"))
	if err != nil || len(files) != 8 {
		t.Fatalf("profiles: %v, %v: want 8", files, err)
	}
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = strings.TrimSuffix(filepath.Base(f), "-values.yaml")
	}
	return out
}

func profileFile(profile string) string {
	return filepath.Join(folder, "ci", profile+"-values.yaml")
}

// helm is the real one, of either major version.
type helm struct {
	path       string
	kubeconfig string // empty: no cluster is asked
}

// helms are those that the chart is tested with, by major version.
func helms(t *testing.T) map[string]*helm {
	t.Helper()
	out := map[string]*helm{}
	for major, variable := range map[string]string{"3": "HOLDFAST_HELM", "4": "HOLDFAST_HELM4"} {
		path := os.Getenv(variable)
		if path == "" {
			t.Fatalf("%s is not set: run the tests by hack/test.sh, or set it to the output of hack/helm/build.sh %s", variable, major)
		}
		out[major] = &helm{path: path}
	}
	return out
}

// try runs Helm.
func (h *helm) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command(h.path, args...) // not ended with the test: it cleans up, too
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+h.kubeconfig)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w\n%s%s", args[0], err, out.String(), errs.String())
	}
	return out.String(), nil
}

func (h *helm) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.try(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// template renders the chart.
func (h *helm) template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return h.try(t, append([]string{"template", release, folder, "-n", namespace}, args...)...)
}

var documentEnd = regexp.MustCompile(`(?m)^---\n`)

// objects are those of a rendered chart, as a strict reader finds them.
func objects(t *testing.T, rendered string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, doc := range documentEnd.Split(rendered, -1) {
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(doc), &u.Object); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// find gives the one object of a kind and name.
func find(t *testing.T, of []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, u := range of {
		if u.GetKind() == kind && u.GetName() == name {
			return u
		}
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

func into[T any](t *testing.T, u *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, out, true); err != nil {
		t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
	}
	return out
}
