package policytest

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// compare gives a line for each key that is expected and decided otherwise,
// and for each decision too many or too few:
//
//	i-1 blocked: want [Window], got [Grace, Window]
func compare(want, got []Expected) string {
	var lines []string
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			lines = append(lines, fmt.Sprintf("%s: want no such decision, got %s", label(got, i), flow(got[i])))
		case i >= len(got):
			lines = append(lines, fmt.Sprintf("decision %d: want %s, got none", i+1, flow(want[i])))
		default:
			lines = append(lines, differences(label(got, i), &want[i], &got[i])...)
		}
	}
	return strings.Join(lines, "\n")
}

// label names a decision by its resource's id; by its first path too where the
// resource has several decisions.
func label(got []Expected, i int) string {
	id := got[i].Resource
	if parts := strings.SplitN(id, "/", 3); len(parts) == 3 {
		id = parts[2]
	}
	for j := range got {
		if j != i && got[j].Resource == got[i].Resource && len(got[i].Paths) > 0 {
			id += " " + got[i].Paths[0]
			break
		}
	}
	return plain(id)
}

func differences(name string, want, got *Expected) []string {
	var out []string
	text := func(key, w, g string) {
		if w != "" && w != g {
			out = append(out, fmt.Sprintf("%s %s: want %s, got %s", name, key, plain(w), plain(g)))
		}
	}
	list := func(key string, w, g []string) {
		if !slices.Equal(w, g) {
			out = append(out, fmt.Sprintf("%s %s: want %s, got %s", name, key, flowList(w), flowList(g)))
		}
	}
	text("owner", want.Owner, got.Owner)
	text("resource", want.Resource, got.Resource)
	if want.Paths != nil {
		list("paths", want.Paths, got.Paths)
	}
	text("action", want.Action, got.Action)
	text("severity", want.Severity, got.Severity)
	text("mode", want.Mode, got.Mode)
	text("rule", want.Rule, got.Rule)
	if want.Blocked != nil {
		list("blocked", *want.Blocked, *got.Blocked)
	}
	text("until", want.Until, got.Until)
	text("ignored", want.Ignored, got.Ignored)
	text("reason", want.Reason, got.Reason)
	return out
}

// flow writes a decision on one line, as it would stand in expected.yaml.
func flow(e Expected) string {
	var n yaml.Node
	if err := n.Encode(e); err != nil {
		return err.Error()
	}
	var parts []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		text := plain(value.Value)
		if value.Kind == yaml.SequenceNode {
			var items []string
			for _, item := range value.Content {
				items = append(items, item.Value)
			}
			text = flowList(items)
		}
		parts = append(parts, key.Value+": "+text)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func flowList(items []string) string {
	shown := make([]string, len(items))
	for i, item := range items {
		shown[i] = plain(item)
	}
	return "[" + strings.Join(shown, ", ") + "]"
}

// plain quotes text that would not stay on its line, or not be seen.
func plain(s string) string {
	switch {
	case s == "":
		return "nothing"
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Sprintf("%q", s)
	default:
		return s
	}
}
