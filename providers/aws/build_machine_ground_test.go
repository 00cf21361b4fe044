package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/moto"
)

// machineGround is a cluster's network with a machine that is to be made in it,
// and the engine's loop in small.
type machineGround struct {
	t       *testing.T
	sim     *ec2sim.Server // nil on moto
	ec2     *ec2.Client
	clients awscluster.Clients
	image   string

	cluster    *clusterv1.Cluster
	awsCluster *infrav1.AWSCluster
	machine    *clusterv1.Machine
	m          *infrav1.AWSMachine
	control    bool
	boot       *providers.BootstrapData

	p     *Provider
	scope providers.Scope
	snap  *providers.Snapshot
}

const bootData = "#cloud-config\nhostname: h-unter2\n"

func newMachineGround(t *testing.T, example string, options ec2sim.Options) *machineGround {
	t.Helper()
	options.Regions = []string{"eu-central-1"}
	if options.Delays == nil {
		options.Delays = &ec2sim.Delays{}
	}
	sim := ec2sim.New(options)
	t.Cleanup(sim.Close)
	isolate(t, sim.URL())
	credential := sim.Credentials()[0]
	t.Setenv("AWS_ACCESS_KEY_ID", credential.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", credential.SecretAccessKey)
	for _, service := range []string{"SECRETS_MANAGER", "SSM"} {
		t.Setenv("AWS_ENDPOINT_URL_"+service, motoServer.URL)
	}
	image, err := sim.AddImage(sim.DefaultScope("eu-central-1"), ec2sim.Image{Name: "node"})
	if err != nil {
		t.Fatal(err)
	}
	g := &machineGround{t: t, sim: sim, image: image, clients: awscluster.ClientsFrom(sim.Config("eu-central-1"))}
	g.build(example)
	return g
}

func newMotoGround(t *testing.T, example string) *machineGround {
	t.Helper()
	if err := motoServer.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	isolate(t, motoServer.URL)
	g := &machineGround{t: t, image: moto.Image, clients: awscluster.NewClients(motoServer.URL, "eu-central-1")}
	g.build(example)
	return g
}

func (g *machineGround) build(example string) {
	g.t.Helper()
	manifest, err := awscluster.Load(awsexamples.Files, example)
	if err != nil {
		g.t.Fatal(err)
	}
	manifest.Place(manifest.AWSCluster.Namespace, g.image)
	g.ec2, g.cluster, g.awsCluster = g.clients.EC2, manifest.Cluster, manifest.AWSCluster
	g.awsCluster.UID, g.awsCluster.Spec.IdentityRef = "uid-of-cluster", nil
	if cni := g.awsCluster.Spec.NetworkSpec.CNI; cni != nil && g.sim == nil { // moto refuses this protocol
		cni.CNIIngressRules = slices.DeleteFunc(cni.CNIIngressRules, func(r infrav1.CNIIngressRule) bool {
			return r.Protocol == infrav1.SecurityGroupProtocolIPinIP
		})
	}
	g.cluster.Status.Initialization.InfrastructureProvisioned = ptr(true)
	player := awscluster.NewPlayer(g.clients, g.cluster)
	if err := player.Infrastructure(g.t.Context(), g.awsCluster); err != nil {
		g.t.Fatal(err)
	}
	spec := *manifest.MachineTemplates[0].Spec.Template.Spec.DeepCopy()
	spec.SSHKeyName = ptr("") // a key pair is another test's
	spec.CloudInit.InsecureSkipSecretsManager = true
	if err := g.clients.InstanceProfile(g.t.Context(), spec.IAMInstanceProfile); err != nil {
		g.t.Fatal(err)
	}
	g.m = &infrav1.AWSMachine{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "AWSMachine"},
		ObjectMeta: metav1.ObjectMeta{Namespace: g.cluster.Namespace, Name: g.cluster.Name + "-m0", UID: "11111111-2222-3333-4444-555555555555", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Minute))},
		Spec:       spec,
	}
	g.machine = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: g.cluster.Namespace, Name: g.m.Name, UID: apitypes.UID("uid-of-machine")}}
	g.machine.Spec.FailureDomain, g.machine.Spec.Version = "eu-central-1a", "v1.34.2"
	g.machine.Spec.Bootstrap.DataSecretName = ptr("boot")
	g.boot = &providers.BootstrapData{Value: []byte(bootData)}
	g.control = true
	g.p = provider(g.t)
	if g.scope, err = g.p.Scope(g.t.Context(), g.owner()); err != nil {
		g.t.Fatal(err)
	}
}

