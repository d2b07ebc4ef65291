/*
 * publish.c - posts changes, each with a key of its own.
 *
 *     post --+--> answer ------------------------> returned
 *      ^     +--> lost, or "come again" --+--> returned: no time is left
 *      |                                  |
 *      +-------------- pause <------------+
 *
 * The broker keeps one post per key, and answers a repeat as it answered the
 * first: so a post whose answer was lost is repeated until there is one.
 */
#include "client/publish/publish.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "client/lib/pause.h"
#include "client/lib/set_url.h"
#include "proto/ascii.h"

/* All posts */

void
post_key_line(char line[POST_KEY_LINE], struct slice key)
{
    static const char name[] = "Idempotency-Key: ";
    size_t size = sizeof(name) - 1;

    memcpy(line, name, size);
    size += key_write(line + size, key);
    line[size] = '\0';
}

bool
post_answer(struct slice body, struct json_fields_member *members, size_t n,
            size_t n_needed)
{
    bool is_good = !json_fields_read(body, members, n, NULL);

    for (size_t i = 0; i < n_needed; i++)
        is_good = is_good && members[i].is_there;
    return is_good;
}

enum status
post_outcome(const struct fetch_answer *answer, struct td_receipt *receipt,
             struct problem *why)
{
    struct json_fields_member members[] = {
        JSON_NUMBER("first", &receipt->first),
        JSON_NUMBER("last", &receipt->last),
        JSON_TEXT("position", receipt->position),
        JSON_TEXT("datetime", receipt->datetime),
    };
    enum status rc;

    receipt->is_repeat = 0;
    if (answer->status == 200)
        return post_answer(buf_slice(&answer->body), members, 4, 4)
                   ? STATUS_OK
                   : problem(why, STATUS_MALFORMED,
                             "200, but the answer is no receipt of a post");
    rc = fetch_refused(why, answer);
    return answer->status == 409 && answer->retry_after_s
               ? STATUS_UNREACHABLE /* the same post is at work */
               : rc;
}

/* Longer than a broker takes to start again, or to release the key of a dead
 * connection (10 s); and less than it keeps a key (24 h). */
#define RETRY_DEFAULT_MS 60000
#define RETRY_MOST_MS    (12 * 3600 * 1000)

/* Most milliseconds between two attempts, unless the broker asks for more. */
#define PAUSE_LAST 5000

struct posting {
    struct td_client *client;
    const struct td_publish_options *options;
    struct fetch_request request;
    struct td_receipt *receipt;
    bool has_key;
    bool is_open; /* the broker may keep, or have kept, a post of this key */
    bool is_lost; /* an answer to this post was lost */
    unsigned pause_ms;
    int64_t end_ms; /* no attempt begins later */
};

/* The line "Idempotency-Key: ..."; *has_key: there is one. */
static enum status
write_key(struct td_client *client, const char *given, bool *has_key,
          char line[POST_KEY_LINE])
{
    char random[POST_KEY_SIZE];
    struct slice key = slice_of(given ? given : random);

    *has_key = !given || given[0];
    if (!*has_key)
        return STATUS_OK;
    if (!given) {
        if (!random_hex(random, sizeof(random)))
            return client_fail(client, STATUS_MEMORY, "no random numbers");
        key = slice_of(random);
    }
    if (!key_is_valid(key))
        return client_fail(client, STATUS_INVALID,
                           "a key is 1 to %d visible ASCII characters",
                           KEY_SIZE_MAX);
    post_key_line(line, key);
    return STATUS_OK;
}

