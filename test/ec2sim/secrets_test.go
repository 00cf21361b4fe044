package ec2sim_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// CreateSecret, PutSecretValue, GetSecretValue, ListSecrets, DeleteSecret (Secrets
// Manager API reference).
func TestSecrets(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	ctx := t.Context()
	c := secretsmanager.NewFromConfig(w.config())
	made := must(c.CreateSecret(ctx, &secretsmanager.CreateSecretInput{Name: str("boot/m1"), SecretBinary: []byte("first")}))(t)
	if !strings.HasPrefix(*made.ARN, "arn:aws:secretsmanager:"+region+":123456789012:secret:boot/m1-") {
		t.Errorf("its ARN is %s", *made.ARN)
	}
	wantCode(t, second(c.CreateSecret(ctx, &secretsmanager.CreateSecretInput{Name: str("boot/m1")})), "ResourceExistsException", 400)
	wantCode(t, second(c.CreateSecret(ctx, &secretsmanager.CreateSecretInput{Name: str("big"), SecretBinary: make([]byte, 65537)})), "InvalidParameterException", 400)

	value := func(id string) *secretsmanager.GetSecretValueOutput {
		return must(c.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &id}))(t)
	}
	if got := value("boot/m1"); string(got.SecretBinary) != "first" || got.SecretString != nil {
		t.Errorf("it holds %q and %v", got.SecretBinary, got.SecretString)
	}
	changed := must(c.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{SecretId: str("boot/m1"), SecretString: str("second")}))(t)
	if got := value(*made.ARN); aws.ToString(got.SecretString) != "second" || len(got.SecretBinary) > 0 || *got.VersionId != *changed.VersionId || *got.VersionId == *made.VersionId {
		t.Errorf("by its ARN it is %+v, version %s before and %s after the change", got, *made.VersionId, *changed.VersionId)
	}

	list := func() int {
		return len(must(c.ListSecrets(ctx, &secretsmanager.ListSecretsInput{}))(t).SecretList)
	}
	if n := list(); n != 1 {
		t.Errorf("there are %d secrets, want the one that was not refused", n)
	}
	must(c.DeleteSecret(ctx, &secretsmanager.DeleteSecretInput{SecretId: str("boot/m1"), ForceDeleteWithoutRecovery: aws.Bool(true)}))(t)
	wantCode(t, second(c.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: made.ARN})), "ResourceNotFoundException", 400)
	wantCode(t, second(c.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{SecretId: made.ARN})), "ResourceNotFoundException", 400)
	if n := list(); n != 0 {
		t.Errorf("after the end there are %d", n)
	}
}
