#!/usr/bin/env bash
# Unpacks Debian's Prometheus, which the tests of alerts and dashboards run, and
# prints the folder that holds prometheus and promtool.
#
# The package is not installed: it is downloaded by apt-get, which needs no root,
# and unpacked outside the checkout, in ${HOLDFAST_CACHE:-~/.cache/holdfast}/
# prometheus-VERSION. A second call is instant.
set -euo pipefail
version=2.42.0+ds-5+deb12u1
# Of the architectures that were tried; apt-get checks signatures for all.
sum_amd64=81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55

dir=${HOLDFAST_CACHE:-$HOME/.cache/holdfast}/prometheus-$version
if [ ! -e "$dir/complete" ]; then
  if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "no apt-get and dpkg-deb: put prometheus and promtool $version into $dir/usr/bin and touch $dir/complete" >&2
    exit 1
  fi
  rm -rf "$dir"
  mkdir -p "$dir/package"
  cd "$dir/package"
  if ! apt-get -qq download "prometheus=$version" >&2; then
    if [ "$(id -u)" != 0 ]; then
      echo "apt-get does not know prometheus=$version: run apt-get update as root, or pin the version that apt-cache policy prometheus shows" >&2
      exit 1
    fi
    apt-get -qq update >&2
    apt-get -qq download "prometheus=$version" >&2
  fi
  if [ "$(dpkg --print-architecture)" = amd64 ]; then
    echo "$sum_amd64 $(echo prometheus_*.deb)" | sha256sum --check --quiet >&2
  fi
  dpkg-deb -x prometheus_*.deb "$dir"
  cd "$dir"
  rm -r package
  touch complete
fi
echo "$dir/usr/bin"
