#!/usr/bin/env bash
# Sourced by docker/check.sh and packaging/check.sh: Debian's smallest system, from
# the mirror that apt of this machine is configured with.

# debian_mirror WORK: writes that mirror, and how to reach it, to WORK/sources.list
# and WORK/apt.conf; sets `mirror`. False: apt knows none.
debian_mirror() {
    # shellcheck disable=SC2016 # fields of apt's
    apt-get indextargets --format '$(CODENAME) $(REPO_URI) $(COMPONENT)' \
        'Created-By: Packages' 'Origin: Debian' |
        awk '$1 ~ /^bookworm/ {print "deb", $2, $1, $3}' |
        sort -u >"$1/sources.list"
    apt-config dump --format '%F "%v";%n' |
        grep -E '^Acquire::(https?|Check)' >"$1/apt.conf" || true
    mirror=$(awk '$3 == "bookworm" {print $2; exit}' "$1/sources.list")
    [ -n "$mirror" ]
}

# debian_base ROOT: makes Debian 12 in that folder, after debian_mirror.
debian_base() {
    local proxy=
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    http_proxy=${proxy:-${http_proxy:-}} debootstrap --variant=minbase bookworm \
        "$1" "$mirror"
}
