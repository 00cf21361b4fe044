package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// commandLine is a line of documentation that runs the program.
var commandLine = regexp.MustCompile(`(?m)^(?:#\s+|\$ |\s+)*((?:[A-Z_]+=\S+ )?(?:kubectl )?holdfast (?:report|controller|remediations|sweep|status|policy|demo|version|completion)\b[^\n#|>]*)`)

// TestDocumentedCommands parses every command line in README, docs and
// examples, so that none names a command or flag that does not exist.
func TestDocumentedCommands(t *testing.T) {
	root := filepath.Join("..", "..")
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		inDocs := filepath.Ext(path) == ".md" || strings.Contains(path, "examples") && filepath.Ext(path) == ".yaml"
		if d.IsDir() || !inDocs || strings.HasSuffix(path, "cli.md") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range commandLine.FindAllStringSubmatch(string(data), -1) {
			found++
			parses(t, path, m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 6 {
		t.Errorf("only %d documented commands were found", found)
	}
}

func parses(t *testing.T, path, line string) {
	t.Helper()
	_, args, _ := strings.Cut(strings.TrimSpace(line), "holdfast ")
	words := strings.Fields(args)
	for i := range words {
		words[i] = strings.Trim(words[i], `"'`)
	}
	cmd, rest, err := newRootCommand("holdfast").Find(words)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil {
		t.Errorf("%s: %q: %v", path, line, err)
	}
}

// TestPermissions checks that the documented IAM policy allows exactly the calls
// that a scan makes.
func TestPermissions(t *testing.T) {
	w := newAWSWorld(t)
	// The one call that depends on what the machines ask for.
	w.env.AWSMachines[0].Spec.RootVolume.EncryptionKey = "alias/aws/ebs"
	w.write(t)
	classic := newAWSWorldOf(t, "dev-classic.yaml")
	var made []string
	for _, w := range []*awsWorld{w, classic} {
		w.use(t)
		w.terminate(t)
		w.sim.ResetCalls()
		w.built = 0
		if o := w.report(t); o.code != 1 {
			t.Fatalf("exit %d: %s", o.code, o.stderr)
		}
		for _, c := range w.sim.Calls() {
			service := map[string]string{"ec2": "ec2", "elb": "elasticloadbalancing", "elbv2": "elasticloadbalancing", "kms": "kms"}[c.Service]
			if service != "" {
				made = append(made, service+":"+c.Action)
			} else if c.Action != "GetCallerIdentity" {
				t.Errorf("a scan calls %s:%s, which the documented policy has no service for", c.Service, c.Action)
			}
		}
	}
	slices.Sort(made)
	made = slices.Compact(made)
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "permissions-aws.json"))
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Statement []struct{ Action []string }
	}
	if err := json.Unmarshal(data, &policy); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(policy.Statement[0].Action, made); d != "" {
		t.Errorf("docs/permissions-aws.json is not what a scan calls (-document +calls):\n%s", d)
	}
}

// TestDemo plays the demo and checks that README shows what it prints.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("LC_ALL", "C.UTF-8")
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
		"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_EC2_METADATA_DISABLED"} {
		t.Setenv(name, "") // the demo sets them for its process, and this restores them
	}
	html := filepath.Join(dir, "demo.html")
	o := holdfast(t, "demo", "--html", html, "--keep", filepath.Join(dir, "kept"))
	if o.code != 0 {
		t.Fatalf("exit %d: %s", o.code, o.stderr)
	}
	if info, err := os.Stat(html); err != nil || info.Size() < 10_000 {
		t.Errorf("no HTML report: %v", err)
	}
	for _, say := range []string{"everything that was compared is in sync", "made no changing one", "nothing was changed"} {
		if !strings.Contains(o.stdout, say) {
			t.Errorf("the demo does not say %q", say)
		}
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, sample, found := strings.Cut(string(readme), "<!-- a test compares this with what the demo prints -->\n```\n")
	sample, _, _ = strings.Cut(sample, "```")
	if !found || !strings.Contains(o.stdout, sample) {
		t.Errorf("the demo does not print README's sample:\n%s\nbut\n%s", sample, o.stdout)
	}
	replayed := holdfast(t, "report", "--objects", filepath.Join(dir, "kept", "objects"), "--snapshot", filepath.Join(dir, "kept", "snapshot.json"))
	if replayed.code != 1 || !strings.Contains(replayed.stdout, sample) {
		t.Errorf("the kept snapshot replays to exit %d:\n%s%s", replayed.code, replayed.stdout, replayed.stderr)
	}
}

// TestUnknownCommand: a misspelled command must not look like a good report.
func TestUnknownCommand(t *testing.T) {
	o := holdfast(t, "reprot")
	if o.code != exitError || !strings.Contains(o.stderr, "did you mean report?") || o.stdout != "" {
		t.Errorf("exit %d, want %d\n%s%s", o.code, exitError, o.stdout, o.stderr)
	}
}
