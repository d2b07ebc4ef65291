#include "broker/access/tokens.h"

#include <ctype.h>
#include <pthread.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/random.h"
#include "broker/cluster/owned_db.h"

#define SALT_SIZE 16

/* A principal's last use is written when it is newer by this. */
#define USE_STEP_US 1000000

/* The stream of a cluster, and the lease of its changes. */
#define STREAM "tokens"

/* How often a change asks for the lease, and for how long it waits each time.
 * Another change takes some milliseconds. */
#define LEASE_TRIES   20
#define LEASE_WAIT_US 50000

/* How long the disk may lack a use while the broker runs. */
#define USE_PERIOD_US 60000000

struct token {
    struct list node;                 /* in tokens->all, by row */
    struct map_node find[TOKEN_KEYS]; /* in tokens->by */
    int64_t row, created_us;
    int64_t saved_us; /* the use that the database has */
    int64_t saving_us;
    bool is_findable; /* in the maps */
    char id[TOKEN_ID_SIZE + 1];
    char certificate[TOKEN_CERTIFICATE_SIZE];
    char salt[SALT_SIZE];
    struct digest digest;
    struct principal *principal;
};

struct tokens {
    char path[4096];
    pthread_mutex_t changing; /* one change at a time; `db` */
    struct db db;             /* not open before the first token */

    /* Of a cluster; `changing` is held. */
    struct owned_db *owned; /* NULL: this broker is alone */
    struct streams *streams;
    struct lease lease;   /* of a change */
    struct leases leases; /* it alone */
    const char *refusal;  /* NULL: this broker changes tokens */
    int64_t n_read; /* rows that the connection had changed at the last reload;
                       -1: none yet */

    tokens_guard_fn *guard; /* NULL: none */
    void *guard_user;

    struct list all; /* `changing` is held */

    pthread_rwlock_t lock; /* the rest; written while `changing` is held */
    struct map by[TOKEN_KEYS];
    size_t n;
    struct principal *open; /* of an open broker, no administrator; over with
                               the first token */
    atomic_bool is_unknown; /* the cluster may have tokens; false orders the end
                               of `open` before it, if it has */
    struct principal *operator; /* may do everything, for ever */
    struct principal *nobody;   /* everyone, without a right */
};

/* The database */

static const char *const steps[] = {
    /* AUTOINCREMENT: sqlite_sequence shows that there was a token, also when
     * all are revoked. No id or salt: the row of everyone. */
    "CREATE TABLE tokens (row INTEGER PRIMARY KEY AUTOINCREMENT,"
    " name TEXT NOT NULL, id TEXT UNIQUE, salt BLOB, digest BLOB,"
    " publish TEXT NOT NULL, subscribe TEXT NOT NULL, manage TEXT NOT NULL,"
    " observe INTEGER NOT NULL, admin INTEGER NOT NULL,"
    " created_us INTEGER NOT NULL, ends_us INTEGER NOT NULL,"
    " used_us INTEGER NOT NULL)",
    "ALTER TABLE tokens ADD COLUMN certificate TEXT",
};

const struct db_kind tokens_kind = {
    .name = "the tokens",
    .mode = DB_SMALL,
    .application_id = 1415861355, /* "TdTk" */
    DB_STEPS(steps),
};

/* Hashing */

static void
digest_secret(struct digest *d, const char salt[SALT_SIZE], struct slice secret)
{
    char text[SALT_SIZE + TOKEN_SECRET_SIZE];

    memcpy(text, salt, SALT_SIZE);
    memcpy(text + SALT_SIZE, secret.data, TOKEN_SECRET_SIZE);
    digest_sha256(d, (struct slice){text, sizeof(text)});
    OPENSSL_cleanse(text, sizeof(text));
}

/* The table; `lock` is held, or nobody else knows `t` yet. */

static struct slice
key_of(const struct token *token, enum token_key key)
{
    return slice_of(key == TOKEN_BY_ID     ? token->id
                    : key == TOKEN_BY_NAME ? token->principal->name
                                           : token->certificate);
}

