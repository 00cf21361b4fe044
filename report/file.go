package report

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// replaceFile writes a file so that a reader sees the old content or the new
// one, never a part: it writes beside the target and renames. What exists and
// is no regular file, such as a pipe or /dev/stderr, is written to as it is.
func replaceFile(name string, data []byte) (err error) {
	// A link stays a link: what it points to is replaced.
	if target, linkErr := filepath.EvalSymlinks(name); linkErr == nil {
		name = target
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a folder: name a file in it")
	case err == nil && !info.Mode().IsRegular():
		return os.WriteFile(name, data, 0o644)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if _, err := os.Stat(filepath.Dir(name)); errors.Is(err, fs.ErrNotExist) {
		return errors.New("its folder does not exist: create it first")
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if _, err = tmp.Write(data); err != nil {
		return err
	}
	if err = tmp.Chmod(0o644); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}
