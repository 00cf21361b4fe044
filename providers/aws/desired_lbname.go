package aws

import (
	"strings"

	"golang.org/x/crypto/blake2b"
)

// maxLBName is the length of a load balancer's name (CreateLoadBalancer, Name).
const maxLBName = 32

// generatedLBName gives the name that CAPA makes of a cluster's name when the
// spec has none. The two clouds' names must agree to the letter, so the long
// form follows CAPA's byte for byte: BLAKE2b of 28 bytes, each byte modulo 36
// a digit or a letter, and "-k8s".
func generatedLBName(cluster string) string {
	if name := strings.ReplaceAll(cluster, ".", "-") + "-apiserver"; len(name) <= maxLBName {
		return name
	}
	const (
		digits = "0123456789abcdefghijklmnopqrstuvwxyz"
		suffix = "-k8s"
	)
	hash, err := blake2b.New(maxLBName-len(suffix), nil)
	if err != nil { // only for sizes out of 1-64 and keys above 64 bytes
		return ""
	}
	_, _ = hash.Write([]byte(cluster))
	sum := hash.Sum(nil)
	for i, b := range sum {
		sum[i] = digits[int(b)%len(digits)]
	}
	return string(sum) + suffix
}
