package report

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

const docsFile = "../docs/report.md"

// documented is the scan that docs/report.md shows, decided by the built-in
// policies: its rules are real ones.
func documented() BuildInput {
	const cluster = "eu-1"
	ref := detector.ClusterRef{Namespace: "prod", Name: cluster}
	in := BuildInput{Version: "v0.1.0", Now: at, Clusters: []ClusterInput{{
		Ref: ref, Provider: "aws", Scope: awsScope(), SnapshotTime: at.Add(-42 * time.Second), Checked: 312, Owners: awsOwners(cluster),
	}}}
	finding := func(owner providers.OwnerRef, r detector.ResourceRef, status detector.Status, pool, reason string, diffs ...detector.Diff) detector.Finding {
		for i := range diffs {
			if diffs[i].Mutability = providers.InPlace; owner.Kind == "AWSMachine" {
				diffs[i].Mutability = providers.Immutable
			}
		}
		f := detector.Finding{
			Cluster: ref, Owner: owner, Resource: r, Status: status, Pool: pool, Reason: reason, Diffs: diffs, SeenAt: at,
			Have: &providers.Resource{}, Want: &providers.Resource{},
		}
		f.Fingerprint = detector.Fingerprint(&f)
		return f
	}
	workers := "MachineDeployment/eu-1-md-0"
	var found []detector.Finding
	for i, name := range []string{"md-0-7xk2p", "md-0-9qq1r", "md-0-zz81c"} {
		found = append(found, finding(awsMachine(cluster, name), resource("aws", "Instance", "i-0a1b2c3d4e5f6a7b"+plain(i), cluster+"-"+name),
			detector.Drifted, workers, "", changed("/instanceType", providers.String("m5.large"), providers.String("m5.4xlarge"))))
	}
	found = append(found,
		finding(awsMachine(cluster, "md-1-a1b2c"), resource("aws", "Instance", "i-0dead0000beef0000", cluster+"-md-1-a1b2c"), detector.Missing,
			"MachineDeployment/eu-1-md-1", "terminated: Client.UserInitiatedShutdown",
			detector.Diff{Path: "/state", Want: providers.String("running"), Have: providers.String("terminated: Client.UserInitiatedShutdown"), Type: detector.Removed}),
		finding(awsCluster(cluster), resource("aws", "SecurityGroup", "sg-0a1b2c3d4e5f60718", "eu-1-node"), detector.Drifted, "", "",
			added("/ingress", "tcp 22-22 from 0.0.0.0/0"), removed("/ingress", "tcp 6443-6443 from 10.0.0.0/16")))
	facts := policies.Input{
		Now: at, Findings: found, InFlight: []policies.InFlight{}, History: map[string]policies.History{},
		Clusters: map[detector.ClusterRef]policies.ClusterFacts{ref: {
			Owners: 40, Machines: 39, ControlPlane: policies.Yes("3 of 3 machines are ready"), Breaker: policies.No(),
			Pools: map[string]policies.PoolFacts{workers: {Desired: 10, Ready: 10}, "MachineDeployment/eu-1-md-1": {Desired: 10, Ready: 9}},
		}},
		Owners: map[providers.OwnerRef]policies.OwnerFacts{},
	}
	no := policies.No()
	for _, f := range found {
		facts.Owners[f.Owner] = policies.OwnerFacts{
			Paused: no, Deleting: no, Moving: no, ExternallyManaged: no, Rollout: no, OldRevision: no, SkipRemediation: no, Ambiguous: no,
			Replaceable: policies.Yes(f.Pool), HealthCheck: no, Ready: policies.Yes("the node is ready"),
		}
	}
	in.Decisions = policies.Decide(facts)
	return in
}

// The sample in docs/report.md is what the table writes. With -update it is
// written there.
func TestDocsShowRealOutput(t *testing.T) {
	out := string(render(t, Build(documented()), FormatTable, Style{}))
	sample, _, found := strings.Cut(out, "\nSummary\n")
	if !found {
		t.Fatalf("the table has no summary:\n%s", out)
	}
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "## Reading the table\n\n```text\n")
	_, after, ok2 := strings.Cut(rest, "```\n")
	if !ok || !ok2 {
		t.Fatalf("%s has no sample under its heading", docsFile)
	}
	want := before + "## Reading the table\n\n```text\n" + sample + "```\n" + after
	if *update {
		if err := os.WriteFile(docsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("the sample in %s is not what the table writes: run go test ./report -run Docs -update\n%s", docsFile, sample)
	}
}

// The rules of the sample stand where it says, in the built-in policies.
func TestDocsNameRealRules(t *testing.T) {
	r := Build(documented())
	if len(r.Findings) == 0 {
		t.Fatal("the sample has no finding")
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.RuleAt == nil || !strings.HasPrefix(f.RuleAt.File, "builtin/") {
			t.Errorf("rule %q stands in %v, not in a built-in policy", f.Rule, f.RuleAt)
			continue
		}
		if line := lineOf(t, "../policies/defaults/"+strings.TrimPrefix(f.RuleAt.File, "builtin/"), f.RuleAt.Line); !strings.Contains(line, "id: "+f.Rule) {
			t.Errorf("rule %q is not at %s: %q", f.Rule, positionText(f.RuleAt), line)
		}
	}
}

func lineOf(t *testing.T, file string, line int) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for range line {
		if !lines.Scan() {
			t.Fatalf("%s has fewer than %d lines", file, line)
		}
	}
	return lines.Text()
}
