/*
 * audit.c - tidings audit: is a mirror what its source is?
 */
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/mirror_output.h"
#include "client/cli/progress.h"

struct audit {
    struct td_audit_options how;
    struct mirror_output output;
};

#define ROW_OF struct audit
#include "base/option_rows.h"

static const struct option options[] = {
    {"repair", NULL, SWITCH(how.repair), NULL,
     "fetch, replace and delete until it is right"},
    {"no-digests", NULL, SWITCH(how.has_no_digests), NULL,
     "lengths and times alone: files are not read"},
    MAX_DELETE_ROW(how.max_delete_percent),
    ACCEPT_DELETIONS_ROW(how.accept_deletions),
    SKIP_BAD_ROW(output.skips_bad),
    {"per-host", "N", NUMBER(how.per_host, 1, 100), "4",
     "requests at a time at a host"},
    MIRROR_LIMIT_ROWS(output.limits),
    {"json", NULL, FLAG(output.is_json), NULL,
     "each finding and event as a line of JSON"},
    PROGRESS_ROW(output.has_no_progress),
};

static const char *const names[] = {
    [TD_MISSING] = "missing", [TD_STALE] = "stale",       [TD_EXTRA] = "extra",
    [TD_CORRUPT] = "corrupt", [TD_LEFT_OUT] = "left out",
};

/* missing LOC at PATH: WHY */
static void
on_finding(enum td_finding finding, const char *loc, const char *path,
           const char *why, void *user)
{
    struct mirror_output *m = user;

    if (m->is_json) {
        put_members(stdout, "{", "finding:t loc:t path:t why:t", names[finding],
                    loc, path, why);
        mirror_output_end_line(m);
        return;
    }
    progress_clear();
    printf("%-8s", names[finding]);
    if (loc || path)
        print_plain(loc ? loc : path);
    if (loc && path) {
        fputs(" at ", stdout);
        print_plain(path);
    }
    fputs(": ", stdout);
    print_plain(why);
    putchar('\n');
}

static void
print_result(const struct mirror_output *m, const struct td_audit_result *r)
{
    print_values(m->is_json,
                 "compared:n missing:n stale:n extra:n corrupt:n repaired:n "
                 "left_out:n by_digest:n by_length:n by_time:n unchecked:n "
                 "position:t",
                 r->n_compared, r->n_missing, r->n_stale, r->n_extra,
                 r->n_corrupt, r->n_repaired, r->n_left_out, r->n_by_digest,
                 r->n_by_length, r->n_by_time, r->n_unchecked, r->position);
}

static enum exit_code
run_audit(const struct arguments *arguments)
{
    struct audit *audit = arguments->values;
    struct td_audit_options *how = &audit->how;
    struct mirror_output *m = &audit->output;
    struct td_audit_result result = {.n_compared = 0};
    int n = arguments->n_operands;
    const char *url = n == 2 ? arguments->operands[0] : NULL;
    const char *dir = arguments->operands[n - 1];
    enum exit_code code;
    enum td_status rc;

    if (strstr(dir, "://"))
        return bad_usage("audit needs a DIR, after the URL: %s is none", dir);
    how->on_finding = on_finding;
    how->on_event = mirror_output_event;
    how->user = m;
    code = mirror_output_open(m, arguments, url);
    if (code)
        return code;
    progress_of_client(m->client);
    rc = td_audit(m->client, url, dir, how, &result);
    progress_clear();
    if (rc == TD_OK || rc == TD_DIFFERENT)
        print_result(m, &result);
    if (m->as_of[0] && !m->is_doubtful && !m->is_json)
        say("complete as of %s", m->as_of);
    if (m->is_deaf)
        return cannot_write(m->error);
    if (rc == TD_STOPPED)
        return failed("stopped before all was compared");
    if (rc == TD_DIFFERENT && m->skips_bad && !m->is_doubtful &&
        result.n_missing + result.n_stale + result.n_extra + result.n_corrupt ==
            result.n_repaired)
        return EXIT_GOOD;
    return exit_of(m->client, rc);
}

const struct command audit_command = {
    .name = "audit",
    .operands = "[SET-URL|SOURCE-URL] DIR",
    .help = "Compares a mirror that tidings sync made with its source.",
    .more = "Asks the source for all that it has now, then looks at every "
            "file. The URL, if one is given, is that which was synced. A line "
            "per finding:\n"
            "\n"
            "  missing  the source has it, the mirror does not\n"
            "  stale    the mirror has what it was before\n"
            "  extra    the mirror has it, the source does not; without a URL: "
            "a file that\n"
            "           is no resource's\n"
            "  corrupt  the file is not what the mirror had written\n"
            "  left out rows of the source's lists that cannot be used\n"
            "\n"
            "The last line counts what was compared by digests, lengths and "
            "times; unchecked: the source tells none of them. Standard error "
            "says since when the source's list is complete, or why that is not "
            "known.\n"
            "\n"
            "With --repair all is mended: extra files that the mirror had "
            "written are deleted, others moved to DIR/.tidings/found/.\n"
            "\n"
            "0: the mirror is the source, or is so by the repair; 1: it is "
            "not, or nobody could tell. What changed since the last sync is "
            "stale, too: sync first, then audit.\n",
    .examples =
        "tidings audit mirror\n"
        "tidings audit http://localhost:8787/sets/news mirror --repair\n",
    .options = OPTIONS(options),
    .size = sizeof(struct audit),
    .run = run_audit,
};
