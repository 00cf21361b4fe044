package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	vsphereexamples "github.com/holdfast-io/holdfast/examples/vsphere"
	"github.com/holdfast-io/holdfast/report"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// output is what one run of the program gave.
type output struct {
	code           int
	stdout, stderr string
}

// holdfast runs the program as a user would.
func holdfast(t *testing.T, args ...string) output {
	t.Helper()
	return holdfastIn(t, "", args...)
}

func holdfastIn(t *testing.T, stdin string, args ...string) output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"holdfast"}, args...), strings.NewReader(stdin), &stdout, &stderr)
	return output{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// parse reads the JSON report on standard output.
func (o output) parse(t *testing.T) *report.Report {
	t.Helper()
	r, err := report.Read(strings.NewReader(o.stdout))
	if err != nil {
		t.Fatalf("no report: %v\nexit %d\n%s\n%s", err, o.code, o.stdout, o.stderr)
	}
	return r
}

// statuses counts the findings of a report.
func statuses(r *report.Report) map[detector.Status]int {
	out := map[detector.Status]int{}
	for i := range r.Findings {
		out[r.Findings[i].Status]++
	}
	return out
}

// awsWorld is the example cluster on ec2sim, its objects in a folder, and the
// process's credentials pointing at it.
type awsWorld struct {
	sim     *ec2sim.Server
	env     *awscluster.Environment
	objects string
	built   int
}

func newAWSWorld(t *testing.T) *awsWorld { return newAWSWorldOf(t, awscluster.DefaultExample) }

func newAWSWorldOf(t *testing.T, example string, options ...func(*ec2sim.Options)) *awsWorld {
	t.Helper()
	manifest, err := awscluster.Load(awsexamples.Files, example)
	if err != nil {
		t.Fatal(err)
	}
	region := manifest.AWSCluster.Spec.Region
	simulator := ec2sim.Options{Regions: []string{region, "us-east-1", "us-west-2"}, Delays: &ec2sim.Delays{}}
	for _, option := range options {
		option(&simulator)
	}
	w := &awsWorld{
		sim:     ec2sim.New(simulator),
		objects: filepath.Join(t.TempDir(), "objects"),
	}
	t.Cleanup(w.sim.Close)
	image, err := w.sim.AddImage(w.sim.DefaultScope(region), ec2sim.Image{Name: "node"})
	if err != nil {
		t.Fatal(err)
	}
	w.env, err = awscluster.Build(t.Context(), awscluster.ClientsFrom(w.sim.Config(region)), awscluster.Options{
		Manifest: manifest, Simulator: w.sim, Image: image, Poll: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.write(t)
	w.built = len(w.sim.Mutations())
	w.use(t)
	return w
}

// use points the process's credentials at this world.
func (w *awsWorld) use(t *testing.T) {
	t.Helper()
	for name, value := range simulatorEnvironment(w.sim) {
		t.Setenv(name, value)
	}
}

func (w *awsWorld) write(t *testing.T) {
	t.Helper()
	if err := w.env.Write(w.objects); err != nil {
		t.Fatal(err)
	}
}

// report runs `holdfast report -o json` on the world's objects.
func (w *awsWorld) report(t *testing.T, args ...string) output {
	t.Helper()
	return holdfast(t, append([]string{"report", "--objects", w.objects, "-o", "json"}, args...)...)
}

// tamper does one of the careless operator's things, by name.
func (w *awsWorld) tamper(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		found := false
		for _, tamper := range awscluster.Tampers() {
			if tamper.Name == name {
				found = true
				if _, err := tamper.Do(t.Context(), w.env); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		if !found {
			t.Fatalf("no tamper is called %q", name)
		}
	}
	w.built = len(w.sim.Mutations())
}

// terminate loses the last machine, so that a report has to confirm it.
func (w *awsWorld) terminate(t *testing.T) {
	t.Helper()
	last := w.env.AWSMachines[len(w.env.AWSMachines)-1]
	if err := w.sim.TerminateInstance(w.sim.DefaultScope(w.env.AWSCluster.Spec.Region), *last.Spec.InstanceID, "Client.UserInitiatedShutdown", ""); err != nil {
		t.Fatal(err)
	}
}

// unchanged fails the test if anything but the test itself changed the cloud.
func (w *awsWorld) unchanged(t *testing.T) {
	t.Helper()
	for _, call := range w.sim.Mutations()[w.built:] {
		t.Errorf("a report made the changing call %+v", call)
	}
}

// vsphereWorld is the example cluster on vcsim.
type vsphereWorld struct {
	vcenter *vspherecluster.VCenter
	env     *vspherecluster.Environment
	objects string
}

func newVSphereWorld(t *testing.T) *vsphereWorld {
	t.Helper()
	manifest, err := vspherecluster.Load(vsphereexamples.Files, vspherecluster.DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	vcenter, err := vspherecluster.StartVCenter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(vcenter.Close)
	w := &vsphereWorld{vcenter: vcenter, objects: filepath.Join(t.TempDir(), "objects")}
	if w.env, err = vspherecluster.Build(t.Context(), vcenter, vspherecluster.Options{Manifest: manifest}); err != nil {
		t.Fatal(err)
	}
	if err := w.env.Write(w.objects); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *vsphereWorld) report(t *testing.T, args ...string) output {
	t.Helper()
	return holdfast(t, append([]string{"report", "--objects", w.objects, "-o", "json"}, args...)...)
}

// write puts a file into a folder of the test's.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// same drops what differs between any two runs.
func same(t *testing.T, o output) string {
	t.Helper()
	r := o.parse(t)
	r.Generated = r.Generated.Truncate(1 << 62)
	for i := range r.Clusters {
		r.Clusters[i].SnapshotTime = nil
	}
	for i := range r.Findings {
		r.Findings[i].FirstSeen = nil
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
