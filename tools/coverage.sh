#!/usr/bin/env bash
# Which test covers which requirement: writes tests/spec/coverage.md from the
# citations (R-001, W-001) in the tests, and in the "rule" of each source of
# tests/abroad, the requirements of ResourceSync
# (tests/spec/requirements.md) and of WebSub (tests/spec/websub.md), and the
# reasons why some are not covered (tests/spec/uncovered.txt).
#
#   tools/coverage.sh          writes the table
#   tools/coverage.sh --check  ends with 1 if the table is not what it would write
#
# Either way it ends with 1, and says so, if a requirement is neither cited nor
# in uncovered.txt, is in both, if a test cites one that does not exist, or cites a
# range: each number that a test proves stands in it.
set -euo pipefail
cd "$(dirname "$0")/.."

table=tests/spec/coverage.md
written=$(mktemp)
trap 'rm -f "$written"' EXIT

# "R-003 tests/unit/proto/document_test.c name_of_test": one line a citation. One
# that stands before a function, or in it, is that function's. The names of Python's
# tests lose their "test_".
# shellcheck disable=SC2016 # awk expands its own
citations() {
    awk '/"rule":/ {
        for (; match($0, /R-[0-9][0-9][0-9]/); $0 = substr($0, RSTART + 5))
            print substr($0, RSTART, 5), FILENAME, "-"
    }' tests/abroad/sources/*.json
    find tests -name '*_test.c' -o -name '*_test.py' \
        -o -path 'tests/support/*.[ch]' -o -path 'tests/tidings_test/*.py' \
        -o -path 'tests/unit/*.h' | LC_ALL=C sort | xargs awk '
        function cite(text,   number) {
            while (match(text, /[RW]-[0-9][0-9][0-9]/)) {
                number = substr(text, RSTART, 5)
                text = substr(text, RSTART + 5)
                waiting[number] = 1
                if (text ~ /^( to|\.\.|–|-)( *[RW]-| *$)/)
                    print "range", FILENAME, number
            }
        }
        function give(to,   number) {
            for (number in waiting)
                print number, file, to
            delete waiting
        }
        function end_file() {
            if (file ~ /[.]py$/)
                give(name == "" ? "-" : name)
            delete waiting
            name = ""
            file = FILENAME
            is_python = file ~ /[.]py$/
        }
        # A line of Python that is not indented ends the function before it.
        function read_python(line) {
            if (line ~ /^[^ )\]}]/ || line ~ /^    def /) {
                if (name != "")
                    give(name)
                name = ""
            }
            cite(line)
            if (match(line, /^( {4})?(def|class) [A-Za-z_0-9]+/)) {
                name = substr(line, 1, RLENGTH)
                sub(/^.* (test_)?/, "", name)
            } else if (line ~ /^[^ #@)\]}]/) {
                give("-")
            }
        }
        FNR == 1 { end_file() }
        is_python { read_python($0); next }
        { cite($0) }
        match($0, /^(TEST\()?[a-z_0-9]+[(,)]/) {
            name = substr($0, 1, RLENGTH - 1)
            sub(/^TEST\(/, "", name)
        }
        /^}/ { give(name == "" ? "-" : name); name = "" }
        name == "" && /;$/ { give("-") }
        END { end_file() }' | LC_ALL=C sort -u
}

