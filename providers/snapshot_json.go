package providers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// SnapshotAPIVersion and SnapshotKind head a file of snapshots, on which
// `--save-snapshot` and `--snapshot` agree. A reader refuses other versions.
const (
	SnapshotAPIVersion = "snapshot.holdfast.io/v1alpha1"
	SnapshotKind       = "SnapshotList"
)

// The types below are the file's own, so that the file stays as it is when the
// contract's types move.
type snapshotFile struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Snapshots  []snapshotJSON `json:"snapshots"`
}

type snapshotJSON struct {
	Scope     Scope          `json:"scope"`
	TakenAt   time.Time      `json:"takenAt"`
	Serves    []string       `json:"serves,omitempty"`
	Absent    []ID           `json:"confirmedAbsent,omitempty"`
	Coverage  []coverageJSON `json:"coverage"`
	Resources []resourceJSON `json:"resources"`
}

// coverageJSON is one part of a scope; without an error it was read in full.
type coverageJSON struct {
	Part  string `json:"part"`
	Error string `json:"error,omitempty"`
}

type resourceJSON struct {
	Kind        string               `json:"kind"`
	ID          string               `json:"id"`
	Name        string               `json:"name,omitempty"`
	Fields      map[string]fieldJSON `json:"fields,omitempty"`
	Closed      []string             `json:"closed,omitempty"`
	Needs       []ID                 `json:"needs,omitempty"`
	Gone        string               `json:"gone,omitempty"`
	Unknown     string               `json:"unknown,omitempty"`
	ForeignTo   string               `json:"foreignTo,omitempty"`
	Warnings    []string             `json:"warnings,omitempty"`
	ClusterTags []string             `json:"clusterTags,omitempty"`
}

// fieldJSON is a seen field; what only wanted fields have is not written.
type fieldJSON struct {
	Value     Value             `json:"value"`
	Sensitive bool              `json:"sensitive,omitempty"`
	Foreign   map[string]string `json:"foreign,omitempty"`
	Claimed   map[string]string `json:"claimed,omitempty"`
}

// WriteSnapshots writes snapshots as one JSON document, in the order given and
// the same to the byte for equal snapshots. Coverage errors become text.
// Sensitive values are digests already, and are written as such.
func WriteSnapshots(w io.Writer, snapshots []*Snapshot) error {
	file := snapshotFile{APIVersion: SnapshotAPIVersion, Kind: SnapshotKind, Snapshots: []snapshotJSON{}}
	for i, s := range snapshots {
		if s == nil {
			return fmt.Errorf("write snapshots: snapshot %d is nil", i)
		}
		file.Snapshots = append(file.Snapshots, encodeSnapshot(s))
	}
	enc := json.NewEncoder(inert{w})
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(file); err != nil {
		return fmt.Errorf("write snapshots: %w", err)
	}
	return nil
}

