package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/providers"
)

// maxCause bounds what is taken over of a server's own words.
const maxCause = 300

// failure says why a cluster's Nodes could not be read, in words that stay the
// same for as long as the cause does: conditions show them, and ports, times and
// request ids would change them each time.
func failure(cluster types.NamespacedName, err error) error {
	return &unreadable{text: fmt.Sprintf("the Nodes of cluster %s could not be read: %s", cluster, cause(err)), err: err}
}

type unreadable struct {
	text string
	err  error
}

func (u *unreadable) Error() string { return u.text }

// Unwrap gives the client's error.
func (u *unreadable) Unwrap() error { return u.err }

func cause(err error) string {
	var (
		status   apierrors.APIStatus
		timeout  net.Error
		name     *net.DNSError
		op       *net.OpError
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		hostname x509.HostnameError
	)
	switch {
	case errors.As(err, &status) && status.Status().Code == 401:
		return "its API server does not accept the credentials of the kubeconfig Secret"
	case errors.As(err, &status) && status.Status().Code == 403:
		return "its API server does not permit it to the user of the kubeconfig Secret"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "its API server did not answer in time"
	case errors.Is(err, context.Canceled):
		return "the read was called off"
	case errors.As(err, &unknown):
		return "its API server's certificate is of another authority than the kubeconfig Secret has"
	case errors.As(err, &invalid):
		return "its API server's certificate has expired, or is not for this use"
	case errors.As(err, &hostname):
		return "its API server's certificate is for another address"
	case errors.As(err, &name):
		return "the name of its API server is not known"
	case errors.As(err, &op):
		return fmt.Sprintf("its API server cannot be reached: %s: %v", op.Op, op.Err)
	default:
		return providers.Cleaner{Max: maxCause}.Clean(providers.Redact(err.Error()))
	}
}