/* The newest with that key, which ends last: after a rotation several have the
 * same name, and the same certificate. NULL: there is none. */
static struct token *
find_token(struct tokens *t, enum token_key key, struct slice text)
{
    struct token *token, *newest = NULL;

    map_each_same (token, &t->by[key], map_hash(&t->by[key], text), find[key]) {
        if (slice_equal(text, key_of(token, key)) &&
            (!newest || token->row > newest->row))
            newest = token;
    }
    return newest;
}

static void
insert_token(struct tokens *t, struct token *token)
{
    token->is_findable = true;
    t->n++;
    for (enum token_key key = 0; key < TOKEN_KEYS; key++)
        if (key_of(token, key).size > 0)
            map_add(&t->by[key], &token->find[key],
                    map_hash(&t->by[key], key_of(token, key)));
}

static void
free_token(struct token *token)
{
    principal_unref(token->principal);
    free(token);
}

static void
remove_token(struct tokens *t, struct token *token)
{
    list_remove(&token->node);
    t->n--;
    for (enum token_key key = 0; key < TOKEN_KEYS; key++)
        if (key_of(token, key).size > 0)
            map_remove(&t->by[key], &token->find[key]);
    free_token(token);
}

/* Loading */

/* Moves the tokens of all rows to `now`, in their order; makes those that are
 * new. */
static enum status
read_rows(struct tokens *t, struct list *now, struct problem *why)
{
    struct db_rows rows = DB_SELECT(
        &t->db, "read", why,
        "SELECT row, name, id, salt, digest, publish, subscribe, manage,"
        " observe, admin, created_us, ends_us, used_us, certificate,"
        " (id IS NULL OR (length(salt) = ?1 AND length(digest) = ?2))"
        " AND max(length(CAST(publish AS BLOB)),"
        " length(CAST(subscribe AS BLOB)), length(CAST(manage AS BLOB))) < ?3"
        " FROM tokens ORDER BY row",
        SALT_SIZE, DIGEST_SIZE, PATTERNS_SIZE);
    struct token row = {.row = 0};
    struct slice name, salt;
    struct rights rights;
    int64_t ends_us;
    bool is_whole;

    while (DB_NEXT(&rows, &row.row, &name, &row.id, &salt, &row.digest,
                   &rights.publish, &rights.subscribe, &rights.manage,
                   &rights.observe, &rights.admin, &row.created_us, &ends_us,
                   &row.saved_us, &row.certificate, &is_whole)) {
        /* The token that the row was read into before. */
        struct token *token = row.id[0]
                                  ? find_token(t, TOKEN_BY_ID, slice_of(row.id))
                                  : find_token(t, TOKEN_BY_NAME, name);

        if (token && token->row == row.row &&
            token->created_us == row.created_us) {
            principal_end(token->principal, ends_us);
            list_remove(&token->node);
        } else if (!is_whole) {
            rows.rc = db_fail(&t->db, STATUS_IO, why, "row %lld is damaged",
                              (long long)row.row);
        } else {
            token = memory_room(sizeof(*token));
            *token = row;
            if (row.id[0])
                memcpy(token->salt, salt.data, SALT_SIZE);
            token->principal = principal_new(name, &rights, ends_us);
            atomic_store(&token->principal->used_us, row.saved_us);
        }
        if (!rows.rc)
            list_append(now, &token->node);
    }
    return db_rows_end(&rows);
}

/* True if a token was made here, or another broker's was read. */
static enum status
has_been_used(struct tokens *t, bool *is_used, struct problem *why)
{
    return db_find(&t->db, NULL, why, NULL,
                   "SELECT count(*) > 0 FROM sqlite_sequence", DB_VALUES(),
                   DB_INTO(is_used));
}

static enum status
call_guard(struct tokens *t, bool is_on, struct problem *why)
{
    return t->guard ? t->guard(t->guard_user, is_on, why) : STATUS_OK;
}