write() {
    cat <<'TEXT'
# Requirements and the tests that cover them

Written by `tools/coverage.sh` from the citations in the tests; do not edit. What
the numbers stand for: [requirements.md](requirements.md) (R, ResourceSync) and
[websub.md](websub.md) (W, WebSub). A test of the name
`e2e/push: heartbeats_say_that_it_is_alive` is that function in
`tests/e2e/push_test.c`, or in `push_test.py`, where its name begins with `test_`;
`support/...` and `tidings_test/...` are checks that several tests make.
Requirements of the same kind without a test, and why: at the end.

TEXT
    awk '
        function problem(text) {
            print "tools/coverage.sh: " text > "/dev/stderr"
            failed = 1
        }
        function cell(text) {
            gsub(/\|/, "\\|", text)
            return text
        }
        function plain(test) {
            sub(/^tests\//, "", test)
            sub(/(_test)?\.([ch]|py)$/, "", test)
            return test
        }
        function add(number, level, text) {
            strength[number] = level
            what[number] = text
            numbers[++n] = number
        }
        function is_kind(number, kind) {
            return substr(number, 1, 1) == kind
        }
        function table(kind, title,   i, line, j, number, covered, all, rows) {
            for (i = 1; i <= n; i++) {
                number = numbers[i]
                if (!is_kind(number, kind))
                    continue
                all++
                if (!files[number])
                    continue
                covered++
                line = "| " number " | " strength[number] " | " \
                       cell(what[number]) " | "
                for (j = 1; j <= files[number]; j++)
                    line = line (j > 1 ? "<br>" : "") order[number, j] \
                           seen[number, order[number, j]]
                rows = rows line " |\n"
            }
            print "## " title "\n"
            print covered " of " all " requirements have a test.\n"
            print "| number | strength | what | tests |"
            print "| --- | --- | --- | --- |"
            print rows
        }
        BEGIN {
            level["M"] = "MUST"
            level["S"] = "SHOULD"
            level["O"] = "MAY"
            level["P"] = "product"
        }
        FILENAME == ARGV[1] && match($0, /^- \*\*R-[0-9][0-9][0-9]\*\* /) {
            number = substr($0, 5, 5)
            split(substr($0, RLENGTH + 1), piece, " · ")
            text = substr($0, index($0, " · " piece[2] " · ") + \
                              length(" · " piece[2] " · "))
            sub(/ *\*Test:\*.*/, "", text)
            add(number, piece[1], text)
            next
        }
        FILENAME == ARGV[2] && /^- W-[0-9][0-9][0-9] / {
            # "- W-021 M hub: text"; without M, S, O or P it is a fact to keep to
            text = substr($0, 9)
            who = ""
            if (match(text, /^([MSOP]( [a-z\/]+)?|[a-z]+( to [a-z]+)?):? /)) {
                who = substr(text, 1, RLENGTH)
                text = substr(text, RLENGTH + 1)
                sub(/:? $/, "", who)
                if (substr(who, 1, 1) in level)
                    who = level[substr(who, 1, 1)] substr(who, 2)
            }
            add(substr($0, 3, 5), who, text)
            next
        }
        FILENAME == ARGV[3] && /^partly [RW]-/ {
            from = to = substr($2, 3, 3)
            if ($2 ~ /^[RW]-[0-9][0-9][0-9]-[RW]-/)
                to = substr($2, 9, 3)
            reason = $0
            sub(/^partly [^ ]+ +/, "", reason)
            for (i = from + 0; i <= to + 0; i++) {
                number = sprintf("%s%03d", substr($2, 1, 2), i)
                lacks[number] = reason
                if (!(number in what))
                    problem(number " does not exist")
            }
            next
        }
        FILENAME == ARGV[3] && /^[RW]-/ {
            from = to = substr($1, 3, 3)
            if ($1 ~ /^[RW]-[0-9][0-9][0-9]-[RW]-/)
                to = substr($1, 9, 3)
            reason = $0
            sub(/^[^ ]+ +/, "", reason)
            for (i = from + 0; i <= to + 0; i++) {
                number = sprintf("%s%03d", substr($1, 1, 2), i)
                if (number in what)
                    why[number] = reason
                else if (from == to)
                    problem(number " does not exist, and has a reason")
            }
            next
        }
        FILENAME == ARGV[4] && $1 == "range" {
            problem($2 " cites a range from " $3 " on: cite each number")
            next
        }
        FILENAME == ARGV[4] {
            if (!($1 in what)) {
                problem($2 " cites " $1 ", which does not exist")
                next
            }
            test = plain($2)
            if (!(($1, test) in seen)) {
                order[$1, ++files[$1]] = test
                seen[$1, test] = $3 == "-" ? "" : ": " $3
            } else if ($3 != "-") {
                seen[$1, test] = seen[$1, test] \
                                 (seen[$1, test] == "" ? ": " : ", ") $3
            }
        }
        END {
            for (i = 1; i <= n; i++) {
                number = numbers[i]
                if (!files[number] && !(number in why))
                    problem(number " has neither a test nor a reason: " \
                            what[number])
                if (files[number] && number in why)
                    problem(number " has a test, and a reason to have none")
            }
            table("R", "ResourceSync")
            table("W", "WebSub")
            print "## Not covered\n"
            print "| number | strength | what | why |"
            print "| --- | --- | --- | --- |"
            for (i = 1; i <= n; i++) {
                number = numbers[i]
                if (number in why || number in lacks)
                    print "| " number " | " strength[number] " | " \
                          cell(what[number]) " | " \
                          cell(number in why ? why[number] \
                                             : "in part: " lacks[number]) " |"
            }
            exit failed
        }' tests/spec/requirements.md tests/spec/websub.md \
        tests/spec/uncovered.txt <(citations)
}

rc=0
write >"$written" || rc=1
if [ "${1:-}" = --check ]; then
    if ! cmp -s "$written" "$table"; then
        echo "$table is not up to date: run tools/coverage.sh" >&2
        rc=1
    fi
else
    cp "$written" "$table"
fi
grep 'requirements have a test' "$written"
exit "$rc"
