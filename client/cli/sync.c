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
    OPTION_PER_HOST,
    OPTION_POLL,
    OPTION_NO_DUMPS,
    OPTION_LIMITS,
    OPTION_JSON = OPTION_LIMITS + N_MIRROR_LIMIT_ROWS,
    OPTION_NO_PROGRESS,
    OPTION_VERBOSE
};

static const struct option options[] = {
    [OPTION_UNTIL] = {"until-caught-up", NULL,
                      .help = "end when the mirror equals the source"},
    [OPTION_MAX_DELETE] = {"max-delete", "PERCENT", .standard = "20",
                           .help = "refuse to delete more; none is no limit"},
    [OPTION_PER_HOST] = {"per-host", "N", .standard = "4",
                         .help = "requests at a time at a host"},
    [OPTION_POLL] = {"poll", "SECONDS", .standard = "60",
                     .help = "between looks at a source that pushes nothing"},
    [OPTION_NO_DUMPS] =
        {"no-dumps", NULL,
         .help = "fetch files one by one, even if the source has dumps"},
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

    if (!mirror_output_max_delete(given[OPTION_MAX_DELETE],
                                  &how->max_delete_percent) ||
        !mirror_output_number("per-host", given[OPTION_PER_HOST], 100,
                              &how->per_host) ||
        !mirror_output_number("poll", given[OPTION_POLL], 86400, &poll_s))
        return false;
    how->poll_ms = poll_s * 1000;
    how->until_caught_up = given[OPTION_UNTIL] != NULL;
    how->has_no_dumps = given[OPTION_NO_DUMPS] != NULL;
    how->on_event = mirror_output_event;
    how->user = m;
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
        "When a source wants more than 20 % of the files deleted (and 100 or "
        "more), in a new baseline or one hour of changes, it deletes no more "
        "and ends with 1: look whether that is right, then give --max-delete.\n"
        "\n"
        "A source that is too large, or has no end, is stopped with 1: BYTES "
        "(500M, 2G or none) of a resource, of all, or those that stay free of "
        "the disk.\n"
        "\n"
        "A source with only a Resource List or a Sitemap is mirrored by "
        "reading that list every --poll seconds. One that cannot be read to "
        "its end deletes nothing.\n"
        "\n"
        "1 also tells that resources could not be had: the next run tries them "
        "again; and, with --until-caught-up, that nothing came for a minute, "
        "or that a server wants to be left alone for longer.\n",
    .examples = "tidings sync http://localhost:8787/sets/news mirror\n"
                "tidings sync https://example.org/sitemap.xml mirror "
                "--until-caught-up\n",
    .options = OPTIONS(options),
    .run = run_sync,
};