/* Reads the database, which is open. */
static enum status
reload(struct tokens *t, struct problem *why)
{
    enum status rc;
    struct token *token;
    struct list now;
    bool is_used = false;

    list_init(&now);
    rc = read_rows(t, &now, why);
    if (!rc)
        rc = has_been_used(t, &is_used, why);
    if (rc) {
        /* After a failure: frees the tokens of `now` that are new. */
        list_move(&now, &t->all);
        list_drain (token, &now, node)
            if (token->is_findable)
                list_append(&t->all, &token->node);
            else
                free_token(token);
        return rc;
    }
    /* Makes the table that of the database: `now` has its tokens, and t->all
     * those that are gone, which end. */
    pthread_rwlock_wrlock(&t->lock);
    list_until_empty (token, &t->all, node) {
        principal_end(token->principal, 0);
        remove_token(t, token);
    }
    list_walk (token, &now, node)
        if (!token->is_findable)
            insert_token(t, token);
    pthread_rwlock_unlock(&t->lock);
    list_move(&t->all, &now);
    if (!is_used)
        return STATUS_OK;
    principal_end(t->open, 0);
    return call_guard(t, true, why);
}

static enum status
load(struct tokens *t, struct problem *why)
{
    enum status rc = db_open_kind(&t->db, &tokens_kind, t->path, why);

    return rc ? rc : reload(t, why);
}

enum status
tokens_open(struct tokens **tokens, const char *dir, struct problem *why)
{
    static const struct rights all = {.admin = true}, none,
                               every_set = {.publish = "*",
                                            .subscribe = "*",
                                            .manage = "*",
                                            .observe = true};
    struct tokens *t = memory_new(1, sizeof(*t));
    enum status rc = STATUS_OK;

    *tokens = NULL;
    list_init(&t->all);
    pthread_mutex_init(&t->changing, NULL);
    pthread_rwlock_init(&t->lock, NULL);
    for (enum token_key key = 0; key < TOKEN_KEYS;
         key++) /* readers find the seeds made */
        (void)map_hash(&t->by[key], SLICE(""));
    snprintf(t->path, sizeof(t->path), "%s/tokens.db", dir);
    t->open = principal_new(SLICE(""), &every_set, INT64_MAX);
    t->nobody = principal_new(SLICE(PRINCIPAL_EVERYONE), &none, INT64_MAX);
    t->operator= principal_new(SLICE(PRINCIPAL_OPERATOR), &all, INT64_MAX);
    if (!access(t->path, F_OK))
        rc = load(t, why);
    if (rc)
        tokens_close(t);
    else
        *tokens = t;
    return rc;
}

void
tokens_close(struct tokens *t)
{
    struct token *token;

    if (!t)
        return;
    if (t->db.handle)
        (void)!tokens_save_uses(t, true, NULL);
    list_until_empty (token, &t->all, node)
        remove_token(t, token);
    for (enum token_key key = 0; key < TOKEN_KEYS; key++)
        map_fini(&t->by[key]);
    owned_db_close(t->owned);
    db_close(&t->db);
    principal_unref(t->open);
    principal_unref(t->operator);
    principal_unref(t->nobody);
    pthread_rwlock_destroy(&t->lock);
    pthread_mutex_destroy(&t->changing);
    free(t);
}

/* Sharing: of a cluster; `changing` is held */

static void
leave_stream(struct tokens *t)
{
    if (t->lease.term > 0)
        t->streams->ops->leave(t->streams, &t->lease);
    t->lease.term = 0;
}

/* Reloads the table if the database has changed. `rc` is of the reading, which
 * keeps rows also if it fails. */
static enum status
reload_changes(struct tokens *t, enum status rc, struct problem *why)
{
    int64_t n = sqlite3_total_changes64(t->db.handle);
    enum status end = STATUS_OK;

    if (n != t->n_read)
        end = reload(t, rc ? NULL : why);
    if (!end)
        t->n_read = n;
    return rc ? rc : end;
}

/* Takes the lease, and reads the stream; leave_stream must follow. If the
 * stream is empty it gets the tokens of this broker. */
