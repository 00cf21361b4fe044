package suites

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/providertest"
	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// vsphereWrites are the calls that repairing each tamper takes, and no others.
// Tampers that are not here are in spared or quiet.
var vsphereWrites = map[string][]string{
	"powered off":                               {"PowerOnVM_Task"},
	"suspended":                                 {"PowerOnVM_Task"},
	"fewer CPUs":                                restarted("ReconfigVM_Task"),
	"cores per socket":                          restarted("ReconfigVM_Task"),
	"less memory":                               restarted("ReconfigVM_Task"),
	"nested virtualisation switched off":        restarted("ReconfigVM_Task"),
	"fault tolerance in the clear":              restarted("ReconfigVM_Task"),
	"vGPU taken away":                           restarted("ReconfigVM_Task"),
	"MAC address changed":                       restarted("ReconfigVM_Task"),
	"adapter of another type in its place":      restarted("ReconfigVM_Task"),
	"older hardware version":                    restarted("UpgradeVM_Task"),
	"adapter removed":                           {"ReconfigVM_Task"},
	"adapter on another distributed port group": {"ReconfigVM_Task"},
	"adapter on a standard network":             {"ReconfigVM_Task"},
	"disk restored from an old backup":          {"ReconfigVM_Task"},
	"VMX key changed":                           {"ReconfigVM_Task"},
	"vMotion in the clear":                      {"ReconfigVM_Task"},
	"CPU reservation lowered":                   {"ReconfigVM_Task"},
	"CPU limit lowered":                         {"ReconfigVM_Task"},
	"CPU shares lowered":                        {"ReconfigVM_Task"},
	"memory reservation lowered":                {"ReconfigVM_Task"},
	"memory limit lowered":                      {"ReconfigVM_Task"},
	"memory shares lowered":                     {"ReconfigVM_Task"},
	"moved to another folder":                   {"MoveIntoFolder_Task"},
	"moved to another resource pool":            {"RelocateVM_Task"},
	"moved to another datastore":                {"RelocateVM_Task"},
	"taken out of its VM group":                 {"ReconfigureComputeResource_Task"},
	"renamed":                                   {"Rename_Task"},
	"snapshot left behind":                      {"RemoveSnapshot_Task"},
	"tag removed":                               {attachTag},
}

const attachTag = "POST attach tag"

func restarted(between string) []string { return []string{"ShutdownGuest", between, "PowerOnVM_Task"} }

// spared are tampers that a write in place does not mend, or not to the letter
// in the simulator, with the reason.
var spared = map[string]string{
	"destroyed":                           "machines are made by Cluster API",
	"unregistered":                        "machines are made by Cluster API",
	"inaccessible":                        "its state cannot be told",
	"orphaned":                            "its state cannot be told",
	"disconnected":                        "its state cannot be told",
	"invalid":                             "its state cannot be told",
	"inaccessible without a UUID":         "its state cannot be told",
	"BIOS UUID changed":                   "its identity is in doubt",
	"a clone with the same BIOS UUID":     "its identity is in doubt",
	"data disk detached":                  "an empty disk is not the lost one",
	"data disk replaced by a smaller one": "the disk that was there does not come back",
	"CSI volume in the place of a lost data disk": "an empty disk is not the lost one",
	"adapter added":                            "whose the further adapter is is not known",
	"adapter of another type":                  "a new adapter has a new address, and the old one is not known",
	"static address missing":                   "addresses are the guest's",
	"tag deleted":                              "the tag is gone: TestVSphereApplyRefuses",
	"memory reservation taken away":            "with it go limit and shares in the simulator",
	"VMX key removed":                          "an own test: TestVSphereApplyOptions",
	"moved out of the datastore cluster":       "another datastore of it will do: TestVSphereApplyDatastoreCluster",
	"tag of the same name in another category": "the foreign tag stays: TestVSphereApplyKeepsForeignTags",
}

// quiet are tampers that must not be noticed, and so have nothing to repair.
var quiet = []string{
	"cores per socket without an opinion", "newer hardware version", "disk grown", "CSI volume grown in place",
	"disk made independent", "disk that discards its writes", "CSI volume attached", "scratch disk attached",
	"tools not running", "another address from DHCP", "a container bridge's address only", "moved within the datastore cluster",
	"moved to another host", "template renamed", "tag added", "VMX key added", "user data changed",
}

