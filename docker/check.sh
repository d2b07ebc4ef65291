#!/usr/bin/env bash
# Builds docker/Dockerfile without a Docker engine, by buildah on a base image
# made with debootstrap, and looks whether what came out works.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/debian_base.sh
. "$top/tools/debian_base.sh"

usage() {
    cat <<'TEXT'
usage: docker/check.sh

  1. makes a base image of Debian 12 (debootstrap)
  2. builds docker/Dockerfile on it (buildah)
  3. runs the image's programs by chroot, as the image's user: version, health,
     a change posted and followed, a change bridged to mosquitto, ending
  4. looks at docker/compose*.yaml (docker compose, or docker-compose)

Packages come from the mirror that apt of this machine is configured with. Needs
root, and the packages buildah, debootstrap, mosquitto and mosquitto-clients; ends
with 2 if one is missing, with 1 if something is wrong. What it makes is in a
directory of its own in TMPDIR (some 2 GB), which is gone afterwards.
TEXT
}

if [ $# -gt 0 ]; then
    usage
    [ "$1" = --help ] || exit 2
    exit 0
fi
for program in buildah debootstrap mosquitto mosquitto_sub; do
    if ! command -v "$program" >/dev/null; then
        echo "docker/check.sh: $program is missing" >&2
        exit 2
    fi
done
if [ "$(id -u)" -ne 0 ]; then
    echo "docker/check.sh: debootstrap and chroot need root" >&2
    exit 2
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/tidings-docker.XXXXXX")
declare -A running # by process id

# shellcheck disable=SC2317 # called by trap
clean_up() {
    local status=$? pid
    for pid in "${!running[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    wait
    [ "$status" -eq 0 ] || show_logs
    # Should a mount have been left behind, what is mounted there stays.
    rm -rf --one-file-system "$work"
    exit "$status"
}

# shellcheck disable=SC2317 # called by clean_up
show_logs() {
    local log
    for log in "$work"/*.log; do
        [ -s "$log" ] || continue
        echo "=== the end of $(basename "$log")"
        tail -n 30 "$log"
    done >&2
}

trap clean_up EXIT
trap 'exit 1' INT TERM

say() {
    printf '%4d s  %s\n' "$SECONDS" "$*"
}

fail() {
    echo "docker/check.sh: $*" >&2
    exit 1
}

# wait_for WHAT COMMAND...: until the command succeeds, for a minute.
wait_for() {
    local what=$1 until=$((SECONDS + 60))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$until" ] || fail "$what: not within a minute"
        sleep 0.1
    done
}

# Containers and images of its own: nothing of the machine's is touched.
image() {
    local command=$1
    shift
    buildah --root "$work/storage" --runroot "$work/run" \
        --storage-driver vfs "$command" "$@"
}

# An image "base": Debian's smallest system, without what debian:12-slim has not.
make_base() {
    local root=$work/base
    debian_base "$root" >"$work/debootstrap.log" 2>&1
    (
        cd "$root"
        rm -rf --one-file-system ./dev/* var/cache/apt/* var/lib/apt/lists/* \
            var/log/*.log usr/share/{doc,info,man,locale}/* \
            etc/resolv.conf etc/hostname
        : >etc/apt/sources.list # to mount something there
        : >etc/apt/apt.conf
    )

    image from --name base scratch
    image add base "$root" / >/dev/null
    image commit --rm base base
    rm -rf --one-file-system "$root"
}

# build BASE
build() {
    image build --isolation chroot --network host --format docker \
        --volume "$work/sources.list:/etc/apt/sources.list:ro" \
        --volume "$work/apt.conf:/etc/apt/apt.conf:ro" \
        --build-arg BASE="$1" \
        --file "$top/docker/Dockerfile" --tag tidings "$top"
}

# The Dockerfile wants a base by digest.
check_base() {
    local base
    for base in "" localhost/base:latest; do
        ! build "$base" >"$work/refused.log" 2>&1 ||
            fail "an image was built on the base \"$base\""
    done
    expect_line 'has no digest' "$work/refused.log"
    say "a base without a digest is refused"
}

# What runs a command in the image, by chroot: on this machine's network, as the
# image's user, in its working directory, and as compose.yaml has it: nothing but the
# volume can be written, and no capability is left. It becomes the command, so that its
# process id is the command's; what is mounted goes when that ends.
enter_image() {
    root=$(image mount smoke)
    # shellcheck disable=SC2016 # expanded by the bash in there
    inside=(unshare --mount bash -euc '
        root=$1 user=$2 folder=$3
        shift 3
        mount --bind "$root" "$root"
        mount --bind "$root/var/lib/tidings" "$root/var/lib/tidings"
        mount -o remount,bind,ro "$root"
        mount --rbind /dev "$root/dev"
        mount --rbind /proc "$root/proc"
        exec chroot "$root" setpriv --reuid="${user%:*}" --regid="${user#*:}" \
            --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs \
            env -i -C "$folder" PATH=/usr/local/bin:/usr/bin:/bin "$@"' bash
        "$root" "$(setting User)" "$(setting WorkingDir)")
}

# setting NAME: of the image, as Docker would take it.
setting() {
    image inspect --format "{{.Docker.Config.$1}}" --type image tidings
}

has_line() {
    grep -q -- "$1" "$2"
}

# expect_line LINE FILE
expect_line() {
    has_line "$@" || fail "no line \"$1\""
}

broker_is_ready() {
    has_line '^tidingsd: ready at ' "$work/out" && return
    kill -0 "$broker" 2>/dev/null || fail "tidingsd ended"
    return 1
}

# start_broker OPTION...: in the image; sets url, and broker, its process.
start_broker() {
    rm -f "$work/out"
    "${inside[@]}" tidingsd "$@" >"$work/out" 2>"$work/tidingsd.log" &
    broker=$!
    running[$broker]=1
    wait_for "tidingsd: ready" broker_is_ready
    url=http://127.0.0.1:$(sed -n 's|^tidingsd: ready at .*:\([0-9]*\)/$|\1|p' \
        "$work/out")
}

# A graceful end.
end_broker() {
    kill "$broker"
    wait "$broker" || fail "tidingsd ended with $?"
    unset "running[$broker]"
}

# expect WHAT COMMAND...: succeeds, within a minute; what it says is kept.
expect() {
    local what=$1
    shift
    timeout 60 "$@" >"$work/said.log" 2>&1 || fail "$what: failed"
    say "$what"
}

check_settings() {
    local missing
    [ "$(setting User)" = 987:987 ] || fail "the image's user is not 987:987"
    [ "$(setting Entrypoint)" = '[tidingsd]' ] || fail "not tidingsd is started"
    [[ $(setting Healthcheck) = *'[CMD tidingsd-healthy]'* ]] ||
        fail "the image has no health check"
    if [ -s "$root/etc/apt/sources.list" ] || [ -s "$root/etc/apt/apt.conf" ] ||
        find "$root/var/lib/apt/lists" "$root/var/cache/apt" -type f |
        grep -q .; then
        fail "something of this machine's apt is in the image"
    fi
    if missing=$("${inside[@]}" ldd /usr/local/bin/tidingsd \
        /usr/local/bin/tidings | grep 'not found'); then
        fail "libraries are missing: $missing"
    fi
}

# What the image does without any option, but for the port.
smoke() {
    expect "tidingsd --version" "${inside[@]}" tidingsd --version
    expect_line '^tidingsd [0-9]' "$work/said.log"
    start_broker --listen 127.0.0.1:0
    expect "healthy" "${inside[@]}" tidingsd-healthy "${url##*:}"
    expect "a change posted" "${inside[@]}" tidings publish "$url/sets/demo" \
        --change created http://example.org/1
    cp -r "$top/docker/watched" "$root/watched"
    expect "a folder watched" "${inside[@]}" tidings watch /watched \
        "$url/sets/demo" --base-uri http://example.org/watched/ --state watch --once
    expect "both followed" "${inside[@]}" tidings follow "$url/sets/demo" \
        --from-start --state follow --count 2
    expect_line ' created http://example.org/1$' "$work/said.log"
    expect_line ' created http://example.org/watched/hello.txt$' "$work/said.log"
    end_broker
    say "ended gracefully"
    if "${inside[@]}" tidingsd-healthy "${url##*:}" >/dev/null 2>&1; then
        fail "healthy although nothing runs"
    fi
}

is_open() {
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

bridge_is_up() {
    [ "$(timeout 5 mosquitto_sub -p "$1" -V 5 -t tidings/status -C 1 \
        2>/dev/null)" = online ]
}

# The files of compose.yaml, with Mosquitto of this machine on another port.
smoke_bridge() {
    local port=$((20000 + RANDOM % 10000)) subscriber
    mkdir -m 777 "$work/mosquitto"
    sed -e "s|^listener .*|listener $port 127.0.0.1|" \
        -e "s|^persistence_location .*|persistence_location $work/mosquitto/|" \
        "$top/docker/mosquitto.conf" >"$work/mosquitto.conf"
    echo "log_type all" >>"$work/mosquitto.conf"
    chmod 755 "$work" # Mosquitto goes on as its own user
    mosquitto -c "$work/mosquitto.conf" >"$work/mosquitto.log" 2>&1 &
    running[$!]=1
    wait_for "mosquitto" is_open "$port"
    sed -e "s|^url = .*|url = mqtt://127.0.0.1:$port|" \
        "$top/docker/tidingsd.ini" >"$root/etc/tidingsd.ini"
    timeout 60 stdbuf -oL mosquitto_sub -d -p "$port" -V 5 -C 2 \
        -t 'tidings/demo/notifications' >"$work/subscriber.log" 2>&1 &
    subscriber=$!
    running[$subscriber]=1
    wait_for "a subscriber" has_line '^Subscribed' "$work/subscriber.log"

    start_broker --config /etc/tidingsd.ini --listen 127.0.0.1:0
    wait_for "the bridge, outwards" bridge_is_up "$port"
    wait_for "the bridge, inwards" has_line 'plant/+/changes' "$work/mosquitto.log"
    expect "a change posted" "${inside[@]}" tidings publish "$url/sets/demo" \
        --change updated http://example.org/out
    expect "a change published by MQTT" mosquitto_pub -p "$port" -V 5 -q 1 \
        -t plant/demo/changes \
        -m '{"loc":"http://example.org/in","change":"updated"}'
    wait "$subscriber" || fail "the bridge did not tell of both"
    expect_line '"http://example.org/out"' "$work/subscriber.log"
    expect_line '"http://example.org/in"' "$work/subscriber.log"
    say "both told by MQTT"
    end_broker
}

check_compose() {
    local compose
    if docker compose version >/dev/null 2>&1; then
        compose=(docker compose)
    elif command -v docker-compose >/dev/null; then
        compose=(docker-compose)
    else
        say "compose.yaml: not looked at: there is neither docker compose nor" \
            "docker-compose"
        return
    fi
    local file
    for file in compose.yaml compose.tls.yaml; do
        ! "${compose[@]}" --file "$top/docker/$file" config --quiet 2>/dev/null ||
            fail "$file does without BASE"
        BASE=debian:12-slim@sha256:0 SITE=changes.example.org CADDY_IMAGE=caddy:2 \
            "${compose[@]}" --file "$top/docker/$file" config --quiet
        say "$file is good to" "${compose[@]}"
    done
}

check_compose
# The mirror's settings are mounted while packages are installed, not written into an
# image.
debian_mirror "$work" || fail "apt of this machine knows no mirror of bookworm"
make_base >"$work/base.log" 2>&1
say "base image: $(image images --format '{{.Size}}' base)"
check_base
base=localhost/base@$(image images --format '{{.Digest}}' base)
build "$base" >"$work/build.log" 2>&1
say "image: $(image images --format '{{.Size}}' tidings)"
image from --name smoke tidings >/dev/null
enter_image
check_settings
smoke
smoke_bridge
say "all is well"