static enum status
own_stream(struct tokens *t, struct problem *why)
{
    const struct streams_ops *ops = t->streams->ops;
    enum status rc = ops->hold(t->streams, &t->lease, why);

    for (int i = 0; rc == STATUS_CONFLICT && i < LEASE_TRIES; i++) {
        ops->wait(t->streams, -1, LEASE_WAIT_US);
        rc = ops->hold(t->streams, &t->lease, why);
    }
    if (rc == STATUS_CONFLICT)
        rc = problem(why, STATUS_BUSY, "another broker is changing tokens");
    if (!rc)
        rc = owned_db_own(t->owned, &t->leases, why);
    return reload_changes(t, rc, why);
}

enum status
tokens_join(struct tokens *t, struct streams *streams, const char *refusal,
            struct problem *why)
{
    enum status rc = STATUS_OK;

    t->streams = streams;
    t->refusal = refusal;
    t->lease.name = STREAM;
    t->leases.all[0] = &t->lease;
    t->n_read = -1;
    if (!t->db.handle)
        rc = load(t, why);
    if (!rc)
        rc = owned_db_open(&t->owned, &t->db, streams, STREAM, NULL, why);
    if (!rc)
        store_relaxed(&t->is_unknown, !owned_db_has_followed(t->owned));
    return rc;
}

enum status
tokens_follow(struct tokens *t, struct problem *why)
{
    bool is_used = false;
    enum status rc;

    pthread_mutex_lock(&t->changing);
    rc = owned_db_read(t->owned, why);
    rc = reload_changes(t, rc, why);
    if (!rc) /* after what ends the open principal if there are tokens */
        atomic_store_explicit(&t->is_unknown, false, memory_order_release);
    if (!rc && !t->refusal && owned_db_last(t->owned) == 0)
        rc = has_been_used(t, &is_used, why);
    if (!rc && is_used) {
        rc = own_stream(t, why);
        leave_stream(t);
    }
    pthread_mutex_unlock(&t->changing);
    return rc;
}

struct streams *
tokens_lend_streams(struct tokens *t)
{
    pthread_mutex_lock(&t->changing);
    return t->streams;
}

void
tokens_return_streams(struct tokens *t)
{
    pthread_mutex_unlock(&t->changing);
}

enum status
tokens_look_shared(struct tokens *t, bool *are_shared, struct problem *why)
{
    int64_t n = 0;
    enum status rc = STATUS_OK;

    if (t->db.handle)
        rc = db_number(&t->db,
                       "SELECT count(*) FROM sqlite_schema"
                       " WHERE name = 'journal_place'",
                       &n, why);
    if (!rc && n > 0)
        rc =
            db_number(&t->db, "SELECT stream <> 0 FROM journal_place", &n, why);
    *are_shared = n > 0;
    return rc;
}

bool
tokens_are_unknown(struct tokens *t)
{
    return load_relaxed(&t->is_unknown) && !principal_is_over(t->open, 0);
}

/* Asking */

bool
tokens_are_open(struct tokens *t)
{
    return !atomic_load_explicit(&t->is_unknown, memory_order_acquire) &&
           !principal_is_over(t->open, 0);
}

void
tokens_end_openness(struct tokens *t)
{
    principal_end(t->open, 0);
}

void
tokens_guard(struct tokens *t, tokens_guard_fn *guard, void *user)
{
    t->guard = guard;
    t->guard_user = user;
}

static struct principal *
ref_if_alive(struct principal *p, int64_t now_us)
{
    return p && !principal_is_over(p, now_us) ? principal_ref(p) : NULL;
}

struct principal *
tokens_find(struct tokens *t, struct slice text, int64_t now_us)
{
    static const struct token nobody;
    struct slice id, secret;
    struct principal *found = NULL;
    const struct token *token;
    struct digest digest;

    /* "td_ID_SECRET" */
    if (text.size != TOKEN_TEXT_SIZE - 1 || !slice_starts(text, "td_") ||
        text.data[3 + TOKEN_ID_SIZE] != '_')
        return NULL;
    id = (struct slice){text.data + 3, TOKEN_ID_SIZE};
    secret = (struct slice){text.data + 4 + TOKEN_ID_SIZE, TOKEN_SECRET_SIZE};
    pthread_rwlock_rdlock(&t->lock);
    token = find_token(t, TOKEN_BY_ID, id);
    if (!token)
        token = &nobody;
    digest_secret(&digest, token->salt, secret);
    if (!CRYPTO_memcmp(digest.bytes, token->digest.bytes, DIGEST_SIZE))
        found = ref_if_alive(token->principal, now_us);
    pthread_rwlock_unlock(&t->lock);
    if (found)
        store_relaxed(&found->used_us, now_us);
    return found;
}

