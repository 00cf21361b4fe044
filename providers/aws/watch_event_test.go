package aws

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers"
)

var sentAt = time.Date(2026, 11, 30, 10, 0, 5, 0, time.UTC)

func idTexts(ids []providers.ID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, id.String())
	}
	return out
}

func TestParseMessage(t *testing.T) {
	for name, s := range samples() {
		t.Run(name, func(t *testing.T) {
			body := s.body(t)
			check := func(how, body string) {
				n, outcome, err := parseMessage(body, sentAt)
				if err != nil || outcome != s.want() {
					t.Fatalf("%s: outcome %s, error %v; want %s", how, outcome, err, s.want())
				}
				if outcome != EventTold {
					return
				}
				want := sample{ids: s.ids, what: s.what, by: s.by, gap: s.gap, groups: s.groups}
				got := sample{ids: idTexts(n.event.IDs), what: n.event.What, by: n.event.By, gap: n.event.Gap, groups: n.groups}
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(sample{})); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
				if n.account != "123456789012" || n.region != "eu-central-1" {
					t.Errorf("%s: of %s in %s", how, n.account, n.region)
				}
				if at := n.event.At; at.Minute() != 58 && s.detailType == detailAPICall || at.IsZero() {
					t.Errorf("%s: at %s, want the time of the call", how, at)
				}
			}
			check("as it is", body)
			wrapped, err := json.Marshal(map[string]string{"Type": "Notification", "TopicArn": "arn:aws:sns:eu-central-1:123456789012:t", "Message": body, "Signature": "x"})
			if err != nil {
				t.Fatal(err)
			}
			check("in an SNS notification", string(wrapped))
		})
	}
}

func TestParseMessageMalformed(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 100) + `"i-0123456789abcdef0"` + strings.Repeat(`}`, 100)
	good := noticeOf("EC2 Instance State-change Notification", `{"instance-id":"`+i1+`","state":"stopped"}`, "")
	for name, body := range map[string]string{
		"empty":                  "",
		"no JSON":                "<html>",
		"a list":                 "[]",
		"null":                   "null",
		"half":                   good.body(t)[:80],
		"no detail-type":         `{"source":"aws.ec2"}`,
		"other letters":          strings.Replace(good.body(t), `"detail-type"`, `"Detail-Type"`, 1),
		"no account":             strings.Replace(good.body(t), "123456789012", "", 1),
		"account with a path":    strings.Replace(good.body(t), "123456789012", "../456789012", 1),
		"no region":              strings.Replace(good.body(t), "eu-central-1", "", 1),
		"detail is a text":       noticeOf("EC2 Instance State-change Notification", `"x"`, "").body(t),
		"instance id is a group": noticeOf("EC2 Instance State-change Notification", `{"instance-id":"sg-0123456789abcdef0"}`, "").body(t),
		"instance id with more":  noticeOf("EC2 Instance State-change Notification", `{"instance-id":"i-0123456789abcdef0 --force"}`, "").body(t),
		"instance id of a list":  noticeOf("EC2 Instance State-change Notification", `{"instance-id":["`+i1+`"]}`, "").body(t),
		"entities are a text":    (sample{source: sourceHealth, detailType: "AWS Health Event", detail: `{"affectedEntities":"x"}`}).body(t),
		"call without a name":    (sample{source: sourceEC2, detailType: detailAPICall, detail: `{}`}).body(t),
		"deep parameters":        call("ec2", "ModifyInstanceAttribute", deep, "null").body(t),
		"deeper than JSON may":   call("ec2", "ModifyInstanceAttribute", strings.Repeat("[", 5000)+strings.Repeat("]", 5000), "null").body(t),
		"SNS without a message":  `{"Type":"Notification","TopicArn":"arn","Message":"hello"}`,
		"SNS in SNS":             `{"Type":"Notification","TopicArn":"arn","Message":"{\"Type\":\"Notification\",\"TopicArn\":\"arn\",\"Message\":\"{}\"}"}`,
		"too large":              `{"source":"` + strings.Repeat("x", maxMessage) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if n, outcome, err := parseMessage(body, sentAt); outcome != EventMalformed || err == nil {
				t.Errorf("outcome %s, error %v, %v; want Malformed with its reason", outcome, err, n.event.IDs)
			} else if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("the reason steers a terminal: %q", err)
			}
		})
	}
}

// An event of more resources than anybody asks for one by one is a reason to
// read everything.
func TestEventOfTooManyResources(t *testing.T) {
	var items []string
	for i := range maxIDs + 1 {
		items = append(items, `{"instanceId":"i-`+strings.Repeat("0", 12)+string("0123456789abcdef"[i>>12&15])+string("0123456789abcdef"[i>>8&15])+string("0123456789abcdef"[i>>4&15])+string("0123456789abcdef"[i&15])+`0"}`)
	}
	s := call("ec2", "TerminateInstances", `{"instancesSet":{"items":[`+strings.Join(items, ",")+`]}}`, "null")
	n, outcome, err := parseMessage(s.body(t), sentAt)
	if err != nil || outcome != EventTold || !n.event.Gap || len(n.event.IDs) != 0 {
		t.Errorf("%s, %v: gap %t with %d ids; want a gap alone", outcome, err, n.event.Gap, len(n.event.IDs))
	}
}

