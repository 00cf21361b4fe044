package awscluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/smithy-go"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// Prepare makes what an account has before anybody builds the manifest's cluster
// there: see prerequisites.
func (m *Manifest) Prepare(ctx context.Context, clients Clients) error {
	p := NewPlayer(clients, m.Cluster)
	p.b.env.AWSCluster, p.b.env.MachineTemplates = m.AWSCluster, m.MachineTemplates
	return p.b.prerequisites(ctx)
}

// prerequisites makes what an account has before CAPA starts: the instance
// profiles that clusterawsadm makes and the key pair that the user imports.
// What exists already is left alone. Images must exist.
func (b *builder) prerequisites(ctx context.Context) error {
	var profiles, keys, images []string
	addTo := func(list *[]string, value string) {
		if value != "" && !slices.Contains(*list, value) {
			*list = append(*list, value)
		}
	}
	addTo(&keys, aws.ToString(b.env.AWSCluster.Spec.SSHKeyName))
	for _, t := range b.env.MachineTemplates {
		spec := &t.Spec.Template.Spec
		addTo(&profiles, spec.IAMInstanceProfile)
		addTo(&keys, b.keyName(spec))
		addTo(&images, aws.ToString(spec.AMI.ID))
	}
	for _, name := range profiles {
		if err := b.InstanceProfile(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range keys {
		if err := b.KeyPair(ctx, name); err != nil {
			return err
		}
	}
	for _, id := range images {
		out, err := b.EC2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
		if err != nil || len(out.Images) == 0 {
			return fmt.Errorf("find image %s, which the manifest names: offer it at the endpoint first: %w",
				id, errors.Join(err, errNoImage))
		}
		b.rootDevices[id] = aws.ToString(out.Images[0].RootDeviceName)
	}
	return nil
}

var errNoImage = errors.New("no such image")

// InstanceProfile makes an instance profile, unless there is one. Which role is
// in it is no matter of EC2's, so none is.
func (c Clients) InstanceProfile(ctx context.Context, name string) error {
	_, err := c.IAM.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String(name)})
	if err := ignore(err, "EntityAlreadyExists", "EntityAlreadyExistsException"); err != nil {
		return fmt.Errorf("create instance profile %s: %w", name, err)
	}
	return nil
}

// KeyPair imports a key pair, unless there is one.
func (c Clients) KeyPair(ctx context.Context, name string) error {
	_, err := c.EC2.ImportKeyPair(ctx, &ec2.ImportKeyPairInput{KeyName: aws.String(name), PublicKeyMaterial: publicKey()})
	if err := ignore(err, "InvalidKeyPair.Duplicate"); err != nil {
		return fmt.Errorf("import key pair %s: %w", name, err)
	}
	return nil
}

// publicKey gives an SSH public key (RFC 8709) of which nobody has the private
// half: the generator of the curve.
func publicKey() []byte {
	const kind = "ssh-ed25519"
	key := edwardsGenerator
	blob := binary.BigEndian.AppendUint32(nil, uint32(len(kind)))
	blob = append(blob, kind...)
	blob = binary.BigEndian.AppendUint32(blob, uint32(len(key)))
	blob = append(blob, key...)
	return []byte(kind + " " + base64.StdEncoding.EncodeToString(blob) + " admin@example.org")
}

// edwardsGenerator is the base point of Ed25519, encoded (RFC 8032).
var edwardsGenerator = append([]byte{0x58}, bytes.Repeat([]byte{0x66}, 31)...)

// ignore gives nil for an API error of one of the codes.
func ignore(err error, codes ...string) error {
	var api smithy.APIError
	if errors.As(err, &api) && slices.Contains(codes, api.ErrorCode()) {
		return nil
	}
	return err
}

// keyName is the key pair that a machine is launched with: the machine's, else
// the cluster's, else CAPA's default; an empty name means none.
func (b *builder) keyName(spec *infrav1.AWSMachineSpec) string {
	switch {
	case spec.SSHKeyName != nil:
		return *spec.SSHKeyName
	case b.env.AWSCluster.Spec.SSHKeyName != nil:
		return *b.env.AWSCluster.Spec.SSHKeyName
	default:
		return "default"
	}
}