struct principal *
tokens_by(struct tokens *t, enum token_key key, struct slice text,
          int64_t now_us)
{
    struct principal *found;
    struct token *token;

    pthread_rwlock_rdlock(&t->lock);
    token = find_token(t, key, text);
    found = ref_if_alive(token ? token->principal : NULL, now_us);
    pthread_rwlock_unlock(&t->lock);
    if (found && key == TOKEN_BY_CERTIFICATE)
        store_relaxed(&found->used_us, now_us);
    return found;
}

bool
tokens_id_of(struct tokens *t, const struct principal *principal,
             char id[TOKEN_ID_SIZE + 1])
{
    uint64_t hash = map_hash(&t->by[TOKEN_BY_NAME], slice_of(principal->name));
    const struct token *token;

    id[0] = '\0';
    pthread_rwlock_rdlock(&t->lock);
    map_each_same (token, &t->by[TOKEN_BY_NAME], hash, find[TOKEN_BY_NAME]) {
        if (token->principal == principal)
            memcpy(id, token->id, TOKEN_ID_SIZE + 1);
    }
    pthread_rwlock_unlock(&t->lock);
    return id[0] != '\0';
}

struct principal *
tokens_named(struct tokens *t, struct slice name, int64_t now_us)
{
    return name.size            ? tokens_by(t, TOKEN_BY_NAME, name, now_us)
           : tokens_are_open(t) ? ref_if_alive(t->open, now_us)
                                : NULL;
}

struct principal *
tokens_owner(struct tokens *t, struct slice name, int64_t now_us)
{
    struct principal *found = NULL;

    if (name.size && !slice_is(name, PRINCIPAL_EVERYONE))
        return tokens_named(t, name, now_us);
    found = tokens_named(t, SLICE(""), now_us);
    return found ? found : tokens_named(t, SLICE(PRINCIPAL_EVERYONE), now_us);
}

struct principal *
tokens_anonymous(struct tokens *t, int64_t now_us)
{
    struct principal *found = tokens_owner(t, SLICE(""), now_us);

    return found ? found : principal_ref(t->nobody);
}

struct principal *
tokens_operator(struct tokens *t)
{
    return principal_ref(t->operator);
}

/* Changing */

enum status
token_certificate_read(char to[TOKEN_CERTIFICATE_SIZE], struct slice text,
                       struct problem *why)
{
    size_t n = 0, i = 0;

    for (; i < text.size; i++) {
        char c = text.data[i];

        if (c == ':' && n && n % 2 == 0)
            continue;
        if (!isxdigit((unsigned char)c) || n == TOKEN_CERTIFICATE_SIZE - 1)
            break;
        to[n++] = (char)tolower((unsigned char)c);
    }
    to[n] = '\0';
    if (i == text.size && n == TOKEN_CERTIFICATE_SIZE - 1)
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "\"%s\" is no SHA-256 of a certificate: 64 hexadecimal "
                   "digits",
                   problem_quote(text).text);
}

