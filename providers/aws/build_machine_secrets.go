package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	secretstypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// secretsTag says on an instance in how many pieces its bootstrap data is kept,
// which only the launch knows.
const secretsTag = "drift.holdfast.io/bootstrap-secrets"

// Sizes of a piece. Secrets Manager encodes binary values before it counts them
// (CAPA keeps to the same size); SSM's standard parameters have 4 KiB of text.
const (
	secretPiece    = 7000
	parameterPiece = 3000 // 4000 characters in base64
	mostPieces     = 64
)

// safeName is what may stand in the machine's script as it is.
var safeName = regexp.MustCompile(`^[/A-Za-z0-9_.-]{1,200}$`)

// secretStore keeps pieces of bootstrap data under names.
type secretStore interface {
	// put is idempotent.
	put(ctx context.Context, name string, piece []byte, tags infrav1.Tags) error
	// drop says whether there was such a piece.
	drop(ctx context.Context, name string) (bool, error)
	// name of a piece under a prefix.
	name(prefix string, n int) string
	size() int
	// fetch and remove are what a machine runs for the piece $1: fetch writes
	// it to standard output.
	fetch() string
	remove() string
}

// storeOf gives the place that the spec names.
func (b *building) storeOf(m *infrav1.AWSMachine) (secretStore, error) {
	switch backend := m.Spec.CloudInit.SecureSecretsBackend; backend {
	case infrav1.SecretBackendSecretsManager:
		return secretsManager{b.secrets}, nil
	case infrav1.SecretBackendSSMParameterStore:
		return parameterStore{b.ssm}, nil
	default:
		return nil, unsupported("spec.cloudInit.secureSecretsBackend is %q: want %s or %s, or set spec.cloudInit.insecureSkipSecretsManager",
			backend, infrav1.SecretBackendSecretsManager, infrav1.SecretBackendSSMParameterStore)
	}
}

// keepSecretly stores the data, and gives a script in its stead that fetches the
// data and deletes it where it was kept.
func (l *launching) keepSecretly(ctx context.Context, data []byte) ([]byte, error) {
	prefix := l.m.Spec.CloudInit.SecretPrefix
	switch {
	case prefix == "":
		return nil, fmt.Errorf("spec.cloudInit.secretPrefix of %s is not settled yet", l.Owner.Ref)
	case !safeName.MatchString(prefix) || !safeName.MatchString(l.region):
		return nil, refused("spec.cloudInit.secretPrefix may have letters, digits and /_.- in it, and nothing else")
	}
	store, err := l.storeOf(l.m)
	if err != nil {
		return nil, err
	}
	pieces := slices.Collect(slices.Chunk(zipped(data), store.size()))
	if len(pieces) > mostPieces {
		return nil, refused("the bootstrap data has %d bytes, which is more than can be kept for a machine", len(data))
	}
	var names []string
	for n, piece := range pieces {
		name := store.name(prefix, n)
		if err := store.put(ctx, name, piece, l.tags); err != nil {
			l.dropSecrets(ctx)
			return nil, launchError(err, "keep the bootstrap data of "+l.Owner.Ref.String()+" under "+name)
		}
		names = append(names, name)
	}
	l.tags[secretsTag] = strconv.Itoa(len(pieces))
	return bootScript(store, names, l.region), nil
}

// dropTime bounds what is taken back after a failure, also for a process that is
// told to stop.
const dropTime = 10 * time.Second

// dropSecrets takes back what was kept for a launch that failed. What is left by
// a failure of this too is taken by the next try, or with the machine.
func (l *launching) dropSecrets(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	_ = l.forgetSecrets(ctx, l.m, 0)
}

// forgetSecrets deletes the bootstrap data that was kept for a machine: so many
// pieces at least, and more while there are any. The machine deletes them itself
// when it boots.
func (b *building) forgetSecrets(ctx context.Context, m *infrav1.AWSMachine, least int) error {
	init := &m.Spec.CloudInit
	if init.SecretPrefix == "" || init.InsecureSkipSecretsManager || m.Spec.Ignition != nil {
		return nil
	}
	store, err := b.storeOf(m)
	if err != nil {
		return err
	}
	for n := range mostPieces {
		name := store.name(init.SecretPrefix, n)
		there, err := store.drop(ctx, name)
		if err != nil {
			return launchError(err, "delete the bootstrap data under "+name)
		}
		if !there && n >= least {
			return nil
		}
	}
	return nil
}

type secretsManager struct{ secrets *secretsmanager.Client }

func (secretsManager) size() int                        { return secretPiece }
func (secretsManager) name(prefix string, n int) string { return prefix + "-" + strconv.Itoa(n) }

func (s secretsManager) put(ctx context.Context, name string, piece []byte, tags infrav1.Tags) error {
	in := &secretsmanager.CreateSecretInput{Name: &name, SecretBinary: piece}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		in.Tags = append(in.Tags, secretstypes.Tag{Key: ptr(key), Value: ptr(tags[key])})
	}
	_, err := s.secrets.CreateSecret(ctx, in)
	if exists := (*secretstypes.ResourceExistsException)(nil); errors.As(err, &exists) {
		_, err = s.secrets.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{SecretId: &name, SecretBinary: piece})
	}
	return err
}

func (s secretsManager) drop(ctx context.Context, name string) (bool, error) {
	_, err := s.secrets.DeleteSecret(ctx, &secretsmanager.DeleteSecretInput{SecretId: &name, ForceDeleteWithoutRecovery: ptr(true)})
	if missing := (*secretstypes.ResourceNotFoundException)(nil); errors.As(err, &missing) {
		return false, nil
	}
	return err == nil, err
}

func (secretsManager) fetch() string {
	return `aws secretsmanager get-secret-value --region "$region" --secret-id "$1" --query SecretBinary --output text | base64 -d`
}

func (secretsManager) remove() string {
	return `aws secretsmanager delete-secret --region "$region" --secret-id "$1" --force-delete-without-recovery`
}

type parameterStore struct{ ssm *ssm.Client }

func (parameterStore) size() int                        { return parameterPiece }
func (parameterStore) name(prefix string, n int) string { return prefix + "/" + strconv.Itoa(n) }

func (s parameterStore) put(ctx context.Context, name string, piece []byte, tags infrav1.Tags) error {
	in := &ssm.PutParameterInput{Name: &name, Value: ptr(base64.StdEncoding.EncodeToString(piece)), Type: ssmtypes.ParameterTypeSecureString}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		in.Tags = append(in.Tags, ssmtypes.Tag{Key: ptr(key), Value: ptr(tags[key])})
	}
	_, err := s.ssm.PutParameter(ctx, in)
	if exists := (*ssmtypes.ParameterAlreadyExists)(nil); errors.As(err, &exists) {
		in.Tags, in.Overwrite = nil, ptr(true) // it takes no tags together with an overwrite
		_, err = s.ssm.PutParameter(ctx, in)
	}
	return err
}

func (s parameterStore) drop(ctx context.Context, name string) (bool, error) {
	_, err := s.ssm.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: &name})
	if missing := (*ssmtypes.ParameterNotFound)(nil); errors.As(err, &missing) {
		return false, nil
	}
	return err == nil, err
}

func (parameterStore) fetch() string {
	return `aws ssm get-parameter --region "$region" --name "$1" --with-decryption --query Parameter.Value --output text | base64 -d`
}

func (parameterStore) remove() string {
	return `aws ssm delete-parameter --region "$region" --name "$1"`
}
