package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

func TestReportExitStatus(t *testing.T) {
	w := newAWSWorld(t)
	if o := w.report(t); o.code != 0 {
		t.Errorf("untouched: exit %d, want 0\n%s\n%s", o.code, o.stdout, o.stderr)
	}
	if o := w.report(t, "--exit-style", "terraform"); o.code != 0 {
		t.Errorf("untouched, terraform style: exit %d, want 0", o.code)
	}
	w.tamper(t, "tag changed")
	for args, want := range map[string]int{
		"":                       1,
		"--fail-on low":          1,
		"--fail-on critical":     0,
		"--exit-style terraform": 2,
	} {
		if o := w.report(t, strings.Fields(args)...); o.code != want {
			t.Errorf("a changed tag, %q: exit %d, want %d\n%s", args, o.code, want, o.stderr)
		}
	}
	w.unchanged(t)
}

// TestReportCannotLook covers what keeps a report from looking at AWS. Nothing
// may be called missing, the reason must be given, and the exit status is 3.
func TestReportCannotLook(t *testing.T) {
	tests := map[string]struct {
		breaks func(*testing.T, *awsWorld)
		say    string
		// partly: some kinds are still compared.
		partly bool
	}{
		"wrong secret": {
			breaks: func(t *testing.T, _ *awsWorld) { t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong") },
			say:    "CredentialsUnavailable",
		},
		"revoked key": {
			breaks: func(_ *testing.T, w *awsWorld) { w.sim.RevokeCredential(w.sim.Credentials()[0].AccessKeyID) },
			say:    "CredentialsUnavailable",
		},
		"expired session": {
			breaks: func(_ *testing.T, w *awsWorld) {
				c := w.sim.Credentials()[0]
				c.Expires = time.Now().Add(-time.Minute)
				w.sim.AddCredential(c)
			},
			say: "CredentialsUnavailable",
		},
		"no credentials": {
			breaks: func(t *testing.T, _ *awsWorld) {
				t.Setenv("AWS_ACCESS_KEY_ID", "")
				t.Setenv("AWS_SECRET_ACCESS_KEY", "")
			},
			say: "CredentialsUnavailable",
		},
		"wrong account": {
			breaks: func(t *testing.T, w *awsWorld) {
				w.env.Cluster.Annotations = map[string]string{"drift.holdfast.io/aws-account": "999988887777"}
				w.write(t)
			},
			say: "WrongAccount",
		},
		"wrong region": {
			breaks: func(t *testing.T, w *awsWorld) {
				w.env.AWSCluster.Spec.Region = "us-east-1"
				w.write(t)
			},
			say: "check account, region, server and permissions",
		},
		"no endpoint": {
			breaks: func(_ *testing.T, w *awsWorld) { w.sim.Close() },
			say:    "connection refused",
		},
		"an endpoint that is no address": {
			breaks: func(t *testing.T, _ *awsWorld) { t.Setenv("AWS_ENDPOINT_URL", "http://bob:S3cret%zz@127.0.0.1:1") },
			say:    "http://***@127.0.0.1:1",
		},
		"throttled on page 3 of 5": {
			breaks: func(_ *testing.T, w *awsWorld) {
				w.sim.InjectFault(ec2sim.Fault{Action: "DescribeInstances", Page: 3, Code: "RequestLimitExceeded"})
				w.sim.InjectFault(ec2sim.Fault{Action: "DescribeInstances", Kind: ec2sim.FaultShortPage, Items: 2})
			},
			say: "RequestLimitExceeded", partly: true,
		},
		"a page that repeats": {
			breaks: func(_ *testing.T, w *awsWorld) {
				w.sim.InjectFault(ec2sim.Fault{Action: "DescribeInstances", Page: 2, Kind: ec2sim.FaultRepeatToken})
				w.sim.InjectFault(ec2sim.Fault{Action: "DescribeInstances", Kind: ec2sim.FaultShortPage, Items: 2})
			},
			say: "Instance could not be read", partly: true,
		},
		"a forbidden call": {
			breaks: func(_ *testing.T, w *awsWorld) {
				c := w.sim.Credentials()[0]
				c.Deny = []string{"ec2:DescribeSecurityGroups"}
				w.sim.AddCredential(c)
			},
			say: "UnauthorizedOperation", partly: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newAWSWorld(t)
			tc.breaks(t, w)
			o := w.report(t, "--timeout", "60s")
			r := o.parse(t)
			got := statuses(r)
			if o.code != 3 {
				t.Errorf("exit %d, want 3\n%s", o.code, o.stderr)
			}
			if got[detector.Missing]+got[detector.Drifted]+got[detector.Unexpected] > 0 {
				t.Errorf("a report that could not look found %v", got)
			}
			if got[detector.NotChecked]+got[detector.Unknown] == 0 {
				t.Error("nothing is said to be unchecked")
			}
			if strings.Contains(o.stdout+o.stderr, "S3cret") {
				t.Errorf("the report tells a password:\n%s", o.stdout)
			}
			if !strings.Contains(o.stdout, tc.say) {
				t.Errorf("the report does not say %q:\n%s", tc.say, o.stdout)
			}
			if checked := r.Clusters[0].Coverage.Checked; (checked > 0) != tc.partly && tc.say != "check account, region, server and permissions" {
				t.Errorf("%d fields were compared; partly: %v", checked, tc.partly)
			}
		})
	}
}

