package aws

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// What CAPA (2.13) looks an image up by where nothing is said: the images that
// its project publishes.
const (
	imageOwner  = "819546954734"
	imageBaseOS = "ubuntu-24.04"
	imageFormat = "capa-ami-{{.BaseOS}}-?{{.K8sVersion}}-*"
)

// imageAndVolumes gives the launch its image and its volumes.
func (l *launching) imageAndVolumes(ctx context.Context, in *ec2.RunInstancesInput) error {
	spec := &l.m.Spec
	var image *ec2types.Image
	var err error
	switch {
	case spec.AMI.ID != nil:
		in.ImageId = spec.AMI.ID
		if spec.RootVolume != nil {
			image, err = l.imageOf(ctx, *spec.AMI.ID)
		}
	case spec.AMI.EKSOptimizedLookupType != nil:
		err = unsupported("spec.ami.eksLookupType is not supported: name an image in spec.ami.id, or leave it out to look one up by the Machine's version")
	default:
		if image, err = l.newestImage(ctx); err == nil {
			in.ImageId = image.ImageId
		}
	}
	if err != nil {
		return err
	}
	if spec.RootVolume != nil {
		root, err := rootMapping(spec.RootVolume, image)
		if err != nil {
			return err
		}
		in.BlockDeviceMappings = append(in.BlockDeviceMappings, root)
	}
	for n := range spec.NonRootVolumes {
		v := &spec.NonRootVolumes[n]
		in.BlockDeviceMappings = append(in.BlockDeviceMappings, mapping(v.DeviceName, v))
	}
	return nil
}

func (l *launching) imageOf(ctx context.Context, id string) (*ec2types.Image, error) {
	out, err := l.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
	if err != nil {
		return nil, launchError(err, "read image "+id)
	}
	for i := range out.Images {
		if deref(out.Images[i].ImageId) == id {
			return &out.Images[i], nil
		}
	}
	return nil, refused("image %s (spec.ami.id) is not to be seen in %s: it does not exist there, or is not shared with the account", id, l.region)
}

// lookup is what an image is looked up by: the machine's words, else the
// cluster's, else CAPA's.
func (l *launching) lookup() (format, owner, baseOS string) {
	spec := &l.m.Spec
	var c infrav1.AWSClusterSpec
	if l.cluster != nil {
		c = l.cluster.Spec
	}
	return first(spec.ImageLookupFormat, c.ImageLookupFormat, imageFormat),
		first(spec.ImageLookupOrg, c.ImageLookupOrg, imageOwner),
		first(spec.ImageLookupBaseOS, c.ImageLookupBaseOS, imageBaseOS)
}

// newestImage gives the newest image for the Machine's version of Kubernetes.
func (l *launching) newestImage(ctx context.Context) (*ec2types.Image, error) {
	version := ""
	if l.Owner.Machine != nil {
		version = strings.TrimPrefix(l.Owner.Machine.Spec.Version, "v")
	}
	if version == "" {
		return nil, refused("no image can be told: set spec.ami.id of the AWSMachine's template, or spec.version of the Machine")
	}
	format, owner, baseOS := l.lookup()
	name, err := imageName(format, baseOS, version)
	if err != nil {
		return nil, err
	}
	architecture, err := l.architecture(ctx)
	if err != nil {
		return nil, err
	}
	var newest *ec2types.Image
	var made time.Time
	err = pages(ctx, func(ctx context.Context, token *string) (*string, error) {
		page, err := l.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{NextToken: token, Filters: []ec2types.Filter{
			{Name: ptr("owner-id"), Values: []string{owner}},
			{Name: ptr("name"), Values: []string{name}},
			{Name: ptr("architecture"), Values: []string{architecture}},
			{Name: ptr("state"), Values: []string{string(ec2types.ImageStateAvailable)}},
			{Name: ptr("virtualization-type"), Values: []string{string(ec2types.VirtualizationTypeHvm)}},
		}})
		if err != nil {
			return nil, err
		}
		for i := range page.Images {
			image := &page.Images[i]
			// A date that cannot be read makes an image no candidate, not the newest.
			at, err := time.Parse(time.RFC3339, deref(image.CreationDate))
			if err == nil && (newest == nil || at.After(made) || at.Equal(made) && deref(image.ImageId) < deref(newest.ImageId)) {
				newest, made = image, at
			}
		}
		return page.NextToken, nil
	})
	switch {
	case err != nil:
		return nil, launchError(err, "look up the image "+name+" of owner "+owner)
	case newest == nil:
		return nil, refused("no image named %s for %s of owner %s is to be seen in %s: set spec.ami.id, or imageLookupFormat, imageLookupOrg and imageLookupBaseOS of the AWSMachine's template or the AWSCluster", name, architecture, owner, l.region)
	}
	return newest, nil
}

