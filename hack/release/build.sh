#!/usr/bin/env bash
# Builds the program as it is released: hack/release/build.sh OS/ARCH FILE [TAGS]
#
# The same commit, version and Go give the same bytes on every machine: no path, no
# time, no C compiler and no setting of the user's gets in but where Go finds modules.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: $0 OS/ARCH FILE [TAGS]" >&2; exit 2; }
out=$(realpath -m "$2")
cd "$(dirname "$0")/../.."
. hack/release/vars.sh
for name in GOPROXY GONOPROXY GOSUMDB GONOSUMDB GOPRIVATE GOINSECURE GOTOOLCHAIN GOCACHE GOMODCACHE; do
  export "$name=$(go env "$name")"
done
unset GOEXPERIMENT
export GOENV=off GOFLAGS=-mod=readonly GOWORK=off CGO_ENABLED=0 GOFIPS140=off
export GOOS="${1%/*}" GOARCH="${1#*/}" GOAMD64=v1 GOARM64=v8.0
go build -trimpath -buildvcs=false -tags "${3:-}" \
  -ldflags "-s -w -buildid= -X main.version=$VERSION -X main.commit=$COMMIT" \
  -o "$out" ./cmd/holdfast
