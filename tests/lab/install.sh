#!/bin/sh
# Installs the Debian packages the lab needs and this machine lacks.
set -eu
missing=
for package in busybox-static catatonit docker.io faketime iproute2 openssh-client openssh-server podman runc \
    util-linux; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# Installing must not start an engine or an ssh server of the machine's own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
# shellcheck disable=SC2086
apt-get install -q -y --no-install-recommends $missing
