package management

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-io/holdfast/test/awscluster"
)

// awsCase is one AWSMachine with what it takes to reconcile it.
type awsCase struct {
	cloud   *AWSCloud
	fleet   *fleet
	player  *awscluster.Player
	cluster *clusterv1.Cluster
	infra   *awsv1.AWSCluster
	machine *clusterv1.Machine
	// after is what the AWSMachine becomes.
	after *awsv1.AWSMachine
}

func (p *awsProvider) reconcileMachine(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	am := &awsv1.AWSMachine{}
	return p.plane.reconcileMachine(ctx, req, am, awsv1.MachineFinalizer,
		func(ctx context.Context, g *Ground, cluster *clusterv1.Cluster, machine *clusterv1.Machine) (machineCase, error) {
			infra := &awsv1.AWSCluster{}
			key := client.ObjectKey{Namespace: am.Namespace, Name: cluster.Spec.InfrastructureRef.Name}
			if err := p.plane.manager.GetClient().Get(ctx, key, infra); err != nil {
				return nil, err
			}
			k := &awsCase{
				cloud: g.AWS(), cluster: cluster, infra: infra, machine: machine, after: am.DeepCopy(),
				player: p.player(infra), fleet: p.plane.fleet(client.ObjectKeyFromObject(cluster)),
			}
			if k.player == nil || k.fleet == nil {
				return nil, nil
			}
			return k, nil
		})
}

func (k *awsCase) result() client.Object { return k.after }

// provision brings an AWSMachine to an instance that runs.
func (k *awsCase) provision(ctx context.Context) (again time.Duration, err error) {
	am := k.after
	switch {
	case am.Status.InstanceState != nil:
		return k.notice(ctx)
	case !ptr.Deref(k.cluster.Status.Initialization.InfrastructureProvisioned, false):
		k.condition(metav1.ConditionFalse, awsv1.WaitingForClusterInfrastructureReason)
		return 0, nil
	case k.machine.Spec.Bootstrap.DataSecretName == nil:
		k.condition(metav1.ConditionFalse, awsv1.WaitingForBootstrapDataReason)
		return 0, nil
	case controllerutil.AddFinalizer(am, awsv1.MachineFinalizer):
		return time.Millisecond, nil
	case am.Spec.InstanceID == nil:
		i, err := k.player.Launch(ctx, k.infra, k.machine, am, string(am.UID))
		if err != nil {
			return 0, err
		}
		am.Spec.InstanceID = i.InstanceId
		k.condition(metav1.ConditionFalse, awsv1.InstanceNotReadyReason)
		return time.Millisecond, nil
	}
	i, err := k.player.Instance(ctx, *am.Spec.InstanceID)
	if err != nil {
		return 0, err
	}
	if i == nil || i.State == nil || i.State.Name != types.InstanceStateNameRunning || i.PrivateDnsName == nil {
		return soon, nil
	}
	k.player.Record(k.infra, am, i)
	am.Status.Addresses = awsAddresses(i)
	k.condition(metav1.ConditionTrue, "")
	if util.IsControlPlaneMachine(k.machine) {
		if err := k.player.Register(ctx, k.infra, *am.Spec.InstanceID); err != nil {
			return 0, err
		}
	}
	k.fleet.add(awsHost(k.machine, i))
	return k.cloud.Notice, nil
}

// notice is what CAPA does at a resync, of which nothing but the look at the
// state is played.
func (k *awsCase) notice(ctx context.Context) (again time.Duration, err error) {
	if k.cloud.Notice <= 0 {
		return 0, nil
	}
	i, err := k.player.Instance(ctx, *k.after.Spec.InstanceID)
	if err != nil {
		return 0, err
	}
	if i == nil {
		k.condition(metav1.ConditionUnknown, awsv1.InstanceNotFoundReason)
		return k.cloud.Notice, nil
	}
	k.after.Status.InstanceState = ptr.To(awsv1.InstanceState(i.State.Name))
	switch i.State.Name {
	case types.InstanceStateNameStopping, types.InstanceStateNameStopped:
		k.condition(metav1.ConditionFalse, awsv1.InstanceStoppedReason)
	case types.InstanceStateNameShuttingDown, types.InstanceStateNameTerminated:
		k.condition(metav1.ConditionFalse, awsv1.InstanceTerminatedReason)
	default:
		k.after.Status.Ready = true
		k.condition(metav1.ConditionTrue, "")
	}
	return k.cloud.Notice, nil
}

