#include "tests/support/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/vocab.h"

void
trace_init(struct trace *t)
{
    memset(t, 0, sizeof(*t));
    t->has_digests = true;
}

void
trace_init_after(struct trace *t, uint64_t after)
{
    memset(t, 0, sizeof(*t));
    t->after = t->last = after;
}

void
trace_fini(struct trace *t)
{
    for (uint64_t i = 0; i < t->last - t->after; i++)
        free(t->entries[i].loc);
    free(t->entries);
    memset(t, 0, sizeof(*t));
}

const struct trace_entry *
trace_at(const struct trace *t, uint64_t seq)
{
    if (seq <= t->after || seq > t->last)
        return NULL;
    return &t->entries[seq - t->after - 1];
}

const struct digest *
trace_digest(const struct trace *t, uint64_t seq)
{
    const struct trace_entry *e = trace_at(t, seq);

    if (!t->has_digests || !t->epoch[0])
        return NULL;
    return e ? &e->digest : seq == t->after ? &t->start : NULL;
}

static bool
is_same_entry(const struct trace_entry *e, const char *datetime,
              const char *change, const char *loc)
{
    return !strcmp(e->datetime, datetime) && !strcmp(e->change, change) &&
           !strcmp(e->loc, loc);
}

/* One more entry, empty; NULL: no memory. */
static struct trace_entry *
grow(struct trace *t)
{
    size_t n = (size_t)(t->last - t->after);

    if (n == t->capacity) {
        size_t capacity = n ? n * 2 : 1024;
        struct trace_entry *more =
            realloc(t->entries, capacity * sizeof(*more));

        if (!more)
            return NULL;
        t->entries = more;
        t->capacity = capacity;
    }
    return &t->entries[n];
}

/* `digest` is d(seq), NULL if it is not known. */
static bool
add(struct trace *t, uint64_t seq, const char *datetime, const char *change,
    const char *loc, const struct digest *digest, struct problem *why)
{
    const struct trace_entry *known = trace_at(t, seq);
    struct trace_entry *e;

    if (known) {
        t->n_repeats++;
        if (is_same_entry(known, datetime, change, loc) &&
            (!digest || !t->has_digests ||
             !memcmp(digest, &known->digest, sizeof(*digest))))
            return true;
        problem_set(why, "entry %" PRIu64 " was %s %s %s, then it is %s %s %s",
                    seq, known->datetime, known->change, known->loc, datetime,
                    change, loc);
        return false;
    }
    if (seq != t->last + 1) {
        problem_set(why, "entry %" PRIu64 " comes after entry %" PRIu64, seq,
                    t->last);
        return false;
    }
    if (strlen(datetime) != DATETIME_SIZE || strlen(change) >= 8) {
        problem_set(why, "entry %" PRIu64 " has the time \"%s\"", seq,
                    datetime);
        return false;
    }
    if (t->last > t->after &&
        strcmp(datetime, trace_at(t, t->last)->datetime) <= 0) {
        problem_set(why, "entry %" PRIu64 " of %s is not later than %s", seq,
                    datetime, trace_at(t, t->last)->datetime);
        return false;
    }
    e = grow(t);
    if (!e || !(e->loc = strdup(loc))) {
        problem_set(why, "no memory");
        return false;
    }
    strcpy(e->datetime, datetime);
    strcpy(e->change, change);
    t->has_digests = t->has_digests && digest;
    if (digest)
        e->digest = *digest;
    t->last = seq;
    return true;
}

bool
trace_add(struct trace *t, uint64_t seq, const char *datetime,
          const char *change, const char *loc, struct problem *why)
{
    return add(t, seq, datetime, change, loc, NULL, why);
}

bool
trace_check_digest(const struct trace *t, uint64_t seq, const char *digest,
                   struct problem *why)
{
    const struct digest *known = trace_digest(t, seq);
    char text[DIGEST_TEXT_SIZE + 1] = "";

    if (known) {
        digest_write(text, known);
        if (!strcmp(text, digest))
            return true;
    }
    problem_set(why, "d(%" PRIu64 ") is told as \"%s\", but is %s", seq, digest,
                known ? text : "not known");
    return false;
}

bool
trace_epoch(struct trace *t, const char *epoch, struct problem *why)
{
    if (t->epoch[0] && !strcmp(t->epoch, epoch))
        return true;
    if (t->epoch[0] || strlen(epoch) != 16) {
        problem_set(why, "epoch \"%s\" became \"%s\"", t->epoch, epoch);
        return false;
    }
    strcpy(t->epoch, epoch);
    if (t->after == 0) {
        digest_start(&t->start, slice_of(epoch));
        t->has_digests = t->last == 0;
    }
    return true;
}