// TestReportEmptyPage follows a page that holds nothing and has a successor.
func TestReportEmptyPage(t *testing.T) {
	w := newAWSWorld(t)
	w.sim.InjectFault(ec2sim.Fault{Action: "DescribeInstances", Page: 1, Kind: ec2sim.FaultEmptyPage})
	if o := w.report(t); o.code != 0 {
		t.Errorf("exit %d, want 0: the machines are on the next page\n%s", o.code, o.stdout)
	}
}

func TestReportBadInput(t *testing.T) {
	w := newAWSWorld(t)
	policy := func(text string) []string { return []string{"--policy", write(t, "policy.yaml", text)} }
	objects := func(text string) []string { return []string{"--objects", write(t, "objects.yaml", text)} }
	tests := map[string]struct {
		args []string
		code int
		say  []string
	}{
		"not YAML":              {args: objects("a: [\n"), code: 2, say: []string{"objects.yaml:", "not YAML"}},
		"near miss of a kind":   {args: objects("apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSMachin\nmetadata: {name: a}\n"), code: 2, say: []string{"objects.yaml:1", "did you mean AWSMachine"}},
		"a hostile name":        {args: objects("apiVersion: cluster.x-k8s.io/v9\nkind: Cluster\nmetadata: {name: \"a\\e[31m\\u202e\\x9b\\nb\"}\n"), code: 2, say: []string{`a\x1b[31m\u202e\u009b`}},
		"an unfilled template":  {args: objects("apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n  name: ${CLUSTER_NAME}\n"), code: 2, say: []string{"objects.yaml:4", "${CLUSTER_NAME}"}},
		"no such file":          {args: []string{"--objects", "/nowhere"}, code: 2, say: []string{"/nowhere"}},
		"no such format":        {args: []string{"-o", "tabel"}, code: 2, say: []string{"tabel", "table"}},
		"no such severity":      {args: []string{"--fail-on", "hgih"}, code: 2, say: []string{"hgih"}},
		"no such exit style":    {args: []string{"--exit-style", "x"}, code: 2, say: []string{"terraform"}},
		"no such flag":          {args: []string{"--objcts", "x"}, code: 2, say: []string{"--objcts"}},
		"no cluster matches":    {args: []string{"--cluster", "prod/none"}, code: 2, say: []string{"prod/none", "prod/prod-eu"}},
		"not a report":          {args: []string{"--compare", write(t, "old.json", "{}")}, code: 2, say: []string{"old.json"}},
		"not a snapshot":        {args: []string{"--snapshot", write(t, "s.json", "{}")}, code: 2, say: []string{"s.json"}},
		"a misspelled policy":   {args: policy("apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: a}\nspec:\n  mathc: {}\n"), code: 4, say: []string{"policy.yaml:5", "mathc", "match"}},
		"a policy's bad CEL":    {args: policy("apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: a}\nspec:\n  rules:\n  - id: x\n    target: {provider: aws, kind: Instance}\n    paths: [/instanceType]\n    when: \"have.(\"\n    action: observe\n"), code: 4, say: []string{"policy.yaml:9"}},
		"a policy with one tab": {args: policy("apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata:\n\tname: a\n"), code: 4, say: []string{"policy.yaml:4", "tab"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"report"}, tc.args...)
			if !strings.Contains(strings.Join(tc.args, " "), "--objects") {
				args = append(args, "--objects", w.objects)
			}
			o := holdfast(t, args...)
			if o.code != tc.code {
				t.Errorf("exit %d, want %d\n%s", o.code, tc.code, o.stderr)
			}
			for _, say := range tc.say {
				if !strings.Contains(o.stderr, say) {
					t.Errorf("the error does not say %q:\n%s", say, o.stderr)
				}
			}
			if i := strings.IndexFunc(strings.ReplaceAll(o.stderr, "\n", ""), unicode.IsControl); i >= 0 {
				t.Errorf("the error reaches the terminal's controls: %q", o.stderr)
			}
			if o.stdout != "" {
				t.Errorf("a failed run printed a report:\n%s", o.stdout)
			}
		})
	}
}

