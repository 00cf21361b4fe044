package policy

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"

	"github.com/holdfast-io/holdfast/policies"
)

// fileWatch hears of changes of files. It is an aid: without it changes are
// seen by the poll.
type fileWatch struct {
	paths   []string
	watcher *fsnotify.Watcher // nil if there is none
}

func newFileWatch(paths []string, log logr.Logger) *fileWatch {
	f := &fileWatch{paths: paths}
	if len(paths) == 0 {
		return f
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Info("Policy files are not watched, only looked at now and then", "reason", err.Error())
		return f
	}
	f.watcher = w
	return f
}

// follow watches the folders that there are now: a file is replaced by a rename
// in its folder, and a mounted ConfigMap by that of a link in it.
func (f *fileWatch) follow() {
	if f.watcher == nil {
		return
	}
	for _, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() {
			_ = f.watcher.Add(filepath.Dir(path)) // the poll finds what cannot be watched
			continue
		}
		_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // loading says what cannot be read
			case d.IsDir() && name != path && strings.HasPrefix(d.Name(), "."):
				return filepath.SkipDir
			case d.IsDir():
				_ = f.watcher.Add(name)
			}
			return nil
		})
	}
}

func (f *fileWatch) changed() <-chan fsnotify.Event {
	if f.watcher == nil {
		return nil
	}
	return f.watcher.Events
}

// drain takes what came while the last change was waited out.
func (f *fileWatch) drain() {
	for {
		select {
		case <-f.watcher.Events:
		case <-f.watcher.Errors: //nolint:errcheck // told when the watch breaks
		default:
			return
		}
	}
}

func (f *fileWatch) close() {
	if f.watcher != nil {
		_ = f.watcher.Close()
	}
}

// sayNotRead logs once of each file that looks like a policy and is not read.
func (s *Source) sayNotRead(problems policies.Problems) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[string]bool{}
	for _, p := range problems {
		if p.Code != policies.CodeNotRead {
			continue
		}
		if now[p.File] = true; !s.notRead[p.File] {
			s.Log.Info("File looks like a policy, and is not read: policy files end in .yaml, .yml or .json", "file", clean(p.File))
		}
	}
	s.notRead = now
}
