package aws

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// longestUserData is what EC2 takes before it is encoded (RunInstances,
// UserData).
const longestUserData = 16 * 1024

const formatIgnition = "ignition"

// userData gives the launch what the machine boots with, by the way that the
// spec asks for. No error of it has any of the data in it.
func (l *launching) userData(ctx context.Context, in *ec2.RunInstancesInput) error {
	if l.Bootstrap == nil || len(l.Bootstrap.Value) == 0 {
		return fmt.Errorf("%s has no bootstrap data yet", l.Owner.Ref)
	}
	data, spec := l.Bootstrap.Value, &l.m.Spec
	ignition := l.Bootstrap.Format == formatIgnition || spec.Ignition != nil
	switch format := l.Bootstrap.Format; {
	case format != "" && format != "cloud-config" && format != formatIgnition:
		return unsupported("the bootstrap data has the format %q: want cloud-config or ignition", providers.Cleaner{Max: 40}.Clean(format))
	case ignition && (spec.Ignition == nil || spec.Ignition.StorageType != infrav1.IgnitionStorageTypeOptionUnencryptedUserData):
		return unsupported("the bootstrap data is for Ignition, and is to be kept in the cluster's S3 bucket, which is not supported: set spec.ignition.storageType of the AWSMachine's template to %s", infrav1.IgnitionStorageTypeOptionUnencryptedUserData)
	case !ignition && !spec.CloudInit.InsecureSkipSecretsManager:
		var err error
		if data, err = l.keepSecretly(ctx, data); err != nil {
			return err
		}
	}
	asked := spec.UncompressedUserData != nil && !*spec.UncompressedUserData
	if !ignition && (asked || spec.UncompressedUserData == nil && len(data) > longestUserData) {
		data = zipped(data) // cloud-init unzips what is zipped
	}
	if len(data) > longestUserData {
		return refused("the machine boots with %d bytes, and EC2 takes %d: have them kept in Secrets Manager (leave out spec.cloudInit.insecureSkipSecretsManager), or boot with less", len(data), longestUserData)
	}
	in.UserData = ptr(base64.StdEncoding.EncodeToString(data))
	return nil
}

// zipped is the same for the same data, so that a second try sends what the
// first one did.
func zipped(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(data) // a buffer takes all
	_ = w.Close()
	return out.Bytes()
}
