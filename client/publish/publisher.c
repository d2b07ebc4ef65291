/*
 * publisher.c - takes changes one by one, and posts them in batches.
 *
 *     RESTING --add--> LINGERING --time, enough--> POSTING --200--> next, or
 *                          ^                        |    |          RESTING
 *                          |                        |    +--refused--+
 *                          |                        v                |
 *                          +------ time ------- PAUSING <------------+
 *
 * One post at a time: so the order stays. The spool seals it before it is sent
 * (spool.h has the argument); it is repeated with its key until the broker
 * answers. If the broker refuses one entry, the publisher posts the others.
 * If it refuses for other reasons (401, 404), the post stays, and is repeated
 * after the longest pause: somebody may mend that there.
 */

#include "client/lib/client.h"
#include "client/lib/fetch.h"
#include "client/lib/pause.h"
#include "client/lib/set_url.h"
#include "client/publish/spool.h"
#include "proto/json/json_parse.h"

#define BATCH_CHANGES 1000
#define BATCH_BYTES   ((size_t)1 << 20)
#define QUEUE_BYTES   ((size_t)16 << 20)
#define SPOOL_BYTES   ((size_t)1 << 30)

struct td_publisher {
    struct retired retired; /* the first */
    struct td_client *client;
    struct td_publisher_options options;
    char url[SET_URL_MAX + 1]; /* of the set */
    struct running running;

    enum { RESTING, LINGERING, POSTING, PAUSING } state;
    struct spool spool;
    struct spool_post post; /* n 0: none is sealed, or none was read */
    struct slice body;      /* of `post`, for fetch */
    size_t batch_changes;   /* smaller after 413 */
    struct fetch *fetch;    /* POSTING */
    struct timer timer;
    unsigned pause_ms;
    struct flush *flush; /* td_publisher_flush waits; NULL: no */
};

/* td_publisher_flush, while it waits. */
struct flush {
    bool is_over;
    struct problem why; /* rc: the post is refused, and that will stay so */
};

/* Ends td_publisher_flush: all is durable, or (why) refused. */
static void
end_flush(struct td_publisher *p, const struct problem *why)
{
    if (p->flush && why)
        p->flush->why = *why;
    if (p->flush)
        p->flush->is_over = true;
    p->flush = NULL;
}

/* Nothing is left to post: td_run need not wait for the publisher. */
static void
rest_after_post(struct td_publisher *p)
{
    if (p->state == RESTING)
        return;
    p->state = RESTING;
    timer_stop(&p->timer);
    client_idles(p->client, &p->running, true);
    end_flush(p, NULL);
}

static void
wait_for(struct td_publisher *p, int state, unsigned ms)
{
    p->state = state;
    timer_start(&p->timer, ms);
}

/* True if there is enough for a post. */
static bool
is_enough(const struct td_publisher *p)
{
    return p->spool.n_changes >= p->batch_changes ||
           p->spool.n_bytes >= p->options.batch_bytes;
}

/* Tries again later; `asked_s`: the pause that the broker asked for. The
 * publisher may be over afterwards. */
static void
pause_for(struct td_publisher *p, const struct problem *why, unsigned asked_s)
{
    unsigned ms = pause_asked(&p->pause_ms, PAUSE_LONGEST, asked_s);

    wait_for(p, PAUSING, ms);
    if (p->options.on_trouble)
        p->options.on_trouble(why->text, ms, p->options.user);
}

/* Ends a flush, and tries again after the longest pause: somebody has to mend
 * this. */
static void
stand_still(struct td_publisher *p, const struct problem *why)
{
    end_flush(p, why);
    pause_for(p, why, PAUSE_LONGEST / 1000);
}

static void
forget_post(struct td_publisher *p)
{
    buf_fini(&p->post.body);
    p->post.n = 0;
}

/* Begins the next post after `linger_ms`, or sooner, if there is something to
 * post. */
static void
go_on(struct td_publisher *p, unsigned linger_ms)
{
    p->pause_ms = PAUSE_FIRST;
    if (p->spool.n_changes == 0)
        rest_after_post(p);
    else
        wait_for(p, LINGERING, is_enough(p) ? 0 : linger_ms);
}

/* Answers */

/* Drops entry `n` of the post, which the broker refused. Reports it before it
 * forgets it: a crash in between repeats the report. */
static void
drop_entry(struct td_publisher *p, uint64_t n, const struct problem *refusal)
{
    struct spool_entry entry = {.text = NULL};
    struct problem why = {""};
    bool is_here;

    if (spool_change(&p->spool, &p->post, n, &entry, &why)) {
        stand_still(p, &why);
        return;
    }
    p->options.on_refused(entry.number, entry.text, refusal->text,
                          p->options.user);
    is_here = !p->retired.is_over;
    if (is_here && spool_drop(&p->spool, &entry, &why)) {
        stand_still(p, &why);
    } else if (is_here) {
        forget_post(p);
        go_on(p, 0);
    }
    free(entry.text);
}

