/*
 * mirror_command.c - tidings sync: a source's resources on disk; tidings audit:
 * is a mirror what its source is?
 */

#include "client/cli/cli.h"
#include "client/cli/client_settings.h"
#include "client/cli/progress.h"
#include "client/follow/follow_options.h"

/* What the commands were given, and what they have shown: events as JSON lines
 * on standard output; else problems on standard error, and a bar there if that
 * is a terminal. */
struct mirror {
    struct td_sync_options sync;
    struct td_audit_options audit;
    struct td_limits limits;  /* of the handle */
    struct trust_files trust; /* sync */
    const char *cosign;       /* sync: HOST:PORT; NULL: it is no witness */
    bool is_json;
    bool reads_all;            /* audit: --full */
    bool is_diff;              /* tidings diff, no audit */
    bool is_verbose;           /* each file, too */
    bool has_no_progress;      /* --no-progress */
    char part[1100];           /* " for FILTER"; "": of all */
    char as_of[40];            /* the earliest set is complete as of; "" */
    bool is_doubtful;          /* some set is not known to be complete */
    bool skips_bad;            /* --skip-bad */
    bool has_left_out;         /* rows that cannot be used */
    int error;                 /* of standard output, of errno.h */
    struct td_client *client;  /* stopped after `error` */
    struct td_sync_event last; /* numbers alone */
    char position[TD_POSITION_SIZE]; /* the last caught-up one */
    char trouble[256];               /* the last one printed; "": none */
};

/* JSON lines:
 *
 *   {"event":"written","loc":"http://...","path":"...","bytes":12,
 *    "wanted":3,"done":9,"failed":0,"bytesDone":123,"bytesWanted":45}
 */

static const char *const names[] = {
    [TD_SYNC_BASELINE] = "baseline",   [TD_SYNC_BASELINED] = "baselined",
    [TD_SYNC_WRITTEN] = "written",     [TD_SYNC_DELETED] = "deleted",
    [TD_SYNC_FAILED] = "failed",       [TD_SYNC_LEFT] = "left",
    [TD_SYNC_TROUBLE] = "trouble",     [TD_SYNC_PROGRESS] = "progress",
    [TD_SYNC_CAUGHT_UP] = "caught-up", [TD_SYNC_REPORT] = "report",
    [TD_SYNC_DOUBT] = "doubt",         [TD_SYNC_COMPLETE] = "complete",
    [TD_SYNC_HELD] = "held",           [TD_SYNC_COMPARED] = "compared",
};

/* Ends a JSON line. */
static void
end_line(struct mirror *m)
{
    puts("}");
    end_output(&m->error, m->client);
}

static void
put_event(struct mirror *m, const struct td_sync_event *e)
{
    put_members(stdout, "{",
                "event:t set:a loc:t path:t why:t position:t complete_as_of:t "
                "filter:t",
                names[e->what], e->set, e->loc, e->path, e->why, e->position,
                e->as_of, e->filter);
    if (e->what == TD_SYNC_DOUBT)
        put_members(stdout, ",", "not_complete:t", e->why);
    if (e->report)
        put_members(stdout, ",", "mended:t left_out:t", e->report->mended,
                    e->report->left_out);
    if (e->what == TD_SYNC_HELD)
        put_members(stdout, ",", "held_back:n of:n", e->n_held, e->n_of);
    if (e->what == TD_SYNC_WRITTEN)
        put_members(stdout, ",", "bytes:n", e->bytes);
    put_members(stdout, ",",
                "listed:z wanted:n done:n failed:n bytesDone:n bytesWanted:n "
                "packages:z fromPackages:z packageBytes:z",
                e->n_listed, e->n_wanted, e->n_done, e->n_failed, e->bytes_done,
                e->bytes_wanted, e->n_packages, e->n_unpacked,
                e->bytes_packages);
    end_line(m);
}

/* Lines for people, in place of the bar */

