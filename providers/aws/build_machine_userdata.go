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

// Formats of bootstrap data (the Secret's key format).
const (
	formatIgnition    = "ignition"
	formatCloudConfig = "cloud-config"
)

// userData gives the launch what the machine boots with, by the way that the
// spec asks for. No error of it has any of the data in it.
func (l *launching) userData(ctx context.Context, in *ec2.RunInstancesInput) error {
	if l.Bootstrap == nil || len(l.Bootstrap.Value) == 0 {
		return fmt.Errorf("%s has no bootstrap data yet", l.Owner.Ref)
	}
	data, spec := l.Bootstrap.Value, &l.m.Spec
	ignition, err := l.ignition()
	if err != nil {
		return err
	}
	if !ignition {
		if !spec.CloudInit.InsecureSkipSecretsManager {
			if data, err = l.keepSecretly(ctx, data); err != nil {
				return err
			}
		}
		long := spec.UncompressedUserData == nil && len(data) > longestUserData
		if long || spec.UncompressedUserData != nil && !*spec.UncompressedUserData {
			data = zipped(data) // cloud-init unzips what is zipped
		}
	}
	if len(data) > longestUserData {
		return refused("the machine boots with %d bytes, and EC2 takes %d: have them kept in Secrets Manager (leave out spec.cloudInit.insecureSkipSecretsManager), or boot with less", len(data), longestUserData)
	}
	in.UserData = ptr(base64.StdEncoding.EncodeToString(data))
	return nil
}

// ignition says whether the machine boots by Ignition rather than cloud-init.
func (l *launching) ignition() (bool, error) {
	format, spec := l.Bootstrap.Format, l.m.Spec.Ignition
	if format != formatIgnition && format != formatCloudConfig && format != "" {
		return false, unsupported("the bootstrap data has the format %q: want %s or %s", providers.Cleaner{Max: 40}.Clean(format), formatCloudConfig, formatIgnition)
	}
	if format != formatIgnition && spec == nil {
		return false, nil
	}
	if direct := infrav1.IgnitionStorageTypeOptionUnencryptedUserData; spec == nil || spec.StorageType != direct {
		return true, unsupported("the bootstrap data is for Ignition, and is to be kept in the cluster's S3 bucket, which is not supported: set spec.ignition.storageType of the AWSMachine's template to %s", direct)
	}
	return true, nil
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
