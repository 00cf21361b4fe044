package ec2sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// ModifyInstanceAttribute (EC2 API reference): what needs a stopped instance.
func TestModifyInstance(t *testing.T) {
	w := newWorld(t, ec2sim.Options{Delays: &ec2sim.Delays{}})
	n := w.network(t)
	ctx := t.Context()
	id := w.run(t, n).InstanceId
	resize := &ec2.ModifyInstanceAttributeInput{InstanceId: id, InstanceType: &types.AttributeValue{Value: str("m5.xlarge")}}
	data := &ec2.ModifyInstanceAttributeInput{InstanceId: id, UserData: &types.SecureBlobAttributeValue{Value: []byte("hello")}}
	wantCode(t, second(w.ec2.ModifyInstanceAttribute(ctx, resize)), "IncorrectInstanceState", 400)
	wantCode(t, second(w.ec2.ModifyInstanceAttribute(ctx, data)), "IncorrectInstanceState", 400)
	wantCode(t, second(w.ec2.ModifyInstancePlacement(ctx, &ec2.ModifyInstancePlacementInput{InstanceId: id, Tenancy: "host"})), "IncorrectInstanceState", 400)
	must(w.ec2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{*id}}))(t)
	must(w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{*id}}))(t)
	must(w.ec2.ModifyInstanceAttribute(ctx, resize))(t)
	must(w.ec2.ModifyInstanceAttribute(ctx, data))(t)
	must(w.ec2.ModifyInstancePlacement(ctx, &ec2.ModifyInstancePlacementInput{InstanceId: id, Tenancy: "host"}))(t)
	must(w.ec2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{*id}}))(t)
	got := w.instance(t, *id)
	if got.InstanceType != "m5.xlarge" || *got.CpuOptions.CoreCount != 2 || got.Placement.Tenancy != "host" {
		t.Errorf("%s with %d cores, tenancy %s", got.InstanceType, *got.CpuOptions.CoreCount, got.Placement.Tenancy)
	}
	shown := must(w.ec2.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: id, Attribute: "userData"}))(t)
	if *shown.UserData.Value != "aGVsbG8=" {
		t.Errorf("user data %s", *shown.UserData.Value)
	}
	must(w.ec2.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: id, DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	wantCode(t, second(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*id}})), "OperationNotPermitted", 400)
	options := must(w.ec2.ModifyInstanceMetadataOptions(ctx, &ec2.ModifyInstanceMetadataOptionsInput{InstanceId: id, HttpTokens: "required"}))(t)
	if options.InstanceMetadataOptions.State != "pending" {
		t.Errorf("the answer's state is %s", options.InstanceMetadataOptions.State)
	}
	want := types.InstanceMetadataOptionsResponse{
		State: "applied", HttpTokens: "required", HttpEndpoint: "enabled", HttpProtocolIpv6: "disabled", InstanceMetadataTags: "disabled", HttpPutResponseHopLimit: aws.Int32(1),
	}
	if got := *w.instance(t, *id).MetadataOptions; got.HttpTokens != want.HttpTokens || got.State != want.State || *got.HttpPutResponseHopLimit != 1 {
		t.Errorf("metadata options %+v", got)
	}
	wantCode(t, second(w.ec2.ModifyInstanceMetadataOptions(ctx, &ec2.ModifyInstanceMetadataOptionsInput{InstanceId: id, HttpPutResponseHopLimit: aws.Int32(65)})), "InvalidParameterValue", 400)
}

