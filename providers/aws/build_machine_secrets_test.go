package aws

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// kept reads what is kept of bootstrap data, by name, in the encoding in which
// the AWS CLI gives it.
func (g *machineGround) kept() map[string]string {
	g.t.Helper()
	s, err := g.p.sessionOf(g.t.Context(), g.scope)
	if err != nil {
		g.t.Fatal(err)
	}
	out, ctx := map[string]string{}, context.Background()
	secrets, err := s.secrets.ListSecrets(ctx, &secretsmanager.ListSecretsInput{})
	if err != nil {
		g.t.Fatal(err)
	}
	for _, e := range secrets.SecretList {
		v, err := s.secrets.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: e.Name})
		if err != nil {
			g.t.Fatal(err)
		}
		if len(e.Tags) < 5 {
			g.t.Errorf("%s has the tags %v", *e.Name, e.Tags)
		}
		out[*e.Name] = base64.StdEncoding.EncodeToString(v.SecretBinary)
	}
	parameters, err := s.ssm.GetParametersByPath(ctx, &ssm.GetParametersByPathInput{Path: ptr("/cluster.x-k8s.io"), Recursive: ptr(true), WithDecryption: ptr(true)})
	if err != nil {
		g.t.Fatal(err)
	}
	for _, p := range parameters.Parameters {
		if p.Type != "SecureString" || len(*p.Value) > 4096 {
			g.t.Errorf("%s is a %s of %d characters", *p.Name, p.Type, len(*p.Value))
		}
		out[*p.Name] = *p.Value
	}
	return out
}

func newSecretGround(t *testing.T, backend infrav1.SecretBackend) *machineGround {
	t.Helper()
	if err := motoServer.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := newMachineGround(t, "dev-classic.yaml", ec2sim.Options{})
	g.m.Spec.CloudInit = infrav1.CloudInit{SecureSecretsBackend: backend}
	noise := make([]byte, 8000)
	_, _ = rand.Read(noise)
	g.boot = &providers.BootstrapData{Value: []byte("#cloud-config\n# h-unter2 " + base64.StdEncoding.EncodeToString(noise) + "\n")}
	return g
}

