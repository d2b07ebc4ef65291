#include "broker/bridge/inbox.h"

#include <time.h>

#include "base/thread.h"
#include "proto/input/event_read.h"
#include "proto/mqtt_topic.h"
#include "proto/number.h"
#include "proto/resourcesync/cloud_event.h"
#include "proto/utf8.h"

/* Messages */

/* A message is given up if the memory for posts was so often too small although
 * no other post was there. Most probably no later try would succeed: almost a
 * second passes between tries, and a message that can never be posted would
 * hold up all others for ever. */
#define TRIES_ALONE 5

#define CORRELATION "correlation:"

/* More than all the attributes that an event may have. */
#define ATTRIBUTES_BYTES_MAX (192 * 1024)

/* Guesses the media type from the first significant character: senders cannot
 * state it in MQTT 3.1.1, and many do not in MQTT 5. */
static struct slice
guess_type(struct slice payload)
{
    slice_skip_start(&payload, BYTE_ORDER_MARK);
    payload = slice_without_spaces(payload);
    if (slice_starts(payload, "<"))
        return SLICE("application/xml");
    if (slice_starts(payload, "{") || slice_starts(payload, "["))
        return event_read_is_event(payload) ? SLICE(EVENT_TYPE)
                                            : SLICE("application/json");
    return (struct slice){NULL, 0};
}

/* Makes a key of correlation data, which are bytes: in hexadecimal, or if that
 * is too long their digest. That begins with "sha-256:", so the two cannot be
 * mistaken for each other. */
static void
set_key(struct inbox_message *h, const struct mqtt_received *message)
{
    struct slice key = message->key, bytes = message->correlation;
    struct digest digest;
    struct buf to;

    buf_init_fixed(&to, h->key.text, KEY_SIZE_MAX);
    if (bytes.size > 0)
        BUF_ADD(&to, CORRELATION);
    if (bytes.size > (KEY_SIZE_MAX - to.size) / 2) {
        digest_sha256(&digest, bytes);
        buf_add_text(&to, digest_text(&digest).text);
    } else if (bytes.size > 0) {
        buf_add_hex(&to, (const uint8_t *)bytes.data, bytes.size);
    } else if (key.size > 0 && !key_is_valid(key)) {
        h->rc = problem(&h->why, STATUS_INVALID,
                        "\"%s\" is no key: that is 1 to %d visible characters "
                        "of ASCII",
                        problem_quote(key).text, KEY_SIZE_MAX);
    } else {
        buf_add_slice(&to, key);
    }
    h->key.size = to.size;
}

/* Gives the ingest the attributes of an event in binary mode. Passes over user
 * properties with names that no attribute has, as "idempotency-key". */
static enum status
add_attributes(const struct inbox_message *h, struct problem *why)
{
    struct slice rest = h->attributes;
    enum status rc =
        rest.size > 0
            ? event_read_attribute(h->ingest->reader, SLICE("datacontenttype"),
                                   h->data_type, why)
            : STATUS_OK;

    while (!rc && rest.size > 0) {
        struct slice name = slice_take(&rest, '\0');
        struct slice value = slice_take(&rest, '\0');

        if (name.size == 0 || cloud_event_is_name(name))
            rc = event_read_attribute(h->ingest->reader, name, value, why);
    }
    return rc;
}

/* Copies `from` to *at, and moves *at behind it. */
static struct slice
copy_slice(char **at, struct slice from)
{
    struct slice to = {*at, from.size};

    if (from.size > 0)
        memcpy(*at, from.data, from.size);
    *at += from.size;
    return to;
}

