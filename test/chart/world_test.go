package chart

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/capi"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/running"
)

// world is the example cluster of AWS on a simulator, with its objects in the
// management cluster.
type world struct {
	sim    *ec2sim.Server
	env    *awscluster.Environment
	built  int // calls that the test itself has made
	asked  int
	damage *awscluster.Damage
}

func newWorld(t *testing.T, c *cluster) *world {
	t.Helper()
	manifest := must(awscluster.Load(awsexamples.Files, awscluster.DefaultExample))(t)
	region := manifest.AWSCluster.Spec.Region
	w := &world{sim: ec2sim.New(ec2sim.Options{Regions: []string{region}, Delays: &ec2sim.Delays{}})}
	t.Cleanup(w.sim.Close)
	image := must(w.sim.AddImage(w.sim.DefaultScope(region), ec2sim.Image{Name: "node"}))(t)
	w.env = must(awscluster.Build(t.Context(), awscluster.ClientsFrom(w.sim.Config(region)), awscluster.Options{
		Manifest: manifest, Simulator: w.sim, Image: image, Poll: time.Millisecond,
	}))(t)
	scheme := capi.Scheme(corev1.AddToScheme, clusterv1.AddToScheme, capa.AddToScheme, controlplanev1.AddToScheme, bootstrapv1.AddToScheme)
	all := must(client.New(c.config, client.Options{Scheme: scheme}))(t)
	if err := running.Install(t.Context(), all, w.env.Objects()); err != nil {
		t.Fatal(err)
	}
	w.built = len(w.sim.Mutations())
	return w
}

// environ leads the AWS SDK to the simulator, as the chart's Secret would to AWS.
func (w *world) environ() []string {
	credential := w.sim.Credentials()[0]
	return []string{"AWS_ENDPOINT_URL=" + w.sim.URL(), "AWS_ACCESS_KEY_ID=" + credential.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + credential.SecretAccessKey,
		"AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull, "AWS_EC2_METADATA_DISABLED=true"}
}

// calls are those that change something and are not the test's own.
func (w *world) calls() []string {
	var out []string
	for _, m := range w.sim.Mutations()[w.built:] {
		out = append(out, fmt.Sprint(m))
	}
	return out
}

// tamper does one of the careless operator's things to a machine's tags, and gives
// its Machine. What was set back a moment ago would be waited with.
func (w *world) tamper(t *testing.T, name string) client.ObjectKey {
	t.Helper()
	for _, tamper := range awscluster.Tampers() {
		if tamper.Name != name {
			continue
		}
		w.damage = must(tamper.Do(t.Context(), w.env))(t)
		w.built = len(w.sim.Mutations())
		for i, a := range w.env.AWSMachines {
			if "AWSMachine/"+a.Name == w.damage.Findings[0].Owner {
				return client.ObjectKeyFromObject(w.env.Machines[i])
			}
		}
	}
	t.Fatalf("no tamper %q of a machine", name)
	return client.ObjectKey{}
}

// undo sets the tag back.
func (w *world) undo(t *testing.T) {
	t.Helper()
	if err := w.damage.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.built = len(w.sim.Mutations())
}

// sweep asks for one.
func (w *world) sweep(t *testing.T, c *cluster) {
	t.Helper()
	w.asked++
	c.kubectl(t, "annotate", "--overwrite", "clusters.cluster.x-k8s.io", "-n", w.env.Cluster.Namespace, w.env.Cluster.Name,
		fmt.Sprintf("%s=%d", driftv1.AnnotationSweepNow, w.asked))
	running.Eventually(t, patience, "swept", func() error {
		cl, err := get[clusterv1.Cluster](t.Context(), c, w.env.Cluster.Namespace, w.env.Cluster.Name)
		if err == nil && cl.Annotations[driftv1.AnnotationSwept] != fmt.Sprint(w.asked) {
			err = fmt.Errorf("annotations %v, want an answer to %d", cl.Annotations, w.asked)
		}
		return err
	})
}

// inSync waits until a sweep has found the last machine as declared.
func (w *world) inSync(t *testing.T, c *cluster) {
	t.Helper()
	w.sweep(t, c)
	last := client.ObjectKeyFromObject(w.env.Machines[len(w.env.Machines)-1])
	running.Eventually(t, patience, "in sync", func() error { return c.drift(t, last, metav1.ConditionFalse) })
}

// drift wants a Machine's condition.
func (c *cluster) drift(t *testing.T, key client.ObjectKey, want metav1.ConditionStatus) error {
	t.Helper()
	machine, err := get[clusterv1.Machine](t.Context(), c, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	found := meta.FindStatusCondition(machine.Status.Conditions, driftv1.ConditionDriftDetected)
	if found == nil || found.Status != want {
		return fmt.Errorf("Machine %s has %v, want %s", key, found, want)
	}
	return nil
}

// lines of a log with a word.
func lines(log, word string) string {
	var out strings.Builder
	for line := range strings.Lines(log) {
		if strings.Contains(line, word) {
			out.WriteString(line)
		}
	}
	return out.String()
}
