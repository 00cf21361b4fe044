package aws

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
)

// readInstance keeps the instance in EC2's words too: interfaces and volumes
// are written by their own ids.
func (w *writing) readInstance(ctx context.Context) (*providers.Resource, error) {
	out, err := w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{w.Resource.Name}})
	if err != nil {
		return nil, err
	}
	for i := range out.Reservations {
		for j := range out.Reservations[i].Instances {
			if in := &out.Reservations[i].Instances[j]; deref(in.InstanceId) == w.Resource.Name {
				w.rawInstance = in
				return w.instance(in).Resource, nil
			}
		}
	}
	return nil, nil
}

func (w *writing) instanceState() ec2types.InstanceStateName {
	if w.rawInstance.State == nil {
		return ""
	}
	return w.rawInstance.State.Name
}

// checkState: nothing but running is ever wanted of an instance.
func checkState(c *providers.Change, fields []providers.FieldChange) error {
	if want := fields[0].Want.Text(); want != stateRunning {
		return unsupported("%s is wanted %q, and an instance is only ever started", c.Resource, want)
	}
	return nil
}

// start starts a stopped instance. One that is being stopped cannot be started
// before it is (StartInstances).
func (w *writing) start(ctx context.Context, _ []providers.FieldChange) error {
	switch w.instanceState() {
	case ec2types.InstanceStateNameRunning, ec2types.InstanceStateNamePending:
		return nil
	case ec2types.InstanceStateNameStopping:
		return providers.ErrPending
	default:
		return w.startInstance(ctx)
	}
}

func (w *writing) startInstance(ctx context.Context) error {
	_, err := w.ec2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{w.Resource.Name}})
	return w.called(err, "start %s", w.Resource.Name)
}

// restartTag marks an instance that Apply has stopped and has yet to start
// again. It lives in EC2, so that whoever goes on after a crash knows the
// instance from one that a person has stopped, which stays as it is.
const restartTag = "drift.holdfast.io/start-again"

func (w *writing) marked() bool { return tagOf(w.live, restartTag) != "" }

// instanceType stops, changes and starts, one step with each call: EC2 changes
// the type of stopped instances only (ModifyInstanceAttribute).
func (w *writing) instanceType(ctx context.Context, fields []providers.FieldChange) error {
	want, state := fields[0].Want.Text(), w.instanceState()
	if string(w.rawInstance.InstanceType) == want {
		return w.startAgain(ctx)
	}
	switch state {
	case ec2types.InstanceStateNameStopped:
	case ec2types.InstanceStateNameRunning:
		if err := w.stopForNow(ctx); err != nil {
			return err
		}
		return providers.ErrPending
	default: // pending and stopping
		return providers.ErrPending
	}
	_, err := w.ec2.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{
		InstanceId: &w.Resource.Name, InstanceType: &ec2types.AttributeValue{Value: &want},
	})
	err = w.called(err, "change the type of %s to %s", w.Resource.Name, want)
	if refusal := (*providers.ApplyError)(nil); err != nil && !errors.As(err, &refusal) {
		return err
	}
	// Also after a refusal the instance must not be left stopped. As long as it
	// is, that is what has to be tried again, and the refusal will be met again.
	if started := w.startAgain(ctx); started != nil {
		return started
	}
	return err
}

// stopForNow marks first: an instance that was stopped and not marked would
// stay stopped.
func (w *writing) stopForNow(ctx context.Context) error {
	id := w.Resource.Name
	if !w.marked() {
		if err := w.tagEC2(ctx, id, map[string]string{restartTag: first(w.Token, "true")}, nil); err != nil {
			return err
		}
	}
	_, err := w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}})
	err = w.called(err, "stop %s", id)
	if refusal := (*providers.ApplyError)(nil); errors.As(err, &refusal) {
		return errors.Join(err, w.tagEC2(ctx, id, nil, []string{restartTag}))
	}
	return err
}

// startAgain starts what stopForNow stopped, then takes the mark away.
func (w *writing) startAgain(ctx context.Context) error {
	if !w.marked() {
		return nil
	}
	switch w.instanceState() {
	case ec2types.InstanceStateNameStopping:
		return providers.ErrPending
	case ec2types.InstanceStateNameStopped:
		if err := w.startInstance(ctx); err != nil {
			return err
		}
	}
	return w.tagEC2(ctx, w.Resource.Name, nil, []string{restartTag})
}

