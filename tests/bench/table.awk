# The table of tests/bench/run: lines "SCENARIO/WHO KEY=VALUE..." in, per
# scenario a block out: each figure's median (min-max) over the turns, and what
# the others' are in proportion to a floor's or nginx's of the same turn.

BEGIN {
    n_columns = split("entries_s mb_s deliveries_s answers_s first_us cpu_us client_us net_us " \
        "log_us checkpoint_us archive_us core_pct p50_us p99_us max_us lead_p99_us " \
        "stall_p99_us stall_ratio per_message per_read entry_bytes " \
        "answer_bytes flushes_s idle_bytes grown_kib lost repeated closed " \
        "device_bytes ready_ms ready_kib rss_kib disk_kib record_bytes", \
        columns, " ")
    # Figures of which a proportion says something.
    n_compared = split("entries_s deliveries_s answers_s cpu_us p50_us p99_us " \
        "stall_p99_us grown_kib", compared, " ")
    for (i = 1; i <= n_compared; i++)
        is_compared[compared[i]] = 1
}

/^@/ { next } # about the run

{
    split($1, name, "/")
    scenario = name[1]
    who = name[2]
    if (!(scenario in n_who))
        scenarios[++n_scenarios] = scenario
    if (!((scenario, who) in n_turns))
        whos[scenario, ++n_who[scenario]] = who
    turn = ++n_turns[scenario, who]
    for (i = 2; i <= NF; i++) {
        split($i, pair, "=")
        value[scenario, who, pair[1], turn] = pair[2]
        has[scenario, pair[1]] = 1
    }
}

function short(x) {
    if (x >= 1000 || x == int(x))
        return sprintf("%.0f", x)
    return sprintf("%." (x >= 100 ? 0 : x >= 10 ? 1 : x >= 1 ? 2 : 3) "f", x)
}

# "median (min-max)" of sample[1..n].
function spread(n,    i, j, x, middle) {
    if (n == 0)
        return "-"
    for (i = 2; i <= n; i++) {
        x = sample[i]
        for (j = i - 1; j >= 1 && sample[j] > x; j--)
            sample[j + 1] = sample[j]
        sample[j + 1] = x
    }
    middle = n % 2 ? sample[(n + 1) / 2] : (sample[n / 2] + sample[n / 2 + 1]) / 2
    if (short(sample[1]) == short(sample[n]))
        return short(middle)
    return short(middle) " (" short(sample[1]) "-" short(sample[n]) ")"
}

function figures(scenario, who, key,    n, t) {
    n = 0
    for (t = 1; t <= n_turns[scenario, who]; t++)
        if ((scenario, who, key, t) in value)
            sample[++n] = value[scenario, who, key, t]
    return spread(n)
}

function proportions(scenario, who, floor, key,    n, t, below) {
    n = 0
    for (t = 1; t <= n_turns[scenario, who]; t++) {
        below = value[scenario, floor, key, t] + 0
        if (((scenario, who, key, t) in value) && below > 0)
            sample[++n] = value[scenario, who, key, t] / below
    }
    return spread(n)
}

function header(scenario,    w, f, line) {
    line = sprintf("%-14s", scenario)
    for (w = 1; w <= n_who[scenario]; w++)
        line = line sprintf(" | %-24s", whos[scenario, w])
    for (f = 1; f <= n_who[scenario]; f++)
        if (whos[scenario, f] ~ /^(floor|nginx)/)
            for (w = 1; w <= n_who[scenario]; w++)
                if (whos[scenario, w] !~ /^(floor|nginx)/)
                    line = line sprintf(" | %-24s", \
                        whos[scenario, w] " : " whos[scenario, f])
    print line
}

function row(scenario, key,    w, f, line) {
    line = sprintf("%-14s", key)
    for (w = 1; w <= n_who[scenario]; w++)
        line = line sprintf(" | %-24s", figures(scenario, whos[scenario, w], key))
    for (f = 1; f <= n_who[scenario]; f++)
        if (whos[scenario, f] ~ /^(floor|nginx)/)
            for (w = 1; w <= n_who[scenario]; w++)
                if (whos[scenario, w] !~ /^(floor|nginx)/)
                    line = line sprintf(" | %-24s", (key in is_compared) ? \
                        proportions(scenario, whos[scenario, w], \
                            whos[scenario, f], key) : "")
    sub(/[ |]+$/, "", line)
    print line
}

END {
    for (s = 1; s <= n_scenarios; s++) {
        header(scenarios[s])
        for (c = 1; c <= n_columns; c++)
            if (has[scenarios[s], columns[c]])
                row(scenarios[s], columns[c])
        print ""
    }
}