// destroy ends the instance of a deleted AWSMachine, and lets go when it has
// ended.
func (k *awsCase) destroy(ctx context.Context) (again time.Duration, err error) {
	if id := aws.ToString(k.after.Spec.InstanceID); id != "" {
		i, err := k.player.Instance(ctx, id)
		if err != nil {
			return 0, err
		}
		if i != nil && i.State.Name != types.InstanceStateNameTerminated {
			if util.IsControlPlaneMachine(k.machine) {
				if err := k.player.Deregister(ctx, k.infra, id); err != nil {
					return 0, err
				}
			}
			return soon, k.player.Terminate(ctx, id)
		}
	}
	if err := k.fleet.drop(ctx, k.machine.Name); err != nil {
		return 0, err
	}
	controllerutil.RemoveFinalizer(k.after, awsv1.MachineFinalizer)
	return 0, nil
}

// condition sets InstanceReady, from which CAPA's Ready follows. A condition
// that stands stays as it is.
func (k *awsCase) condition(status metav1.ConditionStatus, reason string) {
	for _, kind := range []clusterv1beta1.ConditionType{awsv1.InstanceReadyCondition, clusterv1beta1.ReadyCondition} {
		c := clusterv1beta1.Condition{Type: kind, Status: corev1.ConditionStatus(status), Reason: reason, LastTransitionTime: metav1.Now().Rfc3339Copy()}
		if status == metav1.ConditionFalse {
			c.Severity = clusterv1beta1.ConditionSeverityInfo
		}
		found := false
		for i, old := range k.after.Status.Conditions {
			if old.Type != kind {
				continue
			}
			found = true
			if old.Status != c.Status || old.Reason != c.Reason {
				k.after.Status.Conditions[i] = c
			}
		}
		if !found {
			k.after.Status.Conditions = append(k.after.Status.Conditions, c)
		}
	}
	if status == metav1.ConditionFalse && k.after.Status.Ready {
		k.after.Status.Ready = false
	}
}

func awsAddresses(i *types.Instance) []clusterv1beta1.MachineAddress {
	var out []clusterv1beta1.MachineAddress
	for _, a := range []clusterv1beta1.MachineAddress{
		{Type: clusterv1beta1.MachineInternalDNS, Address: aws.ToString(i.PrivateDnsName)},
		{Type: clusterv1beta1.MachineInternalIP, Address: aws.ToString(i.PrivateIpAddress)},
		{Type: clusterv1beta1.MachineExternalIP, Address: aws.ToString(i.PublicIpAddress)},
	} {
		if a.Address != "" {
			out = append(out, a)
		}
	}
	return out
}

// awsHost is what a Machine's instance boots into.
func awsHost(m *clusterv1.Machine, i *types.Instance) host {
	zone := aws.ToString(i.Placement.AvailabilityZone)
	return host{
		machine: m.Name, node: aws.ToString(i.PrivateDnsName),
		providerID: fmt.Sprintf("aws:///%s/%s", zone, aws.ToString(i.InstanceId)), instance: aws.ToString(i.InstanceId),
		version: m.Spec.Version, controlPlane: util.IsControlPlaneMachine(m),
		labels: map[string]string{
			corev1.LabelInstanceTypeStable: string(i.InstanceType),
			corev1.LabelTopologyZone:       zone, corev1.LabelTopologyRegion: strings.TrimRight(zone, "abcdef"),
		},
		addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: aws.ToString(i.PrivateIpAddress)},
			{Type: corev1.NodeInternalDNS, Address: aws.ToString(i.PrivateDnsName)},
		},
	}
}
