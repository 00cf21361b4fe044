package faults

import (
	"context"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
)

// field is where things go wrong: a cluster with a program that watches over
// it, and a drift to be repaired meanwhile.
type field struct {
	place
	front *front
	// victim is the machine that drifts, reset forgets what was done so far.
	victim func() *clusterv1.Machine
	reset  func()
	drift  func(m *clusterv1.Machine)
	// once sees that the drift was repaired by one act.
	once func(t *testing.T)
}

// fault is a row of the matrix: what goes wrong on which way, and for how long.
type fault struct {
	name string
	// begin makes it go wrong, until the function that it returns is called.
	begin func(t *testing.T, on *field) (end func())
	// lasts is how long it goes wrong while the daemon is asked to sweep.
	lasts time.Duration
	// long rows run with -faults.every alone.
	long bool
	// meanwhile, if not nil, goes wrong once the machine drifts.
	meanwhile func(ctx context.Context, t *testing.T, on *field)
}

const aWhile = 4 * time.Second

// minute is how long the API server and a leader are away for: a minute in the
// long half.
func minute() time.Duration {
	if *every {
		return time.Minute
	}
	return 15 * time.Second
}

// run plays a row: whatever fails while a drift waits to be repaired, nothing is
// called missing, nothing is done twice, and two sweeps after the fault has
// ended the drift is repaired.
func (on *field) run(ctx context.Context, t *testing.T, row fault) {
	t.Helper()
	if row.long && !*every {
		t.Skip("runs with -faults.every (make faults)")
	}
	on.forget(ctx, t)
	on.reset()
	m := on.victim()
	end := row.begin(t, on)
	ended := false
	defer func() {
		if !ended {
			end()
		}
	}()
	on.drift(m)
	on.sweepNow(ctx, t)
	if row.meanwhile != nil {
		row.meanwhile(ctx, t, on)
	}
	on.notMissing(ctx, t, row.lasts)
	end()
	ended = true
	sweeps, begun := 0, time.Now()
	on.eventually(t, "repaired after "+row.name, func() error {
		if said := on.missing(ctx, t); len(said) > 0 {
			t.Fatalf("after the fault: %v", said)
		}
		err := on.repaired(ctx, t, m)
		if err != nil && sweeps < 2 && on.front.settled() {
			sweeps++
			on.sweepNow(ctx, t)
		}
		return err
	})
	t.Logf("repaired %s after the end; %d sweeps were asked for", time.Since(begun).Round(100*time.Millisecond), sweeps)
	on.once(t)
	for _, r := range on.records(ctx, t) {
		if r.Status.AttemptCount != 1 {
			t.Errorf("%d attempts: %+v", r.Status.AttemptCount, r.Status.Attempts)
		}
	}
}

func cloudFault(fs ...ec2sim.Fault) func(*simulated) func() {
	return func(s *simulated) func() {
		var ends []func()
		for _, f := range fs {
			ends = append(ends, s.Server.InjectFault(f))
		}
		return func() {
			for _, end := range ends {
				end()
			}
		}
	}
}

type simulated = management.AWSCloud

func failing(code string, status int) ec2sim.Fault {
	return ec2sim.Fault{Service: "ec2", Action: "Describe*", Kind: ec2sim.FaultError, Code: code, Status: status}
}

// simFaults are the rows that the simulator itself plays: time-outs,
// throttling, server errors, pages, credentials.
func simFaults() map[string]func(*simulated) func() {
	expired := failing("ExpiredToken", 400)
	expired.From = 3 // in the middle of a sweep
	return map[string]func(*simulated) func(){
		"time-out after success": cloudFault(ec2sim.Fault{Service: "ec2", Action: "CreateTags", Kind: ec2sim.FaultDrop, AfterSuccess: true, Times: 2}),
		"throttling":             cloudFault(failing("RequestLimitExceeded", 503)),
		"server errors":          cloudFault(failing("InternalError", 500)),
		"empty pages":            cloudFault(ec2sim.Fault{Service: "ec2", Kind: ec2sim.FaultEmptyPage, Page: 1}),
		"short pages":            cloudFault(ec2sim.Fault{Service: "ec2", Kind: ec2sim.FaultShortPage, Items: 1}),
		"a page's end is lost": cloudFault(ec2sim.Fault{Service: "ec2", Action: "DescribeInstances", Kind: ec2sim.FaultShortPage, Items: 1},
			ec2sim.Fault{Service: "ec2", Action: "DescribeInstances", Page: 2, Kind: ec2sim.FaultMalformed}),
		"cut answers":                   cloudFault(ec2sim.Fault{Service: "ec2", Action: "Describe*", Kind: ec2sim.FaultMalformed}),
		"credentials expire in a sweep": cloudFault(expired),
	}
}

