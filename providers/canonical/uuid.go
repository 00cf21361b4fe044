package canonical

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// errNilUUID keeps an unset UUID from ever matching another unset one.
var errNilUUID = errors.New("UUID is empty or all zeros, which identifies nothing")

// UUID gives a UUID in lower case with dashes. It takes the forms with and
// without dashes, braces, a urn:uuid: prefix, and the byte pairs with blanks
// of a VMX file. An empty UUID, and one of zeros, is an error: after a
// failover vCenter may report them, and they identify nothing.
func UUID(s string) (string, error) {
	raw, err := uuidBytes(s)
	if err != nil {
		return "", err
	}
	return formatUUID(raw), nil
}

func uuidBytes(s string) (raw [16]byte, err error) {
	const longest = 64
	if len(s) > longest {
		return raw, fmt.Errorf("UUID of %d characters: want 32 hexadecimal digits", len(s))
	}
	digits := strings.ToLower(strings.TrimSpace(s))
	digits = strings.TrimPrefix(digits, "urn:")
	digits = strings.TrimPrefix(digits, "uuid:")
	if strings.HasPrefix(digits, "{") && strings.HasSuffix(digits, "}") {
		digits = digits[1 : len(digits)-1]
	}
	digits = strings.NewReplacer("-", "", " ", "").Replace(digits)
	if digits == "" {
		return raw, errNilUUID
	}
	if len(digits) != 2*len(raw) {
		return raw, fmt.Errorf("UUID %q: want 32 hexadecimal digits", s)
	}
	if _, err := hex.Decode(raw[:], []byte(digits)); err != nil {
		return raw, fmt.Errorf("UUID %q: want 32 hexadecimal digits", s)
	}
	if raw == [16]byte{} {
		return raw, errNilUUID
	}
	return raw, nil
}

func formatUUID(raw [16]byte) string {
	h := hex.EncodeToString(raw[:])
	return h[0:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:32]
}

// SwapUUID gives the UUID in the other byte order: SMBIOS stores the first
// three groups little-endian since version 2.6, and guests, vCenter and tools
// disagree on whether to show them so. Swapping twice gives the UUID again.
// What is no UUID gives "", which [UUID] never returns.
func SwapUUID(s string) string {
	b, err := uuidBytes(s)
	if err != nil {
		return ""
	}
	b[0], b[1], b[2], b[3] = b[3], b[2], b[1], b[0]
	b[4], b[5] = b[5], b[4]
	b[6], b[7] = b[7], b[6]
	return formatUUID(b)
}

// VMUUID gives the UUID in a vSphere provider id, "vsphere://UUID". ok is
// false when there is none: "vsphere://" alone has been seen after failovers.
func VMUUID(providerID string) (uuid string, ok bool) {
	rest, found := strings.CutPrefix(strings.TrimSpace(providerID), "vsphere://")
	if !found {
		return "", false
	}
	uuid, err := UUID(rest)
	return uuid, err == nil
}
