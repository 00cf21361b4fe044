#!/usr/bin/env bash
# Installs moto, the EC2 that the tests compare with, at the versions pinned in
# requirements.txt, and prints the path of moto_server.
#
# It goes into a virtual environment outside the checkout, in
# ${HOLDFAST_CACHE:-~/.cache/holdfast}/moto-HASH: a second call is instant.
set -euo pipefail
cd "$(dirname "$0")"
hash=$( { python3 --version; cat requirements.txt install.sh; } | sha256sum | cut -c1-16)
dir=${HOLDFAST_CACHE:-$HOME/.cache/holdfast}/moto-$hash
if [ ! -e "$dir/complete" ]; then
  rm -rf "$dir"
  python3 -m venv "$dir" >&2
  "$dir/bin/pip" install --quiet --disable-pip-version-check -r requirements.txt >&2
  touch "$dir/complete"
fi
echo "$dir/bin/moto_server"