// runBoot runs a machine's script against what is kept, as the machine would, and
// gives what it boots with then.
func runBoot(t *testing.T, script string, kept map[string]string) (booted string, left []string) {
	t.Helper()
	dir := t.TempDir()
	store, bin, target := filepath.Join(dir, "store"), filepath.Join(dir, "bin"), filepath.Join(dir, "secret-userdata.txt")
	for _, d := range []string{store, bin} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) string { return filepath.Join(store, strings.ReplaceAll(name, "/", "+")) }
	for name, value := range kept {
		if err := os.WriteFile(file(name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The CLI, in as far as the script uses it. It fails now and then.
	cli := `#!/bin/bash
what="$1 $2"; shift 2
[ -f ` + dir + `/failed ] || { touch ` + dir + `/failed; echo "no route" >&2; exit 255; }
while [ $# -gt 0 ]; do
  case "$1" in
    --region) [ "$2" = eu-central-1 ] || exit 9; shift 2;;
    --secret-id|--name) id="` + store + `/${2//\//+}"; shift 2;;
    --query|--output) shift 2;;
    --with-decryption|--force-delete-without-recovery) shift;;
    *) exit 8;;
  esac
done
case "$what" in
  "secretsmanager get-secret-value"|"ssm get-parameter") cat "$id";;
  "secretsmanager delete-secret"|"ssm delete-parameter") rm "$id";;
  *) exit 7;;
esac
`
	for name, text := range map[string]string{"aws": cli, "sleep": "#!/bin/bash\n", "systemctl": "#!/bin/bash\ntouch " + dir + "/restarted-$1-$2\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "boot.sh")
	if err := os.WriteFile(path, []byte(strings.Replace(script, "/etc/secret-userdata.txt", target, 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second boot finds the file
		cmd := exec.Command("bash", path)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "restarted-restart-cloud-init")); err != nil {
		t.Error("cloud-init was not started again")
	}
	data, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(store)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return string(data), left
}

// documentParts reads a document as cloud-init does.
func documentParts(t *testing.T, document string) map[string]string {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	_, boundary, _ := strings.Cut(message.Header.Get("Content-Type"), `boundary="`)
	r := multipart.NewReader(message.Body, strings.TrimSuffix(boundary, `"`))
	out := map[string]string{}
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(part.Header.Get("Content-Type"), ";")
		out[kind] = string(data)
	}
}

// What a machine boots with is kept for it, is fetched and deleted by it, and is
// deleted with it where it never booted.
func TestMachineSecrets(t *testing.T) {
	for backend, tc := range map[infrav1.SecretBackend]struct {
		prefix string
		count  int
	}{
		"":                                     {prefix: "aws.cluster.x-k8s.io/11111111-2222-3333-4444-555555555555-", count: 2},
		infrav1.SecretBackendSSMParameterStore: {prefix: "/cluster.x-k8s.io/11111111-2222-3333-4444-555555555555/", count: 3},
	} {
		t.Run(string(backend), func(t *testing.T) {
			g := newSecretGround(t, backend)
			g.made()
			kept := g.kept()
			if len(kept) != tc.count || int(g.m.Spec.CloudInit.SecretCount) != tc.count {
				t.Errorf("%d pieces are kept and %d recorded, want %d", len(kept), g.m.Spec.CloudInit.SecretCount, tc.count)
			}
			for n := range tc.count {
				if kept[fmt.Sprintf("%s%d", tc.prefix, n)] == "" {
					t.Errorf("nothing is kept under %s%d", tc.prefix, n)
				}
			}
			document := g.booted()
			if strings.Contains(document, "h-unter2") || len(document) > longestUserData {
				t.Error("the document has what is secret in it, or is too long")
			}
			p := documentParts(t, document)
			if strings.TrimSpace(p["text/x-include-url"]) != "file:///etc/secret-userdata.txt" || !strings.HasPrefix(p["text/cloud-boothook"], "#cloud-boothook\n#!/bin/bash\n") {
				t.Errorf("%q", p)
			}
			booted, left := runBoot(t, p["text/cloud-boothook"], kept)
			if booted != string(g.boot.Value) || len(left) > 0 {
				t.Errorf("it boots with %d bytes of %d, and leaves %v", len(booted), len(g.boot.Value), left)
			}
			if _, err := g.unmake(); err != nil {
				t.Fatal(err)
			}
			if kept := g.kept(); len(kept) > 0 {
				t.Errorf("%d pieces are left of a machine that is gone", len(kept))
			}
		})
	}
}

// A launch that fails leaves nothing secret behind, and one that is tried again
// has all of it.
func TestMachineSecretsOfAFailedLaunch(t *testing.T) {
	for _, backend := range []infrav1.SecretBackend{infrav1.SecretBackendSecretsManager, infrav1.SecretBackendSSMParameterStore} {
		t.Run(string(backend), func(t *testing.T) {
			g := newSecretGround(t, backend)
			remove := g.sim.InjectFault(ec2sim.Fault{Action: "RunInstances", Kind: ec2sim.FaultError, Code: "VcpuLimitExceeded"})
			g.observe()
			if _, err := g.pass(); reasonOf(err) != providers.ReasonRefused {
				t.Fatal(err)
			}
			if kept := g.kept(); len(kept) > 0 {
				t.Errorf("%d pieces are left", len(kept))
			}
			remove()
			// No answer at all: the instance may be there, and needs what is kept.
			remove = g.sim.InjectFault(ec2sim.Fault{Action: "RunInstances", Kind: ec2sim.FaultDrop})
			if _, err := g.pass(); err == nil {
				t.Fatal("no failure was seen")
			}
			if kept := g.kept(); len(kept) == 0 {
				t.Error("nothing is kept for an instance that may be there")
			}
			remove()
			g.made()
			p := documentParts(t, g.booted())
			if booted, _ := runBoot(t, p["text/cloud-boothook"], g.kept()); !bytes.Equal([]byte(booted), g.boot.Value) {
				t.Error("it boots with something else")
			}
		})
	}
}

// A name that the shell could take for more than a name is refused.
func TestMachineSecretPrefix(t *testing.T) {
	g := newSecretGround(t, "")
	g.m.Spec.CloudInit.SecretPrefix = "x$(reboot)"
	g.observe()
	if _, err := g.pass(); reasonOf(err) != providers.ReasonRefused || !strings.Contains(err.Error(), "secretPrefix") {
		t.Errorf("%v", err)
	}
}

// What the webhook of CAPA sets is set, and nothing else.
func TestSettleMachine(t *testing.T) {
	const uid = "11111111-2222-3333-4444-555555555555"
	for name, tc := range map[string]struct{ spec, want infrav1.AWSMachineSpec }{
		"secrets": {want: infrav1.AWSMachineSpec{CloudInit: infrav1.CloudInit{SecureSecretsBackend: "secrets-manager", SecretPrefix: "aws.cluster.x-k8s.io/" + uid}}},
		"SSM": {
			spec: infrav1.AWSMachineSpec{CloudInit: infrav1.CloudInit{SecureSecretsBackend: "ssm-parameter-store"}},
			want: infrav1.AWSMachineSpec{CloudInit: infrav1.CloudInit{SecureSecretsBackend: "ssm-parameter-store", SecretPrefix: "/cluster.x-k8s.io/" + uid}},
		},
		"launched": {
			spec: infrav1.AWSMachineSpec{InstanceID: ptr("i-0123456789abcdef0")},
			want: infrav1.AWSMachineSpec{InstanceID: ptr("i-0123456789abcdef0"), CloudInit: infrav1.CloudInit{SecureSecretsBackend: "secrets-manager"}},
		},
		"insecure": {
			spec: infrav1.AWSMachineSpec{CloudInit: infrav1.CloudInit{InsecureSkipSecretsManager: true}},
			want: infrav1.AWSMachineSpec{CloudInit: infrav1.CloudInit{InsecureSkipSecretsManager: true}},
		},
		"ignition": {
			spec: infrav1.AWSMachineSpec{Ignition: &infrav1.Ignition{}},
			want: infrav1.AWSMachineSpec{Ignition: &infrav1.Ignition{StorageType: "ClusterObjectStore", Version: "2.3"}},
		},
		"ignition as it is": {
			spec: infrav1.AWSMachineSpec{Ignition: &infrav1.Ignition{StorageType: "UnencryptedUserData"}},
			want: infrav1.AWSMachineSpec{Ignition: &infrav1.Ignition{StorageType: "UnencryptedUserData"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &infrav1.AWSMachine{Spec: tc.spec}
			m.UID = uid
			b := &building{owner: &providers.Owner{Infra: m}}
			for range 2 { // what is decided stays
				if err := b.settleMachine(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				if !equalSpecs(m.Spec, tc.want) {
					t.Errorf("%+v, want %+v", m.Spec, tc.want)
				}
			}
		})
	}
}

func equalSpecs(a, b infrav1.AWSMachineSpec) bool {
	return a.CloudInit == b.CloudInit && (a.Ignition == nil) == (b.Ignition == nil) &&
		(a.Ignition == nil || a.Ignition.StorageType == b.Ignition.StorageType && a.Ignition.Version == b.Ignition.Version) &&
		deref(a.InstanceID) == deref(b.InstanceID)
}
