package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/hack/clusterapi"
	"github.com/holdfast-io/holdfast/test/management"
)

// clusterctl runs upstream's program on a management cluster, as a user does who
// is not connected to anything else, and gives what it prints.
func clusterctl(t *testing.T, g *management.Ground, args ...string) string {
	t.Helper()
	program := os.Getenv("HOLDFAST_CLUSTERCTL")
	if program == "" {
		t.Fatal("HOLDFAST_CLUSTERCTL is not set: run the tests by hack/test.sh, or set it to the output of hack/clusterctl/build.sh")
	}
	home := t.TempDir()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+g.Kubeconfig, "HOME="+home, "XDG_CONFIG_HOME="+home, "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "NO_COLOR=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("clusterctl %s: %v\n%s%s", strings.Join(args, " "), err, &errs, &out)
	}
	return out.String()
}

// kubectl runs it by a kubeconfig.
func kubectl(t *testing.T, kubeconfig, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// inventory is what docs/managed.md says is to be applied for clusterctl.
func inventory(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/managed.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)\n### With clusterctl\n.*?\n```yaml\n(.*?)```\n").FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/managed.md has no Provider objects under \"With clusterctl\"")
	}
	return string(found[1])
}

// repository makes a clusterctl configuration whose releases are in a folder: those
// that are compiled in, by what upstream says of them.
func repository(t *testing.T) (file string, versions map[string]string) {
	t.Helper()
	dir := t.TempDir()
	config, versions := "providers:\n", map[string]string{}
	for _, p := range []struct{ label, name, kind, module string }{
		{"cluster-api", "cluster-api", "CoreProvider", "sigs.k8s.io/cluster-api"},
		{"bootstrap-kubeadm", "kubeadm", "BootstrapProvider", "sigs.k8s.io/cluster-api"},
		{"control-plane-kubeadm", "kubeadm", "ControlPlaneProvider", "sigs.k8s.io/cluster-api"},
		{"infrastructure-aws", "aws", "InfrastructureProvider", "sigs.k8s.io/cluster-api-provider-aws/v2"},
		{"infrastructure-vsphere", "vsphere", "InfrastructureProvider", "sigs.k8s.io/cluster-api-provider-vsphere"},
	} {
		module, err := clusterapi.ModuleDir(p.module)
		if err != nil {
			t.Fatal(err)
		}
		version := module[strings.LastIndex(module, "@")+1:]
		metadata, err := os.ReadFile(filepath.Join(module, "metadata.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		release := filepath.Join(dir, p.label, version)
		if err := os.MkdirAll(release, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(release, "metadata.yaml"), metadata, 0o600); err != nil {
			t.Fatal(err)
		}
		config += fmt.Sprintf("- {name: %s, type: %s, url: %q}\n", p.name, p.kind, "file://"+filepath.Join(release, "components.yaml"))
		versions[p.label] = version
	}
	file = filepath.Join(dir, "clusterctl.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, versions
}
