package policytest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// Input is input.yaml.
type Input struct {
	// Now is the time of the decision.
	Now time.Time `yaml:"now"`
	// Cluster is the cluster of every finding.
	Cluster Cluster `yaml:"cluster"`
	// Owner holds for every owner that Owners does not name.
	Owner Owner `yaml:"owner"`
	// Owners by Kind/name.
	Owners map[string]Owner `yaml:"owners"`
	// InFlight are the actions that run now.
	InFlight []InFlight `yaml:"inFlight"`
	// Findings to decide about.
	Findings []Finding `yaml:"findings"`
}

// Cluster is the cluster and its facts.
type Cluster struct {
	Namespace    string            `yaml:"namespace"`
	Name         string            `yaml:"name"`
	Labels       map[string]string `yaml:"labels"`
	Annotations  map[string]string `yaml:"annotations"`
	Owners       *int              `yaml:"owners"`
	Machines     *int              `yaml:"machines"`
	ControlPlane *Fact             `yaml:"controlPlane"`
	Breaker      *Fact             `yaml:"breaker"`
	Pools        map[string]Pool   `yaml:"pools"`
	Zones        map[string]Zone   `yaml:"zones"`
}

// Pool counts a pool's machines.
type Pool struct {
	Desired int `yaml:"desired"`
	Ready   int `yaml:"ready"`
}

// Zone counts a zone's machines.
type Zone struct {
	Machines  int `yaml:"machines"`
	Unhealthy int `yaml:"unhealthy"`
}

// Owner is the facts of one owner.
type Owner struct {
	Labels            map[string]string `yaml:"labels"`
	Annotations       map[string]string `yaml:"annotations"`
	Paused            *Fact             `yaml:"paused"`
	Deleting          *Fact             `yaml:"deleting"`
	Moving            *Fact             `yaml:"moving"`
	ExternallyManaged *Fact             `yaml:"externallyManaged"`
	Rollout           *Fact             `yaml:"rollout"`
	OldRevision       *Fact             `yaml:"oldRevision"`
	SkipRemediation   *Fact             `yaml:"skipRemediation"`
	Ambiguous         *Fact             `yaml:"ambiguous"`
	Replaceable       *Fact             `yaml:"replaceable"`
	Ready             *Fact             `yaml:"ready"`
}

// InFlight is one action that has begun and not ended.
type InFlight struct {
	Owner        string `yaml:"owner"` // Kind/name
	Pool         string `yaml:"pool"`
	Zone         string `yaml:"zone"`
	ControlPlane bool   `yaml:"controlPlane"`
	Action       string `yaml:"action"`
	By           string `yaml:"by"`
	Failed       string `yaml:"failed"`
}

// Finding is one finding, with what is known of it from before.
type Finding struct {
	Owner        string           `yaml:"owner"`    // Kind/name
	Resource     string           `yaml:"resource"` // provider/Kind/id
	Name         string           `yaml:"name"`
	Pool         string           `yaml:"pool"`
	Zone         string           `yaml:"zone"`
	ControlPlane bool             `yaml:"controlPlane"`
	Status       string           `yaml:"status"` // Drifted if not set
	Reason       string           `yaml:"reason"`
	Diffs        []Diff           `yaml:"diffs"`
	Want         map[string]Value `yaml:"want"` // by JSON pointer
	Have         map[string]Value `yaml:"have"`
	SeenAt       *time.Time       `yaml:"seenAt"` // a minute ago if not set

	FirstSeen    time.Time   `yaml:"firstSeen"`
	Observations int         `yaml:"observations"`
	Attempts     []time.Time `yaml:"attempts"`
	Latched      string      `yaml:"latched"`
	ApprovedBy   string      `yaml:"approvedBy"`
}

// Diff is one differing value.
type Diff struct {
	Path       string `yaml:"path"`
	Want       Value  `yaml:"want"`
	Have       Value  `yaml:"have"`
	Type       string `yaml:"type"` // follows from want and have if not set
	Element    bool   `yaml:"element"`
	Mutability string `yaml:"mutability"` // InPlace if not set; ReadOnly is nothing to write
	Adopted    bool   `yaml:"adopted"`
	Foreign    string `yaml:"foreign"`
}

// Fact is written as true, false, "unknown", or as text that says why it is
// true.
type Fact struct{ policies.Fact }

// UnmarshalYAML reads a fact.
func (f *Fact) UnmarshalYAML(n *yaml.Node) error {
	var b bool
	if n.Tag == "!!bool" && n.Decode(&b) == nil {
		f.Fact = policies.If(b, "so the case says")
		return nil
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return fmt.Errorf("line %d: a fact is true, false, unknown, or text that says why it is true", n.Line)
	}
	if n.Value != "unknown" {
		f.Fact = policies.Yes(n.Value)
	}
	return nil
}

// Value is text, a whole number, true or false, or a list of texts.
type Value struct{ providers.Value }

// UnmarshalYAML reads a value.
func (v *Value) UnmarshalYAML(n *yaml.Node) error {
	var (
		i    int64
		b    bool
		list []string
		err  error
	)
	switch {
	case n.Kind == yaml.SequenceNode:
		err = n.Decode(&list)
		v.Value = providers.Set(list...)
	case n.Tag == "!!int":
		err = n.Decode(&i)
		v.Value = providers.Int(i)
	case n.Tag == "!!bool":
		err = n.Decode(&b)
		v.Value = providers.Bool(b)
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		v.Value = providers.String(n.Value)
	default:
		err = fmt.Errorf("line %d: a value is text, a whole number, true, false or a list", n.Line)
	}
	return err
}

// decodeStrict reads one document and refuses unknown keys.
func decodeStrict(data []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return nil
}

func (in *Input) ref() detector.ClusterRef {
	return detector.ClusterRef{Namespace: in.Cluster.Namespace, Name: in.Cluster.Name}
}
