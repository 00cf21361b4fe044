package capi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Scheme has the types that the functions add.
func Scheme(adds ...func(*runtime.Scheme) error) *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range adds {
		if err := add(s); err != nil {
			panic(err) // a programming error: these types register or the binary is broken
		}
	}
	return s
}

// Read hands every document of a manifest to take, as it was written and as an
// object. An unknown field and an unknown kind are errors; all errors name the
// file and the document.
func Read(files fs.FS, name string, scheme *runtime.Scheme, take func(doc []byte, obj runtime.Object) error) error {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	docs := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && len(bytes.TrimSpace(doc)) > 0 {
			err = decode(scheme, doc, take)
		}
		if err != nil {
			return fmt.Errorf("%s: document %d: %w", name, n, err)
		}
	}
}

func decode(scheme *runtime.Scheme, doc []byte, take func([]byte, runtime.Object) error) error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return err
	}
	obj, err := scheme.New(schema.FromAPIVersionAndKind(head.APIVersion, head.Kind))
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(doc, obj); err != nil {
		return fmt.Errorf("%s: %w", head.Kind, err)
	}
	return take(doc, obj)
}

// Write puts objects into a folder, which it makes if needed, as one YAML file
// for each kind: what a user gets by exporting the namespace. The files are
// their owner's only, since there may be Secrets among them.
func Write(dir string, objects []client.Object) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write objects: %w", err)
	}
	files := map[string]*bytes.Buffer{}
	for _, o := range objects {
		kind := strings.ToLower(o.GetObjectKind().GroupVersionKind().Kind)
		data, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("write %s %s: %w", kind, o.GetName(), err)
		}
		buf, ok := files[kind]
		if ok {
			buf.WriteString("---\n")
		} else {
			buf = &bytes.Buffer{}
			files[kind] = buf
		}
		buf.Write(data)
	}
	for kind, buf := range files {
		if err := os.WriteFile(filepath.Join(dir, kind+"s.yaml"), buf.Bytes(), 0o600); err != nil {
			return fmt.Errorf("write objects: %w", err)
		}
	}
	return nil
}

// Append adds objects of one type to a list of any.
func Append[T client.Object](list []client.Object, objects []T) []client.Object {
	for _, o := range objects {
		list = append(list, o)
	}
	return list
}
