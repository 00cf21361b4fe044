package canonical_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/providers/canonical"
)

// C26: a profile's name equals its ARN in any partition and under any path.
func TestC26InstanceProfile(t *testing.T) {
	tests := map[string]string{
		"nodes": "nodes",
		"arn:aws:iam::111122223333:instance-profile/nodes":             "nodes",
		"arn:aws-us-gov:iam::111122223333:instance-profile/team/nodes": "nodes",
		"arn:aws-cn:iam::111122223333:instance-profile/a/b/nodes":      "nodes",
		"/team/nodes":  "nodes",
		"nodes/":       "nodes",
		"Nodes":        "Nodes",
		"other.nodes_": "other.nodes_",
		"":             "",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			if got := canonical.InstanceProfile(in); got != want {
				t.Errorf("InstanceProfile(%q) = %q, want %q", in, got, want)
			}
		})
	}
}

func TestIsARN(t *testing.T) {
	tests := map[string]bool{
		"arn:aws:iam::111122223333:instance-profile/nodes": true,
		"arn:aws-cn:kms:cn-north-1:111122223333:key/k":     true,
		"nodes":   false,
		"arn:aws": false,
		"":        false,
	}
	for in, want := range tests {
		if got := canonical.IsARN(in); got != want {
			t.Errorf("IsARN(%q) = %v", in, got)
		}
	}
}

func TestKMSKey(t *testing.T) {
	const id = "1234abcd-12ab-34cd-56ef-1234567890ab"
	tests := map[string]string{
		id:                                     id,
		"1234ABCD-12ab-34cd-56ef-1234567890AB": id,
		"arn:aws:kms:eu-west-1:111122223333:key/" + id:     id,
		"arn:aws-cn:kms:cn-north-1:111122223333:key/" + id: id,
		"arn:aws:kms:eu-west-1:111122223333:alias/disks":   "alias/disks",
		"alias/aws/ebs":                        "alias/aws/ebs",
		"mrk-1234abcd12ab34cd56ef1234567890ab": "mrk-1234abcd12ab34cd56ef1234567890ab",
		"":                                     "",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			if got := canonical.KMSKey(in); got != want {
				t.Errorf("KMSKey(%q) = %q, want %q", in, got, want)
			}
		})
	}
}

// C64: the zone in a provider id is no part of the instance's identity.
func TestC64InstanceID(t *testing.T) {
	tests := map[string]string{
		"aws:////i-1":                              "i-1",
		"aws:///us-west-2a/i-1":                    "i-1",
		"aws:///us-west-2-lax-1a/i-0abcdef0123456": "i-0abcdef0123456",
		"aws:///i-1":                               "i-1",
		"i-1":                                      "i-1",
		"aws:///us-west-2a/":                       "",
		"aws:///us-west-2a/i-":                     "",
		"aws:///us-west-2a/fargate-ip-10-0-0-1":    "",
		"aws:///us-west-2a/x/i-1":                  "",
		"aws:///us-west-2a/i-1/x":                  "",
		"aws://us-west-2a/i-1":                     "",
		"vsphere://i-1":                            "",
		"gce://p/z/i-1":                            "",
		"":                                         "",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			got, ok := canonical.InstanceID(in)
			if got != want || ok != (want != "") {
				t.Errorf("InstanceID(%q) = %q, %v; want %q", in, got, ok, want)
			}
		})
	}
}

func TestDeviceName(t *testing.T) {
	tests := map[string]string{
		"/dev/sda1": "/dev/sda1",
		"sdb":       "/dev/sdb",
		"dev/sdb":   "/dev/sdb",
		"xvdb":      "/dev/xvdb",
		" sdb ":     "/dev/sdb",
		"":          "",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			if got := canonical.DeviceName(in); got != want {
				t.Errorf("DeviceName(%q) = %q, want %q", in, got, want)
			}
		})
	}
}

// C22: the two common spellings of a root device are two devices: only the
// instance's own root device name says which one is its root.
func TestC22DeviceNamesAreNotMapped(t *testing.T) {
	if canonical.DeviceName("/dev/xvda") == canonical.DeviceName("/dev/sda1") {
		t.Error("/dev/xvda and /dev/sda1 became one device")
	}
}

func FuzzInstanceProfile(f *testing.F) {
	fuzzPlain(f, canonical.InstanceProfile, "arn:aws:iam::1:instance-profile/a/b", "a/ /", "/ 00")
}
func FuzzKMSKey(f *testing.F) {
	fuzzPlain(f, canonical.KMSKey, "arn:aws:kms:e:1:key/k", "key/key/a", "key/ a")
}
func FuzzDeviceName(f *testing.F) { fuzzPlain(f, canonical.DeviceName, "sda", "dev/sda", "dev/") }

func FuzzInstanceID(f *testing.F) {
	f.Add("aws:////i-1")
	f.Add("aws:///a/i-1")
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := canonical.InstanceID(s)
		if ok != (id != "") {
			t.Errorf("InstanceID(%q) = %q, %v", s, id, ok)
		}
		if again, _ := canonical.InstanceID(id); again != id {
			t.Errorf("InstanceID(%q) = %q, again %q", s, id, again)
		}
	})
}

func fuzzPlain(f *testing.F, canon func(string) string, seeds ...string) {
	f.Helper()
	f.Add("")
	f.Add("  \u00a0x")
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := canon(s)
		if twice := canon(once); twice != once {
			t.Errorf("%q gives %q, and that %q", s, once, twice)
		}
	})
}
