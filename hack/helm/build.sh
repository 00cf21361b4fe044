#!/usr/bin/env bash
# Builds Helm, of major version 3 or 4 (the argument; 3 without), as its module
# here pins it, and prints the path of the program.
#
# The result is kept outside the checkout, in
# ${HOLDFAST_CACHE:-~/.cache/holdfast}/helmMAJOR-HASH, where HASH covers the
# module's files and the Go version: a second call is instant.
set -euo pipefail
major=${1:-3}
cd "$(dirname "$0")"
case $major in 3|4) ;; *) echo "hack/helm/build.sh: Helm $major: want 3 or 4" >&2; exit 2 ;; esac
hash=$( { go env GOVERSION; cat "v$major/go.mod" "v$major/go.sum" build.sh; } | sha256sum | cut -c1-16)
dir=${HOLDFAST_CACHE:-$HOME/.cache/holdfast}/helm$major-$hash
if [ ! -x "$dir/helm" ]; then
  mkdir -p "$dir"
  cd "v$major"
  module=helm.sh/helm/v$major
  version=$(GOWORK=off go list -m -f '{{.Version}}' "$module")
  flags="-s -w -X $module/internal/version.version=$version"
  # Without these Helm 3 takes a cluster that it does not ask for 1.20; Helm 4
  # looks the version up itself.
  minor=$(GOWORK=off go list -m -f '{{.Version}}' k8s.io/client-go); minor=${minor#v0.}; minor=${minor%%.*}
  for p in pkg/lint/rules pkg/chartutil; do
    flags+=" -X $module/$p.k8sVersionMajor=1 -X $module/$p.k8sVersionMinor=$minor"
  done
  CGO_ENABLED=0 GOWORK=off go build -buildvcs=false -trimpath \
    -ldflags "$flags" \
    -o "$dir/helm.tmp$$" "$module/cmd/helm" >&2
  mv "$dir/helm.tmp$$" "$dir/helm"
fi
echo "$dir/helm"
