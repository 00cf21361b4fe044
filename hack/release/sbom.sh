#!/usr/bin/env bash
# Writes what the released programs consist of, as CycloneDX, into a folder:
# holdfast-image.cdx.json for the image and holdfast-cli.cdx.json for the archives.
# The lists are read from the programs themselves, so they say what is linked; the
# same modules are linked on every platform that is released, or this fails.
set -euo pipefail
out=$(realpath -m "${1:?usage: hack/release/sbom.sh FOLDER}")
cd "$(dirname "$0")/../.."
. hack/release/vars.sh
mkdir -p "$out"
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

modules() { go version -m "$1" | awk '$1 == "dep" || $1 == "=>" { print $1, $2, $3 }'; }

list() { # list NAME TAGS PLATFORM...
  local name=$1 tags=$2 platform file first=""
  shift 2
  for platform in "$@"; do
    file=$temp/$name-${platform/\//-}/holdfast
    hack/release/build.sh "$platform" "$file" "$tags"
    if [ -z "$first" ]; then
      first=$file
    elif ! diff <(modules "$first") <(modules "$file") >&2; then
      echo "$0: $platform links other modules than ${first#"$temp/"}" >&2
      exit 1
    fi
  done
  # All modules are in the cache, as they were just compiled; only our own is not to be
  # had at a proxy, of which the warning is. No serial and no time: the same programs
  # give the same list.
  PATH=$temp/bin:$PATH GOPROXY=off "$lister" bin -json -licenses -std \
    -noserial -notimestamp -version "$VERSION" -output "$out/$name.cdx.json" "$first"
}

# cyclonedx-gomod asks `go mod download` for the folders of twenty modules at once,
# and finds no licence of any of them if one is a folder of ours, which go.mod has put
# in a module's place. So it is not asked for that.
lister=$(go tool -n -modfile=hack/tools/sbom/go.mod cyclonedx-gomod)
mkdir "$temp/bin"
cat >"$temp/bin/go" <<EOF
#!/usr/bin/env bash
for a; do shift; [[ \$a = ./* ]] || set -- "\$@" "\$a"; done
exec "$(command -v go)" "\$@"
EOF
chmod +x "$temp/bin/go"

list holdfast-image nodemo linux/amd64 linux/arm64
list holdfast-cli "" linux/amd64
go run ./hack/release sbom "$(go list -modfile=hack/tools/sbom/go.mod -m -f '{{.Dir}}' github.com/CycloneDX/cyclonedx-go)/schema" \
  "$out"/holdfast-{image,cli}.cdx.json
