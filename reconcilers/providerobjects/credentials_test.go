package providerobjects

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const (
	keyOne    = "AKIAONE"
	secretOne = "abc/def+ghi="
)

func TestAWSKeysOf(t *testing.T) {
	profile := "[default]\naws_access_key_id = AKIAONE\naws_secret_access_key = abc/def+ghi=\nregion = eu-west-1\n"
	keys := AWSKeys{AccessKeyID: keyOne, SecretAccessKey: secretOne}
	for name, c := range map[string]struct {
		data map[string]string
		want AWSKeys
		say  string
	}{
		"keys, with the end of a line": {map[string]string{"AccessKeyID": keyOne + "\n", "SecretAccessKey": secretOne + "\n", "SessionToken": "t"}, AWSKeys{keyOne, secretOne, "t"}, ""},
		"a profile file":               {map[string]string{"credentials": profile}, keys, ""},
		"in base64, as a variable":     {map[string]string{"AWS_B64ENCODED_CREDENTIALS": base64.StdEncoding.EncodeToString([]byte(profile))}, keys, ""},
		"with a token, comments and others": {
			map[string]string{"credentials": "# x\n; y\n\n[other]\naws_access_key_id=NO\n[ default ]\r\nAWS_ACCESS_KEY_ID=AKIAONE\r\naws_secret_access_key=abc/def+ghi=\r\naws_session_token=t\n"},
			AWSKeys{keyOne, secretOne, "t"}, "",
		},
		"a config file's profile": {map[string]string{"credentials": strings.Replace(profile, "[default]", "[profile default]", 1)}, keys, ""},
		"nothing":                 {nil, AWSKeys{}, "it has no credentials"},
		"blank":                   {map[string]string{"credentials": "\n"}, AWSKeys{}, "it has no credentials"},
		"an empty profile":        {map[string]string{"credentials": "[default]\nregion = x\n"}, AWSKeys{}, "it has no credentials"},
		"no secret":               {map[string]string{"AccessKeyID": keyOne}, AWSKeys{}, "no AccessKeyID or no SecretAccessKey"},
		"half a profile":          {map[string]string{"credentials": "[default]\naws_access_key_id = AKIAONE"}, AWSKeys{}, "no aws_access_key_id or no aws_secret_access_key"},
		"both":                    {map[string]string{"AccessKeyID": keyOne, "SecretAccessKey": secretOne, "credentials": profile}, AWSKeys{}, "both a profile file and AccessKeyID"},
		"another profile":         {map[string]string{"credentials": strings.Replace(profile, "default", "prod", 1)}, AWSKeys{}, "no profile [default]"},
		"not a profile file":      {map[string]string{"credentials": "AKIAONE abc"}, AWSKeys{}, "line 1: want KEY = VALUE"},
		"not base64":              {map[string]string{"AWS_B64ENCODED_CREDENTIALS": "AKIA ONE"}, AWSKeys{}, "is not base64"},
		"a program":               {map[string]string{"credentials": "[default]\ncredential_process = /bin/sh -c abc\n"}, AWSKeys{}, "sets credential_process"},
		"a role":                  {map[string]string{"credentials": profile + "role_arn = x\n"}, AWSKeys{}, "sets role_arn"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := AWSKeysOf(secretOf(c.data))
			expect(t, got, c.want, err, c.say)
		})
	}
}

func TestLoginOf(t *testing.T) {
	want := Login{"administrator@vsphere.local", " p'w\n"}
	for name, c := range map[string]struct {
		data map[string]string
		want Login
		say  string
	}{
		"keys":              {map[string]string{"username": want.Username, "password": want.Password}, want, ""},
		"variables":         {map[string]string{"VSPHERE_USERNAME": want.Username, "VSPHERE_PASSWORD": want.Password}, want, ""},
		"CAPV's file":       {map[string]string{"credentials.yaml": "username: 'administrator@vsphere.local'\npassword: \" p'w\\n\"\n"}, want, ""},
		"nothing":           {nil, Login{}, "it has no credentials"},
		"CAPV's file blank": {map[string]string{"credentials.yaml": "username: ''\npassword: ''"}, Login{}, "it has no credentials"},
		"no password":       {map[string]string{"username": "u"}, Login{}, "no username or no password"},
		"two forms":         {map[string]string{"username": "u", "password": "p", "VSPHERE_USERNAME": "v"}, Login{}, "more than one form"},
		"not YAML":          {map[string]string{"credentials.yaml": "secret-word: ["}, Login{}, "is not YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := LoginOf(secretOf(c.data))
			expect(t, got, c.want, err, c.say)
		})
	}
}

func secretOf(data map[string]string) *corev1.Secret {
	s := &corev1.Secret{Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

func expect[C comparable](t *testing.T, got, want C, err error, say string) {
	t.Helper()
	if (err == nil) != (say == "") || err != nil && !strings.Contains(err.Error(), say) {
		t.Errorf("the error is %v, want one that says %q", err, say)
	}
	if got != want {
		t.Error("the credentials are others")
	}
	for _, hidden := range []string{keyOne, secretOne, "abc", "secret-word", "p'w"} {
		if text := fmt.Sprintf("%v %+v %#v %v", any(got), any(got), any(got), err); strings.Contains(text, hidden) {
			t.Errorf("it is printed: %s", text)
		}
	}
}

func FuzzReadProfile(f *testing.F) {
	f.Add("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
	f.Add("[")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := readProfile(text)
		if err == nil && (k.AccessKeyID == "" || k.SecretAccessKey == "") {
			t.Errorf("%q gives half a key", text)
		}
	})
}
