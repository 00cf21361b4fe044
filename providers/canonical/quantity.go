package canonical

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const mebibyte = 1 << 20

// Quantity gives a Kubernetes quantity in its canonical form: "1000m" is "1",
// "3072Mi" is "3Gi".
func Quantity(s string) (string, error) {
	q, err := parseQuantity(s)
	if err != nil {
		return "", err
	}
	return q.String(), nil
}

// MemoryMiB gives a quantity of bytes in MiB: "3Gi" and "3072Mi" are 3072. A
// quantity that is not a whole number of MiB is an error, "4G" for instance:
// no cloud can give it, and rounding it would hide a mistaken unit.
func MemoryMiB(quantity string) (int64, error) {
	q, err := parseQuantity(quantity)
	if err != nil {
		return 0, err
	}
	bytes, ok := q.AsInt64()
	if !ok || bytes < 0 || bytes%mebibyte != 0 {
		return 0, fmt.Errorf("memory %q is not a whole number of MiB, such as 4096Mi or 4Gi", quantity)
	}
	return bytes / mebibyte, nil
}

// parseQuantity bounds the input first: a quantity is parsed digit by digit
// with arbitrary precision.
func parseQuantity(s string) (resource.Quantity, error) {
	const longest = 32
	trimmed := strings.TrimSpace(s)
	if len(trimmed) > longest {
		return resource.Quantity{}, fmt.Errorf("quantity of %d characters: at most %d", len(trimmed), longest)
	}
	q, err := resource.ParseQuantity(trimmed)
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("quantity %q is not a number with a unit, such as 4Gi or 500m", s)
	}
	return q, nil
}
