package chart

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/reconcilers/policy"
	"github.com/holdfast-io/holdfast/test/running"
)

const (
	patience = 90 * time.Second

	// quick has the program not wait for what the simulator does not need, and leave
	// out the Nodes, which a cluster without kubelets has not.
	quick = "nodes: false\nconfig: {startSpread: 0s, creationGrace: 1s, verifyAfter: 1s, pollInterval: 1s}\n" +
		"metrics: {readers: [{namespace: monitoring, name: prometheus-k8s}]}\n"

	atOnce = `policies:
  prod.yaml:
    apiVersion: drift.holdfast.io/v1alpha1
    kind: DriftPolicy
    metadata: {name: prod}
    spec:
      match: {clusters: [{namespace: prod, name: "*"}]}
      mode: MODE
      safety: {maxDriftRatio: 100%, minHealthy: 0%}
      rules:
      - {id: aws-instance-tags, action: patch, grace: {for: 0s, observations: 1}}
`
	// The schema knows no kinds, the loader does.
	unknownKind = "      - {id: mine, target: {provider: aws, kind: Instanze}, paths: [/instanceType], action: observe}\n"
)

// values are those of a policy for prod in a mode, with more lines of rules.
func values(mode string, rules ...string) string {
	return quick + strings.Replace(atOnce, "MODE", mode, 1) + strings.Join(rules, "")
}

// testProgram runs the program as the chart's ServiceAccount, with the chart's
// configuration and policies, on a simulated EC2.
func testProgram(t *testing.T, c *cluster) {
	w := newWorld(t, c)
	c.ledger = newLedger(t, c.config)
	t.Run("policies by upgrade", func(t *testing.T) { testUpgradedPolicies(t, c, w) })
	t.Run("observing", func(t *testing.T) { testObserving(t, c, w) })
	t.Run("one namespace", func(t *testing.T) { testOneNamespace(t, c, w) })
}

// install installs the chart until the test ends, and gives what upgrades it.
func (c *cluster) install(t *testing.T, text string, args ...string) func(text string, args ...string) {
	t.Helper()
	h := c.helm(t, "3")
	apply := func(text string, args ...string) {
		t.Helper()
		h.run(t, append([]string{"upgrade", "--install", release, folder, "-n", namespace, "-f", valuesFile(t, text)}, args...)...)
	}
	apply(text, args...)
	t.Cleanup(func() { must(h.try(t, "uninstall", release, "-n", namespace))(t) })
	return apply
}

// testUpgradedPolicies: a policy that helm upgrade changes takes effect without a
// restart; a broken one does not, and says so; and the chart's rights are enough
// for a repair.
func testUpgradedPolicies(t *testing.T, c *cluster, w *world) {
	upgrade := c.install(t, values("observe"), "--set", "mode=enforce")
	p := c.start(t, w.environ()...)
	w.inSync(t, c)
	if err := p.has(t, `holdfast_sink_errors_total{reason="status"} 0`); err != nil {
		t.Error(err)
	}

	machine := w.tamper(t, "tag changed")
	w.sweep(t, c)
	running.Eventually(t, patience, "shown", func() error { return c.drift(t, machine, metav1.ConditionTrue) })
	if calls := w.calls(); len(calls) > 0 {
		t.Fatalf("the policy observes, and the program calls %v", calls)
	}
	upgrade(values("enforce"), "--set", "mode=enforce")
	p.mount(t)
	running.Eventually(t, patience, "repaired", func() error { return c.succeeded(t) })
	running.Eventually(t, patience, "in sync again", func() error { return c.drift(t, machine, metav1.ConditionFalse) })

	// It is broken, and would switch everything off.
	upgrade(values(`"off"`, unknownKind), "--set", "mode=enforce")
	p.mount(t)
	running.Eventually(t, patience, "told to be broken", func() error { return p.has(t, `holdfast_policy_valid{policy="`+p.policies+`/prod.yaml"} 0`) })
	if log := p.log.String(); !strings.Contains(log, "Instanze") {
		t.Errorf("the log does not say what is wrong:\n%s", log)
	}
	running.Eventually(t, patience, "told by an event", func() error {
		return c.told(t, policy.EventInvalid, "prod.yaml", "Instanze", "last good version stays")
	})
	c.forget(t)
	w.tamper(t, "tags removed")
	w.sweep(t, c)
	running.Eventually(t, patience, "repaired by the last good policy", func() error { return c.succeeded(t) })

	c.helm(t, "3").run(t, "rollback", release, "2", "-n", namespace)
	p.mount(t)
	running.Eventually(t, patience, "good again", func() error { return p.has(t, `holdfast_policy_valid{policy="`+p.policies+`/prod.yaml"} 1`) })
	running.Eventually(t, patience, "told by an event", func() error { return c.told(t, policy.EventValid, "prod.yaml") })
	p.stop(t)
}

