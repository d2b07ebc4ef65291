#include "broker/hub/hub_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/clock.h"
#include "broker/access/jose_text.h"
#include "broker/base/diag.h"
#include "proto/number.h"
#include "proto/resourcesync/json.h"

const struct json_shape hub_key_shape = {
    "HubKey", "A public key of the hub, as a JWK",
    "kty 'OKP', crv 'Ed25519', x string, use 'sig', alg 'EdDSA', kid string, "
    "whpk string (the key as Standard Webhooks write it), created time, ends? "
    "time (of a former key)"};

const struct json_shape hub_keys_shape = {
    "HubKeys", "The JWK set of the hub, the newest key first", "keys [HubKey]"};

/* What a thumbprint is made of, and a key in JSON begins with. */
#define KEY_START "{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"%s\""

/* Text of a public key in base64url and base64. */
#define KEY_TEXT_SIZE 45

static bool
has_ended(const struct hub_key *key, int64_t now_us)
{
    return key->ends_us != 0 && key->ends_us <= now_us;
}

static void
free_list(struct hub_key_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        signing_key_free(list->all[i].pair);
    list->n = 0;
}

/* Makes a pair of a secret, and the pair's name. False: no memory. */
static bool
make_key(struct hub_key *key, const unsigned char *secret)
{
    char text[128], x[KEY_TEXT_SIZE];
    struct digest thumbprint;

    key->pair = signing_key_new(secret);
    if (!key->pair)
        return false;
    jose_base64url_write(
        x, (struct slice){(const char *)signing_key_public(key->pair),
                          SIGNING_KEY_SIZE});
    snprintf(text, sizeof(text), KEY_START "}", x);
    digest_sha256(&thumbprint, slice_of(text));
    jose_base64url_write(
        key->id, (struct slice){(const char *)thumbprint.bytes, DIGEST_SIZE});
    return true;
}

/* Reads the keys as this turn has them. */
static enum status
read_keys(struct hub_key_list *list, struct hub_db *db, struct problem *why)
{
    struct db_rows rows = DB_SELECT(&db->db, "read it", why,
                                    "SELECT secret, created, ends FROM keys"
                                    " ORDER BY ends = 0 DESC, ends DESC");
    struct hub_key key = {.pair = NULL};
    struct slice secret;
    enum status rc;

    list->n = 0;
    while (DB_NEXT(&rows, &secret, &key.created_us, &key.ends_us)) {
        if (list->n == HUB_KEYS_MAX || secret.size != SIGNING_KEY_SIZE)
            rows.rc = problem(why, STATUS_IO, "the hub's keys are damaged");
        else if (!make_key(&key, (const unsigned char *)secret.data))
            rows.rc = problem_memory(why);
        else
            list->all[list->n++] = key;
    }
    rc = db_rows_end(&rows);
    if (rc)
        free_list(list);
    return rc;
}

/* Writes a new key. */
static enum status
add_key(struct hub_keys *keys, int64_t now_us, struct problem *why)
{
    unsigned char secret[SIGNING_KEY_SIZE];
    struct hub_key key;

    if (!signing_key_make(secret) || !make_key(&key, secret))
        return problem(why, STATUS_BUSY, "the hub cannot make a key");
    HUB_DB_WRITE(keys->db,
                 "INSERT INTO keys(id, secret, created, ends) VALUES(?,?,?,0)",
                 key.id, db_bytes(secret, sizeof(secret)), now_us);
    OPENSSL_cleanse(secret, sizeof(secret));
    signing_key_free(key.pair);
    return STATUS_OK;
}

static enum status
read_again(struct hub_keys *keys, struct problem *why)
{
    struct hub_key_list list;
    enum status rc = read_keys(&list, keys->db, why);

    if (!rc) {
        free_list(&keys->now);
        keys->now = list;
    }
    return rc;
}

void
hub_keys_read(struct hub_keys *keys)
{
    struct problem why = {""};

    if (read_again(keys, &why))
        diag(DIAG_ERROR, "hub", "the hub goes on with its former keys: %s",
             why.text);
}

/* The end of a turn: its changes count when it is kept. */
static void
on_ended(struct hub_db_hook *hook, bool is_kept)
{
    struct hub_keys *keys = list_entry(hook, struct hub_keys, hook);
    bool is_due = keys->has_changed && is_kept;

    keys->has_changed = false;
    if (!is_due)
        return;
    hub_keys_read(keys);
    DIAG(DIAG_INFO, "hub", "the hub's keys have changed",
         diag_text("newest", keys->now.n > 0 ? keys->now.all[0].id : ""),
         diag_number("keys", keys->now.n));
}

