package servingcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// every is how often a replica looks: for so long may one that is told of
	// nothing serve what was before, or stand in a configuration what somebody has
	// put there in place of the CA.
	every = 10 * time.Second
	// patience is how long somebody else may take to put a certificate into the
	// Secret when the process starts.
	patience = 30 * time.Second
	// tries of one pass, in which another replica may be the first to write.
	tries = 5
)

// Keeper keeps a certificate.
type Keeper struct {
	// Client reads live and writes. Its scheme has Secrets, webhook configurations
	// and CRDs. Used are get and, with Make, update of the Secret; get and patch of
	// the configurations; list of CRDs, and get and patch of those that are named.
	Client client.Client
	// Secret holds tls.crt and tls.key, and in ca.crt what they are to be believed
	// by; without ca.crt nothing is written but the Secret.
	Secret types.NamespacedName
	// Make has the certificate be made and renewed in the Secret, which has to be
	// there.
	Make bool
	// Service is the one by which the API server comes. The CA is put where
	// something points at it, and nowhere else.
	Service types.NamespacedName
	// Configurations are the names of webhook configurations, of both kinds.
	Configurations []string
	// Definitions are the names of CRDs.
	Definitions []string
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	pair atomic.Pointer[tls.Certificate]

	mu sync.Mutex
	// known are the CAs of the last pass, believed those that were then found
	// wherever they are to be.
	known, believed []byte
	// looked is the version at which each CRD had the CAs of lookedFor.
	looked    map[string]string
	lookedFor []byte
}

// GetCertificate is for [tls.Config].
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := k.pair.Load(); pair != nil {
		return pair, nil
	}
	return nil, errors.New(errNoSecret)
}

// Prepare returns when there is a certificate to serve, or gives the reason why
// there is none. That the CA could not be written somewhere is logged.
func (k *Keeper) Prepare(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
		last = k.Pass(ctx)
		// Without rights there is nothing to wait for.
		return k.pair.Load() != nil || apierrors.IsForbidden(last), nil
	})
	switch {
	case k.pair.Load() == nil:
		return fmt.Errorf("certificate of the webhooks in Secret %s: %w", k.Secret, errors.Join(last, err))
	case last != nil:
		logr.FromContextOrDiscard(ctx).Error(last, "Unable to keep the webhooks' certificate")
	}
	return nil
}

// Run keeps it until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := k.Pass(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "Unable to keep the webhooks' certificate")
		}
	}, every)
}

// Pass does once all that there is to be done: renew, have the CA believed, serve.
func (k *Keeper) Pass(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	data, err := k.current(ctx)
	if err != nil {
		return err
	}
	pair, err := pairOf(data)
	if err != nil {
		return err
	}
	ca := data[keyCA]
	k.known = ca
	missed, err := k.spread(ctx, ca)
	if k.believed = nil; err == nil && missed == 0 {
		k.believed = ca
	}
	// Also where a part was not reached: it is the only one that there is.
	if old := k.pair.Swap(pair); old == nil || !bytes.Equal(old.Certificate[0], pair.Certificate[0]) {
		logr.FromContextOrDiscard(ctx).Info("Serving webhooks by another certificate", "secret", k.Secret.String(), "until", pair.Leaf.NotAfter)
	}
	return err
}

// current gives what the Secret holds, renewed if need be.
func (k *Keeper) current(ctx context.Context) (map[string][]byte, error) {
	for range tries {
		s := &corev1.Secret{}
		if err := k.Client.Get(ctx, k.Secret, s); err != nil {
			return nil, fmt.Errorf("read Secret %s: %w", k.Secret, err)
		}
		if !k.Make {
			return s.Data, nil
		}
		believed := len(k.believed) > 0 && bytes.Equal(k.believed, s.Data[keyCA])
		data, changed, err := renew(s.Data, parseCAs(k.known), k.host(), believed, k.now())
		if err != nil || !changed {
			return data, err
		}
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		for key, text := range data {
			s.Data[key] = text
		}
		err = k.Client.Update(ctx, s)
		switch {
		case err == nil:
			return data, nil
		case !apierrors.IsConflict(err):
			return nil, fmt.Errorf("write Secret %s: %w", k.Secret, err)
		}
	}
	return nil, fmt.Errorf("write Secret %s: somebody else writes it again and again", k.Secret)
}

// host is the name by which the API server calls the Service.
func (k *Keeper) host() string { return k.Service.Name + "." + k.Service.Namespace + ".svc" }

func (k *Keeper) now() time.Time {
	if k.Now == nil {
		return time.Now()
	}
	return k.Now()
}
