#!/usr/bin/env bash
# Prints the path of a Chromium for the browser tests, installing Debian's
# package where there is none and this user may.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
  if command -v "$name"; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >&2
  command -v chromium
  exit 0
fi
echo "no Chromium found: install the package chromium, for example apt-get install chromium" >&2
exit 1
