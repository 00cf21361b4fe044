package report

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// peopleFormats are those in which a reader looks for a verdict.
var peopleFormats = []Format{FormatTable, FormatWide, FormatMarkdown, FormatHTML, FormatOpenReports}

// says renders a scan for people, on one line and without markup.
func says(t *testing.T, in BuildInput, f Format) string {
	t.Helper()
	out := string(render(t, Build(in), f, Style{Width: maxWidth}))
	if f == FormatHTML {
		_, out, _ = strings.Cut(out, "<body>")
		out, _, _ = strings.Cut(out, "<script>")
		out = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(out, "")
	}
	return strings.Join(strings.Fields(out), " ")
}

func foreign() policies.Decision {
	return instance(status(detector.Foreign, "somebody else's"), with(added("/tags/x", "y")), severity(policies.Info, policies.Observe))
}

// A check mark is for what was compared and is in sync, whatever is listed.
func TestSilencedIsNotInSync(t *testing.T) {
	silent := instance(with(removed("/tags/a", "1")), ignored("storage-team", "backup", time.Time{}))
	gone := instance(status(detector.Missing, "gone"), ignored("storage-team", "backup", time.Time{}))
	checked := func(in *BuildInput) { in.Clusters[0].Checked = 7 }
	cases := map[string]struct {
		in         BuildInput
		want       string
		never      string
		inSyncMark bool
	}{
		"in sync":          {scan(at, checked), "verything that was compared is in sync", "no drift", true},
		"ignored":          {scan(at, checked, found(silent)), "o drift that is not ignored (1 ignored)", "is in sync", false},
		"foreign":          {scan(at, checked, found(foreign())), "o drift in what is not foreign (1 foreign)", "is in sync", false},
		"both":             {scan(at, checked, found(silent, foreign())), "o drift that is not ignored (1 ignored, 1 foreign)", "is in sync", false},
		"nothing compared": {scan(at), "othing was compared", "is in sync", false},
		"nothing, ignored": {scan(at, found(gone)), "othing was compared (1 ignored)", "is in sync", false},
		"cloud not read": {scan(at, checked, func(in *BuildInput) { in.Clusters[0].SnapshotTime = time.Time{} }),
			"othing was compared", "is in sync", false},
	}
	for name, c := range cases {
		for _, show := range []bool{false, true} {
			c.in.ShowIgnored = show
			for _, f := range peopleFormats {
				t.Run(fmt.Sprintf("%s/%v/%s", name, show, f), func(t *testing.T) {
					got := says(t, c.in, f)
					if (f == FormatTable || f == FormatHTML) && !strings.Contains(got, c.want) {
						t.Errorf("it does not say %q:\n%s", c.want, got)
					}
					if strings.Contains(got, "✓") && !c.inSyncMark || strings.Contains(strings.ToLower(got), c.never) {
						t.Errorf("it shows a check or says %q:\n%s", c.never, got)
					}
					if f == FormatOpenReports && !c.inSyncMark && strings.Contains(name, "nothing") && strings.Contains(got, "result: pass") {
						t.Errorf("an owner passes of which nothing was compared:\n%s", got)
					}
				})
			}
		}
	}
	if r := Build(cases["both"].in); r.Clusters[0].Ignored != 1 || r.Clusters[0].Foreign != 1 {
		t.Errorf("the cluster counts %d ignored and %d foreign", r.Clusters[0].Ignored, r.Clusters[0].Foreign)
	}
}

// What is missing cannot be patched in place, in any format.
func TestMissingIsCreatedAgain(t *testing.T) {
	in := scan(at, found(
		decision("c1", awsCluster("c1"), resource("aws", "RouteTable", "rtb-1", ""), status(detector.Missing, "gone"), severity(policies.High, policies.Patch)),
		decision("c1", awsCluster("c1"), resource("aws", "Subnet", "subnet-1", ""), with(removed("/tags/a", "1")), severity(policies.Low, policies.Patch))))
	for _, f := range []Format{FormatTable, FormatWide, FormatMarkdown, FormatHTML, FormatSARIF, FormatJUnit, FormatOpenReports} {
		got := strings.ToLower(says(t, in, f))
		if n := strings.Count(got, "would create it again"); n != 1 {
			t.Errorf("%s says %d times that it would create it again:\n%s", f, n, got)
		}
		if n := strings.Count(got, "would patch in place"); n != 1 {
			t.Errorf("%s says %d times that it would patch in place:\n%s", f, n, got)
		}
	}
	if got, want := planWords(Build(in)), "1 would be patched, 1 would be created again, 0 would be answered by replacing the machine."; got != want {
		t.Errorf("the summary says %q, want %q", got, want)
	}
}

