package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Series describes one metric.
type Series struct {
	Name   string
	Type   string // gauge, counter or histogram
	Help   string
	Labels []string

	desc *prometheus.Desc
}

// Labels. No metric has any other.
const (
	labelClusterNamespace = "cluster_namespace"
	labelClusterName      = "cluster_name"
	labelProvider         = "provider"
	labelPool             = "pool"
	labelKind             = "kind"
	labelRule             = "rule"
	labelSeverity         = "severity"
	labelAction           = "action"
	labelStatus           = "status"
	labelReason           = "reason"
	labelOperation        = "operation"
	labelCode             = "code"
	labelPolicy           = "policy"
)

const (
	gauge     = "gauge"
	counter   = "counter"
	histogram = "histogram"
)

// table is every series, in the order of the documentation.
var table []*Series

func define(kind, name, help string, labels ...string) *Series {
	s := &Series{Name: "holdfast_" + name, Type: kind, Help: help, Labels: labels}
	s.desc = prometheus.NewDesc(s.Name, help, labels, nil)
	table = append(table, s)
	return s
}

// perCluster is a series of each cluster.
func perCluster(kind, name, help string, labels ...string) *Series {
	return define(kind, name, help, append([]string{labelClusterNamespace, labelClusterName}, labels...)...)
}

var (
	resources = perCluster(gauge, "resources",
		"Resources that a cluster's objects want or own, by what comparing them came to.", labelProvider, labelKind, labelStatus)
	findings = perCluster(gauge, "findings",
		"Open findings, by the rule that decides them. Those that policies ignore are not counted.",
		labelProvider, labelPool, labelKind, labelRule, labelSeverity, labelAction, labelStatus)
	findingsIgnored = perCluster(gauge, "findings_ignored",
		"Findings that a policy or an annotation ignores.")
	findingsBlocked = perCluster(gauge, "findings_blocked",
		"Findings whose action is held back, by the gate that does; one that several gates hold back counts in each.", labelAction, labelReason)
	oldestBlocked = perCluster(gauge, "oldest_blocked_timestamp_seconds",
		"When the oldest of the findings that a gate holds back was first seen, in seconds since 1970.", labelAction, labelReason)
	oldestFinding = perCluster(gauge, "oldest_finding_timestamp_seconds",
		"When the oldest open finding was first seen, in seconds since 1970.", labelSeverity)
	ignoreExpiry = perCluster(gauge, "ignore_expiry_timestamp_seconds",
		"When the first of the ignore entries that are in use ends, in seconds since 1970.")
	coverage = perCluster(gauge, "coverage_ratio",
		"Share of the wanted fields that the last sweep could compare.", labelProvider)
	breaker = perCluster(gauge, "breaker_open",
		"1 while too much of the cluster, or of one of its zones, has drifted at once for anything to be done there, else 0; in every mode.")

	sweepSuccess = perCluster(gauge, "sweep_last_success_timestamp_seconds",
		"When the cluster's cloud was last read in a sweep, in seconds since 1970.", labelProvider)
	sweepStale = perCluster(gauge, "sweep_stale_after_seconds",
		"Age from which on the policies call a sweep stale.")
	sweepErrors = perCluster(counter, "sweep_errors_total",
		"Sweeps that could not read the cluster's cloud.", labelProvider)
	cloudUnusable = perCluster(gauge, "cloud_unusable",
		"1 while the last try to read the cluster's cloud came to nothing, by why: CredentialsUnavailable, IdentityNotAllowed, WrongAccount, InvalidSpec, CloudUnreachable or Other.", labelProvider, labelReason)
	sweepDuration = define(histogram, "sweep_duration_seconds",
		"Time from the begin of reading a place in a cloud to the decisions about it.", labelProvider)
	reads = define(counter, "reads_total",
		"Sweeps and targeted reads that came to something, by their cause.", labelProvider, labelReason)
	eventLag = define(histogram, "event_lag_seconds",
		"Time from an event, by the cloud's clock, to the decision on what it named.", labelProvider)
	readsWaiting = define(gauge, "reads_waiting",
		"Owners that are about to be read again.", labelProvider)
	leader = define(gauge, "leader",
		"1 in the process that reads and acts, 0 in one that waits to take over.")
	sinkErrors = define(counter, "sink_errors_total",
		"Outcomes that could not be handed on in full: to conditions, records, metrics, notifications, reports.", labelReason)

	remediations = perCluster(gauge, "remediations",
		"Remediation objects, by phase.", labelAction, labelStatus)
	remediationsInFlight = perCluster(gauge, "remediations_in_flight",
		"Remediations that have begun and not ended.", labelPool, labelAction)
	budgetLimit = perCluster(gauge, "budget_limit",
		"Owners of the cluster that may be in flight at once, by the least of the budgets that count in the cluster as a whole.", labelAction)
	remediationsBlocked = perCluster(gauge, "remediations_blocked",
		"Remediations that gates hold back, by gate; one that several gates hold back counts in each.", labelAction, labelReason)
	remediationsFailing = perCluster(gauge, "remediations_failing",
		"Remediations whose last attempt did not work, and which may be tried again; no series where there are none.", labelAction)
	remediationsContested = perCluster(gauge, "remediations_contested",
		"Remediations whose value somebody else sets back, and which are not tried again.")
	attempts = perCluster(counter, "remediation_attempts_total",
		"Attempts that ended, by outcome.", labelAction, labelStatus)
	repairDuration = define(histogram, "repair_duration_seconds",
		"Time from when drift was first seen until a later read showed that its remediation had helped.", labelProvider, labelAction)

	cloudCalls = define(counter, "cloud_api_calls_total",
		"Calls of cloud APIs, each attempt counted, by error code; the code of those that worked is empty.", labelProvider, labelOperation, labelCode)
	cloudThrottles = define(counter, "cloud_api_throttles_total",
		"Calls that a cloud refused because there were too many.", labelProvider, labelOperation)
	cloudWaits = define(counter, "cloud_api_limiter_wait_seconds_total",
		"Time for which calls were held back to keep to a cloud's quota.", labelProvider, labelOperation)

	policyInfo = define(gauge, "policy_info",
		"1 for each policy source; its kind is file or object.", labelPolicy, labelKind)
	policyValid = define(gauge, "policy_valid",
		"1 if the newest version of a policy source is in effect, 0 if it is bad and the last good one, or none, is.", labelPolicy)
)

// Table gives every series, in the order of the documentation.
func Table() []Series {
	out := make([]Series, len(table))
	for i, s := range table {
		out[i] = *s
	}
	return out
}
