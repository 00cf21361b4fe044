package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// launching is what one launch works with.
type launching struct {
	*building
	*providers.Creation
	m *infrav1.AWSMachine
	// cluster is nil where the AWSCluster is not known.
	cluster *infrav1.AWSCluster
	tags    infrav1.Tags
}

// launch gives the instance of an AWSMachine: one that an earlier call launched,
// else a new one. EC2 takes a second launch with the same token for the first
// (RunInstances, ClientToken); the look before it finds what a process before
// this one launched, whose token EC2 may have forgotten.
func (b *building) launch(ctx context.Context, m *infrav1.AWSMachine, c *providers.Creation) (string, error) {
	if id, err := b.launchedBefore(ctx, m); id != "" || err != nil {
		return id, err
	}
	l := &launching{building: b, Creation: c, m: m}
	l.cluster, _ = c.Owner.InfraCluster.(*infrav1.AWSCluster)
	l.tags = l.launchTags()
	if err := l.supported(); err != nil {
		return "", err
	}
	in, err := l.request(ctx)
	if err != nil {
		return "", err
	}
	if err := l.userData(ctx, in); err != nil {
		return "", err
	}
	in.TagSpecifications = l.tagSpecs()
	out, err := b.ec2.RunInstances(ctx, in)
	if err != nil {
		if apiCode(err) != "" { // an answer: nothing was launched
			l.dropSecrets(ctx)
		}
		return "", launchError(err, "launch the instance of "+c.Owner.Ref.String())
	}
	for i := range out.Instances {
		if id := deref(out.Instances[i].InstanceId); id != "" {
			return id, nil
		}
	}
	return "", fmt.Errorf("launch the instance of %s: EC2 took the call and named no instance", c.Owner.Ref)
}

// launchedBefore finds an instance that was launched for this very object. One
// that has been terminated since counts too: a machine has one instance in its
// life, and what becomes of it is for whoever replaces machines.
func (b *building) launchedBefore(ctx context.Context, m *infrav1.AWSMachine) (id string, err error) {
	var living, dead []string
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := b.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
			Filters:   []ec2types.Filter{{Name: ptr("tag:" + ownerTag), Values: []string{escapeWildcards(string(m.UID))}}},
			NextToken: token,
		})
		if err != nil {
			return nil, err
		}
		for i := range page.Reservations {
			for j := range page.Reservations[i].Instances {
				switch s := b.instance(&page.Reservations[i].Instances[j]); {
				case tagged(page.Reservations[i].Instances[j].Tags, ownerTag) != string(m.UID):
				case s.Gone != "":
					dead = append(dead, s.ID.Name)
				default:
					living = append(living, s.ID.Name)
				}
			}
		}
		return page.NextToken, nil
	})
	if err != nil {
		return "", launchError(err, "look for an instance that was launched for AWSMachine "+m.Namespace+"/"+m.Name+" before")
	}
	if len(living) == 0 {
		living = dead
	}
	if len(living) == 0 {
		return "", nil
	}
	return slices.Min(living), nil
}

func tagged(tags []ec2types.Tag, key string) string {
	for i := range tags {
		if deref(tags[i].Key) == key {
			return deref(tags[i].Value)
		}
	}
	return ""
}

// supported refuses what is not built, before anything is made for it.
func (l *launching) supported() error {
	spec := &l.m.Spec
	switch {
	case spec.ElasticIPPool != nil:
		return unsupported("spec.elasticIpPool is not supported: Holdfast allocates no addresses for machines. Leave it out, or attach an interface with an address by spec.networkInterfaces")
	case spec.DynamicHostAllocation != nil:
		return unsupported("spec.dynamicHostAllocation is not supported: allocate a dedicated host and name it in spec.hostID")
	case spec.PlacementGroupName == "" && spec.PlacementGroupPartition != 0:
		return refused("spec.placementGroupPartition is set and spec.placementGroupName is not: name the group")
	case l.m.UID == "":
		return refused("%s has no UID: it was not read from an API server", l.Owner.Ref)
	}
	for n := range spec.NonRootVolumes {
		if spec.NonRootVolumes[n].DeviceName == "" {
			return refused("spec.nonRootVolumes[%d] has no deviceName", n)
		}
	}
	return nil
}

