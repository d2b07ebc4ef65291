#include "broker/access/request_tickets.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "broker/access/tickets.h"
#include "broker/base/diag.h"
#include "proto/number.h"

#define STREAM   "tickets"
#define N_KEYS   2
#define KEY_SIZE 32

/* Of a ticket's text: the bytes before the HMAC, and where the end begins. */
#define SIGNED_SIZE (REQUEST_TICKET_SIZE - 1 - 2 * DIGEST_SIZE)
#define END_AT      (TOKEN_ID_SIZE + 1)

/* The value of a row of the stream; its key is "0" or "1". */
struct key_row {
    char version;    /* '1' */
    char made_us[8]; /* big-endian */
    char bytes[KEY_SIZE];
};

struct ticket_key {
    uint64_t n;      /* of its row; 0: there is none */
    int64_t made_us; /* wall clock */
    int64_t seen_us; /* by this broker; steady clock */
    char bytes[KEY_SIZE];
};

struct request_tickets {
    struct tokens *tokens;
    struct checkpoint_keys *checkpoints; /* NULL: others follow them */
    struct clients *clients;
    struct tickets *local; /* of this broker alone */
    struct tickets *used;  /* of the cluster */

    /* request_tickets_follow */
    uint64_t n; /* the end of the stream */
    struct ticket_key read[N_KEYS];
    bool has_made;
    int64_t made_us; /* the last key of this broker; steady clock */

    struct thread thread;        /* request_tickets_start */
    bool is_failing, has_no_key; /* the last time */

    pthread_rwlock_t lock; /* the rest */
    struct ticket_key keys[N_KEYS];
};

struct request_tickets *
request_tickets_new(struct tokens *tokens, struct clients *clients)
{
    struct request_tickets *t = memory_new(1, sizeof(*t));

    pthread_rwlock_init(&t->lock, NULL);
    t->tokens = tokens;
    t->clients = clients;
    t->local = tickets_new(&tickets_of_requests, clients);
    t->used = tickets_new(&tickets_that_were_used, clients);
    return t;
}

void
request_tickets_free(struct request_tickets *t)
{
    if (!t)
        return;
    thread_stop(&t->thread);
    tickets_free(t->local);
    tickets_free(t->used);
    pthread_rwlock_destroy(&t->lock);
    OPENSSL_cleanse(t, sizeof(*t));
    free(t);
}

/* Keys */

/* Also if another broker's clock was ahead when it made the key. */
static bool
is_older(const struct ticket_key *key, int64_t us, int64_t now_us)
{
    return now_us - key->made_us >= us || key->made_us - now_us >= us;
}

static bool
is_good(const struct ticket_key *key, int64_t now_us)
{
    return key->n > 0 && !is_older(key, 2 * TICKET_KEY_US, now_us);
}

static unsigned
newest_of(const struct ticket_key keys[N_KEYS])
{
    return keys[1].n > keys[0].n;
}

/* Writes the HMAC of a ticket in hexadecimal. */
static bool
sign(const struct ticket_key *key, const char text[SIGNED_SIZE],
     char to[2 * DIGEST_SIZE])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    if (!HMAC(EVP_sha256(), key->bytes, KEY_SIZE, (const unsigned char *)text,
              SIGNED_SIZE, mac, &size) ||
        size != DIGEST_SIZE)
        return false;
    hex_write(to, mac, DIGEST_SIZE);
    return true;
}

/* Tickets */

enum status
request_tickets_add(struct request_tickets *t, struct principal *principal,
                    struct client *client, char text[REQUEST_TICKET_SIZE],
                    struct problem *why)
{
    char id[TOKEN_ID_SIZE + 1], random[33], mac[2 * DIGEST_SIZE];
    int64_t now_us = clock_now_us();
    const struct ticket_key *newest, *former;
    struct ticket_key key; /* that signs */
    bool is_shared;

