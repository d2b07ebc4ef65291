/*
 * follow_options.c - checks and copies the options of a follower.
 */
#include "client/follow/follow_options.h"

#include "client/lib/part_filter.h"
#include "client/lib/pause.h"
#include "client/survey/survey.h"

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
    if (text.size < sizeof(parsed->url) && host.size && uri_is_web(url) &&
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

/* Reads where following begins: after a position, or at the first moment after
 * a time. */
static enum status
read_place(struct follow_options *parsed, const struct td_follow_options *how,
           bool has_key, struct problem *why)
{
    const char *since = how->since;
    const char *time = how->as_of ? how->as_of : since;
    size_t n = strlen("since=");
    int64_t us;

    parsed->has_place = how->after || since;
    if (how->after &&
        source_mark_read(slice_of(how->after), &parsed->place, &parsed->digest))
        return problem(why, STATUS_INVALID,
                       "not a position, EPOCH-SEQ: \"%.80s\"", how->after);
    if (!time)
        return STATUS_OK;
    if (how->after)
        return problem(why, STATUS_INVALID,
                       "a position and a datetime are given: begin with "
                       "either");
    if (strlen(time) > (SINCE_MAX - n) / 3 - 1 ||
        datetime_read_any(slice_of(time), &us))
        return problem(why, STATUS_INVALID,
                       "not a W3C Datetime, such as "
                       "2026-11-20T21:00:00Z: \"%.80s\"",
                       time);
    parsed->as_of_us = us;
    if (how->as_of && has_key)
        return problem(why, STATUS_INVALID,
                       "no checkpoint proves the state of a past time: give no "
                       "key, or no past time");
    if (how->as_of) /* it begins at no place */
        return STATUS_OK;
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

enum status
follow_options_check(const struct td_follow_options *how, bool has_key,
                     const char *part, struct problem *why)
{
    struct follow_options parsed;
    struct filter filter;
    enum status rc = read_place(&parsed, how, has_key, why);

    return rc || !part ? rc : part_filter_read(&filter, part, why);
}

enum status
follow_options_read(struct follow_options *parsed, const char *url,
                    struct td_follow_options *how, bool has_key,
                    struct problem *why)
{
    enum status rc;

    *parsed = (struct follow_options){.has_place = false};
    rc = read_url(parsed, url, why);
    if (!rc)
        rc = read_place(parsed, how, has_key, why);
    if (!rc)
        rc = read_filters(parsed, how->filters, how->n_filters, why);
    if (!rc && (how->transports & ~(unsigned)ALL_TRANSPORTS ||
                (unsigned)how->baseline > TD_BASELINE_FIRST ||
                (unsigned)how->form > TD_XML))
        rc = problem(why, STATUS_INVALID,
                     "no such transport, form or use of baselines");
    if (rc)
        return rc;
    if (how->as_of) { /* all at once, and nothing of today */
        how->until_caught_up = 1;
        how->compare_ms = 0;
    }
    if (!how->poll_ms)
        how->poll_ms = POLL_DEFAULT;
    if (!how->transports)
        how->transports = ALL_TRANSPORTS;
    if (!how->patience_ms)
        how->patience_ms = PATIENCE_DEFAULT;
    if (!how->max_delete_percent)
        how->max_delete_percent = SURVEY_PERCENT_DEFAULT;
    parsed->silence_s = how->idle_ms / 1000 + (how->idle_ms % 1000 > 0);
    parsed->scratch = how->scratch ? strdup(how->scratch) : NULL;
    parsed->listing = how->listing ? strdup(how->listing) : NULL;
    if ((how->scratch && !parsed->scratch) ||
        (how->listing && !parsed->listing))
        return problem_memory(why);
    return STATUS_OK;
}

void
follow_options_fini(struct follow_options *parsed)
{
    free(parsed->scratch);
    free(parsed->listing);
}