static void
say_event(struct mirror *m, const struct td_sync_event *e)
{
    const char *loc = e->loc ? e->loc : "", *why = e->why ? e->why : "";

    switch (e->what) {
    case TD_SYNC_BASELINE:
        say("sync takes a baseline: %s", why);
        break;
    case TD_SYNC_FAILED:
        if (m->is_verbose)
            say("%s: %s; it is tried again", loc, why);
        break;
    case TD_SYNC_LEFT:
        say("%s: given up: %s", loc, why);
        break;
    case TD_SYNC_TROUBLE:
        /* Each once, until something else happens: a source may be away for
         * days. */
        if (m->is_verbose || strncmp(m->trouble, why, sizeof(m->trouble) - 1))
            say("%s", why);
        snprintf(m->trouble, sizeof(m->trouble), "%s", why);
        break;
    case TD_SYNC_CAUGHT_UP:
        if (m->is_verbose)
            say("caught up at %s", e->position ? e->position : "-");
        break;
    case TD_SYNC_REPORT:
        say_report(e->report);
        break;
    case TD_SYNC_DOUBT:
        say("not known to be complete: %s", why);
        break;
    case TD_SYNC_COMPLETE:
        if (m->is_verbose || m->is_doubtful)
            say("complete%s as of %s", m->part, e->as_of);
        break;
    case TD_SYNC_COMPARED:
        say("compared at %s: %s", e->position, why);
        break;
    case TD_SYNC_HELD:
        say_held(e->n_held, e->n_of);
        break;
    case TD_SYNC_WRITTEN:
    case TD_SYNC_DELETED:
        if (m->is_verbose)
            say("%s: %s", names[e->what], e->path);
        break;
    default:
        break;
    }
}

static void
on_event(const struct td_sync_event *event, void *user)
{
    struct mirror *m = user;
    const struct progress_figures reading = {.label = "reading the list",
                                             .unit = "resources",
                                             .done = event->n_listed};
    const struct progress_figures files = {
        .unit = "files",
        .done = event->n_done,
        .all = event->n_done + event->n_wanted,
        .failed = event->n_failed,
        .has_bytes = true,
        .bytes = event->bytes_done,
        .bytes_left = event->bytes_wanted,
    };

    m->last = *event;
    snprintf(m->part, sizeof(m->part), "%s%s", event->filter ? " for " : "",
             event->filter ? event->filter : "");
    m->has_left_out |= event->report && event->report->n_left_out;
    if (event->what == TD_SYNC_CAUGHT_UP && event->position)
        snprintf(m->position, sizeof(m->position), "%s", event->position);
    if (m->is_json) {
        put_event(m, event);
    } else {
        if (event->what != TD_SYNC_PROGRESS && event->what != TD_SYNC_TROUBLE)
            m->trouble[0] = '\0';
        say_event(m, event);
        if (event->what != TD_SYNC_COMPLETE)
            progress_show(event->n_listed ? &reading : &files);
    }
    if (event->what == TD_SYNC_DOUBT)
        m->is_doubtful = true;
    if (event->what != TD_SYNC_COMPLETE)
        return;
    m->is_doubtful = false;
    if (event->as_of && (!m->as_of[0] || strcmp(event->as_of, m->as_of) < 0))
        snprintf(m->as_of, sizeof(m->as_of), "%s", event->as_of);
}

/* Opens m->client for the server at `url`, and shows events and, unless
 * m->is_json, the bar. `url` NULL: refuses --header, as no server is known.
 * SIGINT and SIGTERM stop the handle, which stays until the process ends: a
 * signal may still come. Prints the reason if the code is not EXIT_GOOD. */
static enum exit_code
open_mirror(struct mirror *m, const struct arguments *arguments,
            const char *url)
{
    const struct settings *settings = arguments->shared;
    enum exit_code code;

    if (!url && settings->n_headers)
        return bad_usage("--header needs the URL of the source, too: it goes "
                         "to no other server");
    if (!url && settings->line.token_file[0])
        return bad_usage("--token-file needs the URL of the source, too: the "
                         "token goes to no other server");
    m->sync.on_event = m->audit.on_event = on_event;
    m->sync.user = m->audit.user = m;
    progress_begin(!m->is_json && !m->has_no_progress);
    m->client = open_client(arguments, url, &m->trust, &code);
    if (!m->client)
        return code;
    td_limit(m->client, &m->limits);
    signals_stop_client(m->client);
    signal(SIGPIPE, SIG_IGN); /* a write to a closed pipe fails */
    return EXIT_GOOD;
}

/* tidings sync */

#define ROW_OF struct mirror
#include "base/option_rows.h"

