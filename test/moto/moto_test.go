package moto_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/test/moto"
)

func TestStart(t *testing.T) {
	s, err := moto.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Reset(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := s.Reset(t.Context()); err == nil {
		t.Error("the server answers after it was closed")
	}
}

func TestFindSaysHowToInstall(t *testing.T) {
	t.Setenv(moto.BinaryVariable, filepath.Join(t.TempDir(), "none"))
	if _, err := moto.Find(); err == nil || !strings.Contains(err.Error(), moto.BinaryVariable) {
		t.Errorf("a wrong path gives %v: want an error that names the variable", err)
	}
}

func TestStartReportsOutput(t *testing.T) {
	script := filepath.Join(t.TempDir(), "moto_server")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho no such luck\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(moto.BinaryVariable, script)
	if _, err := moto.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("a server that ends at once gives %v: want its output", err)
	}
}
