#include "client/witness/witness.h"

#include <time.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/clock.h"
#include "base/db.h"
#include "base/file.h"
#include "client/lib/trust.h"
#include "client/websub/callback.h"
#include "client/witness/source_tree.h"
#include "proto/number.h"

#define KEY_FILE   "witness.key"
#define STATE_FILE "witness.db"

/* Bytes of a request. */
#define BODY_MAX ((size_t)64 * 1024)

/* Lines of the proof. */
#define PATH_MAX_LINES 63

/* Requests that wait for a reading at most; its time, while the log waits and
 * after its answer; seconds until the log should ask again. */
#define WAITING_MAX 64
#define READING_MS  5000
#define LONGER_MS   60000
#define RETRY_S     2

static const char *const steps[] = {
    "CREATE TABLE logs (origin TEXT PRIMARY KEY, hash TEXT UNIQUE,"
    " size INTEGER, checkpoint TEXT, epoch TEXT, last INTEGER, digest BLOB,"
    " last_us INTEGER, next TEXT, name TEXT, roots BLOB);",
};

static const struct db_kind kind = {
    .name = "the state of this witness",
    .mode = DB_OWN,
    .steps = steps,
    .n_steps = 1,
};

/* A request that waits until its set was read. */
struct submission {
    struct list node;
    struct callback_connection *from; /* NULL: it has its answer; the reading
                                         goes on */
    struct buf body;
};

struct witness {
    const struct witness_options *options;
    struct td_client *client; /* of the server */
    struct td_client *reader; /* of the sets; the same, or another one, ... */
    struct timer timer;       /* ... which reads when this ends */
    struct db db;
    struct signing_key *signing;
    struct note_key own;
    struct td_callback *callback;
    struct list waiting;
    size_t n_waiting;
    bool has_some;
    bool is_unread; /* the last reading was not done in its time */
};

/* A log, as it is kept. */
struct followed {
    char hash[2 * DIGEST_SIZE + 1];
    uint64_t size; /* of the last cosigned checkpoint; 0: none */
    struct buf checkpoint;
    struct source_tree tree;
};

/* Keys */

/* Makes our own key, and its file. */
static enum status
make_key(struct witness *w, const char *name, struct problem *why)
{
    char secret[SIGNING_KEY_TEXT], public[NOTE_KEY_SIZE];
    char text[NOTE_KEY_SIZE + 128];
    enum status rc;

    if (!signing_key_make_text(secret) ||
        signing_key_read(&w->signing, slice_of(secret), NULL))
        return problem_memory(why);
    w->own.kind = NOTE_COSIGNATURE;
    snprintf(w->own.name, sizeof(w->own.name), "%s", name);
    memcpy(w->own.public, signing_key_public(w->signing), SIGNING_KEY_SIZE);
    note_key_write(public, &w->own);
    rc = note_key_read(slice_of(public), &w->own, why);
    snprintf(text, sizeof(text), "# %s\n%s\n", public, secret);
    if (!rc)
        rc =
            file_store_in(w->options->dir, KEY_FILE, slice_of(text), true, why);
    OPENSSL_cleanse(secret, sizeof(secret));
    OPENSSL_cleanse(text, sizeof(text));
    return rc;
}

/* Reads our own key, or makes it, when the address is known. */
static enum status
open_key(struct witness *w, struct problem *why)
{
    const char *name = w->options->name;
    struct file_path path = file_path("%s/" KEY_FILE, w->options->dir);
    char text[NOTE_KEY_SIZE + 128];
    struct slice rest = {text, sizeof(text)}, line;
    enum status rc;

    if (access(path.text, F_OK))
        return make_key(
            w, name ? name : strstr(td_callback_url(w->callback), "://") + 3,
            why);
    rc = secret_file_read(path.text, text, &rest.size, why);
    if (!rc) {
        line = slice_take(&rest, '\n');
        rc = !slice_skip_start(&line, "# ") ||
                     note_key_read(line, &w->own, NULL) ||
                     w->own.kind != NOTE_COSIGNATURE ||
                     (name && strcmp(name, w->own.name) != 0)
                 ? STATUS_INVALID
                 : signing_key_read(&w->signing, slice_take(&rest, '\n'), why);
    }
    OPENSSL_cleanse(text, sizeof(text));
    return rc == STATUS_INVALID ? problem(why, rc, "%s: it is no key of %s",
                                          path.text, name ? name : "a witness")
                                : rc;
}

