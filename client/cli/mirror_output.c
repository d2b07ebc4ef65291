/*
 * mirror_output.c - what `tidings sync` and `tidings audit` share.
 */
#include "client/cli/mirror_output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/progress.h"
#include "client/cli/settings.h"
#include "client/tidings.h"
#include "proto/number.h"

/* Progress */

static void
show_progress(const struct td_sync_event *e)
{
    struct progress_figures figures = {
        .unit = "files",
        .done = e->n_done,
        .all = e->n_done + e->n_wanted,
        .failed = e->n_failed,
        .has_bytes = true,
        .bytes = e->bytes_done,
        .bytes_left = e->bytes_wanted,
    };

    if (e->n_listed)
        figures = (struct progress_figures){.label = "reading the list",
                                            .unit = "resources",
                                            .done = e->n_listed};
    progress_show(&figures);
}

enum exit_code
mirror_output_open(struct mirror_output *m, const struct arguments *arguments,
                   const char *url)
{
    enum exit_code code;

    if (!url && settings_of(arguments)->n_headers)
        return bad_usage("--header needs the URL of the source, too: it goes "
                         "to no other server");
    if (!url && settings_of(arguments)->line.token_file[0])
        return bad_usage("--token-file needs the URL of the source, too: the "
                         "token goes to no other server");
    progress_begin(!m->is_json && !m->has_no_progress);
    m->client = open_client(arguments, url, &code);
    if (!m->client)
        return code;
    signals_stop_client(m->client);
    signals_ignore_pipe();
    return EXIT_GOOD;
}

bool
mirror_output_number(const char *option, const char *text, unsigned most,
                     unsigned *number)
{
    if (read_number(text, most, number))
        return true;
    say("--%s is a number from 1 to %u", option, most);
    return false;
}

bool
mirror_output_max_delete(const char *text, int *percent)
{
    unsigned number = 0;

    if (text && !strcmp(text, "none")) {
        *percent = -1;
        return true;
    }
    if (!read_number(text, 100, &number)) {
        say("--max-delete is a number from 1 to 100, or none");
        return false;
    }
    *percent = (int)number;
    return true;
}

bool
mirror_output_accept(const char *text, uint64_t *number)
{
    if (!text || (number_read(slice_of(text), number) && *number > 0))
        return true;
    say("--accept-deletions is the number of deletions that are held back");
    return false;
}

void
mirror_output_held(uint64_t n, uint64_t n_of)
{
    if (n)
        say("held back: %" PRIu64 " of %" PRIu64 " resources would be deleted; "
            "--accept-deletions %" PRIu64 " deletes them",
            n, n_of, n);
    else
        say("held back: no deletions any more");
}

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
    [TD_SYNC_HELD] = "held",
};

static void
put_number(const char *name, uint64_t value)
{
    printf(",\"%s\":%llu", name, (unsigned long long)value);
}

void
mirror_output_end_line(struct mirror_output *m)
{
    puts("}");
    if (fflush(stdout) && !m->is_deaf) {
        m->is_deaf = true;
        m->error = errno;
        td_stop(m->client);
    }
}

static void
put_event(struct mirror_output *m, const struct td_sync_event *e)
{
    put_member(stdout, "{", "event", names[e->what]);
    put_member(stdout, ",", "set", e->set);
    put_member(stdout, ",", "loc", e->loc);
    put_member(stdout, ",", "path", e->path);
    put_member(stdout, ",", "why", e->why);
    put_member(stdout, ",", "position", e->position);
    put_member(stdout, ",", "complete_as_of", e->as_of);
    if (e->what == TD_SYNC_DOUBT)
        put_member(stdout, ",", "not_complete", e->why);
    if (e->report) {
        put_member(stdout, ",", "mended", e->report->mended);
        put_member(stdout, ",", "left_out", e->report->left_out);
    }
    if (e->what == TD_SYNC_HELD) {
        put_number("held_back", e->n_held);
        put_number("of", e->n_of);
    }
    if (e->what == TD_SYNC_WRITTEN)
        put_number("bytes", e->bytes);
    if (e->n_listed)
        put_number("listed", e->n_listed);
    put_number("wanted", e->n_wanted);
    put_number("done", e->n_done);
    put_number("failed", e->n_failed);
    put_number("bytesDone", e->bytes_done);
    put_number("bytesWanted", e->bytes_wanted);
    mirror_output_end_line(m);
}

