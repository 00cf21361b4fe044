package canary

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	vim "github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/running"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// forms are the ways in which a secret may show: as it is, in hex, as URLs and
// JSON write it, and in base64, where what stands before it shifts the letters.
func forms(secret string) map[string]string {
	out := map[string]string{
		"plain": secret, "hex": hex.EncodeToString([]byte(secret)),
		"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "JSON": strings.ReplaceAll(secret, "&", `\u0026`), "HTML": strings.ReplaceAll(secret, "&", "&amp;"),
	}
	for shift := range 3 {
		// Only whole groups of three bytes that the secret fills alone.
		inner := secret[(3-shift)%3:]
		inner = inner[:len(inner)/3*3]
		out[fmt.Sprintf("base64 after %d bytes", shift)] = base64.StdEncoding.EncodeToString([]byte(inner))
		out[fmt.Sprintf("base64url after %d bytes", shift)] = base64.RawURLEncoding.EncodeToString([]byte(inner))
	}
	return out
}

// leaks fails the test for each secret that shows.
func leaks(t *testing.T, shown map[string]string) {
	t.Helper()
	for where, text := range shown {
		lower := strings.ToLower(text)
		for _, secret := range canaries() {
			for form, value := range forms(secret) {
				at := strings.Index(text, value)
				if form == "hex" {
					at = strings.Index(lower, value)
				}
				if at >= 0 {
					t.Errorf("%s shows %s (%s): …%s…", where, secret, form, text[max(0, at-200):min(len(text), at+len(value)+50)])
				}
			}
		}
	}
}

// The forms must be found where they are, or the test could not fail.
func TestFormsAreFound(t *testing.T) {
	const secret = canaryAWSKey
	for before := range 4 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret + "after"))
		found := false
		for _, form := range forms(secret) {
			found = found || strings.Contains(text, form)
		}
		if !found {
			t.Errorf("not found in base64 after %d bytes", before)
		}
	}
}

