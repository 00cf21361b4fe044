package aws

import "strings"

// bootTemplate is what a machine boots with whose bootstrap data is kept
// elsewhere (cloud-init, "User data formats": a boothook runs before all else, at
// each boot; an included file is user data). The file is not there when
// cloud-init reads the document for the first time, so cloud-init is started
// again once it is.
const bootTemplate = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="holdfast-boot"

--holdfast-boot
Content-Type: text/cloud-boothook; charset="us-ascii"

#cloud-boothook
#!/bin/bash
# Fetches what this machine boots with from where it is kept, and deletes it
# there. Needs the AWS CLI, and an instance profile that may do both.
set -o errexit -o nounset -o pipefail
umask 077
region="@REGION@"
file=/etc/secret-userdata.txt
if [ -f "$file" ]; then exit 0; fi
say() { echo "holdfast boot: $*" >&2; }
persist() {
  local n
  for n in 1 2 3 4 5 6 7 8 9 10; do
    if "$@"; then return 0; fi
    say "try $n of $1 $2 failed"
    sleep 10
  done
  say "gave up on $1 $2"
  return 1
}
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
fetch() { @FETCH@ > "$work/piece"; }
remove() { @REMOVE@ > /dev/null; }
for piece in @PIECES@; do
  persist fetch "$piece"
  cat "$work/piece" >> "$work/data.gz"
done
for piece in @PIECES@; do
  persist remove "$piece"
done
gunzip "$work/data.gz"
mv "$work/data" "$file"
say "the data is there, starting cloud-init again"
systemctl restart cloud-init

--holdfast-boot
Content-Type: text/x-include-url; charset="us-ascii"

file:///etc/secret-userdata.txt

--holdfast-boot--
`

// bootScript fills in names that are safe in a shell.
func bootScript(store secretStore, names []string, region string) []byte {
	return []byte(strings.NewReplacer(
		"@REGION@", region, "@FETCH@", store.fetch(), "@REMOVE@", store.remove(), "@PIECES@", strings.Join(names, " "),
	).Replace(bootTemplate))
}
