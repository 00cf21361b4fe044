package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const policyHead = "    apiVersion: drift.holdfast.io/v1alpha1\n    kind: DriftPolicy\n    metadata: {name: eu}\n"

// TestRefused: what cannot work is refused before anything is installed, and
// told where it is.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		values string
		want   []string
	}{
		"a field of a policy that there is not": {
			"policies:\n  eu.yaml:\n" + policyHead + "    spec: {mdoe: observe}\n", []string{"eu.yaml", "mdoe"}},
		"a mode that there is not": {
			"policies:\n  eu.yaml:\n" + policyHead + "    spec: {mode: observ}\n", []string{"eu.yaml", "mode"}},
		"a duration that is none": {
			"policies:\n  eu.yaml:\n" + policyHead + "    spec: {schedule: {staleAfter: soon}}\n", []string{"eu.yaml", "staleAfter"}},
		"off without quotes": {
			"policies:\n  eu.yaml:\n" + policyHead + "    spec: {mode: off}\n", []string{"policies: eu.yaml: spec.mode is false", `Write mode: "off"`}},
		"a ratio": {
			"policies:\n  eu.yaml:\n" + policyHead + "    spec: {safety: {maxDriftRatio: 0.3}}\n", []string{"policies: eu.yaml: spec.safety.maxDriftRatio is the number 0.3", `Write maxDriftRatio: "30%"`}},
		"a percentage without its sign": {
			"policies:\n  eu.yaml:\n" + policyHead + "    spec: {safety: {maxUnhealthyZone: 25}}\n", []string{"spec.safety.maxUnhealthyZone is the number 25", `Write maxUnhealthyZone: "25%"`}},
		"a ratio where a number may be": {
			"policies:\n  eu.yaml:\n" + policyHead + "    spec: {safety: {minHealthy: 0.8}}\n", []string{"spec.safety.minHealthy is the number 0.8", `Write minHealthy: "80%"`}},
		"a ratio in a budget": {
			"policies:\n  eu.yaml:\n" + policyHead + "    spec: {budgets: [{scope: cluster, max: 2}, {scope: pool, max: 0.1}]}\n", []string{"spec.budgets[1].max is the number 0.1", `Write max: "10%"`}},
		"a policy as text": {
			"policies:\n  eu.yaml: |\n" + policyHead, []string{"eu.yaml", "object"}},
		"a name without an ending": {
			"policies:\n  eu:\n" + policyHead + "    spec: {mode: observe}\n", []string{`policies: the key "eu" `, ".yaml, .yml or .json", `Write "eu.yaml"`}},
		"a file that the loader does not read": {
			"policies:\n  eu.txt:\n" + policyHead + "    spec: {mode: observe}\n", []string{`policies: the key "eu.txt" `, ".yaml, .yml or .json", `Write "eu.yaml"`}},
		"a file outside of the folder": {
			"policies:\n  ../eu.yaml:\n" + policyHead + "    spec: {mode: observe}\n", []string{`policies: the key "../eu.yaml" `, "letters, digits"}},
		"a hidden file": {
			"policies:\n  .eu.yaml:\n" + policyHead + "    spec: {mode: observe}\n", []string{`policies: the key ".eu.yaml" `, "begin with a letter or a digit"}},
		"a policy that enforces without the rights": {
			"policies:\n  eu.yaml:\n" + policyHead + "    spec: {mode: enforce}\n", []string{"eu.yaml", "mode: enforce", "dryRun"}},
		"a value that there is not":         {"replica: 3\n", []string{"replica"}},
		"a mode of the chart that is none":  {"mode: dryRun\n", []string{"mode"}},
		"a key of config that there is not": {"config: {concurency: 3}\n", []string{"concurency"}},
		"a key of config that is a value":   {"config: {policy: [/tmp]}\n", []string{"policy"}},
		"a number as text in config":        {"config: {concurrency: many}\n", []string{"concurrency"}},
		"a digest that is none":             {"image: {digest: latest}\n", []string{"digest"}},
		"a PodMonitor without a token":      {"metrics: {podMonitor: {enabled: true}}\n", []string{"tokenSecret"}},
		"credentials for no vCenter":        {"vsphere: {credentialsSecret: vcenter}\n", []string{"vsphere.server"}},
		"an alert that there is not":        {"prometheusRule: {enabled: true, alerts: {HoldfastDrift: {enabled: false}}}\n", []string{"HoldfastDrift", "HoldfastCriticalDrift"}},
		"a threshold of what has none":      {"prometheusRule: {enabled: true, alerts: {HoldfastDaemonDown: {threshold: 3}}}\n", []string{"HoldfastDaemonDown", "threshold"}},
		"a gate for nothing":                {"reconcilers: {featureGates: {ClusterTopology: true}}\n", []string{"reconcilers.featureGates", "reconcilers.core.enabled"}},
		"a takeover of nothing":             {"reconcilers: {takeover: true}\n", []string{"reconcilers.takeover"}},
		"reconcilers of one namespace":      {"reconcilers: {core: {enabled: true}}\nwatchNamespace: prod\n", []string{"watchNamespace", "reconcilers.watchFilter"}},
		"reconcilers of no cloud":           {"reconcilers: {gcp: {enabled: true}}\n", []string{"gcp"}},
		"extensions":                        {"reconcilers: {core: {enabled: true}, featureGates: {RuntimeSDK: true}}\n", []string{"RuntimeSDK", "docs/managed.md"}},
		"no workers":                        {"reconcilers: {core: {enabled: true}, concurrency: {machine: 0}}\n", []string{"machine"}},
		"a certificate in no Secret":        {"webhooks: {certificate: {source: secret}}\n", []string{"webhooks.certificate.secretName"}},
		"a Secret that is not used":         {"webhooks: {certificate: {secretName: mine}}\n", []string{"selfManaged", "source: secret"}},
		"an issuer that is not asked":       {"webhooks: {certificate: {issuerRef: {name: mine}}}\n", []string{"selfManaged", "source: certManager"}},
		"one port for two":                  {"reconcilers: {core: {enabled: true}}\nmetrics: {port: 9443}\n", []string{"webhooks.port", "9443"}},
		"a namespace that is none":          {"watchNamespace: Prod\n", []string{"watchNamespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			for major, h := range helms(t) {
				_, err := h.template(t, "-f", valuesFile(t, c.values))
				if err == nil {
					t.Fatalf("Helm %s renders it", major)
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("Helm %s does not say %q: %v", major, want, err)
					}
				}
			}
		})
	}
}

