#include "client/mirror/reconcile.h"

#include "base/array.h"
#include "base/clock.h"
#include "client/follow/change_batch.h"
#include "client/lib/fetch.h"
#include "client/lib/pause.h"
#include "client/source/set.h"
#include "proto/resourcesync/negentropy.h"
#include "proto/resourcesync/position.h"

/* The most requests for differences: a source that always has one more goes on
 * for ever. */
#define ROUNDS_MAX 64

#define MESSAGE_MAX (256 * 1024)
#define ENTRIES_MAX (16 * 1024 * 1024)
#define RANGES_MAX  65536

/* Ids in one request for entries, as the broker takes them. */
#define IDS_MAX 1000

#define TEXT_MAX (1024 * 1024)

struct own {
    struct digest id;
    int64_t row;
};

struct reconciliation {
    struct mirror *m;
    struct reconcile_counts *counts;
    int64_t set;
    char *url;
    char href[4 * URI_CHARACTERS_MAX + 1];
    struct position place;           /* of the database before the comparison */
    char answered[TD_POSITION_SIZE]; /* what the last answer is of */
    struct own *own;                 /* sorted by id */
    size_t n, capacity;
    struct digest *ids;
    struct negentropy_array array;
    struct buf have, need; /* ids */
    struct buf hash, links;
    struct change_batch changes; /* entries that came */
};

/* Requests */

struct asking {
    struct reconciliation *r;
    struct buf *answer;
};

static bool
on_answer(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct asking *asking = user;

    snprintf(asking->r->answered, TD_POSITION_SIZE, "%s", answer->position);
    buf_add_slice(asking->answer, bytes);
    return !asking->answer->failed;
}

/* Posts `body`, and waits while the source still counts. `answer` gets the
 * bytes of the answer. */
static enum status
ask(struct reconciliation *r, const char *query, struct slice body,
    size_t max_bytes, struct buf *answer, struct problem *why)
{
    static const char *const headers[] = {
        "Content-Type: application/octet-stream", NULL};
    struct td_client *client = r->m->client;
    char position[TD_POSITION_SIZE], url[sizeof(r->href) + 256];
    const struct fetch_request request = {
        .url = url, .headers = headers, .body = &body, .max_bytes = max_bytes};
    struct asking asking = {r, answer};
    struct fetch_answer got;
    unsigned pause_ms = PAUSE_FIRST, ms;
    int64_t begun_ms = clock_steady_ms();
    enum status rc;

    buf_init(answer, max_bytes);
    if (!mirror_db_set(&r->m->db, r->url, &r->set, position))
        return problem(why, STATUS_IO, "%s", r->m->why.text);
    snprintf(url, sizeof(url), "%s?after=%s%s", r->href, position, query);
    for (;;) {
        r->counts->n_requests++;
        rc = fetch_run(client, &request, on_answer, &asking, &got);
        ms = pause_asked(&pause_ms, 5000, got.retry_after_s);
        if (rc || got.status != 503 ||
            !pause_within(PATIENCE_DEFAULT, clock_steady_ms() - begun_ms,
                          got.retry_after_s, &ms))
            break;
        buf_fini(&got.body);
        if (client_wait(client, ms, NULL))
            return problem(why, STATUS_STOPPED, "stopped");
    }
    if (!rc && got.status != 200)
        rc = fetch_refused(&client->problem, &got);
    else if (answer->failed)
        rc = problem_buf(&client->problem, answer, r->href);
    buf_fini(&got.body);
    if (rc && why)
        *why = client->problem;
    return rc;
}

/* Finding */

static void
id_of(const struct mirror_db_description *d, struct digest *id)
{
    resource_id_plain(id, d->loc, d->hash, d->length, d->lastmod_us);
}

static int
compare_own(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct digest));
}