// metadataOptions sends the changed options only: the others keep their values
// (ModifyInstanceMetadataOptions).
func (w *writing) metadataOptions(ctx context.Context, fields []providers.FieldChange) error {
	due := w.due(fields)
	if len(due) == 0 {
		return nil
	}
	in := &ec2.ModifyInstanceMetadataOptionsInput{InstanceId: &w.Resource.Name}
	for _, f := range due {
		switch value := f.Want.Text(); f.Path {
		case pathHTTPTokens:
			in.HttpTokens = ec2types.HttpTokensState(value)
		case pathHTTPEndpoint:
			in.HttpEndpoint = ec2types.InstanceMetadataEndpointState(value)
		case pathMetadataTags:
			in.InstanceMetadataTags = ec2types.InstanceMetadataTagsState(value)
		case pathHopLimit:
			n, _ := f.Want.Number()
			in.HttpPutResponseHopLimit = ptr(int32(n)) //nolint:gosec // 1 to 64, as the CRD demands
		default:
			return unsupported("metadata option %s of %s is not known", f.Path, w.Resource)
		}
	}
	_, err := w.ec2.ModifyInstanceMetadataOptions(ctx, in)
	return w.called(err, "change the metadata options of %s", w.Resource.Name)
}

// instanceGroups sets the groups of the primary interface, by that interface:
// ModifyInstanceAttribute would do the same only where there is no other one
// (C10).
func (w *writing) instanceGroups(ctx context.Context, fields []providers.FieldChange) error {
	eni := primaryInterface(w.rawInstance)
	if eni == nil {
		return refused("%s shows no primary network interface", w.Resource)
	}
	have := groupIDs(eni.Groups)
	want := edited(have, fields)
	if len(want) == 0 {
		return refused("%s would be left without any security group, which EC2 does not allow", w.Resource)
	}
	if providers.Set(have...).Equal(providers.Set(want...)) {
		return nil
	}
	_, err := w.ec2.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: eni.NetworkInterfaceId, Groups: want})
	return w.called(err, "set the security groups of %s, the primary interface of %s", deref(eni.NetworkInterfaceId), w.Resource.Name)
}

// primaryInterface is the one at index 0 of card 0.
func primaryInterface(in *ec2types.Instance) *ec2types.InstanceNetworkInterface {
	for i := range in.NetworkInterfaces {
		eni := &in.NetworkInterfaces[i]
		if a := eni.Attachment; a != nil && deref(a.DeviceIndex) == 0 && deref(a.NetworkCardIndex) == 0 {
			return eni
		}
	}
	return nil
}

// instanceProfile replaces, associates or takes away. The caller needs
// iam:PassRole for the profile's role.
func (w *writing) instanceProfile(ctx context.Context, fields []providers.FieldChange) error {
	due := w.due(fields)
	if len(due) == 0 {
		return nil
	}
	f, id := due[0], w.Resource.Name
	out, err := w.ec2.DescribeIamInstanceProfileAssociations(ctx, &ec2.DescribeIamInstanceProfileAssociationsInput{
		Filters: []ec2types.Filter{{Name: ptr("instance-id"), Values: []string{id}}},
	})
	if err != nil {
		return applyError(err, "find the instance profile of "+id)
	}
	var association *string
	for i := range out.IamInstanceProfileAssociations {
		switch a := &out.IamInstanceProfileAssociations[i]; a.State {
		case ec2types.IamInstanceProfileAssociationStateDisassociating:
			return providers.ErrPending
		case ec2types.IamInstanceProfileAssociationStateDisassociated:
		default:
			association = a.AssociationId
		}
	}
	profile := &ec2types.IamInstanceProfileSpecification{Name: ptr(f.Want.Text())}
	if f.Path == pathProfileARN {
		profile = &ec2types.IamInstanceProfileSpecification{Arn: ptr(f.Want.Text())}
	}
	switch {
	case f.Want.IsAbsent() && association == nil:
		return nil
	case f.Want.IsAbsent():
		_, err = w.ec2.DisassociateIamInstanceProfile(ctx, &ec2.DisassociateIamInstanceProfileInput{AssociationId: association})
	case association != nil:
		_, err = w.ec2.ReplaceIamInstanceProfileAssociation(ctx, &ec2.ReplaceIamInstanceProfileAssociationInput{AssociationId: association, IamInstanceProfile: profile})
	default:
		_, err = w.ec2.AssociateIamInstanceProfile(ctx, &ec2.AssociateIamInstanceProfileInput{InstanceId: &id, IamInstanceProfile: profile})
	}
	return w.called(err, "give %s the instance profile %s", id, f.Want.Text())
}