/* Handles statuses that judge the post. The broker kept nothing of it, of an
 * earlier attempt neither: it would have repeated its first answer. */
static void
end_refused(struct td_publisher *p, const struct fetch_answer *answer,
            struct problem *why)
{
    unsigned status = answer->status;
    bool is_content = status == 400 || status == 413 || status == 422;
    uint64_t entry = 0; /* the faulty one, from 1 */
    struct json_fields_member member = JSON_NUMBER("entry", &entry);
    bool is_large;

    if (json_fields_read(buf_slice(&answer->body), &member, 1, NULL))
        entry = 0;
    is_large = status == 413 && entry == 0 && p->post.n > 1;
    if (is_large) /* for the broker: makes a smaller one */
        p->batch_changes = p->post.n / 2;
    if (is_large && !spool_unseal(&p->spool, why)) {
        forget_post(p);
        wait_for(p, LINGERING, 0);
    } else if (!is_large && is_content && p->options.on_refused &&
               (p->post.n == 1 || (entry > 0 && entry <= p->post.n))) {
        drop_entry(p, p->post.n == 1 ? 1 : entry, why);
    } else {
        stand_still(p, why);
    }
}

static void
on_end(struct fetch_answer *answer, const struct problem *result, void *user)
{
    struct td_publisher *p = user;
    struct problem why = *result;
    struct td_receipt receipt;
    enum status rc = result->rc;

    p->fetch = NULL;
    if (!rc)
        rc = post_outcome(answer, &receipt, &why);
    if (!rc) {
        uint64_t last = p->post.last;

        problem_clear(&why);
        /* If the spool fails, the post is repeated, and gets the same receipt.
         */
        if (spool_posted(&p->spool, &p->post, &why)) {
            stand_still(p, &why);
            return;
        }
        forget_post(p);
        if (p->options.on_durable)
            p->options.on_durable(last, &receipt, p->options.user);
        if (!p->retired.is_over)
            go_on(p, p->options.linger_ms);
    } else if (rc == STATUS_REFUSED || rc == STATUS_GONE)
        end_refused(p, answer, &why);
    else
        pause_for(p, &why, answer->retry_after_s);
}

/* Sends the sealed post, or seals one. */
static void
on_time(void *user)
{
    struct td_publisher *p = user;
    char target[SET_URL_MAX + sizeof("/changes")];
    char key[POST_KEY_LINE];
    const char *headers[] = {"Content-Type: application/json",
                             "Accept: application/json", key, NULL};
    const struct fetch_request request = {.url = target,
                                          .headers = headers,
                                          .body = &p->body,
                                          .max_bytes = POST_ANSWER_MAX,
                                          .is_own = true};
    struct problem why = PROBLEM_MEMORY;

    if (p->post.n == 0 && spool_seal(&p->spool, p->batch_changes,
                                     p->options.batch_bytes, &p->post, &why)) {
        forget_post(p);
        stand_still(p, &why);
        return;
    }
    snprintf(target, sizeof(target), "%s/changes", p->url);
    post_key_line(key, slice_of(p->post.key));
    p->body = buf_slice(&p->post.body);
    p->fetch = fetch_start(p->client, &request, NULL, on_end, p);
    if (p->fetch)
        p->state = POSTING;
    else
        stand_still(p, &why);
}

/* Makes sure that a post begins after `ms`, or sooner. */
static void
wake_publisher(struct td_publisher *p, unsigned ms)
{
    if (p->state != RESTING)
        return;
    client_idles(p->client, &p->running, false);
    wait_for(p, LINGERING, ms);
}

/* The public interface */

static void
free_publisher(void *owner)
{
    struct td_publisher *p = owner;

    client_leaves(p->client, &p->running);
    end_flush(p, NULL);
    fetch_free(p->fetch);
    timer_stop(&p->timer);
    forget_post(p);
    db_close(&p->spool.db);
    handle_loop_retire(p->client->loop, &p->retired, NULL);
}

static size_t
or_default(size_t given, size_t other)
{
    return given ? given : other;
}

enum td_status
td_publisher_open(struct td_client *client, const char *set_url,
                  const struct td_publisher_options *options,
                  struct td_publisher **publisher)
{
    struct td_publisher *p = calloc(1, sizeof(*p));
    struct problem why = {""};
    enum status rc;