// Instance profiles (EC2 and IAM API references): the profile's own id shows.
func TestInstanceProfiles(t *testing.T) {
	w := newWorld(t, ec2sim.Options{Delays: &ec2sim.Delays{}})
	n := w.network(t)
	ctx := t.Context()
	client := iam.NewFromConfig(w.config())
	made := must(client.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: str("nodes"), Path: str("/team/")}))(t).InstanceProfile
	must(client.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: str("other")}))(t)
	wantCode(t, second(client.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: str("other")})), "EntityAlreadyExists", 409)
	if *made.Arn != "arn:aws:iam::123456789012:instance-profile/team/nodes" || !strings.HasPrefix(*made.InstanceProfileId, "AIPA") {
		t.Errorf("profile %s %s", *made.Arn, *made.InstanceProfileId)
	}
	id := w.run(t, n, func(in *ec2.RunInstancesInput) {
		in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: str("nodes")}
	}).InstanceId
	if got := w.instance(t, *id).IamInstanceProfile; *got.Arn != *made.Arn || *got.Id != *made.InstanceProfileId {
		t.Errorf("the instance has %s %s", *got.Arn, *got.Id)
	}
	other := &types.IamInstanceProfileSpecification{Name: str("other")}
	wantCode(t, second(w.ec2.AssociateIamInstanceProfile(ctx, &ec2.AssociateIamInstanceProfileInput{InstanceId: id, IamInstanceProfile: other})), "IncorrectState", 400)
	list := must(w.ec2.DescribeIamInstanceProfileAssociations(ctx, &ec2.DescribeIamInstanceProfileAssociationsInput{Filters: []types.Filter{{Name: str("instance-id"), Values: []string{*id}}}}))(t).IamInstanceProfileAssociations
	replaced := must(w.ec2.ReplaceIamInstanceProfileAssociation(ctx, &ec2.ReplaceIamInstanceProfileAssociationInput{AssociationId: list[0].AssociationId, IamInstanceProfile: other}))(t).IamInstanceProfileAssociation
	if got := w.instance(t, *id).IamInstanceProfile; !strings.HasSuffix(*got.Arn, "/other") || *replaced.AssociationId == *list[0].AssociationId {
		t.Errorf("after the replacement the instance has %s", *got.Arn)
	}
	must(w.ec2.DisassociateIamInstanceProfile(ctx, &ec2.DisassociateIamInstanceProfileInput{AssociationId: replaced.AssociationId}))(t)
	if got := w.instance(t, *id).IamInstanceProfile; got != nil {
		t.Errorf("a disassociated profile shows: %s", *got.Arn)
	}
	must(w.ec2.AssociateIamInstanceProfile(ctx, &ec2.AssociateIamInstanceProfileInput{InstanceId: id, IamInstanceProfile: other}))(t)
	wantCode(t, second(w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: &n.image, SubnetId: &n.subnet, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: str("none")}})), "InvalidParameterValue", 400)

	must(client.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: str("nodes"), RoleName: str("node")}))(t)
	if got := must(client.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: str("nodes")}))(t); *got.InstanceProfile.Roles[0].RoleName != "node" {
		t.Errorf("roles %+v", got.InstanceProfile.Roles)
	}
	wantCode(t, second(client.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: str("nodes")})), "DeleteConflict", 409)
	must(client.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: str("nodes"), RoleName: str("node")}))(t)
	must(client.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: str("nodes")}))(t)
	wantCode(t, second(client.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: str("nodes")})), "NoSuchEntity", 404)
	if got := must(client.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{}))(t); len(got.InstanceProfiles) != 1 {
		t.Errorf("profiles %+v", got.InstanceProfiles)
	}
}

// DescribeInstanceStatus and InstanceStatusEvent (EC2 API reference).
func TestInstanceStatus(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	id := *w.run(t, n).InstanceId
	status := func(all bool) []types.InstanceStatus {
		return must(w.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{IncludeAllInstances: &all}))(t).InstanceStatuses
	}
	if len(status(false)) != 0 || len(status(true)) != 1 {
		t.Error("a pending instance shows only when all are asked for")
	}
	w.pass(time.Minute)
	if got := status(false)[0]; got.InstanceStatus.Status != "initializing" {
		t.Errorf("status %s", got.InstanceStatus.Status)
	}
	event := ec2sim.ScheduledEvent{Code: "instance-retirement", Description: "hardware", NotBefore: w.clock.Now().Add(time.Hour)}
	eventID := must(w.ScheduleEvent(w.DefaultScope(region), id, event))(t)
	w.pass(2 * time.Minute)
	got := status(false)[0]
	if got.SystemStatus.Status != "ok" || *got.Events[0].InstanceEventId != eventID || got.Events[0].Code != "instance-retirement" || !got.Events[0].NotBefore.Equal(event.NotBefore) {
		t.Errorf("status %+v", got)
	}
	event.ID, event.Description = eventID, "[Completed] hardware"
	must(w.ScheduleEvent(w.DefaultScope(region), id, event))(t)
	if got := status(false)[0].Events; len(got) != 1 || *got[0].Description != "[Completed] hardware" {
		t.Errorf("events %+v", got)
	}
	if err := w.StopInstance(w.DefaultScope(region), id, "Server.ScheduledStop", "Stopped due to a scheduled retirement"); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	if got := w.instance(t, id); got.State.Name != "stopped" || *got.StateReason.Code != "Server.ScheduledStop" {
		t.Errorf("%s because of %s", got.State.Name, *got.StateReason.Code)
	}
}

// StateReason: a reclaimed spot instance; its attributes are blank once it is
// terminated, its tags are not.
func TestSpotReclaimed(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	i := w.run(t, n, func(in *ec2.RunInstancesInput) {
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: "spot"}
		in.TagSpecifications = []types.TagSpecification{{ResourceType: "instance", Tags: []types.Tag{{Key: str("a"), Value: str("b")}}}}
	})
	if i.InstanceLifecycle != "spot" || i.SpotInstanceRequestId == nil {
		t.Errorf("lifecycle %q", i.InstanceLifecycle)
	}
	w.pass(time.Minute)
	wantCode(t, second(w.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{*i.InstanceId}})), "UnsupportedOperation", 400)
	if err := w.TerminateInstance(w.DefaultScope(region), *i.InstanceId, "Server.SpotInstanceTermination", "Spot instance termination"); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	got := w.instance(t, *i.InstanceId)
	if *got.StateReason.Code != "Server.SpotInstanceTermination" || got.SubnetId != nil || len(got.SecurityGroups)+len(got.BlockDeviceMappings)+len(got.NetworkInterfaces) != 0 || len(got.Tags) != 1 {
		t.Errorf("terminated %+v", got)
	}
}