// testObserving: without the rights nothing is repaired, whatever a DriftPolicy
// object says, and the log tells of what is not allowed.
func testObserving(t *testing.T, c *cluster, w *world) {
	c.install(t, quick)
	c.forget(t)
	var eager struct {
		Policies map[string]*driftv1.DriftPolicy `json:"policies"`
	}
	if err := yaml.UnmarshalStrict([]byte(strings.Replace(atOnce, "MODE", "enforce", 1)), &eager); err != nil {
		t.Fatal(err)
	}
	policyObject := eager.Policies["prod.yaml"]
	if err := c.client.Create(t.Context(), policyObject); err != nil {
		t.Fatal(err)
	}
	gone := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := c.client.Delete(gone, policyObject); err != nil {
			t.Error(err)
		}
	})
	p := c.start(t, w.environ()...)
	w.inSync(t, c)
	machine := w.tamper(t, "tag spelled in lower case")
	w.sweep(t, c)
	running.Eventually(t, patience, "shown", func() error { return c.drift(t, machine, metav1.ConditionTrue) })
	running.Eventually(t, patience, "told what is not allowed", func() error {
		if log := p.log.String(); !strings.Contains(lines(log, "forbidden"), "cannot create resource \\\"remediations\\\"") {
			return fmt.Errorf("the log says %q", lines(log, "forbidden"))
		}
		return nil
	})
	if n := len(c.records(t)); n > 0 {
		t.Errorf("an observing install has made %d records", n)
	}
	if calls := w.calls(); len(calls) > 0 {
		t.Errorf("an observing install calls %v", calls)
	}
	p.stop(t, "forbidden")
	w.undo(t)
}

// testOneNamespace: the Roles of one namespace are enough for a repair there, and
// that of the release's for an event about a broken file.
func testOneNamespace(t *testing.T, c *cluster, w *world) {
	args := []string{"--set", "mode=enforce", "--set", "watchNamespace=prod", "--set", "rbac.secretNamespaces={capa-system}"}
	upgrade := c.install(t, values("enforce"), args...)
	c.forget(t)
	p := c.start(t, w.environ()...)
	w.inSync(t, c)
	w.tamper(t, "tag spelled in lower case")
	w.sweep(t, c)
	running.Eventually(t, patience, "repaired", func() error { return c.succeeded(t) })
	upgrade(values("enforce", strings.Replace(unknownKind, "Instanze", "Maschine", 1)), args...)
	p.mount(t)
	running.Eventually(t, patience, "told by an event", func() error { return c.told(t, policy.EventInvalid, "prod.yaml", "Maschine") })
	p.stop(t)
}

// records are the Remediations that there are.
func (c *cluster) records(t *testing.T) []driftv1.Remediation {
	t.Helper()
	list := &driftv1.RemediationList{}
	if err := c.client.List(t.Context(), list, client.InNamespace("prod")); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// forget deletes them.
func (c *cluster) forget(t *testing.T) {
	t.Helper()
	if err := c.client.DeleteAllOf(t.Context(), &driftv1.Remediation{}, client.InNamespace("prod")); err != nil {
		t.Fatal(err)
	}
}

// succeeded wants Remediations, and all of them to have succeeded.
func (c *cluster) succeeded(t *testing.T) error {
	t.Helper()
	records := c.records(t)
	for _, r := range records {
		if r.Status.Phase != driftv1.PhaseSucceeded {
			return fmt.Errorf("Remediation %s is %q: %s %s", r.Name, r.Status.Phase, r.Status.Reason, r.Status.Message)
		}
	}
	if len(records) == 0 {
		return errors.New("there is no Remediation")
	}
	return nil
}