func (g *machineGround) owner() *providers.Owner {
	return &providers.Owner{
		Ref: providers.RefOf(g.m), Cluster: g.cluster, Machine: g.machine, Infra: g.m, InfraCluster: g.awsCluster,
		ControlPlane: g.control, Zone: g.machine.Spec.FailureDomain,
	}
}

func (g *machineGround) observe() {
	g.t.Helper()
	_, _ = g.p.Scope(g.t.Context(), g.owner()) // it tells the provider which machines are control planes
	snap, err := g.p.Observe(g.t.Context(), g.scope)
	if err != nil {
		g.t.Fatal(err)
	}
	g.snap = snap
}

const creationToken = "aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee"

// pass goes through the pipeline once, as the engine does, and gives what the
// machine waits for.
func (g *machineGround) pass() (waiting string, failed error) {
	g.t.Helper()
	ctx, owner := g.t.Context(), g.owner()
	if err := g.p.Settle(ctx, g.scope, owner); err != nil {
		g.t.Fatal(err)
	}
	var progress providers.Progress
	for range 6 {
		plan, err := g.p.Plan(owner, g.snap)
		if err != nil {
			g.t.Fatal(err)
		}
		progress.Plan = plan
		id, changed, err := g.step(ctx, owner, plan)
		if progress.Failed = err; err != nil {
			progress.At = id
		}
		if err != nil || !changed {
			break
		}
		g.confirm(id)
	}
	return g.p.Note(owner, g.snap, progress), progress.Failed
}

// step makes or changes the first thing that is to be made or changed.
func (g *machineGround) step(ctx context.Context, owner *providers.Owner, plan []providers.Resource) (providers.ID, bool, error) {
	g.t.Helper()
	for i := range plan {
		want := &plan[i]
		if want.Unchecked != "" {
			g.t.Fatalf("%s is not planned: %s", want.ID, want.Unchecked)
		}
		if want.ID.Provisional() {
			made, err := g.p.Create(ctx, g.scope, providers.Creation{Owner: owner, Want: want, Token: creationToken, Bootstrap: g.boot})
			if err != nil {
				return want.ID, false, err
			}
			return made, true, g.p.Record(owner, want.ID, made)
		}
	}
	for _, f := range detector.Compare(owner, plan, g.snap, detector.Options{CreationGrace: time.Nanosecond, Building: true}).Findings {
		i := slices.IndexFunc(plan, func(r providers.Resource) bool { return r.ID.Kind == f.Resource.Kind && r.ID.Name == f.Resource.ID })
		if i < 0 || f.Status != detector.Drifted || plan[i].Unsettled {
			continue
		}
		change := providers.Change{Resource: plan[i].ID, Owner: owner.Ref, Want: &plan[i], Have: f.Have, Token: creationToken}
		for _, d := range f.Diffs {
			switch d.Mutability {
			case providers.InPlace:
				change.Fields = append(change.Fields, providers.FieldChange{Path: d.Path, Want: d.Want, Have: d.Have, Element: d.Element, Mutability: d.Mutability})
			case providers.Immutable:
				g.t.Errorf("%s of %s is %q where %q is wanted", d.Path, f.Resource.ID, d.Have.Text(), d.Want.Text())
			}
		}
		if len(change.Fields) > 0 {
			err := g.p.Apply(ctx, g.scope, change)
			if errors.Is(err, providers.ErrPending) {
				err = nil
			}
			return plan[i].ID, err == nil, err
		}
	}
	return providers.ID{}, false, nil
}

