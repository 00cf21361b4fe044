package aws

import "github.com/holdfast-io/holdfast/providers"

var (
	lbRow     = row(providers.KindLoadBalancer)
	volumeRow = row(providers.KindVolume)
)

// catalogLoadBalancer are the fields of the control plane's load balancers,
// the primary and the secondary one alike. Nothing but its existence is wanted
// of one that the user brought.
var catalogLoadBalancer = []providers.CatalogRow{
	lbRow("/state", "AWSCluster spec.controlPlaneLoadBalancer, spec.secondaryControlPlaneLoadBalancer", immutable, compareExists, "ELB API: DescribeLoadBalancers"),
	lbRow("/type", "spec.controlPlaneLoadBalancer.loadBalancerType", immutable, "classic, network, application or gateway", "ELBv2 API: CreateLoadBalancer, Type"),
	lbRow("/scheme", "spec.controlPlaneLoadBalancer.scheme; internet-facing, and internal for the secondary one, where unset", immutable, "exactly", "ELBv2 API: CreateLoadBalancer, Scheme"),
	lbRow("/vpcId", "AWSCluster spec.network.vpc.id", immutable, "exactly", "ELBv2 API: LoadBalancer, VpcId"),
	lbRow("/subnets", "spec.controlPlaneLoadBalancer.subnets; else one of each zone, of the side that the scheme asks for", inPlace, "set of ids; zones with several candidates are left open", "ELBv2 API: SetSubnets; CAPA: getAPIServerLBSpec"),
	lbRow("/securityGroups", "spec.controlPlaneLoadBalancer.additionalSecurityGroups; the cluster's apiserver-lb group", inPlace, "set of ids; a network load balancer without groups can never get any", "ELBv2 API: SetSecurityGroups"),
	lbRow("/listeners", "Cluster spec.clusterNetwork.apiServerPort; spec.controlPlaneLoadBalancer.additionalListeners", inPlace, "set of protocol, port and target", "ELB API: CreateLoadBalancerListeners; ELBv2 API: CreateListener"),
	lbRow("/healthCheck/target", "spec.controlPlaneLoadBalancer.healthCheckProtocol, of a classic one", inPlace, "exactly", "ELB API: ConfigureHealthCheck"),
	lbRow("/healthCheck/interval", "5 s, as CAPA writes it to a classic one", inPlace, "number", "ELB API: ConfigureHealthCheck"),
	lbRow("/healthCheck/timeout", "4 s, as CAPA writes it to a classic one", inPlace, "number", "ELB API: ConfigureHealthCheck"),
	lbRow("/healthCheck/healthyThreshold", "2, as CAPA writes it to a classic one", inPlace, "number", "ELB API: ConfigureHealthCheck"),
	lbRow("/healthCheck/unhealthyThreshold", "6, as CAPA writes it to a classic one", inPlace, "number", "ELB API: ConfigureHealthCheck"),
	lbRow("/targetGroups/NAME/protocol", "the listener's protocol", immutable, "exactly", "ELBv2 API: CreateTargetGroup"),
	lbRow("/targetGroups/NAME/port", "the listener's port", immutable, "number", "ELBv2 API: CreateTargetGroup"),
	lbRow("/targetGroups/NAME/healthCheck/protocol", "healthCheckProtocol, additionalListeners[].healthCheck.protocol", inPlace, "exactly, upper case", "ELBv2 API: ModifyTargetGroup"),
	lbRow("/targetGroups/NAME/healthCheck/port", "6443, additionalListeners[].healthCheck.port", inPlace, "exactly", "ELBv2 API: ModifyTargetGroup"),
	lbRow("/targetGroups/NAME/healthCheck/path", "/readyz for HTTP and HTTPS, additionalListeners[].healthCheck.path", inPlace, "exactly", "ELBv2 API: ModifyTargetGroup"),
	lbRow("/targetGroups/NAME/healthCheck/interval", "healthCheck.intervalSeconds", inPlace, "number, only where set", "ELBv2 API: ModifyTargetGroup"),
	lbRow("/targetGroups/NAME/healthCheck/timeout", "healthCheck.timeoutSeconds", inPlace, "number, only where set", "ELBv2 API: ModifyTargetGroup"),
	lbRow("/targetGroups/NAME/healthCheck/healthyThreshold", "healthCheck.thresholdCount", inPlace, "number, only where set", "ELBv2 API: ModifyTargetGroup"),
	lbRow("/targetGroups/NAME/healthCheck/unhealthyThreshold", "healthCheck.unhealthyThresholdCount", inPlace, "number, only where set", "ELBv2 API: ModifyTargetGroup"),
	lbRow("/attributes/crossZone", "spec.controlPlaneLoadBalancer.crossZoneLoadBalancing, of classic and network ones", inPlace, "exactly; CAPA writes false where it is unset", "ELBv2 API: ModifyLoadBalancerAttributes"),
	lbRow("/attributes/idleTimeout", "600 s for classic, 60 s for application ones, as CAPA writes it", inPlace, "number", "ELBv2 API: ModifyLoadBalancerAttributes"),
	lbRow("/tags/KEY", "AWSCluster spec.additionalTags; ownership, role and name", inPlace, compareTags, "ELBv2 API: AddTags; CAPA: reconcileV2LBTags"),

	volumeRow("/state", "nothing: a volume that carries the cluster's tag and no instance is an orphan", readOnly, compareExists, "EC2 API: DescribeVolumes"),
}
