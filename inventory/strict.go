package inventory

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// Group endings of Cluster API, and of its infrastructure providers.
const (
	capiGroup           = "cluster.x-k8s.io"
	infrastructureGroup = "infrastructure.cluster.x-k8s.io"
)

// relevant reports whether an object is to be kept. What is not concerned with
// Cluster API is left out; a near miss of a known kind is an error, because a
// silently skipped machine would look like one that is in sync.
func (l *fileLoader) relevant(at Position, u *unstructured.Unstructured) bool {
	gvk := u.GroupVersionKind()
	gk := gvk.GroupKind()
	if _, ok := l.kinds.hub[gk]; ok {
		if !slices.Contains(l.kinds.versions(gk), gvk.Version) {
			l.fail(at, "%s: version %s of %s is not known; known: %s", describe(u), gvk.Version, gk,
				strings.Join(l.kinds.versions(gk), ", "))
			return false
		}
		return true
	}
	if _, ok := l.kinds.unmodelled[gk]; ok || isControlPlane(gk) {
		return true
	}
	if near := l.nearKind(gk); near != "" {
		l.fail(at, "kind %s is not known; did you mean %s?", gk, near)
		return false
	}
	// Other providers' infrastructure stays, so that a Cluster that refers to
	// it can be named; anything else has nothing to do with machines.
	return strings.HasSuffix(gk.Group, infrastructureGroup)
}

// nearKind finds a known kind that a person may have meant.
func (l *fileLoader) nearKind(gk schema.GroupKind) string {
	known := l.kinds.read()
	for other := range l.kinds.unmodelled {
		known = append(known, other)
	}
	best, distance := "", 3
	for _, k := range known {
		sameKind := k.Kind == gk.Kind && k.Group != gk.Group && editDistance(k.Group, gk.Group) < distance
		sameGroup := k.Group == gk.Group && strings.HasSuffix(k.Group, capiGroup)
		if !sameKind && !sameGroup {
			continue
		}
		if d := editDistance(k.String(), gk.String()); d < distance {
			best, distance = k.String(), d
		}
	}
	return best
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

var jsonField = regexp.MustCompile(`Go struct field [^ .]+\.([^ ]+) of type ([^ ]+)`)

// decodeError reports a value of the wrong type, where it stands.
func (l *fileLoader) decodeError(at Position, node *yaml.Node, u *unstructured.Unstructured, err error) {
	// The unstructured converter names no field; the JSON decoder does.
	if strict := l.decodeStrict(u); strict.fatal != nil {
		err = strict.fatal
	}
	text := err.Error()
	if m := jsonField.FindStringSubmatch(text); m != nil {
		path := goSegment.ReplaceAllString(m[1], "")
		at.Line = find(node, path).Line
		text = fmt.Sprintf("%s must be of type %s", path, m[2])
	}
	l.fail(at, "%s: %s", describe(u), text)
}

// goSegment is an embedded Go type's name, which the decoder puts into paths
// and JSON does not have.
var goSegment = regexp.MustCompile(`\b[A-Z]\w*\.`)

type strictResult struct {
	unknown []string // paths
	fatal   error
	target  reflect.Type
}

var unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)

func (l *fileLoader) decodeStrict(u *unstructured.Unstructured) strictResult {
	o, err := l.kinds.scheme.New(u.GroupVersionKind())
	if err != nil {
		return strictResult{}
	}
	data, err := u.MarshalJSON()
	if err != nil {
		return strictResult{}
	}
	out := strictResult{target: reflect.TypeOf(o).Elem()}
	problems, err := kjson.UnmarshalStrict(data, o)
	out.fatal = err
	for _, p := range problems {
		if m := unknownField.FindStringSubmatch(p.Error()); m != nil {
			out.unknown = append(out.unknown, m[1])
		}
	}
	return out
}

// unknownFields notes fields that the API does not have. The API server would
// drop them with a warning, and so they are no error here; what they were to
// say is not being done, and a person should know.
func (l *fileLoader) unknownFields(at Position, node *yaml.Node, u *unstructured.Unstructured) {
	strict := l.decodeStrict(u)
	for _, path := range strict.unknown {
		p := l.kinds.unknownField(u, strict.target, path)
		p.At = Position{File: at.File, Line: find(node, path).Line}
		l.set.Problems = append(l.set.Problems, p)
	}
}

// unknownField makes the problem of a field that a type does not have. In the
// spec of an owner somebody wanted something that is not compared, and so the
// report is not complete.
func (k *Kinds) unknownField(u *unstructured.Unstructured, target reflect.Type, path string) Problem {
	_, owner := k.owners[u.GroupVersionKind().GroupKind()]
	compared := owner && strings.HasPrefix(path, "spec.")
	message := fmt.Sprintf("%s is not a field of %s %s", path, u.GetAPIVersion(), u.GetKind())
	if compared {
		message += ", and what it says is not compared"
	}
	if near := nearField(target, path); near != "" {
		message += "; did you mean " + near + "?"
	}
	return Problem{Object: describe(u), Reason: "UnknownField", Message: message, Warning: !compared}
}

// nearField finds the field that a person meant: one of the same name
// elsewhere in the type, the shallowest first, else a sibling spelled almost
// alike.
func nearField(t reflect.Type, path string) string {
	path = regexp.MustCompile(`\[\d+\]`).ReplaceAllString(path, "[]")
	name := path[strings.LastIndexByte(path, '.')+1:]
	parent := strings.TrimSuffix(path, name)
	best, bestScore := "", 1<<30
	walkFields(t, "", 0, func(p string) {
		leaf := p[strings.LastIndexByte(p, '.')+1:]
		score := 1 << 30
		switch {
		case leaf == name && strings.HasPrefix(p, "spec."):
			score = 10 + strings.Count(p, ".")
		case strings.TrimSuffix(p, leaf) == parent && editDistance(strings.ToLower(leaf), strings.ToLower(name)) <= 2:
			score = editDistance(leaf, name)
		}
		if score < bestScore {
			best, bestScore = p, score
		}
	})
	return best
}

// walkFields visits the JSON paths of a type, five levels deep.
func walkFields(t reflect.Type, prefix string, depth int, visit func(string)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			prefix = strings.TrimSuffix(prefix, ".") + "[]."
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || depth > 5 {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" {
			if f.Anonymous {
				walkFields(f.Type, prefix, depth, visit)
			}
			continue
		}
		visit(prefix + name)
		walkFields(f.Type, prefix+name+".", depth+1, visit)
	}
}
