/*
 * callbacks_books.c - what is done with a request to callbacks, and what is
 * kept of it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/callbacks_inside.h"

void
callbacks_must(bool is_good, const char *what)
{
    if (is_good)
        return;
    fprintf(stderr, "callbacks: %s: %s\n", what, strerror(errno));
    abort();
}

void *
callbacks_memory(void *memory)
{
    callbacks_must(memory != NULL, "memory");
    return memory;
}

static uint64_t
sum_of(struct slice bytes)
{
    uint64_t sum = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < bytes.size; i++)
        sum = (sum ^ (unsigned char)bytes.data[i]) * UINT64_C(1099511628211);
    return sum;
}

/* Whose request it is */

struct callback **
callbacks_bucket(struct callbacks *c, struct slice target)
{
    return &c->buckets[sum_of(target) % CALLBACK_BUCKETS];
}

static struct callback *
find(struct callbacks *c, struct slice target)
{
    struct callback *cb = *callbacks_bucket(c, target);

    while (cb && !slice_is(target, cb->target))
        cb = cb->next_in_bucket;
    return cb;
}

/* The callback whose target, byte for byte, is the beginning of this one, and
 * where what the hub added begins, behind "?" or "&" (W-051). */
static struct callback *
find_extended(struct callbacks *c, const char *target, const char **added)
{
    for (const char *at = target + strlen(target); at > target; at--) {
        size_t size = (size_t)(at - target);
        struct callback *cb;

        if ((at[-1] != '?' && at[-1] != '&') || strncmp(at, "hub.", 4) != 0)
            continue;
        *added = at;
        cb = find(c, (struct slice){target, size - 1});
        if (cb && !strchr(cb->target, '?') == (at[-1] == '?'))
            return cb;
        cb = find(c, (struct slice){target, size});
        if (cb)
            return cb;
    }
    return NULL;
}

/* What it is to do with it */

static struct manner
next_manner(struct script *s)
{
    struct manner manner = {.kind = MANNER_ANSWER};

    while (s->at < s->n && s->manners[s->at].times > 0 &&
           s->used == s->manners[s->at].times) {
        s->at++;
        s->used = 0;
    }
    if (s->at < s->n) {
        manner = s->manners[s->at];
        s->used++;
    }
    return manner;
}

static void
take_challenge(struct meeting *m, const char *added)
{
    static const char name[] = "hub.challenge=";
    const char *at = added;
    size_t n;

    while (*at && strncmp(at, name, sizeof(name) - 1) != 0) {
        at += strcspn(at, "&");
        at += *at == '&';
    }
    if (!*at)
        return;
    at += sizeof(name) - 1;
    n = strcspn(at, "&");
    if (n < sizeof(m->challenge)) /* it has only unreserved characters */
        snprintf(m->challenge, sizeof(m->challenge), "%.*s", (int)n, at);
}

void
callbacks_meet(struct callbacks *c, struct meeting *m, const char *method,
               const char *target)
{
    const char *added = "";

    memset(m, 0, sizeof(*m));
    m->kind = SEEN_STRAY;
    m->manner = (struct manner){.status = 404};
    pthread_mutex_lock(&c->lock);
    if (!strcmp(method, "POST")) {
        m->callback = find(c, slice_of(target));
        m->kind = m->callback ? SEEN_DELIVERY : SEEN_STRAY;
    } else if (!strcmp(method, "GET")) {
        m->callback = find_extended(c, target, &added);
        if (m->callback)
            m->kind = strstr(added, "hub.mode=denied") ? SEEN_DENIAL
                                                       : SEEN_VERIFICATION;
        take_challenge(m, added);
    }
    if (m->callback)
        m->manner = next_manner(&m->callback->scripts[m->kind]);
    pthread_mutex_unlock(&c->lock);
}

/* What was got */

static void
append(struct seens *to, struct seen *s)
{
    if (to->n == to->capacity) {
        to->capacity = to->capacity ? 2 * to->capacity : 16;
        to->all =
            callbacks_memory(realloc(to->all, to->capacity * sizeof(*to->all)));
    }
    to->all[to->n++] = s;
}

static void
fault(struct callback *cb, const struct seen *s, const char *text)
{
    if (!cb->journal.fault[0])
        snprintf(cb->journal.fault, sizeof(cb->journal.fault),
                 "%s, request %u: %s", cb->target, s->order, text);
}

/* The value of Tidings-Delivery; seen_header fails a test, which a thread must
 * not do without a head. */
static void
take_id(struct seen *s, const char *head)
{
    struct seen wire = {.head = (char *)head};
    char text[SEEN_ID_MAX + 2];

    if (seen_header(&wire, "Tidings-Delivery", text, sizeof(text)) &&
        strlen(text) <= SEEN_ID_MAX)
        strcpy(s->id, text);
}

