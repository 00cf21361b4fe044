package vsphere

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// secret turns values that may be secret into keyed digests. The key is made
// anew in each process and never leaves it, so that a saved snapshot tells
// nothing, and digests of two processes cannot be compared; the key's mark in
// front of a digest says whose it is.
type secret struct {
	key  []byte
	mark string
}

func newSecret() secret {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails: crypto/rand.Read
	sum := sha256.Sum256(key)
	return secret{key: key, mark: hex.EncodeToString(sum[:4])}
}

// plainOption are values that say nothing worth hiding: switches, numbers,
// short words.
var plainOption = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|-?[0-9]{1,10}|[a-z][a-z0-9._-]{0,19})$`)

// secretKey are keys whose values are hidden however short they are.
var secretKey = regexp.MustCompile(`(?i)pass|secret|token|credential|private|apikey|auth|license`)

// bootData are keys whose values cloud-init unpacks, from base64 and gzip, in
// the encoding that guestinfo.*.encoding names (cloud-init, DataSource VMware).
var bootData = regexp.MustCompile(`(?i)^guestinfo\.(?:user|meta|vendor)data$`)

// option gives the field for one VMX option. Everything under guestinfo.
// carries bootstrap data or is written by the guest; of the rest only plain
// short words show.
func (s secret) option(key, value string) providers.Field {
	hidden := strings.HasPrefix(strings.ToLower(key), "guestinfo.") || secretKey.MatchString(key) || !plainOption.MatchString(value)
	if !hidden {
		return providers.Field{Value: providers.String(value)}
	}
	payload := []byte(value)
	if bootData.MatchString(key) {
		// What does not unpack is compared as it stands.
		if inner, err := canonical.UserData(value); err == nil {
			payload = inner
		}
	}
	return providers.Field{Value: providers.String(s.mark + ":" + canonical.Digest(s.key, payload)), Sensitive: true}
}

// foreign reports whether a digest was made under another process's key.
func (s secret) foreign(f providers.Field) bool {
	return f.Sensitive && !strings.HasPrefix(f.Value.Text(), s.mark+":")
}
