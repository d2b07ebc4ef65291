/*
 * relay_documents.c - takes in, keeps and reads the documents of a relay.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "broker/hub/inside.h"
#include "broker/hub/relay.h"
#include "proto/idempotency_key.h"

/* With each new document at most so many old ones go: more than one, so that
 * lower limits take effect soon after a start. */
#define DROP_AT_ONCE 100

/* The type becomes a header of our deliveries: it must not end the line. */
static enum status
check_type(struct slice type, struct problem *why)
{
    if (type.size == 0)
        return problem(why, STATUS_MALFORMED,
                       "no Content-Type: subscribers get the document with the "
                       "type that it came with");
    if (type.size > DOCUMENT_TYPE_MAX)
        return problem(why, STATUS_MALFORMED,
                       "Content-Type: is longer than %d bytes",
                       DOCUMENT_TYPE_MAX);
    for (size_t i = 0; i < type.size; i++)
        if (type.data[i] < ' ' || type.data[i] == 0x7f)
            return problem(why, STATUS_MALFORMED,
                           "Content-Type: \"%s\" has characters that no header "
                           "can have",
                           problem_quote(type).text);
    if (!memchr(type.data, '/', type.size))
        return problem(why, STATUS_MALFORMED,
                       "Content-Type: \"%s\" is no media type",
                       problem_quote(type).text);
    return STATUS_OK;
}

/* Sets *is: the document has come before. */
static enum status
is_repeat(struct relay *relay, const struct document_record *d, bool *is,
          struct problem *why)
{
    const struct documents_sum *sum = &relay->draft;
    struct digest other = sum->last_digest;
    enum status rc = STATUS_OK;

    *is = sum->last > sum->earliest;
    if (d->key.size > 0)
        rc = relay_db_find_key(relay->hub->relaying->db, relay->id, d->key, is,
                               &other, why);
    if (rc || !*is)
        return rc;
    *is = !memcmp(other.bytes, d->digest.bytes, DIGEST_SIZE);
    if (d->key.size > 0 && !*is)
        return problem(why, STATUS_INVALID,
                       "the Idempotency-Key \"%s\" was given to another "
                       "document",
                       problem_quote(d->key).text);
    return STATUS_OK;
}

static enum status
keep_within_limits(struct relay *relay, struct problem *why)
{
    const struct config *config = relay->hub->config;
    struct documents_sum *sum = &relay->draft;
    enum status rc = STATUS_OK;

    for (int i = 0; !rc && i < DROP_AT_ONCE; i++) {
        uint64_t n = sum->last - sum->earliest;

        if (n <= 1 ||
            (n <= config->relay_documents && sum->bytes <= config->relay_bytes))
            break;
        rc = relay_db_drop(relay->hub->relaying->db, relay->id, ++sum->earliest,
                           &sum->bytes, why);
    }
    return rc;
}

static enum status
keep_document(struct relay *relay, struct document_record *d,
              struct problem *why)
{
    struct documents_sum *sum = &relay->draft;
    enum status rc;

    d->relay = relay->id;
    d->seq = sum->last + 1;
    d->received_us = clock_now_us();
    if (!relay_touch(relay))
        return STATUS_OK; /* the end of the turn reports a failure to write */
    rc = relay_db_add_document(relay->hub->relaying->db, d, why);
    if (!rc) {
        sum->last = d->seq;
        sum->bytes += d->body.size;
        sum->last_us = d->received_us;
        sum->last_digest = d->digest;
        rc = keep_within_limits(relay, why);
    }
    if (rc)
        hub_db_fail(relay->hub->db, why);
    return rc;
}

enum status
relay_take(struct relay *relay, struct slice type, struct slice key,
           struct slice body, const struct digest *digest, struct problem *why)
{
    struct document_record d = {
        .type = slice_trimmed(type), .body = body, .digest = *digest};
    struct key read = {.size = 0};
    bool has_come = false;
    enum status rc;

    if (body.size == 0)
        return problem(why, STATUS_MALFORMED, "the document is empty");
    if (body.size > RELAY_DOCUMENT_MAX)
        return problem(why, STATUS_TOO_LARGE,
                       "a document of a relay has at most %zu bytes, not %zu",
                       RELAY_DOCUMENT_MAX, body.size);
    if (body.size > relay->hub->config->relay_bytes)
        return problem(why, STATUS_TOO_LARGE,
                       "a relay keeps at most %" PRIu64 " bytes, not %zu",
                       relay->hub->config->relay_bytes, body.size);
    rc = check_type(d.type, why);
    if (!rc && key.size > 0)
        rc = key_read(slice_trimmed(key), &read, why);
    if (rc)
        return rc;
    d.key = key_slice(&read);
    rc = is_repeat(relay, &d, &has_come, why);
    if (rc || has_come)
        return rc;
    return keep_document(relay, &d, why);
}

enum status
relay_read(struct relay *relay, uint64_t after, struct buf *to,
           const char **content_type, struct problem *why)
{
    struct relaying *all = relay->hub->relaying;
    enum status rc = STATUS_NOT_FOUND;

    if (after >= relay->last)
        return STATUS_OK;
    if (after >= relay->earliest && relay->state != RELAY_GONE)
        rc = relay_db_read(all->db, relay->id, after + 1, to, all->type, why);
    /* Or the turn at work drops it. */
    if (rc == STATUS_NOT_FOUND)
        return problem(why, STATUS_GONE,
                       "document %" PRIu64 " of the relay %s is no longer kept",
                       after + 1, relay->name);
    *content_type = all->type;
    return rc;
}