/* Lines for people, in place of the bar */

/* Prints each trouble once, until something else happens: a source may be away
 * for days. */
static void
tell_trouble(struct mirror_output *m, const char *why)
{
    if (!m->is_verbose && !strncmp(m->trouble, why, sizeof(m->trouble) - 1))
        return;
    snprintf(m->trouble, sizeof(m->trouble), "%s", why);
    say("%s", why);
}

void
mirror_output_report(const struct td_report *report)
{
    if (report->n_left_out)
        say("left out: %llu row%s: %s", (unsigned long long)report->n_left_out,
            report->n_left_out == 1 ? "" : "s", report->left_out);
    if (report->n_mended)
        say("mended: %s", report->mended);
}

enum exit_code
mirror_output_left_out(void)
{
    say("rows of the list were left out; --skip-bad takes that");
    return EXIT_FAILED;
}

static void
tell_event(struct mirror_output *m, const struct td_sync_event *e)
{
    const char *why = e->why ? e->why : "";

    switch (e->what) {
    case TD_SYNC_BASELINE:
        say("a baseline is taken: %s", why);
        return;
    case TD_SYNC_FAILED:
        if (m->is_verbose)
            say("%s: %s; it is tried again", e->loc ? e->loc : "", why);
        return;
    case TD_SYNC_LEFT:
        say("%s: given up: %s", e->loc ? e->loc : "", why);
        return;
    case TD_SYNC_TROUBLE:
        tell_trouble(m, why);
        return;
    case TD_SYNC_CAUGHT_UP:
        if (m->is_verbose)
            say("caught up at %s", e->position ? e->position : "-");
        return;
    case TD_SYNC_REPORT:
        mirror_output_report(e->report);
        return;
    case TD_SYNC_DOUBT:
        say("not known to be complete: %s", why);
        return;
    case TD_SYNC_COMPLETE:
        if (m->is_verbose || m->is_doubtful)
            say("complete as of %s", e->as_of);
        return;
    case TD_SYNC_HELD:
        mirror_output_held(e->n_held, e->n_of);
        return;
    case TD_SYNC_WRITTEN:
        if (m->is_verbose)
            say("written: %s", e->path);
        return;
    case TD_SYNC_DELETED:
        if (m->is_verbose)
            say("deleted: %s", e->path);
        return;
    default:
        return;
    }
}

static void
note_certainty(struct mirror_output *m, const struct td_sync_event *e)
{
    if (e->what == TD_SYNC_DOUBT || e->what == TD_SYNC_COMPLETE)
        m->is_doubtful = e->what == TD_SYNC_DOUBT;
    if (e->what == TD_SYNC_COMPLETE && e->as_of &&
        (!m->as_of[0] || strcmp(e->as_of, m->as_of) < 0))
        snprintf(m->as_of, sizeof(m->as_of), "%s", e->as_of);
}

void
mirror_output_event(const struct td_sync_event *event, void *user)
{
    struct mirror_output *m = user;

    m->last = *event;
    m->has_left_out |= event->report && event->report->n_left_out;
    if (event->what == TD_SYNC_CAUGHT_UP && event->position)
        snprintf(m->position, sizeof(m->position), "%s", event->position);
    if (m->is_json) {
        put_event(m, event);
        note_certainty(m, event);
        return;
    }
    if (event->what != TD_SYNC_PROGRESS && event->what != TD_SYNC_TROUBLE)
        m->trouble[0] = '\0';
    tell_event(m, event);
    note_certainty(m, event);
    if (event->what != TD_SYNC_COMPLETE)
        show_progress(event);
}