/* Logs */

/* Finds the set of an origin; NULL: it is unknown. The URL is the caller's. */
static char *
find_set(const struct witness *w, struct slice origin)
{
    const char *sets = slice_find(origin, "/sets/"), *end = NULL;
    struct slice host, name, scheme;
    char *url = NULL;

    if (sets)
        end = memrchr(sets, '/', (size_t)(origin.data + origin.size - sets));
    if (!sets || end < sets + sizeof("/sets/"))
        return NULL;
    host = slice_between(origin.data, sets);
    name = slice_between(sets, end);
    for (char *const *at = w->options->urls; *at; at++) {
        struct slice place = slice_of(*at), source;
        const char *of_set = strstr(*at, "/sets/");
        bool is_same;

        if (slice_ends(place, "/.well-known/resourcesync"))
            place.size -= sizeof("/.well-known/resourcesync") - 1;
        while (place.size > 0 && place.data[place.size - 1] == '/')
            place.size--;
        source = of_set ? slice_between(*at, of_set) : place;
        place = slice_from(place, source.size);
        if (of_set && !slice_equal(place, name) &&
            (place.size < name.size || place.data[name.size] != '/' ||
             memcmp(place.data, name.data, name.size) != 0))
            continue;
        scheme = source;
        is_same = slice_skip_past(&scheme, "://") && slice_equal(scheme, host);
        if (url && !is_same)
            continue;
        free(url);
        if (asprintf(&url, "%.*s%.*s", SLICE_ARG(source), SLICE_ARG(name)) < 0)
            return NULL;
        if (is_same)
            break;
    }
    return url;
}

/* Of sizes of 63 bits (TREE_SIZE_MAX). */
#define ROOTS_KEPT ((size_t)63 * DIGEST_SIZE)

static enum status
load(struct witness *w, const char *origin, struct followed *f,
     struct problem *why)
{
    struct buf roots = {.max = sizeof(f->tree.edge.roots)};
    struct list_chain *chain = &f->tree.chain;
    struct digest hash;
    enum status rc;

    *f = (struct followed){.checkpoint.max = NOTE_BYTES_MAX};
    digest_sha256(&hash, slice_of(origin));
    *hex_write(f->hash, hash.bytes, DIGEST_SIZE) = '\0';
    rc = db_find(&w->db, NULL, why, NULL,
                 "SELECT size, checkpoint, epoch, last, digest, last_us, next,"
                 " name, roots FROM logs WHERE origin=?",
                 DB_VALUES(origin),
                 DB_INTO(&f->size, &f->checkpoint, &chain->epoch, &chain->last,
                         &chain->digest, &chain->last_us, &chain->next,
                         &chain->name, &roots));
    f->tree.edge.size = chain->last;
    if (roots.size > 0)
        memcpy(f->tree.edge.roots, roots.data, roots.size);
    buf_fini(&roots);
    return rc;
}

/* On the disk when it returns. */
static enum status
save(struct witness *w, const char *origin, const struct followed *f,
     struct problem *why)
{
    const struct list_chain *chain = &f->tree.chain;

    return DB_DO(&w->db, NULL, why,
                 "INSERT OR REPLACE INTO logs VALUES(?,?,?,?,?,?,?,?,?,?,?)",
                 origin, f->hash, f->size, buf_slice(&f->checkpoint),
                 chain->epoch, chain->last, &chain->digest, chain->last_us,
                 chain->next, chain->name,
                 db_bytes(f->tree.edge.roots, ROOTS_KEPT));
}

/* Judging */

static void
say_reply(struct reply *reply, unsigned status, const char *text)
{
    reply->status = status;
    buf_clear(&reply->text);
    buf_add_text(&reply->text, text);
    BUF_ADD(&reply->text, "\n");
}

/* What a request has. */
struct request {
    uint64_t old;
    struct tree_path path;
    struct note note;
    struct checkpoint checkpoint;
};

static bool
read_request(struct slice body, struct request *r)
{
    struct slice line = slice_take(&body, '\n');

    if (!slice_skip_start(&line, "old ") || !number_read_plain(line, &r->old))
        return false;
    return tree_path_take(&body, &r->path) && r->path.n <= PATH_MAX_LINES &&
           !note_read(body, &r->note, NULL) &&
           !checkpoint_read(&r->note, &r->checkpoint, NULL);
}

/* Appends the signatures of the log to `to`. 0: it has some; 404: no key is of
 * its host; 403: it has none of such a key, or a wrong one. */
