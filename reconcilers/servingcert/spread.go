package servingcert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// spread has the CA be believed wherever something points at the Service, and
// gives the number of places where it was not.
func (k *Keeper) spread(ctx context.Context, ca []byte) (missed int, err error) {
	if len(ca) == 0 {
		return 0, nil
	}
	var errs []error
	for _, name := range k.Configurations {
		for _, o := range []client.Object{&admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}} {
			changed, err := k.put(ctx, name, o, ca)
			errs = append(errs, err)
			missed += changed
		}
	}
	changed, err := k.define(ctx, ca)
	return missed + changed, errors.Join(append(errs, err)...)
}

// define looks at those CRDs that have changed. They are large: of the others the
// metadata alone is read.
func (k *Keeper) define(ctx context.Context, ca []byte) (missed int, err error) {
	if len(k.Definitions) == 0 {
		return 0, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	// From the API server's memory: what it has not heard of yet is seen next time.
	if err := k.Client.List(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
		return 0, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	if !bytes.Equal(ca, k.lookedFor) {
		k.looked, k.lookedFor = map[string]string{}, ca
	}
	var errs []error
	for i := range list.Items {
		name, version := list.Items[i].Name, list.Items[i].ResourceVersion
		if !slices.Contains(k.Definitions, name) || k.looked[name] == version {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		changed, err := k.put(ctx, name, crd, ca)
		if errs = append(errs, err); err == nil {
			k.looked[name] = crd.ResourceVersion
		}
		missed += changed
	}
	return missed, errors.Join(errs...)
}

// put writes the CA into an object, in each place that points at the Service, and
// gives the number of those where it was not. What is not there needs none.
func (k *Keeper) put(ctx context.Context, name string, o client.Object, ca []byte) (missed int, err error) {
	if err := k.Client.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	base := o.DeepCopyObject().(client.Object)
	// Whoever has written in the meantime may have pointed it elsewhere.
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	switch o := o.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		patch = client.StrategicMergeFrom(base, client.MergeFromWithOptimisticLock{})
		for i := range o.Webhooks {
			missed += k.admission(&o.Webhooks[i].ClientConfig, ca)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		patch = client.StrategicMergeFrom(base, client.MergeFromWithOptimisticLock{})
		for i := range o.Webhooks {
			missed += k.admission(&o.Webhooks[i].ClientConfig, ca)
		}
	case *apiextensionsv1.CustomResourceDefinition:
		missed = k.conversion(o.Spec.Conversion, ca)
	}
	if missed == 0 {
		return 0, nil
	}
	if err := k.Client.Patch(ctx, o, patch); err != nil {
		return missed, fmt.Errorf("write the CA into %T %s: %w", o, name, err)
	}
	return missed, nil
}

func (k *Keeper) admission(c *admissionv1.WebhookClientConfig, ca []byte) int {
	if s := c.Service; s == nil || s.Namespace != k.Service.Namespace || s.Name != k.Service.Name || bytes.Equal(c.CABundle, ca) {
		return 0
	}
	c.CABundle = ca
	return 1
}

func (k *Keeper) conversion(c *apiextensionsv1.CustomResourceConversion, ca []byte) int {
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil {
		return 0
	}
	to := c.Webhook.ClientConfig
	if s := to.Service; s == nil || s.Namespace != k.Service.Namespace || s.Name != k.Service.Name || bytes.Equal(to.CABundle, ca) {
		return 0
	}
	to.CABundle = ca
	return 1
}
