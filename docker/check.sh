#!/usr/bin/env bash
# Looks whether the image works, without a Docker engine: in containers of runc.
# shellcheck source=packaging/parts/common.sh
. "$(dirname "$0")/../packaging/parts/common.sh"

usage() {
    cat <<'TEXT'
usage: docker/check.sh [FILE]

  1. takes the image in FILE, an OCI layout, or makes one (packaging/parts/image)
  2. looks at its settings, and for programs that nobody needs
  3. runs its programs in containers (runc), as the image's user, with a root that nobody
     can write, without capabilities, on this machine's network: version, health, a change
     posted and followed, a change bridged to mosquitto, ending
  4. looks at docker/compose*.yaml (docker compose, or docker-compose)

Needs root, and the packages buildah, runc, mosquitto and mosquitto-clients; ends with 2
if one is missing, with 1 if something is wrong. What it makes is in a directory of its own
in TMPDIR, which is gone afterwards.
TEXT
}

if [ $# -gt 1 ] || [ "${1:-}" = --help ]; then
    usage
    [ "${1:-}" = --help ] || exit 2
    exit 0
fi
need buildah runc mosquitto mosquitto_sub python3
need_root
declare -A running # by process id

# shellcheck disable=SC2317 # called by clean_up
end_all() {
    local pid
    for pid in "${!running[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    wait
    image umount smoke >/dev/null 2>&1
}
at_exit+=(end_all)

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
    buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs \
        "$command" "$@"
}

# take FILE: the image in it; sets `root` to its files, `volume` to a volume as an engine
# makes it, and `inside` to what runs a command in a container.
take() {
    image pull "oci-archive:$1" >"$work/pull.log"
    image tag "$(tail -n 1 "$work/pull.log")" tidings
    image from --name smoke tidings >/dev/null
    root=$(image mount smoke)
    volume=$work/volume
    cp -a "$root/var/lib/tidings" "$volume"
    image inspect --type image tidings |
        python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["OCIv1"]["config"]))' \
            >"$work/config.json"
    cat >"$work/run_in_container" <<'PYTHON'
"""ROOT VOLUME CONFIG COMMAND...: becomes runc, which runs the command in a container."""
import json, os, subprocess, sys, tempfile
root, volume, config, *command = sys.argv[1:]
image = json.load(open(config))
bundle = tempfile.mkdtemp(dir=os.path.dirname(config))
subprocess.run(["runc", "spec", "--bundle", bundle], check=True)
path = os.path.join(bundle, "config.json")
spec = json.load(open(path))
user, group = image["User"].split(":")
spec["process"].update(
    terminal=False, args=command, env=image["Env"], cwd=image["WorkingDir"],
    user={"uid": int(user), "gid": int(group)}, noNewPrivileges=True,
    capabilities={}, rlimits=[])
spec["root"] = {"path": root, "readonly": True}
spec["mounts"].append({"destination": "/var/lib/tidings", "type": "bind", "source": volume,
                       "options": ["rbind", "rw"]})
spec["linux"]["namespaces"] = [
    one for one in spec["linux"]["namespaces"] if one["type"] not in ("network", "cgroup")]
json.dump(spec, open(path, "w"))
os.execvp("runc", ["runc", "--root", bundle + "/state", "run", "--bundle", bundle,
                   os.path.basename(bundle)])
PYTHON
    inside=(python3 "$work/run_in_container" "$root" "$volume" "$work/config.json")
}

# setting NAME: of the image, as JSON.
setting() {
    python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))[sys.argv[2]]))' \
        "$work/config.json" "$1"
}

has_line() {
    grep -qs -- "$1" "$2"
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
    "$@" >"$work/said.log" 2>&1 || fail "$what: failed"
    say "$what"
}

check_settings() {
    local found
    [ "$(setting User)" = '"987:987"' ] || fail "the image's user is not 987:987"
    [ "$(setting Entrypoint)" = '["tidingsd"]' ] || fail "not tidingsd is started"
    [[ $(setting Labels) = *'"org.opencontainers.image.version": "'"$version"'"'* ]] ||
        fail "the image does not name its version"
    found=$(find "$root" -type f -perm /111 -printf '%P\n' |
        grep -Ev '^usr/local/bin/tidingsd?$|^usr/lib/.*\.so(\.[0-9]+)*$' || true)
    [ -z "$found" ] || fail "programs that nobody needs:" "$found"
    [ -z "$(find "$root" -perm /6000)" ] || fail "a program gives rights"
}

# healthy: runs the health check of the Dockerfile, at the broker's port.
healthy() {
    local words
    words=$(sed -n 's/^ *CMD \[\("tidings", .*\)\]$/\1/p' "$top/docker/Dockerfile" |
        tr -d '",' | sed "s|127.0.0.1:8787|${url##*/}|")
    # shellcheck disable=SC2086 # words of a command
    "${inside[@]}" $words
}

# What the image does without any option, but for the port.
smoke() {
    expect "tidingsd --version" "${inside[@]}" tidingsd --version
    expect_line '^tidingsd [0-9]' "$work/said.log"
    start_broker --listen 127.0.0.1:0
    expect "healthy" healthy
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
    if healthy >/dev/null 2>&1; then
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
if [ $# -eq 1 ]; then
    file=$1
else
    "$top/packaging/parts/image" build "$work/dist"
    file=$(echo "$work"/dist/*-oci-*.tar)
fi
take "$file"
check_settings
smoke
smoke_bridge
say "all is well"
