package providerobjects

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// AWSKeys are an access key. Printing it shows nothing of it.
type AWSKeys struct{ AccessKeyID, SecretAccessKey, SessionToken string }

// String keeps keys out of logs and errors.
func (AWSKeys) String() string { return "access key (hidden)" }

// GoString keeps keys out of logs and errors.
func (AWSKeys) GoString() string { return "access key (hidden)" }

// Login is an account of a vCenter. Printing it shows nothing of it.
type Login struct{ Username, Password string }

// String keeps passwords out of logs and errors.
func (Login) String() string { return "login (hidden)" }

// GoString keeps passwords out of logs and errors.
func (Login) GoString() string { return "login (hidden)" }

// Keys of Secrets, by who has them so.
const (
	// CAPA's AWSClusterStaticIdentity.
	keyID, keySecret, keyToken = "AccessKeyID", "SecretAccessKey", "SessionToken"
	// CAPA's own credentials, a profile file, and the variable that it is made of,
	// in base64, by clusterctl and by the Cluster API operator.
	keyProfile, keyProfileVariable = "credentials", "AWS_B64ENCODED_CREDENTIALS"
	// CAPV's VSphereClusterIdentity.
	keyUsername, keyPassword = "username", "password"
	// CAPV's own credentials, and the variables that they are made of.
	keyLogin                                 = "credentials.yaml"
	keyUsernameVariable, keyPasswordVariable = "VSPHERE_USERNAME", "VSPHERE_PASSWORD"
)

// errBlank is a Secret that is there and says nothing, as those of installations
// are whose controllers get their credentials otherwise.
var errBlank = errors.New("it has no credentials")

// AWSKeysOf reads an access key from a Secret, in any of CAPA's forms.
func AWSKeysOf(s *corev1.Secret) (AWSKeys, error) {
	text := func(key string) string { return strings.TrimSpace(string(s.Data[key])) }
	k := AWSKeys{text(keyID), text(keySecret), text(keyToken)}
	profile := text(keyProfile)
	if encoded := text(keyProfileVariable); encoded != "" {
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return AWSKeys{}, fmt.Errorf("its %s is not base64", keyProfileVariable) // the error might quote it
		}
		if profile != "" {
			return AWSKeys{}, fmt.Errorf("it has both %s and %s: leave one", keyProfile, keyProfileVariable)
		}
		profile = strings.TrimSpace(string(decoded))
	}
	switch {
	case profile != "" && k != AWSKeys{}:
		return AWSKeys{}, fmt.Errorf("it has both a profile file and %s: leave one", keyID)
	case profile != "":
		return readProfile(profile)
	case k == AWSKeys{}:
		return k, errBlank
	case k.AccessKeyID == "" || k.SecretAccessKey == "":
		return AWSKeys{}, fmt.Errorf("it has no %s or no %s", keyID, keySecret)
	}
	return k, nil
}

// readProfile reads the profile "default" of a credentials file of the AWS CLI
// (docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html). What
// would run a program, or read other files, is refused: whoever writes a Secret is
// not to do either as Holdfast.
func readProfile(text string) (AWSKeys, error) {
	values, profiles, in := map[string]string{}, []string{}, ""
	for at, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			in = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(line, "["), "]"))
			in = strings.TrimSpace(strings.TrimPrefix(in, "profile "))
			profiles = append(profiles, in)
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok {
				return AWSKeys{}, fmt.Errorf("its profile file: line %d: want KEY = VALUE or [PROFILE]", at+1)
			}
			if in == "default" {
				values[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
			}
		}
	}
	if !slices.Contains(profiles, "default") {
		return AWSKeys{}, errors.New("its profile file has no profile [default]")
	}
	for _, not := range []string{"role_arn", "source_profile", "credential_source", "credential_process", "web_identity_token_file", "sso_session", "sso_start_url"} {
		if values[not] != "" {
			return AWSKeys{}, fmt.Errorf("its profile file sets %s: give keys, and for a role an AWSClusterRoleIdentity", not)
		}
	}
	k := AWSKeys{values["aws_access_key_id"], values["aws_secret_access_key"], values["aws_session_token"]}
	switch {
	case k == AWSKeys{}:
		return k, errBlank
	case k.AccessKeyID == "" || k.SecretAccessKey == "":
		return AWSKeys{}, errors.New("its profile [default] has no aws_access_key_id or no aws_secret_access_key")
	}
	return k, nil
}