/* T(seq) is `datetime`, as far as it is known. */
static bool
meet_time(const struct trace *t, uint64_t seq, const char *datetime,
          struct problem *why)
{
    const struct trace_entry *e = trace_at(t, seq);

    if (!*datetime || !e || !strcmp(e->datetime, datetime))
        return true;
    problem_set(why, "T(%" PRIu64 ") is told as %s, but is %s", seq, datetime,
                e->datetime);
    return false;
}

bool
trace_document(struct trace *t, const struct xmldoc *d, struct problem *why)
{
    struct digest digest = {{0}};
    const struct digest *before;

    if (!d->has_coverage || d->last - d->after != d->n_entries) {
        problem_set(why, "%" PRIu64 " to %" PRIu64 " are told, %zu are there",
                    d->after, d->last, d->n_entries);
        return false;
    }
    if (!trace_epoch(t, d->epoch, why) || !meet_time(t, d->after, d->from, why))
        return false;

    /* A heartbeat where a receiver begins tells the digest to go on from. */
    if (t->after > 0 && t->last == t->after && d->last == t->after &&
        d->n_entries == 0) {
        t->has_digests = !digest_read(slice_of(d->digest), &t->start);
        snprintf(t->start_time, sizeof(t->start_time), "%s", d->until);
    }
    before = trace_digest(t, d->after);
    if (before)
        digest = *before;

    for (size_t i = 0; i < d->n_entries; i++) {
        const struct xmldoc_entry *e = &d->entries[i];

        if (e->seq != d->after + 1 + i) {
            problem_set(why, "entry %" PRIu64 " is in the place of %" PRIu64,
                        e->seq, d->after + 1 + i);
            return false;
        }
        digest_add(&digest, e->line);
        if (!add(t, e->seq, e->datetime, e->change, e->loc,
                 before ? &digest : NULL, why))
            return false;
    }
    return meet_time(t, d->last, d->until, why) &&
           (!before || trace_check_digest(t, d->last, d->digest, why));
}

bool
trace_line(struct trace *t, struct slice line, struct problem *why)
{
    static const char head[] =
        "<urlset xmlns=\"" NS_SITEMAP "\" xmlns:rs=\"" NS_RS
        "\" xmlns:td=\"" NS_TIDINGS "\">\n<rs:md capability=\"changelist\"/>\n";
    const struct digest *before;
    struct digest digest;
    struct xmldoc d = {NULL};
    struct buf text;
    bool is_good = false;

    buf_init(&text, 1 << 20);
    BUF_ADD(&text, head);
    buf_add_slice(&text, line);
    BUF_ADD(&text, "</urlset>\n");
    if (text.failed || !xmldoc_read(&d, buf_slice(&text), why))
        goto out;
    if (d.n_entries != 1 || d.entries[0].line.size != line.size) {
        problem_set(why, "\"%s\" is not one entry", problem_quote(line).text);
        goto out;
    }
    before = trace_digest(t, d.entries[0].seq - 1);
    if (before) {
        digest = *before;
        digest_add(&digest, line);
    }
    is_good =
        add(t, d.entries[0].seq, d.entries[0].datetime, d.entries[0].change,
            d.entries[0].loc, before ? &digest : NULL, why);

out:
    xmldoc_free(&d);
    buf_fini(&text);
    return is_good;
}

/* What it was told where it began is what the other one has there. */
static bool
is_same_start(const struct trace *t, const struct trace *other,
              struct problem *why)
{
    const struct trace_entry *e = trace_at(other, t->after);

    if (!e || !t->start_time[0] || !strcmp(t->start_time, e->datetime))
        return true;
    problem_set(why, "T(%" PRIu64 ") was told as %s, but is %s", t->after,
                t->start_time, e->datetime);
    return false;
}

bool
trace_is_same(const struct trace *a, const struct trace *b, struct problem *why)
{
    uint64_t first = (a->after > b->after ? a->after : b->after) + 1;

    if (a->last != b->last || first > a->last) {
        problem_set(why, "one ends at %" PRIu64 ", the other at %" PRIu64,
                    a->last, b->last);
        return false;
    }
    if (!is_same_start(a, b, why) || !is_same_start(b, a, why))
        return false;
    for (uint64_t seq = first; seq <= a->last; seq++) {
        const struct trace_entry *e = trace_at(a, seq), *f = trace_at(b, seq);

        if (!is_same_entry(e, f->datetime, f->change, f->loc)) {
            problem_set(why, "entry %" PRIu64 " is %s %s here, %s %s there",
                        seq, e->datetime, e->loc, f->datetime, f->loc);
            return false;
        }
    }
    return true;
}
