#!/bin/sh
# follow_curl.sh WAY SET-URL FILE: follows a set by curl alone, by events, longpoll or pages; FILE
# keeps the position. Prints the location of each change.
url=$2 file=$3
echo 0 >"$file"

locs() {
    printf '%s\n' "$1" | grep -o '"loc":"[^"]*"' | cut -d '"' -f 4
}

# An event counts when an empty line ends it. A farewell has no id.
events() {
    curl -sN -H 'Accept: text/event-stream' "$url/stream?after=$(cat "$file")" |
        while IFS= read -r line; do
            case $line in
            'id: '*) id=${line#id: } ;;
            'data: '*) data=${line#data: } ;;
            '')
                locs "$data"
                [ -z "$id" ] || echo "$id" >"$file"
                data=
                ;;
            esac
        done
    sleep 0.5
}

# A page says where it ends before it names its changes.
pages() {
    page=$(curl -sf "$url/changes?after=$(cat "$file")$1") || { sleep 0.5 && return; }
    facts=${page%%'"changes"'*}
    locs "$page"
    epoch=$(printf '%s\n' "$facts" | sed 's/.*"epoch":"\([^"]*\)".*/\1/')
    echo "$epoch-$(printf '%s\n' "$facts" | sed 's/.*"last":\([0-9]*\).*/\1/')" >"$file"
}

while :; do
    case $1 in
    events) events ;;
    longpoll) pages '&wait=30' ;;
    pages) pages '' && sleep 1 ;;
    esac
done
