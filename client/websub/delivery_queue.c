#include "client/websub/delivery_queue.h"

#include <openssl/crypto.h>

#include "base/array.h"
#include "proto/http/webhook_signature.h"
#include "proto/number.h"
#include "proto/resourcesync/digest.h"

/* W-107 */
#define TOLERANCE_S 300

/* Deliveries to remember: the ring begins small, and grows as long as all of
 * its entries are young enough for a repeat. */
#define REMEMBERED_MAX 16384
#define REMEMBERED_S   (2 * TOLERANCE_S)

struct remembered {
    struct digest id, body;
    bool has_id;
    bool is_paired;  /* another subscription delivered it, too */
    unsigned number; /* of the subscription that delivered it */
    int64_t at_s;
};

struct delivery {
    struct list node;
    char *topic, *type, *id;
    struct buf body;
};

static void
delivery_free(struct delivery *delivery)
{
    buf_fini(&delivery->body);
    free(delivery->topic);
    free(delivery->type);
    free(delivery->id);
    free(delivery);
}

/* Repeats */

static bool
is_known(struct delivery_queue *d, const struct remembered *new,
         const struct delivery_key *key)
{
    for (size_t i = 0; i < d->n_remembered; i++) {
        struct remembered *old = &d->ring[i];

        if (new->has_id && old->has_id &&
            !memcmp(&new->id, &old->id, sizeof(new->id)))
            return true;
        if (new->number == old->number || old->is_paired ||
            old->at_s < key->since_s || new->at_s - old->at_s > REMEMBERED_S ||
            memcmp(&new->body, &old->body, sizeof(new->body)))
            continue;
        old->is_paired = true;
        return true;
    }
    return false;
}

/* Signatures */

/* True if one of the signatures, separated by blanks, and its time are right.
 */
static bool
is_right_webhook(const struct signer *signer, const struct arrival *arrival,
                 int64_t now_s)
{
    struct slice rest = arrival->webhook_signature;
    char right[WEBHOOK_SIGNATURE_SIZE];
    uint64_t then_s;

    if (!arrival->webhook_id.size ||
        !number_read(arrival->webhook_timestamp, &then_s) ||
        then_s > INT64_MAX / 2 || (int64_t)then_s < now_s - TOLERANCE_S ||
        (int64_t)then_s > now_s + TOLERANCE_S)
        return false;
    if (signer_sign_webhook(signer, arrival->webhook_id, (int64_t)then_s,
                            buf_slice(&arrival->body), right))
        return false;
    while (rest.size > 0) {
        struct slice one = slice_take(&rest, ' ');

        if (one.size == strlen(right) &&
            !CRYPTO_memcmp(one.data, right, one.size))
            return true;
    }
    return false;
}

/* 0: the signature is right; else the status of the answer. */
static unsigned
judge_signature(struct delivery_queue *d, struct delivery_key *key,
                const struct arrival *arrival, int64_t now_s)
{
    bool has_webhooks = arrival->webhook_signature.size > 0;
    struct signer *signer;
    unsigned status = 0;

    if (!key->secret)
        return 0;
    if (!arrival->signature.size) {
        d->counts.unsigned_++;
        return 403;
    }
    signer = signer_new(SIGNATURE_SHA256, slice_of(key->secret));
    if (!signer)
        return 503;
    if (signature_check(arrival->signature, slice_of(key->secret),
                        buf_slice(&arrival->body)))
        status = 202;
    else if (signer_is_webhook(signer) && (has_webhooks || key->has_webhooks) &&
             !is_right_webhook(signer, arrival, now_s))
        status = 202;
    else
        key->has_webhooks = has_webhooks || key->has_webhooks;
    signer_free(signer);
    d->counts.wrong += status == 202;
    return status;
}

/* Handing over */

static void
on_hand_over(void *user)
{
    struct delivery_queue *d = user;
    struct delivery *delivery;

    while (!d->is_over &&
           (delivery = list_take(&d->queue, offsetof(struct delivery, node)))) {
        struct td_delivery report = {
            .topic = delivery->topic,
            .type = delivery->type,
            .body = delivery->body.data ? delivery->body.data : "",
            .size = delivery->body.size,
            .id = delivery->id,
        };

        d->counts.delivered++;
        d->options->on_delivery(&report, d->options->user);
        delivery_free(delivery);
    }
}

void
delivery_queue_take(struct delivery_queue *d, struct delivery_key *key,
                    const char *topic, int64_t now_s, struct arrival *arrival,
                    struct reply *reply)
{
    struct slice id = arrival->webhook_id.size > 0 ? arrival->webhook_id
                                                   : arrival->delivery_id;
    struct remembered new = {
        .has_id = id.size > 0, .number = key->number, .at_s = now_s};
    struct delivery *delivery;
    bool is_full;

    reply->status = judge_signature(d, key, arrival, now_s);
    if (reply->status)
        return;
    reply->status = 202;
    digest_sha256(&new.id, id);
    digest_sha256(&new.body, buf_slice(&arrival->body));
    if (is_known(d, &new, key)) {
        d->counts.repeated++;
        return;
    }
    reply->status = 503;
    delivery = calloc(1, sizeof(*delivery));
    if (!delivery)
        return;
    delivery->topic = strdup(topic);
    delivery->type = slice_dup(arrival->type);
    delivery->id = slice_dup(id);
    delivery->body = arrival->body;
    buf_init(&arrival->body, 0);
    if (!delivery->topic || !delivery->type || !delivery->id) {
        delivery_free(delivery);
        return;
    }
    reply->status = 202;
    list_append(&d->queue, &delivery->node);
    timer_start(&d->hand_over, 0);
    /* Remembers it. */
    is_full = d->n_remembered == d->ring_size;
    if (is_full && d->ring_size < REMEMBERED_MAX &&
        (d->ring_size == 0 || now_s - d->ring[d->at].at_s < REMEMBERED_S) &&
        ONE_MORE(d->ring, &d->ring_size, d->n_remembered)) {
        /* The full ring had its oldest entry at d->at, which now is in the
         * middle. Order only matters for overwriting: it need not be mended. */
        d->at = d->n_remembered;
        is_full = false;
    }
    if (d->ring_size == 0)
        return; /* no memory: it will not know a repeat */
    d->ring[d->at] = new;
    d->at = (d->at + 1) % d->ring_size;
    if (!is_full)
        d->n_remembered++;
}

void
delivery_queue_init(struct delivery_queue *d, struct handle_loop *loop,
                    const struct td_subscriber_options *options)
{
    d->options = options;
    list_init(&d->queue);
    timer_init(&d->hand_over, loop, on_hand_over, d);
}

void
delivery_queue_fini(struct delivery_queue *d)
{
    struct delivery *delivery;

    d->is_over = true;
    timer_stop(&d->hand_over);
    list_drain (delivery, &d->queue, node)
        delivery_free(delivery);
    free(d->ring);
}
