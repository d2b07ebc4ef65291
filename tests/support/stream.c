#include "tests/support/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool
stream_open(struct wire *w, const char *set, const char *after,
            struct problem *why)
{
    struct wire_answer a = {0};
    char path[200];

    snprintf(path, sizeof(path), "/sets/%s/stream%s%s", set,
             after ? "?after=" : "", after ? after : "");
    if (wire_upgrade(w, path, "resourcesync.xml", &a))
        return true;
    problem_set(why, "no stream, but status %u", a.status);
    return false;
}

static bool
take(struct trace *t, struct slice message, struct problem *why)
{
    struct xmldoc d;
    bool is_good = xmldoc_read(&d, message, why);

    if (is_good && strcmp(d.capability, "change-notification")) {
        problem_set(why, "a message is a %s", d.capability);
        is_good = false;
    }
    /* From now on: the first message says when that is. */
    if (is_good && t->after == UINT64_MAX && d.n_entries == 0)
        t->after = t->last = d.after;
    if (is_good && d.after != t->last) {
        problem_set(why, "a message after %" PRIu64 " came at %" PRIu64,
                    d.after, t->last);
        is_good = false;
    }
    is_good = is_good && trace_document(t, &d, why);
    xmldoc_free(&d);
    return is_good;
}

bool
stream_read(struct wire *w, struct trace *t, uint64_t until, bool *is_ended,
            struct problem *why)
{
    struct wire_frame f;

    if (is_ended)
        *is_ended = false;
    while (t->last < until || t->after == UINT64_MAX) {
        if (!wire_message(w, &f) || f.opcode != WIRE_TEXT) {
            problem_set(why, "the stream ended after entry %" PRIu64, t->last);
            if (is_ended)
                *is_ended = true;
            return false;
        }
        if (!take(t, (struct slice){f.payload, f.size}, why))
            return false;
    }
    return true;
}