static const struct option sync_options[] = {
    {"until-caught-up", NULL, SWITCH(sync.until_caught_up), NULL,
     "end when the mirror equals the source"},
    {"as-of", "DATETIME", LENT(sync.as_of), NULL, "what the source was then"},
    {"filter", "FILTER", LENT(sync.filter), NULL,
     "only these resources: tag=A&prefix=URL&type=TYPE; or all"},
    MAX_DELETE_ROW(sync.max_delete_percent),
    ACCEPT_DELETIONS_ROW(sync.accept_deletions),
    ACCEPT_HISTORY_ROW,
    SKIP_BAD_ROW(skips_bad),
    {"per-host", "N", NUMBER(sync.per_host, 1, 100), "4",
     "requests at a time at a host"},
    {"poll", "SECONDS", PAUSE(sync.poll_ms, 1000, 86400000), "60",
     "between looks at a source that pushes nothing"},
    {"compare", "SECONDS", PAUSE(sync.compare_ms, 1000, 4233600000), "86400",
     "between comparisons with the whole list"},
    TRUST_ROWS(trust),
    COSIGN_ROW(cosign),
    {"no-dumps", NULL, SWITCH(sync.has_no_dumps), NULL,
     "fetch files one by one, even if the source has dumps"},
    {"no-mirrors", NULL, SWITCH(sync.has_no_mirrors), NULL,
     "fetch each file from its own address alone"},
    MIRROR_LIMIT_ROWS(limits),
    {"json", NULL, FLAG(is_json), NULL, "each event as a line of JSON"},
    PROGRESS_ROW(has_no_progress),
    {"verbose", NULL, FLAG(is_verbose), NULL,
     "print each file, and each retry"},
};

static enum exit_code
run_sync(const struct arguments *arguments)
{
    struct mirror *m = arguments->values;
    struct cosigner *cosigner = NULL;
    const struct td_follow_options how = {.as_of = m->sync.as_of};
    struct problem why = {""};
    char dir[PATH_MAX];
    enum exit_code code;
    enum td_status rc;

    code = open_mirror(m, arguments, arguments->operands[0]);
    if (!code &&
        follow_options_check(&how, m->trust.keys, m->sync.filter, &why))
        code = bad_usage("%s", why.text);
    snprintf(dir, sizeof(dir), "%s/.tidings/witness", arguments->operands[1]);
    if (!code && m->cosign)
        code = cosigner_open(&cosigner, m->cosign, dir, m->client, &m->trust,
                             arguments, 1);
    rc = code ? TD_OK
              : td_sync(m->client, arguments->operands[0],
                        arguments->operands[1], &m->sync);
    cosigner_close(cosigner);
    if (code)
        return code;
    progress_clear();
    if (!m->is_json && (rc == TD_OK || rc == TD_DIFFERENT || rc == TD_STOPPED))
        print_values(false,
                     "done:n failed:n bytes:n packages:z from_packages:z "
                     "package_bytes:z position:e",
                     m->last.n_done, m->last.n_failed, m->last.bytes_done,
                     m->last.n_packages, m->last.n_unpacked,
                     m->last.bytes_packages, m->position);
    if (m->error)
        return cannot_write(m->error);
    if (rc == TD_STOPPED && (m->sync.until_caught_up || m->sync.as_of))
        return failed(
            "stopped before the end; the next run continues from here");
    if (rc == TD_OK && m->has_left_out && !m->skips_bad)
        return left_out_code();
    return exit_of(m->client, rc);
}

const struct command sync_command = {
    .name = "sync",
    .operands = "SET-URL|SOURCE-URL DIR",
    .help =
        "Copies the resources of a source into DIR and keeps them the same.",
    .more =
        "Begins with everything there is, then follows each change. State is "
        "kept in DIR/.tidings: stopped or killed at any moment, it goes on "
        "from there when it is run again. A file is replaced when its "
        "successor is whole and has the digests that the source states. A file "
        "in the way that this mirror did not write is moved to "
        "DIR/.tidings/found/.\n\n"
        "When more than 20 % of the files would be deleted (and 100 or more), "
        "by a new list or in one hour of changes, these deletions are held "
        "back, and all else is done. Each run prints their number, and "
        "--until-caught-up ends with 1. Look whether that is right, then give "
        "--accept-deletions with that number: it holds for no more.\n\n"
        "--filter mirrors a part: tag=, prefix= and type=, with & between. "
        "DIR keeps it until a sync with another one, or with all, fetches what "
        "is missing; what does not pass then counts as deletions.\n\n"
        "Packages of Change Dumps replace downloads that cost more.\n\n"
        "The mirror is compared with the whole list of the source every "
        "--compare seconds, and at once when something does not fit. tidings "
        "status DIR says since when it is known to be complete, or why "
        "not.\n\n"
        "A source that is too large, or has no end, is stopped with 1: BYTES "
        "(500M, 2G or none) of a resource, of all, or those that stay free of "
        "the disk.\n\n"
        "A source with only a Resource List, Sitemap or Resource Dump is "
        "mirrored by reading that list every --poll seconds. One that cannot "
        "be read to its end deletes nothing.\n\n"
        "It prints each row of a list that cannot be used, and ends with 1; "
        "with 0 if --skip-bad is given.\n\n"
        "--as-of, 2026-11-20T21:00:00Z, makes DIR what the source was then, "
        "and it stays so. A line names each resource whose bytes of that time "
        "cannot be had, and 1 is the end.\n\n"
        "1 also tells that the mirror is not known to be complete, or that "
        "resources could not be had: the next run tries them again; and, with "
        "--until-caught-up, that nothing came for a minute, or that a server "
        "wants to be left alone for longer.\n",
    .examples = "tidings sync http://localhost:8787/sets/news mirror\n"
                "tidings sync https://example.org/sitemap.xml mirror "
                "--until-caught-up\n",
    .options = OPTION_ROWS(sync_options),
    .run = run_sync,
};

