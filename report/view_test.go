package report

import (
	"testing"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Machines stand together only where everything but their names is alike.
func TestAlikeMachinesStandTogether(t *testing.T) {
	machine := func(name string, mods ...func(*policies.Decision)) policies.Decision {
		mods = append([]func(*policies.Decision){
			with(changed("/instanceType", providers.String("a"), providers.String("b"))), pool("MachineDeployment/md"),
		}, mods...)
		return decision("c1", awsMachine("c1", name), resource("aws", "Instance", "i-"+name, "c1-"+name), mods...)
	}
	cases := map[string]struct {
		second policies.Decision
		groups int
	}{
		"alike":               {machine("bbb"), 1},
		"reason names itself": {machine("bbb", status(detector.Missing, "i-bbb is gone")), 1},
		"another value":       {machine("bbb", with(changed("/instanceType", providers.String("a"), providers.String("c")))), 2},
		"another pool":        {machine("bbb", pool("MachineDeployment/other")), 2},
		"no pool":             {machine("bbb", pool("")), 2},
		"another severity":    {machine("bbb", severity(policies.Critical, policies.Observe)), 2},
		"another action":      {machine("bbb", severity(policies.Medium, policies.Replace)), 2},
		"another gate":        {machine("bbb", observing()), 2},
		"another rule":        {machine("bbb", rule("x", "y", "z", 1)), 2},
		"another reason":      {machine("bbb", status(detector.Missing, "terminated")), 2},
		"known for longer":    {machine("bbb", since(at.AddDate(0, 0, -3))), 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			first := machine("aaa")
			if c.second.Finding.Status == detector.Missing {
				first = machine("aaa", status(detector.Missing, "i-aaa is gone"))
			}
			v := newView(Build(scan(at, found(first, c.second))))
			if got := len(v.clusters[0].groups); got != c.groups {
				t.Errorf("%d groups, want %d", got, c.groups)
			}
			shown := 0
			for _, g := range v.clusters[0].groups {
				for _, f := range g.findings {
					shown += len(f.resources)
				}
			}
			if shown != 2 {
				t.Errorf("%d resources are shown, want 2", shown)
			}
			if c.second.FirstSeen.IsZero() {
				return
			}
			if got := v.clusters[0].groups[0].findings[0].FirstSeen; got == nil || !got.Equal(c.second.FirstSeen) {
				t.Errorf("the group is known since %v, want the earliest, %v", got, c.second.FirstSeen)
			}
		})
	}
}

// Equal findings of two machines in other numbers are not alike.
func TestMachinesWithMoreFindingsStandAlone(t *testing.T) {
	d := func(name, tag string) policies.Decision {
		return decision("c1", awsMachine("c1", name), resource("aws", "Instance", "i-"+name, ""), with(removed("/tags/"+tag, "1")), pool("MachineDeployment/md"))
	}
	v := newView(Build(scan(at, found(d("aaa", "x"), d("aaa", "y"), d("bbb", "x"), d("ccc", "y"), d("ccc", "x")))))
	if got := len(v.clusters[0].groups); got != 2 {
		t.Fatalf("%d groups, want 2", got)
	}
	if got := len(v.clusters[0].groups[0].owners); got != 2 {
		t.Errorf("%d machines in the first group, want 2", got)
	}
}

// Every finding of a report is in the view once, and every problem.
func TestViewLosesNothing(t *testing.T) {
	for name, in := range inputs() {
		t.Run(name, func(t *testing.T) {
			r := Build(in)
			v := newView(r)
			seen, problems := 0, len(v.problems)
			for i := range v.clusters {
				for _, g := range v.clusters[i].groups {
					for _, f := range g.findings {
						seen += len(f.resources)
					}
				}
				for _, u := range v.clusters[i].unread {
					seen += len(u.findings)
				}
				problems += len(v.clusters[i].problems)
			}
			if seen != len(r.Findings) || problems != len(r.Problems) {
				t.Errorf("%d of %d findings, %d of %d problems", seen, len(r.Findings), problems, len(r.Problems))
			}
		})
	}
}
