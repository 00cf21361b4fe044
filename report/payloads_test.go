package report

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// attacks are texts that would do something in a page that let them; a script
// of theirs that ran marks the document, and a request shows at the address.
func attacks(address string) []string {
	mark := "document.documentElement.setAttribute('data-attacked','1')"
	return []string{
		"<script>" + mark + "</script>",
		`<img src="` + address + `" onerror="` + mark + `">`,
		`"><svg onload=` + mark + `>`,
		`' onmouseover='` + mark + `' autofocus onfocus='` + mark,
		"javascript:" + mark,
		"</style><script>" + mark + "</script>",
		"</script><script>" + mark + "</script>",
		`<iframe srcdoc="<script>parent.` + mark + `</script>">`,
		`<link rel=stylesheet href="` + address + `"><meta http-equiv=refresh content="0;url=` + address + `">`,
		`<a href="` + address + `" ping="` + address + `">click</a>`,
		"{{.Script}}{{printf `%s` .}}<!-- --><![CDATA[ ]]>",
		"\x1b[31mred\x1b[0m\x1b]8;;" + address + "\x07link\x1b]8;;\x07\x9b2J",
		"=cmd|' /C calc'!A0",
		"user\u202egnp.exe\u2066\u200b\u200d\ufeff",
		"line one\nline two\r\n::error::forged\n\n# heading",
		"bad \xff\xfe\xc3\x28 bytes \x00 nul",
		strings.Repeat("A very long value. ", 5500),
		strings.Repeat("X", 100<<10),
		"z" + strings.Repeat("\u0301\u0316\u0489", 40) + "algo",
		"[click](" + address + ") ![i](" + address + ") @holdfast-io/admins #1 | a | b | ``` ~~~ <b>x</b> &lt;",
	}
}

// hostileDecision has the payload wherever a text of somebody else's can
// stand.
func hostileDecision(i int, payload string) policies.Decision {
	owner := awsMachine("us-3", fmt.Sprintf("target-%02d", i))
	return policies.Decision{
		Finding: detector.Finding{
			Fingerprint: fmt.Sprintf("attack-%03d", i),
			Cluster:     detector.ClusterRef{Namespace: "prod", Name: "us-3"},
			Owner:       owner, Pool: payload,
			Resource: resource("aws", "Instance", payload, payload),
			Status:   detector.Drifted, Reason: payload, Warnings: []string{payload},
			Diffs: []detector.Diff{
				changed(providers.Pointer("tags", payload), providers.String("prod"), providers.String(payload)),
				added("/securityGroups", payload), removed("/securityGroups", payload),
				changed("/set", providers.Set(payload, "b"), providers.Set("a")),
			},
		},
		Action: policies.Patch, Severity: severities[i%len(severities)], Mode: policies.ModeObserve,
		Rule:    policies.RuleRef{ID: payload, Policy: payload, Position: policies.Position{File: payload, Line: i + 1}},
		Reason:  payload,
		Blocked: []policies.Block{{By: payload, Detail: payload}},
	}
}

// hostileInput has the payloads also in names that only a file can hold: an
// API server would refuse them.
func hostileInput(payloads ...string) BuildInput {
	in := BuildInput{Version: "v0.1.0", Now: at}
	for i, p := range payloads {
		cluster := detector.ClusterRef{Namespace: "ns", Name: fmt.Sprintf("%03d%s", i, p)}
		owner := providers.OwnerRef{APIVersion: p, Kind: "AWSMachine", Namespace: p, Name: p, UID: "u"}
		in.Clusters = append(in.Clusters, ClusterInput{
			Ref: cluster, Provider: "aws", Scope: providers.Scope{Provider: "aws", Account: p}, SnapshotTime: at, Checked: 1,
			Owners: []Owner{{OwnerRef: owner, Pool: p, Source: "clusters/" + p + ".yaml:7", InSync: []detector.ResourceRef{resource("aws", "Volume", p, p)}}},
		})
		drifted := hostileDecision(i, p)
		drifted.Finding.Cluster, drifted.Finding.Owner = cluster, owner
		unread := hostileDecision(i, p)
		unread.Finding.Cluster, unread.Finding.Owner, unread.Finding.Fingerprint = cluster, owner, "unread"
		unread.Finding.Status = detector.NotChecked
		silenced := hostileDecision(i, p)
		silenced.Finding.Cluster, silenced.Finding.Owner, silenced.Finding.Fingerprint = cluster, owner, "silenced"
		silenced.Ignored = &policies.Ignored{By: p, Reason: p}
		in.Decisions = append(in.Decisions, drifted, unread, silenced)
		in.Problems = append(in.Problems, Problem{Reason: p, Message: p, Object: p}, Problem{Cluster: &cluster, Reason: p, Message: p})
	}
	in.ShowIgnored = true
	return in
}

// payloads are the known attacks and random mixtures of their parts, the same
// in every run.
func payloads(n int) []string {
	all := attacks("http://127.0.0.1:9/")
	parts := []string{
		"<", ">", "\"", "'", "`", "``", "```", "&", "&lt;", "<script>", "</script>", "<!--", "-->", "<![CDATA[", "]]>", "<?xml?>",
		"\x1b[2J", "\x1b]0;t\x07", "\x9b", "\u009b31m", "\x00", "\x07", "\x7f", "\x0b", "\ufffe", "\uffff", "\ufffd", "\xff", "\xc0\xaf", "\xed\xa0\x80",
		"\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u2028", "\u2029", "\u00ad", "\U000e0041", "\u3164", "\u0301\u0301\u0301\u0301\u0301",
		"\n", "\r\n", "\t", "\n---\n", "\n- x: 1\n", "\n# h\n", "\n\n    code\n", "\\", "\\|", "|", "~~~", "* ", "- ", "1. ", "> ", "# ", "[x](http://e)",
		"![x](http://e)", "http://e.example", "www.e.example", "a@b.example", "@user", "#1", "{{", "}}", "{0}", "[0]", "=cmd()", "+1", "-1", "@SUM(A1)",
		"%s%n", "${x}", "$(x)", ": ", "? ", "!!binary ", "&a ", "*a", "yes", "null", "0x1", "1e3", "1:30", "検", "é", "🙂", " ", "  ", "x", "prod",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for len(all) < n {
		var b strings.Builder
		for range 1 + random.IntN(9) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		all = append(all, b.String()+"z")
	}
	return all
}