// imageName fills in the format, a template as CAPA's users write them.
func imageName(format, baseOS, version string) (string, error) {
	t, err := template.New("imageLookupFormat").Option("missingkey=error").Parse(format)
	if err != nil {
		return "", refused("imageLookupFormat %q is no template: %v", format, err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, map[string]string{"BaseOS": baseOS, "K8sVersion": version}); err != nil {
		return "", refused("imageLookupFormat %q: %v (it may name .BaseOS and .K8sVersion)", format, err)
	}
	return out.String(), nil
}

// architecture is the instance type's. Whoever may not ask for it gets CAPA's
// guess.
func (l *launching) architecture(ctx context.Context) (string, error) {
	kind := l.m.Spec.InstanceType
	out, err := l.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{ec2types.InstanceType(kind)}})
	switch {
	case err != nil && applyReasons[apiCode(err)] == providers.ReasonNotPermitted:
		return string(ec2types.ArchitectureTypeX8664), nil
	case err != nil:
		return "", launchError(err, "read instance type "+kind)
	}
	for i := range out.InstanceTypes {
		if p := out.InstanceTypes[i].ProcessorInfo; p != nil {
			for _, a := range p.SupportedArchitectures {
				if a == ec2types.ArchitectureTypeX8664 || a == ec2types.ArchitectureTypeArm64 {
					return string(a), nil
				}
			}
		}
	}
	return "", refused("instance type %s is neither for x86_64 nor for arm64: name an image in spec.ami.id", kind)
}

// rootMapping sizes the image's own root device. EC2 refuses one that is smaller
// than its snapshot with fewer words.
func rootMapping(v *infrav1.Volume, image *ec2types.Image) (ec2types.BlockDeviceMapping, error) {
	device := deref(image.RootDeviceName)
	if device == "" {
		return ec2types.BlockDeviceMapping{}, refused("image %s has no root device: leave out spec.rootVolume", deref(image.ImageId))
	}
	i := slices.IndexFunc(image.BlockDeviceMappings, func(m ec2types.BlockDeviceMapping) bool { return deref(m.DeviceName) == device && m.Ebs != nil })
	if i >= 0 {
		if least := int64(deref(image.BlockDeviceMappings[i].Ebs.VolumeSize)); v.Size < least {
			return ec2types.BlockDeviceMapping{}, refused("spec.rootVolume.size is %d GiB, and image %s needs %d", v.Size, deref(image.ImageId), least)
		}
	}
	return mapping(device, v), nil
}

// mapping asks for a volume that goes with its instance.
func mapping(device string, v *infrav1.Volume) ec2types.BlockDeviceMapping {
	number := func(n int64) *int32 {
		if n == 0 {
			return nil
		}
		return ptr(int32(n)) //nolint:gosec // sizes, IOPS and throughput of EBS are below a million
	}
	ebs := &ec2types.EbsBlockDevice{
		DeleteOnTermination: ptr(true), VolumeSize: number(v.Size), Encrypted: v.Encrypted,
		Iops: number(v.IOPS), Throughput: number(deref(v.Throughput)), VolumeType: ec2types.VolumeType(v.Type),
	}
	if v.EncryptionKey != "" {
		ebs.Encrypted, ebs.KmsKeyId = ptr(true), ptr(v.EncryptionKey)
	}
	return ec2types.BlockDeviceMapping{DeviceName: &device, Ebs: ebs}
}
