package canary

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/vmware/govmomi/object"
	vim "github.com/vmware/govmomi/vim25/types"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/test/running"
)

// breakers are what breaks out of one sink or another where it is not expected.
var breakers = []string{
	"\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\", "\u009b31m",
	"\u202egnp.exe", "\u2066isolate\u2069", "zero\u200bwidth\ufeff", "line\nbreak", "carriage\rreturn", "two\n\n# paragraphs",
	"<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "</testcase><failure/>", "]]><x/><![CDATA[", "&lt;&#60;",
	"=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "-2+3", "\t=tab()",
	"<!channel> look", "<@U0123456>", "@everyone", "*bold* _it_ ~s~ `code`", "[link](http://evil.example)",
	"\",\"injected\":\"yes", "'; DROP TABLE x; --", "key: value\n- list", "!!python/object", "{\"a\":1}",
	"{{ .Values.x }}", "${HOME} $(id) `id`", "%s%n%d %!v(MISSING)", "\",rule=\"x", "} 1\nholdfast_evil{a=\"b\"} 1",
	"::error file=x::message", "##vso[task.setvariable]x", "| a | b |\n|---|---|", "\u0000nul", "\xff\xfe broken UTF-8",
}

// payloads are two hundred: each breaker in five surroundings.
func payloads() []string {
	var out []string
	for _, b := range breakers {
		out = append(out, b, "x"+b, b+b, b+" "+strings.Repeat("A", 180), "\n"+b+"\n")
	}
	return out
}

// fitting cuts a payload to what a tag's value may be; the API takes XML, which
// has no form for some bytes.
func fitting(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == 0 {
			return '\u2400'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	if r := []rune(s); len(r) > 256 {
		s = string(r[:256])
	}
	return s
}

// declared are the tags of a worker that a spec declares.
var declared = []string{"Environment", "CostCenter", "Pool", "Name"}

// paint gives every machine's declared tags values, and the instance one more
// tag whose key is such a text too.
func (w *world) paint(t *testing.T, value func(i int) string) {
	t.Helper()
	c := ec2.NewFromConfig(w.sim.ConfigFor(w.operator, region))
	for i, m := range w.aws.AWSMachines {
		var tags []types.Tag
		for j, key := range declared {
			tags = append(tags, types.Tag{Key: aws.String(key), Value: aws.String(value(i*len(declared) + j))})
		}
		foreign := []rune(strings.TrimPrefix(value(i*len(declared)), "aws:"))
		tags = append(tags, types.Tag{Key: aws.String(string(foreign[:min(len(foreign), 100)])), Value: aws.String(value(i))})
		if _, err := c.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{*m.Spec.InstanceID}, Tags: tags}); err != nil {
			t.Fatalf("tags of %s: %v", *m.Spec.InstanceID, err)
		}
	}
	for i, vm := range w.vsphere.VSphereVMs {
		found, err := w.vsphere.VirtualMachine(t.Context(), vm.Spec.BiosUUID)
		if err != nil || found == nil {
			t.Fatalf("virtual machine %s: %v, %v", vm.Name, found, err)
		}
		rename(t, found, value(i))
	}
}

func rename(t *testing.T, vm *object.VirtualMachine, name string) {
	t.Helper()
	task, err := vm.Reconfigure(t.Context(), vim.VirtualMachineConfigSpec{Name: name})
	if err == nil {
		err = task.WaitEx(t.Context())
	}
	if err != nil {
		t.Fatalf("rename to %.100q: %v", name, err)
	}
}

// leftOut are series that come as the test goes on, whatever is painted: causes
// of reads, calls of clouds, and how late events are.
var leftOut = []string{"holdfast_reads_total", "holdfast_cloud_api_", "holdfast_event_lag_"}

