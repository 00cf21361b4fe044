package canonical

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxUserData is the most that [UserData] unpacks: four times a Secret's
// limit. EC2 itself takes 16 KiB.
const MaxUserData = 4 << 20

// maxWrappings bounds how often user data may be wrapped in itself.
const maxWrappings = 4

// UserData gives the payload of instance user data, which a spec, a Secret and
// a cloud hold raw, in base64, gzipped, or both. gzip's header (time, name,
// level) is no part of it. Empty user data and none are both nil.
//
// It unwraps until nothing is left to unwrap, so that both sides of a
// comparison meet whatever the wrapping. Its errors never quote the data.
func UserData(raw string) (payload []byte, err error) {
	data := []byte(raw)
	for range maxWrappings {
		if len(data) > MaxUserData {
			return nil, fmt.Errorf("user data of %d bytes: at most %d are read", len(data), MaxUserData)
		}
		inner, wrapped, err := unwrap(data)
		if err != nil {
			return nil, err
		}
		if !wrapped {
			if len(data) == 0 {
				return nil, nil
			}
			return data, nil
		}
		data = inner
	}
	if _, wrapped, err := unwrap(data); err != nil || wrapped {
		return nil, fmt.Errorf("user data is wrapped in base64 or gzip more than %d times", maxWrappings)
	}
	return data, nil
}

func unwrap(data []byte) (inner []byte, wrapped bool, err error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		inner, err = gunzip(data)
		return inner, true, err
	}
	inner, ok := decodeBase64(data)
	return inner, ok, nil
}

func gunzip(data []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, errors.New("user data begins like gzip and does not unpack: bad header")
	}
	out, err := io.ReadAll(io.LimitReader(zr, MaxUserData+1))
	if err != nil {
		return nil, errors.New("user data begins like gzip and does not unpack: cut short or corrupt")
	}
	if len(out) > MaxUserData {
		return nil, fmt.Errorf("user data unpacks to more than %d bytes", MaxUserData)
	}
	return out, nil
}

// decodeBase64 takes the standard alphabet with padding, in one line or
// wrapped in several, which is what every tool in this chain writes.
func decodeBase64(data []byte) ([]byte, bool) {
	text := strings.Join(strings.Fields(string(data)), "")
	if text == "" || len(text)%4 != 0 {
		return nil, false
	}
	out, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, false
	}
	return out, true
}

// Digest gives a keyed digest of a secret payload: equal payloads under one
// key have equal digests, and without the key a digest does not confirm a
// guess (RFC 2104). The key is the caller's, made for this purpose, and not
// empty.
func Digest(key, payload []byte) string {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(payload)
	return "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
}
