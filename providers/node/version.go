package node

import "strings"

// sameVersion reports that a kubelet's version is the one that a Machine
// declares. The leading v is optional. What a vendor adds to a version that is
// declared without it (v1.33.1-eks-1234567, v1.33.1+rke2r1) makes it no other;
// what makes it a version before that one (v1.33.0-rc.1) does.
func sameVersion(declared, kubelet string) bool {
	declared, kubelet = strings.TrimPrefix(declared, "v"), strings.TrimPrefix(kubelet, "v")
	rest, ok := strings.CutPrefix(kubelet, declared)
	switch {
	case !ok:
		return false
	case rest == "" || rest[0] == '+':
		return true
	case rest[0] != '-':
		return false
	}
	for _, word := range []string{"alpha", "beta", "rc"} {
		if strings.HasPrefix(rest[1:], word) {
			return false
		}
	}
	return true
}