static enum status
check_terms(const struct token_terms *terms, struct problem *why)
{
    bool is_everyone = !strcmp(terms->name, PRINCIPAL_EVERYONE);
    size_t size = strlen(terms->name);

    if (!strcmp(terms->name, "self")) /* /tokens/self */
        return problem(why, STATUS_INVALID, "no token can be called \"self\"");
    if (!size || size > TOKEN_NAME_MAX || strchr("._-", terms->name[0]) ||
        strspn(terms->name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != size)
        return problem(why, STATUS_INVALID,
                       "no token can be called \"%s\": a name is 1 to %d of "
                       "a-z 0-9 . _ - and begins with a letter or digit",
                       problem_quote(slice_of(terms->name)).text,
                       TOKEN_NAME_MAX);
    if (!rights_include(&terms->rights, RIGHTS_ALL, (struct slice){NULL, 0}))
        return problem(why, STATUS_INVALID,
                       "the token would have no right: give it patterns to "
                       "publish, subscribe or manage, or observe, or admin");
    if (is_everyone && terms->rights.admin)
        return problem(why, STATUS_INVALID,
                       "everyone cannot be an administrator");
    if (is_everyone && terms->certificate[0])
        return problem(why, STATUS_INVALID, "everyone has no certificate");
    if (terms->ends_us <= clock_now_us())
        return problem(why, STATUS_INVALID, "the token would have expired");
    return STATUS_OK;
}

/* Makes a token; with an ID and a secret, unless it is of everyone. Writes its
 * text. */
static enum status
make_token(const struct token_terms *terms, struct token **made,
           char text[TOKEN_TEXT_SIZE], struct problem *why)
{
    char secret[TOKEN_SECRET_SIZE + 1], salt[2 * SALT_SIZE + 1];
    struct token *token = memory_new(1, sizeof(*token));

    token->created_us = clock_now_us();
    memcpy(token->certificate, terms->certificate, sizeof(token->certificate));
    token->principal =
        principal_new(slice_of(terms->name), &terms->rights, terms->ends_us);
    if (!token->principal->is_everyone) {
        if (!random_hex(token->id, sizeof(token->id)) ||
            !random_hex(secret, sizeof(secret)) ||
            !random_hex(salt, sizeof(salt))) {
            problem_errno(why, "no random numbers", "for a token");
            free_token(token);
            return STATUS_IO;
        }
        memcpy(token->salt, salt, SALT_SIZE);
        digest_secret(&token->digest, token->salt, slice_of(secret));
        snprintf(text, TOKEN_TEXT_SIZE, "td_%s_%s", token->id, secret);
        OPENSSL_cleanse(secret, sizeof(secret));
    }
    *made = token;
    return STATUS_OK;
}

static enum status
store_token(struct tokens *t, struct token *token,
            const struct token_terms *terms, struct problem *why)
{
    const struct rights *rights = &terms->rights;
    enum status rc =
        DB_DO(&t->db, "add a token", why,
              "INSERT INTO tokens (name, id, salt, digest, publish, subscribe, "
              "manage, observe, admin, created_us, ends_us, used_us, "
              "certificate) VALUES (?, nullif(?, ''), nullif(?, x''), ?, ?, ?, "
              "?, ?, ?, ?, ?, 0, nullif(?, ''))",
              terms->name, token->id,
              db_bytes(token->salt, token->id[0] ? SALT_SIZE : 0),
              token->id[0] ? &token->digest : NULL, rights->publish,
              rights->subscribe, rights->manage, rights->observe, rights->admin,
              token->created_us, terms->ends_us, token->certificate);

    if (!rc)
        token->row = sqlite3_last_insert_rowid(t->db.handle);
    return rc;
}

/* In a cluster: takes the lease, and reads what other brokers have changed.
 * Then checks `by`, whom no other change can end any more. `changing` is held;
 * so the table stays as it is until end_change, which must follow, also after a
 * failure. */
static enum status
begin_change(struct tokens *t, const struct authority *by, struct problem *why)
{
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&t->changing);
    if (t->refusal)
        return problem(why, STATUS_FORBIDDEN, "%s", t->refusal);
    if (t->owned)
        rc = own_stream(t, why);
    return rc ? problem_prefix(why, STATUS_BUSY, "tokens cannot change now: ")
              : authority_check(by, clock_now_us(), why);
}

static void
end_change(struct tokens *t)
{
    leave_stream(t);
    pthread_mutex_unlock(&t->changing);
}

/* Ends the transaction of begin_writing. If the commit fails when the stream
 * has the rows, this broker reads them back from there: no broker lacks a token
 * that another one has. */
static enum status
end_writing(struct tokens *t, enum status rc, struct problem *why)
{
    enum status end = owned_db_end(&t->db, t->owned, rc, why);

    return end && !rc && t->owned
               ? problem_prefix(why, STATUS_BUSY,
                                "nobody knows whether this was done: ")
               : end;
}