    pthread_rwlock_rdlock(&t->lock);
    newest = &t->keys[newest_of(t->keys)];
    former = &t->keys[!newest_of(t->keys)];
    key = clock_steady_us() - newest->seen_us < TICKET_KEY_NEW_US &&
                  is_good(former, now_us)
              ? *former
              : *newest;
    pthread_rwlock_unlock(&t->lock);
    is_shared = is_good(&key, now_us) &&
                tokens_id_of(t->tokens, principal, id) &&
                random_hex(random, sizeof(random));
    if (is_shared) {
        snprintf(text, REQUEST_TICKET_SIZE, "%s-%016" PRIx64 "-%s-", id,
                 (uint64_t)(now_us + TICKET_US), random);
        is_shared = sign(&key, text, mac);
    }
    if (is_shared)
        snprintf(text + SIGNED_SIZE, sizeof(mac) + 1, "%.*s", (int)sizeof(mac),
                 mac);
    OPENSSL_cleanse(&key, sizeof(key));
    return is_shared ? STATUS_OK
                     : tickets_add(t->local, principal, client, text, why);
}

struct principal *
request_tickets_take(struct request_tickets *t, struct slice text)
{
    int64_t now_us = clock_now_us(), end_us;
    char mac[2 * DIGEST_SIZE], digits[17] = "";
    bool is_signed = false;
    struct principal *found;
    struct client *owner;
    enum status rc;

    if (text.size != REQUEST_TICKET_SIZE - 1)
        return tickets_find(t->local, text, true, NULL);
    pthread_rwlock_rdlock(&t->lock);
    for (int i = 0; i < N_KEYS && !is_signed; i++)
        is_signed = is_good(&t->keys[i], now_us) &&
                    sign(&t->keys[i], text.data, mac) &&
                    !CRYPTO_memcmp(mac, text.data + SIGNED_SIZE, sizeof(mac));
    pthread_rwlock_unlock(&t->lock);
    if (!is_signed)
        return NULL;
    /* A broker has written it: it has a key of the cluster. */
    memcpy(digits, text.data + END_AT, sizeof(digits) - 1);
    end_us = (int64_t)strtoull(digits, NULL, 16);
    if (end_us <= now_us || end_us > now_us + TICKETS_USED_US)
        return NULL;
    found = tokens_by(t->tokens, TOKEN_BY_ID,
                      (struct slice){text.data, TOKEN_ID_SIZE}, now_us);
    if (!found)
        return NULL;
    owner = client_of_owner(t->clients, slice_of(found->name));
    rc = tickets_note(t->used, found, owner, text, NULL);
    client_unref(owner);
    if (!rc)
        return found;
    principal_unref(found);
    return NULL;
}

/* Following */

static enum status
read_row(const struct stream_row *row, uint64_t n, void *user,
         struct problem *why)
{
    struct request_tickets *t = user;
    struct ticket_key *key;
    struct key_row value;
    uint64_t made_us;

    (void)why;
    if (row->is_deleted || row->value.size != sizeof(value) ||
        row->key.size != 1 || (unsigned char)(row->key.data[0] - '0') >= N_KEYS)
        return STATUS_OK; /* of a newer program */
    memcpy(&value, row->value.data, sizeof(value));
    if (value.version != '1')
        return STATUS_OK;
    memcpy(&made_us, value.made_us, sizeof(made_us));
    key = &t->read[row->key.data[0] - '0'];
    key->n = n;
    key->made_us = (int64_t)be64toh(made_us);
    key->seen_us = clock_steady_us();
    memcpy(key->bytes, value.bytes, KEY_SIZE);
    OPENSSL_cleanse(&value, sizeof(value));
    return STATUS_OK;
}

/* Reads what is new. A journal that has lost rows is read from its beginning,
 * the next time. */
static enum status
read_keys(struct request_tickets *t, struct streams *streams,
          struct problem *why)
{
    enum status rc =
        streams->ops->read(streams, STREAM, &t->n, read_row, t, why);