/* `s` was appended to the deliveries. */
static void
note_id(struct callback *cb, const struct seen *s)
{
    const struct seens *d = &cb->seen[SEEN_DELIVERY];

    cb->id_sums = callbacks_memory(
        realloc(cb->id_sums, d->capacity * sizeof(*cb->id_sums)));
    cb->id_sums[d->n - 1] = sum_of(slice_of(s->id));
}

/* The newest one before `s` with its id, accepted or not; NULL: none. */
static struct seen *
earlier_of(struct callback *cb, const struct seen *s, bool is_accepted)
{
    struct seens *d = &cb->seen[SEEN_DELIVERY];
    uint64_t sum = sum_of(slice_of(s->id));

    for (size_t i = d->n; i-- > 0;) {
        struct seen *other = d->all[i];

        if (cb->id_sums[i] == sum && other->order < s->order &&
            other->is_whole && (!is_accepted || other->is_accepted) &&
            !strcmp(other->id, s->id))
            return other;
    }
    return NULL;
}

/* a redelivery is the same, byte for byte. What is not kept was compared
 * with the transcript: what it covers, and the sum of the rest, stand for it.
 */
static bool
is_same(const struct seen *a, const struct seen *b)
{
    return a->body_size == b->body_size && a->sum == b->sum &&
           a->after == b->after && a->last == b->last &&
           (!a->body || !b->body || !memcmp(a->body, b->body, a->body_size));
}

/* What a delivery says of itself, and whether that can be. */
static void
judge(struct callbacks *c, struct callback *cb, struct seen *s,
      const char *head, struct slice body)
{
    struct problem why = {""};
    struct transcript_head l;
    const struct seen *earlier;

    take_id(s, head);
    if (transcript_read(&l, body)) {
        body.size = (size_t)(l.entries.data - body.data);
        s->has_coverage = true;
        memcpy(s->epoch, l.epoch, sizeof(s->epoch));
        s->after = l.after;
        s->last = l.last;
        if (!c->keeps && !transcript_add(&c->transcript, &l, &why))
            fault(cb, s, why.text);
    }
    s->sum = sum_of(body);
    if (!s->id[0]) {
        fault(cb, s, "it has no id");
        return;
    }
    earlier = earlier_of(cb, s, false);
    if (earlier && !is_same(earlier, s))
        fault(cb, s, "it differs from an earlier one of its id");
}

void
callbacks_record(struct callbacks *c, struct meeting *m, unsigned connection,
                 const char *head, const char *method, const char *target,
                 struct slice body, bool is_whole)
{
    struct seen *s = callbacks_memory(calloc(1, sizeof(*s)));
    struct callback *cb = m->callback;
    bool keeps = c->keeps || m->kind != SEEN_DELIVERY;
    const char *added = "";

    m->seen = s;
    s->kind = m->kind;
    s->connection = connection;
    s->at_us = callbacks_now_us();
    s->is_whole = is_whole;
    s->body_size = body.size;
    s->method = callbacks_memory(strdup(method));
    pthread_mutex_lock(&c->lock);
    if (cb && m->kind != SEEN_DELIVERY)
        find_extended(c, target, &added);
    if (keeps) {
        s->head = callbacks_memory(strdup(head));
        s->target = callbacks_memory(strdup(target));
        s->added = callbacks_memory(strdup(added));
        s->body = body.size > 0 ? callbacks_memory(slice_dup(body)) : NULL;
    }
    append(&c->seen, s);
    s->order = (unsigned)c->seen.n;
    if (cb) {
        if (m->kind == SEEN_DELIVERY && is_whole)
            judge(c, cb, s, head, body);
        append(&cb->seen[m->kind], s);
        if (m->kind == SEEN_DELIVERY)
            note_id(cb, s);
    } else {
        c->n_strays++;
    }
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* Lets the entries of a delivery count. */
static void
enter(struct callback *cb, const struct seen *s)
{
    struct callback_journal *j = &cb->journal;

    j->n++;
    if (!s->has_coverage)
        return;
    if (!j->has_coverage) {
        j->has_coverage = true;
        j->first_after = s->after;
    } else if (s->after > j->last) {
        j->n_holes++;
    } else if (s->after < j->last) {
        fault(cb, s, "it goes back");
    }
    j->last = s->last;
}

void
callbacks_accept(struct callbacks *c, struct meeting *m)
{
    pthread_mutex_lock(&c->lock);
    if (m->kind == SEEN_DELIVERY) {
        m->seen->is_repeat =
            m->seen->id[0] && earlier_of(m->callback, m->seen, true);
        if (m->seen->is_repeat)
            m->callback->journal.n_repeats++;
        else
            enter(m->callback, m->seen);
    }
    m->seen->is_accepted = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

bool
callbacks_may_go(struct callbacks *c, const struct meeting *m)
{
    bool may = true;

    pthread_mutex_lock(&c->lock);
    if (m->callback) {
        may = m->callback->n_released > 0;
        m->callback->n_released -= may;
    }
    pthread_mutex_unlock(&c->lock);
    return may;
}
