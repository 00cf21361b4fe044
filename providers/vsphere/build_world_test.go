package vsphere

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/detector"
	vsphereexamples "github.com/holdfast-io/holdfast/examples/vsphere"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// bootSecret stands in the bootstrap data of all tests, and nowhere else.
const bootSecret = "hunter2-is-the-join-token"

// buildWorld is the example's vCenter without the example's machines.
type buildWorld struct {
	t *testing.T
	v *vspherecluster.VCenter
	m *vspherecluster.Manifest
	p *Provider
}

func newBuildWorld(t *testing.T) *buildWorld {
	t.Helper()
	v, err := vspherecluster.StartVCenter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	if err := v.WithoutDRS(t.Context(), "compute-b"); err != nil {
		t.Fatal(err)
	}
	m, err := vspherecluster.Load(vsphereexamples.Files, vspherecluster.DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Place("prod", v); err != nil {
		t.Fatal(err)
	}
	m.Cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	m.VSphereCluster.UID = "cluster-uid"
	w := &buildWorld{t: t, v: v, m: m}
	w.p = w.provider()
	return w
}

// provider starts another process.
func (w *buildWorld) provider() *Provider {
	w.t.Helper()
	secret := w.m.Secrets[0].DeepCopy()
	p := New(newReader(w.t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}, Data: secret.Data,
	}), noEnv)
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

// machine gives the owner of a machine of one of the example's templates.
func (w *buildWorld) machine(template, name string, edit ...func(*infrav1.VSphereMachineSpec)) *providers.Owner {
	w.t.Helper()
	i := slices.IndexFunc(w.m.MachineTemplates, func(t *infrav1.VSphereMachineTemplate) bool { return t.Name == "prod-fra-"+template })
	if i < 0 {
		w.t.Fatalf("no template %s", template)
	}
	infra := &infrav1.VSphereMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: uuid.NewUUID()}}
	w.m.MachineTemplates[i].Spec.Template.Spec.DeepCopyInto(&infra.Spec)
	for _, e := range edit {
		e(&infra.Spec)
	}
	infra.SetGroupVersionKind(infrav1.GroupVersion.WithKind("VSphereMachine"))
	o := &providers.Owner{
		Ref: providers.RefOf(infra), Cluster: w.m.Cluster, Infra: infra, InfraCluster: w.m.VSphereCluster,
		Machine:  &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}},
		Siblings: []client.Object{w.m.VSphereCluster, infra},
	}
	o.Machine.Spec.Bootstrap.DataSecretName = ptr.To(name + "-boot")
	for _, z := range w.m.Zones {
		o.Related = append(o.Related, z)
	}
	for _, d := range w.m.FailureDomains {
		o.Related = append(o.Related, d)
	}
	return o
}

func infraOf(o *providers.Owner) *infrav1.VSphereMachine { return o.Infra.(*infrav1.VSphereMachine) }

var testBoot = providers.BootstrapData{Value: []byte("#cloud-config\npassword: " + bootSecret + "\n"), Format: "cloud-config"}

// pass runs the pipeline once over one owner, as managed mode does, and gives what
// it waits for.
func (w *buildWorld) pass(p *Provider, o *providers.Owner) (waiting string, err error) {
	w.t.Helper()
	return w.passIn(w.t.Context(), p, o)
}

func (w *buildWorld) passIn(ctx context.Context, p *Provider, o *providers.Owner) (waiting string, err error) {
	w.t.Helper()
	scope, err := p.Scope(ctx, o)
	if err != nil {
		return "", err
	}
	snap, err := p.Observe(ctx, scope)
	if err != nil {
		return "", err
	}
	progress := providers.Progress{Open: map[providers.ID]string{}}
	progress.Plan, progress.Failed = p.Plan(o, snap)
	for i := range progress.Plan {
		want := &progress.Plan[i]
		if want.Unchecked != "" && progress.Failed == nil {
			progress.Failed, progress.At = errors.New(want.Unchecked), want.ID
		}
	}
	for i := range progress.Plan {
		want := &progress.Plan[i]
		if progress.Failed != nil {
			break
		}
		if err := w.act(ctx, p, scope, o, snap, want, &progress); err != nil && !errors.Is(err, providers.ErrPending) {
			progress.Failed, progress.At = err, want.ID
		}
	}
	waiting = p.Note(o, snap, progress)
	w.quiet(waiting, progress.Failed)
	return waiting, progress.Failed
}