/* Begins a transaction; after begin_change and the checks of the change. */
static enum status
begin_writing(struct tokens *t, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (!t->db.handle)
        rc = load(t, why);
    return rc ? rc : owned_db_begin(&t->db, t->owned, true, why);
}

/* Ends all principals of that name; removes their tokens if `is_removed`. */
static void
end_tokens(struct tokens *t, struct slice name, int64_t at_us, bool is_removed)
{
    struct token *token;

    pthread_rwlock_wrlock(&t->lock);
    list_walk (token, &t->all, node) {
        if (!slice_is(name, token->principal->name))
            continue;
        principal_end(token->principal, at_us);
        if (is_removed)
            remove_token(t, token);
    }
    pthread_rwlock_unlock(&t->lock);
}

/* Makes a token, writes it, and lets it be found; after begin_change and the
 * checks of the change. `is_rotation`: all others of that name end at
 * `end_us`. */
static enum status
write_token(struct tokens *t, const struct token_terms *terms, bool is_rotation,
            int64_t end_us, char text[TOKEN_TEXT_SIZE], struct problem *why)
{
    struct token *token;
    enum status rc = make_token(terms, &token, text, why);

    if (rc)
        return rc;
    if (!is_rotation)
        rc = call_guard(t, true, why);
    if (!rc)
        rc = begin_writing(t, why);
    if (!rc) {
        if (is_rotation)
            rc = DB_DO(&t->db, "end a token", why,
                       "UPDATE tokens SET ends_us = min(ends_us, ?)"
                       " WHERE name = ?",
                       end_us, terms->name);
        if (!rc)
            rc = store_token(t, token, terms, why);
        rc = end_writing(t, rc, why);
    }
    if (rc) {
        free_token(token);
        OPENSSL_cleanse(text, TOKEN_TEXT_SIZE);
        return rc;
    }
    if (is_rotation)
        end_tokens(t, slice_of(terms->name), end_us, false);
    pthread_rwlock_wrlock(&t->lock);
    list_append(&t->all, &token->node);
    insert_token(t, token);
    principal_end(t->open, 0);
    pthread_rwlock_unlock(&t->lock);
    return STATUS_OK;
}

enum status
tokens_add(struct tokens *t, const struct authority *by,
           const struct token_terms *terms, char text[TOKEN_TEXT_SIZE],
           struct problem *why)
{
    struct token *named;
    enum status rc = check_terms(terms, why);

    text[0] = '\0';
    if (rc)
        return rc;
    rc = begin_change(t, by, why);
    if (rc)
        ;
    else if (find_token(t, TOKEN_BY_NAME, slice_of(terms->name)))
        rc = problem(why, STATUS_CONFLICT,
                     "there is a token \"%s\": rotate it, or revoke it first",
                     terms->name);
    else if (terms->certificate[0] &&
             (named = find_token(t, TOKEN_BY_CERTIFICATE,
                                 slice_of(terms->certificate))) &&
             !principal_is_over(named->principal, clock_now_us()))
        rc = problem(why, STATUS_CONFLICT,
                     "the token \"%s\" names the same certificate",
                     named->principal->name);
    else if (t->n >= TOKENS_MAX)
        rc = problem(why, STATUS_CONFLICT, "there are %d tokens, the most",
                     TOKENS_MAX);
    if (!rc)
        rc = write_token(t, terms, false, 0, text, why);
    end_change(t);
    return rc;
}

enum status
tokens_open_again(struct tokens *t, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (t->n)
        return problem(why, STATUS_CONFLICT,
                       "there are tokens, which keep the broker closed: revoke "
                       "them first (tidingsd token list)");
    if (t->db.handle)
        rc = DB_DO(&t->db, "forget the tokens", why,
                   "DELETE FROM sqlite_sequence");
    return rc ? rc : call_guard(t, false, why);
}

static enum status
missing_token(struct slice name, struct problem *why)
{
    return problem(why, STATUS_NOT_FOUND, "there is no token \"%s\"",
                   problem_quote(name).text);
}

