package canonical

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// HardwareVersion gives the number in a virtual hardware version: "vmx-19" is
// 19. Only numbers can be ordered: as text, "vmx-9" is above "vmx-19".
func HardwareVersion(s string) (int, error) {
	digits := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "vmx-")
	n, err := strconv.Atoi(digits)
	if err != nil || n <= 0 || !isDigits(digits) {
		return 0, fmt.Errorf("hardware version %q is not like vmx-19", s)
	}
	return n, nil
}

// inventoryEscapes are those of the three characters that vSphere escapes in the names
// of managed entities (ManagedEntity, property name) that have letters in
// their code: slash and backslash. The third is %25.
var inventoryEscapes = regexp.MustCompile(`%(?:2F|5C)`)

// InventoryPath gives a vSphere inventory path without trailing, doubled or
// "." segments, and with its escapes in lower case. An absolute path stays
// absolute and a relative one relative: which folder it starts from is the
// caller's to know. Blanks stay: names may hold them.
func InventoryPath(s string) string {
	if s == "" {
		return ""
	}
	s = inventoryEscapes.ReplaceAllStringFunc(s, strings.ToLower)
	s = path.Clean(s)
	if s == "." {
		return ""
	}
	return s
}
