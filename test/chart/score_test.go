package chart

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// accepted are the checks of kube-score that the chart fails on purpose, and why.
var accepted = map[string]struct {
	comment string // what kube-score says
	only    func([]*unstructured.Unstructured) bool
	why     string
}{
	"container-resources": {
		comment: "CPU limit is not set",
		why:     "A CPU limit throttles a sweep in the midst of a lock's renewal; the request, which is set, keeps others their share.",
	},
	"container-image-pull-policy": {
		comment: "ImagePullPolicy is not set to Always",
		why:     "A release's chart names the image by its digest, which no pull can change; and a registry that is down must not keep the daemon from starting.",
	},
	"pod-networkpolicy": {
		comment: "The pod does not have a matching NetworkPolicy",
		only: func(of []*unstructured.Unstructured) bool {
			for _, u := range of {
				if u.GetKind() == "NetworkPolicy" {
					return false
				}
			}
			return true
		},
		why: "The chart has one, but cannot know the ports of clouds, proxies and receivers: the user turns it on. Where a profile does, the check holds.",
	},
}

// TestScore: kube-score finds nothing critical in any profile but what is accepted,
// and that.
func TestScore(t *testing.T) {
	met := map[string]bool{}
	for _, profile := range profiles(t) {
		t.Run(profile, func(t *testing.T) {
			path, found := whole(t, profile)
			checks := 0
			for _, object := range score(t, path) {
				for _, c := range object.Checks {
					if !c.Skipped {
						checks++
					}
					if c.Skipped || c.Grade > critical {
						continue
					}
					a := accepted[c.Check.ID]
					if len(c.Comments) == 0 {
						t.Errorf("%s: %s: critical, and nothing said of it", object.Name, c.Check.ID)
					}
					for _, comment := range c.Comments {
						if a.why == "" || a.only != nil && !a.only(found) || comment.Summary != a.comment {
							t.Errorf("%s: %s: %s (%s %s)", object.Name, c.Check.ID, comment.Summary, comment.Path, comment.Description)
						}
					}
					met[c.Check.ID] = true
				}
			}
			if checks < 15 {
				t.Errorf("kube-score has made %d checks: has it read the chart?", checks)
			}
		})
	}
	for id, a := range accepted {
		if !met[id] {
			t.Errorf("%s is not found any more, but accepted: %s", id, a.why)
		}
	}
}

// critical is the worst of kube-score's grades (scorecard.GradeCritical).
const critical = 1

type scored struct {
	Name   string `json:"object_name"`
	Checks []struct {
		Check    struct{ ID string }
		Grade    int
		Skipped  bool
		Comments []struct{ Path, Summary, Description string }
	}
}

func score(t *testing.T, path string) []scored {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(chartlint(t), "kube-score"), "score", "--kubernetes-version", "v1.32", "--output-format", "json", path)
	out, err := cmd.Output()
	var exit *exec.ExitError // 1 with anything critical
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var all []scored
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("kube-score: %v\n%s", err, out)
	}
	return all
}
