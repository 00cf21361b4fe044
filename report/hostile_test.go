package report

import (
	"fmt"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

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
