#!/usr/bin/env bash
# Builds kubeconform and kube-score, as the module here pins them, takes the CRDs of
# the Prometheus operator along, and prints the folder that holds them: kubeconform,
# kube-score and crds/*.yaml.
#
# The CRDs are in the operator's own module, of which nothing is compiled; so it is
# pinned here by its sum instead of being required with all that it requires.
#
# The result is kept outside the checkout, in
# ${HOLDFAST_CACHE:-~/.cache/holdfast}/chartlint-HASH, where HASH covers the module's
# files and the Go version: a second call is instant.
set -euo pipefail
operator=github.com/prometheus-operator/prometheus-operator@v0.94.0
sum=h1:VxMKzqr8Xqw5/QInNT7a3B5XInPnHqE7SD2UIdwKpRM=
cd "$(dirname "$0")"
hash=$( { go env GOVERSION; cat go.mod go.sum build.sh; } | sha256sum | cut -c1-16)
dir=${HOLDFAST_CACHE:-$HOME/.cache/holdfast}/chartlint-$hash
if [ ! -d "$dir" ]; then
  mkdir -p "$(dirname "$dir")"
  temp=$(mktemp -d "$dir.tmpXXXXXX")
  trap 'rm -rf "$temp"' EXIT
  chmod 755 "$temp"
  CGO_ENABLED=0 GOWORK=off go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$temp/" \
    github.com/yannh/kubeconform/cmd/kubeconform github.com/zegl/kube-score/cmd/kube-score >&2
  # Outside any module, so that no go.mod has a say in it.
  (cd "$temp" && GOWORK=off go mod download -json "$operator") >"$temp/module.json"
  field() { sed -n 's/^\t"'"$1"'": "\(.*\)",\{0,1\}$/\1/p' "$temp/module.json"; }
  if [ "$(field Sum)" != "$sum" ]; then
    echo "hack/chartlint/build.sh: $operator has sum $(field Sum), and not $sum" >&2
    exit 1
  fi
  mkdir "$temp/crds"
  for kind in podmonitors prometheusrules servicemonitors; do
    install -m 644 "$(field Dir)/example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml" "$temp/crds/"
  done
  # Whoever is first; the other's is the same.
  mv -T "$temp" "$dir" 2>/dev/null || [ -d "$dir" ]
fi
echo "$dir"
