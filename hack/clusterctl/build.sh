#!/usr/bin/env bash
# Builds clusterctl, as this module pins it, and prints the path of the program. A
# test in hack/clusterapi holds it to the Cluster API of the repository's go.mod.
#
# The result is kept outside the checkout, in
# ${HOLDFAST_CACHE:-~/.cache/holdfast}/clusterctl-HASH, where HASH covers this
# module's files and the Go version: a second call is instant.
set -euo pipefail
cd "$(dirname "$0")"
hash=$( { go env GOVERSION; cat go.mod go.sum build.sh; } | sha256sum | cut -c1-16)
dir=${HOLDFAST_CACHE:-$HOME/.cache/holdfast}/clusterctl-$hash
if [ ! -x "$dir/clusterctl" ]; then
  mkdir -p "$dir"
  version=$(GOWORK=off go list -m -f '{{.Version}}' sigs.k8s.io/cluster-api)
  major=${version#v}; major=${major%%.*}
  minor=${version#v*.}; minor=${minor%%.*}
  p=sigs.k8s.io/cluster-api/version
  # Neither -trimpath nor CGO_ENABLED=0: most of its packages are Holdfast's too, and
  # are taken from what go test compiles of them, by the same flags.
  GOWORK=off go build -buildvcs=false \
    -ldflags "-s -w -X $p.gitVersion=$version -X $p.gitMajor=$major -X $p.gitMinor=$minor" \
    -o "$dir/clusterctl.tmp$$" sigs.k8s.io/cluster-api/cmd/clusterctl >&2
  mv "$dir/clusterctl.tmp$$" "$dir/clusterctl"
fi
echo "$dir/clusterctl"
