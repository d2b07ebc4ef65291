#!/usr/bin/env bash
# Which lines and branches of the product the tests of a build have run, by
# folder: of a build with --coverage (tests/run --preset coverage).
#
#   tools/code-coverage.sh build/coverage                 prints the table
#   tools/code-coverage.sh build/coverage --against FILE  and ends with 1 if a
#                                   folder has a lower share than in that table
#
# A process that was killed has counted nothing, so a folder may vary by a tenth
# of a percent from run to run: that much less is no loss.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
against=
[ "${2:-}" = --against ] && against=$3
counted=$(mktemp)
trap 'rm -f "$counted"' EXIT

gcovr "$build" --root . --object-directory "$build" --gcov-ignore-parse-errors \
    --filter 'base/' --filter 'broker/' --filter 'client/' --filter 'proto/' \
    --exclude 'client/examples/' -j "$(nproc)" --csv >"$counted" \
    2>"$build/gcovr.log"

awk -F, -v against="$against" '
    function share(n, all) { return all ? 100 * n / all : 100 }
    BEGIN {
        if (against)
            while ((getline line < against) > 0)
                if (split(line, f, " ") == 5 && f[3] ~ /%$/) {
                    lines_before[f[1]] = f[3] + 0
                    branches_before[f[1]] = f[5] + 0
                }
    }
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    {
        folder = $column["filename"]
        sub(/\/[^\/]*$/, "", folder)
        for (k = 1; k <= 2; k++) {
            of = k == 1 ? folder : "all"
            lines[of] += $column["line_total"]
            lines_run[of] += $column["line_covered"]
            branches[of] += $column["branch_total"]
            branches_run[of] += $column["branch_covered"]
        }
    }
    END {
        print "folder lines run branches run"
        n = 0
        for (of in lines) names[++n] = of
        for (i = 1; i <= n; i++)
            for (k = i + 1; k <= n; k++)
                if (names[k] < names[i]) {
                    swap = names[i]; names[i] = names[k]; names[k] = swap
                }
        for (i = 1; i <= n; i++) {
            of = names[i]
            l = share(lines_run[of], lines[of])
            b = share(branches_run[of], branches[of])
            printf "%s %d %.1f%% %d %.1f%%\n", of, lines[of], l, branches[of], b
            if (of in lines_before && l < lines_before[of] - 0.15 ||
                of in branches_before && b < branches_before[of] - 0.3) {
                printf "%s had %.1f%% of its lines and %.1f%% of its branches\n",
                       of, lines_before[of], branches_before[of]
                worse = 1
            }
        }
        exit worse
    }' "$counted" | column -t -s ' '
exit "${PIPESTATUS[0]}"