// toxic has a toxic of toxiproxy on a proxy of the field while it lasts.
func toxic(proxy func(*front) *toxiproxy.Proxy, kind, attributes string) func(*testing.T, *field) func() {
	return func(_ *testing.T, on *field) func() {
		p := proxy(on.front)
		_, err := p.Toxics.AddToxicJson(strings.NewReader(`{"name":"it","type":"` + kind + `","stream":"downstream","attributes":` + attributes + `}`))
		must(err)
		return func() { must(p.Toxics.RemoveToxic(context.Background(), "it")) }
	}
}

func away(proxy func(*front) *toxiproxy.Proxy) func(*testing.T, *field) func() {
	return func(_ *testing.T, on *field) func() {
		p := proxy(on.front)
		p.Stop()
		return func() { must(p.Start()) }
	}
}

func theAPI(f *front) *toxiproxy.Proxy { return f.api }
func theAWS(f *front) *toxiproxy.Proxy { return f.aws }

// wayFaults are the rows of what goes wrong on the way to AWS and to the API
// server.
func wayFaults() []fault {
	return []fault{
		{name: "AWS is away", begin: away(theAWS), lasts: aWhile},
		{name: "AWS hangs", begin: toxic(theAWS, "timeout", `{"timeout":0}`), lasts: aWhile},
		{name: "AWS breaks connections", begin: toxic(theAWS, "limit_data", `{"bytes":900}`), lasts: aWhile},
		{name: "the API server hangs", begin: toxic(theAPI, "timeout", `{"timeout":0}`), lasts: aWhile},
		{name: "the API server is slow", begin: toxic(theAPI, "latency", `{"latency":700,"jitter":300}`), lasts: aWhile},
		{name: "the API server is away", begin: away(theAPI), lasts: minute()},
	}
}

func TestFaultMatrix(t *testing.T) {
	ctx := t.Context()
	g := management.Start(t)
	c := g.AWSCluster(ctx, management.AWS{Workers: 2})
	c.WaitReady(ctx)
	on := awsField(ctx, t, g, c)
	run(t, g, on.front, patchPath.policy, "--leader-elect=false")
	for name, begin := range simFaults() {
		t.Run(name, func(t *testing.T) {
			on.run(ctx, t, fault{name: name, lasts: aWhile, begin: func(*testing.T, *field) func() { return begin(g.AWS()) }})
		})
	}
	for _, row := range wayFaults() {
		t.Run(row.name, func(t *testing.T) { on.run(ctx, t, row) })
	}
}

func awsField(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster) *field {
	t.Helper()
	return &field{
		place: placeOf(g, c), front: awsFront(t, g),
		victim: func() *clusterv1.Machine { return c.Workers(ctx, "general")[0] },
		reset:  func() { g.AWS().Server.ResetCalls() },
		drift:  func(m *clusterv1.Machine) { patchPath.drift(ctx, t, g, c, m) },
		once:   func(t *testing.T) { onceAWS(t, g) },
	}
}

// onceAWS sees that the tag was set in one act. A call whose answer was lost may
// have been sent again: it says the same.
func onceAWS(t *testing.T, g *management.Ground) {
	t.Helper()
	acts := map[string]int{}
	for _, call := range g.AWS().Mutations() {
		acts[call.Action+" "+call.Digest]++
		if call.Action != "CreateTags" {
			t.Errorf("the daemon called %s", call.Action)
		}
		if call.Fate == "answered" && call.Status < 300 {
			acts["answered"]++
		}
	}
	if acts["answered"] > 1 || len(acts) > 2 {
		t.Errorf("more than one act: %v", acts)
	}
}
