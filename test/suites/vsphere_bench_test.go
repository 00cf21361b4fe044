package suites

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/vsphere"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// leastRatio is by how much one bulk read of a vCenter must beat reading its
// machines one by one.
const leastRatio = 5

// roundTrip is what each call to the simulator takes at least, in
// milliseconds: less than a vCenter in the same building takes. Saving round trips is
// what bulk reads are for, and a simulator in the same process has none.
const roundTrip = 2

// BenchmarkVSphereBulk reads 1,000 machines as the provider does; as CAPV does,
// which looks a machine up and then asks for one concern after the other; and
// as the leanest reader of single machines would, which asks for all at once.
// The best of the rounds counts, since other work on the machine only slows.
func BenchmarkVSphereBulk(b *testing.B) {
	const machines = 1000
	server, uuids := bigVCenter(b, machines)
	owner, p := bigOwner(b, server)
	scope, err := p.Scope(b.Context(), owner)
	if err != nil {
		b.Fatal(err)
	}
	observe := func() error {
		snap, err := p.Observe(b.Context(), scope)
		if err != nil {
			return err
		}
		if got := len(snap.OfKind(providers.KindVirtualMachine)); got != machines {
			return fmt.Errorf("%d machines seen, want %d", got, machines)
		}
		return errors.Join(slices.Collect(maps.Values(snap.Coverage))...)
	}
	if err := observe(); err != nil { // the login is no part of a sweep
		b.Fatal(err)
	}
	readers := []struct {
		name string
		read func() error
		best time.Duration
	}{
		{name: "bulk", read: observe},
		{name: "asCAPV", read: func() error { return readOneByOne(b.Context(), server, uuids, concerns()) }},
		{name: "leanest", read: func() error {
			return readOneByOne(b.Context(), server, uuids, [][]string{vsphere.MachineProperties()})
		}},
	}
	for b.Loop() {
		for i := range readers {
			r := &readers[i]
			start := time.Now()
			if err := r.read(); err != nil {
				b.Fatal(err)
			}
			if took := time.Since(start); r.best == 0 || took < r.best {
				r.best = took
			}
		}
	}
	for _, r := range readers {
		b.ReportMetric(r.best.Seconds(), r.name+"-s")
		b.ReportMetric(r.best.Seconds()/readers[0].best.Seconds(), r.name+"-ratio")
	}
	if ratio := readers[1].best.Seconds() / readers[0].best.Seconds(); ratio < leastRatio {
		b.Errorf("one bulk read of %d machines is %.1f times as fast as reading each as CAPV does, want %d times", machines, ratio, leastRatio)
	}
}

// concerns are the properties of a machine in the seven retrieves that CAPV
// makes for one machine and resync: identity, hardware, network, configuration,
// place, state, the rest.
func concerns() [][]string {
	named := [][]string{
		{"config.uuid", "config.instanceUuid"},
		{"config.hardware", "config.version"},
		{"guest.net", "guest.toolsRunningStatus"},
		{"config.extraConfig"},
		{"parent", "resourcePool", "datastore", "config.files.vmPathName"},
		{"runtime.powerState", "runtime.connectionState", "runtime.host"},
	}
	rest := vsphere.MachineProperties()
	for _, set := range named {
		rest = slices.DeleteFunc(rest, func(p string) bool { return slices.Contains(set, p) })
	}
	return append(named, rest)
}

func bigVCenter(b *testing.B, machines int) (*simulator.Server, []string) {
	b.Helper()
	m := simulator.VPX()
	m.Host, m.Cluster, m.ClusterHost, m.Machine = 0, 1, 8, machines
	if err := m.Create(); err != nil {
		b.Fatal(err)
	}
	m.Service.TLS = new(tls.Config)
	m.Service.RegisterEndpoints = true
	m.DelayConfig.Delay = roundTrip
	server := m.Service.NewServer()
	b.Cleanup(func() {
		server.Close()
		m.Remove()
	})
	var uuids []string
	for _, o := range m.Service.Context.Map.All("VirtualMachine") {
		uuids = append(uuids, o.(*simulator.VirtualMachine).Config.Uuid)
	}
	return server, uuids
}

func bigOwner(b *testing.B, server *simulator.Server) (*providers.Owner, *vsphere.Provider) {
	b.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "creds"}, Data: map[string][]byte{
		"username": []byte("user"), "password": []byte("pass"),
	}}
	c := &infrav1.VSphereCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "big"}, Spec: infrav1.VSphereClusterSpec{
		Server: server.URL.Host, Thumbprint: soap.ThumbprintSHA1(server.Certificate()),
		IdentityRef: infrav1.VSphereIdentityReference{Kind: infrav1.SecretKind, Name: "creds"},
	}}
	p := vsphere.New(fake.NewClientBuilder().WithScheme(vspherecluster.Scheme()).WithObjects(secret).Build(), func(string) string { return "" })
	b.Cleanup(func() { _ = p.Close() })
	return &providers.Owner{Cluster: &clusterv1.Cluster{}, Infra: c}, p
}

// readOneByOne looks each machine up by its UUID, asks for its properties in
// so many calls as there are sets, and for its tags.
func readOneByOne(ctx context.Context, server *simulator.Server, uuids []string, sets [][]string) error {
	u := *server.URL
	u.User = url.UserPassword("user", "pass")
	c, err := govmomi.NewClient(ctx, &u, true)
	if err != nil {
		return err
	}
	defer func() { _ = c.Logout(ctx) }()
	rc := rest.NewClient(c.Client)
	if err := rc.Login(ctx, u.User); err != nil {
		return err
	}
	index, pc, tm := object.NewSearchIndex(c.Client), property.DefaultCollector(c.Client), tags.NewManager(rc)
	for _, uuid := range uuids {
		ref, err := index.FindByUuid(ctx, nil, uuid, true, nil)
		if err != nil {
			return err
		}
		if ref == nil {
			return fmt.Errorf("%s not found", uuid)
		}
		var vm mo.VirtualMachine
		for _, set := range sets {
			if err := pc.RetrieveOne(ctx, ref.Reference(), set, &vm); err != nil {
				return err
			}
		}
		if _, err := tm.ListAttachedTags(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkVSphereProperties says what the properties of a machine cost.
func BenchmarkVSphereProperties(b *testing.B) {
	server, _ := bigVCenter(b, 1000)
	u := *server.URL
	u.User = url.UserPassword("user", "pass")
	c, err := govmomi.NewClient(b.Context(), &u, true)
	if err != nil {
		b.Fatal(err)
	}
	v, err := view.NewManager(c.Client).CreateContainerView(b.Context(), c.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
	if err != nil {
		b.Fatal(err)
	}
	all := vsphere.MachineProperties()
	for _, set := range append([][]string{all, {"name"}, {"config.hardware.device"}, {"config.hardware"}}, singles(all)...) {
		name := fmt.Sprint(set)
		if len(set) > 1 {
			name = "all"
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var vms []mo.VirtualMachine
				if err := v.Retrieve(b.Context(), []string{"VirtualMachine"}, set, &vms); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func singles(all []string) [][]string {
	var out [][]string
	for _, p := range all {
		out = append(out, []string{p})
	}
	return out
}
