package awscluster

import (
	"maps"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/capi"
)

var controlPlaneAPIVersion = controlplanev1.GroupVersion.String()

// add keeps a Machine and makes its AWSMachine and KubeadmConfig from the
// templates, as CAPI clones them.
func (b *builder) add(m *clusterv1.Machine, template *infrav1.AWSMachineTemplate) {
	owner := b.ControlledBy(m, capi.CoreAPIVersion, "Machine")
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
	b.Meta(am, infrav1.GroupVersion.String(), "AWSMachine", owner)

	config := &bootstrapv1.KubeadmConfig{}
	config.Name, config.Labels = m.Name, maps.Clone(m.Labels)
	config.Status.DataSecretName = m.Name
	config.Status.Initialization.DataSecretCreated = aws.Bool(true)
	b.Meta(config, bootstrapv1.GroupVersion.String(), "KubeadmConfig", owner)

	b.env.Machines = append(b.env.Machines, m)
	b.env.AWSMachines = append(b.env.AWSMachines, am)
	b.env.Configs = append(b.env.Configs, config)
}

// finish completes the objects that the user applied: what controllers and the
// API server have added since.
func (b *builder) finish() {
	e := b.env
	infra := infrav1.GroupVersion.String()
	cluster, plain := b.ControlledBy(e.Cluster, capi.CoreAPIVersion, "Cluster"), b.OwnedBy(e.Cluster, capi.CoreAPIVersion, "Cluster")
	endpoint := e.AWSCluster.Spec.ControlPlaneEndpoint
	b.FinishCluster(e.Cluster, endpoint.Host, endpoint.Port)

	b.Label(e.AWSCluster)
	e.AWSCluster.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: b.applied}
	b.Meta(e.AWSCluster, infra, "AWSCluster", cluster)
	e.AWSCluster.Finalizers = []string{infrav1.ClusterFinalizer}
	b.awsClusterStatus()
	b.identity()

	b.Label(e.ControlPlane)
	b.Meta(e.ControlPlane, controlPlaneAPIVersion, "KubeadmControlPlane", cluster)
	n := e.ControlPlane.Spec.Replicas
	e.ControlPlane.Status.Replicas, e.ControlPlane.Status.ReadyReplicas = n, n
	e.ControlPlane.Status.AvailableReplicas, e.ControlPlane.Status.UpToDateReplicas = n, n
	e.ControlPlane.Status.Versions = []clusterv1.StatusVersion{{Version: e.ControlPlane.Spec.Version, Replicas: aws.ToInt32(n)}}
	e.ControlPlane.Status.Initialization.ControlPlaneInitialized = aws.Bool(true)
	e.ControlPlane.Status.ObservedGeneration = e.ControlPlane.Generation
	for _, d := range e.Deployments {
		b.FinishDeployment(d, plain)
	}
	for _, s := range e.Sets {
		b.FinishSet(s)
	}
	for _, m := range e.Machines {
		b.FinishMachine(m)
	}
	for _, t := range e.MachineTemplates {
		b.Label(t)
		b.Meta(t, infra, "AWSMachineTemplate", plain)
	}
	for _, t := range e.ConfigTemplates {
		b.Label(t)
		b.Meta(t, bootstrapv1.GroupVersion.String(), "KubeadmConfigTemplate", plain)
	}
}

// identity makes the object that CAPA makes on its start: every namespace may
// use the controller's own credentials.
func (b *builder) identity() {
	i := &infrav1.AWSClusterControllerIdentity{}
	i.Name = infrav1.AWSClusterControllerIdentityName
	i.Spec.AllowedNamespaces = &infrav1.AllowedNamespaces{}
	b.Meta(i, infrav1.GroupVersion.String(), "AWSClusterControllerIdentity", metav1.OwnerReference{})
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
			Type: t, Status: "True", LastTransitionTime: metav1.NewTime(b.Created),
		})
	}
}

// Write puts the objects into a folder as [capi.Write] does.
func (e *Environment) Write(dir string) error { return capi.Write(dir, e.Objects()) }

// Objects gives every object of the cluster, in a fixed order: what a backup of
// the cluster's namespace holds, without Secrets.
func (e *Environment) Objects() []client.Object {
	out := []client.Object{e.Cluster, e.AWSCluster, e.ControlPlane}
	out = capi.Append(out, e.Deployments)
	out = capi.Append(out, e.Sets)
	out = capi.Append(out, e.Machines)
	out = capi.Append(out, e.AWSMachines)
	out = capi.Append(out, e.Configs)
	out = capi.Append(out, e.MachineTemplates)
	out = capi.Append(out, e.ConfigTemplates)
	return append(out, e.Identity)
}
