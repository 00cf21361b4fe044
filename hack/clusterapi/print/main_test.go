package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/test/controlplane"
)

const root = "../../.."

var block = regexp.MustCompile("(?s)\n## What has to be applied first\n.*?\n```sh\n(.*?)```\n")

// What docs/managed.md says has to be applied first is all that an empty API server
// needs to admit what users write, and can be applied again.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/managed.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := block.FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/managed.md has no commands under \"What has to be applied first\"")
	}
	p, err := controlplane.Launch(controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	sh := func(script, stdin string) (string, error) {
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
		cmd.Dir, cmd.Stdin = root, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig, "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, again := range []bool{false, true} {
		if out, err := sh(string(found[1]), ""); err != nil || strings.Contains(out, "Warning") || strings.Count(out, "serverside-applied\n") != 33 {
			t.Fatalf("again %v: %v: %s", again, err, out)
		}
	}
	if out, err := sh("kubectl wait --for=condition=Established --timeout=60s crd --all", ""); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := sh("kubectl get crd -o jsonpath='{range .items[*]}{.status.conditions[?(@.type==\"NonStructuralSchema\")].message}{end}'", ""); err != nil || out != "" {
		t.Errorf("schemas: %v: %s", err, out)
	}
	for name, c := range map[string]struct{ object, say string }{
		"misplaced":  {"apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\nmetadata: {name: misplaced, namespace: default}\nspec: {region: x, vpc: {cidrBlock: 10.0.0.0/16}, subnets: [{id: a}], cidrBlock: 10.0.0.0/8}", ""},
		"mistyped":   {"apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\nmetadata: {name: mistyped, namespace: default}\nspec: {vcp: {}}", `unknown field "spec.vcp"`},
		"two levels": {"apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSClusterTemplate\nmetadata: {name: t, namespace: default}\nspec: {template: {spec: {vpc: {}}}}", ""},
		"registered": {"apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Provider\nmetadata: {name: infrastructure-aws, namespace: default}\nspec: {type: InfrastructureProvider, version: v2.3.0, configSecret: {name: s, namespace: default}}", ""},
		"upstream's": {"apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Provider\nmetadata: {name: cluster-api, namespace: default}\nproviderName: cluster-api\ntype: CoreProvider\nversion: v1.14.2\nwatchedNamespace: \"\"", ""},
		"no name":    {"apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Provider\nmetadata: {name: nameless, namespace: default}\nspec: {type: InfrastructureProvider, configSecret: {}}", "spec.configSecret.name: Required value"},
	} {
		out, err := sh("kubectl apply -f -", c.object)
		if (err == nil) != (c.say == "") || !strings.Contains(out, c.say) {
			t.Errorf("%s: %v: %s, want %q", name, err, out, c.say)
		}
	}
}

func TestFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		say  string
	}{
		"another service": {[]string{"-namespace", "capi", "-service", "s", "-port", "8443"}, ""},
		"webhooks":        {[]string{"-webhooks"}, ""},
		"port":            {[]string{"-port", "99999999"}, "port 65536"},
		"no such file":    {[]string{"-ca-file", "/no/such"}, "--ca-file"},
		"no certificate":  {[]string{"-ca-file", "main.go"}, "no PEM"},
		"words":           {[]string{"aws"}, "want flags only"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(c.args, &out)
			if (err == nil) != (c.say == "") || err != nil && !strings.Contains(err.Error(), c.say) {
				t.Errorf("the error is %v, want %q", err, c.say)
			}
			if (out.Len() > 0) != (c.say == "") {
				t.Errorf("it prints %d letters", out.Len())
			}
			if len(c.args) == 6 && !strings.Contains(out.String(), "name: s\n          namespace: capi\n          path: /convert\n          port: 8443\n") {
				t.Error("it asks another service")
			}
		})
	}
}
