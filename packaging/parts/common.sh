# shellcheck shell=bash
# Sourced by the parts of a release (packaging/release): the checkout, its version, a
# scratch directory, and bare Debian systems in which a part builds and tries its files.
#
# A part is a program packaging/parts/NAME. `NAME build DIST` puts files into the folder
# DIST, `NAME check DIST` tries them where nothing of the checkout is. It ends with 0, with 1
# when something is wrong, with 2 when this machine lacks something (`fail`, `cannot`).
# With TIDINGS_QUICK=1 it does its short form: what .ci/run has time for.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tools/debian_base.sh
. "$top/tools/debian_base.sh"
part=$(basename "$0")
# shellcheck disable=SC2034 # parts read it
version=$(sed -n 's/^project(tidings VERSION \([0-9.]*\).*/\1/p' "$top/CMakeLists.txt")
# shellcheck disable=SC2034 # parts read it
quick=${TIDINGS_QUICK:-}
umask 022

# The versions of Debian that there are packages for.
declare -A debian_number=([bookworm]=12 [trixie]=13)

# release_date: of the newest version in CHANGELOG.md, in seconds since 1970; of the commit
# while that version has no date.
release_date() {
    local day
    day=$(sed -nE '/^## \[Unreleased\]/d; /^## \[/{s/^## \[[^]]*\] - ([0-9]{4}-[0-9-]+).*/\1/p;q}' \
        "$top/CHANGELOG.md")
    if [ -n "$day" ]; then
        date -u -d "$day" +%s
    else
        git -C "$top" log -1 --format=%ct
    fi
}

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(release_date)}

say() {
    printf '%4d s  %s\n' "$SECONDS" "$*"
}

fail() {
    echo "$part: $*" >&2
    exit 1
}

# cannot WHY: ends the part, which this machine cannot do.
cannot() {
    echo "$part: $*" >&2
    exit 2
}

need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || cannot "$program is missing"
    done
}

need_root() {
    [ "$(id -u)" -eq 0 ] || cannot "debootstrap and chroot need root"
}

# A scratch directory, which goes with the part; its logs are shown if the part fails, or
# cannot be made.
work=$(mktemp -d "${TMPDIR:-/tmp}/tidings-release.XXXXXX")
at_exit=() # commands