static unsigned
check_signatures(const struct witness *w, const struct request *r,
                 const char *origin, struct buf *to)
{
    const struct trust *trust = w->reader->trust;
    unsigned status = 404;

    for (size_t i = 0; trust && i < trust->n_keys; i++) {
        struct note_key key = trust->keys[i];
        const char *end = strstr(key.name, "/sets/");
        uint64_t time_s;
        struct problem why;

        if (!end || strncmp(key.name, origin,
                            (size_t)(end - key.name) + strlen("/sets/")) != 0)
            continue;
        snprintf(key.name, sizeof(key.name), "%s", origin);
        if (note_check(&r->note, &key, &time_s, &why) == STATUS_DIFFERENT)
            return 403;
        if (note_copy_signature(&r->note, &key, to))
            status = 0;
        else if (status == 404)
            status = 403;
        for (int former = 0; former < 2; former++) { /* its time, if any */
            struct note_key cosigner = note_cosigner(&key, former);

            (void)note_copy_signature(&r->note, &cosigner, to);
        }
    }
    return status;
}

/* Stores what a log has signed beside what contradicts it: the checkpoint that
 * was cosigned before, which `tidings verify` judges; or `own`, the root
 * of the lists, which nobody has signed: a stranger has only our word for it. */
static void
keep_contradiction(struct witness *w, const struct followed *f,
                   const struct request *r, struct slice request,
                   const struct digest *own)
{
    struct buf text = {.max = 3 * NOTE_BYTES_MAX};
    struct problem why = {""};
    char name[64], line[2048];

    (void)slice_skip_past(&request, "\n\n");
    if (!own) {
        buf_add_slice(&text, buf_slice(&f->checkpoint));
        BUF_ADD(&text, "\n");
    }
    buf_add_slice(&text, request);
    if (own)
        buf_add_format(&text, "\nits lists have the root %s\n",
                       digest_text(own).text);
    snprintf(name, sizeof(name), "%s-%.16s-%" PRIu64,
             own ? "lists" : "evidence", f->hash, r->checkpoint.size);
    if (!text.failed)
        (void)!file_store_in(w->options->dir, name, buf_slice(&text), false,
                             &why);
    buf_fini(&text);
    snprintf(line, sizeof(line), "%.*s %s: %s/%s%s%s",
             SLICE_ARG(slice_cut(r->checkpoint.origin, 200)),
             own ? "has signed another history than its lists show"
                 : "has signed two histories",
             w->options->dir, name, why.text[0] ? ": " : "", why.text);
    w->options->on_text(line, NULL);
}

/* The checks that need no reading. True: the reading is left. */
static bool
check_request(const struct followed *f, const struct request *r,
              struct reply *reply)
{
    const struct checkpoint *new = &r->checkpoint;
    struct checkpoint last = {.size = 0};
    struct note note;
    struct digest empty;
    char size[24];

    digest_sha256(&empty, SLICE(""));
    if (f->size > 0 && (note_read(buf_slice(&f->checkpoint), &note, NULL) ||
                        checkpoint_read(&note, &last, NULL))) {
        say_reply(reply, 500, "the state of this witness is damaged");
    } else if (r->old > new->size) {
        say_reply(reply, 400, "old is larger than the checkpoint");
    } else if (r->old != f->size) {
        snprintf(size, sizeof(size), "%" PRIu64, f->size);
        say_reply(reply, 409, size);
        reply->type = "text/x.tlog.size";
    } else if (r->old == 0
                   ? r->path.n > 0 || (new->size == 0 &&
                                       !digest_is_equal(&new->root, &empty))
                   : !tree_continues(r->old, &last.root, new->size, &new->root,
                                     &r->path)) {
        say_reply(reply, 422, "the checkpoint does not continue the last one");
    } else {
        return true;
    }
    return false;
}

/* Compares the root with that of the lists. */
static void
compare_root(struct witness *w, struct followed *f, const struct request *r,
             struct slice body, const char *url, const char *epoch,
             int64_t reading_ms, struct reply *reply)
{
    const struct checkpoint *new = &r->checkpoint;
    struct tree_edge edge = {.size = 0};
    struct digest root;
    enum status rc = STATUS_OK;

    if (new->size > 0)
        rc = source_tree_read(w->reader, url, epoch, &f->tree, new->size, &edge,
                              clock_steady_ms() + reading_ms);
    tree_edge_root(&edge, &root);
    if (rc == STATUS_CONFLICT) {
        say_reply(reply, 404, td_problem(w->reader));
    } else if (rc) {
        say_reply(reply, 503, td_problem(w->reader));
        reply->retry_after_s = RETRY_S;
        w->is_unread = rc == STATUS_BUSY;
    } else if (!digest_is_equal(&root, &new->root)) {
        say_reply(reply, 422, "the lists of the set have another root");
        keep_contradiction(w, f, r, body, &root);
    }
}