void
hub_keys_open(struct hub_keys *keys, struct hub_db *db)
{
    keys->db = db;
    keys->hook.ended = on_ended;
    list_append(&db->hooks, &keys->hook.node);
}

enum status
hub_keys_begin(struct hub_keys *keys, struct problem *why)
{
    enum status rc = read_again(keys, why);

    if (rc || keys->now.n > 0)
        return rc;
    keys->has_changed = true;
    rc = add_key(keys, clock_now_us(), why);
    if (!rc)
        rc = hub_db_commit(keys->db, why);
    return rc || keys->now.n > 0
               ? rc
               : problem(why, STATUS_IO, "the hub's keys cannot be read");
}

void
hub_keys_close(struct hub_keys *keys)
{
    free_list(&keys->now);
}

bool
hub_keys_sign(const struct hub_keys *keys, struct slice id, int64_t now_s,
              struct slice body, struct buf *to)
{
    char signature[WEBHOOK_KEY_SIGNATURE_SIZE];
    bool is_signed = true;
    struct buf message = {.max = SIZE_MAX};

    buf_room(&message, id.size + NUMBER_SIZE_MAX + 2 + body.size);
    buf_add_slice(&message, id);
    buf_add_format(&message, ".%" PRId64 ".", now_s);
    buf_add_slice(&message, body);
    is_signed = !message.failed;
    for (size_t i = 0; is_signed && i < keys->now.n; i++) {
        const struct hub_key *key = &keys->now.all[i];

        if (has_ended(key, now_s * 1000000))
            continue;
        is_signed = !webhook_sign(key->pair, buf_slice(&message), signature);
        BUF_ADD(to, " ");
        if (is_signed)
            buf_add_text(to, signature);
    }
    buf_fini(&message);
    return is_signed;
}

void
hub_keys_report(struct buf *to, const struct hub_key_list *list)
{
    char base64[KEY_TEXT_SIZE], x[KEY_TEXT_SIZE];
    int64_t now_us = clock_now_us();

    BUF_ADD(to, "{\"keys\":[");
    for (size_t i = 0; i < list->n; i++) {
        const struct hub_key *key = &list->all[i];
        const unsigned char *public = signing_key_public(key->pair);

        if (has_ended(key, now_us))
            continue;
        jose_base64url_write(
            x, (struct slice){(const char *)public, SIGNING_KEY_SIZE});
        EVP_EncodeBlock((unsigned char *)base64, public, SIGNING_KEY_SIZE);
        json_separate(to, ",\n");
        buf_add_format(to, KEY_START, x);
        json_text_member(to, "use", SLICE("sig"));
        json_text_member(to, "alg", SLICE("EdDSA"));
        json_text_member(to, "kid", slice_of(key->id));
        buf_add_format(to, ",\"whpk\":\"whpk_%s\"", base64);
        json_time_member(to, "created", key->created_us);
        json_time_member(to, "ends", key->ends_us);
        BUF_ADD(to, "}");
    }
    BUF_ADD(to, "]}\n");
}

static void
delete_ended(struct hub_keys *keys, int64_t now_us)
{
    HUB_DB_WRITE(keys->db, "DELETE FROM keys WHERE ends <> 0 AND ends <= ?",
                 now_us);
}

enum status
hub_keys_rotate(struct hub_keys *keys, uint64_t grace_s, struct buf *to,
                struct problem *why)
{
    struct hub_key_list list;
    int64_t now_us = clock_now_us();
    enum status rc = read_keys(&list, keys->db, why);

    if (!rc && list.n == HUB_KEYS_MAX && grace_s > 0)
        rc = problem(why, STATUS_CONFLICT,
                     "the hub has %d keys, as many as it may have: wait for "
                     "the end of one, or give no grace",
                     HUB_KEYS_MAX);
    free_list(&list);
    if (rc)
        return rc;
    keys->has_changed = true;
    HUB_DB_WRITE(keys->db, "UPDATE keys SET ends=? WHERE ends=0",
                 now_us + (int64_t)grace_s * 1000000);
    delete_ended(keys, now_us);
    rc = add_key(keys, now_us, why);
    if (!rc)
        rc = read_keys(&list, keys->db, why);
    if (rc) {
        hub_db_fail(keys->db, why);
        return rc;
    }
    hub_keys_report(to, &list);
    free_list(&list);
    return STATUS_OK;
}

void
hub_keys_look(struct hub_keys *keys)
{
    int64_t now_us = clock_now_us();
    bool has_some = false;

    for (size_t i = 0; i < keys->now.n; i++)
        has_some |= has_ended(&keys->now.all[i], now_us);
    if (!has_some)
        return;
    delete_ended(keys, now_us);
    keys->has_changed = true;
}
