package infra_test

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-io/holdfast/providers/fake"
)

// TestHeld: what an owner needs to be unmade stays until it is, though its user has
// deleted all at once.
func TestHeld(t *testing.T) {
	w := begin(t)
	w.Want(w.ref("AWSCluster", "eu"), network()...)
	secret := credentials(w.ns, "eu")
	w.create(secret)
	c, infra := w.cluster("eu")
	w.eventually("held", func() error {
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if !controllerutil.ContainsFinalizer(secret, holdFinalizer) || len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != infra.UID {
			return errors.New("it is not")
		}
		return nil
	})

	_, node := w.machine(c, "n") // which the cluster waits for
	for _, o := range []client.Object{secret, infra} {
		if err := w.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.says(infra, fake.FailedBy, "machines of the cluster are still there")
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Errorf("while there is something to unmake: %v", err)
	}
	if err := w.client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.gone(infra)
	w.gone(secret)
}

// TestNotHeld: an object of another owner's is left alone, and is not waited for.
func TestNotHeld(t *testing.T) {
	w := begin(t)
	w.Want(w.ref("AWSCluster", "eu"), network()...)
	secret := credentials(w.ns, "eu")
	secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: awsv1.GroupVersion.String(), Kind: "AWSCluster", Name: "us", UID: "another"}}
	w.create(secret)
	_, infra := w.cluster("eu")
	w.eventually("made", func() error {
		if n := len(w.done(fake.OpCreate)); n != 3 {
			return fmt.Errorf("%d things are", n)
		}
		return nil
	})
	if err := w.client.Delete(t.Context(), infra); err != nil {
		t.Fatal(err)
	}
	w.gone(infra)
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil || len(secret.Finalizers) > 0 || len(secret.OwnerReferences) != 1 {
		t.Errorf("it is %v, %v", secret, err)
	}
}
