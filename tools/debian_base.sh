#!/usr/bin/env bash
# Sourced by docker/check.sh and packaging/parts/common.sh: Debian's smallest system,
# from the mirror that apt of this machine is configured with.

# debian_mirror WORK [CODENAME]: writes that mirror, for that version of Debian
# (bookworm unless it is named), to WORK/sources.list, and how to reach it to
# WORK/apt.conf; sets `mirror`. False: apt knows none.
debian_mirror() {
    local codename=${2:-bookworm} own
    own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    debian_sources "$own" "$codename" >"$1/sources.list"
    if [ ! -s "$1/sources.list" ]; then # apt reads the names from its lists
        apt-get -qq update >&2
        debian_sources "$own" "$codename" >"$1/sources.list"
    fi
    apt-config dump --format '%F "%v";%n' |
        grep -E '^Acquire::(https?|Check)' >"$1/apt.conf" || true
    mirror=$(awk -v codename="$codename" '$3 == codename {print $2; exit}' \
        "$1/sources.list")
    [ -n "$mirror" ]
}

# debian_sources OWN CODENAME: the lines of sources.list of this machine's Debian, for
# CODENAME in place of OWN.
debian_sources() {
    # shellcheck disable=SC2016 # fields of apt's
    apt-get indextargets --format '$(CODENAME) $(REPO_URI) $(COMPONENT)' \
        'Created-By: Packages' 'Origin: Debian' |
        awk -v own="$1" -v codename="$2" \
            'own && index($1, own) == 1 {sub(own, codename, $1); print "deb", $2, $1, $3}' |
        sort -u
}

# debian_base ROOT [CODENAME]: makes that Debian in that folder, after debian_mirror.
debian_base() {
    local proxy=
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    http_proxy=${proxy:-${http_proxy:-}} debootstrap --variant=minbase \
        "${2:-bookworm}" "$1" "$mirror"
}
