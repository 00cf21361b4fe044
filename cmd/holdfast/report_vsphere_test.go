package main

import (
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/detector"
)

func TestVSphereReport(t *testing.T) {
	w := newVSphereWorld(t)
	if o := w.report(t); o.code != 0 {
		t.Errorf("untouched: exit %d, want 0\n%s\n%s", o.code, o.stdout, o.stderr)
	}
	if calls := w.vcenter.Log.Mutating(); len(calls) > 0 {
		t.Errorf("a report made changing calls: %v", calls)
	}
}

// TestVSphereReportCannotLook covers what keeps a report from looking at a
// vCenter.
func TestVSphereReportCannotLook(t *testing.T) {
	tests := map[string]struct {
		breaks func(*testing.T, *vsphereWorld)
		say    string
	}{
		"dead vCenter": {
			breaks: func(_ *testing.T, w *vsphereWorld) { w.vcenter.Close() },
			say:    "connection refused",
		},
		"another certificate": {
			breaks: func(t *testing.T, w *vsphereWorld) {
				w.env.VSphereCluster.Spec.Thumbprint = strings.Repeat("AA:", 19) + "AA"
				if err := w.env.Write(w.objects); err != nil {
					t.Fatal(err)
				}
			},
			say: "thumbprint",
		},
		"wrong password": {
			breaks: func(t *testing.T, w *vsphereWorld) {
				for _, s := range w.env.Secrets {
					s.Data["password"] = []byte("wrong")
				}
				if err := w.env.Write(w.objects); err != nil {
					t.Fatal(err)
				}
			},
			say: "CredentialsUnavailable",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newVSphereWorld(t)
			tc.breaks(t, w)
			o := w.report(t, "--timeout", "60s")
			got := statuses(o.parse(t))
			if o.code != 3 {
				t.Errorf("exit %d, want 3\n%s", o.code, o.stderr)
			}
			if got[detector.Missing]+got[detector.Drifted] > 0 || got[detector.NotChecked] == 0 {
				t.Errorf("a report that could not look found %v", got)
			}
			if !strings.Contains(o.stdout, tc.say) {
				t.Errorf("the report does not say %q:\n%s", tc.say, o.stdout)
			}
		})
	}
}
