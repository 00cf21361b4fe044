#!/usr/bin/env bash
# Looks for known vulnerabilities in what the program calls (govulncheck) and fails on
# what allow.yaml does not explain, then for risky code (gosec, in golangci-lint, with
# what .golangci.yml says of it): there each exception is a nolint with a reason.
#
# Vulnerabilities come from GOVULNDB, which is https://vuln.go.dev unless set. Where
# that cannot be reached they come from the module golang.org/x/vulndb as pinned
# here, which is as old as its version says.
set -euo pipefail
cd "$(dirname "$0")/../.."
module=golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018
sum=h1:mfngRv0Yoh0VApsXKEN82CjD99kl7mtparN3bs3JnqI=
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

db=${GOVULNDB:-https://vuln.go.dev}
if [[ $db = https://* ]] && ! curl -fsS -m 20 -o /dev/null "$db/index/db.json"; then
  echo "$db cannot be reached: looking in $module" >&2
  (cd "$out" && GOWORK=off go mod download -json "$module") >"$out/module.json"
  field() { sed -n 's/^\t"'"$1"'": "\(.*\)",\{0,1\}$/\1/p' "$out/module.json"; }
  if [ "$(field Sum)" != "$sum" ]; then
    echo "$0: $module has sum $(field Sum), and not $sum" >&2
    exit 1
  fi
  db=file://$(field Dir)/data/osv
fi
# With -format json it succeeds whatever it finds.
go tool -modfile=hack/tools/audit/go.mod govulncheck -db "$db" -format json ./cmd/holdfast >"$out/found.json"
go run ./hack/audit -found "$out/found.json" -allow hack/audit/allow.yaml

echo "gosec:"
go tool -modfile=hack/tools/go.mod golangci-lint run --enable-only gosec,nolintlint ./...
