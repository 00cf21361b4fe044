#!/usr/bin/env bash
# Runs every benchmark. Costs are printed as ratios to a plain way of doing the
# same, taken in the same run, so that a busy machine does not change them.
# Whole sweeps run once; what takes microseconds runs for a while. What the whole
# program costs, and how fast it is, is measured by test/scale on a real API
# server: it takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
HOLDFAST_MOTO=$(hack/moto/install.sh)
KUBEBUILDER_ASSETS=$(hack/kubebox/build.sh)
export HOLDFAST_MOTO KUBEBUILDER_ASSETS
export KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=120s
packages() { grep -rlE '^func Benchmark[A-Z]' --include='*_test.go' "$@" | xargs -n1 dirname | sort -u; }
packages ./detector ./policies ./report | xargs go test -run '^$' -bench . -benchtime "${BENCHTIME:-200ms}" -timeout 60m
packages ./inventory ./providers ./reconcilers ./test | xargs go test -p 1 -run '^$' -bench . -benchtime 1x -timeout 60m