// act makes what is not there, and sets in place what differs.
func (w *buildWorld) act(ctx context.Context, p *Provider, scope providers.Scope, o *providers.Owner, snap *providers.Snapshot, want *providers.Resource, progress *providers.Progress) error {
	if want.ID.Provisional() {
		progress.Open[want.ID] = "it is to be made"
		id, err := p.Create(ctx, scope, providers.Creation{Owner: o, Want: want, Token: "token-" + string(o.Ref.UID), Bootstrap: &testBoot})
		if err != nil {
			return err
		}
		return p.Record(o, want.ID, id)
	}
	found := detector.Compare(o, []providers.Resource{*want}, snap, detector.Options{CreationGrace: 1, Building: true})
	for i := range found.Findings {
		f := &found.Findings[i]
		if f.Status == detector.NotChecked {
			continue
		}
		progress.Open[want.ID] = string(f.Status)
		if f.Status != detector.Drifted {
			continue
		}
		change := providers.Change{Resource: want.ID, Owner: o.Ref, Want: want, Have: f.Have, Token: "set-" + string(o.Ref.UID)}
		for _, d := range f.Diffs {
			if d.Mutability != providers.InPlace {
				return fmt.Errorf("%s is %q, wanted %q, and is %s", d.Path, d.Have.Text(), d.Want.Text(), d.Mutability)
			}
			change.Fields = append(change.Fields, providers.FieldChange{Path: d.Path, Want: d.Want, Have: d.Have, Element: d.Element, Mutability: d.Mutability})
		}
		return p.Apply(ctx, scope, change)
	}
	return nil
}

const mostPasses = 30

// build runs passes until the owner is ready. Guests boot in between.
func (w *buildWorld) build(p *Provider, o *providers.Owner) {
	w.t.Helper()
	var waiting string
	var err error
	for range mostPasses {
		if waiting, err = w.pass(p, o); err != nil {
			w.t.Fatalf("%s: %v", o.Ref, err)
		}
		if waiting == "" {
			return
		}
		w.boot()
	}
	w.t.Fatalf("%s still waits for %s", o.Ref, waiting)
}

// unmake deletes what the owner has, and gives what stood against it.
func (w *buildWorld) unmake(p *Provider, o *providers.Owner) error {
	w.t.Helper()
	ctx := w.t.Context()
	o.Infra.SetDeletionTimestamp(ptr.To(metav1.Now()))
	for range mostPasses {
		scope, err := p.Scope(ctx, o)
		if err != nil {
			return err
		}
		snap, err := p.Observe(ctx, scope)
		if err != nil {
			return err
		}
		doomed, err := p.Doomed(o, snap)
		if err != nil {
			return err
		}
		progress := providers.Progress{Deleting: true, Open: map[providers.ID]string{}}
		for i := range doomed {
			err := p.Delete(ctx, scope, providers.Deletion{Owner: o, Have: &doomed[i]})
			if err != nil && !errors.Is(err, providers.ErrPending) {
				progress.Failed = err
			}
		}
		w.quiet(p.Note(o, snap, progress), progress.Failed)
		if progress.Failed != nil {
			return progress.Failed
		}
		if len(doomed) == 0 {
			return nil
		}
	}
	return errors.New("it is never gone")
}

// quiet fails where the bootstrap data got out.
func (w *buildWorld) quiet(said string, err error) {
	w.t.Helper()
	if strings.Contains(said+fmt.Sprint(err), bootSecret) {
		w.t.Fatalf("the bootstrap data is told: %s, %v", said, err)
	}
}

// vms gives all virtual machines but the template, by name.
func (w *buildWorld) vms() map[string]mo.VirtualMachine {
	w.t.Helper()
	ctx := context.Background()
	all, err := view.NewManager(w.v.Client.Client).CreateContainerView(ctx, w.v.Client.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = all.Destroy(ctx) }()
	var vms []mo.VirtualMachine
	if err := all.Retrieve(ctx, []string{"VirtualMachine"}, []string{"name", "config", "runtime", "parent", "resourcePool"}, &vms); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]mo.VirtualMachine{}
	for _, vm := range vms {
		if vm.Config == nil || vm.Config.Template {
			continue
		}
		if _, twice := out[vm.Name]; twice {
			w.t.Errorf("two machines are called %s", vm.Name)
		}
		out[vm.Name] = vm
	}
	return out
}

func (w *buildWorld) vm(name string) mo.VirtualMachine {
	w.t.Helper()
	vm, ok := w.vms()[name]
	if !ok {
		w.t.Fatalf("there is no machine %s", name)
	}
	return vm
}

// boot has the guests of machines that are on report an address.
func (w *buildWorld) boot() {
	w.t.Helper()
	n := 0
	for _, vm := range w.vms() {
		n++
		address := fmt.Sprintf("10.20.0.%d", 20+n)
		if strings.Contains(vm.Name, "ingress") {
			address = "10.30.0.50"
		}
		if err := w.v.Boot(context.Background(), vm.Self, address); err != nil {
			w.t.Fatal(err)
		}
	}
}

func option(vm mo.VirtualMachine, key string) string {
	for _, o := range vm.Config.ExtraConfig {
		if v := o.GetOptionValue(); v.Key == key {
			return fmt.Sprint(v.Value)
		}
	}
	return ""
}
