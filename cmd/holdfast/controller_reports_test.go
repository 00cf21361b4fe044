package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/holdfast-io/holdfast/reconcilers/reports"
)

// TestControllerReports runs the program with exactly the rights that docs name
// and the CRD of the chart: it keeps Reports of what drifts, and removes them when
// the flag is taken away.
func TestControllerReports(t *testing.T) {
	w := newAWSWorld(t)
	m := newManagement(t, w.env.Objects()...)
	if err := openreports.Install(m.client.Scheme()); err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(m.cfg, envtest.CRDInstallOptions{ErrorIfPathMissing: true,
		Paths: []string{filepath.Join("..", "..", "charts", "holdfast", "files", "openreports")}}); err != nil {
		t.Fatal(err)
	}
	account := m.observer(t)
	m.bind(t, "controller-reports.yaml")
	machine := w.tamperMachine(t, "tag changed")
	d := startDaemon(t, account, "--leader-election-namespace", "holdfast-system", "--reports")
	list := func() []openreports.Report {
		t.Helper()
		l := &openreports.ReportList{}
		if err := m.client.List(t.Context(), l, client.InNamespace(machine.Namespace), client.HasLabels{reports.LabelCluster}); err != nil {
			t.Fatal(err)
		}
		return l.Items
	}
	eventually(t, "a report of the drift", func() error {
		for _, r := range list() {
			for _, result := range r.Results {
				if result.Result == "fail" && r.Labels[reports.LabelPool] != "" && strings.Contains(result.Description, "/tags/") {
					return nil
				}
			}
		}
		return fmt.Errorf("none in %d reports", len(list()))
	})
	fine := func(d *daemon) {
		t.Helper()
		if code := d.stop(t); code != exitOK {
			t.Errorf("exit %d after SIGTERM, want 0", code)
		}
		for _, line := range strings.Split(d.log.String(), "\n") {
			if strings.Contains(line, "forbidden") || strings.Contains(line, `"level":"error"`) {
				t.Errorf("the log has errors: %s", line)
			}
		}
	}
	fine(d)
	w.unchanged(t)
	d = startDaemon(t, account, "--leader-election-namespace", "holdfast-system")
	eventually(t, "the reports are removed", func() error {
		if n := len(list()); n > 0 {
			return fmt.Errorf("%d reports", n)
		}
		return nil
	})
	fine(d)
}
