package aws

import (
	"cmp"
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
)

// vpcAttributes sets one attribute with each call, as ModifyVpcAttribute
// demands. Host names need DNS support, which therefore comes first.
func (w *writing) vpcAttributes(ctx context.Context, fields []providers.FieldChange) error {
	w.readDNS(ctx, w.live)
	if err := cmp.Or(w.coverage[partDNSSupport], w.coverage[partDNSHostnames]); err != nil {
		return applyError(err, "read the DNS attributes of "+w.Resource.Name)
	}
	due := w.due(fields)
	for _, path := range []string{pathDNSSupport, pathDNSHostnames} {
		for _, f := range due {
			if f.Path != path {
				continue
			}
			in := &ec2.ModifyVpcAttributeInput{VpcId: &w.Resource.Name}
			value := &ec2types.AttributeBooleanValue{Value: ptr(f.Want.Equal(providers.Bool(true)))}
			if path == pathDNSSupport {
				in.EnableDnsSupport = value
			} else {
				in.EnableDnsHostnames = value
			}
			_, err := w.ec2.ModifyVpcAttribute(ctx, in)
			if err := w.called(err, "set %s of %s", strings.TrimPrefix(path, "/"), w.Resource.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkBlocks: an IPv6 block comes from a pool, which a wanted prefix does not
// name.
func checkBlocks(c *providers.Change, fields []providers.FieldChange) error {
	if err := onlyAdds(c, fields); err != nil {
		return err
	}
	for _, f := range fields {
		if strings.Contains(f.Want.Text(), ":") {
			return unsupported("IPv6 block %s of %s: which pool it comes from is for whoever builds the network", f.Want.Text(), c.Resource)
		}
	}
	return nil
}

func (w *writing) vpcBlocks(ctx context.Context, fields []providers.FieldChange) error {
	for _, f := range w.due(fields) {
		_, err := w.ec2.AssociateVpcCidrBlock(ctx, &ec2.AssociateVpcCidrBlockInput{VpcId: &w.Resource.Name, CidrBlock: ptr(f.Want.Text())})
		if err := w.called(err, "associate %s with %s", f.Want.Text(), w.Resource.Name); err != nil {
			return err
		}
	}
	return nil
}

func (w *writing) mapPublicIP(ctx context.Context, fields []providers.FieldChange) error {
	for _, f := range w.due(fields) {
		_, err := w.ec2.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{
			SubnetId: &w.Resource.Name, MapPublicIpOnLaunch: &ec2types.AttributeBooleanValue{Value: ptr(f.Want.Equal(providers.Bool(true)))},
		})
		if err := w.called(err, "set mapPublicIpOnLaunch of %s", w.Resource.Name); err != nil {
			return err
		}
	}
	return nil
}

// checkGateway: of the two kinds of gateway only internet gateways are
// attached, and to one VPC at a time (AttachInternetGateway).
func checkGateway(c *providers.Change, fields []providers.FieldChange) error {
	switch f := fields[0]; {
	case strings.HasPrefix(c.Resource.Name, "eigw-"):
		return unsupported("%s is egress-only: its VPC is chosen when it is made", c.Resource)
	case f.Want.IsAbsent():
		return unsupported("%s is wanted detached, and gateways are only ever attached", c.Resource)
	}
	return nil
}

func (w *writing) attachGateway(ctx context.Context, fields []providers.FieldChange) error {
	for _, f := range w.due(fields) {
		vpc := f.Want.Text()
		if elsewhere := w.live.Fields.Get(pathVPCID).Value.Text(); elsewhere != "" {
			return refused("%s is attached to %s: it is not taken from there", w.Resource, elsewhere)
		}
		_, err := w.ec2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: &w.Resource.Name, VpcId: &vpc})
		if err := w.called(err, "attach %s to %s", w.Resource.Name, vpc); err != nil {
			return err
		}
	}
	return nil
}

// checkAttachment: index 0 is the primary interface, which an instance gets
// when it is launched and keeps (AttachNetworkInterface).
func checkAttachment(c *providers.Change, _ []providers.FieldChange) error {
	instance, index := c.Want.Fields.Get(pathInstanceID).Value, c.Want.Fields.Get(pathDeviceIndex).Value
	n, ok := index.Number()
	switch {
	case instance.IsAbsent() || !ok:
		return unsupported("%s: which instance and index it is to be attached to is not known", c.Resource)
	case n == 0:
		return unsupported("%s is wanted as the primary interface of %s, which is chosen at launch", c.Resource, instance.Text())
	}
	return nil
}

func (w *writing) attachInterface(ctx context.Context, fields []providers.FieldChange) error {
	if len(w.due(fields)) == 0 {
		return nil
	}
	if at := w.live.Fields.Get(pathInstanceID).Value.Text(); at != "" {
		return refused("%s is attached to %s at another place than wanted: it is not taken from there", w.Resource, at)
	}
	n, _ := w.Want.Fields.Get(pathDeviceIndex).Value.Number()
	instance := w.Want.Fields.Get(pathInstanceID).Value.Text()
	_, err := w.ec2.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{
		NetworkInterfaceId: &w.Resource.Name, InstanceId: &instance, DeviceIndex: ptr(int32(n)), //nolint:gosec // a place in a list
	})
	return w.called(err, "attach %s to %s", w.Resource.Name, instance)
}
