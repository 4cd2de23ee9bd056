#!/usr/bin/env bash
# A Debian tree of another release, for programs that this machine's own release has too old for the tests:
#
#     debian_tree.sh SUITE[-NAME] PACKAGE...         e.g. debian_tree.sh forky tshark
#
# makes ${IKEANALYZE_TREES:-${XDG_CACHE_HOME:-~/.cache}/ikeanalyze}/SUITE, to be entered with chroot, and prints its
# path; with a name a second tree of the same release, SUITE-NAME, for what cannot be installed beside the first.
# Needs root, debootstrap, and what Debian's mirror needs of apt on this machine: mirror and proxy are the ones that apt
# has here. Some 250 MB and half a minute; if the tree is there and has the packages, nothing is done. More packages
# later: the tree is made anew with the old and the new ones.
#
# A tree is made beside its place and moved there when it is complete, under a lock, in a mount namespace of its own
# where there may be one: a half-made tree is never found, two calls do not meet, no mount is left behind.
set -euo pipefail

die() {
    echo "debian_tree: $*" >&2
    exit 1
}

[ $# -ge 2 ] || die "usage: debian_tree.sh SUITE[-NAME] PACKAGE..."
name=$1
suite=${name%%-*}
shift
trees=${IKEANALYZE_TREES:-${XDG_CACHE_HOME:-$HOME/.cache}/ikeanalyze}
tree=$trees/$name
packages=.ikeanalyze-packages # in the tree: what it was made for, one a line

has_all() { # PACKAGE...: is the tree there, and made for all of these?
    [ -f "$tree/$packages" ] && for package; do grep -qxF -- "$package" "$tree/$packages" || return 1; done
}

if has_all "$@"; then
    echo "$tree"
    exit
fi

[ "$(id -u)" = 0 ] || die "making $tree needs root"
command -v debootstrap >/dev/null || die "debootstrap is missing (apt-get install debootstrap)"
if [ -z "${IKEANALYZE_UNSHARED:-}" ] && unshare --mount true 2>/dev/null; then
    IKEANALYZE_UNSHARED=1 exec unshare --mount -- "$BASH" "$0" "$name" "$@"
fi

mkdir -p "$trees"
exec 9>"$trees/.$name.lock"
flock 9
if has_all "$@"; then # made while we waited
    echo "$tree"
    exit
fi

part=$trees/.$name.part
wanted=$({ cat "$tree/$packages" 2>/dev/null || true; printf '%s\n' "$@"; } | sort -u)
discard() {
    for mounted in proc sys dev/pts dev; do umount "$1/$mounted" 2>/dev/null || true; done
    rm -rf --one-file-system "$1"
}
discard "$part" # of a call that was killed
trap 'discard "$part"' EXIT

# This machine's Debian mirror, as apt knows it: the one of its own release, main.
. /etc/os-release
mirror_of_apt() {
    apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk -v codename="${VERSION_CODENAME:-}" '$1 == "Debian" && $2 == codename && $3 == "main" { print $4; exit }'
}
mirror=$(mirror_of_apt)
[ -n "$mirror" ] || { # without lists it does not know what is Debian's
    apt-get update -qq >&2
    mirror=$(mirror_of_apt)
}
[ -n "$mirror" ] || die "apt knows no Debian mirror on this machine"

# apt's proxies, for debootstrap's wget and for apt in the tree.
eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
for proxy in http_proxy https_proxy; do
    case ${!proxy:-} in "" | DIRECT) unset "$proxy" ;; *) export "${proxy?}" ;; esac
done

include=()
[[ $mirror != https:* ]] || include=(--include=ca-certificates)
script=/usr/share/debootstrap/scripts/$suite
[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid # younger than this debootstrap

mkdir -p "$part"
debootstrap --variant=minbase "${include[@]}" "$suite" "$part" "$mirror" "$script" >&2 || {
    tail -n 20 "$part/debootstrap/debootstrap.log" >&2 || true
    die "debootstrap failed"
}

# No daemon is started in the tree; no documentation, no translations.
printf '#!/bin/sh\nexit 101\n' >"$part/usr/sbin/policy-rc.d"
chmod 755 "$part/usr/sbin/policy-rc.d"
echo "deb $mirror $suite main" >"$part/etc/apt/sources.list"
{
    apt-config dump | grep -iE '^Acquire::((http|https)::[^ ]*Proxy[^ ]*|Check-Valid-Until|Check-Date|Retries|ForceIPv[46]) ' || true
    echo 'Acquire::Languages "none";'
    echo 'APT::Install-Recommends "false";'
} >"$part/etc/apt/apt.conf.d/80ikeanalyze"
printf 'path-exclude /usr/share/%s/*\n' doc man locale info >"$part/etc/dpkg/dpkg.cfg.d/ikeanalyze"
echo force-unsafe-io >>"$part/etc/dpkg/dpkg.cfg.d/ikeanalyze" # a tree that a power cut breaks is not moved to its place
for file in /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e "$file" ] || [ ! -d "$part${file%/*}" ] || cp "$file" "$part$file"
done
mount -t proc proc "$part/proc" 2>/dev/null || true # some installation scripts look into it
inside() {
    chroot "$part" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
inside apt-get update -qq >&2
# shellcheck disable=SC2086 # a word each
inside apt-get install -y -qq $wanted >&2
inside apt-get clean
rm -rf "${part:?}"/var/lib/apt/lists/*
umount "$part/proc" 2>/dev/null || true

echo "$wanted" >"$part/$packages"
if [ -e "$tree" ]; then
    discard "$tree.old"
    mv "$tree" "$tree.old"
fi
mv "$part" "$tree"
trap - EXIT
discard "$tree.old"
echo "$tree"
