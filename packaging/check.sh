#!/usr/bin/env bash
# Builds the Debian packages, and looks whether they install, upgrade and go as
# doc/installing.md says.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/debian_base.sh
. "$top/tools/debian_base.sh"

usage() {
    cat <<'TEXT'
usage: packaging/check.sh [FOLDER]

  1. makes a Debian 12 (debootstrap); what follows is in copies of it, by chroot
  2. builds the packages, unless FOLDER has them
  3. looks for faults in them (lintian; warnings fail)
  4. installs, serves, upgrades with data, removes, installs again, purges; builds a
     program with libtidings-dev, and asks a server with python3-tidings
  5. starts the service, reloads it, and lets it hang, under systemd
     (systemd-nspawn, where that is installed)
  6. installs and purges once more by piuparts, where it is installed

The commands of steps 2 and 4 are those of doc/installing.md, but those of systemd,
which does not run there. Packages come from the mirror that apt of this machine is
configured with. Needs root, debootstrap and lintian; ends with 2 if one is missing,
with 1 if something is wrong. What it makes is in a directory of its own in TMPDIR
(some 3 GB), which is gone afterwards. KEEP=FOLDER keeps the packages there.
TEXT
}

if [ $# -gt 1 ] || [ "${1:-}" = --help ]; then
    usage
    [ "${1:-}" = --help ] || exit 2
    exit 0
fi
for program in lintian debootstrap; do
    if ! command -v "$program" >/dev/null; then
        echo "packaging/check.sh: $program is missing" >&2
        exit 2
    fi
done
if [ "$(id -u)" -ne 0 ]; then
    echo "packaging/check.sh: debootstrap and chroot need root" >&2
    exit 2
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/tidings-packages.XXXXXX")
root=$work/root
broker= # its process id

# shellcheck disable=SC2317 # called by trap
clean_up() {
    local status=$? log
    [ -z "$broker" ] || kill "$broker" 2>/dev/null || true
    wait
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

say() {
    printf '%4d s  %s\n' "$SECONDS" "$*"
}

fail() {
    echo "packaging/check.sh: $*" >&2
    exit 1
}

# inside COMMAND...: in the new system. Its process becomes the command; its mounts
# go with it.
inside() {
    # shellcheck disable=SC2016 # expanded by the bash in there
    enter=(unshare --mount bash -euc '
        mount --rbind /proc "$1/proc"
        mount --rbind /dev "$1/dev"
        root=$1 folder=$2
        shift 2
        exec chroot "$root" env -i -C "$folder" PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"'
        bash "$root" "${folder:-/}")
    "${enter[@]}" "$@"
}

# page HEADING FOLDER: runs the commands of that part of doc/installing.md, but those
# of systemd, and those that want a broker at its usual port.
page() {
    local command commands
    mapfile -t commands < <(sed -n "/^##* $1\$/,/^#/s/^    [#\$] //p" \
        "$top/doc/installing.md" | grep -Ev '^(systemctl|journalctl|tidings) ')
    [ ${#commands[@]} -gt 0 ] || fail "doc/installing.md: no commands: $1"
    for command in "${commands[@]}"; do
        folder=$2 inside sh -ec "$command" || fail "$command: failed"
    done
}

# step WHAT COMMAND...: succeeds; what it says is kept.
step() {
    local what=$1
    shift
    "$@" >"$work/said.log" 2>&1 || fail "$what: failed"
    say "$what"
}

# Debian 12 before anything of ours. Where a package brings a new file for /etc, the
# administrator's stays: nobody is there to ask.
make_system() {
    root=$work/pristine
    debian_mirror "$work" || fail "apt of this machine knows no mirror of bookworm"
    debian_base "$root" >"$work/debootstrap.log" 2>&1
    cp "$work/sources.list" "$root/etc/apt/sources.list"
    cp "$work/apt.conf" "$root/etc/apt/apt.conf"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    echo 'Dpkg::Options {"--force-confold";};' >>"$root/etc/apt/apt.conf"
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/fast" # it need not outlive a crash
    inside apt-get update >"$work/apt.log" 2>&1
}

# Copies the files of the checkout into a system of their own, and builds there.
build_packages() {
    root=$work/builder
    cp -a "$work/pristine" "$root"
    mkdir -p "$root/debs/tidings" "$debs"
    git -C "$top" ls-files -z --cached --others --exclude-standard |
        tar -C "$top" --null -cf - -T - | tar -xf - -C "$root/debs/tidings"
    chown -R root:root "$root/debs"
    page "Build them" /debs/tidings >"$work/build.log" 2>&1
    find "$root/debs" -maxdepth 1 -type f -exec cp {} "$debs" ';'
    rm -rf --one-file-system "$root"
    [ -z "${KEEP:-}" ] || cp "$debs"/* "$KEEP"
}

# is FILE MODE OWNER: a file of the new system.
is() {
    [ "$(inside stat -c '%a %U:%G' "$1")" = "$2 $3" ] ||
        fail "$1 is not $2 $3: $(inside stat -c '%a %U:%G' "$1")"
}

# As the unit starts it, without systemd: the user, the options of
# /etc/default/tidingsd. The port is free, and what is said last wins.
serve() {
    rm -f "$work/out"
    # shellcheck disable=SC2016 # expanded by the sh in there
    "${enter[@]}" sh -ec '
        . /etc/default/tidingsd
        exec setpriv --reuid=tidings --regid=tidings --clear-groups \
            tidingsd --data /var/lib/tidings $TIDINGSD_OPTIONS \
            --listen 127.0.0.1:0' >"$work/out" 2>"$work/tidingsd.log" &
    broker=$!
    until url=$(sed -n 's|^tidingsd: ready at \(.*\)/$|\1|p' "$work/out" \
        2>/dev/null) && [ -n "$url" ]; do
        kill -0 "$broker" 2>/dev/null || fail "tidingsd ended"
        sleep 0.1
    done
}

end_broker() {
    kill "$broker"
    wait "$broker" || fail "tidingsd ended with $?"
    broker=
}

# serves N CHANGE: posts that change; the set has N then.
serves() {
    serve
    inside tidings publish "$url/sets/demo" --change created "$2"
    inside tidings follow "$url/sets/demo" --from-start --until-caught-up \
        >"$work/followed"
    end_broker
    [ "$(wc -l <"$work/followed")" = "$1" ]
}

# The same package with a later version, as an update would bring it.
make_later() {
    local deb
    deb=$(echo "$root"/debs/tidingsd_*.deb)
    dpkg-deb -R "$deb" "$work/later"
    sed -i 's/^Version: .*/&+later/' "$work/later/DEBIAN/control"
    echo '# A line of the later version' >>"$work/later/etc/tidings/tidingsd.ini"
    (cd "$work/later" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' |
        xargs -0 md5sum >DEBIAN/md5sums)
    rm "$deb"
    dpkg-deb --root-owner-group -b "$work/later" "$root/debs/tidingsd_later.deb"
}

check_installed() {
    inside getent passwd tidings | grep -q ':/var/lib/tidings:/usr/sbin/nologin$' ||
        fail "the user tidings is missing, or may log in"
    is /var/lib/tidings 700 tidings:tidings
    is /etc/tidings/tidingsd.ini 644 root:root
    is /etc/default/tidingsd 644 root:root
    # shellcheck disable=SC2016 # a field of dpkg's
    inside dpkg-query -W -f '${Conffiles}' tidingsd >"$work/conffiles"
    grep -q '^ /etc/tidings/tidingsd.ini ' "$work/conffiles" ||
        fail "tidingsd.ini is no conffile"
    inside systemctl is-enabled tidingsd | grep -q '^enabled$' ||
        fail "the service is not enabled"
}

check_upgrade() {
    echo 'heartbeat = 20' >>"$root/etc/tidings/tidingsd.ini"
    make_later >"$work/later.log"
    step "upgraded" page Upgrading /debs
    inside dpkg -s tidingsd | grep -q '^Version: .*+later$' ||
        fail "the later version is not installed"
    tail -n 1 "$root/etc/tidings/tidingsd.ini" | grep -q '^heartbeat' ||
        fail "the administrator's tidingsd.ini is gone"
    step "serves the data of before, and a new change" \
        serves 2 http://example.org/2
}

check_removal() {
    step "removed" inside apt-get remove -y tidingsd
    [ -e "$root/etc/tidings/tidingsd.ini" ] || fail "the configuration is gone"
    is /var/lib/tidings 700 tidings:tidings
    step "installed again" page "Install them" /debs
    step "serves the data of before the removal" serves 3 http://example.org/3
}

check_purge() {
    step "purged" inside apt-get purge -y tidingsd
    [ ! -e "$root/etc/tidings" ] || fail "a purge leaves the configuration"
    [ -e "$root/var/lib/tidings/tidings.db" ] ||
        fail "a purge takes the data without asking"
    step "installed after a purge" page "Install them" /debs
    step "serves the data of before the purge" serves 4 http://example.org/4
    step "purged with the data" page Removing /debs
    [ ! -e "$root/var/lib/tidings" ] || fail "a purge leaves the data"
}

# The first token closes the broker, so no other part follows.
check_service() {
    step "a token made, settings checked" page "The service" /
}

check_library() {
    step "libtidings-dev installed" inside sh -c 'apt-get install -y gcc libc6-dev \
        pkg-config /debs/libtidings1_*.deb /debs/libtidings-dev_*.deb'
    # shellcheck disable=SC2016 # expanded by the sh in there
    step "an example built and linked, both ways" inside sh -ec '
        from=/usr/share/doc/libtidings-dev/examples/follow.c
        cc $from $(pkg-config --cflags --libs tidings) -o /tmp/shared
        cc $from $(pkg-config --cflags --libs tidings-static) -o /tmp/static
        ldd /tmp/shared | grep -q "libtidings.so.1 => /"
        ! ldd /tmp/static | grep libtidings'
}

check_python() {
    step "python3-tidings installed" inside sh -c 'apt-get install -y \
        /debs/libtidings1_*.deb /debs/python3-tidings_*.deb'
    step "its module asks a server" inside python3 -c '
import tidings
try:
    tidings.publish("http://127.0.0.1:1/sets/a", {})
except tidings.Unreachable as unreachable:
    print(unreachable)
else:
    raise SystemExit("there is no server at port 1")'
}

# What a service manager does, in the new system, to the service of the page.
under_systemd() {
    set -euo pipefail
    property() {
        systemctl show tidingsd -p "$1" --value
    }
    systemctl start tidingsd # ends when the broker serves
    [ "$(property Type) $(property SubState)" = "notify running" ]
    [[ $(property StatusText) = "serving at http://127.0.0.1:8787/" ]]
    echo 'log-level = debug' >>/etc/tidings/tidingsd.ini
    systemctl reload tidingsd
    until journalctl -u tidingsd -o cat | grep -q 'msg="reloaded"'; do
        sleep 1
    done
    # A short watchdog: systemd leaves a healthy broker alone, and kills a stopped one.
    mkdir -p /etc/systemd/system/tidingsd.service.d
    printf '[Service]\nWatchdogSec=10s\n' \
        >/etc/systemd/system/tidingsd.service.d/short.conf
    systemctl daemon-reload
    systemctl restart tidingsd
    sleep 15
    [ "$(property NRestarts)" = 0 ]
    kill -STOP "$(property MainPID)"
    until [ "$(property NRestarts) $(property SubState)" = "1 running" ]; do
        sleep 1
    done
    journalctl -u tidingsd -o cat | grep -q 'Watchdog timeout'
    systemctl stop tidingsd
    [ "$(property Result)" = success ]
    echo "the service is well"
}

# The new system, started by its own systemd. It ends with the service's test. The
# control groups are its own, so that this machine's stay as they are.
check_systemd() {
    local own
    if ! command -v systemd-nspawn >/dev/null; then
        say "systemd: systemd-nspawn is not installed"
        return
    fi
    inside apt-get install -y systemd-sysv >"$work/apt.log" 2>&1
    {
        echo '#!/bin/bash'
        declare -f under_systemd
        echo "trap 'systemctl poweroff --no-block' EXIT"
        echo 'under_systemd >/root/said 2>&1'
    } >"$root/root/try"
    chmod +x "$root/root/try"
    printf '[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=%s\n' \
        /root/try >"$root/etc/systemd/system/try.service"
    mkdir -p "$root/etc/systemd/system/default.target.wants"
    ln -s ../try.service "$root/etc/systemd/system/default.target.wants"
    # shellcheck disable=SC2016 # expanded by the bash in there
    own='
        if [ ! -d /sys/fs/cgroup/systemd ] && [ ! -e /sys/fs/cgroup/cgroup.procs ]; then
            mount -t tmpfs tmpfs /sys/fs/cgroup
            mkdir /sys/fs/cgroup/systemd
            mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
        fi
        exec systemd-nspawn --quiet --register=no --keep-unit --private-network \
            --boot --directory "$1"'
    timeout 300 unshare --mount bash -euc "$own" bash "$root" \
        >"$work/nspawn.log" 2>&1 </dev/null || true
    cp "$root/root/said" "$work/said.log" 2>/dev/null || true
    grep -q '^the service is well$' "$work/said.log" ||
        fail "the service under systemd: failed"
    say "the service starts, reloads, and is restarted when it hangs, under systemd"
}

check_piuparts() {
    if ! command -v piuparts >/dev/null; then
        say "piuparts: not installed"
        return
    fi
    # piuparts installs the packages and their dependencies itself.
    tar -C "$work/pristine" -czf "$work/base.tar.gz" .
    step "piuparts" piuparts --basetgz "$work/base.tar.gz" --no-eatmydata \
        --distribution bookworm --mirror "$mirror main" --skip-logrotatefiles-test \
        --warn-on-leftovers-after-purge --log-level error \
        --log-file "$work/piuparts.log" \
        "$debs"/tidingsd_*.deb "$debs"/tidings_*.deb "$debs"/libtidings1_*.deb \
        "$debs"/python3-tidings_*.deb
}

debs=$work/debs
make_system
say "Debian 12 made"
if [ $# -gt 0 ]; then
    debs=$(cd "$1" && pwd)
else
    build_packages
    say "packages built"
fi
step "lintian" lintian --fail-on warning --tag-display-limit 0 "$debs"/*.changes
root=$work/root
cp -a "$work/pristine" "$root"
mkdir "$root/debs"
cp "$debs"/*.deb "$root/debs"
step "installed" page "Install them" /debs
check_installed
step "serves a change" serves 1 http://example.org/1
check_upgrade
check_removal
check_purge
step "installed once more" page "Install them" /debs
check_systemd
check_service
check_library
check_python
check_piuparts
say "all is well"