// TestReportSameTwice checks that any two runs on one state agree to the byte.
func TestReportSameTwice(t *testing.T) {
	w := newAWSWorld(t)
	w.tamper(t, "tag changed", "SSH opened to the world", "instance terminated by a person", "default route of a private subnet deleted")
	first := same(t, w.report(t))
	for range 3 {
		if d := cmp.Diff(first, same(t, w.report(t))); d != "" {
			t.Fatalf("two runs differ (-first +later):\n%s", d)
		}
	}
	w.unchanged(t)
}

// TestReportSnapshot compares with a saved snapshot what was compared live. The
// cloud is gone by then.
func TestReportSnapshot(t *testing.T) {
	w := newAWSWorld(t)
	w.tamper(t, "tag changed", "instance terminated by a person", "subnet declared anew")
	file := filepath.Join(t.TempDir(), "snapshot.json")
	live := w.report(t, "--save-snapshot", file)
	w.sim.Close()
	saved := w.report(t, "--snapshot", file)
	if d := cmp.Diff(same(t, live), same(t, saved)); d != "" {
		t.Errorf("the replay differs (-live +replayed):\n%s", d)
	}
	if saved.code != live.code {
		t.Errorf("the replay exits %d, the live report %d", saved.code, live.code)
	}
}

func TestReportCompare(t *testing.T) {
	w := newAWSWorld(t)
	w.tamper(t, "tag changed")
	old := filepath.Join(t.TempDir(), "old.json")
	if o := w.report(t, "-o", "json="+old); o.code != 1 {
		t.Fatalf("exit %d: %s", o.code, o.stderr)
	}
	w.tamper(t, "metadata tokens made optional")
	r := w.report(t, "--compare", old).parse(t)
	since := map[string]string{}
	for i := range r.Findings {
		since[r.Findings[i].Diffs[0].Path] = string(r.Findings[i].Since)
	}
	want := map[string]string{"/metadataOptions/httpTokens": "new"}
	for path, s := range since {
		if strings.HasPrefix(path, "/tags/") {
			want[path] = "unchanged"
			if s == "new" {
				t.Errorf("%s was in the earlier report and is called new", path)
			}
		}
	}
	if d := cmp.Diff(want, since); d != "" {
		t.Errorf("since (-want +got):\n%s", d)
	}
}

// TestReportSeveralOutputs writes every format from one scan.
func TestReportSeveralOutputs(t *testing.T) {
	w := newAWSWorld(t)
	w.tamper(t, "SSH opened to the world")
	dir := t.TempDir()
	args := []string{"report", "--objects", w.objects, "-o", "table"}
	formats := []string{"json", "yaml", "markdown", "html", "sarif", "junit", "openreports", "wide"}
	for _, f := range formats {
		args = append(args, "-o", f+"="+filepath.Join(dir, f))
	}
	w.sim.ResetCalls()
	w.built = 0
	o := holdfast(t, args...)
	if n := w.sim.CallCounts()["ec2:DescribeInstances"]; n != 1 {
		t.Errorf("DescribeInstances was called %d times for %d outputs, want once: %v", n, len(formats)+1, w.sim.CallCounts())
	}
	for _, f := range formats {
		data, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(data), "0.0.0.0/0") {
			t.Errorf("the %s report does not show the opened rule", f)
		}
	}
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "nothing was changed") {
		t.Errorf("the last line is %q", last)
	}
	if strings.Contains(o.stdout, "\x1b") || o.stderr != "" {
		t.Errorf("a report that goes nowhere near a terminal has colours or progress: %q", o.stderr)
	}
	w.unchanged(t)
}

func TestReportStdin(t *testing.T) {
	w := newAWSWorld(t)
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(w.objects, "*.yaml"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n" + string(data))
	}
	if o := holdfastIn(t, all.String(), "report", "--objects", "-", "-o", "json"); o.code != 0 {
		t.Errorf("exit %d: %s", o.code, o.stderr)
	}
}