/* Signs and keeps the checkpoint; the answer follows. */
static void
cosign(struct witness *w, const char *origin, struct followed *f,
       const struct request *r, const struct buf *signatures,
       struct reply *reply)
{
    struct buf line = {.max = NOTE_KEY_SIZE + 256};
    struct problem why = {""};
    bool is_signed = note_sign(&line, r->note.text, w->own.name, w->signing,
                               NOTE_COSIGNATURE, (uint64_t)time(NULL));

    buf_clear(&f->checkpoint);
    buf_add_slice(&f->checkpoint, r->note.text);
    BUF_ADD(&f->checkpoint, "\n");
    buf_add_slice(&f->checkpoint, buf_slice(signatures));
    buf_add_slice(&f->checkpoint, buf_slice(&line));
    f->size = r->checkpoint.size;
    if (!is_signed) {
        say_reply(reply, 500, "the checkpoint cannot be signed");
    } else if (problem_buf(&why, &line, "the signature") ||
               problem_buf(&why, &f->checkpoint, "the checkpoint")) {
        say_reply(reply, 500, why.text);
    } else if (save(w, origin, f, &why)) {
        say_reply(reply, 500, "the checkpoint cannot be kept");
        w->options->on_text(why.text, NULL);
    } else {
        reply->status = 200;
        buf_add_slice(&reply->text, buf_slice(&line));
    }
    buf_fini(&line);
}

/* Judges a request. `reading_ms` 0: one that needs a reading is left for
 * later. */
static void
judge(struct witness *w, struct slice body, int64_t reading_ms,
      struct reply *reply)
{
    struct buf signatures = {.max = NOTE_BYTES_MAX};
    struct followed f = {.size = 0};
    struct problem why = {""};
    struct request r;
    char *origin = NULL, *url = NULL;
    unsigned status;

    reply->status = 0;
    w->is_unread = false;
    if (!read_request(body, &r)) {
        say_reply(reply, 400, "it is no request of add-checkpoint");
        return;
    }
    origin = slice_dup(r.checkpoint.origin);
    if (origin && strlen(origin) < NOTE_NAME_SIZE)
        url = find_set(w, r.checkpoint.origin);
    status = url ? check_signatures(w, &r, origin, &signatures) : 404;
    if (status)
        say_reply(reply, status,
                  status == 404 ? "this witness does not know the origin"
                                : "no key of the origin has signed it");
    else if (load(w, origin, &f, &why))
        say_reply(reply, 500, "the state of this witness cannot be read");
    else if (!check_request(&f, &r, reply) && reply->status == 422 &&
             r.old == r.checkpoint.size && r.old > 0)
        keep_contradiction(w, &f, &r, body, NULL);
    if (!reply->status && r.old < r.checkpoint.size) {
        reply->is_later = reading_ms == 0;
        if (reading_ms > 0) {
            compare_root(w, &f, &r, body, url, strrchr(origin, '/') + 1,
                         reading_ms, reply);
            if (reply->status && save(w, origin, &f, &why))
                w->options->on_text(why.text, NULL);
        }
    }
    if (!reply->status && !reply->is_later)
        cosign(w, origin, &f, &r, &signatures, reply);
    if (why.text[0])
        w->options->on_text(why.text, NULL);
    buf_fini(&signatures);
    buf_fini(&f.checkpoint);
    free(origin);
    free(url);
}

/* The server */

