package vsphere

import (
	"context"
	"crypto/sha1" //nolint:gosec // VSphereCluster.spec.thumbprint is a SHA-1 by CAPV's API; it names one certificate and signs nothing
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// trustError is a certificate that is not trusted. ours says that the
// configuration is at fault and not the server.
type trustError struct {
	ours bool
	msg  string
}

func (e *trustError) Error() string { return e.msg }

// trust makes the transport verify the server: by the pinned certificate
// where there is a thumbprint, otherwise by the system's authorities and those
// of the CA file. CAPV skips verification where no thumbprint is given; this
// provider never does.
func trust(t *http.Transport, e endpoint) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.thumbprint != "" {
		want, err := parseThumbprint(e.thumbprint)
		if err != nil {
			return err
		}
		// The chain is not verified because exactly one certificate is
		// accepted, which is stricter.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(cs tls.ConnectionState) error { return pinned(cs, e.url.Host, want) }
	} else if e.caFile != "" {
		pool, err := authorities(e.caFile)
		if err != nil {
			return err
		}
		config.RootCAs = pool
	}
	t.TLSClientConfig = config
	dialer := &net.Dialer{Timeout: dialPatience, KeepAlive: dialPatience}
	t.DialContext = dialer.DialContext
	t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := tls.Dialer{NetDialer: dialer, Config: config}
		return d.DialContext(ctx, network, addr)
	}
	return nil
}

const dialPatience = 15 * time.Second

func authorities(file string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, &trustError{ours: true, msg: fmt.Sprintf("read VSPHERE_CA_FILE: %v", err)}
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, &trustError{ours: true, msg: fmt.Sprintf("VSPHERE_CA_FILE %s holds no PEM certificate", file)}
	}
	return pool, nil
}

func pinned(cs tls.ConnectionState, host string, want []byte) error {
	if len(cs.PeerCertificates) == 0 {
		return errors.New("the server showed no certificate")
	}
	cert := cs.PeerCertificates[0]
	if hash := thumbprint(cert, len(want)); string(hash) != string(want) {
		return &trustError{msg: fmt.Sprintf("the certificate of %s has thumbprint %s, and %s is expected", host, formatThumbprint(hash), formatThumbprint(want))}
	}
	return nil
}

func thumbprint(cert *x509.Certificate, size int) []byte {
	if size == sha1.Size {
		sum := sha1.Sum(cert.Raw) //nolint:gosec // see the import
		return sum[:]
	}
	sum := sha256.Sum256(cert.Raw)
	return sum[:]
}

// parseThumbprint takes SHA-1 and SHA-256 thumbprints, with or without colons,
// in either case.
func parseThumbprint(s string) ([]byte, error) {
	digits := strings.NewReplacer(":", "", " ", "").Replace(strings.TrimSpace(s))
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != sha1.Size && len(raw) != sha256.Size {
		return nil, &trustError{ours: true, msg: fmt.Sprintf("thumbprint %q is neither a SHA-1 (20 bytes) nor a SHA-256 (32 bytes) in hexadecimal", s)}
	}
	return raw, nil
}

func formatThumbprint(raw []byte) string {
	pairs := make([]string, len(raw))
	for i, b := range raw {
		pairs[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(pairs, ":")
}