// CreateTags, DeleteTags, DescribeTags and "Tag restrictions" (EC2).
func TestTags(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	tag := func(pairs ...string) (tags []types.Tag) {
		for i := 0; i < len(pairs); i += 2 {
			tags = append(tags, types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
		}
		return tags
	}
	create := func(tags []types.Tag, ids ...string) error {
		return second(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: tags}))
	}
	for name, c := range map[string]struct {
		tags []types.Tag
		ids  []string
		code string
	}{
		"aws:":            {tag("AWS:x", "y"), []string{n.vpc}, "InvalidParameterValue"},
		"a missing id":    {tag("a", "b"), []string{n.vpc, "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"},
		"a nonsense id":   {tag("a", "b"), []string{"thing"}, "InvalidID"},
		"a long value":    {tag("a", strings.Repeat("x", 257)), []string{n.vpc}, "InvalidParameterValue"},
		"the same key":    {tag("a", "b", "a", "c"), []string{n.vpc}, "InvalidParameterValue"},
		"a malformed one": {tag("a", "b"), []string{"i-xyz"}, "InvalidInstanceID.Malformed"},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, create(c.tags, c.ids...), c.code, 400) })
	}
	if err := create(tag("Owner", "a", "owner", "b", "env", ""), n.vpc, n.subnet); err != nil {
		t.Fatal(err)
	}
	must(w.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{n.vpc}, Tags: []types.Tag{{Key: str("Owner"), Value: str("z")}, {Key: str("env")}}}))(t)
	var got []string
	for _, d := range must(w.ec2.DescribeTags(ctx, &ec2.DescribeTagsInput{Filters: []types.Filter{{Name: str("resource-type"), Values: []string{"vpc", "subnet"}}}}))(t).Tags {
		got = append(got, string(d.ResourceType)+" "+*d.Key+"="+*d.Value)
	}
	if diff := cmp.Diff([]string{"vpc Owner=a", "vpc owner=b", "subnet Owner=a", "subnet env=", "subnet owner=b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Lists of named things.
func TestCatalog(t *testing.T) {
	w := newWorld(t, ec2sim.Options{Delays: &ec2sim.Delays{}})
	n := w.network(t)
	ctx := t.Context()
	must(w.ec2.ImportKeyPair(ctx, &ec2.ImportKeyPairInput{KeyName: str("ops"), PublicKeyMaterial: []byte("ssh-rsa AAAA")}))(t)
	must(w.ec2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: str("pg"), Strategy: "partition", PartitionCount: aws.Int32(2)}))(t)
	i := w.run(t, n, func(in *ec2.RunInstancesInput) {
		in.KeyName, in.Placement = str("ops"), &types.Placement{GroupName: str("pg"), PartitionNumber: aws.Int32(2), Tenancy: "dedicated"}
		in.CapacityReservationSpecification = &types.CapacityReservationSpecification{CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: str("cr-1")}}
		in.CpuOptions = &types.CpuOptionsRequest{CoreCount: aws.Int32(1), ThreadsPerCore: aws.Int32(1)}
	})
	if *i.KeyName != "ops" || *i.Placement.GroupName != "pg" || *i.Placement.PartitionNumber != 2 || i.Placement.Tenancy != "dedicated" || *i.CapacityReservationId != "cr-1" || *i.CpuOptions.ThreadsPerCore != 1 {
		t.Errorf("instance %+v", i)
	}
	wantCode(t, second(w.ec2.DeletePlacementGroup(ctx, &ec2.DeletePlacementGroupInput{GroupName: str("pg")})), "InvalidPlacementGroup.InUse", 400)
	must(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}}))(t)
	must(w.ec2.DeletePlacementGroup(ctx, &ec2.DeletePlacementGroupInput{GroupName: str("pg")}))(t)
	must(w.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{}))(t)
	must(w.ec2.DeleteKeyPair(ctx, &ec2.DeleteKeyPairInput{KeyName: str("ops")}))(t)
	if keys := must(w.ec2.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{}))(t).KeyPairs; len(keys) != 0 {
		t.Errorf("keys %+v", keys)
	}
	if regions := must(w.ec2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{}))(t).Regions; len(regions) != 3 {
		t.Errorf("regions %+v", regions)
	}
	if zones := must(w.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{}))(t).AvailabilityZones; len(zones) != 3 || *zones[1].ZoneName != region+"b" || *zones[1].ZoneId != "usw2-az2" {
		t.Errorf("zones %+v", zones)
	}
	found := must(w.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m6g.xlarge"}}))(t).InstanceTypes[0]
	if found.ProcessorInfo.SupportedArchitectures[0] != "arm64" || *found.VCpuInfo.DefaultVCpus != 4 || *found.MemoryInfo.SizeInMiB != 16384 {
		t.Errorf("type %+v", found)
	}
	offers := must(w.ec2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: "availability-zone", Filters: []types.Filter{{Name: str("instance-type"), Values: []string{"m5.large"}}}}))(t)
	if len(offers.InstanceTypeOfferings) != 3 {
		t.Errorf("offerings %+v", offers.InstanceTypeOfferings)
	}
}