    *publisher = NULL;
    client_begin(client);
    if (!p)
        return client_end(client, problem_memory(&client->problem));
    p->client = client;
    p->running =
        (struct running){.close = free_publisher, .owner = p, .is_idle = true};
    client_runs(client, &p->running);
    timer_init(&p->timer, client->loop, on_time, p);
    if (options)
        p->options = *options;
    p->batch_changes = or_default(p->options.batch_changes, BATCH_CHANGES);
    if (p->batch_changes > 50000)
        p->batch_changes = 50000; /* a post has no more */
    p->options.batch_bytes = or_default(p->options.batch_bytes, BATCH_BYTES);
    p->pause_ms = PAUSE_FIRST;

    rc = set_url_read(client, set_url, p->url);
    if (!rc) {
        rc = spool_open(&p->spool, p->options.spool, p->url,
                        p->options.spool
                            ? or_default(p->options.spool_bytes, SPOOL_BYTES)
                            : or_default(p->options.queue_bytes, QUEUE_BYTES),
                        &why);
        if (rc)
            client_take_problem(client, &why);
    }
    p->options.spool = NULL; /* the caller's */
    if (!rc && p->spool.n_changes > 0)
        wake_publisher(p, 0);
    if (rc) {
        free_publisher(p);
        return client_end(client, rc);
    }
    *publisher = p;
    return client_end(client, STATUS_OK);
}

/* Checks that the change is one object: else it could break the post. */
static enum status
read_change(struct td_publisher *p, const struct td_change_text *from,
            struct slice *change)
{
    struct problem why = {"it is longer than a post may be"};
    enum status rc = STATUS_INVALID;

    /* A document may have a byte order mark and space around it, an entry of a
     * post may not. */
    *change = (struct slice){from->text, from->size};
    if (slice_starts(*change, "\xef\xbb\xbf"))
        slice_skip(change, 3);
    *change = slice_without_spaces(*change);
    if (change->size <= p->options.batch_bytes)
        rc = slice_starts(*change, "{")
                 ? json_parse_text(*change, NULL, NULL, &why)
                 : problem(&why, rc, "it is no JSON object");
    if (rc == STATUS_MEMORY)
        return problem_memory(&p->client->problem);
    return rc ? client_fail(p->client, STATUS_INVALID, "%s", why.text)
              : STATUS_OK;
}

enum td_status
td_publisher_add_all(struct td_publisher *publisher,
                     const struct td_change_text *changes, size_t n,
                     const char *note, uint64_t *number)
{
    struct td_client *client = publisher->client;
    struct slice one;
    struct slice *texts = n > 1 ? calloc(n, sizeof(*texts)) : &one;
    struct problem why = {""};
    enum status rc = STATUS_OK;

    client_begin(client);
    if (!texts)
        rc = problem_memory(&client->problem);
    for (size_t i = 0; i < n && !rc; i++)
        rc = read_change(publisher, &changes[i], &texts[i]);
    if (!rc && n > 0)
        wake_publisher(publisher, publisher->options.linger_ms);
    if (!rc && spool_add(&publisher->spool, texts, n, note, &why)) {
        if (publisher->spool.n_changes == 0)
            rest_after_post(publisher);
        rc = client_take_problem(client, &why);
    }
    if (!rc && number)
        *number = publisher->spool.last;
    if (!rc && publisher->state == LINGERING && is_enough(publisher))
        wait_for(publisher, LINGERING, 0);
    if (texts != &one)
        free(texts);
    return client_end(client, rc);
}

enum td_status
td_publisher_add(struct td_publisher *publisher, const char *change,
                 size_t size, uint64_t *number)
{
    const struct td_change_text one = {change, size};

    return td_publisher_add_all(publisher, &one, 1, NULL, number);
}

const char *
td_publisher_note(const struct td_publisher *publisher)
{
    return publisher->spool.note;
}

uint64_t
td_publisher_waiting(const struct td_publisher *publisher, uint64_t *bytes)
{
    if (bytes)
        *bytes = publisher->spool.n_bytes;
    return publisher->spool.n_changes;
}

uint64_t
td_publisher_added(const struct td_publisher *publisher)
{
    return publisher->spool.last;
}

uint64_t
td_publisher_durable(const struct td_publisher *publisher)
{
    return publisher->spool.durable;
}

enum td_status
td_publisher_flush(struct td_publisher *publisher)
{
    struct td_client *client = publisher->client;
    struct flush flush = {.is_over = publisher->state == RESTING};
    struct flush *outer = publisher->flush; /* that this is called from */
    enum status rc;

    client_begin(client);
    if (publisher->state == LINGERING || publisher->state == PAUSING)
        wait_for(publisher, publisher->state, 0);
    if (!flush.is_over)
        publisher->flush = &flush;
    rc = client_until(client, &flush.is_over, &flush.why);
    if (!flush.is_over) /* else a callback may have closed it */
        publisher->flush = outer;
    return client_end(client, rc);
}

void
td_publisher_close(struct td_publisher *publisher)
{
    if (publisher)
        free_publisher(publisher);
}
