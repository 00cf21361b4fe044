// Package objectserver serves objects as an API server lists them: in pages, by
// namespace and label, with managed fields. It is for measuring what reading ten
// thousand machines costs; a real API server takes minutes to be given them.
// Nothing can be written to it, and it counts who tries.
package objectserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Server is an http.Handler.
type Server struct {
	kinds map[string]*kind // by group/version/plural
	// Writes counts requests that are no read, Lists those for a page.
	Writes, Lists atomic.Int64
}

type kind struct {
	gvk     schema.GroupVersionKind
	objects []object
}

type object struct {
	namespace, name string
	labels          labels.Set
	whole, metadata json.RawMessage
}

// New serves objects, each in the version that its type meta says. Kinds that
// are not among them are not served.
func New(objects []client.Object) (*Server, error) {
	s := &Server{kinds: map[string]*kind{}}
	for i, o := range objects {
		gvk := o.GetObjectKind().GroupVersionKind()
		key := gvk.Group + "/" + gvk.Version + "/" + Plural(gvk.Kind)
		k := s.kinds[key]
		if k == nil {
			k = &kind{gvk: gvk}
			s.kinds[key] = k
		}
		o = o.DeepCopyObject().(client.Object)
		o.SetResourceVersion(strconv.Itoa(1000 + i))
		o.SetGeneration(1)
		o.SetManagedFields([]metav1.ManagedFieldsEntry{managed("manager"), managed("kubectl")})
		whole, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		metadata, err := json.Marshal(map[string]any{
			"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": json.RawMessage(field(whole, "metadata")),
		})
		if err != nil {
			return nil, err
		}
		k.objects = append(k.objects, object{o.GetNamespace(), o.GetName(), o.GetLabels(), whole, metadata})
	}
	return s, nil
}

// Plural is the resource of a kind, as those of Cluster API's are called.
func Plural(kind string) string {
	lower := strings.ToLower(kind)
	if strings.HasSuffix(lower, "y") {
		return strings.TrimSuffix(lower, "y") + "ies"
	}
	return lower + "s"
}

func field(whole []byte, name string) []byte {
	var o map[string]json.RawMessage
	if json.Unmarshal(whole, &o) != nil {
		return []byte("{}")
	}
	return o[name]
}

// managed is an entry of about the size that a controller leaves on a machine.
func managed(manager string) metav1.ManagedFieldsEntry {
	var b strings.Builder
	b.WriteString(`{"f:spec":{`)
	for i := range 40 {
		fmt.Fprintf(&b, `"f:someFieldOfTheSpec%d":{".":{},"f:value":{}},`, i)
	}
	b.WriteString(`"f:last":{}}}`)
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(b.String()),
	}
}

// ServeHTTP answers lists, gets and watches in which nothing happens.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		s.Writes.Add(1)
		http.Error(w, "read only", http.StatusMethodNotAllowed)
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // apis GROUP VERSION [namespaces NS] PLURAL [NAME]
	if len(parts) < 4 || parts[0] != "apis" {
		http.NotFound(w, r)
		return
	}
	group, version, rest, namespace := parts[1], parts[2], parts[3:], ""
	if rest[0] == "namespaces" && len(rest) > 2 {
		namespace, rest = rest[1], rest[2:]
	}
	k := s.kinds[group+"/"+version+"/"+rest[0]]
	switch {
	case k == nil:
		http.NotFound(w, r)
	case len(rest) > 1:
		k.get(w, r, namespace, rest[1])
	case r.URL.Query().Get("watch") != "":
		watch(w, r)
	default:
		s.Lists.Add(1)
		k.list(w, r, namespace)
	}
}

func (k *kind) get(w http.ResponseWriter, r *http.Request, namespace, name string) {
	at := slices.IndexFunc(k.objects, func(o object) bool { return o.namespace == namespace && o.name == name })
	if at < 0 {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(k.objects[at].whole)
}

// watch stays open and tells nothing. An initial list by watch is refused, as by
// servers that do not know it.
func watch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		status := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	<-r.Context().Done()
}

func (k *kind) list(w http.ResponseWriter, r *http.Request, namespace string) {
	q := r.URL.Query()
	selector, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	start, _ := strconv.Atoi(q.Get("continue"))
	partial := strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList")
	list := struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
		Items      []json.RawMessage `json:"items"`
	}{k.gvk.GroupVersion().String(), k.gvk.Kind + "List", map[string]string{"resourceVersion": "999999"}, []json.RawMessage{}}
	if partial {
		list.APIVersion, list.Kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	for i := start; i < len(k.objects); i++ {
		o := &k.objects[i]
		if namespace != "" && o.namespace != namespace || !selector.Matches(o.labels) {
			continue
		}
		if limit > 0 && len(list.Items) == limit {
			list.Metadata["continue"] = strconv.Itoa(i)
			break
		}
		if partial {
			list.Items = append(list.Items, o.metadata)
		} else {
			list.Items = append(list.Items, o.whole)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}
