# Sourced, in the repository's root: what a build is made from, as VERSION, COMMIT
# and SOURCE_DATE_EPOCH. What is set already stays, so that a build without .git, as
# in a Dockerfile, can be told; else git says.
: "${VERSION:=$(git describe --tags --always --dirty 2>/dev/null || true)}"
: "${COMMIT:=$(git rev-parse HEAD 2>/dev/null || true)}"
: "${SOURCE_DATE_EPOCH:=$(git show -s --format=%ct HEAD 2>/dev/null || true)}"
for name in VERSION COMMIT SOURCE_DATE_EPOCH; do
  if [ -z "${!name}" ]; then
    echo "$name is not set, and there is no git repository here to take it from" >&2
    exit 2
  fi
done
export VERSION COMMIT SOURCE_DATE_EPOCH
