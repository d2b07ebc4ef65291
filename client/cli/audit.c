/*
 * audit.c - tidings audit: is a mirror what its source is?
 */
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/mirror_output.h"
#include "client/cli/progress.h"

enum {
    OPTION_REPAIR,
    OPTION_NO_DIGESTS,
    OPTION_MAX_DELETE,
    OPTION_ACCEPT,
    OPTION_SKIP_BAD,
    OPTION_PER_HOST,
    OPTION_LIMITS,
    OPTION_JSON = OPTION_LIMITS + N_MIRROR_LIMIT_ROWS,
    OPTION_NO_PROGRESS
};

static const struct option options[] = {
    [OPTION_REPAIR] = {"repair", NULL,
                       .help = "fetch, replace and delete until it is right"},
    [OPTION_NO_DIGESTS] = {"no-digests", NULL,
                           .help =
                               "lengths and times alone: files are not read"},
    [OPTION_MAX_DELETE] = MAX_DELETE_ROW,
    [OPTION_ACCEPT] = ACCEPT_DELETIONS_ROW,
    [OPTION_SKIP_BAD] = SKIP_BAD_ROW,
    [OPTION_PER_HOST] = {"per-host", "N", .standard = "4",
                         .help = "requests at a time at a host"},
    [OPTION_LIMITS] = MIRROR_LIMIT_ROWS,
    [OPTION_JSON] = {"json", NULL,
                     .help = "each finding and event as a line of JSON"},
    [OPTION_NO_PROGRESS] = PROGRESS_ROW,
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
        put_member(stdout, "{", "finding", names[finding]);
        put_member(stdout, ",", "loc", loc);
        put_member(stdout, ",", "path", path);
        put_member(stdout, ",", "why", why);
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
    static const char text[] =
        "compared=%llu missing=%llu stale=%llu extra=%llu corrupt=%llu "
        "repaired=%llu left_out=%llu by_digest=%llu by_length=%llu "
        "by_time=%llu unchecked=%llu position=%s\n";
    static const char json[] =
        "{\"compared\":%llu,\"missing\":%llu,\"stale\":%llu,\"extra\":%llu,"
        "\"corrupt\":%llu,\"repaired\":%llu,\"left_out\":%llu,"
        "\"by_digest\":%llu,\"by_length\":%llu,\"by_time\":%llu,"
        "\"unchecked\":%llu,\"position\":\"%s\"}\n";

    printf(m->is_json ? json : text, (unsigned long long)r->n_compared,
           (unsigned long long)r->n_missing, (unsigned long long)r->n_stale,
           (unsigned long long)r->n_extra, (unsigned long long)r->n_corrupt,
           (unsigned long long)r->n_repaired, (unsigned long long)r->n_left_out,
           (unsigned long long)r->n_by_digest,
           (unsigned long long)r->n_by_length, (unsigned long long)r->n_by_time,
           (unsigned long long)r->n_unchecked, r->position);
}

static enum exit_code
run_audit(const struct arguments *arguments)
{
    const char *const *given = arguments->options;
    struct mirror_output m = {
        .is_json = given[OPTION_JSON] != NULL,
        .has_no_progress = given[OPTION_NO_PROGRESS] != NULL,
        .skips_bad = given[OPTION_SKIP_BAD] != NULL,
    };
    struct td_audit_options how = {
        .repair = given[OPTION_REPAIR] != NULL,
        .has_no_digests = given[OPTION_NO_DIGESTS] != NULL,
        .on_finding = on_finding,
        .on_event = mirror_output_event,
        .user = &m,
    };
    struct td_audit_result result = {.n_compared = 0};
    int n = arguments->n_operands;
    const char *url = n == 2 ? arguments->operands[0] : NULL;
    const char *dir = arguments->operands[n - 1];
    enum exit_code code;
    enum td_status rc;

    if (strstr(dir, "://"))
        return bad_usage("audit needs a DIR, after the URL: %s is none", dir);
    if (!mirror_output_max_delete(given[OPTION_MAX_DELETE],
                                  &how.max_delete_percent) ||
        !mirror_output_accept(given[OPTION_ACCEPT], &how.accept_deletions) ||
        !mirror_output_number("per-host", given[OPTION_PER_HOST], 100,
                              &how.per_host))
        return EXIT_USAGE;
    code = mirror_output_open(&m, arguments, url);
    if (code)
        return code;
    progress_of_client(m.client);
    rc = td_audit(m.client, url, dir, &how, &result);
    progress_clear();
    if (rc == TD_OK || rc == TD_DIFFERENT)
        print_result(&m, &result);
    if (m.as_of[0] && !m.is_doubtful && !m.is_json)
        say("complete as of %s", m.as_of);
    if (m.is_deaf)
        return cannot_write(m.error);
    if (rc == TD_STOPPED) {
        say("stopped before all was compared");
        return EXIT_FAILED;
    }
    if (rc == TD_DIFFERENT && m.skips_bad && !m.is_doubtful &&
        result.n_missing + result.n_stale + result.n_extra + result.n_corrupt ==
            result.n_repaired)
        return EXIT_GOOD;
    return exit_of(m.client, rc);
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
    .run = run_audit,
};
