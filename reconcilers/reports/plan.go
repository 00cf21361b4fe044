package reports

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/report"
)

// Labels and the annotation of reports.
const (
	// LabelManagedBy and LabelCluster, both present, are on the controller's
	// reports and on no other. The value of LabelCluster is the Cluster's name.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelCluster   = v1alpha1.Group + "/cluster"
	// LabelPool is the pool as kind-name, in lower case; a report of the cluster's
	// own resources has none. The annotation of the same name has it as it is.
	LabelPool = v1alpha1.Group + "/pool"
	// LabelShard is NUMBER-of-COUNT.
	LabelShard = v1alpha1.Group + "/shard"

	managedBy = "holdfast"
)

const (
	// maxSize bounds an object. etcd takes requests of 1.5 MiB unless told
	// otherwise (https://etcd.io/docs/v3.5/dev-guide/limit/).
	maxSize = 512 << 10
	// minSize is what a bound is lowered to at most: the largest of results fits.
	minSize = 128 << 10
	// frame is more than an object takes beside its results.
	frame = 8 << 10
	// maxShards is far beyond every cluster.
	maxShards = 1 << 12
)

func clean(s string) string { return providers.Cleaner{Max: maxText}.Clean(s) }

// maxText bounds the words of ours that are not report's.
const maxText = 1024

// plan gives the reports that a cluster is to have, by name.
func (c *clusterState) plan(ref detector.ClusterRef, owner metav1.OwnerReference) map[string]*openreports.Report {
	pools := map[string][]providers.OwnerRef{}
	for o, state := range c.owners {
		if len(state.results) > 0 {
			pools[state.pool] = append(pools[state.pool], o)
		}
	}
	maps.DeleteFunc(c.shards, func(pool string, _ int) bool { return pools[pool] == nil })
	out := map[string]*openreports.Report{}
	for pool, owners := range pools {
		slices.SortFunc(owners, compareOwners)
		n := c.shardsOf(pool, owners)
		for i, results := range c.spread(owners, n) {
			if len(results) > 0 {
				r := newReport(ref, owner, pool, i, n)
				r.Results, r.Summary = results, report.OpenSummary(results)
				out[r.Name] = r
			}
		}
	}
	return out
}

func compareOwners(a, b providers.OwnerRef) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
		strings.Compare(a.APIVersion, b.APIVersion), strings.Compare(string(a.UID), string(b.UID)))
}

// shardsOf decides over how many objects a pool is spread.
func (c *clusterState) shardsOf(pool string, owners []providers.OwnerRef) int {
	n, limit := max(c.shards[pool], 1), c.limit
	for _, o := range owners { // what is one result cannot be spread
		limit = max(limit, slices.Max(c.owners[o].sizes)+frame)
	}
	for n < maxShards && c.largest(owners, n) > limit {
		n *= 2
	}
	for n > 1 && c.largest(owners, n/2) <= limit/2 {
		n /= 2
	}
	c.shards[pool] = n
	return n
}

// largest is the size of the largest of n objects.
func (c *clusterState) largest(owners []providers.OwnerRef, n int) int {
	sizes := make([]int, n)
	for _, o := range owners {
		state := c.owners[o]
		for i := range state.results {
			sizes[state.shardOf(o, i, n)] += state.sizes[i]
		}
	}
	return slices.Max(sizes) + frame
}

// spread gives each of n objects its results, in order.
func (c *clusterState) spread(owners []providers.OwnerRef, n int) [][]openreports.ReportResult {
	out := make([][]openreports.ReportResult, n)
	for _, o := range owners {
		state := c.owners[o]
		for i := range state.results {
			at := state.shardOf(o, i, n)
			out[at] = append(out[at], state.results[i])
		}
	}
	return out
}

// shardOf gives the shard of one of an owner's results. An owner has its own, so
// that a change of it touches one object; what it has beyond the first result is
// spread, since an owner may have any number of them.
func (s *ownerState) shardOf(o providers.OwnerRef, i, n int) int {
	if n == 1 {
		return 0
	}
	key := o.Kind + "\x00" + o.Namespace + "\x00" + o.Name
	if f := fingerprint(&s.results[i]); f != s.first || isPlaces(o) {
		key += "\x00" + f
	}
	sum := sha256.Sum256([]byte(key))                       // others have no order in their low bits
	return int(binary.BigEndian.Uint32(sum[:]) % uint32(n)) //nolint:gosec // n is at most maxShards
}

func fingerprint(r *openreports.ReportResult) string { return r.Properties["fingerprint"] }

// newReport is a shard of a pool's report, without results.
func newReport(ref detector.ClusterRef, owner metav1.OwnerReference, pool string, shard, of int) *openreports.Report {
	r := report.NewOpenReport(reportName(ref.Name, pool, shard), ref)
	r.Namespace = ref.Namespace
	r.Name = reportName(ref.Name, pool, shard)
	r.OwnerReferences = []metav1.OwnerReference{owner}
	r.Scope.APIVersion, r.Scope.UID = owner.APIVersion, owner.UID
	r.Labels = map[string]string{LabelManagedBy: managedBy, LabelCluster: labelOf(ref), LabelShard: fmt.Sprintf("%d-of-%d", shard, of)}
	r.Annotations = map[string]string{LabelPool: pool}
	if pool != "" {
		r.Labels[LabelPool] = report.ObjectName(poolWords(pool))
	}
	return r
}

func poolWords(pool string) string { return strings.ToLower(strings.ReplaceAll(pool, "/", "-")) }

// reportName is unique among the reports of a namespace: the words alone are not,
// since a cluster's name may end like a pool's begins.
func reportName(cluster, pool string, shard int) string {
	sum := sha256.Sum256([]byte(cluster + "\x00" + pool))
	name := "holdfast-" + report.ObjectName(cluster)
	if pool != "" {
		name += "-" + report.ObjectName(poolWords(pool))
	}
	name += "-" + hex.EncodeToString(sum[:4])
	if shard > 0 {
		name += "-" + strconv.Itoa(shard)
	}
	return name
}

// digest is the same for reports of the same content. It leaves out what others
// may add: labels, annotations and owners that are not ours.
func digest(r *openreports.Report) string {
	content := struct {
		Labels, Annotations map[string]string
		Owners              []metav1.OwnerReference
		Report              openreports.Report
	}{Labels: map[string]string{}, Annotations: map[string]string{LabelPool: r.Annotations[LabelPool]}}
	for _, key := range []string{LabelManagedBy, LabelCluster, LabelPool, LabelShard} {
		content.Labels[key] = r.Labels[key]
	}
	for _, o := range r.OwnerReferences {
		if o.Kind == kindCluster {
			content.Owners = append(content.Owners, o)
		}
	}
	content.Report = openreports.Report{Source: r.Source, Scope: r.Scope, Summary: r.Summary, Results: r.Results}
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(content) // strings and numbers always can be
	return hex.EncodeToString(h.Sum(nil))
}

// labelOf is the value of LabelCluster.
func labelOf(ref detector.ClusterRef) string { return report.ObjectName(ref.Name) }
