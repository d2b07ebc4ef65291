/*
 * mirror_output.c - what `tidings sync` and `tidings audit` share.
 */
#include "client/cli/mirror_output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/signals.h"

struct td_client *
mirror_output_open(const struct arguments *arguments, const char *url,
                   enum exit_code *code)
{
    struct td_client *client;

    if (!url && arguments->n_headers) {
        *code = bad_usage("--header needs the URL of the source, too: it goes "
                          "to no other server");
        return NULL;
    }
    client = open_client(arguments, url, code);
    if (!client)
        return NULL;
    signals_stop_client(client);
    signals_ignore_pipe();
    return client;
}

static bool
is_number(const char *text, unsigned most, unsigned *number)
{
    unsigned long value;

    if (!text)
        return true;
    value = strlen(text) < 10 && text[0] &&
                    strspn(text, "0123456789") == strlen(text)
                ? strtoul(text, NULL, 10)
                : 0;
    if (value < 1 || value > most)
        return false;
    *number = (unsigned)value;
    return true;
}

bool
mirror_output_number(const char *option, const char *text, unsigned most,
                     unsigned *number)
{
    if (is_number(text, most, number))
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
    if (!is_number(text, 100, &number)) {
        say("--max-delete is a number from 1 to 100, or none");
        return false;
    }
    *percent = (int)number;
    return true;
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
    [TD_SYNC_CAUGHT_UP] = "caught-up",
};

void
mirror_output_put(const char *before, const char *name, const char *value)
{
    if (!value)
        return;
    printf("%s\"%s\":", before, name);
    put_json_string(stdout, value);
}

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
    mirror_output_put("{", "event", names[e->what]);
    mirror_output_put(",", "set", e->set);
    mirror_output_put(",", "loc", e->loc);
    mirror_output_put(",", "path", e->path);
    mirror_output_put(",", "why", e->why);
    mirror_output_put(",", "position", e->position);
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

static void __attribute__((format(printf, 2, 3)))
print_line(struct mirror_output *m, const char *format, ...)
{
    va_list args;

    progress_clear(&m->progress);
    va_start(args, format);
    vsay(format, args);
    va_end(args);
}

/* Prints each trouble once, until something else happens: a source may be away
 * for days. */
static void
tell_trouble(struct mirror_output *m, const char *why)
{
    if (!m->is_verbose && !strncmp(m->trouble, why, sizeof(m->trouble) - 1))
        return;
    snprintf(m->trouble, sizeof(m->trouble), "%s", why);
    print_line(m, "%s", why);
}

static void
tell_event(struct mirror_output *m, const struct td_sync_event *e)
{
    const char *why = e->why ? e->why : "";

    switch (e->what) {
    case TD_SYNC_BASELINE:
        print_line(m, "a baseline is taken: %s", why);
        return;
    case TD_SYNC_FAILED:
        if (m->is_verbose)
            print_line(m, "%s: %s; it is tried again", e->loc ? e->loc : "",
                       why);
        return;
    case TD_SYNC_LEFT:
        print_line(m, "%s: given up: %s", e->loc ? e->loc : "", why);
        return;
    case TD_SYNC_TROUBLE:
        tell_trouble(m, why);
        return;
    case TD_SYNC_CAUGHT_UP:
        if (m->is_verbose)
            print_line(m, "caught up at %s", e->position ? e->position : "-");
        return;
    case TD_SYNC_WRITTEN:
        if (m->is_verbose)
            print_line(m, "written: %s", e->path);
        return;
    case TD_SYNC_DELETED:
        if (m->is_verbose)
            print_line(m, "deleted: %s", e->path);
        return;
    default:
        return;
    }
}

void
mirror_output_event(const struct td_sync_event *event, void *user)
{
    struct mirror_output *m = user;

    m->last = *event;
    if (event->what == TD_SYNC_CAUGHT_UP && event->position)
        snprintf(m->position, sizeof(m->position), "%s", event->position);
    if (m->is_json) {
        put_event(m, event);
        return;
    }
    if (event->what != TD_SYNC_PROGRESS && event->what != TD_SYNC_TROUBLE)
        m->trouble[0] = '\0';
    tell_event(m, event);
    progress_show(&m->progress, event);
}
