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
    td_limit(m->client, &m->limits);
    signals_stop_client(m->client);
    signals_ignore_pipe();
    return EXIT_GOOD;
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
    put_members(stdout, "{",
                "event:t set:t loc:t path:t why:t position:t complete_as_of:t",
                names[e->what], e->set, e->loc, e->path, e->why, e->position,
                e->as_of);
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
                "listed:z wanted:n done:n failed:n bytesDone:n bytesWanted:n",
                e->n_listed, e->n_wanted, e->n_done, e->n_failed, e->bytes_done,
                e->bytes_wanted);
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
    return failed("rows of the list were left out; --skip-bad takes that");
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
