#!/usr/bin/env bash
# Builds the program of this folder and runs it in the repository's root with the
# arguments given: hack/image/run.sh layout dist/image
set -euo pipefail
cd "$(dirname "$0")/../.."
. hack/release/vars.sh
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOWORK=off CGO_ENABLED=0 go build -C hack/image -buildvcs=false -trimpath -o "$bin/image" .
"$bin/image" "$@"
