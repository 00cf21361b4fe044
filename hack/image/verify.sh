#!/usr/bin/env bash
# Makes the image of the commit that is checked out twice: here and in a clone
# elsewhere. Fails unless both have the same digest and the program in it starts
# as the user that it names, with nothing but what is in it.
#
# Platforms may be named; all are made else. With --cold, as the first argument, the
# clone has an empty build cache, so that everything is compiled again, which takes
# long; else what both compile alike is compiled once.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -n "$(git status --porcelain)" ]; then
  echo "hack/image/verify.sh: commit first, what is not committed is not in a clone:" >&2
  git status --short >&2
  exit 2
fi
cold=""
if [ "${1:-}" = --cold ]; then cold=yes; shift; fi
temp=$(mktemp -d)
trap 'chmod -R u+w "$temp"; rm -rf "$temp"' EXIT
first=$(hack/image/run.sh layout dist/image "$@")
git clone --quiet . "$temp/a folder elsewhere"
if [ -n "$cold" ]; then export GOCACHE=$temp/cache; fi
second=$(cd "$temp/a folder elsewhere" && env -u VERSION -u COMMIT -u SOURCE_DATE_EPOCH hack/image/run.sh layout "$temp/image" "$@")
echo "here:      $first"
echo "elsewhere: $second"
if [ "$first" != "$second" ]; then
  echo "hack/image/verify.sh: the same commit gives two images" >&2
  exit 1
fi
if [ "$(uname -s)" != Linux ]; then exit 0; fi
# Root can be sure that nothing of this machine is used; anybody can start it.
hack/image/run.sh rootfs "linux/$(go env GOARCH)" "$temp/rootfs"
if [ "$(id -u)" = 0 ]; then
  chmod 755 "$temp"
  start=(chroot --userspec=65532:65532 "$temp/rootfs" /holdfast)
else
  start=("$temp/rootfs/holdfast")
fi
"${start[@]}" version
"${start[@]}" controller --help | head -1
