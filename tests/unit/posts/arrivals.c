#include "tests/unit/posts/arrivals.h"

#include <string.h>

#include "tests/test.h"

static void
on_done(struct ingest *ingest, void *user)
{
    struct arrival *a = user;

    (void)ingest;
    sem_post(&a->is_done);
}

void
arrival_begin(struct arrival *a, const char *name, const char *type)
{
    memset(a, 0, sizeof(*a));
    sem_init(&a->is_done, 0, 0);
    assert_int_equal(ingest_begin(&a->ingest, &s.posts, slice_of(name),
                                  slice_of(type), 0, &a->outcome.why),
                     STATUS_OK);
    ingest_take_message(a->ingest, "");
}

enum status
arrival_set_key(struct arrival *a, const char *text)
{
    struct key key;

    assert_int_equal(key_read(slice_of(text), &key, NULL), STATUS_OK);
    return ingest_set_key(a->ingest, &key, &a->outcome.why);
}

void
arrival_feed(struct arrival *a, struct slice body)
{
    a->outcome.rc = ingest_feed(a->ingest, body, &a->outcome.why);
    if (!a->outcome.rc)
        a->outcome.rc = ingest_end(a->ingest, on_done, a, &a->outcome.why);
    a->is_answered = sem_trywait(&a->is_done) == 0;
}

struct sets_outcome
arrival_end(struct arrival *a)
{
    struct sets_outcome *o = &a->outcome;

    log_wake(s.registry->log);
    if (!o->rc) {
        const struct post *post = &a->ingest->post;

        if (!a->is_answered)
            sem_wait(&a->is_done);
        o->rc = post->status;
        o->why = post->why;
        o->first = post->first;
        o->last = post->last;
    }
    ingest_free(a->ingest);
    sem_destroy(&a->is_done);
    return *o;
}

struct sets_outcome
arrive(const char *name, const char *type, struct slice body)
{
    struct arrival a;

    arrival_begin(&a, name, type);
    arrival_feed(&a, body);
    return arrival_end(&a);
}

struct sets_outcome
arrive_json(const char *name, const char *body)
{
    return arrive(name, JSON, slice_of(body));
}