func TestEventTextsAreBounded(t *testing.T) {
	identity := `{"type":"IAMUser","arn":"arn:aws:iam::123456789012:user/` + strings.Repeat("ü", 4000) + `"}`
	s := callBy(identity, "ec2", "Stop"+strings.Repeat("x", 4000), `{"instanceId":"`+i1+`"}`, "null", "")
	n, _, err := parseMessage(s.body(t), sentAt)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{n.event.What, n.event.By} {
		if len(text) > maxText+len("…") || len(text) < maxText/2 || !utf8.ValidString(text) {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
}

// Holdfast's own writes are known by principal and mark together.
func TestOwnWrites(t *testing.T) {
	const (
		role  = "arn:aws:sts::123456789012:assumed-role/holdfast/"
		agent = "aws-sdk-go-v2/1.48.0 ua/2.1 os/linux api/ec2#1.347.0 app/holdfast"
	)
	for name, tc := range map[string]struct {
		own, principal, agent string
		want                  bool
	}{
		"the same session":           {role + "1700000000", role + "1700000000", agent, true},
		"a session before a restart": {role + "1800000000", role + "1700000000", agent, true},
		"mark in the middle":         {role + "s", role + "s", "aws-sdk-go-v2/1.48.0 app/holdfast m/E", true},
		"CAPA with the same role":    {role + "s", role + "s", "aws-sdk-go-v2/1.48.0 cluster-api-provider-aws", false},
		"another's mark":             {role + "s", role + "s", "app/holdfast-imitation", false},
		"a person with the mark":     {role + "s", byAlice, agent, false},
		"a role of the same prefix":  {role + "s", "arn:aws:sts::123456789012:assumed-role/holdfast-2/s", agent, false},
		"another account":            {role + "s", "arn:aws:sts::210987654321:assumed-role/holdfast/s", agent, false},
		"a user":                     {"arn:aws:iam::123456789012:user/h", "arn:aws:iam::123456789012:user/h", agent, true},
		"nothing known":              {"", "", agent, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isOwn(tc.own, tc.principal, tc.agent); got != tc.want {
				t.Errorf("isOwn(%q, %q, %q) = %t", tc.own, tc.principal, tc.agent, got)
			}
		})
	}
}

// A read-only flag is believed as well as a name, and lists of any spelling
// come out alike.
func TestLeaves(t *testing.T) {
	for name, tc := range map[string]struct{ json, want string }{
		"items":          {`{"instancesSet":{"items":[{"instanceId":"a"},{"instanceId":"b"}]}}`, "instancesset.instanceid=a instancesset.instanceid=b"},
		"wrapper":        {`{"ModifyVolumeRequest":{"VolumeId":"v"}}`, "volumeid=v"},
		"odd wrapper":    {`{"DelTGwVpcAttachReq":{"VpcId":"v"}}`, "vpcid=v"},
		"no wrapper":     {`{"instancesSet":{"instanceId":"v"}}`, "instancesset.instanceid=v"},
		"plain list":     {`{"resourceArns":["x","y"]}`, "resourcearns=x resourcearns=y"},
		"tagged list":    {`{"R":{"RouteTableId":{"content":"x","tag":1}}}`, "routetableid=x"},
		"numbers, nulls": {`{"a":1,"b":null,"c":true}`, ""},
		"null":           {`null`, ""},
		"":               {``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			leaves, err := leavesOf(json.RawMessage(tc.json))
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, l := range leaves {
				out = append(out, l.path+"="+l.value)
			}
			if got := strings.Join(out, " "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if reads("DescribeX") && reads("GetX") && reads("ListX") && !reads("StopInstances") && isTrue(json.RawMessage("true")) {
		return
	}
	t.Error("readers are told apart wrongly")
}

func FuzzParseMessage(f *testing.F) {
	for _, s := range samples() {
		f.Add(s.body(f))
	}
	f.Add(`{"Type":"Notification","TopicArn":"a","Message":"{}"}`)
	f.Fuzz(func(t *testing.T, body string) {
		n, outcome, err := parseMessage(body, sentAt)
		if (err != nil) != (outcome == EventMalformed) {
			t.Fatalf("outcome %s with error %v", outcome, err)
		}
		if outcome != EventTold {
			return
		}
		e := n.event
		if len(e.IDs) == 0 && len(n.groups) == 0 && !e.Gap {
			t.Error("an event about nothing")
		}
		if len(e.IDs) > maxIDs || len(e.What) > maxText+3*4 || len(e.By) > maxText+3*4 || !utf8.ValidString(e.What+e.By) {
			t.Errorf("unbounded: %d ids, %d, %d", len(e.IDs), len(e.What), len(e.By))
		}
		for _, id := range e.IDs {
			if strings.ContainsAny(id.Name, " \n\x00\"',*") || len(id.Name) > 256 {
				t.Errorf("id %q", id.Name)
			}
		}
	})
}
