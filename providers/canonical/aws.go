package canonical

import (
	"strings"
)

// InstanceProfile gives the name of an instance profile: the last path segment
// of its ARN in any partition, or of its path. Names are unique in an account
// whatever their path (IAM, CreateInstanceProfile). Where a spec gives a full
// ARN, callers compare the ARN instead.
func InstanceProfile(s string) string {
	s = strings.TrimRight(strings.TrimSpace(s), "/ \t\r\n")
	return strings.TrimSpace(s[strings.LastIndexByte(s, '/')+1:])
}

// IsARN reports whether a reference is a full ARN.
func IsARN(s string) bool {
	return strings.HasPrefix(s, "arn:") && strings.Count(s, ":") >= 5
}

// KMSKey gives the part of a key reference that names the key: the key id or
// "alias/NAME", without the ARN before it. An alias and the id that it points
// at are still different: resolving one needs the cloud.
func KMSKey(s string) string {
	s = strings.TrimSpace(s)
	if IsARN(s) {
		s = s[strings.LastIndexByte(s, ':')+1:]
	}
	for strings.HasPrefix(s, "key/") {
		s = strings.TrimSpace(strings.TrimPrefix(s, "key/"))
	}
	if id, err := UUID(s); err == nil && strings.Count(s, "-") == 4 {
		return id
	}
	return s
}

// InstanceID gives the EC2 instance id in a provider id, with or without the
// zone ("aws:////i-1" and "aws:///us-west-2a/i-1" are one instance), and of a
// bare instance id. ok is false for anything else: a provider id of another
// kind names no instance.
func InstanceID(providerID string) (id string, ok bool) {
	id = strings.TrimSpace(providerID)
	if rest, found := strings.CutPrefix(id, "aws:///"); found {
		zone, name, found := strings.Cut(rest, "/")
		if !found {
			zone, name = "", rest
		}
		if strings.Contains(name, "/") || zone != "" && !isWord(zone) {
			return "", false
		}
		id = name
	}
	suffix, found := strings.CutPrefix(id, "i-")
	if !found || !isWord(suffix) {
		return "", false
	}
	return id, true
}

// DeviceName gives a block device's name with its /dev/ in front, which EC2
// lets callers leave out. It does not map sdb to xvdb: EC2 reports the name
// that was asked for, and the two may be attached side by side.
func DeviceName(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.HasPrefix(s, "/") {
		return s
	}
	return "/dev/" + strings.TrimPrefix(s, "dev/")
}