static void
on_request(struct arrival *arrival, struct reply *reply, void *user)
{
    struct witness *w = user;
    struct submission *one;

    if (!arrival->is_post && slice_ends(arrival->path, "/checkpoint")) {
        struct slice hash = arrival->path;

        hash.size -= sizeof("/checkpoint") - 1;
        if (hash.size >= 2 * DIGEST_SIZE)
            slice_skip(&hash, hash.size - 2 * DIGEST_SIZE);
        if (!db_find(&w->db, NULL, NULL, NULL,
                     "SELECT checkpoint FROM logs WHERE hash=?",
                     DB_VALUES(hash), DB_INTO(&reply->text)) &&
            reply->text.size > 0)
            reply->status = 200;
        return;
    }
    if (!arrival->is_post || !slice_ends(arrival->path, "/add-checkpoint"))
        return;
    judge(w, buf_slice(&arrival->body), 0, reply);
    if (!reply->is_later)
        return;
    one = w->n_waiting < WAITING_MAX ? memory_new(1, sizeof(*one)) : NULL;
    if (!one) {
        reply->is_later = false;
        say_reply(reply, 503, "too many requests wait");
        reply->retry_after_s = RETRY_S;
        return;
    }
    one->from = arrival->from;
    one->body = arrival->body;
    buf_init(&arrival->body, 0);
    list_append(&w->waiting, &one->node);
    w->n_waiting++;
    w->has_some = true;
    if (w->reader != w->client)
        timer_start(&w->timer, 0);
}

/* Judges the first request that waits. A reading that was not done in its time
 * goes on when nobody waits: the log asks again. */
static void
judge_next(struct witness *w)
{
    struct submission *one =
        list_entry(list_first(&w->waiting), struct submission, node);
    struct reply reply = {.text.max = NOTE_BYTES_MAX};

    list_remove(&one->node);
    w->n_waiting--;
    client_begin(w->reader);
    judge(w, buf_slice(&one->body), one->from ? READING_MS : LONGER_MS, &reply);
    if (one->from)
        callback_answer(one->from, &reply);
    buf_fini(&reply.text);
    if (one->from && w->is_unread && list_is_empty(&w->waiting)) {
        one->from = NULL;
        list_append(&w->waiting, &one->node);
        w->n_waiting++;
        return;
    }
    buf_fini(&one->body);
    free(one);
}

/* Life */

static void
on_timer(void *user)
{
    struct witness *w = user;

    if (!list_is_empty(&w->waiting))
        judge_next(w);
    if (!list_is_empty(&w->waiting))
        timer_start(&w->timer, 0);
}

enum status
witness_open(struct td_client *client, struct td_client *reader,
             const struct witness_options *options, struct witness **witness)
{
    struct witness *w = memory_new(1, sizeof(*w));
    struct file_path path = file_path("%s/" STATE_FILE, options->dir);
    struct problem *why = &client->problem;
    char key[NOTE_KEY_SIZE];
    enum status rc = w ? STATUS_OK : problem_memory(why);

    *witness = w;
    if (!w)
        return rc;
    w->options = options;
    w->client = client;
    w->reader = reader;
    list_init(&w->waiting);
    timer_init(&w->timer, client->loop, on_timer, w);
    for (char *const *at = options->urls; *at && !rc; at++)
        rc = client_add_source(reader, *at);
    if (!rc && td_callback_open(client, options->listen, NULL, &w->callback))
        rc = STATUS_IO;
    if (!rc)
        rc = file_make_dirs(options->dir, why);
    if (!rc)
        rc = db_open_kind(&w->db, &kind, path.text, why);
    if (!rc)
        rc = open_key(w, why);
    if (!rc)
        w->callback->only = route_new(w->callback, BODY_MAX, on_request, w);
    if (!rc && !w->callback->only)
        rc = problem_memory(why);
    if (rc)
        return rc;
    note_key_write(key, &w->own);
    options->on_ready(td_callback_url(w->callback), key);
    return STATUS_OK;
}

void
witness_close(struct witness *w)
{
    struct submission *one;

    if (!w)
        return;
    timer_stop(&w->timer);
    list_until_empty (one, &w->waiting, node) {
        list_remove(&one->node);
        buf_fini(&one->body);
        free(one);
    }
    if (w->callback)
        route_free(w->callback->only);
    td_callback_close(w->callback);
    db_close(&w->db);
    signing_key_free(w->signing);
    free(w);
}

enum status
witness_run(struct td_client *client, const struct witness_options *options)
{
    struct witness *w;
    enum status rc;

    client_begin(client);
    rc = witness_open(client, client, options, &w);
    while (!rc) {
        w->has_some = !list_is_empty(&w->waiting);
        rc = w->has_some ? STATUS_OK
                         : client_wait(client, 3600000, &w->has_some);
        if (!rc && !list_is_empty(&w->waiting))
            judge_next(w);
    }
    witness_close(w);
    return rc;
}
