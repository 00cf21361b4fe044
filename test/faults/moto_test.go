package faults

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/capi"
	"github.com/holdfast-io/holdfast/test/controlplane"
	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/moto"
	"github.com/holdfast-io/holdfast/test/running"
)

// onMoto is a cluster on moto, whose objects stand in an API server where
// nobody reconciles them.
func onMoto(t *testing.T) (*moto.Server, *awscluster.Environment, *rest.Config, client.Client) {
	t.Helper()
	server, err := moto.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	m, err := awscluster.Load(awsexamples.Files, awscluster.DefaultExample)
	if err != nil {
		t.Fatal(err)
	}
	env, err := awscluster.Build(t.Context(), awscluster.NewClients(server.URL, m.AWSCluster.Spec.Region), awscluster.Options{
		Manifest: m, Workers: map[string]int32{m.Deployments[0].Name: 2}, Image: moto.Image, OnMoto: true, Poll: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	crds, err := controlplane.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	control, err := controlplane.Launch(controlplane.Options{CRDs: crds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := control.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(control.Config, client.Options{Scheme: motoScheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Install(t.Context(), c, env.Objects()); err != nil {
		t.Fatal(err)
	}
	return server, env, control.Config, c
}

func motoScheme() *runtime.Scheme {
	return capi.Scheme(clientgoscheme.AddToScheme, v1alpha1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme,
		controlplanev1.AddToScheme, controlplanev1beta1.AddToScheme, bootstrapv1.AddToScheme, bootstrapv1beta1.AddToScheme)
}

// TestFaultMatrixOnMoto: what goes wrong on the way to an EC2 that was written
// by others: slow, narrow, reset and away.
func TestFaultMatrixOnMoto(t *testing.T) {
	ctx := t.Context()
	server, env, cfg, c := onMoto(t)
	f := newFront(t, cfg)
	f.throughAWS(server.URL)
	on := &field{
		place: place{client: c, namespace: env.Cluster.Namespace, cluster: env.Cluster.Name}, front: f,
		victim: func() *clusterv1.Machine {
			m := &clusterv1.Machine{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(env.Machines[len(env.Machines)-1]), m); err != nil {
				t.Fatal(err)
			}
			return m
		},
		reset: func() { f.taken() },
		drift: func(m *clusterv1.Machine) {
			if _, err := env.EC2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{management.Instance(m)}, Tags: []types.Tag{{Key: aws.String("Pool")}}}); err != nil {
				t.Fatal(err)
			}
		},
		once: func(t *testing.T) { onceMoto(t, f) },
	}
	launch(t, on.namespace, motoEnviron(server, env.AWSCluster.Spec.Region), f, patchPath.policy, "--leader-elect=false", "--nodes=false") // there is no workload cluster to read
	on.eventually(t, "swept", func() error { return on.inSync(ctx, t) })
	for _, row := range []fault{
		{name: "moto is slow", long: true, begin: toxic(theAWS, "latency", `{"latency":400,"jitter":200}`), lasts: aWhile},
		{name: "moto is narrow", long: true, begin: toxic(theAWS, "bandwidth", `{"rate":8}`), lasts: aWhile},
		{name: "moto resets connections", long: true, begin: toxic(theAWS, "reset_peer", `{"timeout":0}`), lasts: aWhile},
		{name: "moto resets after success", begin: resetting, lasts: aWhile},
		{name: "moto trickles", long: true, begin: toxic(theAWS, "slicer", `{"average_size":200,"size_variation":100,"delay":2000}`), lasts: aWhile},
		{name: "moto is away", begin: away(theAWS), lasts: aWhile},
	} {
		t.Run(row.name, func(t *testing.T) { on.run(ctx, t, row) })
	}
}

func motoEnviron(server *moto.Server, region string) []string {
	vars := server.Environment()
	vars["AWS_REGION"] = region
	out := os.Environ()
	for key, value := range vars {
		out = append(out, key+"="+value)
	}
	return out
}

// resetting resets the connection on which the first change was made, once moto
// has answered, and all others, for a while.
func resetting(t *testing.T, on *field) func() {
	t.Helper()
	var end atomic.Pointer[func()]
	on.front.watch(func(w write) {
		if w.cloud && end.Load() == nil {
			remove := toxic(theAWS, "reset_peer", `{"timeout":0}`)(t, on)
			end.Store(&remove)
		}
	}, nil)
	return func() {
		on.front.watch(nil, nil)
		if remove := end.Load(); remove != nil {
			(*remove)()
		} else {
			t.Error("nothing was changed, so nothing was reset after it")
		}
	}
}

// onceMoto sees that all that was asked of moto is one change, sent again where
// its answer was lost.
func onceMoto(t *testing.T, f *front) {
	t.Helper()
	n := 0
	for _, w := range f.taken() {
		switch {
		case !w.cloud:
		case w.what != "CreateTags":
			t.Errorf("the daemon called %s", w.what)
		default:
			n++
		}
	}
	// The SDK sends a lost call twice again, and the change is handed to it once more
	// where all three were lost.
	if n == 0 || n > 6 {
		t.Errorf("%d calls for one act", n)
	}
}
