package servingcert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Keys of the Secret. Those of the certificate and of the CA's certificates are
// kubernetes.io/tls's and cert-manager's.
const (
	keyCert = "tls.crt"
	keyKey  = "tls.key"
	keyCA   = "ca.crt"
	// keyCAKey is there in a Secret of our own alone.
	keyCAKey = "ca.key"
)

// How long things are valid, and how long before their end they are renewed. A CA
// outlives all that it signs.
const (
	caLife      = 2 * 365 * 24 * time.Hour
	caRenew     = caLife / 4
	certLife    = 90 * 24 * time.Hour
	certRenew   = certLife / 3
	clockSkew   = 5 * time.Minute
	keepOldCA   = time.Hour // after the new one has signed; replicas read every few seconds
	mostCAs     = 4
	pemCert     = "CERTIFICATE"
	pemKey      = "PRIVATE KEY"
	serialBits  = 127
	commonName  = "holdfast webhooks"
	commonCA    = "holdfast webhooks CA"
	errNoSecret = "the Secret has no certificate yet"
)

// authority is a CA that can sign.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// renew gives what the Secret is to hold, and whether that is a change. data is
// what it holds; also are CAs that are known from before, should the Secret have
// been emptied; believed tells whether the CAs that it holds have been seen
// wherever they are to be.
func renew(data map[string][]byte, also []*x509.Certificate, host string, believed bool, now time.Time) (map[string][]byte, bool, error) {
	cas := parseCAs(data[keyCA])
	issuer := readAuthority(cas, data[keyCAKey])
	changed := false
	if issuer == nil || !issuer.lasts(now) {
		made, err := newAuthority(now)
		if err != nil {
			return nil, false, err
		}
		if issuer == nil {
			cas = append(cas, also...)
		}
		cas, issuer, changed, believed = append([]*x509.Certificate{made.cert}, cas...), made, true, false
	}
	out := map[string][]byte{keyCert: data[keyCert], keyKey: data[keyKey]}
	leaf := readLeaf(data)
	works := leaf != nil && verifies(leaf, cas, host, now)
	current := works && issuer.stands(leaf, now)
	switch {
	case !works, !current && believed:
		var err error
		if out[keyCert], out[keyKey], err = issuer.issue(host, now); err != nil {
			return nil, false, err
		}
		changed = true
	case current && now.Sub(leaf.NotBefore) > clockSkew+keepOldCA:
		cas = cas[:1] // nobody serves by what another has signed
	}
	out[keyCA] = encodeCAs(cas, now)
	key, err := x509.MarshalPKCS8PrivateKey(issuer.key)
	if err != nil {
		return nil, false, fmt.Errorf("encode the CA's key: %w", err)
	}
	out[keyCAKey] = pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: key})
	return out, changed || !bytes.Equal(out[keyCA], data[keyCA]), nil
}

// lasts tells whether a CA need not be followed by another yet.
func (a *authority) lasts(now time.Time) bool {
	return !now.Before(a.cert.NotBefore) && !now.Add(caRenew).After(a.cert.NotAfter)
}

// stands tells whether a certificate is this CA's and need not be renewed yet.
func (a *authority) stands(leaf *x509.Certificate, now time.Time) bool {
	return leaf.CheckSignatureFrom(a.cert) == nil && now.Add(certRenew).Before(leaf.NotAfter)
}

func newAuthority(now time.Time) (*authority, error) {
	a := &authority{}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make the CA's key: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: commonCA}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(caLife),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	a.cert, err = sign(template, &authority{template, a.key}, a.key)
	return a, err
}

// issue makes a certificate for a host name, and its key.
func (a *authority) issue(host string, now time.Time) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	made, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, DNSNames: []string{host}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}, a, private)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: made.Raw}), pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

func sign(template *x509.Certificate, by *authority, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// parseCAs reads as many certificates as there are; what is none ends the list.
func parseCAs(text []byte) (out []*x509.Certificate) {
	for len(out) < mostCAs {
		block, rest := pem.Decode(text)
		if block == nil {
			return out
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, cert)
		}
		text = rest
	}
	return out
}

// encodeCAs writes those that are valid still, each once.
func encodeCAs(cas []*x509.Certificate, now time.Time) []byte {
	var out bytes.Buffer
	seen := map[string]bool{}
	for _, ca := range cas {
		if now.After(ca.NotAfter) || seen[string(ca.Raw)] || len(seen) == mostCAs {
			continue
		}
		seen[string(ca.Raw)] = true
		out.Write(pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: ca.Raw}))
	}
	return out.Bytes()
}

// readAuthority gives the first of the CAs with its key, nil if that does not fit.
func readAuthority(cas []*x509.Certificate, text []byte) *authority {
	block, _ := pem.Decode(text)
	if block == nil || len(cas) == 0 {
		return nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cas[0].PublicKey) || !cas[0].IsCA {
		return nil
	}
	return &authority{cas[0], key}
}

// readLeaf gives the certificate if its key fits it, else nil.
func readLeaf(data map[string][]byte) *x509.Certificate {
	pair, err := tls.X509KeyPair(data[keyCert], data[keyKey])
	if err != nil {
		return nil
	}
	return pair.Leaf
}

func verifies(leaf *x509.Certificate, cas []*x509.Certificate, host string, now time.Time) bool {
	roots := x509.NewCertPool()
	for _, ca := range cas {
		roots.AddCert(ca)
	}
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
	return err == nil
}

// pairOf reads what is to be served.
func pairOf(data map[string][]byte) (*tls.Certificate, error) {
	if len(data[keyCert]) == 0 || len(data[keyKey]) == 0 {
		return nil, errors.New(errNoSecret)
	}
	pair, err := tls.X509KeyPair(data[keyCert], data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("read %s and %s: %w", keyCert, keyKey, err)
	}
	return &pair, nil
}
