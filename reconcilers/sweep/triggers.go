package sweep

import "context"

func (d *Daemon) watchObjects(ctx context.Context) error { return nil }

// noticeCluster looks at the Clusters again soon: one has come, gone or
// changed.
func (d *Daemon) noticeCluster() {
	d.init()
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.Clock.Now().Add(objectDebounce); d.census.due.IsZero() || at.Before(d.census.due) {
		d.census.due = at
	}
	d.wake()
}
