package alerts

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const dashboardsFolder = "../../charts/holdfast/dashboards"

// dashboard is what the tests read of one.
type dashboard struct {
	Panels []struct {
		ID         int
		Title      string
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct{ Expr string }
		Datasource struct{ UID string }
	}
	Templating struct {
		List []struct{ Name string }
	}
}

func dashboards(t *testing.T) map[string]*dashboard {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dashboardsFolder, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no dashboards in %s: %v", dashboardsFolder, err)
	}
	out := map[string]*dashboard{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		d := &dashboard{}
		if err := json.Unmarshal(data, d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out[filepath.Base(path)] = d
	}
	return out
}

// TestDashboards: what Grafana would show without a word of complaint: panels
// upon each other, a variable that is not there, a series that nobody serves.
func TestDashboards(t *testing.T) {
	variable := regexp.MustCompile(`\$\{?(\w+)`)
	for file, d := range dashboards(t) {
		known := map[string]bool{"__rate_interval": true}
		for _, v := range d.Templating.List {
			known[v.Name] = true
		}
		taken, ids, titles := map[[2]int]string{}, map[int]bool{}, map[string]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] || titles[p.Title] || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
				t.Errorf("%s: panel %q: its id, its title, its queries or its data source are not in order", file, p.Title)
			}
			ids[p.ID], titles[p.Title] = true, true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: panel %q lies on %q, or beside the page", file, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			for _, target := range p.Targets {
				for _, m := range variable.FindAllStringSubmatch(target.Expr, -1) {
					if !known[m[1]] {
						t.Errorf("%s: panel %q uses $%s, which is not there", file, p.Title, m[1])
					}
				}
				for _, name := range seriesName.FindAllString(target.Expr, -1) {
					if !served(name) {
						t.Errorf("%s: panel %q asks for %s, which is not served", file, p.Title, name)
					}
				}
			}
		}
	}
}

// TestDashboardsBySchema: Grafana's own types of dashboards and panels have every
// field of ours, and of that type; one that they have not is found.
func TestDashboardsBySchema(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(dashboardsFolder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range paths {
		if paths[i], err = filepath.Abs(paths[i]); err != nil {
			t.Fatal(err)
		}
	}
	judge := func(paths ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "."}, paths...)...)
		cmd.Dir = "../../hack/dashboards" // a module of its own
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := judge(paths...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	for right, wrong := range map[string]string{`"gridPos"`: `"gridPosition"`, `"refresh": "1m"`: `"refresh": 60`} {
		broken := filepath.Join(t.TempDir(), "broken.json")
		if err := os.WriteFile(broken, []byte(strings.Replace(string(data), right, wrong, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := judge(broken); err == nil || !strings.Contains(out, broken) {
			t.Errorf("%s in place of %s: %v\n%s", wrong, right, err, out)
		}
	}
}

// ask runs every query of the dashboards: each must have given data while the
// situations were played.
func (w *world) ask() {
	w.t.Helper()
	fill := strings.NewReplacer("$__rate_interval", "30s", "$namespace", ".*", "$cluster", ".*", "$job", ".*")
	n := 0
	for file, d := range dashboards(w.t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				n++
				expr := fill.Replace(target.Expr)
				got, err := w.prometheus.ranged(w.t.Context(), expr, w.begun)
				switch {
				case err != nil:
					w.t.Errorf("%s: panel %q: %s: %v", file, p.Title, expr, err)
				case got == 0:
					w.t.Errorf("%s: panel %q has no data: %s", file, p.Title, expr)
				}
			}
		}
	}
	w.t.Logf("%d queries of dashboards", n)
}