/* Makes one attempt. *pause_ms: another one may help, after so long; 0: not. */
static enum status
attempt_post(struct posting *p, unsigned *pause_ms)
{
    struct fetch_answer answer;
    enum status rc = fetch_run(p->client, &p->request, NULL, NULL, &answer);
    bool is_lost = rc == STATUS_UNREACHABLE && answer.is_sent;

    *pause_ms = 0;
    if (!rc) {
        rc = post_outcome(&answer, p->receipt, &p->client->problem);
        /* If an answer was lost, the first post is probably of this call. */
        p->receipt->is_repeat = answer.is_replayed && !p->is_lost;
        /* A proxy does not know if the broker kept the post. */
        is_lost = rc == STATUS_UNREACHABLE &&
                  (answer.status == 409 || answer.status == 502 ||
                   answer.status == 504);
        if (rc == STATUS_UNREACHABLE)
            *pause_ms = answer.retry_after_s * 1000;
    }
    p->is_open |= is_lost;
    p->is_lost |= is_lost && answer.status != 409; /* another's is at work */

    /* If no answer was lost, an unreachable broker is reported at once. */
    if (rc == STATUS_UNREACHABLE && p->has_key && p->is_open && !*pause_ms)
        *pause_ms = 1;
    buf_fini(&answer.body);
    return rc;
}

static enum status
post_all(struct posting *p)
{
    struct td_client *client = p->client;

    for (;;) {
        unsigned asked_ms, ms;
        enum status rc = attempt_post(p, &asked_ms);

        if (!asked_ms || (p->is_open && !p->has_key))
            return rc;
        ms = pause_take(&p->pause_ms, PAUSE_LAST);
        if (ms < asked_ms)
            ms = asked_ms;
        if (clock_steady_ms() + ms > p->end_ms)
            return rc;
        if (p->options->on_trouble)
            p->options->on_trouble(client->problem.text, ms, p->options->user);
        if (client_wait(client, ms, NULL))
            return STATUS_STOPPED;
    }
}

/* Milliseconds after which no attempt begins. */
static int64_t
retry_ms(int given)
{
    if (given < 0)
        return 0;
    if (given > RETRY_MOST_MS)
        return RETRY_MOST_MS;
    return given ? given : RETRY_DEFAULT_MS;
}

enum td_status
td_publish(struct td_client *client, const char *set_url, const char *type,
           const void *body, size_t size,
           const struct td_publish_options *options, struct td_receipt *receipt)
{
    static const struct td_publish_options defaults = {.key = NULL};
    char url[SET_URL_MAX + 1];
    struct slice bytes = {body, size};
    char target[SET_URL_MAX + sizeof("/changes")];
    char content_type[256];
    char key[POST_KEY_LINE];
    const char *headers[] = {content_type, "Accept: application/json", NULL,
                             NULL};
    struct td_receipt unwanted;
    struct posting p = {
        .client = client,
        .options = options ? options : &defaults,
        .request = {target, headers, &bytes, POST_ANSWER_MAX, .is_own = true},
        .receipt = receipt ? receipt : &unwanted,
        .pause_ms = PAUSE_FIRST,
    };
    enum status rc;

    client_begin(client);
    rc = set_url_read(client, set_url, url);
    if (!rc && (!type || strlen(type) > 200 || !ascii_is_line(type)))
        rc = client_fail(client, STATUS_INVALID, "not a media type");
    if (!rc)
        rc = write_key(client, p.options->key, &p.has_key, key);
    if (rc)
        return client_end(client, rc);
    snprintf(target, sizeof(target), "%s/changes", url);
    snprintf(content_type, sizeof(content_type), "Content-Type: %s", type);
    if (p.has_key)
        headers[2] = key;
    p.end_ms = clock_steady_ms() + retry_ms(p.options->retry_ms);

    rc = post_all(&p);
    /* The refusal is of the last attempt; an earlier one may have been kept. */
    if (p.is_open && (rc == STATUS_UNREACHABLE || rc == STATUS_REFUSED ||
                      rc == STATUS_GONE)) {
        char why[sizeof(client->problem.text)];

        snprintf(why, sizeof(why), "%s", client->problem.text);
        client_fail(client, rc,
                    "%.900s; the post may or may not have been kept", why);
    }
    return client_end(client, rc);
}
