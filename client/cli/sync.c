/*
 * sync.c - tidings sync: a source's resources on disk.
 */
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/mirror_output.h"
#include "client/cli/progress.h"

struct sync {
    struct td_sync_options how;
    struct mirror_output output;
};

#define ROW_OF struct sync
#include "base/option_rows.h"

static const struct option options[] = {
    {"until-caught-up", NULL, SWITCH(how.until_caught_up), NULL,
     "end when the mirror equals the source"},
    MAX_DELETE_ROW(how.max_delete_percent),
    ACCEPT_DELETIONS_ROW(how.accept_deletions),
    SKIP_BAD_ROW(output.skips_bad),
    {"per-host", "N", NUMBER(how.per_host, 1, 100), "4",
     "requests at a time at a host"},
    {"poll", "SECONDS", PAUSE(how.poll_ms, 1000, 86400000), "60",
     "between looks at a source that pushes nothing"},
    {"compare", "SECONDS", PAUSE(how.compare_ms, 1000, 4233600000), "86400",
     "between comparisons with the whole list"},
    {"no-dumps", NULL, SWITCH(how.has_no_dumps), NULL,
     "fetch files one by one, even if the source has dumps"},
    {"no-mirrors", NULL, SWITCH(how.has_no_mirrors), NULL,
     "fetch each file from its own address alone"},
    MIRROR_LIMIT_ROWS(output.limits),
    {"json", NULL, FLAG(output.is_json), NULL, "each event as a line of JSON"},
    PROGRESS_ROW(output.has_no_progress),
    {"verbose", NULL, FLAG(output.is_verbose), NULL,
     "print each file, and each retry"},
};

static enum exit_code
end_sync(const struct mirror_output *m, enum td_status rc, bool until_caught_up)
{
    if (!m->is_json && (rc == TD_OK || rc == TD_DIFFERENT || rc == TD_STOPPED))
        print_values(false, "done:n failed:n bytes:n position:e",
                     m->last.n_done, m->last.n_failed, m->last.bytes_done,
                     m->position);
    if (m->is_deaf)
        return cannot_write(m->error);
    if (rc == TD_STOPPED && until_caught_up)
        return failed(
            "stopped before the end; the next run continues from here");
    if (rc == TD_OK && m->has_left_out && !m->skips_bad)
        return mirror_output_left_out();
    return exit_of(m->client, rc);
}

static enum exit_code
run_sync(const struct arguments *arguments)
{
    struct sync *sync = arguments->values;
    struct mirror_output *m = &sync->output;
    enum exit_code code;
    enum td_status rc;

    sync->how.on_event = mirror_output_event;
    sync->how.user = m;
    code = mirror_output_open(m, arguments, arguments->operands[0]);
    if (code)
        return code;
    rc = td_sync(m->client, arguments->operands[0], arguments->operands[1],
                 &sync->how);
    progress_clear();
    return end_sync(m, rc, sync->how.until_caught_up);
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
        "successor is whole and has the digests that the source told. A file "
        "in the way that this mirror did not write is moved to "
        "DIR/.tidings/found/.\n"
        "\n"
        "When more than 20 % of the files would be deleted (and 100 or more), "
        "by a new list or in one hour of changes, these deletions are held "
        "back, and all else is done. Each run tells their number, and "
        "--until-caught-up ends with 1. Look whether that is right, then give "
        "--accept-deletions with that number: it holds for no more.\n"
        "\n"
        "The mirror is compared with the whole list of the source every "
        "--compare seconds, and at once when something does not fit. tidings "
        "status DIR says since when it is known to be complete, or why not.\n"
        "\n"
        "A source that is too large, or has no end, is stopped with 1: BYTES "
        "(500M, 2G or none) of a resource, of all, or those that stay free of "
        "the disk.\n"
        "\n"
        "A source with only a Resource List or a Sitemap is mirrored by "
        "reading that list every --poll seconds. One that cannot be read to "
        "its end deletes nothing.\n"
        "\n"
        "Rows of a list that cannot be used are told, and end it with 1; with "
        "0 if --skip-bad is given.\n"
        "\n"
        "1 also tells that the mirror is not known to be complete, or that "
        "resources could not be had: the next run tries them "
        "again; and, with --until-caught-up, that nothing came for a minute, "
        "or that a server wants to be left alone for longer.\n",
    .examples = "tidings sync http://localhost:8787/sets/news mirror\n"
                "tidings sync https://example.org/sitemap.xml mirror "
                "--until-caught-up\n",
    .options = OPTIONS(options),
    .size = sizeof(struct sync),
    .run = run_sync,
};
