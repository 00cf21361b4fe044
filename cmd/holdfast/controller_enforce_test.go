package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// tagsAtOnce sets tags back as soon as they are seen to differ.
const tagsAtOnce = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: at-once}
spec:
  mode: enforce
  safety: {maxDriftRatio: 100%, minHealthy: 0%}
  rules:
  - {id: aws-instance-tags, action: patch, grace: {for: 0s, observations: 1}}
`

// listener is somebody who is told.
type listener struct {
	*httptest.Server
	heard syncBuffer
}

func listen(t *testing.T) *listener {
	t.Helper()
	l := &listener{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&l.heard, io.LimitReader(r.Body, 1<<20))
	}))
	t.Cleanup(l.Close)
	return l
}

// config is a configuration file that tells it.
func (l *listener) config(t *testing.T) string {
	t.Helper()
	url := write(t, "url", "generic+"+l.URL+"/?template=json")
	return write(t, "config.yaml", header+"notify:\n  routes:\n  - {name: ops, url: {file: "+url+"}, rate: {every: 1s}}\n")
}

// repairs runs a controller through the repair of a tag.
func repairs(t *testing.T, w *awsWorld, m *management, l *listener, args ...string) {
	t.Helper()
	d := startDaemon(t, m.account(t), append([]string{"--config", l.config(t), "--policy", write(t, "policy.yaml", tagsAtOnce),
		"--verify-after", "1s", "--poll-interval", "1s"}, args...)...)
	eventually(t, "ready", func() error { return d.probe("/readyz") })
	worker := client.ObjectKeyFromObject(w.env.Machines[len(w.env.Machines)-1])
	eventually(t, "in sync", func() error { return m.condition(t.Context(), worker, metav1.ConditionFalse) })

	machine := w.tamperMachine(t, "tag changed")
	m.sweepNow(t, w.env.Cluster, "1")
	eventually(t, "repaired", func() error {
		list := &v1alpha1.RemediationList{}
		if err := m.client.List(t.Context(), list, client.InNamespace(machine.Namespace)); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Status.Phase != v1alpha1.PhaseSucceeded {
			return fmt.Errorf("records: %+v", list.Items)
		}
		return nil
	})
	if n := len(w.sim.Mutations()) - w.built; n != 1 {
		t.Errorf("%d calls that change something, want the one that sets the tag back", n)
	}
	eventually(t, "in sync again", func() error { return m.condition(t.Context(), machine, metav1.ConditionFalse) })
	eventually(t, "told", func() error {
		for _, word := range []string{"new finding", "remediation succeeded"} {
			if !strings.Contains(strings.ToLower(l.heard.String()), word) {
				return fmt.Errorf("nobody said %q: %s", word, l.heard.String())
			}
		}
		return nil
	})
	if code := d.stop(t); code != exitOK {
		t.Errorf("exit %d after SIGTERM, want 0", code)
	}
	for _, line := range strings.Split(d.log.String(), "\n") {
		if strings.Contains(line, "forbidden") || strings.Contains(line, "panic") || strings.Contains(line, `"level":"error"`) {
			t.Errorf("the log has errors: %s", line)
		}
	}
}

// TestControllerEnforces repairs a tag as a ServiceAccount that may do exactly
// what docs/controller-observe.yaml and docs/controller-enforce.yaml say, and
// tells of it.
func TestControllerEnforces(t *testing.T) {
	w := newAWSWorld(t)
	m := newManagement(t, w.env.Objects()...)
	m.kubectl(t, "", "create", "namespace", "holdfast-system")
	m.bind(t, "controller-observe.yaml")
	m.bind(t, "controller-enforce.yaml")
	repairs(t, w, m, listen(t), "--leader-election-namespace", "holdfast-system")
}