// repairable are the tampers that a write mends, by name.
func repairable() map[string]vspherecluster.Tamper {
	out := map[string]vspherecluster.Tamper{}
	for _, tamper := range append(vspherecluster.Tampers(), vspherecluster.FullTampers()...) {
		if _, ok := spared[tamper.Name]; !ok && !slices.Contains(quiet, tamper.Name) {
			out[tamper.Name] = tamper
		}
	}
	return out
}

// contractTampers gives the contract suite what it has Apply repair.
func contractTampers(e *vspherecluster.Environment) (out []providertest.Tamper) {
	all := repairable()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, providertest.Tamper{Name: name, Do: func(t *testing.T) {
			t.Helper()
			if _, err := all[name].Do(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}})
	}
	return out
}

// vsphereChange makes of a sweep's one drifted machine the change that mends it.
func vsphereChange(t testing.TB, p providers.Provider, e *vspherecluster.Environment) (providers.Scope, providers.Change) {
	t.Helper()
	owners := e.Owners()
	scope, err := p.Scope(t.Context(), owners[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range vsphereSweep(t, p, owners) {
		if f.Status == detector.Drifted {
			return scope, changeOf(&f)
		}
	}
	t.Fatal("nothing drifted")
	return scope, providers.Change{}
}

func changeOf(f *detector.Finding) providers.Change {
	c := providers.Change{Resource: f.Want.ID, Owner: f.Owner, Want: f.Want, Have: f.Have, Token: "0", Disruptive: true}
	for _, d := range f.Diffs {
		c.Fields = append(c.Fields, providers.FieldChange{Path: d.Path, Want: d.Want, Have: d.Have, Element: d.Element, Mutability: d.Mutability})
	}
	return c
}

// applyAll calls Apply until it is not pending any more.
func applyAll(ctx context.Context, p *vsphere.Provider, scope providers.Scope, c providers.Change) error {
	const most = 20
	for range most {
		if err := p.Apply(ctx, scope, c); !errors.Is(err, providers.ErrPending) {
			return err
		}
	}
	return fmt.Errorf("still pending after %d calls", most)
}

// writesOf are the mutating calls, tags under a name without their ids.
func writesOf(e *vspherecluster.Environment) []string {
	calls := e.Log.Mutating()
	for i, c := range calls {
		if strings.Contains(c, "/tagging/tag-association") && strings.HasSuffix(c, "~action=attach") {
			calls[i] = attachTag
		}
	}
	return calls
}

func do(t *testing.T, e *vspherecluster.Environment, name string) *vspherecluster.Damage {
	t.Helper()
	for _, tamper := range append(vspherecluster.Tampers(), vspherecluster.FullTampers()...) {
		if tamper.Name == name {
			damage, err := tamper.Do(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			return damage
		}
	}
	t.Fatalf("no tamper %q", name)
	return nil
}

// Each repair makes its own calls and no others, and they mend what drifted.
func TestVSphereApplyOwnCalls(t *testing.T) {
	e := vsphereEnv(t, vspherecluster.Full)
	all := repairable()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(vsphereWrites)), slices.Sorted(maps.Keys(all))); diff != "" {
		t.Fatalf("tampers whose calls are listed, and tampers that are repaired (-listed +repaired):\n%s", diff)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			do(t, e, name)
			p := vsphereProvider(t, e)
			e.Log.Reset()
			scope, change := vsphereChange(t, p, e)
			if calls := writesOf(e); len(calls) > 0 {
				t.Errorf("reading wrote: %v", calls)
			}
			if err := applyAll(t.Context(), p, scope, change); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(vsphereWrites[name], writesOf(e)); diff != "" {
				t.Errorf("calls of the repair (-want +got):\n%s", diff)
			}
			vsphereSays(t, vsphereSweep(t, p, e.Owners()), nil)
		})
	}
}