enum status
tokens_revoke(struct tokens *t, const struct authority *by, struct slice name,
              struct problem *why)
{
    enum status rc = begin_change(t, by, why);

    if (!rc && !find_token(t, TOKEN_BY_NAME, name))
        rc = missing_token(name, why);
    if (!rc)
        rc = begin_writing(t, why);
    if (!rc)
        rc = end_writing(t,
                         DB_DO(&t->db, "revoke a token", why,
                               "DELETE FROM tokens WHERE name = ?", name),
                         why);
    if (!rc)
        end_tokens(t, name, 0, true);
    end_change(t);
    return rc;
}

enum status
tokens_rotate(struct tokens *t, const struct authority *by, struct slice name,
              int64_t grace_us, char text[TOKEN_TEXT_SIZE], struct problem *why)
{
    struct token *former;
    struct token_terms terms = {.ends_us = INT64_MAX};
    int64_t end_us = clock_now_us() + grace_us;
    enum status rc = begin_change(t, by, why);

    text[0] = '\0';
    former = find_token(t, TOKEN_BY_NAME, name);
    if (rc) {
        ; /* nothing is known of the token */
    } else if (!former) {
        rc = missing_token(name, why);
    } else if (former->principal->is_everyone) {
        rc = problem(why, STATUS_INVALID, "everyone has no secret");
    } else if (principal_is_over(former->principal, clock_now_us())) {
        rc = problem(why, STATUS_CONFLICT,
                     "the token \"%s\" has expired: revoke it and add it again",
                     former->principal->name);
    } else {
        terms.rights = former->principal->rights;
        terms.ends_us = atomic_load(&former->principal->authority.ends_us);
        memcpy(terms.certificate, former->certificate,
               sizeof(terms.certificate));
        memcpy(terms.name, name.data, name.size);
        rc = write_token(t, &terms, true, end_us, text, why);
    }
    end_change(t);
    return rc;
}

/* Showing */

enum status
tokens_each(struct tokens *t, token_view_fn *fn, void *user)
{
    enum status rc = STATUS_OK;
    struct token_view view;
    struct token *token;

    pthread_mutex_lock(&t->changing);
    list_walk (token, &t->all, node) {
        const struct principal *p = token->principal;

        snprintf(view.terms.name, sizeof(view.terms.name), "%.*s",
                 TOKEN_NAME_MAX, p->name);
        view.terms.rights = p->rights;
        memcpy(view.terms.certificate, token->certificate,
               sizeof(view.terms.certificate));
        view.terms.ends_us = atomic_load(&p->authority.ends_us);
        memcpy(view.id, token->id, sizeof(view.id));
        view.created_us = token->created_us;
        view.used_us = atomic_load(&p->used_us);
        rc = fn(&view, user);
        if (rc)
            break;
    }
    pthread_mutex_unlock(&t->changing);
    return rc;
}

enum status
tokens_save_uses(struct tokens *t, bool is_end, struct problem *why)
{
    int64_t step_us = is_end ? USE_STEP_US : USE_PERIOD_US;
    enum status rc = STATUS_OK;
    bool is_due = false;
    struct token *token;

    pthread_mutex_lock(&t->changing);
    list_walk (token, &t->all, node) {
        token->saving_us = atomic_load(&token->principal->used_us);
        is_due |= token->saving_us >= token->saved_us + step_us;
    }
    if (t->db.handle && is_due) {
        rc = db_begin(&t->db, why);
        if (!rc) {
            list_walk (token, &t->all, node)
                if (!rc && token->saving_us >= token->saved_us + USE_STEP_US)
                    rc = DB_DO(&t->db, "note the use of tokens", why,
                               "UPDATE tokens SET used_us = ? WHERE row = ?",
                               token->saving_us, token->row);
            rc = db_end(&t->db, rc, why);
        }
        list_walk (token, &t->all, node)
            if (!rc && token->saving_us >= token->saved_us + USE_STEP_US)
                token->saved_us = token->saving_us;
    }
    pthread_mutex_unlock(&t->changing);
    return rc;
}