# shellcheck disable=SC2317 # called by trap
clean_up() {
    local status=$? log command
    trap - EXIT
    for command in "${at_exit[@]}"; do
        $command || true
    done
    if [ "$status" -ne 0 ]; then
        for log in "$work"/*.log; do
            [ -s "$log" ] || continue
            echo "=== the end of $(basename "$log")"
            tail -n 30 "$log"
        done >&2
    fi
    # Should a mount have been left behind, what is mounted there stays.
    rm -rf --one-file-system "$work"
    exit "$status"
}

trap clean_up EXIT
trap 'exit 1' INT TERM

# step WHAT COMMAND...: succeeds; what it says is kept.
step() {
    local what=$1
    shift
    "$@" >"$work/said.log" 2>&1 || fail "$what: failed"
    say "$what"
}

# is_left_out WHAT [PROGRAM]: true, and says so, in the short form, or where this machine does
# not have the program.
is_left_out() {
    if [ -n "$quick" ]; then
        say "$1: left out (TIDINGS_QUICK)"
    elif [ -n "${2:-}" ] && ! command -v "$2" >/dev/null; then
        say "$1: left out ($2 is not installed)"
    else
        return 1
    fi
}

# source_tree FOLDER [COMMIT]: makes it, with the files of that commit, or of the one that is
# checked out (the part `source` says what that leaves out). Without git the checkout is an unpacked tarball: with
# all of its files.
source_tree() {
    local changed
    mkdir -p "$1"
    if [ ! -e "$top/.git" ]; then
        tar -C "$top" --exclude=./build --exclude=./dist -cf - . | tar -xf - -C "$1"
        return
    fi
    changed=$(git -C "$top" status --porcelain | wc -l)
    [ "$changed" -eq 0 ] || [ "$part" != source ] ||
        say "left out: $changed files that are not as in the commit (git status)"
    git -C "$top" -c tar.umask=0022 archive "${2:-HEAD}" | tar -xf - -C "$1" --no-same-owner
}

# inside COMMAND...: in the system `root`, in its folder `folder`. Its process becomes the
# command; its mounts go with it. `enter` is the beginning of that command line.
inside() {
    # shellcheck disable=SC2016 # expanded by the bash in there
    enter=(unshare --mount bash -euc '
        mount --rbind /proc "$1/proc"
        mount --rbind /dev "$1/dev"
        root=$1 folder=$2
        shift 2
        exec chroot "$root" env -i -C "$folder" \
            PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" "$@"'
        bash "$root" "${folder:-/}")
    "${enter[@]}" "$@"
}

# pristine CODENAME: makes that Debian before anything of ours, and sets `root` to its
# folder, which stays as it is. The parts of one release share it (TIDINGS_ROOTS).
# Where a package brings a new file for /etc, the administrator's stays: nobody is there
# to ask.
pristine() {
    local codename=$1
    folder=
    need debootstrap
    need_root
    root=${TIDINGS_ROOTS:-$work}/$codename
    if [ ! -e "$root" ]; then
        debian_mirror "$work" "$codename" ||
            cannot "apt of this machine knows no mirror of Debian"
        debian_base "$root.new" "$codename" >"$work/debootstrap.log" 2>&1 ||
            cannot "debootstrap $codename: failed"
        cp "$work/sources.list" "$root.new/etc/apt/sources.list"
        cp "$work/apt.conf" "$root.new/etc/apt/apt.conf"
        cp /etc/resolv.conf "$root.new/etc/resolv.conf"
        echo 'Dpkg::Options {"--force-confold";};' >>"$root.new/etc/apt/apt.conf"
        # It need not outlive a crash.
        echo force-unsafe-io >"$root.new/etc/dpkg/dpkg.cfg.d/fast"
        mv "$root.new" "$root"
        inside apt-get update >"$work/apt.log" 2>&1 || cannot "apt-get update: failed"
        say "Debian ${debian_number[$codename]} made"
    fi
}

# bare_system CODENAME FOLDER: copies that Debian there, and sets `root` to it.
bare_system() {
    pristine "$1"
    mkdir -p "$2"
    cp -a "$root/." "$2"
    root=$2
}

# building_system CODENAME FOLDER: the same with what builds the packages. The parts of one
# release share that, too.
building_system() {
    local kept=${TIDINGS_ROOTS:-$work}/$1.building
    if [ ! -e "$kept" ]; then
        bare_system "$1" "$kept.new"
        source_tree "$root/tmp/tree"
        folder=/tmp/tree
        (page "Build them" '^apt-get ') >"$work/apt.log" 2>&1 ||
            cannot "what builds the packages: not installed"
        folder=
        rm -rf "$root/tmp/tree"
        mv "$root" "$kept"
        say "what builds the packages installed, Debian ${debian_number[$1]}"
    fi
    mkdir -p "$2"
    cp -a "$kept/." "$2"
    root=$2
}

# page HEADING [PATTERN]: runs the commands of that part of doc/installing.md that match, in
# `folder` of the system `root`, but those of systemd, and those that want a broker at its
# usual port.
page() {
    local command commands
    mapfile -t commands < <(sed -n "/^##* $1\$/,/^#/s/^    [#\$] //p" \
        "$top/doc/installing.md" | grep -Ev '^(systemctl|journalctl|tidings) ' |
        grep -E "${2:-.}")
    [ ${#commands[@]} -gt 0 ] || fail "doc/installing.md: no commands: $1"
    for command in "${commands[@]}"; do
        inside sh -ec "$command" || fail "$command: failed"
    done
}

# made_again FILE...: the part makes its files once more, elsewhere, on the other side of
# the earth: these have the same bytes. $work/again may have files that it builds on.
made_again() {
    local file
    mkdir -p "$work/elsewhere" "$work/again"
    TMPDIR=$work/elsewhere TZ=Asia/Tokyo "$0" build "$work/again" >"$work/again.log" 2>&1 ||
        fail "made again: failed"
    for file in "$@"; do
        cmp "$dist/$file" "$work/again/$file" ||
            fail "$file: made again, it has other bytes"
    done
    say "made again, the same bytes: $*"
}

# run_part build|check DIST: the end of a part's program, which has functions of these names,
# and `usage`. Sets `dist` to the folder.
run_part() {
    if [ $# -ne 2 ]; then
        usage
        [ "${1:-}" = --help ] && exit 0
        exit 2
    fi
    mkdir -p "$2"
    # shellcheck disable=SC2034 # parts read it
    dist=$(cd "$2" && pwd)
    case $1 in
    build | check | suite) "$1" ;;
    *) fail "$1: neither build nor check" ;;
    esac
}
