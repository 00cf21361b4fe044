package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is one entry of values.yaml, with what its comment says.
type value struct {
	key      string // dotted
	about    string
	schema   map[string]any // of the @schema line
	node     *yaml.Node
	children []*value
}

// readValues gives the entries of values.yaml in order.
func readValues(path string) ([]*value, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	root := doc.Content[0]
	return entries(root, "")
}

func entries(of *yaml.Node, prefix string) ([]*value, error) {
	var out []*value
	for i := 0; i < len(of.Content); i += 2 {
		key, node := of.Content[i], of.Content[i+1]
		v := &value{key: prefix + key.Value, node: node}
		if err := v.comment(key.HeadComment); err != nil {
			return nil, fmt.Errorf("%s: %w", v.key, err)
		}
		// A value that its @schema describes is one value, whatever is in it.
		if node.Kind == yaml.MappingNode && len(node.Content) > 0 && v.schema == nil {
			var err error
			if v.children, err = entries(node, v.key+"."); err != nil {
				return nil, err
			}
		} else if v.about == "" {
			return nil, fmt.Errorf("%s: it has no comment", v.key)
		}
		out = append(out, v)
	}
	return out, nil
}

func (v *value) comment(text string) error {
	// What stands before an empty line is about more than this key.
	if i := strings.LastIndex(text, "\n\n"); i >= 0 {
		text = text[i+2:]
	}
	var about []string
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(line, "#"))
		if more, ok := strings.CutPrefix(line, "@schema "); ok {
			if err := json.Unmarshal([]byte(more), &v.schema); err != nil {
				return fmt.Errorf("@schema: %w", err)
			}
			continue
		}
		if line != "" {
			about = append(about, line)
		}
	}
	v.about = strings.Join(about, " ")
	return nil
}

// types of YAML's tags in a JSON Schema.
var types = map[string]string{"!!str": "string", "!!bool": "boolean", "!!int": "integer", "!!float": "number", "!!map": "object", "!!seq": "array"}

// jsonSchema describes the value: its type is that of the default.
func (v *value) jsonSchema(config map[string]any) map[string]any {
	s := map[string]any{"type": types[v.node.Tag]}
	if v.about != "" {
		s["description"] = v.about
	}
	if len(v.children) > 0 {
		properties(s, v.children, config)
	}
	for key, more := range v.schema {
		if key == "$config" {
			s["properties"], s["additionalProperties"] = config, false
			continue
		}
		s[key] = more
	}
	return s
}

func properties(s map[string]any, of []*value, config map[string]any) {
	p := map[string]any{}
	for _, v := range of {
		p[v.key[strings.LastIndex(v.key, ".")+1:]] = v.jsonSchema(config)
	}
	s["properties"], s["additionalProperties"] = p, false
}

// chartOwn are the flags that the chart sets itself from other values, or that make
// no sense in a pod.
var chartOwn = []string{"aws-event-queue", "aws-event-queues", "config", "context", "feature-gates", "health-probe-bind-address", "help", "kubeconfig",
	"leader-elect", "leader-election-id", "leader-election-namespace", "log-format", "log-level", "metrics-bind-address",
	"metrics-cert-dir", "metrics-secure", "namespace", "nodes", "policy", "policy-objects", "reconcilers", "reconcilers-backoff",
	"reconcilers-backoff-limit", "reconcilers-concurrency", "reconcilers-sync-period", "reconcilers-takeover", "reconcilers-watch-filter",
	"reports", "webhook-bind-address", "webhook-cert-dir", "webhook-cert-rotate", "webhook-cert-secret", "webhook-configurations", "webhook-service"}

var flagLine = regexp.MustCompile(`^\s+(?:-\w, )?\s*--([a-z-]+)(?: (\w+))?\s{2,}(.*)$`)

// configSchema describes the configuration's other keys, from the flags of
// docs/cli.md, which is generated from the program.
func configSchema(cli string) (map[string]any, error) {
	_, section, _ := strings.Cut(cli, "\n## holdfast controller\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, options, ok := strings.Cut(section, "### Options\n")
	if !ok {
		return nil, fmt.Errorf("docs/cli.md: no options of holdfast controller")
	}
	own := map[string]bool{}
	for _, flag := range chartOwn {
		own[flag] = true
	}
	out := map[string]any{}
	for _, line := range strings.Split(options, "\n") {
		m := flagLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if own[m[1]] {
			delete(own, m[1])
			continue
		}
		s := map[string]any{"description": m[3]}
		switch m[2] {
		case "duration":
			s["type"], s["pattern"] = "string", `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`
		case "int":
			s["type"] = "integer"
		case "string":
			s["type"] = "string"
		case "":
			s["type"] = "boolean"
		default:
			return nil, fmt.Errorf("docs/cli.md: --%s is of a kind %q that has no schema here", m[1], m[2])
		}
		out[camelCase(m[1])] = s
	}
	if len(own) > 0 {
		return nil, fmt.Errorf("docs/cli.md: holdfast controller has no flags %v", own)
	}
	return out, nil
}

func camelCase(flag string) string {
	words := strings.Split(flag, "-")
	for i := 1; i < len(words); i++ {
		words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
	}
	return strings.Join(words, "")
}