func encodeSnapshot(s *Snapshot) snapshotJSON {
	out := snapshotJSON{Scope: s.Scope, TakenAt: s.TakenAt.UTC(), Serves: s.Serves, Absent: s.ConfirmedAbsent, Coverage: []coverageJSON{}, Resources: []resourceJSON{}}
	for part, err := range s.Coverage {
		c := coverageJSON{Part: part}
		if err != nil {
			c.Error = cmp.Or(Redact(err.Error()), "no reason given") // an empty text would read as complete
		}
		out.Coverage = append(out.Coverage, c)
	}
	slices.SortFunc(out.Coverage, func(a, b coverageJSON) int { return cmp.Compare(a.Part, b.Part) })
	for id, r := range s.Resources {
		if r != nil {
			out.Resources = append(out.Resources, encodeResource(id, r))
		}
	}
	slices.SortFunc(out.Resources, func(a, b resourceJSON) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func encodeResource(id ID, r *Resource) resourceJSON {
	out := resourceJSON{
		Kind: id.Kind, ID: id.Name, Name: r.Name, Closed: r.Closed, Needs: r.Needs,
		Gone: r.Gone, Unknown: r.Unknown, ForeignTo: r.ForeignTo,
		Warnings: r.Warnings, ClusterTags: r.ClusterTags,
	}
	if len(r.Fields) > 0 {
		out.Fields = make(map[string]fieldJSON, len(r.Fields))
	}
	for path, f := range r.Fields.All() {
		out.Fields[path] = fieldJSON{Value: f.Value, Sensitive: f.Sensitive, Foreign: f.Foreign, Claimed: f.Claimed}
	}
	return out
}

// ReadSnapshots reads what [WriteSnapshots] wrote, strictly: another version,
// an unknown or repeated key, or a value that means nothing is an error that
// says where. What could not be read from the cloud stays unread: coverage
// errors come back as errors with the same text.
func ReadSnapshots(r io.Reader) ([]*Snapshot, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read snapshots: %w", err)
	}
	if err := checkHeader(data); err != nil {
		return nil, fmt.Errorf("read snapshots: %w", err)
	}
	if err := checkKeys(data); err != nil {
		return nil, fmt.Errorf("read snapshots: %w", locate(data, err))
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var file snapshotFile
	if err := dec.Decode(&file); err != nil {
		return nil, fmt.Errorf("read snapshots: %w", locate(data, err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read snapshots: line %d: text after the end of the document", lineAt(data, dec.InputOffset()))
	}
	out := make([]*Snapshot, 0, len(file.Snapshots))
	for i := range file.Snapshots {
		s, err := decodeSnapshot(&file.Snapshots[i])
		if err != nil {
			return nil, fmt.Errorf("read snapshots: snapshot %d (%s): %w", i, file.Snapshots[i].Scope, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// checkHeader comes first, so that a file of another kind or version is called
// that, and not a list of unknown keys.
func checkHeader(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("the file is empty")
	}
	var header struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(data, &header); err != nil {
		return locate(data, err)
	}
	if header.Kind != SnapshotKind {
		return fmt.Errorf("kind is %q, want %s: this is no file of saved snapshots", header.Kind, SnapshotKind)
	}
	if header.APIVersion != SnapshotAPIVersion {
		return fmt.Errorf("apiVersion is %q, this version of holdfast reads %s: save the snapshot again", header.APIVersion, SnapshotAPIVersion)
	}
	return nil
}

func decodeSnapshot(in *snapshotJSON) (*Snapshot, error) {
	if in.Scope.Provider == "" || in.Scope.Account == "" {
		return nil, errors.New("scope needs a provider and an account")
	}
	if in.TakenAt.IsZero() {
		return nil, errors.New("takenAt is missing")
	}
	s := &Snapshot{
		Scope: in.Scope, TakenAt: in.TakenAt.UTC(), Serves: in.Serves, ConfirmedAbsent: in.Absent,
		Coverage:  make(map[string]error, len(in.Coverage)),
		Resources: make(map[ID]*Resource, len(in.Resources)),
	}
	for i, c := range in.Coverage {
		if _, twice := s.Coverage[c.Part]; twice || c.Part == "" {
			return nil, fmt.Errorf("coverage %d: part %q is empty or stands twice", i, c.Part)
		}
		s.Coverage[c.Part] = nil
		if c.Error != "" {
			s.Coverage[c.Part] = errors.New(c.Error)
		}
	}
	for i := range in.Resources {
		r, err := decodeResource(&in.Resources[i])
		if err != nil {
			return nil, fmt.Errorf("resource %d: %w", i, err)
		}
		if s.Resources[r.ID] != nil {
			return nil, fmt.Errorf("resource %d: %s stands twice", i, r.ID)
		}
		s.Resources[r.ID] = r
	}
	return s, nil
}

func decodeResource(in *resourceJSON) (*Resource, error) {
	r := &Resource{
		ID: ID{Kind: in.Kind, Name: in.ID}, Name: in.Name, Closed: in.Closed, Needs: in.Needs,
		Gone: in.Gone, Unknown: in.Unknown, ForeignTo: in.ForeignTo,
		Warnings: in.Warnings, ClusterTags: in.ClusterTags,
	}
	if r.ID.Kind == "" || r.ID.Name == "" {
		return nil, fmt.Errorf("%s: kind or id is missing", r.ID)
	}
	for path, f := range in.Fields {
		if path == "" || path[0] != '/' {
			return nil, fmt.Errorf("%s: field %q is no JSON pointer", r.ID, path)
		}
		if f.Value.IsAbsent() {
			return nil, fmt.Errorf("%s: field %s has no value: leave out what was not seen", r.ID, path)
		}
		for element := range f.Foreign {
			if !f.Value.Has(element) {
				return nil, fmt.Errorf("%s: field %s: foreign element %q is not in the set", r.ID, path, element)
			}
		}
		for element := range f.Claimed {
			if !f.Value.Has(element) {
				return nil, fmt.Errorf("%s: field %s: claimed element %q is not in the set", r.ID, path, element)
			}
		}
		r.Set(path, Field{Value: f.Value, Sensitive: f.Sensitive, Foreign: f.Foreign, Claimed: f.Claimed})
	}
	return r, nil
}