// TestNoPropertyNames: Helm tells of a property's name at the place of whichever
// value it looked at before, so that names are checked by templates alone.
func TestNoPropertyNames(t *testing.T) {
	schema, err := os.ReadFile(filepath.Join(folder, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(schema), "propertyNames") {
		t.Error("values.schema.json checks names of properties: Helm says where at random")
	}
}

func valuesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// render gives the objects of some values.
func render(t *testing.T, values string) (*appsv1.Deployment, string) {
	t.Helper()
	rendered, err := helms(t)["3"].template(t, "-f", valuesFile(t, values))
	if err != nil {
		t.Fatal(err)
	}
	return into[appsv1.Deployment](t, find(t, objects(t, rendered), "Deployment", release)), rendered
}

// TestRestartsAndNone: a change of policies, down to none, leaves the pods as
// they are, and one of the configuration does not.
func TestRestartsAndNone(t *testing.T) {
	before, _ := render(t, "")
	policies, _ := render(t, "policies:\n  eu.yaml:\n"+policyHead+"    spec: {mode: observe}\n")
	if before.Spec.Template.String() != policies.Spec.Template.String() {
		t.Errorf("a policy changes the pods:\n%s\n%s", before.Spec.Template.String(), policies.Spec.Template.String())
	}
	config, _ := render(t, "config: {concurrency: 5}\n")
	if before.Spec.Template.String() == config.Spec.Template.String() {
		t.Error("a change of the configuration does not restart the pods")
	}
	// Without a file the program must not be led to a folder: an empty one is an error.
	_, rendered := render(t, "policies: {default.yaml: null}\n")
	config2 := into[corev1.ConfigMap](t, find(t, objects(t, rendered), "ConfigMap", "holdfast-config"))
	if strings.Contains(config2.Data["config.yaml"], "/etc/holdfast/policies") {
		t.Errorf("no policies, and a folder of them: %s", config2.Data["config.yaml"])
	}
}

// TestNumbersOfMachines: what may be a number stays one.
func TestNumbersOfMachines(t *testing.T) {
	for _, h := range helms(t) {
		if _, err := h.template(t, "-f", valuesFile(t, "policies:\n  eu.yaml:\n"+policyHead+"    spec: {mode: \"off\", safety: {minHealthy: 2}, budgets: [{scope: pool, max: 1}, {scope: zone, max: 10%}]}\n")); err != nil {
			t.Error(err)
		}
	}
}

// TestMemoryLimit: GOMEMLIMIT is four fifths of the limit in each unit.
func TestMemoryLimit(t *testing.T) {
	for limit, want := range map[string]string{"1Gi": "819MiB", "512Mi": "409MiB", "1G": "", "null": ""} {
		d, _ := render(t, "resources: {limits: {memory: "+limit+"}}\n")
		got := ""
		for _, e := range d.Spec.Template.Spec.Containers[0].Env {
			if e.Name == "GOMEMLIMIT" {
				got = e.Value
			}
		}
		if got != want {
			t.Errorf("limit %s: GOMEMLIMIT %q, want %q", limit, got, want)
		}
	}
}
