package aws

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// pattern is an event pattern of EventBridge.
type pattern map[string]any

// documentedPatterns gives the patterns of docs/events.md, by resource. The
// page has them twice, which must be the same.
func documentedPatterns(t testing.TB) map[string]pattern {
	t.Helper()
	page := eventsPage(t)
	template := regexp.MustCompile("(?s)```yaml\n(AWSTemplate.*?)```").FindStringSubmatch(page)
	if template == nil {
		t.Fatal("the page has no CloudFormation template")
	}
	var stack struct {
		Resources map[string]struct {
			Properties struct{ EventPattern pattern }
		}
	}
	plain := regexp.MustCompile(`!(Ref|GetAtt) `).ReplaceAllString(template[1], "")
	if err := yaml.Unmarshal([]byte(plain), &stack); err != nil {
		t.Fatal(err)
	}
	out := map[string]pattern{}
	for name, r := range stack.Resources {
		if r.Properties.EventPattern != nil {
			out[name] = r.Properties.EventPattern
		}
	}
	hcl := regexp.MustCompile(`(?s)resource "aws_cloudwatch_event_rule" "holdfast_(\w+)".*?<<-JSON\n(.*?)\n  JSON`).FindAllStringSubmatch(page, -1)
	if len(hcl) != len(out) || len(out) == 0 {
		t.Fatalf("%d rules in Terraform, %d in CloudFormation", len(hcl), len(out))
	}
	for _, m := range hcl {
		var p pattern
		if err := json.Unmarshal([]byte(m[2]), &p); err != nil {
			t.Fatal(err)
		}
		name := strings.ToUpper(m[1][:1]) + m[1][1:]
		if diff := cmp.Diff(out[name], p); diff != "" {
			t.Errorf("rule %s (-CloudFormation +Terraform):\n%s", name, diff)
		}
	}
	return out
}

func eventsPage(t testing.TB) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// letsThrough applies the part of EventBridge's pattern language that the page
// uses ("Creating Amazon EventBridge event patterns"): exact values, exists,
// anything-but. TestWatchEndToEnd has moto judge the same patterns.
func letsThrough(t testing.TB, p, event map[string]any) bool {
	for name, want := range p {
		have, there := event[name]
		switch want := want.(type) {
		case map[string]any:
			inner, _ := have.(map[string]any)
			if !letsThrough(t, want, inner) {
				return false
			}
		case []any:
			if !slices.ContainsFunc(want, func(w any) bool { return fits(t, w, have, there) }) {
				return false
			}
		default:
			t.Fatalf("%s: %T is no pattern", name, want)
		}
	}
	return true
}

func fits(t testing.TB, want, have any, there bool) bool {
	rule, ok := want.(map[string]any)
	if !ok {
		return there && have == want
	}
	for name, value := range rule {
		switch name {
		case "exists":
			return there == value
		case "anything-but":
			return there && !slices.Contains(value.([]any), have)
		}
	}
	t.Fatalf("%v is not modelled", want)
	return false
}

// Everything that is understood is let through by one of the documented rules,
// and whatever the parser would only throw away is kept out where a pattern can
// tell.
func TestDocumentedPatternsLetThroughWhatIsUnderstood(t *testing.T) {
	rules := documentedPatterns(t)
	for name, s := range samples() {
		var event map[string]any
		if err := json.Unmarshal([]byte(s.body(t)), &event); err != nil {
			t.Fatal(err)
		}
		through := 0
		for _, p := range rules {
			if letsThrough(t, p, event) {
				through++
			}
		}
		if through > 1 {
			t.Errorf("%s: %d rules match, so it comes twice", name, through)
		}
		switch s.want() {
		case EventTold:
			if through == 0 {
				t.Errorf("%s: no rule matches", name)
			}
		case EventFailed, EventUnknown:
			if through != 0 {
				t.Errorf("%s: a rule matches what is thrown away", name)
			}
		}
	}
}

// And what the rules name is what the parser knows.
func TestDocumentedPatternsNameWhatIsUnderstood(t *testing.T) {
	var sources, types, services, named []string
	for k := range eventKinds {
		sources, types = append(sources, k.source), append(types, k.detail)
	}
	for action, s := range shapes {
		if s.nothing {
			named = append(named, action)
		}
	}
	var docSources, docTypes, docServices, docNamed []string
	for _, p := range documentedPatterns(t) {
		docSources = append(docSources, texts(p["source"])...)
		docTypes = append(docTypes, texts(p["detail-type"])...)
		if detail, ok := p["detail"].(map[string]any); ok {
			docServices = texts(detail["eventSource"])
			docNamed = texts(detail["eventName"].([]any)[0].(map[string]any)["anything-but"])
		}
	}
	for _, service := range docServices {
		s := samples()["stop"]
		detail := strings.Replace(s.detail, "ec2.amazonaws.com", service, 1)
		if strings.HasPrefix(service, "elastic") {
			detail = strings.Replace(samples()["load balancer deleted"].detail, "elasticloadbalancing.amazonaws.com", service, 1)
		}
		s.detail = detail
		if _, outcome, _ := parseMessage(s.body(t), sentAt); outcome == EventTold {
			services = append(services, service)
		}
	}
	for what, lists := range map[string][2][]string{
		"sources": {sources, docSources}, "detail types": {types, docTypes},
		"services": {services, docServices}, "actions left out": {named, docNamed},
	} {
		if diff := cmp.Diff(inOrder(lists[0]), inOrder(lists[1])); diff != "" {
			t.Errorf("%s (-parser +page):\n%s", what, diff)
		}
	}
}

// The documented permissions are those of the calls.
func TestDocumentedEventPermissions(t *testing.T) {
	queues, _ := simulatedQueue(t)
	p := watchProvider(t, Events{QueueName: queueName})
	w := start(t, p, scopeOf(t, p))
	queues.Send(queueName, stateOf(t, i1, "stopped"))
	w.next()
	eventually(t, "nothing was deleted", func() bool { return queues.Left(queueName) == 0 })
	var called []string
	for c := range p.Calls() {
		if c.Service == "SQS" {
			called = append(called, "sqs:"+strings.TrimSuffix(c.Operation, "Batch"))
		}
	}
	var policy struct {
		Statement []struct{ Action []string }
	}
	m := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(eventsPage(t))
	if m == nil {
		t.Fatal("the page has no IAM policy")
	}
	if err := json.Unmarshal([]byte(m[1]), &policy); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inOrder(called), inOrder(policy.Statement[0].Action)); diff != "" {
		t.Errorf("permissions (-calls +page):\n%s", diff)
	}
}

func texts(list any) []string {
	var out []string
	for _, v := range list.([]any) {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func inOrder(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}