// series are the names and labels of Holdfast's own metrics.
func series(t *testing.T, d *running.Daemon) []string {
	t.Helper()
	var out []string
	for s := range d.Series(t) {
		if strings.HasPrefix(s, "holdfast_") && !slices.ContainsFunc(leftOut, func(p string) bool { return strings.HasPrefix(s, p) }) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

// Text of an attacker in two hundred tags and in names of virtual machines, one
// of them of 100 KB, is inert in every sink, and makes no series.
func TestHostileTags(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	texts := payloads()
	if len(texts) != 200 {
		t.Fatalf("%d payloads, want 200", len(texts))
	}
	w := newWorld(t, int32(len(texts)/len(declared)))
	d := w.start(t, "observe")
	drifting := len(w.aws.Machines) + len(w.vsphere.Machines)
	w.paint(t, func(i int) string { return fmt.Sprintf("harmless-%d", i) })
	w.sweep(t, d, "observe", 1)
	w.machinesDrift(t, func(n int) bool { return n == drifting })
	before := series(t, d)

	w.paint(t, func(i int) string { return fitting(texts[i%len(texts)]) })
	huge, err := w.vsphere.VirtualMachine(t.Context(), w.vsphere.VSphereVMs[0].Spec.BiosUUID)
	if err != nil || huge == nil {
		t.Fatalf("virtual machine: %v, %v", huge, err)
	}
	rename(t, huge, "huge \x1b[31m<script>"+strings.Repeat("A", 100_000))
	w.sweep(t, d, "observe", 2)
	w.sweep(t, d, "dryRun", 3)
	w.machinesDrift(t, func(n int) bool { return n == drifting })
	running.Eventually(t, time.Minute, "told of what is painted", func() error {
		if !strings.Contains(strings.Join(w.hook.all(), ""), "alert(1)") && len(w.hook.all()) < 3 {
			return errors.New("no notification yet")
		}
		return nil
	})

	after := series(t, d)
	for _, s := range after {
		if _, had := slices.BinarySearch(before, s); !had && !strings.HasPrefix(s, "holdfast_notifications_") && !strings.Contains(s, `severity="`) {
			t.Errorf("a new series: %s", s)
		}
	}
	if len(after) > len(before)+4 { // dryRun has its own
		t.Errorf("%d series, and %d before", len(after), len(before))
	}
	w.inert(t, w.sinks(t.Context(), t, d))
	w.reportsAreInert(t, w.reports(t))
	w.messagesAreInert(t)
}

// steers finds what moves a terminal or turns text around. Line breaks are
// allowed where a sink is lines.
func steers(text string, lines bool) int {
	return strings.IndexFunc(text, func(r rune) bool {
		if lines && (r == '\n' || r == '\t') {
			return false
		}
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	})
}

// inert looks through every text of what the API server has, and the log and
// the metrics as they stand.
func (w *world) inert(t *testing.T, shown map[string]string) {
	t.Helper()
	const longest = 33_000 // the API's own bound of a condition's message
	for where, text := range shown {
		if where == "log" || where == "metrics" || where == "notifications" {
			if at := steers(text, true); at >= 0 {
				t.Errorf("%s has %q", where, around(text, at))
			}
			continue
		}
		var all any
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		each(all, func(s string) {
			if at := steers(s, false); at >= 0 {
				t.Errorf("%s has %q", where, around(s, at))
			}
			if len(s) > longest {
				t.Errorf("%s has a text of %d bytes", where, len(s))
			}
		})
	}
	for line := range strings.Lines(shown["log"]) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is no JSON: %.300q", line)
		}
		if len(line) > 40_000 {
			t.Errorf("a line of the log has %d bytes", len(line))
		}
	}
	if strings.Contains(shown["metrics"], "evil") || strings.Contains(shown["metrics"], "alert(1)") {
		t.Error("the metrics hold what somebody wrote into a cloud")
	}
}

func around(s string, at int) string { return s[max(0, at-60):min(len(s), at+60)] }

func each(v any, do func(string)) {
	switch v := v.(type) {
	case string:
		do(v)
	case []any:
		for _, x := range v {
			each(x, do)
		}
	case map[string]any:
		for key, x := range v {
			do(key)
			each(x, do)
		}
	}
}

// rendered makes a page of Markdown with raw HTML let through, as the most
// trusting reader does; what stands in code is escaped.
func rendered(t *testing.T, text string) string {
	t.Helper()
	var page bytes.Buffer
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe()))
	if err := md.Convert([]byte(text), &page); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// reportsAreInert reads each format as its readers do.
func (w *world) reportsAreInert(t *testing.T, reports map[string]string) {
	t.Helper()
	for name, text := range reports {
		if at := steers(text, true); at >= 0 {
			t.Errorf("%s has %q", name, around(text, at))
		}
		var err error
		switch strings.TrimPrefix(name, "report ") {
		case "json", "sarif":
			err = json.Unmarshal([]byte(text), new(any))
		case "yaml", "openreports":
			for doc := range strings.SplitSeq(text, "\n---\n") {
				err = errors.Join(err, yaml.Unmarshal([]byte(doc), new(any)))
			}
		case "junit":
			d := xml.NewDecoder(strings.NewReader(text))
			for err == nil {
				_, err = d.Token()
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
		case "html", "markdown":
			if strings.HasSuffix(name, "markdown") {
				text = rendered(t, text)
			}
			for _, tag := range []string{"<script>alert", "<img src=x"} {
				if strings.Contains(text, tag) {
					t.Errorf("%s has %s", name, tag)
				}
			}
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(reports["report json"], "alert(1)") {
		t.Error("the report does not show what was written: there is nothing to look through")
	}
}

// messagesAreInert reads what a webhook got, which is for programs and so has
// values as they are but for what steers; services for people are the tests' of
// reconcilers/notify.
func (w *world) messagesAreInert(t *testing.T) {
	t.Helper()
	for _, body := range w.hook.all() {
		var message map[string]string
		if err := json.Unmarshal([]byte(body), &message); err != nil {
			t.Errorf("a message is no JSON object of texts: %v: %.300q", err, body)
		}
		for key, text := range message {
			if at := steers(text, true); at >= 0 {
				t.Errorf("%s of a message has %q", key, around(text, at))
			}
			if len(text) > 100_000 {
				t.Errorf("a message of %d bytes", len(text))
			}
		}
	}
}