func (g *machineGround) confirm(ids ...providers.ID) {
	g.t.Helper()
	_, _ = g.p.Scope(g.t.Context(), g.owner())
	c, err := g.p.Confirm(g.t.Context(), g.scope, ids)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, id := range ids {
		if err := c.Unconfirmed[id]; err != nil {
			g.t.Fatal(err)
		}
		delete(g.snap.Resources, id)
		if r := c.Resources[id]; r != nil {
			g.snap.Resources[id] = r
		}
	}
}

// made makes the machine and gives its instance in EC2's words.
func (g *machineGround) made() *ec2types.Instance {
	g.t.Helper()
	g.observe()
	if waiting, err := g.pass(); err != nil || waiting != "" {
		g.t.Fatalf("waiting for %q, %v", waiting, err)
	}
	return g.instance()
}

func (g *machineGround) instance() *ec2types.Instance {
	g.t.Helper()
	out, err := g.ec2.DescribeInstances(g.t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{deref(g.m.Spec.InstanceID)}})
	if err != nil {
		g.t.Fatal(err)
	}
	return &out.Reservations[0].Instances[0]
}

// all gives the ids of all instances, whatever their state.
func (g *machineGround) all() (out []string) {
	g.t.Helper()
	page, err := g.ec2.DescribeInstances(g.t.Context(), &ec2.DescribeInstancesInput{})
	if err != nil {
		g.t.Fatal(err)
	}
	for _, r := range page.Reservations {
		for _, i := range r.Instances {
			out = append(out, aws.ToString(i.InstanceId))
		}
	}
	return out
}

// booted is what the instance was given to boot with.
func (g *machineGround) booted() string {
	g.t.Helper()
	out, err := g.ec2.DescribeInstanceAttribute(g.t.Context(), &ec2.DescribeInstanceAttributeInput{
		InstanceId: g.m.Spec.InstanceID, Attribute: ec2types.InstanceAttributeNameUserData,
	})
	if err != nil || out.UserData == nil {
		g.t.Fatalf("user data: %v", err)
	}
	data, err := base64.StdEncoding.DecodeString(aws.ToString(out.UserData.Value))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(data)
}

// unmake deletes the machine's resources as the engine does.
func (g *machineGround) unmake() (rest []providers.Resource, failed error) {
	g.t.Helper()
	if g.m.DeletionTimestamp == nil {
		g.m.DeletionTimestamp = ptr(metav1.Now())
	}
	g.observe()
	owner := g.owner()
	doomed, err := g.p.Doomed(owner, g.snap)
	if err != nil {
		return nil, err
	}
	progress := providers.Progress{Deleting: true}
	for i := range doomed {
		if doomed[i].Unsettled {
			continue
		}
		if err := g.p.Delete(g.t.Context(), g.scope, providers.Deletion{Owner: owner, Have: &doomed[i]}); err != nil {
			progress.Failed, progress.At = err, doomed[i].ID
			failed = err
		}
	}
	g.observe()
	g.p.Note(owner, g.snap, progress)
	rest, err = g.p.Doomed(owner, g.snap)
	if err != nil {
		g.t.Fatal(err)
	}
	return rest, failed
}

func conditionOf(m *infrav1.AWSMachine, kind string) string {
	for _, c := range m.Status.Conditions {
		if string(c.Type) == kind {
			return strings.TrimSpace(string(c.Status) + " " + c.Reason)
		}
	}
	return ""
}

func messageOf(m *infrav1.AWSMachine, kind string) string {
	for _, c := range m.Status.Conditions {
		if string(c.Type) == kind {
			return c.Message
		}
	}
	return ""
}

func reasonOf(err error) string {
	if refusal := (*providers.ApplyError)(nil); errors.As(err, &refusal) {
		return refusal.Reason
	}
	return ""
}

var errThrottled = errors.New("throttled")
