package alerts

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/running"
)

var live = flag.Bool("alerts.live", false, "have each alert fire and resolve in a real Prometheus, which takes minutes")

// patience is for how long an alert may take, on a machine that does much else.
const patience = 4 * time.Minute

// situation is what an alert is about.
type situation struct {
	what string
	// alerts fire once cause has happened, and resolve once end has.
	alerts []string
	cause  func(*world)
	end    func(*world)
}

var situations = []situation{
	whatDrifts(), whatIsIgnored(),
	{
		what: "a policy file is broken", alerts: []string{"HoldfastPolicyInvalid"},
		cause: func(w *world) { w.d.SetPolicy(w.t, "kind: DriftPolicy\nspec: {mode: sometimes}\n") },
		end:   func(w *world) { w.follow(w.policy) },
	},
	unreadable(), throttled(),
	{
		what: "someone changes most machines at once", alerts: []string{"HoldfastBreakerOpen"},
		cause: func(w *world) { w.tag(workers, "dev") },
		end:   func(w *world) { w.tag(workers, "prod") },
	},
	{
		what: "the access key is revoked", alerts: []string{"HoldfastCredentialsFailing", "HoldfastSweepStale"},
		cause: func(w *world) { w.sim.RevokeCredential(w.daemonKey.AccessKeyID) },
		end: func(w *world) {
			w.sim.AddCredential(w.daemonKey)
			w.sweep()
		},
	},
	unapproved(), failing(), lasting(),
	{
		what: "the controller is stopped", alerts: []string{"HoldfastDaemonDown"},
		cause: func(w *world) { w.d.Stop(w.t) },
		end:   func(w *world) { w.start() },
	},
}

func whatDrifts() situation {
	var undo func()
	return situation{
		what: "a security group is opened to the world", alerts: []string{"HoldfastCriticalDrift", "HoldfastPersistentDrift"},
		cause: func(w *world) { undo = w.tamper("SSH opened to the world") },
		end:   func(*world) { undo() },
	}
}

func whatIsIgnored() situation {
	return situation{
		what: "drift is accepted until tomorrow, and then for a month", alerts: []string{"HoldfastIgnoreExpiring"},
		cause: func(w *world) {
			s := w.policy
			s.expires = time.Now().Add(24 * time.Hour)
			w.follow(s)
			w.tag(1, "dev")
		},
		end: func(w *world) {
			s := w.policy
			s.expires = time.Now().Add(30 * 24 * time.Hour)
			w.follow(s)
		},
	}
}

