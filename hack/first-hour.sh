#!/usr/bin/env bash
# Puts up the world of docs/first-hour.md and keeps it until Ctrl-C: a real
# kube-apiserver with Cluster API's reconcilers, a simulated AWS with a cluster, and
# the programs that the page runs. What the reader's shell needs is written to
# env.sh in a folder, which --dir names. The first run on a machine takes long: it
# compiles a Kubernetes and Helm.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${HOLDFAST_CACHE:-$HOME/.cache/holdfast}
dir=$cache/first-hour
case ${1:-} in
  "") ;;
  --dir) dir=${2:?--dir needs a folder} ;;
  *) echo "usage: hack/first-hour.sh [--dir FOLDER]" >&2; exit 2 ;;
esac
mkdir -p "$cache/demo-live"
echo "Building (minutes at the first time, seconds after that) …" >&2
KUBEBUILDER_ASSETS=$(hack/kubebox/build.sh)
export KUBEBUILDER_ASSETS KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=120s
tools=$(hack/helm/build.sh 3)
if prometheus=$(hack/prometheus/install.sh); then
  tools+=,$prometheus/prometheus,$prometheus/promtool
else
  echo "No Prometheus: the page's part on alerts needs prometheus and promtool in your PATH." >&2
fi
go build -o "$cache/demo-live/holdfast" ./cmd/holdfast
go build -o "$cache/demo-live/demolive" ./test/demolive
# In place of this shell: signals and the exit status are its own.
exec "$cache/demo-live/demolive" first-hour --dir "$dir" --holdfast "$cache/demo-live/holdfast" --tools "$tools"