static bool
read_own(struct reconciliation *r)
{
    struct mirror_db_description d;
    int64_t row = 0;

    do {
        if (!mirror_db_next_description(&r->m->db, r->set, row, &row, &d))
            return false;
        if (row && !ONE_MORE(r->own, &r->capacity, r->n))
            return mirror_fail_memory(r->m);
        if (row) {
            id_of(&d, &r->own[r->n].id);
            r->own[r->n++].row = row;
        }
    } while (row);
    if (r->n)
        qsort(r->own, r->n, sizeof(*r->own), compare_own);
    r->ids = memory_new(r->n + 1, sizeof(*r->ids));
    if (!r->ids)
        return mirror_fail_memory(r->m);
    for (size_t i = 0; i < r->n; i++)
        r->ids[i] = r->own[i].id;
    negentropy_array_init(&r->array, r->ids, r->n);
    return true;
}

struct reconciliation *
reconcile_new(struct mirror *m, const char *url,
              struct reconcile_counts *counts)
{
    struct reconciliation *r = memory_new(1, sizeof(*r));

    if (!r)
        return NULL;
    r->m = m;
    r->counts = counts;
    r->url = slice_dup(slice_of(url));
    r->have.max = r->need.max = RECONCILE_MOST * DIGEST_SIZE;
    r->hash.max = r->links.max = TEXT_MAX;
    change_batch_init(&r->changes, TD_JSON);
    if (r->url && set_link(m->client, url, "urn:tidings:1:reconcile", r->href,
                           sizeof(r->href)))
        return r;
    reconcile_free(r);
    return NULL;
}

enum status
reconcile_find(struct reconciliation *r, struct problem *why)
{
    struct negentropy n = {.ids = &r->array.ids,
                           .max_bytes = MESSAGE_MAX,
                           .max_ranges = RANGES_MAX,
                           .have = &r->have,
                           .need = &r->need};
    struct buf question = {.max = 2 * MESSAGE_MAX}, answer;
    char position[TD_POSITION_SIZE];
    enum status rc;

    if (!mirror_db_set(&r->m->db, r->url, &r->set, position) || !read_own(r))
        return problem(why, STATUS_IO, "%s", r->m->why.text);
    if (position_read(slice_of(position), &r->place))
        return problem(why, STATUS_INVALID, "%s is no position of a log",
                       position);
    rc = negentropy_begin(&n, &question, why);
    for (unsigned i = 0; !rc && question.size > 0; i++) {
        if (i == ROUNDS_MAX) {
            rc = problem(why, STATUS_MALFORMED,
                         "%.800s: the comparison has no end", r->href);
            break;
        }
        rc = ask(r, "", buf_slice(&question), 2 * MESSAGE_MAX, &answer, why);
        buf_clear(&question);
        if (!rc)
            rc = negentropy_compare(&n, buf_slice(&answer), &question, why);
        buf_fini(&answer);
    }
    r->counts->n_differing += (r->have.size + r->need.size) / DIGEST_SIZE;
    buf_fini(&question);
    return rc == STATUS_STOPPED && (r->have.failed || r->need.failed)
               ? problem(why, STATUS_TOO_LARGE, "more than %d resources differ",
                         RECONCILE_MOST)
               : rc;
}

bool
reconcile_is_current(const struct reconciliation *r)
{
    struct position at;

    return !position_read(slice_of(r->answered), &at) &&
           !strcmp(at.epoch, r->place.epoch) && at.seq == r->place.seq;
}

/* Settling */

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    struct reconciliation *r = user;

    (void)head;
    return change_batch_keep(&r->changes, &entry->change) ? STATUS_OK
                                                          : STATUS_MEMORY;
}

/* Takes the id of a loc out of the first `n` that are needed. */
static void
take_need(struct reconciliation *r, size_t *n, const char *loc)
{
    struct digest key;

    resource_id_plain(&key, slice_of(loc), SLICE(""), 0, 0);
    for (size_t i = 0; i < *n; i++) {
        char *id = r->need.data + i * DIGEST_SIZE;

        if (memcmp(id, &key, RESOURCE_ID_HALF) != 0)
            continue;
        memmove(id, id + DIGEST_SIZE,
                r->need.size - (size_t)(id - r->need.data) - DIGEST_SIZE);
        r->need.size -= DIGEST_SIZE;
        --*n;
        --i;
    }
}