// launchTags are the planned tags, and those that only a launch writes. CAPA's
// own are there whatever the user's say.
func (l *launching) launchTags() infrav1.Tags {
	role := "node"
	if l.Owner.ControlPlane {
		role = "control-plane"
	}
	name := l.Owner.Cluster.Name
	tags := infrav1.Build(infrav1.BuildParams{
		Lifecycle: infrav1.ResourceLifecycleOwned, ClusterName: name, Name: &l.m.Name, Role: &role,
		Additional: infrav1.Tags{infrav1.ClusterAWSCloudProviderTagKey(name): string(infrav1.ResourceLifecycleOwned)},
	})
	for path, f := range l.Want.Fields.All() {
		if s := providers.Segments(path); len(s) == 2 && s[0] == "tags" {
			tags[s[1]] = f.Value.Text()
		}
	}
	if machine := l.Owner.Machine; machine != nil {
		tags[machineNameTag] = machine.Namespace + "/" + machine.Name
	}
	tags[ownerTag] = string(l.m.UID)
	return tags
}

// tagSpecs tags all that comes with the instance. Interfaces that the user gave
// stay the user's.
func (l *launching) tagSpecs() []ec2types.TagSpecification {
	var tags []ec2types.Tag
	for _, key := range slices.Sorted(maps.Keys(l.tags)) {
		tags = append(tags, ec2types.Tag{Key: ptr(key), Value: ptr(l.tags[key])})
	}
	kinds := []ec2types.ResourceType{ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume}
	if len(l.m.Spec.NetworkInterfaces) == 0 {
		kinds = append(kinds, ec2types.ResourceTypeNetworkInterface)
	}
	var out []ec2types.TagSpecification
	for _, kind := range kinds {
		out = append(out, ec2types.TagSpecification{ResourceType: kind, Tags: tags})
	}
	return out
}

// request makes the call from the spec as CAPA does, but for user data and tags.
func (l *launching) request(ctx context.Context) (*ec2.RunInstancesInput, error) {
	spec := &l.m.Spec
	in := &ec2.RunInstancesInput{
		ClientToken: &l.Token, MinCount: ptr[int32](1), MaxCount: ptr[int32](1),
		InstanceType: ec2types.InstanceType(spec.InstanceType),
		Placement:    l.placement(),
		CpuOptions:   l.cpu(),
	}
	if key := l.keyName(); key != "" {
		in.KeyName = &key
	}
	if profile := l.Want.Fields.Get(pathProfileARN).Value.Text(); profile != "" {
		in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Arn: &profile}
	} else if profile := l.Want.Fields.Get(pathProfile).Value.Text(); profile != "" {
		in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: &profile}
	}
	l.metadata(in)
	l.reservation(in)
	if o := spec.PrivateDNSName; o != nil {
		in.PrivateDnsNameOptions = &ec2types.PrivateDnsNameOptionsRequest{
			EnableResourceNameDnsAAAARecord: o.EnableResourceNameDNSAAAARecord,
			EnableResourceNameDnsARecord:    o.EnableResourceNameDNSARecord,
			HostnameType:                    ec2types.HostnameType(deref(o.HostnameType)),
		}
	}
	if err := l.market(in); err != nil {
		return nil, err
	}
	if err := l.interfaces(ctx, in); err != nil {
		return nil, err
	}
	return in, l.imageAndVolumes(ctx, in)
}

// keyName is the machine's, else the cluster's, else CAPA's default; one that is
// set and empty is none.
func (l *launching) keyName() string {
	switch {
	case l.m.Spec.SSHKeyName != nil:
		return *l.m.Spec.SSHKeyName
	case l.cluster != nil && l.cluster.Spec.SSHKeyName != nil:
		return *l.cluster.Spec.SSHKeyName
	default:
		return "default"
	}
}

// metadata sends all options, for what EC2 takes for one that is left out is the
// account's to choose.
func (l *launching) metadata(in *ec2.RunInstancesInput) {
	o := l.m.Spec.InstanceMetadataOptions.DeepCopy()
	if o == nil {
		o = &infrav1.InstanceMetadataOptions{}
	}
	o.SetDefaults()
	in.MetadataOptions = &ec2types.InstanceMetadataOptionsRequest{
		HttpEndpoint:            ec2types.InstanceMetadataEndpointState(o.HTTPEndpoint),
		HttpProtocolIpv6:        ec2types.InstanceMetadataProtocolState(o.HTTPProtocolIPv6),
		HttpPutResponseHopLimit: ptr(int32(o.HTTPPutResponseHopLimit)), //nolint:gosec // 1 to 64, as the CRD demands
		HttpTokens:              ec2types.HttpTokensState(o.HTTPTokens),
		InstanceMetadataTags:    ec2types.InstanceMetadataTagsState(o.InstanceMetadataTags),
	}
}