/* tidings audit */

static const struct option audit_options[] = {
    {"repair", NULL, SWITCH(audit.repair), NULL,
     "fetch, replace and delete until it is right"},
    {"original", NULL, SWITCH(audit.original), NULL,
     "compare with the first source, too, that links \"via\" name"},
    {"full", NULL, FLAG(reads_all), NULL,
     "read all that the source has, not only what differs"},
    {"no-digests", NULL, SWITCH(audit.has_no_digests), NULL,
     "lengths and times alone: files are not read"},
    MAX_DELETE_ROW(audit.max_delete_percent),
    ACCEPT_DELETIONS_ROW(audit.accept_deletions),
    ACCEPT_HISTORY_ROW,
    SKIP_BAD_ROW(skips_bad),
    {"per-host", "N", NUMBER(audit.per_host, 1, 100), "4",
     "requests at a time at a host"},
    MIRROR_LIMIT_ROWS(limits),
    {"json", NULL, FLAG(is_json), NULL,
     "each finding and event as a line of JSON"},
    PROGRESS_ROW(has_no_progress),
};

static const char *const findings[] = {
    [TD_MISSING] = "missing",   [TD_STALE] = "stale",
    [TD_EXTRA] = "extra",       [TD_CORRUPT] = "corrupt",
    [TD_LEFT_OUT] = "left out", [TD_UNKNOWN] = "unknown",
};

static const char *const differences[] = {
    [TD_MISSING] = "added", [TD_STALE] = "changed", [TD_EXTRA] = "removed"};

/* missing LOC at PATH: WHY */
static void
on_finding(enum td_finding finding, const char *loc, const char *path,
           const char *why, void *user)
{
    struct mirror *m = user;
    const char *word = (m->is_diff ? differences : findings)[finding];

    if (m->is_json) {
        put_members(stdout, "{", "finding:t loc:t path:t why:t", word, loc,
                    path, why);
        end_line(m);
        return;
    }
    progress_clear();
    printf("%-8s", word);
    if (loc || path)
        print_plain(loc ? loc : path);
    if (loc && path) {
        fputs(" at ", stdout);
        print_plain(path);
    }
    if (why)
        fputs(": ", stdout);
    print_plain(why);
    putchar('\n');
}

static enum exit_code
run_audit(const struct arguments *arguments)
{
    struct mirror *m = arguments->values;
    struct td_audit_result r = {.n_compared = 0};
    int n = arguments->n_operands;
    const char *url = n == 2 ? arguments->operands[0] : NULL;
    const char *dir = arguments->operands[n - 1];
    enum exit_code code;
    enum td_status rc;

    if (strstr(dir, "://"))
        return bad_usage("audit needs a DIR, after the URL: %s is none", dir);
    m->audit.on_finding = on_finding;
    code = open_mirror(m, arguments, url);
    if (code)
        return code;
    progress_of_client(m->client);
    td_full_audits(m->client, m->reads_all);
    rc = td_audit(m->client, url, dir, &m->audit, &r);
    progress_clear();
    if (rc == TD_OK || rc == TD_DIFFERENT)
        print_values(
            m->is_json,
            "compared:n missing:n stale:n extra:n corrupt:n repaired:n "
            "left_out:n by_digest:n by_length:n by_time:n unchecked:n "
            "position:t by_original:z unknown:z without_via:z",
            r.n_compared, r.n_missing, r.n_stale, r.n_extra, r.n_corrupt,
            r.n_repaired, r.n_left_out, r.n_by_digest, r.n_by_length,
            r.n_by_time, r.n_unchecked, r.position, r.n_by_original,
            r.n_unknown, r.n_without_via);
    if (m->as_of[0] && !m->is_doubtful && !m->is_json)
        say("complete%s as of %s", m->part, m->as_of);
    if (m->error)
        return cannot_write(m->error);
    if (rc == TD_STOPPED)
        return failed("stopped before all was compared");
    if (rc == TD_DIFFERENT && m->skips_bad && !m->is_doubtful &&
        r.n_missing + r.n_stale + r.n_extra + r.n_corrupt + r.n_unknown ==
            r.n_repaired)
        return EXIT_GOOD;
    return exit_of(m->client, rc);
}

