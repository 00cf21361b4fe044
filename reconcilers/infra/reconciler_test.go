package infra_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

var (
	vpc    = providers.Provisional(providers.KindVPC, "net")
	subnet = providers.Provisional(providers.KindSubnet, "a")
	table  = providers.Provisional(providers.KindRouteTable, "t")
	node   = providers.Provisional(providers.KindInstance, "i")
)

// network is a VPC that is to be set up before others are made in it, and two
// that need it.
func network() []providers.Resource {
	net := providers.Resource{ID: vpc, Name: "net"}
	net.Set("/cidr", providers.Field{Value: providers.String("10.0.0.0/16"), Mutability: providers.Immutable})
	net.Set(fake.Later+"/dns", providers.Field{Value: providers.Bool(true), Mutability: providers.InPlace})
	a := providers.Resource{ID: subnet, Name: "a", Needs: []providers.ID{vpc}}
	a.Set("/vpc", providers.Field{Value: providers.String(vpc.Name), Mutability: providers.Immutable})
	a.Set(fake.Later+"/table", providers.Field{Value: providers.String(table.Name), Mutability: providers.InPlace})
	t := providers.Resource{ID: table, Name: "t", Needs: []providers.ID{vpc}}
	return []providers.Resource{a, t, net}
}

// TestBuild: what is wanted is made in the order in which it is needed, set up,
// recorded, and told; then nothing is written any more.
func TestBuild(t *testing.T) {
	w := begin(t)
	w.Want(w.ref("AWSCluster", "eu"), network()...)
	_, infra := w.cluster("eu")
	w.eventually("made", func() error {
		if n := len(w.done(fake.OpCreate)); n != 3 {
			return fmt.Errorf("%d things are", n)
		}
		return nil
	})
	w.eventually("set up", func() error {
		if n := len(w.done(fake.OpApply)); n != 2 {
			return fmt.Errorf("%d things are", n)
		}
		return nil
	})
	w.says(infra, fake.WaitingFor, "")
	w.want(w.done(fake.OpCreate)[:1], []string{"VPC"})
	w.want(w.done(fake.OpApply), []string{"VPC", "Subnet"})
	if !controllerutil.ContainsFinalizer(infra, clusterFinalizer) {
		t.Errorf("its finalizers are %v", infra.Finalizers)
	}
	w.eventually("told", func() error {
		select {
		case e := <-w.events.Events:
			if strings.Contains(e, "CreatedVPC") {
				return nil
			}
			return fmt.Errorf("it is told %q first", e)
		default:
			return errors.New("nothing is")
		}
	})

	t.Log("at rest nothing is written")
	mutations := w.Mutations()
	w.edit(infra, false, func() { infra.Labels = map[string]string{"touched": "yes"} })
	version := infra.ResourceVersion
	time.Sleep(time.Second)
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil {
		t.Fatal(err)
	}
	if w.Mutations() != mutations || infra.ResourceVersion != version {
		t.Errorf("the cloud was changed %d times, and the object is %s after %s", w.Mutations()-mutations, infra.ResourceVersion, version)
	}
}

// TestLostAnswers: what was made although its answer was lost is not made again,
// nor by a process that starts anew.
func TestLostAnswers(t *testing.T) {
	w := begin(t)
	w.Want(w.ref("AWSCluster", "eu"), network()...)
	w.LoseAnswers(true)
	_, infra := w.cluster("eu")
	w.says(infra, fake.FailedBy, "the answer was lost")
	w.stop()
	w.start()
	w.eventually("tried again", func() error {
		if n := len(w.done(fake.OpCreate)); n < 3 {
			return fmt.Errorf("it was tried %d times", n)
		}
		return nil
	})
	w.LoseAnswers(false)
	w.says(infra, fake.FailedBy, "")
	w.says(infra, fake.WaitingFor, "")
	if n := w.things(); n != 3 {
		t.Errorf("there are %d things, want 3", n)
	}
	told := 0
	for len(w.events.Events) > 0 {
		if e := <-w.events.Events; strings.Contains(e, "Warning") && strings.Contains(e, "lost") {
			told++
		}
	}
	if told < 1 || told > 4 { // once a process for what was tried first, and for what came after it
		t.Errorf("a failure that goes on is told %d times", told)
	}
}

// things counts what is there.
func (w *world) things() int {
	snap, err := w.Observe(w.t.Context(), providers.Scope{Provider: fake.Name, Account: "1", Region: "r"})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(snap.Resources)
}