// tamper changes tags and VMX keys: some to other secrets.
func (w *world) tamper(t *testing.T) {
	t.Helper()
	c := ec2.NewFromConfig(w.sim.ConfigFor(w.operator, region))
	var ids []string
	for _, m := range w.aws.AWSMachines[3:6] {
		ids = append(ids, *m.Spec.InstanceID)
	}
	if _, err := c.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: ids, Tags: []types.Tag{{Key: aws.String("Environment"), Value: aws.String("dev")}}}); err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"guestinfo.userdata", "vendor.password", "vendor.note"} {
		vm, err := w.vsphere.VirtualMachine(t.Context(), w.vsphere.VSphereVMs[3+i].Spec.BiosUUID)
		if err != nil || vm == nil {
			t.Fatalf("virtual machine: %v, %v", vm, err)
		}
		task, err := vm.Reconfigure(t.Context(), vim.VirtualMachineConfigSpec{ExtraConfig: []vim.BaseOptionValue{&vim.OptionValue{Key: key, Value: canaryChanged}}})
		if err == nil {
			err = task.WaitEx(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fail has each cloud fail in the ways that errors quote what was sent, a
// program each, which does not wait as one does that has met a failure. The
// other cloud answers. It gives what shows.
func (w *world) fail(t *testing.T, shown map[string]string) {
	t.Helper()
	faults := []func() (undo func()){
		func() func() {
			return w.sim.InjectFault(ec2sim.Fault{Service: "ec2", Kind: ec2sim.FaultError, Code: "AuthFailure", Message: "AWS was not able to validate the provided access credentials", Status: 401})
		},
		func() func() { return w.sim.InjectFault(ec2sim.Fault{Kind: ec2sim.FaultMalformed}) },
		func() func() {
			w.sim.RevokeCredential(w.static.AccessKeyID)
			return func() { w.sim.AddCredential(w.static) }
		},
		func() func() {
			w.vsphere.Log.Fail(func(_ vspherecluster.Call, r http.ResponseWriter) bool {
				vspherecluster.NotAuthenticated(r)
				return true
			})
			return func() { w.vsphere.Log.Fail(nil) }
		},
		func() func() {
			w.password(t, canaryWrong)
			w.vsphere.Log.Fail(func(c vspherecluster.Call, r http.ResponseWriter) bool {
				if strings.Contains(c.Body, "canary/wrong") {
					vspherecluster.Fault(r, &vim.InvalidLogin{})
					return true
				}
				return false
			})
			return func() {
				w.password(t, vspherecluster.Password)
				w.vsphere.Log.Fail(nil)
			}
		},
	}
	for i, fault := range faults {
		undo := fault()
		d := w.start(t, []string{"observe", "enforce"}[i%2])
		running.Eventually(t, time.Minute, "failed", func() error {
			for series, n := range d.Series(t) {
				if strings.HasPrefix(series, "holdfast_sweep_errors_total") && n > 0 {
					return nil
				}
			}
			return errors.New("no sweep has failed")
		})
		for name, text := range w.sinks(t.Context(), t, d) {
			shown[fmt.Sprintf("%s, failure %d", name, i)] = text
		}
		d.Stop(t)
		undo()
	}
}

// password sets the vCenter identity's.
func (w *world) password(t *testing.T, to string) {
	t.Helper()
	s := &corev1.Secret{}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(w.vsphere.Secrets[0]), s); err != nil {
		t.Fatal(err)
	}
	s.Data["password"] = []byte(to)
	if err := w.client.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// Secrets in user data, bootstrap data, VMX keys, identities and routes show
// nowhere: watching, acting, and while everything fails.
func TestCanariesShowNowhere(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two minutes")
	}
	w := newWorld(t, 8)
	d := w.start(t, "observe")
	w.tamper(t)
	w.sweep(t, d, "observe", 1)
	w.machinesDrift(t, func(n int) bool { return n >= 6 })
	running.Eventually(t, time.Minute, "told", func() error {
		if len(w.hook.all()) == 0 {
			return fmt.Errorf("no notification")
		}
		return nil
	})
	shown := w.reports(t)
	for name, text := range w.sinks(t.Context(), t, d) {
		shown[name+", observing"] = text
	}
	d.Stop(t)
	w.fail(t, shown)

	// The first repairs fail.
	w.sim.InjectFault(ec2sim.Fault{Action: "CreateTags", Kind: ec2sim.FaultError, Code: "InternalError", Message: "An internal error has occurred", Status: 500, Times: 3})
	var failed atomic.Int32
	w.vsphere.Log.Fail(func(c vspherecluster.Call, r http.ResponseWriter) bool {
		if c.Method == "ReconfigVM_Task" && failed.Add(1) <= 2 {
			vspherecluster.Fault(r, &vim.InvalidState{})
			return true
		}
		return false
	})
	d = w.start(t, "enforce")
	running.Eventually(t, 3*time.Minute, "repaired", func() error {
		list := &driftv1.RemediationList{}
		if err := w.client.List(t.Context(), list); err != nil {
			return err
		}
		phases, done := map[driftv1.RemediationPhase]int{}, 0
		for i := range list.Items {
			phases[list.Items[i].Status.Phase]++
			if list.Items[i].Status.Phase == driftv1.PhaseSucceeded {
				done++
			}
		}
		if done < 4 {
			return fmt.Errorf("records are %v", phases)
		}
		return nil
	})
	for name, text := range w.reports(t) {
		shown[name+", after repairs"] = text
	}
	for name, text := range w.sinks(t.Context(), t, d) {
		shown[name] = text
	}
	for _, sink := range []string{"log", "events", "Remediations", "Machines", "notifications", "metrics"} {
		if len(shown[sink]) < 100 {
			t.Errorf("%s is %q: there is nothing to look through", sink, shown[sink])
		}
	}
	leaks(t, shown)
}
