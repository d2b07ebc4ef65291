#include "broker/sets/ingest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "broker/sets/gunzip.h"
#include "proto/formats.h"
#include "proto/fragment.h"

/* What a post costs before its first entry: parser, structs. */
#define HELD_AT_LEAST 16384

/* Room for fragments that is made at once. */
#define ROOM_AT_ONCE ((uint64_t)1 << 20)

/* Reserved in one go, so that not every entry asks. */
#define RESERVE_STEP 65536

struct ingest {
    struct registry *registry;
    const struct format *format;
    struct reader *reader;
    struct gunzip *gunzip; /* NULL: the body is as it is */
    struct slice set_name;
    char name[SET_NAME_MAX];
    struct set *set;
    struct post post;
    struct key key;
    struct running_post running;
    size_t fragments_capacity;
    size_t reserved; /* of the budget */
    void (*on_done)(struct ingest *ingest, void *user);
    void *user;
};

/* Makes the reservation at least what the ingest holds. */
static enum status
reserve(struct ingest *in, struct problem *why)
{
    size_t held = HELD_AT_LEAST + in->post.bytes.size +
                  in->post.n_fragments * sizeof(*in->post.fragments);

    if (in->gunzip)
        held += gunzip_held(in->gunzip);
    if (held <= in->reserved)
        return STATUS_OK;
    held -= in->reserved;
    if (in->post.n_fragments > 0)
        held += RESERVE_STEP;
    if (!registry_reserve(in->registry, BUDGET_POSTS, held))
        return problem(why, STATUS_BUSY,
                       "too much is being posted at the moment");
    in->reserved += held;
    return STATUS_OK;
}

/* Adds the entry that begins at `start`, the last one, to the digest of all:
 * its bytes without a stamp, and the source's time. These are what was posted
 * as the reader understood it, so that it does not matter in which format, and
 * in which spelling, a repeat comes. (A namespace prefix counts, as it is
 * kept.) A time has 8 bytes, and no entry is as short: nobody is taken for the
 * other.
 */
static void
digest_entry(struct post *post, size_t start)
{
    const struct fragment *f = &post->fragments[post->n_fragments];
    struct slice time = {(const char *)&f->datetime_us, sizeof(f->datetime_us)};

    digest_add(&post->entries,
               (struct slice){post->bytes.data + start, f->size});
    if (f->datetime_us != DATETIME_NONE)
        digest_add(&post->entries, time);
}

static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    struct ingest *in = user;
    struct post *post = &in->post;
    size_t start = post->bytes.size;
    enum status rc;

    if (post->n_fragments == in->fragments_capacity) {
        size_t n = in->fragments_capacity ? in->fragments_capacity * 2 : 16;
        struct fragment *fragments =
            realloc(post->fragments, n * sizeof(*fragments));

        if (!fragments)
            return problem(why, STATUS_BUSY, "the broker has no memory left");
        post->fragments = fragments;
        in->fragments_capacity = n;
    }
    rc = fragment_write(&post->bytes, change,
                        &post->fragments[post->n_fragments], why);
    if (rc)
        return rc;
    if (post->key.size > 0)
        digest_entry(post, start);
    post->n_fragments++;
    return reserve(in, why);
}

enum status
ingest_begin(struct ingest **ingest, struct registry *registry,
             struct slice set_name, struct slice content_type,
             uint64_t content_length, struct problem *why)
{
    const struct config *config = registry_config(registry);
    const struct format *format;
    struct ingest *in;
    enum status rc;

    if (!set_name_is_valid(set_name))
        return problem(why, STATUS_NOT_FOUND,
                       "no set can be called \"%s\": a name is 1 to 64 of a-z "
                       "0-9 . _ - and begins with a letter or digit",
                       problem_quote(set_name).text);
    format = format_of(content_type);
    if (!format)
        return problem(why, STATUS_UNSUPPORTED,
                       "changes are read as %s in UTF-8, not as \"%s\"",
                       formats_offered(), problem_quote(content_type).text);
    if (content_length > config->max_body)
        return problem(why, STATUS_TOO_LARGE,
                       "a post has at most %" PRIu64 " bytes, not %" PRIu64,
                       config->max_body, content_length);

    in = calloc(1, sizeof(*in));
    if (!in)
        return problem(why, STATUS_BUSY, "the broker has no memory left");
    in->registry = registry;
    in->format = format;
    memcpy(in->name, set_name.data, set_name.size);
    in->set_name = (struct slice){in->name, set_name.size};
    in->post.kind = POST_CHANGES;
    /* A fragment can be a few times larger than the entry that was posted (five
     * characters for an ampersand, say); the budget bounds the rest. */
    buf_init(&in->post.bytes, (size_t)config->ingest_bytes);
    /* Fragments are about as large as what was posted: no growing in steps. A
     * wish: without memory it grows, or fails, later. */
    buf_room(&in->post.bytes, content_length < ROOM_AT_ONCE
                                  ? (size_t)content_length
                                  : (size_t)ROOM_AT_ONCE);
    buf_clear(&in->post.bytes);
    rc = reserve(in, why);
    if (!rc) {
        in->reader =
            readers_take(registry_readers(registry), format, on_change, in);
        if (!in->reader)
            rc = problem(why, STATUS_BUSY, "the broker has no memory left");
    }
    if (rc)
        ingest_free(in);
    else
        *ingest = in;
    return rc;
}