// TestReadyIsPolicy: a difference on what has been ready is not put back here,
// and what is asked for in addition is made.
func TestReadyIsPolicy(t *testing.T) {
	w := begin(t)
	w.Want(w.ref("AWSCluster", "eu"), network()...)
	cluster, infra := w.cluster("eu")
	w.eventually("made", func() error {
		if n := len(w.done(fake.OpApply)); n != 2 {
			return fmt.Errorf("%d things are set up", n)
		}
		return nil
	})
	w.says(infra, fake.WaitingFor, "")
	w.edit(cluster, true, func() { cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true) })
	for _, c := range w.Calls() {
		if c.Op == fake.OpApply && c.IDs[0].Kind == providers.KindVPC {
			w.Alter(c.IDs[0], func(r *providers.Resource) {
				r.Set(fake.Later+"/dns", providers.Field{Value: providers.Bool(false)})
			})
		}
	}
	more := providers.Resource{ID: providers.Provisional(providers.KindSubnet, "b"), Name: "b", Needs: []providers.ID{vpc}}
	more.Set(fake.Later+"/x", providers.Field{Value: providers.Int(1), Mutability: providers.InPlace})
	w.Want(w.ref("AWSCluster", "eu"), append(network(), more)...)
	w.edit(infra, false, func() { infra.Labels = map[string]string{"more": "subnets"} })
	w.eventually("extended", func() error {
		if n := len(w.done(fake.OpApply)); n != 3 {
			return fmt.Errorf("%d things were set up", n)
		}
		return nil
	})
	w.want(w.done(fake.OpApply), []string{"VPC", "Subnet", "Subnet"})
}

// TestMachineWaits: a machine is made when its cluster is there and it has what it
// boots with, and never for one that is paused or somebody else's.
func TestMachineWaits(t *testing.T) {
	w := begin(t)
	w.Want(w.ref("AWSMachine", "m"), providers.Resource{ID: node, Name: "m"})
	cluster, _ := w.cluster("eu")
	m, infra := w.machine(cluster, "m")
	w.says(infra, fake.WaitingFor, providers.WaitingForClusterInfrastructure)
	w.edit(cluster, true, func() { cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true) })
	w.says(infra, fake.WaitingFor, providers.WaitingForBootstrapData)
	if n := w.done(fake.OpCreate); len(n) > 0 {
		t.Fatalf("%q were made", n)
	}
	w.edit(cluster, false, func() { cluster.Spec.Paused = ptr.To(true) })
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "boot"}, Data: map[string][]byte{"value": []byte("#cloud-config")}})
	w.edit(m, false, func() { m.Spec.Bootstrap.DataSecretName = ptr.To("boot") })
	time.Sleep(time.Second)
	if n := w.done(fake.OpCreate); len(n) > 0 {
		t.Fatalf("%q were made although the cluster is paused", n)
	}
	w.edit(cluster, false, func() { cluster.Spec.Paused = nil })
	w.says(infra, fake.WaitingFor, "")
	w.want(w.done(fake.OpCreate), []string{"Instance"})
}

// TestUnmake: machines go before their network, what others need after them, and
// the object last; whatever went first, and by a process that starts in between.
func TestUnmake(t *testing.T) {
	w := begin(t)
	w.Want(w.ref("AWSCluster", "eu"), network()...)
	w.Want(w.ref("AWSMachine", "m"), providers.Resource{ID: node, Name: "m"})
	cluster, infra := w.cluster("eu")
	w.edit(cluster, true, func() { cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true) })
	m, im := w.machine(cluster, "m")
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "boot"}, Data: map[string][]byte{"value": []byte("x")}})
	w.edit(m, false, func() { m.Spec.Bootstrap.DataSecretName = ptr.To("boot") })
	w.eventually("made", func() error {
		if n := len(w.done(fake.OpCreate)); n != 4 {
			return fmt.Errorf("%d things are", n)
		}
		return nil
	})
	w.says(im, fake.WaitingFor, "")
	if err := w.client.Delete(t.Context(), infra); err != nil {
		t.Fatal(err)
	}
	w.says(infra, fake.FailedBy, "1 machines of the cluster are still there")
	w.want(w.done(fake.OpDelete), nil)

	t.Log("without its Machine and its Cluster")
	for _, o := range []client.Object{m, cluster} {
		if err := w.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		w.gone(o)
	}
	w.LoseAnswers(true)
	if err := w.client.Delete(t.Context(), im); err != nil {
		t.Fatal(err)
	}
	w.eventually("deleted", func() error {
		if n := len(w.done(fake.OpDelete)); n < 1 {
			return errors.New("nothing is")
		}
		return nil
	})
	w.stop()
	w.LoseAnswers(false)
	w.start()
	w.gone(im)
	w.gone(infra)
	if n := w.things(); n != 0 {
		t.Errorf("%d things are left", n)
	}
	deleted := w.done(fake.OpDelete)
	if deleted[0] != "Instance" || deleted[len(deleted)-1] != "VPC" {
		t.Errorf("it was deleted in the order %q", deleted)
	}
}

// TestUnknownIsNotGone: an owner does not go while it cannot be told what is left
// of it.
func TestUnknownIsNotGone(t *testing.T) {
	w := begin(t)
	w.Want(w.ref("AWSCluster", "eu"), network()...)
	_, infra := w.cluster("eu")
	w.eventually("made", func() error {
		if n := len(w.done(fake.OpCreate)); n != 3 {
			return fmt.Errorf("%d things are", n)
		}
		return nil
	})
	w.Cover(providers.KindSubnet, errors.New("throttled"))
	if err := w.client.Delete(t.Context(), infra); err != nil {
		t.Fatal(err)
	}
	w.says(infra, fake.FailedBy, "cannot be told")
	w.want(w.done(fake.OpDelete), nil)
	time.Sleep(2 * time.Second) // a read with gaps by now began after the deletion, and will not do for ever
	w.Cover(providers.KindSubnet, nil)
	w.gone(infra)
	if n := w.things(); n != 0 {
		t.Errorf("%d things are left", n)
	}
}