// An action that a gate holds back has no colour.
func TestHeldBackIsNeutral(t *testing.T) {
	for _, action := range []policies.Action{policies.Patch, policies.Replace} {
		for name, mods := range map[string][]func(*policies.Decision){"free": nil, "held back": {observing()}} {
			d := instance(append(mods, with(removed("/tags/a", "1")), severity(policies.Low, action))...)
			r := Build(scan(at, found(d)))
			table := string(render(t, r, FormatTable, Style{Color: true}))
			plainTable := regexp.MustCompile(`(^|[^m])would (patch in|replace the)`).MatchString(table)
			page := string(render(t, r, FormatHTML, Style{}))
			plainPage := strings.Contains(page, `<dd class="plan ">`)
			if held := name == "held back"; plainTable != held || plainPage != held {
				t.Errorf("%s %s: without colour in the table: %v, in the page: %v", name, action, plainTable, plainPage)
			}
		}
	}
}

// One word for one thing, and columns that add up to the summary.
func TestStatusWordsAreTheOnesOfTheDocs(t *testing.T) {
	in := compared()
	for _, f := range peopleFormats {
		got := strings.ToLower(says(t, withIgnored(in), f))
		for _, word := range []string{"extra", "unread ", "unchecked", " not looked for."} {
			if strings.Contains(got, word) {
				t.Errorf("%s says %q", f, word)
			}
		}
	}
	for f, want := range map[Format]string{
		FormatTable:    "DRIFTED MISSING UNEXPECTED NOT CHECKED UNKNOWN COVERAGE CLUSTER",
		FormatMarkdown: "| Drifted | Missing | Unexpected | Not checked | Unknown | Coverage |",
		FormatHTML:     "ClusterDriftedMissingUnexpectedNot checkedUnknownObjectsCoverage",
	} {
		if got := says(t, in, f); !strings.Contains(got, want) || !strings.Contains(got, "1 unverified") {
			t.Errorf("%s lacks %q or what is unverified:\n%s", f, want, got)
		}
	}
	for name, in := range inputs() {
		v := newView(Build(in))
		var sum Summary
		for i := range v.clusters {
			c := &v.clusters[i]
			sum.Drifted, sum.Missing, sum.Unexpected = sum.Drifted+c.drifted, sum.Missing+c.missing, sum.Unexpected+c.unexpected
			sum.NotChecked, sum.Unknown = sum.NotChecked+c.notChecked, sum.Unknown+c.unknown
			sum.Ignored, sum.Foreign = sum.Ignored+c.Ignored, sum.Foreign+c.Foreign
		}
		s := v.Summary
		if sum.Drifted != s.Drifted || sum.Missing != s.Missing || sum.Unexpected != s.Unexpected || sum.NotChecked != s.NotChecked ||
			sum.Unknown != s.Unknown || sum.Ignored != s.Ignored || sum.Foreign != s.Foreign {
			t.Errorf("%s: the clusters add up to %+v, the summary is %+v", name, sum, s)
		}
	}
}

// A reason that names the AWSCluster stands once for it and its machines.
func TestReasonsAreGroupedOverTheCluster(t *testing.T) {
	reason := "CredentialsUnavailable: AWSCluster prod/c1: no credentials"
	unread := func(o providers.OwnerRef) policies.Decision {
		return decision("c1", o, resource("aws", o.Kind, "prod/"+o.Name, o.Name), status(detector.NotChecked, reason))
	}
	own := func(name string) policies.Decision {
		return decision("c1", awsMachine("c1", name), resource("aws", "Instance", "i-"+name, ""), status(detector.NotChecked, "i-"+name+" has no id"))
	}
	v := newView(Build(scan(at, found(unread(awsCluster("c1")), unread(awsMachine("c1", "mmm")), unread(awsMachine("c1", "nnn")), own("ooo"), own("ppp")))))
	if got := len(v.clusters[0].unread); got != 2 {
		t.Fatalf("%d reasons, want 2: %+v", got, v.clusters[0].unread)
	}
	if got := len(v.clusters[0].unread[0].findings); got != 3 {
		t.Errorf("%d findings for the first reason, want 3", got)
	}
}

