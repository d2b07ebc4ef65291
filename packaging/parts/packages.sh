# shellcheck shell=bash
# Builds, serves and examines Debian packages, for packaging/parts/deb and deb-arm64, which
# source this file.
# shellcheck source=packaging/parts/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# shellcheck disable=SC2034 # the parts read it
machine=$(dpkg --print-architecture)
emulator= # what starts the programs of the packages, if they are for another processor
broker= # its process id

# shellcheck disable=SC2317 # called by clean_up
kill_broker() {
    [ -z "$broker" ] || kill "$broker" 2>/dev/null
    wait
}
at_exit+=(kill_broker)

# The version of the packages for the Debian CODENAME: later for a later Debian, so that an
# upgrade of the system brings the packages that were built for it.
deb_version() {
    echo "$version+deb${debian_number[$1]}"
}

# prepare CODENAME TREE [COMMIT]: makes a system of its own, with the commit in that folder.
prepare() {
    # A system can have libwebsockets-dev for one processor only: its headers differ.
    if [ "$machine" = "$(dpkg --print-architecture)" ]; then
        building_system "$1" "$work/builder"
    else
        bare_system "$1" "$work/builder"
    fi
    source_tree "$root$2" "${3:-HEAD}"
    sed -i "1s/)/+deb${debian_number[$1]})/" "$root$2/debian/changelog"
    folder=$2
}

# As the unit starts it, without systemd: the user, the options of
# /etc/default/tidingsd. The port is free; of two values for an option the last one counts.
serve() {
    rm -f "$work/out"
    inside true # sets `enter`
    # shellcheck disable=SC2016 # expanded by the sh in there
    "${enter[@]}" sh -ec '
        . /etc/default/tidingsd
        exec setpriv --reuid=tidings --regid=tidings --clear-groups \
            $1 /usr/bin/tidingsd --data /var/lib/tidings $TIDINGSD_OPTIONS \
            --listen 127.0.0.1:0' sh "$emulator" >"$work/out" 2>"$work/tidingsd.log" &
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
    # shellcheck disable=SC2086 # no word, or one
    inside $emulator /usr/bin/tidings publish "$url/sets/demo" --change created "$2"
    # shellcheck disable=SC2086
    inside $emulator /usr/bin/tidings follow "$url/sets/demo" --from-start --until-caught-up \
        >"$work/followed"
    end_broker
    [ "$(wc -l <"$work/followed")" = "$1" ]
}

# The build of the page, in `folder`. In a process of its own, so that a failure is not said
# into the log.
build_page() {
    (page "Build them" '^dpkg-buildpackage') >"$work/build.log" 2>&1 ||
        fail "dpkg-buildpackage: failed"
}

# Looks for faults in the packages that were built in /debs: errors and warnings fail.
find_faults() {
    folder=/debs
    inside apt-get install -y --no-install-recommends lintian >"$work/apt.log" 2>&1 ||
        fail "apt-get install lintian: failed"
    step "lintian finds nothing" inside sh -c \
        'lintian --allow-root --fail-on error,warning --tag-display-limit 0 *.changes'
}