struct inbox_message *
inbox_message_new(const struct mqtt_received *message,
                  const struct bridge_input *input, uint64_t payload_max)
{
    struct slice topic = slice_of(message->topic);
    struct slice type = message->content_type, payload = message->payload;
    struct slice level = mqtt_filter_level(slice_of(input->filter), topic);
    struct slice set = slice_of(input->set);
    struct slice attributes = message->attributes;
    struct inbox_message *h;
    char *at;

    if (event_read_is_structured(type) ||
        attributes.size > ATTRIBUTES_BYTES_MAX)
        attributes.size = 0;
    if (type.size == 0 || (attributes.size == 0 && !format_of(type)))
        type = guess_type(payload);
    if (payload.size > payload_max)
        payload.size = 0;
    if (slice_is(set, "+"))
        set = level;
    h = memory_room(sizeof(*h) + topic.size + 1 + set.size + type.size +
                    attributes.size + payload.size);
    if (!h)
        return NULL;
    memset(h, 0, sizeof(*h));
    list_init(&h->node);
    at = (char *)(h + 1);
    h->topic = at;
    copy_slice(&at, topic);
    *at++ = '\0';
    h->set = copy_slice(&at, set);
    h->type = copy_slice(&at, type);
    h->attributes = copy_slice(&at, attributes);
    if (attributes.size > 0) {
        h->data_type = h->type;
        h->type = SLICE(EVENT_TYPE);
    }
    h->payload = copy_slice(&at, payload);
    if (message->payload.size > payload_max)
        h->payload = (struct slice){NULL, message->payload.size};
    h->is_repeat = message->is_repeat;
    set_key(h, message);
    if (message->attributes.size > ATTRIBUTES_BYTES_MAX)
        h->rc = problem(&h->why, STATUS_TOO_LARGE,
                        "an event has at most %d bytes of user properties",
                        ATTRIBUTES_BYTES_MAX);
    return h;
}

/* Frees the ingest, which the log has given back. */
static void
end_ingest(struct inbox_message *h)
{
    ingest_free(h->ingest);
    h->ingest = NULL;
}

void
inbox_message_free(struct inbox_message *h)
{
    end_ingest(h);
    free(h);
}

struct slice
inbox_message_key(const struct inbox_message *h)
{
    if (h->ingest && h->ingest->post.key.size > 0)
        return h->ingest->post.key;
    return key_slice(&h->key);
}

/* True if a later try may succeed after this failure: not after one that is the
 * message's own fault. */
static bool
is_passing(enum status rc)
{
    switch (rc) {
    case STATUS_OK:
    case STATUS_MALFORMED:
    case STATUS_INVALID:
    case STATUS_TOO_LARGE:
    case STATUS_UNSUPPORTED:
    case STATUS_NOT_FOUND:
    case STATUS_DENIED:
    case STATUS_FORBIDDEN:
    case STATUS_CONFLICT:
    case STATUS_REFUSED:
    case STATUS_DIFFERENT:
        return false;
    default: /* as STATUS_IO: of the log's disk */
        return true;
    }
}

