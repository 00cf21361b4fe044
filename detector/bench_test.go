package detector_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// genMachine makes an instance of about 30 fields, as the AWS provider wants
// it, and the one that is seen: more fields, and sets of its own.
func genMachine(n int) (providers.Resource, *providers.Resource) {
	id := fmt.Sprintf("i-%017x", n)
	w := want(id)
	put := func(path string, v providers.Value) {
		w.Set(path, providers.Field{Value: v, Mutability: providers.InPlace})
	}
	for _, f := range []struct{ path, value string }{
		{"/state", "running"}, {"/instanceType", "m5.2xlarge"}, {"/imageId", "ami-0123456789abcdef0"},
		{"/iamInstanceProfile", "nodes.cluster-api-provider-aws.sigs.k8s.io"}, {"/subnetId", "subnet-0123456789abcdef0"},
		{"/vpcId", "vpc-0123456789abcdef0"}, {"/availabilityZone", "eu-west-1a"}, {"/keyName", "ops"}, {"/tenancy", "default"},
		{"/metadataOptions/httpTokens", "required"}, {"/metadataOptions/httpEndpoint", "enabled"}, {"/metadataOptions/instanceMetadataTags", "disabled"},
		{"/rootVolume/type", "gp3"}, {"/rootVolume/kmsKeyId", "1234abcd-12ab-34cd-56ef-1234567890ab"},
		{"/nonRootVolumes/~1dev~1sdb/type", "gp3"}, {"/placementGroup", "spread"},
	} {
		put(f.path, providers.String(f.value))
	}
	for i := range 8 {
		put(fmt.Sprintf("/tags/team.example.com~1key-%d", i), providers.String(fmt.Sprintf("value-%d", i)))
	}
	put("/rootVolume/size", providers.Int(80))
	put("/rootVolume/iops", providers.Int(3000))
	put("/rootVolume/encrypted", providers.Bool(true))
	put("/metadataOptions/httpPutResponseHopLimit", providers.Int(2))
	put("/securityGroups", providers.Set("sg-01", "sg-02", "sg-03"))
	put("/scheduledEvents", providers.Set())

	h := have(id, closed("/tags", "/iamInstanceProfile"), tagged("c1"))
	for path, f := range w.Fields.All() {
		h.Set(path, providers.Field{Value: copied(f.Value)})
	}
	for i := range 8 {
		h.Set(fmt.Sprintf("/tags/other-%d", i), providers.Field{Value: providers.String("x")})
	}
	return w, h
}

// copied shares no memory with the value, as two sources of it never do: equal
// pointers would make comparing cheaper than it is.
func copied(v providers.Value) providers.Value {
	if v.IsSet() {
		var elements []string
		for _, e := range v.Elements() {
			elements = append(elements, string([]byte(e)))
		}
		return providers.Set(elements...)
	}
	if s, ok := v.Any().(string); ok {
		return providers.String(string([]byte(s)))
	}
	return v
}

type machines struct {
	owners []*providers.Owner
	wants  [][]providers.Resource
	snap   *providers.Snapshot
}

func genMachines(n int) *machines {
	m := &machines{snap: snapshot()}
	for _, part := range []string{"Instance/nonRootVolumes", "Instance/scheduledEvents", "Instance/loadBalancers", "Subnet", "RouteTable", "NATGateway", "LoadBalancer"} {
		m.snap.Coverage[part] = nil
	}
	for i := range n {
		w, h := genMachine(i)
		m.owners = append(m.owners, genOwner(fmt.Sprintf("m%d", i)))
		m.wants = append(m.wants, []providers.Resource{w})
		m.snap.Resources[h.ID] = h
	}
	return m
}

func TestInSyncAllocations(t *testing.T) {
	m := genMachines(1)
	if n := len(m.wants[0][0].Fields); n < 30 {
		t.Fatalf("%d fields: the machine is too small to show anything", n)
	}
	if r := detector.Compare(m.owners[0], m.wants[0], m.snap, options); len(r.Findings) != 0 || r.Checked < 30 {
		t.Fatalf("not in sync: %v, checked %d", lines(r.Findings), r.Checked)
	}
	const most = 2
	if n := testing.AllocsPerRun(200, func() { detector.Compare(m.owners[0], m.wants[0], m.snap, options) }); n > most {
		t.Errorf("a machine in sync allocates %v times, want at most %d", n, most)
	}
}

// cpuTime is what this process has used so far. Ratios and limits are of CPU
// time: a loaded machine stretches everything else.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perMachine gives the CPU time of one call of f out of n.
func perMachine(n int, f func(i int)) time.Duration {
	start := cpuTime()
	for i := range n {
		f(i)
	}
	return (cpuTime() - start) / time.Duration(n)
}

// BenchmarkInSync reports how many times as long go-cmp takes for the same
// whole resources in the same run.
func BenchmarkInSync(b *testing.B) {
	const fleetSize = 64
	m := genMachines(fleetSize)
	b.ReportAllocs()
	start := cpuTime()
	for i := 0; b.Loop(); i++ {
		k := i % fleetSize
		detector.Compare(m.owners[k], m.wants[k], m.snap, options)
	}
	ours := (cpuTime() - start) / time.Duration(b.N)
	b.StopTimer()
	theirs := perMachine(10*fleetSize, func(i int) {
		k := i % fleetSize
		w := &m.wants[k][0]
		_ = cmp.Equal(w, m.snap.Resources[w.ID])
	})
	equal := perMachine(10*fleetSize, func(i int) {
		w := &m.wants[i%fleetSize][0]
		if !cmp.Equal(w, w.Clone()) {
			b.Error("a clone differs")
		}
	})
	b.ReportMetric(float64(ours), "cpu-ns/op")
	b.ReportMetric(float64(theirs)/float64(ours), "x-go-cmp")
	b.ReportMetric(float64(equal)/float64(ours), "x-go-cmp-equal")
}

// BenchmarkDrifted is the dear case: every machine has one changed field.
func BenchmarkDrifted(b *testing.B) {
	m := genMachines(1)
	m.snap.Resources[m.wants[0][0].ID].Set("/instanceType", providers.Field{Value: providers.String("m6i.large")})
	b.ReportAllocs()
	for b.Loop() {
		detector.Compare(m.owners[0], m.wants[0], m.snap, options)
	}
}

// BenchmarkScale reports the time per machine; what is linear stays the same
// but for what a CPU's caches give.
func BenchmarkScale(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := genMachines(n)
			b.ReportAllocs()
			runtime.GC() // or the collection that the set-up began is timed
			b.ResetTimer()
			start := cpuTime()
			for b.Loop() {
				for i := range m.owners {
					detector.Compare(m.owners[i], m.wants[i], m.snap, options)
				}
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N)/float64(n), "cpu-ns/machine")
		})
	}
}
