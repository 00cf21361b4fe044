package vspherecluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/vmware/govmomi/event"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// EndSessions ends the sessions of everybody but the administrator.
func (v *VCenter) EndSessions(ctx context.Context) error {
	manager := session.NewManager(v.Client.Client)
	own, err := manager.UserSession(ctx)
	if err != nil {
		return fmt.Errorf("read own session: %w", err)
	}
	var all mo.SessionManager
	if err := v.Client.RetrieveOne(ctx, manager.Reference(), []string{"sessionList"}, &all); err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	var others []string
	for _, s := range all.SessionList {
		if own == nil || s.Key != own.Key {
			others = append(others, s.Key)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return manager.TerminateSession(ctx, others)
}

// Restart plays a vCenter that restarts: its sessions end, its connections
// break, nothing answers while the function runs, and then the same inventory
// answers at the same address.
func (v *VCenter) Restart(ctx context.Context, meanwhile func()) error {
	if err := v.EndSessions(ctx); err != nil {
		return err
	}
	address := v.server.URL.Host
	v.stop()
	if meanwhile != nil {
		meanwhile()
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen at %s again: %w", address, err)
	}
	const patience = 10 * time.Second
	v.again = &http.Server{Handler: v.server.Config.Handler, ReadHeaderTimeout: patience}
	go func(s *http.Server) { _ = s.Serve(tls.NewListener(listener, v.server.TLS)) }(v.again)
	v.Client.CloseIdleConnections() // the administrator's own are dead too
	return nil
}

func (v *VCenter) stop() {
	if v.again != nil {
		_ = v.again.Close()
		return
	}
	// The server's own Close waits for calls that wait for updates.
	_ = v.server.Listener.Close()
	v.server.CloseClientConnections()
}

// PostEvent has vCenter tell of an event, by the administrator. One that has no
// object gets the root folder, since the simulator wants one.
func (v *VCenter) PostEvent(ctx context.Context, e types.BaseEvent) error {
	if ex, ok := e.(*types.EventEx); ok && ex.ObjectId == "" {
		root := v.Client.ServiceContent.RootFolder
		ex.ObjectType, ex.ObjectId = root.Type, root.Value
	}
	return event.NewManager(v.Client.Client).PostEvent(ctx, e)
}