static void
count_pending(struct inbox *r, int by)
{
    pthread_mutex_lock(&r->mutex);
    r->pending += (unsigned)by;
    if (r->pending == 0)
        pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

/* On the log thread; if there is nothing to commit, on the client's. */
static void
on_done(struct ingest *ingest, void *user)
{
    (void)ingest;
    count_pending(user, -1);
}

/* True if no other post is there, so a new one has all the room. */
static bool
is_alone(struct registry *registry)
{
    return clients_have_room(&registry->clients, CLIENT_POSTS,
                             registry->config->ingest_bytes);
}

/* Makes the ingest, and hands it to the log, in the order of r->line. Nothing
 * calls on_done after a failure. */
static enum status
begin_message(struct inbox *r, struct inbox_message *h)
{
    struct registry *registry = r->posts->registry;
    bool was_alone = is_alone(registry), was_made;
    enum status rc;

    if (h->rc && !is_passing(h->rc))
        return h->rc;
    h->why = (struct problem){""};
    if (h->type.size == 0)
        rc = problem(&h->why, STATUS_UNSUPPORTED,
                     "a message is XML, which begins with \"<\", or JSON, "
                     "with \"{\" or \"[\", unless its content type says that "
                     "it is another of %s",
                     formats_offered);
    else
        rc = ingest_begin(&h->ingest, r->posts, h->set, h->type,
                          h->payload.size, &h->why);
    if (!rc)
        rc = bridge_rights_check_post(r->rights, h->set, &h->why);
    if (!rc) {
        ingest_take_message(h->ingest, r->rights->config->as);
        h->ingest->post.line = &r->line;
    }
    if (!rc && h->key.size > 0)
        rc = ingest_set_key(h->ingest, &h->key, &h->why);
    if (!rc)
        rc = add_attributes(h, &h->why);
    if (!rc)
        rc = ingest_feed(h->ingest, h->payload, &h->why);
    if (!rc)
        rc = ingest_end(h->ingest, on_done, r, &h->why);
    h->rc = rc;
    if (!rc)
        return STATUS_OK;
    was_made = h->ingest != NULL; /* it failed while reading the payload */
    end_ingest(h);
    if (h->rc == STATUS_BUSY && was_made && was_alone && is_alone(registry) &&
        ++h->tries == TRIES_ALONE)
        h->rc = problem(&h->why, STATUS_TOO_LARGE,
                        "it takes more memory than all posts together may hold "
                        "(--ingest-bytes %" PRIu64 ")",
                        registry->config->ingest_bytes);
    return h->rc;
}

/* The inbox */

void
inbox_init(struct inbox *r, struct posts *posts, struct bridge_rights *rights)
{
    *r = (struct inbox){.posts = posts, .rights = rights};
    list_init(&r->messages);
    list_init(&r->settled);
    thread_init_changed(&r->changed);
    pthread_mutex_init(&r->mutex, NULL);
}

void
inbox_fini(struct inbox *r)
{
    inbox_forget(r);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
}

void
inbox_end(struct inbox *r)
{
    pthread_mutex_lock(&r->mutex);
    r->is_ending = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

void
inbox_add(struct inbox *r, struct inbox_message *h)
{
    list_append(&r->messages, &h->node);
    r->n++;
    r->bytes += h->payload.data ? h->payload.size : 0;
}

static void
count_out(struct inbox *r, const struct inbox_message *h)
{
    r->n--;
    r->bytes -= h->payload.data ? h->payload.size : 0;
}

void
inbox_forget(struct inbox *r)
{
    struct inbox_message *h;

    list_drain (h, &r->settled, node)
        inbox_message_free(h);
    list_drain (h, &r->messages, node) {
        count_out(r, h);
        inbox_message_free(h);
    }
}

size_t
inbox_pass(struct inbox *r, struct problem *why)
{
    struct inbox_message *h;
    size_t n = 0;

    /* Hands messages to the log, up to the first one that it cannot take
     * now. */
    list_walk (h, &r->messages, node) {
        count_pending(r, 1);
        if (!begin_message(r, h))
            continue;
        count_pending(r, -1);
        if (is_passing(h->rc))
            break;
    }
    log_wake(r->posts->registry->log);
    /* The log always answers soon: after one fsync, or a failed one. */
    pthread_mutex_lock(&r->mutex);
    while (r->pending > 0)
        pthread_cond_wait(&r->changed, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
    r->line.is_broken = false;
    list_walk (h, &r->messages, node) {
        if (h->ingest) {
            h->rc = h->ingest->post.status;
            h->why = h->ingest->post.why;
        }
        if (is_passing(h->rc)) {
            *why = h->why;
            break;
        }
        list_put(&r->settled, &h->node);
        count_out(r, h);
        n++;
    }
    list_walk (h, &r->messages, node)
        end_ingest(h);
    if (n > 0)
        r->pause_us = INBOX_PAUSE_US;
    return n;
}

struct inbox_message *
inbox_take(struct inbox *r)
{
    return list_take(&r->settled, offsetof(struct inbox_message, node));
}

void
inbox_begin(struct inbox *r, int64_t patience_us)
{
    r->pause_us = INBOX_PAUSE_US;
    r->until_us = clock_steady_us() + patience_us;
}

bool
inbox_pause(struct inbox *r)
{
    int64_t end_us = clock_steady_us() + r->pause_us;
    struct timespec end = {end_us / 1000000, end_us % 1000000 * 1000};
    bool goes_on;

    if (end_us > r->until_us)
        return false;
    r->pause_us = r->pause_us < INBOX_PAUSE_MAX_US / 2 ? 2 * r->pause_us
                                                       : INBOX_PAUSE_MAX_US;
    pthread_mutex_lock(&r->mutex);
    while (!r->is_ending &&
           pthread_cond_timedwait(&r->changed, &r->mutex, &end) != ETIMEDOUT)
        ;
    goes_on = !r->is_ending;
    pthread_mutex_unlock(&r->mutex);
    return goes_on;
}
