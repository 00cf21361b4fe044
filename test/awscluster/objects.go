package awscluster

import (
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var controlPlaneAPIVersion = controlplanev1.GroupVersion.String()

// add keeps a Machine and makes its AWSMachine and KubeadmConfig from the
// templates, as CAPI clones them.
func (b *builder) add(m *clusterv1.Machine, template *infrav1.AWSMachineTemplate) {
	owner := b.ownedBy(m, clusterv1.GroupVersion.String(), "Machine")
	am := &infrav1.AWSMachine{Spec: *template.Spec.Template.Spec.DeepCopy()}
	am.Name, am.Labels = m.Name, maps.Clone(m.Labels)
	am.Finalizers = []string{infrav1.MachineFinalizer}
	am.Annotations = map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation:      template.Name,
		clusterv1.TemplateClonedFromGroupKindAnnotation: "AWSMachineTemplate." + infrav1.GroupVersion.Group,
	}
	if !am.Spec.CloudInit.InsecureSkipSecretsManager && am.Spec.Ignition == nil {
		am.Spec.CloudInit.SecureSecretsBackend = infrav1.SecretBackendSecretsManager
	}
	b.meta(am, infrav1.GroupVersion.String(), "AWSMachine", owner)

	config := &bootstrapv1.KubeadmConfig{}
	config.Name, config.Labels = m.Name, maps.Clone(m.Labels)
	config.Status.DataSecretName = m.Name
	config.Status.Initialization.DataSecretCreated = aws.Bool(true)
	b.meta(config, bootstrapv1.GroupVersion.String(), "KubeadmConfig", owner)

	b.env.Machines = append(b.env.Machines, m)
	b.env.AWSMachines = append(b.env.AWSMachines, am)
	b.env.Configs = append(b.env.Configs, config)
}

// finish completes the objects that the user applied: what controllers and the
// API server have added since.
func (b *builder) finish() {
	e := b.env
	core, infra := clusterv1.GroupVersion.String(), infrav1.GroupVersion.String()
	cluster := b.ownedBy(e.Cluster, core, "Cluster")
	plain := cluster
	plain.Controller, plain.BlockOwnerDeletion = nil, nil

	b.meta(e.Cluster, core, "Cluster", metav1.OwnerReference{})
	e.Cluster.Finalizers = []string{clusterv1.ClusterFinalizer}
	e.Cluster.Status.Phase = string(clusterv1.ClusterPhaseProvisioned)
	e.Cluster.Status.Initialization.InfrastructureProvisioned = aws.Bool(true)
	e.Cluster.Status.Initialization.ControlPlaneInitialized = aws.Bool(true)
	e.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{
		Host: e.AWSCluster.Spec.ControlPlaneEndpoint.Host, Port: e.AWSCluster.Spec.ControlPlaneEndpoint.Port,
	}

	b.label(e.AWSCluster)
	e.AWSCluster.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: b.applied}
	b.meta(e.AWSCluster, infra, "AWSCluster", cluster)
	e.AWSCluster.Finalizers = []string{infrav1.ClusterFinalizer}
	b.awsClusterStatus()
	b.identity()

	b.label(e.ControlPlane)
	b.meta(e.ControlPlane, controlPlaneAPIVersion, "KubeadmControlPlane", cluster)
	n := e.ControlPlane.Spec.Replicas
	e.ControlPlane.Status.Replicas, e.ControlPlane.Status.ReadyReplicas = n, n
	e.ControlPlane.Status.AvailableReplicas, e.ControlPlane.Status.UpToDateReplicas = n, n
	e.ControlPlane.Status.Version = e.ControlPlane.Spec.Version
	e.ControlPlane.Status.Initialization.ControlPlaneInitialized = aws.Bool(true)
	for _, d := range e.Deployments {
		b.label(d)
		b.meta(d, core, "MachineDeployment", plain)
		labels := map[string]string{clusterv1.ClusterNameLabel: b.name, clusterv1.MachineDeploymentNameLabel: d.Name}
		d.Spec.Selector.MatchLabels = labels
		d.Spec.Template.Labels = labels
		d.Status.Phase = string(clusterv1.MachineDeploymentPhaseRunning)
		d.Status.Replicas, d.Status.ReadyReplicas = d.Spec.Replicas, d.Spec.Replicas
		d.Status.AvailableReplicas, d.Status.UpToDateReplicas = d.Spec.Replicas, d.Spec.Replicas
	}
	e.ControlPlane.Status.ObservedGeneration = e.ControlPlane.Generation
	for _, d := range e.Deployments {
		d.Status.ObservedGeneration = d.Generation
	}
	for _, m := range e.Machines {
		for _, kind := range []string{clusterv1.MachineReadyCondition, clusterv1.MachineUpToDateCondition} {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: metav1.NewTime(b.created),
			})
		}
	}
	for _, s := range e.Sets {
		s.Status.Replicas, s.Status.ReadyReplicas = s.Spec.Replicas, s.Spec.Replicas
		s.Status.AvailableReplicas, s.Status.UpToDateReplicas = s.Spec.Replicas, s.Spec.Replicas
	}
	for _, t := range e.MachineTemplates {
		b.label(t)
		b.meta(t, infra, "AWSMachineTemplate", plain)
	}
	for _, t := range e.ConfigTemplates {
		b.label(t)
		b.meta(t, bootstrapv1.GroupVersion.String(), "KubeadmConfigTemplate", plain)
	}
}

