#!/usr/bin/env bash
# Regenerates go.mod's require + replace block for a given Kubernetes patch release.
# usage: gen-gomod.sh v1.37.2 v3.7.3
set -euo pipefail
KV=${1:-v1.37.2}; EV=${2:-v3.7.0}; SV=v0.${KV#v1.}
kd=$(go mod download -json "k8s.io/kubernetes@$KV" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')
{
  echo "module github.com/holdfast-io/holdfast/hack/kubebox"; echo; echo "go 1.26.0"; echo
  echo "require ("; echo "	k8s.io/kubernetes $KV"; echo "	go.etcd.io/etcd/server/v3 $EV"; echo ")"; echo
  echo "replace ("
  sed -n 's#^\t\(k8s.io/[a-z-]*\) => ./staging/.*#\t\1 => \1 '"$SV"'#p' "$kd"
  echo ")"
} > go.mod
