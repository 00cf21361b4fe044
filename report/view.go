package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// view is a report arranged for people: by cluster and owner, machines that
// drifted alike in one group, what could not be compared grouped by reason.
// Its texts are as hostile as the report's.
type view struct {
	*Report
	clusters []clusterView
	// problems that belong to no cluster.
	problems []Problem
}

type clusterView struct {
	Cluster
	groups   []group
	unread   []unread
	problems []Problem
	// gates are explained once for the cluster, where one gate holds back
	// several findings for one reason.
	gates []gate
	// counts of findings that nobody silenced, by status.
	drifted, missing, unexpected, notChecked, unknown int
}

// group is one owner, or several that drifted alike.
type group struct {
	owners   []providers.OwnerRef
	pool     string
	findings []groupFinding
}

// groupFinding is a finding, and the resources of the group's owners that it
// stands for.
type groupFinding struct {
	*Finding
	resources []detector.ResourceRef
	// machines says that the resources are those of several machines.
	machines bool
}

// resourceText names one of the finding's resources, by its id alone where its
// name is but its owner's.
func (f *groupFinding) resourceText(r *detector.ResourceRef) string {
	if r.ID != "" && (f.machines || r.Name == f.Owner.Name) {
		return r.ID
	}
	return resourceText(r)
}

// unread are findings that could not be compared, for one reason.
type unread struct {
	status   detector.Status
	reason   string
	findings []*Finding
}

type gate struct {
	Block
	findings int
}

// orphaned says that the group's findings belong to no object.
func (g *group) orphaned() bool { return g.owners[0] == (providers.OwnerRef{}) }

func newView(r *Report) *view {
	v := &view{Report: r}
	at := map[detector.ClusterRef]int{}
	add := func(c Cluster) {
		ref := detector.ClusterRef{Namespace: c.Namespace, Name: c.Name}
		if _, ok := at[ref]; !ok {
			at[ref] = len(v.clusters)
			v.clusters = append(v.clusters, clusterView{Cluster: c})
		}
	}
	for _, c := range r.Clusters {
		add(c)
	}
	of := map[detector.ClusterRef][]*Finding{}
	for i := range r.Findings {
		f := &r.Findings[i]
		add(Cluster{Namespace: f.Cluster.Namespace, Name: f.Cluster.Name, Provider: f.Resource.Provider, Coverage: coverageOf(0, 0)})
		of[f.Cluster] = append(of[f.Cluster], f)
	}
	for _, p := range r.Problems {
		if i, ok := at[refOrZero(p.Cluster)]; ok && p.Cluster != nil {
			v.clusters[i].problems = append(v.clusters[i].problems, p)
		} else {
			v.problems = append(v.problems, p)
		}
	}
	for i := range v.clusters {
		c := &v.clusters[i]
		c.arrange(of[detector.ClusterRef{Namespace: c.Namespace, Name: c.Name}])
	}
	return v
}

func (c *clusterView) arrange(findings []*Finding) {
	var owners []group
	reasons := map[string]int{}
	for _, f := range findings {
		switch f.Status {
		case detector.NotChecked, detector.Unknown:
			if f.Ignored == nil {
				c.addUnread(f, reasons)
				continue
			}
		case detector.Missing:
			c.missing += truth(f.Trouble())
		case detector.Unexpected:
			c.unexpected += truth(f.Trouble())
		default:
			c.drifted += truth(f.Trouble())
		}
		if last := len(owners) - 1; last < 0 || owners[last].owners[0] != f.Owner {
			owners = append(owners, group{owners: []providers.OwnerRef{f.Owner}, pool: f.Pool})
		}
		g := &owners[len(owners)-1]
		g.findings = append(g.findings, groupFinding{Finding: f, resources: []detector.ResourceRef{f.Resource}})
	}
	for i := range owners {
		owners[i].join()
		owners[i].sort()
	}
	c.groups = joinAlike(owners)
	c.gates = commonGates(c.groups)
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sort puts the worst first and what is silenced last.
func (g *group) sort() {
	slices.SortStableFunc(g.findings, func(a, b groupFinding) int {
		return cmp.Or(truth(!a.Trouble())-truth(!b.Trouble()), rank(a.Severity)-rank(b.Severity))
	})
}

// addUnread puts a finding with those of the same reason; at knows where they
// are.
func (c *clusterView) addUnread(f *Finding, at map[string]int) {
	if f.Status == detector.Unknown {
		c.unknown++
	} else {
		c.notChecked++
	}
	// The text as it is comes first: one that names the AWSCluster is the same
	// for its machines, although it holds the name of one of the owners.
	exact, generic := string(f.Status)+"\x00\x00"+f.Reason, string(f.Status)+"\x00"+f.generic(f.Reason)
	i, ok := at[exact]
	if !ok {
		i, ok = at[generic]
	}
	if !ok {
		i = len(c.unread)
		c.unread = append(c.unread, unread{status: f.Status, reason: f.Reason})
	}
	at[exact], at[generic] = i, i
	c.unread[i].findings = append(c.unread[i].findings, f)
}

// commonGates finds the gates that hold several findings back for one and the
// same reason.
func commonGates(groups []group) []gate {
	details := map[string]map[string]bool{}
	count := map[string]int{}
	first := map[string]Block{}
	for _, g := range groups {
		for _, f := range g.findings {
			for _, b := range f.Blocks {
				if details[b.By] == nil {
					details[b.By] = map[string]bool{}
					first[b.By] = b
				}
				details[b.By][b.Detail] = true
				count[b.By] += len(f.resources)
			}
		}
	}
	var out []gate
	for by, n := range count {
		if n > 1 && len(details[by]) == 1 {
			out = append(out, gate{first[by], n})
		}
	}
	slices.SortFunc(out, func(a, b gate) int { return strings.Compare(a.By, b.By) })
	return out
}

// common says whether a gate is explained once for the cluster.
func (c *clusterView) common(by string) bool {
	return slices.ContainsFunc(c.gates, func(g gate) bool { return g.By == by })
}

// age gives a duration in one unit, as kubectl does: 45s, 12m, 5h, 3d.
func age(now, then time.Time) string {
	d := max(now.Sub(then), 0)
	switch {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Hour).String(), "0m0s")
	default:
		return plain(int(d/(24*time.Hour))) + "d"
	}
}