// identity makes the object that CAPA makes on its start: every namespace may
// use the controller's own credentials.
func (b *builder) identity() {
	i := &infrav1.AWSClusterControllerIdentity{}
	i.Name = infrav1.AWSClusterControllerIdentityName
	i.Spec.AllowedNamespaces = &infrav1.AllowedNamespaces{}
	b.meta(i, infrav1.GroupVersion.String(), "AWSClusterControllerIdentity", metav1.OwnerReference{})
	i.Namespace = ""
	b.env.Identity = i
}

func (b *builder) awsClusterStatus() {
	c := b.env.AWSCluster
	c.Status.Ready = true
	c.Status.FailureDomains = clusterv1beta1.FailureDomains{}
	for _, sn := range c.Spec.NetworkSpec.Subnets.FilterPrivate() {
		c.Status.FailureDomains[sn.AvailabilityZone] = clusterv1beta1.FailureDomainSpec{ControlPlane: true}
	}
	for _, t := range []clusterv1beta1.ConditionType{
		clusterv1beta1.ReadyCondition, infrav1.VpcReadyCondition, infrav1.SubnetsReadyCondition,
		infrav1.InternetGatewayReadyCondition, infrav1.NatGatewaysReadyCondition, infrav1.RouteTablesReadyCondition,
		infrav1.ClusterSecurityGroupsReadyCondition, infrav1.LoadBalancerReadyCondition,
	} {
		c.Status.Conditions = append(c.Status.Conditions, clusterv1beta1.Condition{
			Type: t, Status: "True", LastTransitionTime: metav1.NewTime(b.created),
		})
	}
}

// meta fills in what the API server and owners give an object.
func (b *builder) meta(o client.Object, apiVersion, kind string, owner metav1.OwnerReference) {
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	o.SetNamespace(b.env.Cluster.Namespace)
	o.SetUID(b.uid(kind, o.GetName()))
	o.SetCreationTimestamp(metav1.NewTime(b.created))
	o.SetGeneration(1)
	if owner.Name != "" {
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
	}
}

func (b *builder) label(o client.Object) {
	labels := maps.Clone(o.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.ClusterNameLabel] = b.name
	o.SetLabels(labels)
}

// ownedBy gives a controller reference to an object, whose UID follows from its
// kind and name.
func (b *builder) ownedBy(o client.Object, apiVersion, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: o.GetName(), UID: b.uid(kind, o.GetName()),
		Controller: aws.Bool(true), BlockOwnerDeletion: aws.Bool(true),
	}
}

// Objects gives every object of the cluster, in a fixed order: what a backup of
// the cluster's namespace holds, without Secrets.
func (e *Environment) Objects() []client.Object {
	out := []client.Object{e.Cluster, e.AWSCluster, e.ControlPlane}
	out = appendObjects(out, e.Deployments)
	out = appendObjects(out, e.Sets)
	out = appendObjects(out, e.Machines)
	out = appendObjects(out, e.AWSMachines)
	out = appendObjects(out, e.Configs)
	out = appendObjects(out, e.MachineTemplates)
	out = appendObjects(out, e.ConfigTemplates)
	return append(out, e.Identity)
}

func appendObjects[T client.Object](out []client.Object, objects []T) []client.Object {
	for _, o := range objects {
		out = append(out, o)
	}
	return out
}