const struct command audit_command = {
    .name = "audit",
    .operands = "[SET-URL|SOURCE-URL] DIR",
    .help = "Compares a mirror that tidings sync made with its source.",
    .more = "Asks the source for all that it has now, then looks at every "
            "file. A broker compares what the mirror knows with what it has, "
            "and sends only what differs; standard error says so. --full reads "
            "all. The URL, if one is given, is "
            "that which was synced. A line "
            "per finding:\n\n"
            "  missing  the source has it, the mirror does not\n"
            "  stale    the mirror has what it was before\n"
            "  extra    the mirror has it, the source does not; without a "
            "URL: a file that\n"
            "           is no resource's\n"
            "  corrupt  the file is not what the mirror had written\n"
            "  left out rows of the source's lists that cannot be used\n"
            "  unknown  the original cannot be had (--original)\n\n"
            "The last line counts what was compared by digests, lengths and "
            "times; unchecked: the source tells none of them. Standard error "
            "says since when the source's list is complete, or why that is "
            "not known.\n\n"
            "With --repair all is mended: extra files that the mirror had "
            "written are deleted, others moved to DIR/.tidings/found/.\n\n"
            "0: the mirror is the source, or is so by the repair; 1: it is "
            "not, or nobody could tell. What changed since the last sync is "
            "stale, too: sync first, then audit.\n",
    .examples =
        "tidings audit mirror\n"
        "tidings audit http://localhost:8787/sets/news mirror --repair\n",
    .options = OPTION_ROWS(audit_options),
    .run = run_audit,
};

/* tidings diff */

static const struct option diff_options[] = {
    LIMIT_ROWS(limits),
    {"filter", "FILTER", LENT(audit.filter), NULL,
     "of a part: 'tag=a&prefix=http://...&type=image/*'"},
    {"json", NULL, FLAG(is_json), NULL, "each difference as a line of JSON"},
    PROGRESS_ROW(has_no_progress),
};

static enum exit_code
run_diff(const struct arguments *arguments)
{
    struct mirror *m = arguments->values;
    char *const *o = arguments->operands;
    bool is_web = strstr(o[0], "://");
    bool has_web = is_web || strstr(o[1], "://");
    const char *sides[] = {o[0], is_web ? o[0] : o[1]};
    const char *as_of[] = {is_web ? o[1] : NULL, o[2]};
    struct td_audit_result r = {.n_compared = 0};
    enum exit_code code;
    enum td_status rc;

    if (!has_web && o[2])
        return bad_usage("%s is of one time, without %s", o[1], o[2]);
    m->is_diff = true;
    m->audit.on_finding = on_finding;
    code = open_mirror(m, arguments, has_web ? sides[1] : NULL);
    if (code)
        return code;
    rc = td_diff(m->client, sides, as_of, &m->audit, &r);
    progress_clear();
    if (rc == TD_OK || rc == TD_DIFFERENT)
        print_values(m->is_json,
                     "compared:n added:n removed:n changed:n unchecked:n "
                     "complete:b",
                     r.n_compared, r.n_missing, r.n_extra, r.n_stale,
                     r.n_unchecked, !r.is_partial);
    return m->error ? cannot_write(m->error) : exit_of(m->client, rc);
}

const struct command diff_command = {
    .name = "diff",
    .operands = "SOURCE-URL|DIR TIME|SOURCE-URL|DIR [TIME]",
    .help = "Compares two states of a source, or of mirrors.",
    .more =
        "SOURCE-URL TIME [TIME]: the source then, and later or now; DIR "
        "SOURCE-URL [TIME]: a mirror, and the source; DIR DIR: two mirrors. A "
        "line per resource: added, removed, or changed, with what differs.\n\n"
        "0: equal; 1: not, or (complete=false) not wholly known.\n",
    .examples = "tidings diff https://example.org/ 2026-11-20 2026-11-21\n",
    .options = OPTION_ROWS(diff_options),
    .run = run_diff,
};
