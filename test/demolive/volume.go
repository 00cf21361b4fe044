package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// configMap reads the ConfigMap of a volume.
func (p *pod) configMap(ctx context.Context, spec *corev1.PodSpec, volume string) (map[string]string, error) {
	for _, v := range spec.Volumes {
		if v.Name != volume || v.ConfigMap == nil {
			continue
		}
		c := &corev1.ConfigMap{}
		if err := p.client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: v.ConfigMap.Name}, c); err != nil {
			return nil, fmt.Errorf("read volume %s: %w", volume, err)
		}
		return c.Data, nil
	}
	return nil, fmt.Errorf("the pod has no ConfigMap volume %q", volume)
}

func (p *pod) place(volume string) string { return filepath.Join(p.dir, volume) }

// mountPolicies brings the folder of the policies to what their ConfigMap holds.
func (p *pod) mountPolicies(ctx context.Context, spec *corev1.PodSpec) error {
	data, err := p.configMap(ctx, spec, "policies")
	if err != nil {
		return err
	}
	dir := p.place("policies")
	if same(filepath.Join(dir, "..data"), data) {
		return nil
	}
	return p.mount(dir, data)
}

// mount exchanges all files at once, by the link ..data
// (kubernetes/pkg/volume/util/atomic_writer.go).
func (p *pod) mount(dir string, data map[string]string) error {
	p.mounts++
	now := fmt.Sprintf("..%d", p.mounts)
	if err := os.MkdirAll(filepath.Join(dir, now), 0o700); err != nil {
		return err
	}
	for name, text := range data {
		if err := os.WriteFile(filepath.Join(dir, now, filepath.Base(name)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	next := filepath.Join(dir, "..data_next")
	if err := errors.Join(os.RemoveAll(next), os.Symlink(now, next), os.Rename(next, filepath.Join(dir, "..data"))); err != nil {
		return err
	}
	return p.link(dir, data)
}

// link has each file of the volume be a link into ..data, and takes away those
// that are no more.
func (p *pod) link(dir string, data map[string]string) error {
	have, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range have {
		if _, wanted := data[e.Name()]; !wanted && !strings.HasPrefix(e.Name(), "..") {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for name := range data {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, filepath.Base(name))); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// same tells whether a folder holds exactly those files.
func same(dir string, data map[string]string) bool {
	have, err := os.ReadDir(dir)
	if err != nil || len(have) != len(data) {
		return false
	}
	for name, want := range data {
		if text, err := os.ReadFile(filepath.Join(dir, filepath.Base(name))); err != nil || string(text) != want {
			return false
		}
	}
	return true
}