static enum status
on_inflated(struct slice bytes, void *user, struct problem *why)
{
    struct ingest *in = user;

    return reader_feed(in->reader, bytes, why);
}

static bool
is_coding(struct slice coding, const char *name)
{
    return coding.size == strlen(name) &&
           !strncasecmp(coding.data, name, coding.size);
}

enum status
ingest_decode(struct ingest *in, struct slice coding, struct problem *why)
{
    if (is_coding(coding, "identity"))
        return STATUS_OK;
    if (!is_coding(coding, "gzip") && !is_coding(coding, "x-gzip"))
        return problem(why, STATUS_UNSUPPORTED,
                       "a post is read as it is, or in %s; not in \"%s\"",
                       INGEST_CODINGS, problem_quote(coding).text);
    in->gunzip =
        gunzip_new(registry_config(in->registry)->max_body, on_inflated, in);
    if (!in->gunzip)
        return problem(why, STATUS_BUSY, "the broker has no memory left");
    return reserve(in, why);
}

void
ingest_take_any_capability(struct ingest *in)
{
    reader_take_any_capability(in->reader);
}

enum status
ingest_set_key(struct ingest *in, const struct key *key, struct problem *why)
{
    struct slice text;

    in->key = *key;
    text = key_slice(&in->key);
    in->running.set = in->set_name;
    in->running.key = text;
    if (!running_begin(registry_running(in->registry), &in->running))
        return problem(why, STATUS_RUNNING,
                       "a post with the Idempotency-Key \"%s\" is at work",
                       problem_quote(text).text);
    in->post.key = text;
    digest_start(&in->post.entries, SLICE(""));
    return STATUS_OK;
}

enum status
ingest_feed(struct ingest *in, struct slice bytes, struct problem *why)
{
    enum status rc;

    if (in->post.key.size > 0)
        running_heard(&in->running);
    if (!in->gunzip)
        return reader_feed(in->reader, bytes, why);
    rc = gunzip_feed(in->gunzip, bytes, why);
    return rc ? rc : reserve(in, why);
}

bool
ingest_is_behind(const struct ingest *in)
{
    return in->gunzip && gunzip_is_behind(in->gunzip);
}

enum status
ingest_catch_up(struct ingest *in, struct problem *why)
{
    return in->gunzip ? gunzip_step(in->gunzip, why) : STATUS_OK;
}

/* Hands the post to the set of its name as it is now. */
static enum status
submit(struct ingest *in, struct problem *why)
{
    struct set *before = in->set;
    enum status rc;

    in->set = registry_make(in->registry, in->set_name);
    /* The removed one again: there was no memory to bury it (registry.c). */
    if (!in->set || in->set == before)
        return registry_full(why);
    in->post.set = in->set->log;
    rc = log_submit_later(registry_log(in->registry), &in->post);
    return rc ? problem(why, rc, "the broker is ending") : STATUS_OK;
}

static void
on_committed(struct post *post)
{
    struct ingest *in = list_entry(post, struct ingest, post);

    /* The set was removed while the post waited: it comes after the removal,
     * and begins a new one. This is the log thread, so it needs no wake: it
     * looks at its queue before it sleeps. */
    if (post->status == STATUS_GONE) {
        post->status = submit(in, &post->why);
        if (!post->status)
            return;
    }
    /* Before anybody is told: who then repeats it does not find it running. */
    running_end(registry_running(in->registry), &in->running);
    in->on_done(in, in->user);
}

enum status
ingest_end(struct ingest *in, void (*on_done)(struct ingest *, void *),
           void *user, struct problem *why)
{
    enum status rc = in->gunzip ? gunzip_end(in->gunzip, why) : STATUS_OK;

    if (!rc)
        rc = reader_end(in->reader, why);
    if (rc)
        return rc;
    gunzip_free(in->gunzip);
    in->gunzip = NULL;
    readers_give(registry_readers(in->registry), in->format, in->reader);
    in->reader = NULL;
    in->post.done = on_committed;
    in->on_done = on_done;
    in->user = user;
    running_whole(&in->running);
    return submit(in, why);
}

const struct post *
ingest_post(const struct ingest *in)
{
    return &in->post;
}

const struct set *
ingest_set(const struct ingest *in)
{
    return in->set;
}

void
ingest_free(struct ingest *in)
{
    if (!in)
        return;
    running_end(registry_running(in->registry), &in->running);
    gunzip_free(in->gunzip);
    readers_give(registry_readers(in->registry), in->format, in->reader);
    registry_release(in->registry, BUDGET_POSTS, in->reserved);
    buf_fini(&in->post.bytes);
    free(in->post.fragments);
    free(in);
}