// LoginOf reads an account of a vCenter from a Secret, in any of CAPV's forms.
func LoginOf(s *corev1.Secret) (Login, error) {
	forms := []Login{
		{string(s.Data[keyUsername]), string(s.Data[keyPassword])},
		{string(s.Data[keyUsernameVariable]), string(s.Data[keyPasswordVariable])},
	}
	if file := s.Data[keyLogin]; len(file) > 0 {
		var l struct{ Username, Password string }
		if yaml.Unmarshal(file, &l) != nil { // the error might quote it
			return Login{}, fmt.Errorf("its %s is not YAML with username and password", keyLogin)
		}
		forms = append(forms, Login(l))
	}
	forms = slices.DeleteFunc(forms, func(l Login) bool { return l == Login{} })
	switch {
	case len(forms) == 0:
		return Login{}, errBlank
	case len(forms) > 1:
		return Login{}, fmt.Errorf("it has credentials in more than one form: leave one of %s, %s and %s", keyUsername, keyLogin, keyUsernameVariable)
	case forms[0].Username == "" || forms[0].Password == "":
		return Login{}, errors.New("it has no username or no password")
	}
	return forms[0], nil
}

// secret reads the Secret of a Provider; nil is one that may lack and does. Only
// the Provider's own namespace is looked into: whoever may write Providers in one
// is not to have Holdfast use what is in another.
func (r Registered) secret(ctx context.Context, reader client.Reader) (*corev1.Secret, error) {
	if r.Secret.Namespace != r.Object.Namespace {
		return nil, problem(ReasonSecretForbidden, "Secret %q is in another namespace: put it into that of the Provider, %s", brief(r.Secret.String()), r.Object.Namespace)
	}
	if problems := validation.IsDNS1123Subdomain(r.Secret.Name); len(problems) > 0 {
		return nil, problem(ReasonSecretInvalid, "%q is no name of a Secret", brief(r.Secret.Name))
	}
	s := &corev1.Secret{}
	switch err := reader.Get(ctx, *r.Secret, s); {
	case err == nil:
		return s, nil
	case apierrors.IsNotFound(err) && r.SecretMayLack:
		return nil, nil //nolint:nilnil // there is none, and need not be
	case apierrors.IsNotFound(err):
		return nil, problem(ReasonSecretNotFound, "Secret %s is not there: create it", r.Secret)
	case apierrors.IsForbidden(err):
		return nil, problem(ReasonSecretNotFound, "Secret %s may not be read: allow Holdfast to get it", r.Secret)
	default:
		return nil, fmt.Errorf("read Secret %s: %w", r.Secret, err)
	}
}

// credentials reads what the Secret of a Provider has; false is no credentials,
// so that the process's own hold. An error that is no RefusedError may pass.
func credentials[C any](ctx context.Context, reader client.Reader, r Registered, parse func(*corev1.Secret) (C, error)) (C, bool, error) {
	var none C
	if r.Secret == nil {
		return none, false, nil
	}
	s, err := r.secret(ctx, reader)
	if err != nil || s == nil {
		return none, false, err
	}
	c, err := parse(s)
	switch {
	case errors.Is(err, errBlank) && r.SecretMayLack:
		return none, false, nil
	case err != nil:
		return none, false, problem(ReasonSecretInvalid, "Secret %s: %s", r.Secret, err)
	}
	return c, true, nil
}

// check tells whether a Provider's credentials can be had.
func (r Registered) check(ctx context.Context, reader client.Reader) (has bool, err error) {
	switch r.Part {
	case AWS:
		_, has, err = credentials(ctx, reader, r, AWSKeysOf)
	case VSphere:
		_, has, err = credentials(ctx, reader, r, LoginOf)
	}
	return has, err
}
