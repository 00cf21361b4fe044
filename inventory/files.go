package inventory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	sigsyaml "sigs.k8s.io/yaml"
)

// maxFileSize bounds what one file may hold; a management cluster of ten
// thousand machines exports to about 100 MiB.
const maxFileSize = 512 << 20

var errDuplicate = errors.New("defined twice")

// Stdin is the path that stands for standard input.
const Stdin = "-"

// ObjectError says what is wrong with objects in a file.
type ObjectError struct {
	At      Position
	Message string
}

func (e *ObjectError) Error() string { return e.At.String() + ": " + e.Message }

// FromFiles reads objects from files and folders (every .yaml, .yml and .json
// below, hidden folders left out), from multi-document files and List objects,
// and from stdin where a path is "-". All faults are reported at once, joined,
// each an *[ObjectError] where it has a position; what is merely odd is in
// Set.Problems.
func FromFiles(kinds *Kinds, paths []string, stdin io.Reader) (*Set, error) {
	l := &fileLoader{kinds: kinds, set: newSet()}
	for _, path := range paths {
		if path == Stdin {
			l.stream("standard input", stdin)
			continue
		}
		l.path(path)
	}
	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	if l.set.Len() == 0 {
		return nil, fmt.Errorf("no Cluster API object in %s: want .yaml, .yml or .json files", strings.Join(paths, ", "))
	}
	return l.set, nil
}

type fileLoader struct {
	kinds *Kinds
	set   *Set
	errs  []error
}

func (l *fileLoader) fail(at Position, format string, args ...any) {
	l.errs = append(l.errs, &ObjectError{At: at, Message: fmt.Sprintf(format, args...)})
}

func (l *fileLoader) path(root string) {
	info, err := os.Stat(root)
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read objects: %w", err))
		return
	}
	if !info.IsDir() {
		l.file(root)
		return
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			l.file(path)
		}
		return nil
	})
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read objects: %w", err))
	}
}

func (l *fileLoader) file(path string) {
	f, err := os.Open(path)
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read objects: %w", err))
		return
	}
	defer func() { _ = f.Close() }()
	l.stream(path, f)
}

func (l *fileLoader) stream(name string, r io.Reader) {
	data, err := io.ReadAll(io.LimitReader(r, maxFileSize+1))
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read objects from %s: %w", name, err))
		return
	}
	if len(data) > maxFileSize {
		l.fail(Position{File: name}, "larger than %d MiB", maxFileSize>>20)
		return
	}
	data = plainJSON(data)
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			l.syntax(name, data, err)
			return
		}
		if len(doc.Content) != 1 {
			continue
		}
		if err := expand(&doc); err != nil {
			l.fail(Position{File: name, Line: doc.Content[0].Line}, "not to be read: %v", err)
			continue
		}
		l.document(name, doc.Content[0])
	}
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// syntax reports what the YAML parser said, with the hint that usually helps.
func (l *fileLoader) syntax(name string, data []byte, err error) {
	at, text := Position{File: name}, err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		at.Line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	text = strings.TrimPrefix(text, "yaml: ")
	lines := bytes.Split(data, []byte("\n"))
	switch {
	case bytes.Contains(data, []byte("{{")):
		text += "; this looks like a template: render it first (helm template, clusterctl generate)"
	case at.Line > 0 && at.Line <= len(lines) && bytes.ContainsRune(lines[at.Line-1], '\t'):
		text += "; the line holds a tab: YAML indents with spaces"
	}
	l.fail(at, "not YAML: %s", text)
}

// document reads one YAML document: an object or a List of them.
func (l *fileLoader) document(file string, node *yaml.Node) {
	at := Position{File: file, Line: node.Line}
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return // a document of comments
	}
	if node.Kind != yaml.MappingNode {
		l.fail(at, "a document must be an object with apiVersion and kind")
		return
	}
	if dup := duplicateKey(node, 0); dup != nil {
		l.fail(Position{File: file, Line: dup.Line}, "key %q stands twice in one mapping: keep one", dup.Value)
		return
	}
	items := child(node, "items")
	if kind := child(node, "kind"); kind != nil && strings.HasSuffix(kind.Value, "List") && items != nil {
		if items.Kind != yaml.SequenceNode && items.Tag != "!!null" {
			l.fail(Position{File: file, Line: items.Line}, "the items of a %s must be a list", kind.Value)
			return
		}
		for _, item := range items.Content {
			l.document(file, item)
		}
		return
	}
	u, err := decodeNode(node)
	if err != nil {
		l.fail(at, "%v", err)
		return
	}
	l.object(at, node, u)
}

func (l *fileLoader) object(at Position, node *yaml.Node, u *unstructured.Unstructured) {
	gvk := u.GroupVersionKind()
	switch {
	case gvk.Version == "" || gvk.Kind == "":
		l.fail(at, "an object needs apiVersion and kind")
		return
	case u.GetName() == "" && u.GetGenerateName() == "":
		l.fail(at, "%s has no metadata.name", gvk.Kind)
		return
	}
	if !l.relevant(at, u) {
		return
	}
	if v := unfilled(node, nil); v != nil {
		l.fail(Position{File: at.File, Line: v.Line}, "%s: %s is not filled in: render the template first (clusterctl generate cluster, envsubst)",
			describe(u), variable.FindString(v.Value))
		return
	}
	stored, err := l.set.store(l.kinds, u, at)
	switch {
	case errors.Is(err, errDuplicate):
		l.fail(at, "%s is defined twice, first at %s: keep one", describe(u), stored.At)
	case err != nil:
		l.decodeError(at, node, u, err)
	default:
		l.unknownFields(at, node, u)
	}
}

// decodeNode turns a node into an object by the same YAML rules that kubectl
// follows, in which `yes` is true.
func decodeNode(node *yaml.Node) (*unstructured.Unstructured, error) {
	text, err := yaml.Marshal(node)
	if err != nil {
		return nil, err
	}
	data, err := sigsyaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		if runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) {
			return nil, errors.New("an object needs apiVersion and kind")
		}
		return nil, err
	}
	return u, nil
}