// A terminated instance has a state, which says why; the reason adds nothing.
func TestTerminatedIsSaidOnce(t *testing.T) {
	why := "terminated: Server.SpotInstanceTermination"
	in := scan(at, found(instance(status(detector.Missing, why), func(d *policies.Decision) {
		d.Finding.Diffs = []detector.Diff{{Path: "/state", Want: providers.String("running"), Have: providers.String(why), Type: detector.Removed}}
	})))
	for _, f := range []Format{FormatTable, FormatWide, FormatMarkdown, FormatHTML, FormatSARIF, FormatJUnit} {
		if got := says(t, in, f); strings.Count(got, why) != 1 {
			t.Errorf("%s says %d times why:\n%s", f, strings.Count(got, why), got)
		}
	}
	if got := says(t, in, FormatTable); !strings.Contains(got, "~ /state running → "+why) {
		t.Errorf("the table does not show a value that differs:\n%s", got)
	}
}

// Resources of one owner that are gone alike stand in one entry, by name.
func TestAlikeResourcesOfAnOwnerStandTogether(t *testing.T) {
	var all []policies.Decision
	for i := range 6 {
		all = append(all, decision("c1", awsCluster("c1"), resource("aws", "RouteTable", fmt.Sprintf("rtb-%d", i), fmt.Sprintf("private-%d", i)),
			status(detector.Missing, "absent"), with(removed("/state", "present")), severity(policies.High, policies.Patch)))
	}
	all = append(all, decision("c1", awsCluster("c1"), resource("aws", "RouteTable", "rtb-9", ""),
		status(detector.Missing, "absent"), with(removed("/state", "present")), severity(policies.Low, policies.Patch)))
	v := newView(Build(scan(at, found(all...))))
	findings := v.clusters[0].groups[0].findings
	if len(findings) != 2 || len(findings[0].resources) != 6 || v.clusters[0].missing != 7 {
		t.Fatalf("%d entries, %d resources in the first, %d missing", len(findings), len(findings[0].resources), v.clusters[0].missing)
	}
	got := says(t, scan(at, found(all...)), FormatTable)
	if !strings.Contains(got, "rtb-0 (private-0), rtb-1 (private-1)") {
		t.Errorf("the entry does not name them:\n%s", got)
	}
}

// A choice of values reads as one.
func TestOneOfReadsAsAChoice(t *testing.T) {
	choice := changed("/state", providers.Set("available", "pending"), providers.String("deleting"))
	unseen := changed("/zone", providers.Set("a", "b", "c"), providers.Value{})
	sets := changed("/groups", providers.Set("sg-1", "sg-2"), providers.Set("sg-3"))
	in := scan(at, found(instance(with(choice, unseen, sets))))
	for _, f := range []Format{FormatTable, FormatMarkdown, FormatHTML, FormatSARIF, FormatJUnit, FormatOpenReports} {
		got := says(t, in, f)
		for _, want := range []string{"available or pending", "a, b or c", "sg-1, sg-2"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s does not say %q:\n%s", f, want, got)
			}
		}
	}
}

// Long words break where they may, and no shorter one is torn.
func TestWrapBreaksWhereWordsPart(t *testing.T) {
	cases := map[string]struct {
		text string
		want []string
	}{
		"ARN":            {"id arn:aws:elasticloadbalancing:eu-1:1111:loadbalancer/net/x", []string{"id arn:aws:elasticloadbalancing:", "eu-1:1111:loadbalancer/net/x"}},
		"path":           {"~ /verylongpathofafield/andanotherone/value  a", []string{"~ /verylongpathofafield/", "andanotherone/value  a"}},
		"hyphens last":   {"1 thing: arn:loadbalancer/net/a-bcd-efg-hijklmnopqrstuvwxyz", []string{"1 thing: arn:loadbalancer/net/", "a-bcd-efg-hijklmnopqrstuvwxyz"}},
		"hyphens":        {strings.Repeat("abcdefgh-", 5), []string{"abcdefgh-abcdefgh-abcdefgh-", "abcdefgh-abcdefgh-"}},
		"short words":    {"one two three four five six seven eight nine", []string{"one two three four five six seven", "eight nine"}},
		"a word to keep": {"x 123456789012345678901234567890123", []string{"x", "123456789012345678901234567890123"}},
		"host and port":  {"averylonghostname.of.a.vcenter:44312", []string{"averylonghostname.of.a.vcenter:", "44312"}},
		"nothing parts":  {strings.Repeat("x", 40), []string{strings.Repeat("x", 34), strings.Repeat("x", 6)}},
		"port and words": {"read the vcenter.example.com:443 twice", []string{"read the vcenter.example.com:443", "twice"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, row := range (line{spans: []span{{c.text, plainInk}}}).wrap(34) {
				text := ""
				for _, cell := range row {
					text += cell.text
				}
				got = append(got, text)
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
