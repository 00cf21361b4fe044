#!/usr/bin/env bash
# Runs every benchmark. Costs are printed as ratios to a plain way of doing the
# same, taken in the same run, so that a busy machine does not change them.
# Whole sweeps run once; what takes microseconds runs for a while.
set -euo pipefail
cd "$(dirname "$0")/.."
HOLDFAST_MOTO=$(hack/moto/install.sh)
export HOLDFAST_MOTO
packages() { grep -rlE '^func Benchmark[A-Z]' --include='*_test.go' "$@" | xargs -n1 dirname | sort -u; }
packages ./detector ./policies ./report | xargs go test -run '^$' -bench . -benchtime "${BENCHTIME:-200ms}" -timeout 60m
packages ./inventory ./providers ./reconcilers ./test | xargs go test -run '^$' -bench . -benchtime 1x -timeout 60m
