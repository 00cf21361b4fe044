package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// TestFirstHourPage: what can be told of docs/first-hour.md without running it.
func TestFirstHourPage(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := blocks(t, string(data))
	if len(all) < 10 || all[0].run != "make first-hour\n" {
		t.Fatalf("%s has %d blocks, and begins with %q", page, len(all), all[0].run)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil || !strings.Contains(string(makefile), "\thack/first-hour.sh\n") {
		t.Errorf("make first-hour does not run what the test runs: %v", err)
	}
	for _, b := range all {
		cmd := exec.Command("bash", "-n")
		cmd.Stdin = strings.NewReader(b.run)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, b.run)
		}
		if b.shown != nil && strings.TrimSpace(*b.shown) == "" {
			t.Errorf("nothing is shown after %s", b.run)
		}
	}
}

// TestEssence: what the machine's pace and the run's names decide does not count,
// and what was decided does.
func TestEssence(t *testing.T) {
	a := essence("prod/prod-eu  Drifted  86s  4\nLAST DEPLOYED: Mon Nov 30 21:42:34 2026\n└─ AWSMachine prod-eu-general-8gdgl-m92f8 i-0cd19f198025ce714\nprod-eu-9bf7e48a91  Succeeded\n")
	b := essence("prod/prod-eu Drifted 1m2s   4\nLAST DEPLOYED: Tue May 1 1:42:34 2027\n└─ AWSMachine prod-eu-general-zzzzz-12345 i-0123456789abcdef0\nprod-eu-0000e48a91  Succeeded\n")
	if strings.Join(a, "|") != strings.Join(b, "|") {
		t.Errorf("%q\n%q", a, b)
	}
	if c := essence("prod-eu-0000e48a91  Failed\n"); c[0] == a[3] {
		t.Error("another phase makes no difference")
	}
}

// TestCareless changes a simulated AWS, as the page has the reader do, and no other.
func TestCareless(t *testing.T) {
	const region = "eu-central-1"
	sim := ec2sim.New(ec2sim.Options{Regions: []string{region}, Delays: &ec2sim.Delays{}})
	t.Cleanup(sim.Close)
	key := sim.Credentials()[0]
	clients := awscluster.ClientsFrom(sim.Config(region))
	vpc, err := clients.EC2.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	id := *vpc.Vpc.VpcId
	group, err := clients.EC2.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{VpcId: &id, GroupName: aws.String("g"), Description: aws.String("d")})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": sim.URL(), "AWS_REGION": region,
		"AWS_ACCESS_KEY_ID": key.AccessKeyID, "AWS_SECRET_ACCESS_KEY": key.SecretAccessKey} {
		t.Setenv(name, value)
	}
	careless := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := run(t.Context(), append([]string{"careless"}, args...), &out, &out)
		return code, out.String()
	}
	tags := func() int {
		out, err := clients.EC2.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{VpcIds: []string{id}})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Vpcs[0].Tags)
	}
	if code, said := careless("tag", id, "a=b"); code != exitOK || tags() != 1 {
		t.Errorf("tag: exit %d, %d tags: %s", code, tags(), said)
	}
	if code, said := careless("untag", id, "a"); code != exitOK || tags() != 0 {
		t.Errorf("untag: exit %d, %d tags: %s", code, tags(), said)
	}
	o := &operator{aws: clients}
	code, said := careless("open", *group.GroupId)
	if open, err := o.isOpen(t.Context(), *group.GroupId); code != exitOK || err != nil || !open {
		t.Errorf("open: exit %d, open %t, %v: %s", code, open, err, said)
	}
	for _, args := range [][]string{{}, {"tag", id}, {"tag", id, "a"}, {"open"}, {"close", id}} {
		if code, said := careless(args...); code != exitUsage || !strings.Contains(said, "usage:") {
			t.Errorf("%v: exit %d: %s", args, code, said)
		}
	}
	if code, said := careless("terminate", "i-0123456789abcdef0"); code != exitFailed || !strings.Contains(said, "InvalidInstanceID.NotFound") {
		t.Errorf("terminate what is not there: exit %d: %s", code, said)
	}
	for _, endpoint := range []string{"", "https://ec2.eu-central-1.amazonaws.com", "http://127.0.0.1.example.com:80"} {
		t.Setenv("AWS_ENDPOINT_URL", endpoint)
		if code, said := careless("tag", id, "a=b"); code != exitUsage || !strings.Contains(said, "no simulator") {
			t.Errorf("%q: exit %d: %s", endpoint, code, said)
		}
	}
}

// TestReaderArguments: what is missing is said.
func TestReaderArguments(t *testing.T) {
	for _, name := range []string{"KUBECONFIG", "METRICS", "PROBES"} {
		t.Setenv(name, "")
	}
	for name, args := range map[string][]string{
		"nowhere to put it": {"first-hour", "--holdfast", "x"},
		"no program":        {"first-hour", "--dir", "x"},
		"bad flag":          {"first-hour", "--nothing"},
		"no environment":    {"pod", "--dir", "x"},
		"a bad flag of pod": {"pod", "--nothing"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != exitUsage || errs.Len() == 0 {
			t.Errorf("%s: exit %d, %q", name, code, errs.String())
		}
	}
}

// TestMountedFiles: a folder is brought to what a ConfigMap holds, and read through
// links, as a kubelet has it.
func TestMountedFiles(t *testing.T) {
	p := &pod{dir: t.TempDir()}
	dir := p.place("policies")
	for _, data := range []map[string]string{{"a.yaml": "1", "b.yaml": "2"}, {"b.yaml": "3", "c.yaml": "4"}, {}} {
		if same(filepath.Join(dir, "..data"), data) {
			t.Errorf("%v is there already", data)
		}
		if err := p.mount(dir, data); err != nil {
			t.Fatal(err)
		}
		if !same(filepath.Join(dir, "..data"), data) {
			t.Errorf("%v is not there", data)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil || len(files) != len(data) {
			t.Errorf("%v for %v: %v", files, data, err)
		}
		for name, want := range data {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
				t.Errorf("%s is %q: %v", name, text, err)
			}
		}
	}
}

// TestQuote: a value is one word of a shell, whatever it holds.
func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a b", "it's", `$(x) "y" \ ` + "`z`"} {
		out, err := exec.Command("sh", "-c", "printf %s "+quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q became %q: %v", s, out, err)
		}
	}
}
