package suites

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// The environment written as YAML and read back by the loader gives the same
// owners to compare, and credentials from its Secrets.
func TestVSphereFromFiles(t *testing.T) {
	e := vsphereEnv(t, nil)
	dir := t.TempDir()
	if err := e.Write(dir); err != nil {
		t.Fatal(err)
	}
	kinds, err := inventory.NewKinds(vsphere.Registration())
	if err != nil {
		t.Fatal(err)
	}
	set, err := inventory.FromFiles(kinds, []string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	inv, err := inventory.Group(kinds, set, inventory.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Clusters) != 1 || len(inv.Problems) > 0 {
		t.Fatalf("%d clusters, problems %v", len(inv.Clusters), inv.Problems)
	}
	var none client.Reader
	p := vsphere.New(set.Reader(kinds, none), func(string) string { return "" })
	t.Cleanup(func() { _ = p.Close() })
	owners := make([]*providers.Owner, 0, len(inv.Clusters[0].Owners))
	for _, o := range inv.Clusters[0].Owners {
		owners = append(owners, &o.Owner)
	}
	if got, want := len(owners), len(e.Owners()); got != want {
		t.Fatalf("%d owners, want %d", got, want)
	}
	vsphereSays(t, vsphereSweep(t, p, owners), nil)
}

// No secret of a machine is in a snapshot or a finding: user data, metadata,
// what somebody puts under a telling key.
func TestVSphereSecretsStay(t *testing.T) {
	secrets := []string{"hunter2", "I2Nsb3VkLWNvbmZpZwpwYXNzd29yZDogaHVudGVyMgo=", vspherecluster.Password, "s3cr3t-value", "another s3cr3t"}
	e := vsphereEnv(t, func(m *vspherecluster.Manifest) {
		for _, tpl := range m.MachineTemplates {
			tpl.Spec.Template.Spec.CustomVMXKeys = map[string]string{"vendor.password": "s3cr3t-value"}
		}
	})
	for _, m := range e.VSphereMachines[:2] {
		m.Spec.CustomVMXKeys["vendor.password"] = "another s3cr3t"
	}
	p := vsphereProvider(t, e)
	owners := e.Owners()
	scope, err := p.Scope(t.Context(), owners[0])
	if err != nil {
		t.Fatal(err)
	}
	snap, err := p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	findings := vsphereSweep(t, p, owners)
	drifted := 0
	for _, f := range findings {
		for _, d := range f.Diffs {
			drifted++
			if d.Path != "/extraConfig/vendor.password" || !d.Sensitive {
				t.Errorf("diff %+v, want a sensitive one of the changed key", d)
			}
		}
	}
	if drifted != 2 {
		t.Errorf("%d diffs, want one for each of the two changed machines", drifted)
	}
	var saved bytes.Buffer
	if err := providers.WriteSnapshots(&saved, []*providers.Snapshot{snap}); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"snapshot": saved.String(), "findings": fmt.Sprintf("%+v", findings)} {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("the %s holds %q", what, s)
			}
		}
	}
}

// A snapshot that another process saved is compared all the same; only what it
// holds as digests is not.
func TestVSphereSavedSnapshot(t *testing.T) {
	e := vsphereEnv(t, func(m *vspherecluster.Manifest) {
		for _, tpl := range m.MachineTemplates {
			tpl.Spec.Template.Spec.CustomVMXKeys = map[string]string{"vendor.password": "s3cr3t-value", "disk.enableUUID": "TRUE"}
		}
	})
	owners := e.Owners()
	p := vsphereProvider(t, e)
	scope, err := p.Scope(t.Context(), owners[0])
	if err != nil {
		t.Fatal(err)
	}
	snap, err := p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := providers.WriteSnapshots(&file, []*providers.Snapshot{snap}); err != nil {
		t.Fatal(err)
	}
	read, err := providers.ReadSnapshots(&file)
	if err != nil {
		t.Fatal(err)
	}
	saved := read[0]
	for _, o := range owners {
		want, err := vsphereProvider(t, e).Desired(o, saved)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if _, ok := w.Fields.Lookup("/extraConfig/vendor.password"); ok {
				t.Errorf("%s wants a digest of another process's key", o.Ref)
			}
			for path, f := range w.Fields.All() {
				have := saved.Resources[w.ID].Fields.Get(path)
				if f.Match == providers.Exactly && !f.Value.Equal(have.Value) {
					t.Errorf("%s %s: want %s, have %s", o.Ref, path, f.Value.Text(), have.Value.Text())
				}
			}
		}
	}
}
