package report

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"regexp"
	"strings"

	"github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// writeOpenReports writes a Report object (openreports.io/v1alpha1) for each
// cluster, as YAML documents that can be applied to a management cluster. An
// owner in sync is one pass.
func writeOpenReports(w io.Writer, r *Report, _ Style) error {
	v := newView(r)
	for i := range v.clusters {
		out, err := yamlOf(openReport(r, &v.clusters[i]))
		if err != nil {
			return err
		}
		if i > 0 {
			out = append([]byte("---\n"), out...)
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	return nil
}

func openReport(r *Report, c *clusterView) *v1alpha1.Report {
	out := NewOpenReport("holdfast-"+c.Name, detector.ClusterRef{Namespace: c.Namespace, Name: c.Name})
	at := metav1.Timestamp{Seconds: r.Generated.Unix()}
	for _, owner := range ownersOf(r, c) {
		if len(owner.findings) == 0 {
			result := quietResult(&owner.ref, c.Namespace, c.hush(), c.whyUncompared())
			result.Timestamp = at
			out.Results = append(out.Results, result)
		}
		for _, f := range owner.findings {
			result := openResult(f)
			result.Timestamp = at
			out.Results = append(out.Results, result)
		}
	}
	for i := range c.problems {
		p := &c.problems[i]
		out.Results = append(out.Results, v1alpha1.ReportResult{
			Source: openSource, Policy: openSource, Rule: cleanWide.clean(p.Reason), Category: "scan", Result: "error", Timestamp: at,
			Description: problemText(p),
		})
	}
	out.Summary = OpenSummary(out.Results)
	return out
}

// openSource is what made the reports and results.
const openSource = "holdfast"

// NewOpenReport is a Report object about a cluster, without results.
func NewOpenReport(name string, cluster detector.ClusterRef) *v1alpha1.Report {
	return &v1alpha1.Report{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Report"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      ObjectName(name),
			Namespace: ObjectName(cluster.Namespace),
			Labels:    map[string]string{"app.kubernetes.io/managed-by": openSource},
		},
		Source: openSource,
		Scope: &corev1.ObjectReference{
			APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster",
			Namespace: cleanWide.clean(cluster.Namespace), Name: cleanWide.clean(cluster.Name),
		},
		Results: []v1alpha1.ReportResult{},
	}
}

// OpenSummary counts results.
func OpenSummary(results []v1alpha1.ReportResult) v1alpha1.ReportSummary {
	var s v1alpha1.ReportSummary
	for i := range results {
		count(&s, results[i].Result)
	}
	return s
}

// hush is why an owner has no findings that are shown.
type hush int

const (
	hushInSync hush = iota
	hushUncompared
	hushIgnored
	hushForeign
)

// hush is that of the cluster's owners: which of them have silenced findings is
// not known here.
func (c *clusterView) hush() hush {
	switch {
	case c.uncompared():
		return hushUncompared
	case c.Ignored > 0:
		return hushIgnored
	case c.Foreign > 0:
		return hushForeign
	}
	return hushInSync
}

// quietResult is for an owner without findings: in sync, if there was
// something to compare it with, else with the reason why there was not.
func quietResult(o *providers.OwnerRef, namespace string, h hush, why string) v1alpha1.ReportResult {
	result := v1alpha1.ReportResult{
		Source: openSource, Policy: openSource, Category: "drift", Result: "pass", Scored: true, Subjects: subjects(o),
	}
	text := ownerText(o, namespace)
	switch h {
	case hushUncompared:
		result.Result, result.Scored = "skip", false
		text += " was not compared: " + why + "."
	case hushIgnored, hushForeign:
		text += ": " + quietWords(truth(h == hushIgnored)) + "."
	default:
		text += " is in sync."
	}
	result.Description = cleanWide.clean(text)
	return result
}

func openResult(f *Finding) v1alpha1.ReportResult {
	result := v1alpha1.ReportResult{
		Source:      openSource,
		Policy:      cleanWide.clean(firstOf(f.Policy, openSource)),
		Rule:        cleanWide.clean(f.Rule),
		Category:    "drift",
		Severity:    v1alpha1.ResultSeverity(severities[rank(f.Severity)]),
		Scored:      f.Trouble(),
		Subjects:    subjects(&f.Owner),
		Description: f.sentence(),
		Properties: map[string]string{
			"fingerprint": cleanWide.clean(f.Fingerprint),
			"status":      cleanWide.clean(string(f.Status)),
			"action":      cleanWide.clean(string(f.Action)),
			"provider":    cleanWide.clean(f.Resource.Provider),
			"kind":        cleanWide.clean(f.Resource.Kind),
			"id":          cleanWide.clean(f.Resource.ID),
		},
	}
	switch {
	case f.Trouble():
		result.Result = "fail"
	case f.Incomplete() && f.Status == detector.Unknown:
		result.Result = "error"
	default:
		result.Result = "skip"
	}
	optional := map[string]string{
		"blockedBy": strings.Join(f.BlockedBy, ","),
		"ruleAt":    positionText(f.RuleAt),
	}
	if f.FirstSeen != nil {
		optional["firstSeen"] = f.FirstSeen.Format(timeFormat)
	}
	for key, value := range optional {
		if value != "" {
			result.Properties[key] = cleanWide.clean(value)
		}
	}
	return result
}

func subjects(o *providers.OwnerRef) []corev1.ObjectReference {
	if *o == (providers.OwnerRef{}) {
		return nil
	}
	ref := corev1.ObjectReference{
		APIVersion: cleanWide.clean(o.APIVersion), Kind: cleanWide.clean(o.Kind),
		Namespace: cleanWide.clean(o.Namespace), Name: cleanWide.clean(o.Name), UID: types.UID(cleanWide.clean(string(o.UID))),
	}
	return []corev1.ObjectReference{ref}
}

func count(s *v1alpha1.ReportSummary, result v1alpha1.Result) {
	switch result {
	case "pass":
		s.Pass++
	case "fail":
		s.Fail++
	case "error":
		s.Error++
	case "skip":
		s.Skip++
	}
}

var (
	validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	notInName = regexp.MustCompile(`[^a-z0-9]+`)
)

// ObjectName makes a name that an API server takes (RFC 1123 label), and that is
// a label's value too. A name that had to be changed gets a digest, so that two of
// them stay apart; the empty name stays empty.
func ObjectName(name string) string {
	if name == "" || validName.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	base := strings.Trim(notInName.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if len(base) > 40 {
		base = strings.Trim(base[:40], "-")
	}
	return strings.Trim(base+"-"+hex.EncodeToString(sum[:4]), "-")
}
