package vspherecluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	_ "github.com/vmware/govmomi/pbm/simulator" // storage policies
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	_ "github.com/vmware/govmomi/vapi/simulator" // tags
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/soap"
)

// Credentials of the simulator, which takes no others.
const (
	Username = "capv@vsphere.local"
	Password = "a simulator's password"
)

// VCenter is a simulated vCenter with the inventory that the example wants,
// and an administrator's session in it.
type VCenter struct {
	Client *govmomi.Client
	Finder *find.Finder
	Tags   *tags.Manager
	// Log has every call of others than the administrator.
	Log *Log
	// Model is the simulator itself, for what no API can do.
	Model *simulator.Model

	server *simulator.Server
	// again serves in the place of server after a restart.
	again *http.Server
	// tagIDs are the ids that the simulator chose, by those of the example.
	tagIDs map[string]string
	// dir holds the datastores.
	dir string
}

// StartVCenter starts a simulator on a port of its own, with TLS and a
// certificate that no authority has signed. Callers close it.
func StartVCenter(ctx context.Context) (_ *VCenter, err error) {
	m := simulator.VPX()
	m.Datacenter, m.Cluster, m.ClusterHost = 1, 2, 2
	m.Host, m.Machine, m.Datastore, m.Portgroup = 0, 0, 0, 4
	if err := m.Create(); err != nil {
		return nil, fmt.Errorf("create simulator model: %w", err)
	}
	// A vCenter counts event collectors for each client and drops those of a
	// session that is over; the simulator counts all that there ever were, and
	// 32 daemons that are killed would be its last (EventManager.maxCollector).
	events, ok := m.Map().Get(*m.ServiceContent.EventManager).(*simulator.EventManager)
	if !ok {
		return nil, errors.New("the simulator has no event manager")
	}
	events.MaxCollector = math.MaxInt32
	m.Service.TLS = new(tls.Config)
	m.Service.RegisterEndpoints = true
	m.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword(Username, Password)}
	v := &VCenter{Model: m, Log: &Log{}}
	v.server = m.Service.NewServer()
	v.server.Config.Handler = v.Log.wrap(v.server.Config.Handler)
	defer func() {
		if err != nil {
			v.Close()
		}
	}()
	if err := v.connect(ctx); err != nil {
		return nil, err
	}
	m.Service.Context.Map.AddHandler(newGuests())
	if err := v.furnish(ctx); err != nil {
		return nil, fmt.Errorf("furnish simulator: %w", err)
	}
	v.Log.Reset() // the administrator's own login
	return v, nil
}

func (v *VCenter) connect(ctx context.Context) error {
	u := *v.server.URL
	u.User = url.UserPassword(Username, Password)
	// The administrator of a simulator in this process may trust it blindly.
	c, err := govmomi.NewClient(ctx, &u, true)
	if err != nil {
		return fmt.Errorf("log in to simulator: %w", err)
	}
	c.UserAgent = administrator
	rc := rest.NewClient(c.Client)
	rc.UserAgent = administrator
	if err := rc.Login(ctx, u.User); err != nil {
		return fmt.Errorf("log in to simulator's REST API: %w", err)
	}
	v.Client, v.Tags = c, tags.NewManager(rc)
	v.Finder = find.NewFinder(c.Client, false)
	return nil
}

// Server is the address for VSphereCluster.spec.server.
func (v *VCenter) Server() string { return v.server.URL.Host }

// Thumbprint is the SHA-1 of the certificate, as CAPV documents
// spec.thumbprint.
func (v *VCenter) Thumbprint() string { return soap.ThumbprintSHA1(v.server.Certificate()) }

// CertificateFile gives a PEM file of the certificate, which is its own
// authority. It goes with Close.
func (v *VCenter) CertificateFile() (string, error) { return v.server.CertificateFile() }

// Close stops the simulator and removes its files.
func (v *VCenter) Close() {
	v.stop()
	v.Model.Remove()
	if v.dir != "" {
		_ = os.RemoveAll(v.dir)
	}
}