    if (rc == STATUS_GONE || rc == STATUS_DIFFERENT) {
        t->n = 0;
        memset(t->read, 0, sizeof(t->read));
    } else if (rc) {
        return rc;
    }
    if (!memcmp(t->keys, t->read, sizeof(t->keys))) /* no other thread writes */
        return rc;
    pthread_rwlock_wrlock(&t->lock);
    memcpy(t->keys, t->read, sizeof(t->keys));
    pthread_rwlock_unlock(&t->lock);
    return rc;
}

static bool
is_due(const struct request_tickets *t)
{
    const struct ticket_key *newest = &t->read[newest_of(t->read)];

    return newest->n == 0 || is_older(newest, TICKET_KEY_US, clock_now_us());
}

enum status
request_tickets_follow(struct request_tickets *t, struct streams *streams,
                       struct problem *why)
{
    struct lease lease = {.name = STREAM};
    const struct leases leases = {{&lease}};
    bool has_paused =
        !t->has_made || clock_steady_us() - t->made_us >= TICKET_KEY_PAUSE_US;
    uint64_t id;
    enum status rc = read_keys(t, streams, why);

    if (rc || !is_due(t) || !has_paused)
        return rc;
    /* Makes a key, unless another broker has made or is making one. */
    rc = streams->ops->hold(streams, &lease, why);
    if (rc == STATUS_CONFLICT) /* so does a broker that only reads */
        return STATUS_OK;
    if (rc)
        return rc;
    rc = streams->ops->identify(streams, STREAM, &id, why);
    if (!rc)
        rc = read_keys(t, streams, why);
    if (!rc && is_due(t)) {
        /* Adds the key in the place of the older one. */
        struct key_row value = {.version = '1'};
        char name = (char)('0' + !newest_of(t->read));
        struct stream_row row = {
            .key = {&name, 1}, .value = {(const char *)&value, sizeof(value)}};
        uint64_t made_us = htobe64((uint64_t)clock_now_us()), n = t->n;

        memcpy(value.made_us, &made_us, sizeof(made_us));
        rc = RAND_bytes((unsigned char *)value.bytes, KEY_SIZE) == 1
                 ? streams->ops->append(streams, STREAM, &leases, &n, &row, 1,
                                        NULL, why)
                 : problem(why, STATUS_IO, "no random numbers for a key");
        OPENSSL_cleanse(&value, sizeof(value));
        t->has_made = true;
        t->made_us = clock_steady_us();
    }
    streams->ops->leave(streams, &lease);
    return rc ? rc : read_keys(t, streams, why);
}

static void
follow(struct request_tickets *t)
{
    struct problem why = {""};
    bool is_failing = tokens_follow(t->tokens, &why) != STATUS_OK;
    bool has_no_key = false;

    if (!is_failing) {
        struct streams *streams = tokens_lend_streams(t->tokens);

        has_no_key = request_tickets_follow(t, streams, &why) != STATUS_OK;
        if (!has_no_key && t->checkpoints)
            has_no_key = checkpoint_keys_follow(t->checkpoints, streams,
                                                &why) != STATUS_OK;
        tokens_return_streams(t->tokens);
    }
    diag_first_failure(
        &t->is_failing, is_failing, "cluster",
        "this broker does not see the changes of tokens at other brokers",
        why.text);
    diag_first_failure(
        &t->has_no_key, has_no_key, "cluster",
        "the tickets and the keys of checkpoints of this broker may be its own",
        why.text);
}

static void
run(struct thread *t)
{
    while (thread_wait(t, TICKET_FOLLOW_US))
        follow(t->user);
}

enum status
request_tickets_start(struct request_tickets *t,
                      struct checkpoint_keys *checkpoints, struct problem *why)
{
    t->checkpoints = checkpoints;
    follow(t);
    return thread_start(&t->thread, "tokens", run, t, why);
}
