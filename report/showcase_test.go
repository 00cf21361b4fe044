package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// showcase is a scan as a large installation would see it: sixty findings and
// more, and an attacker's tags among them.
func showcase() BuildInput {
	in := sample()
	for cluster := 3; cluster <= 5; cluster++ {
		name := fmt.Sprintf("us-%d", cluster)
		in.Clusters = append(in.Clusters, ClusterInput{
			Ref: detector.ClusterRef{Namespace: "prod", Name: name}, Provider: "aws",
			Scope:        providers.Scope{Provider: "aws", Account: "444455556666", Region: "us-east-1"},
			SnapshotTime: at.Add(-90 * time.Second), Checked: 900 + cluster, NotChecked: cluster * 7, Owners: awsOwners(name),
		})
		for i := range 12 {
			owner := awsMachine(name, fmt.Sprintf("md-%d-%05x", i%4, 0xa1b2c+i*977))
			r := resource("aws", "Instance", fmt.Sprintf("i-%017x", 0xabcdef0+i*7919+cluster), owner.Name)
			in.Decisions = append(in.Decisions, machineDrift(name, owner, r, i)...)
		}
	}
	for i, payload := range attacks("http://127.0.0.1:9/") {
		owner := awsMachine("us-3", fmt.Sprintf("target-%02d", i))
		in.Decisions = append(in.Decisions, decision("us-3", owner, resource("aws", "Instance", fmt.Sprintf("i-attack%02d", i), payload),
			with(changed("/tags/"+providers.Pointer(payload)[1:], providers.String("prod"), providers.String(payload)), added("/securityGroups", payload)),
			severity(policies.Low, policies.Patch), rule("tags", "aws-defaults", "builtin/aws.yaml", 41), observing()))
	}
	return in
}

func machineDrift(cluster string, owner providers.OwnerRef, r detector.ResourceRef, i int) []policies.Decision {
	machines := pool(fmt.Sprintf("MachineDeployment/%s-md-%d", cluster, i%4))
	switch i % 4 {
	case 0:
		return []policies.Decision{decision(cluster, owner, r, machines, since(at.Add(-100*time.Hour)), observing(),
			with(changed("/metadataOptions/httpTokens", providers.String("required"), providers.String("optional"))),
			severity(policies.High, policies.Patch), rule("imds", "aws-defaults", "builtin/aws.yaml", 71))}
	case 1:
		return []policies.Decision{decision(cluster, owner, r, machines, observing(),
			with(changed("/instanceType", providers.String("c6i.2xlarge"), providers.String(fmt.Sprintf("c6i.%dxlarge", 4+i)))),
			severity(policies.High, policies.Replace), rule("instance-type", "aws-defaults", "builtin/aws.yaml", 14))}
	case 2:
		return []policies.Decision{
			decision(cluster, owner, r, machines, observing(), with(removed("/tags/team", "payments"), added("/tags/debug", "true")),
				severity(policies.Low, policies.Patch)),
			decision(cluster, owner, r, machines, with(changed("/rootVolume/iops", providers.Int(6000), providers.Int(3000+i))),
				severity(policies.Medium, policies.Patch), rule("root-volume", "aws-defaults", "builtin/aws.yaml", 60), observing()),
		}
	}
	return []policies.Decision{decision(cluster, owner, r, machines, status(detector.NotChecked,
		"DescribeInstanceStatus: RequestLimitExceeded on page 3 of 5: given up after 6 attempts"), severity(policies.Info, policies.Observe))}
}

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
