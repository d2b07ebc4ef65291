# shellcheck shell=bash disable=SC2154 # common.sh sets dist, work, enter
# Sourced by parts after common.sh, which try clients: starts a broker for them.

# shellcheck disable=SC2317 # called at exit
end_broker() {
    kill "$broker" 2>/dev/null
    wait "$broker"
}

# start_broker: a broker of the packages in DIST, or without them of the checkout, in a
# Debian 12 of its own. Sets `url`; end_broker ends it with the part.
start_broker() {
    local package name=tidingsd
    package=$(find "$dist" -name "tidingsd_*deb12*_$(dpkg --print-architecture).deb")
    root=$work/broker
    if [ -n "$package" ]; then
        bare_system bookworm "$root"
        cp "$package" "$root/tmp/tidingsd.deb"
        inside apt-get install -y /tmp/tidingsd.deb >"$work/apt.log" 2>&1 ||
            fail "tidingsd is not installed"
    else
        name=/tmp/build/bin/tidingsd
        building_system bookworm "$root"
        source_tree "$root/tmp/tree"
        step "tidingsd built" inside sh -ec '
            cmake -S /tmp/tree -B /tmp/build -G Ninja -DTIDINGS_TESTS=OFF
            cmake --build /tmp/build --target tidingsd'
    fi
    "${enter[@]}" "$name" --data /tmp/data --listen 127.0.0.1:0 \
        >"$work/broker.out" 2>"$work/broker.log" &
    broker=$!
    at_exit+=(end_broker)
    until url=$(sed -n 's|^tidingsd: ready at \(.*\)/$|\1|p' "$work/broker.out") &&
        [ -n "$url" ]; do
        kill -0 "$broker" 2>/dev/null || fail "tidingsd ended"
        sleep 0.1
    done
    say "a broker started"
}
