package management_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/test/management"
)

// kubectl runs it as a user does; the error has what it says.
func kubectl(t *testing.T, g *management.Ground, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--kubeconfig", g.Kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A user's manifests are admitted as they are, and the user is told which field is
// meant. What is not a likely mistake is refused as ever.
func TestApplied(t *testing.T) {
	g := management.Start(t)
	out, err := kubectl(t, g, "", "apply", "-f", "testdata/aws-cluster.yaml")
	t.Cleanup(func() {
		if out, err := kubectl(t, g, "", "delete", "--wait=false", "-f", "testdata/aws-cluster.yaml"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	if err != nil || strings.Count(out, " created\n") != 4 {
		t.Fatalf("%v: %s", err, out)
	}
	const warning = "Warning: spec.vpc is not a field of AWSCluster; you mean spec.network.vpc (docs/managed.md#misplaced-fields)\n"
	if strings.Count(out, warning) != 1 {
		t.Errorf("it is applied with\n%s\nwant %s", out, warning)
	}
	// It is kept, so that a condition can say so too, and has no effect.
	for path, want := range map[string]string{".spec.vpc.cidrBlock": "10.0.0.0/16", ".spec.network.vpc.cidrBlock": ""} {
		if out, err := kubectl(t, g, "", "get", "awscluster", "my-cluster", "-o", "jsonpath={"+path+"}"); err != nil || out != want {
			t.Errorf("%s is %q, want %q, %v", path, out, want, err)
		}
	}
	// Both versions of Cluster API's kinds are served.
	for version, path := range map[string]string{"v1beta1": ".spec.infrastructureRef.apiVersion", "v1beta2": ".spec.infrastructureRef.apiGroup"} {
		out, err := kubectl(t, g, "", "get", "clusters."+version+".cluster.x-k8s.io", "my-cluster", "-o", "jsonpath={"+path+"}")
		if err != nil || !strings.Contains(out, "infrastructure.cluster.x-k8s.io") {
			t.Errorf("in %s the cluster's %s is %q, %v", version, path, out, err)
		}
	}
	mistyped := "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\nmetadata: {name: mistyped, namespace: " + g.Namespace + "}\nspec: {vcp: {cidrBlock: 10.0.0.0/16}}\n"
	if out, err := kubectl(t, g, mistyped, "apply", "-f", "-"); err == nil || !strings.Contains(out, `unknown field "spec.vcp"`) {
		t.Errorf("a field that nobody means: %v: %s", err, out)
	}
	for _, again := range []bool{false, true} {
		if out, err := kubectl(t, g, "", "apply", "-f", "testdata/provider.yaml"); err != nil || strings.Contains(out, "Warning") {
			t.Errorf("Provider, again %v: %v: %s", again, err, out)
		}
	}
}

// CAPV's kinds are served in two versions and converted by the code of its types,
// also the one that upstream's own manifests leave out.
func TestConverted(t *testing.T) {
	g := management.Start(t)
	for _, o := range []string{
		"kind: VSphereCluster\nspec: {server: vcenter.example.com, thumbprint: x}",
		"kind: VSphereClusterIdentity\nspec: {secretName: s}",
	} {
		kind := strings.ToLower(strings.Fields(o)[1])
		name := "converted-" + g.Namespace
		text := "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nmetadata: {name: " + name + ", namespace: " + g.Namespace + "}\n" + o
		if kind == "vsphereclusteridentity" { // it is the cluster's
			text = strings.Replace(text, ", namespace: "+g.Namespace, "", 1)
		}
		if out, err := kubectl(t, g, text, "apply", "-f", "-"); err != nil {
			t.Errorf("%s: %v: %s", kind, err, out)
			continue
		}
		plural := strings.TrimSuffix(kind, "y") + map[bool]string{true: "ies", false: "s"}[strings.HasSuffix(kind, "y")]
		for version, want := range map[string]bool{"v1beta1": true, "v1beta2": false} {
			out, err := kubectl(t, g, "", "get", plural+"."+version+".infrastructure.cluster.x-k8s.io", name, "-n", g.Namespace, "-o", "yaml")
			// CAPV's conversion notes what the older version cannot say.
			if err != nil || strings.Contains(out, "cluster.x-k8s.io/conversion-data") != want {
				t.Errorf("%s in %s: %v: %s", kind, version, err, out)
			}
		}
		if out, err := kubectl(t, g, text, "delete", "--wait=false", "-f", "-"); err != nil {
			t.Errorf("%s: %v: %s", kind, err, out)
		}
	}
}
