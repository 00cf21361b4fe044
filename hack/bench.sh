#!/usr/bin/env bash
# Runs every benchmark once. Costs are printed as ratios to a plain way of
# doing the same, taken in the same run, so that a busy machine does not
# change them.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rlE '^func Benchmark[A-Z]' --include='*_test.go' . | xargs -n1 dirname | sort -u |
  xargs go test -run '^$' -bench . -benchtime "${BENCHTIME:-1x}" -timeout 60m
