package scale

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capa "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	capv "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/capi"
	"github.com/holdfast-io/holdfast/test/controlplane"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/running"
)

// plane is a management cluster: an API server, and a counter before it for the
// program.
type plane struct {
	cfg    *rest.Config
	client client.WithWatch
	api    *running.Counter
}

// planeOptions say what else a plane has.
type planeOptions struct {
	// collector is Kubernetes' garbage collector.
	collector bool
}

func newPlane(t testing.TB, o planeOptions) plane {
	t.Helper()
	crds, err := controlplane.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	control, err := controlplane.Launch(controlplane.Options{CRDs: crds, GarbageCollector: o.collector})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := control.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := plane{cfg: control.Config}
	p.api = running.Count(t, p.cfg)
	scheme := capi.Scheme(corev1.AddToScheme, eventsv1.AddToScheme, driftv1.AddToScheme, clusterv1.AddToScheme, capa.AddToScheme, capv.AddToScheme,
		controlplanev1.AddToScheme, controlplanev1beta1.AddToScheme, bootstrapv1.AddToScheme, bootstrapv1beta1.AddToScheme)
	if p.client, err = client.NewWithWatch(p.cfg, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return p
}

// world is a management cluster whose clusters are on one ec2sim, in one
// account and region, and so in one scope.
type world struct {
	plane
	sim  *ec2sim.Server
	envs []*awscluster.Environment
	// daemon and operator are the keys of the program and of who tampers.
	daemon, operator ec2sim.Credential
	region, image    string
}

// newWorld makes an API server and a cloud without clusters. onEvent gets what
// EventBridge would deliver; nil is nobody.
func newWorld(t testing.TB, onEvent func(ec2sim.Event)) *world {
	t.Helper()
	return newWorldWith(t, planeOptions{}, onEvent)
}

func newWorldWith(t testing.TB, o planeOptions, onEvent func(ec2sim.Event)) *world {
	t.Helper()
	key := func(id, user string) ec2sim.Credential {
		c := ec2sim.DefaultCredential()
		c.AccessKeyID, c.ARN = id, "arn:aws:iam::"+c.Account+":user/"+user
		return c
	}
	w := &world{region: "eu-central-1", daemon: key("AKIAHOLDFASTDAEMON00", "holdfast"), operator: key("AKIAOPERATOR00000000", "operator")}
	w.sim = ec2sim.New(ec2sim.Options{Regions: []string{w.region}, Delays: &ec2sim.Delays{}, Credentials: []ec2sim.Credential{w.daemon, w.operator}, OnEvent: onEvent})
	t.Cleanup(w.sim.Close)
	var err error
	if w.image, err = w.sim.AddImage(w.sim.DefaultScope(w.region), ec2sim.Image{Name: "node"}); err != nil {
		t.Fatal(err)
	}
	w.plane = newPlane(t, o)
	return w
}

// others are the machines of the example that are not in its first pool.
const others = 5

// build makes a cluster of n machines in the cloud and its objects.
func (w *world) build(t testing.TB, name string, n int32) *awscluster.Environment {
	t.Helper()
	m, err := awscluster.Load(awsexamples.Files, awscluster.DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	m.Rename(name)
	env, err := awscluster.Build(t.Context(), awscluster.ClientsFrom(w.sim.ConfigFor(w.operator, w.region)), awscluster.Options{
		Manifest: m, Workers: map[string]int32{m.Deployments[0].Name: n - others}, Image: w.image, Poll: time.Millisecond, Simulator: w.sim,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(env.Machines) != int(n) {
		t.Fatalf("%s has %d machines, want %d", name, len(env.Machines), n)
	}
	if err := running.Install(t.Context(), w.client, env.Objects()); err != nil {
		t.Fatal(err)
	}
	w.envs = append(w.envs, env)
	return env
}

// environ leads the program to the cloud.
func (w *world) environ() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL": w.sim.URL(), "AWS_ACCESS_KEY_ID": w.daemon.AccessKeyID, "AWS_SECRET_ACCESS_KEY": w.daemon.SecretAccessKey,
		"AWS_SESSION_TOKEN": "", "AWS_REGION": w.region, "AWS_PROFILE": "", "AWS_CONFIG_FILE": os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	}
}

// calls are the program's own, by service and action.
func (w *world) calls() (reads, mutations map[string]int) {
	reads, mutations = map[string]int{}, map[string]int{}
	for _, c := range w.sim.Calls() {
		if c.AccessKeyID != w.daemon.AccessKeyID {
			continue
		}
		to := reads
		if c.Mutating {
			to = mutations
		}
		to[c.Service+":"+c.Action]++
	}
	return reads, mutations
}

// retag sets a tag of an instance as a person does, and with an empty value
// takes it off.
func (w *world) retag(t testing.TB, id, key, value string) {
	t.Helper()
	c := ec2.NewFromConfig(w.sim.ConfigFor(w.operator, w.region))
	tags := []types.Tag{{Key: aws.String(key), Value: aws.String(value)}}
	var err error
	if value == "" {
		_, err = c.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String(key)}}})
	} else {
		_, err = c.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: tags})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// quiet has schedules wait for longer than any test, so that what is read is
// what the test asks for. Its number makes policies differ that say the same.
func quiet(n int, mode string) string {
	return fmt.Sprintf(`apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: test}
spec:
  mode: %s
  schedule: {cron: "0 0 1 1 *", jitter: 0s, staleAfter: 9000h}
  safety: {maxDriftRatio: 100%%, minHealthy: 50%%}
  rules:
  - {id: aws-instance-tags, action: patch, grace: {for: 0s, observations: 1}, attempts: {max: 10, per: 1m}}
  - {id: test, target: {id: i-%08d}, action: observe}
`, mode, n)
}

// sweeps has everything read again by a change of the policies, which writes
// nothing to the API server, unlike the request for a sweep, which is answered.
func (w *world) sweep(t testing.TB, d *running.Daemon, n int) {
	t.Helper()
	before := d.Reads(t, "PolicyChanged")
	d.SetPolicy(t, quiet(n, "enforce"))
	running.Eventually(t, 5*time.Minute, fmt.Sprintf("swept for the %d. time", n), func() error {
		if now := d.Reads(t, "PolicyChanged"); now <= before {
			return fmt.Errorf("%d reads", now)
		}
		return nil
	})
}

// text gives counts in a fixed order.
func text(counts map[string]int) string {
	var out []string
	for key, n := range counts {
		out = append(out, fmt.Sprintf("%s %d", key, n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
