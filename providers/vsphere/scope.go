package vsphere

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/vmware/govmomi/vim25/soap"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// Scope gives the vCenter and identity for an owner. It reads identity objects
// and does not call vCenter: whether the credentials are accepted shows in
// Observe, and concerns all owners of the scope alike.
//
// The server is that of the machine's deployment zone, else of the machine,
// else of the cluster, as in CAPV (VimMachineService.createOrPatchVSphereVM).
// The datacenter is no part of it: one vCenter is read at once.
func (p *Provider) Scope(ctx context.Context, owner *providers.Owner) (providers.Scope, error) {
	cluster, err := clusterOf(owner)
	if err != nil {
		return providers.Scope{}, invalidSpec(err)
	}
	server, pin := serverOf(owner, cluster)
	if server == "" {
		return providers.Scope{}, invalidSpec(fmt.Errorf("%s names no vCenter: set spec.server of the VSphereCluster", owner.Ref))
	}
	address, err := parseServer(server)
	if err != nil {
		return providers.Scope{}, invalidSpec(fmt.Errorf("%s: %w", owner.Ref, err))
	}
	if pin != "" {
		raw, err := parseThumbprint(pin)
		if err != nil {
			return providers.Scope{}, invalidSpec(fmt.Errorf("%s: %w", owner.Ref, err))
		}
		pin = formatThumbprint(raw)
	}
	creds, err := p.credentialsFor(ctx, cluster, address)
	if err != nil {
		return providers.Scope{}, err
	}
	scope := providers.Scope{Provider: Name, Account: hostOf(address), Identity: creds.identity}
	if pin != "" {
		// Owners that pin another certificate, or none, must not share a
		// session: one of them would be trusted on the other's word.
		scope.Identity = strings.TrimSpace(scope.Identity + " pinned to " + pin)
	}
	p.connect(ctx, scope, endpoint{
		url:        address,
		user:       url.UserPassword(creds.username, creds.password),
		thumbprint: pin,
		caFile:     p.env.caFile,
	})
	return scope, nil
}

func (p *Provider) connect(ctx context.Context, scope providers.Scope, e endpoint) {
	p.mu.Lock()
	c := p.conns[scope]
	if c == nil {
		c = &connection{count: &p.count}
		p.conns[scope] = c
	}
	p.mu.Unlock()
	c.use(ctx, e)
}

func invalidSpec(err error) error {
	return &providers.ScopeError{Reason: providers.ReasonInvalidSpec, Err: err}
}

// clusterOf gives the VSphereCluster that an owner belongs to, which is the
// owner itself for a cluster.
func clusterOf(owner *providers.Owner) (*infrav1.VSphereCluster, error) {
	for _, o := range []any{owner.Infra, owner.InfraCluster} {
		if c, ok := o.(*infrav1.VSphereCluster); ok && c != nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("%s: the VSphereCluster of Cluster %s/%s was not found, and it names the vCenter and the identity",
		owner.Ref, owner.Cluster.Namespace, owner.Cluster.Name)
}

// serverOf gives the server and the thumbprint to expect of it.
func serverOf(owner *providers.Owner, cluster *infrav1.VSphereCluster) (server, thumbprint string) {
	if machine, ok := owner.Infra.(*infrav1.VSphereMachine); ok {
		server, thumbprint = machine.Spec.Server, machine.Spec.Thumbprint
		if zone, _ := zoneOf(owner); zone != nil {
			server = zone.Spec.Server
		}
	}
	if server == "" {
		server = cluster.Spec.Server
	}
	if thumbprint == "" {
		// CAPV expects the cluster's certificate of a machine's own server
		// too.
		thumbprint = cluster.Spec.Thumbprint
	}
	return server, thumbprint
}

// parseServer takes what CAPV takes: a name or address, with or without port
// and scheme, and a bare IPv6 address.
func parseServer(server string) (*url.URL, error) {
	server = strings.TrimSpace(server)
	if ip, err := netip.ParseAddr(server); err == nil && ip.Is6() {
		server = "[" + server + "]"
	}
	if strings.Contains(server, "@") {
		return nil, errors.New("spec.server holds a user name: credentials belong into a Secret")
	}
	u, err := soap.ParseURL(server)
	if err != nil || u == nil || u.Hostname() == "" {
		return nil, fmt.Errorf("spec.server %q is not a host name or address", server)
	}
	if u.Scheme != "https" {
		return nil, fmt.Errorf("spec.server %q: only https is used, credentials would travel in the clear", server)
	}
	u.User = nil
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

// hostOf gives the host, with the port where it is not the usual one.
func hostOf(u *url.URL) string {
	const https = "443"
	if port := u.Port(); port != "" && port != https {
		return net.JoinHostPort(u.Hostname(), port)
	}
	return u.Hostname()
}
