/*
 * sync.c - tidings sync: a source's resources on disk.
 */
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/mirror_output.h"
#include "client/cli/progress.h"

enum {
    OPTION_UNTIL,
    OPTION_MAX_DELETE,
    OPTION_ACCEPT,
    OPTION_SKIP_BAD,
    OPTION_PER_HOST,
    OPTION_POLL,
    OPTION_COMPARE,
    OPTION_NO_DUMPS,
    OPTION_NO_MIRRORS,
    OPTION_LIMITS,
    OPTION_JSON = OPTION_LIMITS + N_MIRROR_LIMIT_ROWS,
    OPTION_NO_PROGRESS,
    OPTION_VERBOSE
};

static const struct option options[] = {
    [OPTION_UNTIL] = {"until-caught-up", NULL,
                      .help = "end when the mirror equals the source"},
    [OPTION_MAX_DELETE] = MAX_DELETE_ROW,
    [OPTION_ACCEPT] = ACCEPT_DELETIONS_ROW,
    [OPTION_SKIP_BAD] = SKIP_BAD_ROW,
    [OPTION_PER_HOST] = {"per-host", "N", .standard = "4",
                         .help = "requests at a time at a host"},
    [OPTION_POLL] = {"poll", "SECONDS", .standard = "60",
                     .help = "between looks at a source that pushes nothing"},
    [OPTION_COMPARE] = {"compare", "SECONDS", .standard = "86400",
                        .help = "between comparisons with the whole list"},
    [OPTION_NO_DUMPS] =
        {"no-dumps", NULL,
         .help = "fetch files one by one, even if the source has dumps"},
    [OPTION_NO_MIRRORS] = {"no-mirrors", NULL,
                           .help =
                               "fetch each file from its own address alone"},
    [OPTION_LIMITS] = MIRROR_LIMIT_ROWS,
    [OPTION_JSON] = {"json", NULL, .help = "each event as a line of JSON"},
    [OPTION_NO_PROGRESS] = PROGRESS_ROW,
    [OPTION_VERBOSE] = {"verbose", NULL,
                        .help = "print each file, and each retry"},
};

static bool
read_options(const struct arguments *arguments, struct td_sync_options *how,
             struct mirror_output *m)
{
    const char *const *given = arguments->options;
    unsigned poll_s = 0;
    unsigned compare_s = 0;

    if (!mirror_output_max_delete(given[OPTION_MAX_DELETE],
                                  &how->max_delete_percent) ||
        !mirror_output_number("per-host", given[OPTION_PER_HOST], 100,
                              &how->per_host) ||
        !mirror_output_accept(given[OPTION_ACCEPT], &how->accept_deletions) ||
        !mirror_output_number("poll", given[OPTION_POLL], 86400, &poll_s) ||
        !mirror_output_number("compare", given[OPTION_COMPARE], 86400 * 49,
                              &compare_s))
        return false;
    how->compare_ms = compare_s * 1000;
    how->has_no_mirrors = given[OPTION_NO_MIRRORS] != NULL;
    how->poll_ms = poll_s * 1000;
    how->until_caught_up = given[OPTION_UNTIL] != NULL;
    how->has_no_dumps = given[OPTION_NO_DUMPS] != NULL;
    how->on_event = mirror_output_event;
    how->user = m;
    m->skips_bad = given[OPTION_SKIP_BAD] != NULL;
    m->is_json = given[OPTION_JSON] != NULL;
    m->is_verbose = given[OPTION_VERBOSE] != NULL;
    m->has_no_progress = given[OPTION_NO_PROGRESS] != NULL;
    return true;
}

static enum exit_code
end_sync(const struct mirror_output *m, enum td_status rc, bool until_caught_up)
{
    if (!m->is_json && (rc == TD_OK || rc == TD_DIFFERENT || rc == TD_STOPPED))
        printf("done=%llu failed=%llu bytes=%llu%s%s\n",
               (unsigned long long)m->last.n_done,
               (unsigned long long)m->last.n_failed,
               (unsigned long long)m->last.bytes_done,
               m->position[0] ? " position=" : "", m->position);
    if (m->is_deaf)
        return cannot_write(m->error);
    if (rc == TD_STOPPED && until_caught_up) {
        say("stopped before the end; the next run continues from here");
        return EXIT_FAILED;
    }
    if (rc == TD_OK && m->has_left_out && !m->skips_bad)
        return mirror_output_left_out();
    return exit_of(m->client, rc);
}

static enum exit_code
run_sync(const struct arguments *arguments)
{
    struct td_sync_options how = {.per_host = 0};
    struct mirror_output m = {.is_json = false};
    enum exit_code code;
    enum td_status rc;

    if (!read_options(arguments, &how, &m))
        return EXIT_USAGE;
    code = mirror_output_open(&m, arguments, arguments->operands[0]);
    if (code)
        return code;
    rc =
        td_sync(m.client, arguments->operands[0], arguments->operands[1], &how);
    progress_clear();
    return end_sync(&m, rc, how.until_caught_up);
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
    .run = run_sync,
};