func unreadable() situation {
	var allow func()
	return situation{
		what: "volumes may not be listed", alerts: []string{"HoldfastIncompleteCoverage"},
		cause: func(w *world) {
			s := w.policy
			s.expires = time.Time{}
			w.follow(s)
			w.tag(1, "prod")
			allow = w.sim.InjectFault(ec2sim.Fault{Action: "DescribeVolumes", Kind: ec2sim.FaultError, Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation", Status: http.StatusForbidden})
			w.sweep()
		},
		end: func(w *world) {
			allow()
			w.sweep()
		},
	}
}

func throttled() situation {
	var calm func()
	return situation{
		what: "others use up the account's quota", alerts: []string{"HoldfastCloudThrottled"},
		cause: func(w *world) {
			calm = w.sim.InjectFault(ec2sim.Fault{Action: "Describe*", Kind: ec2sim.FaultError, Code: "RequestLimitExceeded", Message: "Request limit exceeded", Status: http.StatusServiceUnavailable})
			w.sweep()
		},
		end: func(w *world) {
			calm()
			w.sweep()
		},
	}
}

func unapproved() situation {
	return situation{
		what: "a repair wants an approval", alerts: []string{"HoldfastBlockedTooLong"},
		cause: func(w *world) {
			w.follow(settings{mode: "enforce", approval: "required"})
			w.tag(1, "dev")
		},
		end: func(w *world) { w.holdfast("remediations", "approve", w.record(driftv1.PhaseAwaitingApproval)) },
	}
}

// failing has the cloud refuse a repair until it is given up.
func failing() situation {
	var allow func()
	return situation{
		what: "the cloud refuses a repair, each time", alerts: []string{"HoldfastRemediationFailing", "HoldfastRemediationLatched"},
		cause: func(w *world) {
			w.follow(settings{mode: "enforce", approval: "none"})
			allow = w.sim.InjectFault(ec2sim.Fault{Service: "ec2", Action: "CreateTags", Kind: ec2sim.FaultError, Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation", Status: http.StatusForbidden, From: 2})
			w.tamper("name tag changed") // this call is the first
		},
		end: func(w *world) {
			name := w.record(driftv1.PhaseLatched)
			allow()
			w.holdfast("remediations", "retry", name)
		},
	}
}

// lasting has a repair stay in flight for a while: no alert is about it, but
// dashboards show it.
func lasting() situation {
	var allow func()
	return situation{
		what: "the cloud does not tell what became of a repair",
		cause: func(w *world) {
			allow = w.sim.InjectFault(ec2sim.Fault{Service: "ec2", Action: "CreateTags", Kind: ec2sim.FaultError, Code: "InternalError", Message: "An internal error has occurred", Status: http.StatusInternalServerError, From: 2})
			w.tag(1, "dev") // this call is the first; two would open a breaker
			for _, series := range []string{"holdfast_remediations_in_flight", `holdfast_findings_blocked{reason="Budget"}`} {
				running.Eventually(w.t, patience, "shown: "+series, func() error {
					if n, err := w.prometheus.query(w.t.Context(), series); err != nil || n == 0 {
						return errors.Join(fmt.Errorf("%d series", n), err)
					}
					return nil
				})
			}
		},
		end: func(*world) { allow() },
	}
}

// notDriven are the alerts that no situation here brings about, and why.
var notDriven = map[string]string{}

// TestAlertsFire: a real Prometheus scrapes a real controller, and each alert
// fires when what it is about happens and resolves when that ends. In the end
// every query of the dashboards gives data.
func TestAlertsFire(t *testing.T) {
	driven := map[string]bool{}
	for _, s := range situations {
		for _, name := range s.alerts {
			driven[name] = true
		}
	}
	for _, r := range rules(t, true) {
		if driven[r.Alert] == (notDriven[r.Alert] != "") {
			t.Errorf("%s: driven is %v, and why not is %q", r.Alert, driven[r.Alert], notDriven[r.Alert])
		}
	}
	if !*live {
		t.Skip("runs with -alerts.live (make alerts)")
	}
	w := newWorld(t)
	if code := w.scrape(""); code != http.StatusUnauthorized {
		t.Errorf("/metrics without a token: %d, want 401", code)
	}
	if code := w.scrape(w.token("nobody")); code != http.StatusForbidden {
		t.Errorf("/metrics for somebody without rights: %d, want 403", code)
	}
	w.quiet()
	for i := range situations {
		w.play(&situations[i])
	}
	w.ask()
	if err := w.prometheus.healthy(t.Context()); err != nil {
		t.Error(err)
	}
}

// quiet waits until the controller has been scraped and nothing is the matter.
func (w *world) quiet() {
	w.t.Helper()
	running.Eventually(w.t, patience, "quiet", func() error {
		if n, err := w.prometheus.query(w.t.Context(), "holdfast_sweep_last_success_timestamp_seconds"); err != nil || n == 0 {
			return errors.Join(fmt.Errorf("%d series of sweeps", n), err)
		}
		for _, r := range rules(w.t, true) {
			if found, err := w.prometheus.firing(w.t.Context(), r.Alert); err != nil || len(found) > 0 {
				return errors.Join(fmt.Errorf("%s fires: %v", r.Alert, found), err)
			}
		}
		return nil
	})
}

// play causes a situation, waits for its alerts, ends it and waits until they
// are gone.
func (w *world) play(s *situation) {
	w.t.Helper()
	w.t.Logf("%s (%s)", s.what, time.Since(w.begun).Round(time.Second))
	for _, name := range s.alerts {
		w.fires(name, false)
	}
	begun := time.Now()
	s.cause(w)
	for _, name := range s.alerts {
		a := w.fires(name, true)
		w.t.Logf("%s after %s: %s", name, time.Since(begun).Round(time.Second), a.Annotations["description"])
		w.readable(name, &a)
	}
	begun = time.Now()
	s.end(w)
	for _, name := range s.alerts {
		w.fires(name, false)
		w.t.Logf("%s resolved after %s", name, time.Since(begun).Round(time.Second))
	}
}

// fires waits until an alert fires, or does not any more.
func (w *world) fires(name string, want bool) (first alert) {
	w.t.Helper()
	state := "over: " + name
	if want {
		state = "firing: " + name
	}
	running.Eventually(w.t, patience, state, func() error {
		found, err := w.prometheus.firing(w.t.Context(), name)
		if err != nil {
			return err
		}
		if len(found) > 0 != want {
			return fmt.Errorf("%d fire: %v", len(found), found)
		}
		if want {
			first = found[0]
		}
		return nil
	})
	return first
}

// readable looks whether the texts say what and where.
func (w *world) readable(name string, a *alert) {
	w.t.Helper()
	everywhere := []string{"HoldfastPolicyInvalid", "HoldfastDaemonDown", "HoldfastCloudThrottled"}
	cluster := w.env.Cluster.Namespace + "/" + w.env.Cluster.Name
	for _, text := range []string{a.Annotations["summary"], a.Annotations["description"]} {
		if strings.Contains(text, "error") || strings.Contains(text, "<no value>") || !slices.Contains(everywhere, name) && !strings.Contains(text, cluster) {
			w.t.Errorf("%s says %q", name, text)
		}
	}
}
