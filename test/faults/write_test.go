package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

// write is a request that changes something.
type write struct {
	// what it is: the same for the same on each way down a path, whatever
	// objects are called.
	what string
	// cloud tells that it is to a cloud.
	cloud bool
	// shows tells that it is what shows something, conditions by server-side
	// apply, which nothing that acts reads.
	shows bool
}

// writeOf tells what a request changes; leases, events and questions do not
// count.
func writeOf(r *http.Request, body []byte, victim string) (write, bool) {
	if signed(r) {
		form, err := url.ParseQuery(string(body))
		action := form.Get("Action")
		return write{what: action, cloud: true}, err == nil && !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get")
	}
	for _, skip := range []string{"/leases", "/events", "reviews"} {
		if strings.Contains(r.URL.Path, skip) {
			return write{}, false
		}
	}
	resource, name := resourceOf(r.URL.Path)
	kind := r.Header.Get("Content-Type")
	w := write{shows: strings.Contains(kind, "apply-patch")}
	words := []string{r.Method, resource}
	if name != "" && name != victim && !strings.HasPrefix(resource, "remediations") && (strings.Contains(resource, "machines") || w.shows) {
		words = append(words, "of another")
	}
	if detail := detailOf(kind, body); detail != "" {
		words = append(words, detail)
	}
	w.what = strings.Join(words, " ")
	return w, true
}

// signed reports whether a request is to AWS.
func signed(r *http.Request) bool {
	return r.Header.Get("X-Amz-Date") != "" || strings.Contains(r.Header.Get("Authorization"), "AWS4-")
}

// resourceOf gives resource, with its subresource, and name of a path such as
// /apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE.
func resourceOf(path string) (resource, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2
	if parts[0] == "apis" {
		skip = 3
	}
	if len(parts) > skip+1 && parts[skip] == "namespaces" {
		skip += 2
	}
	if parts = parts[min(skip, len(parts)):]; len(parts) == 0 {
		return path, ""
	}
	resource = parts[0]
	if len(parts) > 1 {
		name = parts[1]
	}
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	return resource, name
}

// ours are the conditions that Holdfast writes.
var ours = []string{v1alpha1.ConditionDriftDetected, v1alpha1.ConditionInfrastructureDrifted,
	clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition}

// detailOf tells what a body says, as far as that tells steps apart.
func detailOf(kind string, body []byte) string {
	var out []string
	if strings.Contains(kind, "json-patch") {
		var ops []struct {
			Op, Path string
			Value    any
		}
		_ = json.Unmarshal(body, &ops) // no details then
		for _, o := range ops {
			if o.Op != "test" {
				out = append(out, strings.TrimSpace(fmt.Sprint(o.Op, " ", o.Path[strings.LastIndex(o.Path, "/")+1:])))
			}
		}
		return strings.Join(out, ", ")
	}
	o := map[string]any{}
	if yaml.Unmarshal(body, &o) != nil {
		return ""
	}
	in := func(path ...string) any {
		var at any = o
		for _, key := range path {
			m, _ := at.(map[string]any)
			at = m[key]
		}
		return at
	}
	if annotations, ok := in("metadata", "annotations").(map[string]any); ok && strings.Contains(kind, "merge-patch") {
		out = append(out, slices.Sorted(maps.Keys(annotations))...)
	}
	if conditions, ok := in("status", "conditions").([]any); ok && in("status", "phase") == nil {
		for _, c := range conditions { // a merge patch has those of others too
			if m, ok := c.(map[string]any); ok && slices.Contains(ours, fmt.Sprint(m["type"])) {
				out = append(out, fmt.Sprintf("%v=%v", m["type"], m["status"]))
			}
		}
	}
	for _, path := range [][]string{{"status", "phase"}, {"status", "reason"}, {"status", "replacement", "step"}, {"spec", "unschedulable"}} {
		if v := in(path...); v != nil {
			out = append(out, fmt.Sprint(v))
		} else if m, ok := in(path[:len(path)-1]...).(map[string]any); ok && path[0] == "spec" {
			if v, named := m[path[len(path)-1]]; named {
				out = append(out, fmt.Sprintf("%s=%v", path[len(path)-1], v))
			}
		}
	}
	return strings.Join(out, " ")
}

func TestNamesOfWrites(t *testing.T) {
	for _, c := range []struct{ method, path, kind, body, want string }{
		{"PUT", "/apis/drift.holdfast.io/v1alpha1/namespaces/n/remediations/x/status", "application/json", `{"status":{"phase":"Running","reason":"Acting","conditions":[{"type":"Executed"}]}}`, "PUT remediations/status Running Acting"},
		{"PUT", "/apis/drift.holdfast.io/v1alpha1/namespaces/n/remediations/x/status", "application/json", `{"status":{"phase":"Running","reason":"WaitingForSurge","replacement":{"step":"Mark"}}}`, "PUT remediations/status Running WaitingForSurge Mark"},
		{"POST", "/apis/drift.holdfast.io/v1alpha1/namespaces/n/remediations", "application/json", `{"spec":{}}`, "POST remediations"},
		{"PATCH", "/apis/cluster.x-k8s.io/v1beta2/namespaces/n/machines/v/status", "application/apply-patch+yaml", `{"status":{"conditions":[{"type":"DriftDetected","status":"True"}]}}`, "PATCH machines/status DriftDetected=True"},
		{"PATCH", "/apis/cluster.x-k8s.io/v1beta2/namespaces/n/machines/o/status", "application/apply-patch+yaml", `{"status":{"conditions":[{"type":"DriftDetected","status":"False"}]}}`, "PATCH machines/status of another DriftDetected=False"},
		{"PATCH", "/apis/cluster.x-k8s.io/v1beta2/namespaces/n/machines/v", "application/merge-patch+json", `{"metadata":{"annotations":{"cluster.x-k8s.io/remediate-machine":""}}}`, "PATCH machines cluster.x-k8s.io/remediate-machine"},
		{"PATCH", "/apis/cluster.x-k8s.io/v1beta2/namespaces/n/machinedeployments/d", "application/json-patch+json", `[{"op":"test","path":"/spec/replicas","value":2},{"op":"replace","path":"/spec/replicas","value":3},{"op":"add","path":"/metadata/annotations/a"}]`, "PATCH machinedeployments replace replicas, add a"},
		{"PATCH", "/api/v1/nodes/v", "application/strategic-merge-patch+json", `{"spec":{"unschedulable":true}}`, "PATCH nodes true"},
		{"PATCH", "/api/v1/nodes/v", "application/merge-patch+json", `{"spec":{"unschedulable":null}}`, "PATCH nodes unschedulable=<nil>"},
		{"DELETE", "/apis/cluster.x-k8s.io/v1beta2/namespaces/n/machines/v", "application/json", `{"kind":"DeleteOptions"}`, "DELETE machines"},
	} {
		r := &http.Request{Method: c.method, URL: &url.URL{Path: c.path}, Header: http.Header{"Content-Type": {c.kind}}}
		if got, ok := writeOf(r, []byte(c.body), "v"); !ok || got.what != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, got.what, c.want)
		}
	}
}
