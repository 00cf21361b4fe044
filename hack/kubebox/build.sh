#!/usr/bin/env bash
# Builds the test control plane (see main.go) and prints the folder that holds
# etcd, kube-apiserver, minikcm and kubectl, for KUBEBUILDER_ASSETS.
#
# The result is kept outside the checkout, in
# ${HOLDFAST_CACHE:-~/.cache/holdfast}/kubebox-HASH, where HASH covers this
# module's files and the Go version: a second call is instant.
set -euo pipefail
cd "$(dirname "$0")"
hash=$( { go env GOVERSION; cat go.mod go.sum ./*.go build.sh; } | sha256sum | cut -c1-16)
dir=${HOLDFAST_CACHE:-$HOME/.cache/holdfast}/kubebox-$hash
if [ ! -x "$dir/kubectl" ]; then
  mkdir -p "$dir"
  version=$(GOWORK=off go list -m -f '{{.Version}}' k8s.io/kubernetes)
  minor=${version#v1.}; minor=${minor%%.*}
  p=k8s.io/component-base/version
  CGO_ENABLED=0 GOWORK=off go build -buildvcs=false -trimpath \
    -ldflags "-s -w -X $p.gitVersion=$version -X $p.gitMajor=1 -X $p.gitMinor=$minor" \
    -o "$dir/kubebox.tmp$$" . >&2
  mv "$dir/kubebox.tmp$$" "$dir/kubebox"
  # kubectl last: its presence is what says that the folder is complete.
  for n in etcd kube-apiserver minikcm kubectl; do ln -sfn kubebox "$dir/$n"; done
fi
echo "$dir"
