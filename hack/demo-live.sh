#!/usr/bin/env bash
# Runs the live demo, having first built what it shows and what it needs. The
# first run on a machine takes long: it compiles a Kubernetes. Arguments go to
# test/demolive: hack/demo-live.sh --log daemon.log
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${HOLDFAST_CACHE:-$HOME/.cache/holdfast}/demo-live
mkdir -p "$dir"
echo "Building (minutes at the first time, seconds after that) …" >&2
KUBEBUILDER_ASSETS=$(hack/kubebox/build.sh)
export KUBEBUILDER_ASSETS KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=120s
go build -o "$dir/holdfast" ./cmd/holdfast
go build -o "$dir/demolive" ./test/demolive
# In place of this shell: signals and the exit status are the demo's own.
exec "$dir/demolive" --holdfast "$dir/holdfast" "$@"
