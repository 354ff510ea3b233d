#!/usr/bin/env bash
# A real Debian for Arm64 under emulation, and a command of this checkout in it. Not part of CI: it
# needs root on Debian or Ubuntu, 3 GB of disk, and ten to thirty times as long as real hardware.
#
#   sudo tests/arm64/run.sh                     make benchmark
#   sudo tests/arm64/run.sh .venv/bin/pytest tests/unit
#
# ARM64_ROOT names the folder of the system (default: build/arm64); it is made once and kept, with
# the clone of HEAD in /root/cmbench.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
root=${ARM64_ROOT:-$here/build/arm64}
release=bookworm
# LoadGen has no wheel for Linux on Arm64: a C++ compiler and Python's headers build it.
packages=python3,python3-venv,python3-dev,g++,git,make,ca-certificates,procps

((EUID == 0)) || { echo "run.sh: mounting and chroot need root: sudo $0 $*" >&2; exit 2; }

missing=()
command -v debootstrap >/dev/null || missing+=(debootstrap)
command -v qemu-aarch64-static >/dev/null || missing+=(qemu-user-static)
if ((${#missing[@]})); then
  apt-get update -qq
  apt-get install -y --no-install-recommends "${missing[@]}" binfmt-support
fi

# The kernel hands programs for Arm64 to QEMU. In a container or a small VM nobody has set that up.
formats=/proc/sys/fs/binfmt_misc
[ -e "$formats/status" ] || mount -t binfmt_misc binfmt_misc "$formats"
[ -e "$formats/qemu-aarch64" ] || update-binfmts --enable qemu-aarch64

if [ ! -e "$root/.made" ]; then
  mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1 || true)
  [ -n "$mirror" ] || { echo "run.sh: no mirror in /etc/apt/sources.list*: add one" >&2; exit 1; }
  rm -rf "$root"
  debootstrap --arch=arm64 --variant=minbase --include="$packages" "$release" "$root" "$mirror"
  touch "$root/.made"
fi

# What this machine needs to reach the package index, it needs too.
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp --remove-destination -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
[ ! -e /etc/pip.conf ] || grep -v '^find-links\|file://' /etc/pip.conf >"$root/etc/pip.conf" || true

for place in proc dev; do
  mountpoint -q "$root/$place" || mount --rbind "/$place" "$root/$place"
done
trap 'umount -R "$root/proc" "$root/dev" || true' EXIT

rm -rf "$root/root/source.git"
git clone --quiet --bare "$here" "$root/root/source.git"
if [ ! -d "$root/root/cmbench" ]; then
  git -c safe.directory='*' clone --quiet "$root/root/source.git" "$root/root/cmbench"
  git -C "$root/root/cmbench" remote set-url origin /root/source.git
fi
commit=$(git -C "$here" rev-parse HEAD)
(($#)) || set -- make benchmark
chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin \
  SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
  bash -c 'cd /root/cmbench && git fetch --quiet && git checkout --quiet "$1" && shift && "$@"' \
  bash "$commit" "$@"