/* Describes the entries that came and are no lag. */
static bool
describe_entries(struct reconciliation *r, size_t *n)
{
    struct td_change *all = change_batch_seal(&r->changes);
    struct mirror_db_description d;
    int64_t row;

    for (size_t i = 0; i < change_batch_count(&r->changes); i++) {
        struct td_change *c = &all[i];

        if (!c->loc)
            continue;
        take_need(r, n, c->loc);
        c->datetime = NULL;
        if (c->seq > r->place.seq)
            continue;
        if (!mirror_describe(r->m, c, true, &r->hash, &r->links, &d))
            return mirror_fail_memory(r->m);
        if (!mirror_db_describe(&r->m->db, r->set, &d, &row))
            return false;
    }
    return true;
}

/* Fetches entries of the first ids that are needed. Drops ids that the source
 * no longer has. */
static enum status
fetch_entries(struct reconciliation *r, struct problem *why)
{
    static const struct document_events events = {.on_entry = on_entry};
    size_t n = r->need.size / DIGEST_SIZE, before;
    struct document *document;
    struct buf answer;
    enum status rc;

    n = before = n < IDS_MAX ? n : IDS_MAX;
    change_batch_clear(&r->changes);
    rc = ask(r, "&entries=yes", (struct slice){r->need.data, n * DIGEST_SIZE},
             ENTRIES_MAX, &answer, why);
    document = document_new(r->href, &events, r);
    if (!rc && !document)
        rc = problem_memory(why);
    if (!rc)
        rc = document_feed(document, buf_slice(&answer), why);
    if (!rc)
        rc = document_end(document, why);
    document_free(document);
    buf_fini(&answer);
    if (!rc && !describe_entries(r, &n))
        return problem(why, STATUS_IO, "%s", r->m->why.text);
    if (!rc && n == before) {
        r->need.size -= n * DIGEST_SIZE;
        memmove(r->need.data, r->need.data + n * DIGEST_SIZE, r->need.size);
    }
    return rc;
}

/* Deletes what only the database has, and has still. */
static bool
delete_own(struct reconciliation *r)
{
    struct mirror_db *db = &r->m->db;
    struct mirror_db_description d;
    struct digest id;
    int64_t row;

    for (size_t i = 0; i < r->have.size; i += DIGEST_SIZE) {
        const struct own *own = bsearch(r->have.data + i, r->own, r->n,
                                        sizeof(*r->own), compare_own);
        char *loc;
        bool is_good;

        if (!mirror_db_next_description(db, r->set, own->row - 1, &row, &d))
            return false;
        if (row != own->row)
            continue;
        id_of(&d, &id);
        if (!digest_is_equal(&id, &own->id))
            continue;
        loc = slice_dup(d.loc);
        d.loc = slice_of(loc);
        d.is_deleted = true;
        is_good = mirror_db_describe(db, r->set, &d, &row);
        free(loc);
        if (!is_good)
            return false;
    }
    return true;
}

enum status
reconcile_settle(struct reconciliation *r, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (!mirror_write(r->m))
        return problem(why, STATUS_IO, "%s", r->m->why.text);
    while (!rc && r->need.size > 0)
        rc = fetch_entries(r, why);
    if (!rc && !(delete_own(r) && mirror_db_commit(&r->m->db)))
        rc = problem(why, STATUS_IO, "%s", r->m->why.text);
    return rc;
}

void
reconcile_free(struct reconciliation *r)
{
    if (!r)
        return;
    change_batch_fini(&r->changes);
    buf_fini(&r->have);
    buf_fini(&r->need);
    buf_fini(&r->hash);
    buf_fini(&r->links);
    free(r->url);
    free(r->own);
    free(r->ids);
    free(r);
}
