/*
 * follow_options.c - checks and copies the options of a follower.
 */
#include "client/follow/follow_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/pause.h"
#include "client/listing/listing.h"
#include "proto/datetime.h"

#define ALL_TRANSPORTS (TD_WEBSOCKET | TD_EVENTS | TD_LONG_POLL | TD_POLL)

#define POLL_DEFAULT 60000

/* Accepts an http(s) URL with a host, for a request line: without a user, which
 * belongs into td_header, and without a fragment, which is never sent. */
static enum status
read_url(struct follow_options *parsed, const char *url, struct problem *why)
{
    struct slice text = url ? slice_of(url) : SLICE("");
    struct slice host = SLICE("");
    const char *begin = url ? strstr(url, "://") : NULL;

    if (begin)
        host = (struct slice){begin + 3, strcspn(begin + 3, "/?#")};
    if (text.size < sizeof(parsed->url) && host.size &&
        (!strncasecmp(url, "http://", 7) || !strncasecmp(url, "https://", 8)) &&
        !memchr(host.data, '@', host.size) && !strpbrk(url, "#\"<>\\^`{|}") &&
        !uri_check(text, "url", NULL)) {
        memcpy(parsed->url, text.data, text.size + 1);
        return STATUS_OK;
    }
    return problem(why, STATUS_INVALID,
                   "not the URL of a set or source, "
                   "http(s)://host:port/...: \"%.200s\"",
                   text.data);
}

static enum status
read_after(struct follow_options *parsed, const char *after,
           struct problem *why)
{
    if (!after)
        return STATUS_OK;
    parsed->has_place = true;
    if (source_position_read(slice_of(after), &parsed->place))
        return problem(why, STATUS_INVALID,
                       "not a position, EPOCH-SEQ: \"%.80s\"", after);
    return STATUS_OK;
}

/* Reads `since`: the place is the first moment after it. */
static enum status
read_since(struct follow_options *parsed, const char *since,
           struct problem *why)
{
    size_t n = strlen("since=");
    int64_t us;

    if (!since)
        return STATUS_OK;
    if (parsed->has_place)
        return problem(why, STATUS_INVALID,
                       "a position and a datetime are given: begin with "
                       "either");
    if (strlen(since) > (SINCE_MAX - n) / 3 - 1 ||
        datetime_read_any(slice_of(since), &us))
        return problem(why, STATUS_INVALID,
                       "not a W3C Datetime, such as "
                       "2026-11-20T21:00:00Z: \"%.80s\"",
                       since);
    parsed->has_place = true;
    parsed->place =
        (struct source_position){.is_time = true, .time_us = us + 1};
    memcpy(parsed->since, "since=", n);
    for (const char *c = since; *c; c++)
        n += (size_t)sprintf(parsed->since + n, *c == '+' ? "%%%02X" : "%c",
                             (unsigned char)*c);
    return STATUS_OK;
}

static enum status
read_filters(struct follow_options *parsed, const struct td_filter *filters,
             size_t n, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; i < n && !rc; i++) {
        struct slice name = slice_of(filters[i].name);
        struct slice value = slice_of(filters[i].value);

        rc = filter_add(&parsed->filter, name, value, why);
        if (!rc && !slice_is(name, "change"))
            rc = filter_add(&parsed->resources, name, value, why);
    }
    if (!rc)
        rc = filter_seal(&parsed->filter, why);
    if (!rc)
        rc = filter_seal(&parsed->resources, why);
    if (rc == STATUS_MEMORY)
        return problem_memory(why);
    if (rc) {
        why->rc = STATUS_INVALID;
        return STATUS_INVALID;
    }
    if (parsed->filter.text_size)
        snprintf(parsed->filters, sizeof(parsed->filters), "&%.*s",
                 SLICE_ARG(filter_text(&parsed->filter)));
    return STATUS_OK;
}

static enum status
read_rest(struct follow_options *parsed,
          const struct td_follow_options *options, struct problem *why)
{
    if (options->transports & ~(unsigned)ALL_TRANSPORTS ||
        (unsigned)options->baseline > TD_BASELINE_FIRST ||
        (unsigned)options->form > TD_XML)
        return problem(why, STATUS_INVALID,
                       "no such transport, form or use of baselines");
    parsed->form = options->form;
    parsed->idle_ms = options->idle_ms;
    parsed->silence_s = options->idle_ms / 1000 + (options->idle_ms % 1000 > 0);
    parsed->poll_ms = options->poll_ms ? options->poll_ms : POLL_DEFAULT;
    parsed->transports =
        options->transports ? options->transports : ALL_TRANSPORTS;
    parsed->baseline = options->baseline;
    parsed->until_caught_up = options->until_caught_up != 0;
    parsed->patience_ms =
        options->patience_ms ? options->patience_ms : PATIENCE_DEFAULT;
    parsed->max_delete_percent = options->max_delete_percent
                                     ? options->max_delete_percent
                                     : LISTING_PERCENT_DEFAULT;
    parsed->accept_deletions = options->accept_deletions;
    parsed->as_far_back = options->as_far_back != 0;
    parsed->compare_ms = options->compare_ms;
    parsed->on_trouble = options->on_trouble;
    parsed->on_doubt = options->on_doubt;
    parsed->on_progress = options->on_progress;
    parsed->on_held = options->on_held;
    parsed->on_report = options->on_report;
    parsed->on_end = options->on_end;
    parsed->scratch = options->scratch ? strdup(options->scratch) : NULL;
    parsed->listing = options->listing ? strdup(options->listing) : NULL;
    if ((options->scratch && !parsed->scratch) ||
        (options->listing && !parsed->listing))
        return problem_memory(why);
    return STATUS_OK;
}

enum status
follow_options_read(struct follow_options *parsed, const char *url,
                    const struct td_follow_options *options,
                    struct problem *why)
{
    static const struct td_follow_options defaults = {.after = NULL};
    enum status rc;

    if (!options)
        options = &defaults;
    *parsed = (struct follow_options){.has_place = false};
    rc = read_url(parsed, url, why);
    if (!rc)
        rc = read_after(parsed, options->after, why);
    if (!rc)
        rc = read_since(parsed, options->since, why);
    if (!rc)
        rc = read_filters(parsed, options->filters, options->n_filters, why);
    if (!rc)
        rc = read_rest(parsed, options, why);
    return rc;
}

void
follow_options_fini(struct follow_options *parsed)
{
    free(parsed->scratch);
    free(parsed->listing);
}