// The process dies before each single write of a repair that stops the machine.
// The next one goes on where it was: nothing is done twice, and the machine is
// on at the end.
func TestVSphereApplyCrashes(t *testing.T) {
	for _, name := range []string{"fewer CPUs", "older hardware version", "adapter of another type in its place", "suspended", "tag removed"} {
		t.Run(name, func(t *testing.T) {
			e := vsphereEnv(t, vspherecluster.Full)
			want := vsphereWrites[name]
			for crash := range len(want) + 1 {
				do(t, e, name)
				p := vsphereProvider(t, e)
				scope, change := vsphereChange(t, p, e)
				e.Log.Reset()
				ctx, die := context.WithCancel(t.Context())
				dying := map[string]bool{}
				e.Log.Fail(func(_ vspherecluster.Call, w http.ResponseWriter) bool {
					if done := e.Log.Mutating(); len(done) == crash+1 && !dying[done[crash]] {
						dying[done[crash]] = true
						die()
						http.Error(w, "the caller is gone", http.StatusServiceUnavailable)
						return true
					}
					return false
				})
				err := applyAll(ctx, p, scope, change)
				e.Log.Fail(nil)
				if (err == nil) != (crash == len(want)) {
					t.Errorf("crash before write %d: %v", crash, err)
				}
				next := vsphereProvider(t, e)
				read, err := next.Scope(t.Context(), e.Owners()[0])
				if err != nil {
					t.Fatal(err)
				}
				confirmed, err := next.Confirm(t.Context(), read, []providers.ID{change.Resource})
				if err != nil {
					t.Fatal(err)
				}
				change.Have = confirmed.Resources[change.Resource]
				if err := applyAll(t.Context(), next, read, change); err != nil {
					t.Errorf("crash before write %d, and after it: %v", crash, err)
				}
				got := writesOf(e)
				if crash < len(want) {
					got = slices.Delete(got, crash, crash+1) // the one that never arrived
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("crash before write %d: writes in all (-want +got):\n%s", crash, diff)
				}
				vsphereSays(t, vsphereSweep(t, next, e.Owners()), nil)
			}
		})
	}
}

// A repair of a tag leaves the tags of others where they are.
func TestVSphereApplyKeepsForeignTags(t *testing.T) {
	e := vsphereEnv(t, nil)
	do(t, e, "tag of the same name in another category")
	p := vsphereProvider(t, e)
	scope, change := vsphereChange(t, p, e)
	if err := applyAll(t.Context(), p, scope, change); err != nil {
		t.Fatal(err)
	}
	vsphereSays(t, vsphereSweep(t, p, e.Owners()), nil)
	confirmed, err := p.Confirm(t.Context(), scope, []providers.ID{change.Resource})
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"env:prod", "cost:prod"} {
		if _, ok := confirmed.Resources[change.Resource].Fields.Lookup(providers.Pointer("tags", tag)); !ok {
			t.Errorf("tag %s is not attached", tag)
		}
	}
}

// Any datastore of the wanted datastore cluster will do, and the CSI driver's
// disks stay where they are.
func TestVSphereApplyDatastoreCluster(t *testing.T) {
	e := vsphereEnv(t, nil)
	do(t, e, "CSI volume attached")
	do(t, e, "moved out of the datastore cluster")
	p := vsphereProvider(t, e)
	scope, change := vsphereChange(t, p, e)
	e.Log.Reset()
	if err := applyAll(t.Context(), p, scope, change); err != nil {
		t.Fatal(err)
	}
	vsphereSays(t, vsphereSweep(t, p, e.Owners()), nil)
	csi := ""
	for path, f := range change.Have.Fields.All() {
		if s := providers.Segments(path); len(s) == 3 && s[2] == "foreign" && !f.Value.IsAbsent() {
			csi = s[1]
		}
	}
	body := bodyOf(t, e, "RelocateVM_Task")
	if csi == "" || strings.Count(body, "<diskId>") != 1 || !strings.Contains(body, "<diskId>"+csi+"</diskId>") {
		t.Errorf("disk %q of the CSI driver is not held: %s", csi, body)
	}
}

func bodyOf(t *testing.T, e *vspherecluster.Environment, method string) string {
	t.Helper()
	for _, c := range e.Log.Calls() {
		if c.Method == method {
			return c.Body
		}
	}
	t.Fatalf("%s was not called", method)
	return ""
}
