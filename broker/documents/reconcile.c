#include "broker/documents/reconcile.h"

#include "base/array.h"
#include "broker/documents/documents.h"
#include "broker/state/resources.h"
#include "proto/resourcesync/negentropy.h"

/* The most ranges of a message, and the ids that one costs: below a second. To
 * find the first id of a range costs as many as WALK_WORK. */
#define RANGES_MAX 16384
#define WORK_MAX   400000
#define WALK_WORK  10

/* The resources of a set at one moment. */
struct present {
    struct negentropy_ids ids; /* of the state */
    struct document_wish wish;
    struct coverage at;
    bool is_small;
    struct db db; /* not of a small set */
    struct id_sum sums[RESOURCE_PARTS];
    struct buf lines;   /* of a small set: its entries */
    struct digest *all; /* and their ids, in the order of the lines */
    size_t n, capacity;
};

/* Small sets */

static enum status
read_small(struct present *p, struct problem *why)
{
    struct document document;
    struct lines lines;
    struct slice line;
    enum status rc;

    p->lines.max = RECONCILE_ENTRIES_MAX;
    rc = past_resources_open(&p->wish, &document, why);
    if (rc)
        return rc;
    lines_init(&lines, document.body);
    while (!rc && !(rc = lines_next(&lines, &line))) {
        if (!slice_starts(line, "<url>"))
            continue;
        if (!ONE_MORE(p->all, &p->capacity, p->n))
            rc = problem_memory(why);
        else
            fragment_id(&p->all[p->n++], line);
        buf_add_slice(&p->lines, line);
    }
    buf_fini(&lines.line);
    document_close(&document);
    return rc == STATUS_NOT_FOUND ? STATUS_OK : rc;
}

/* States */

static enum status
walk_keys(struct negentropy_ids *ids, const struct digest *from,
          const struct digest *to, negentropy_fn *fn, void *user,
          struct problem *why)
{
    struct present *p = (struct present *)(void *)ids;
    struct digest last;
    struct slice key;
    uint64_t rest[2];
    struct digest id;
    struct db_rows rows;

    memset(&last, 0xff, sizeof(last));
    rows = DB_SELECT(&p->db, NULL, why,
                     "SELECT key, rest1, rest2 FROM keys"
                     " WHERE key BETWEEN ? AND ? ORDER BY key",
                     db_bytes(from, RESOURCE_KEY_SIZE),
                     db_bytes(to ? to : &last, RESOURCE_KEY_SIZE));
    ids->work += WALK_WORK;
    while (DB_NEXT(&rows, &key, &rest[0], &rest[1])) {
        resource_row_id(&id, key.data, rest);
        ids->work++;
        if (memcmp(&id, from, sizeof(id)) < 0)
            continue;
        if ((to && memcmp(&id, to, sizeof(id)) >= 0) || !fn(&id, user))
            break;
    }
    return db_rows_end(&rows);
}

static enum status
read_state(struct present *p, uint64_t least, struct problem *why)
{
    struct set *set = p->wish.set;
    struct buf sums = {.max = RESOURCE_SUMS_SIZE};
    bool is_ready = false, is_whole = true;
    enum status rc =
        db_open(&p->db, set_path(set, RESOURCES_FILE).text, DB_READER, why);

    if (!rc)
        effort_watch(p->wish.effort, &p->db);
    if (!rc)
        rc = db_exec(&p->db, "BEGIN", why); /* one moment for all queries */
    if (!rc)
        rc = db_find(&p->db, NULL, why, &is_ready,
                     "SELECT seq, us, sums, is_whole FROM state"
                     " WHERE epoch=? AND seq>=?"
                     " AND (length(ids)>? OR NOT is_whole)",
                     DB_VALUES(p->wish.head.origin, least, RESOURCE_KEY_SIZE),
                     DB_INTO(&p->at.last, &p->at.until_us, &sums, &is_whole));
    resource_sums_read(p->sums, buf_slice(&sums));
    buf_fini(&sums);
    if (p->at.last < p->wish.head.last)
        atomic_store_explicit(&set->ids_wanted, p->wish.head.last,
                              memory_order_relaxed);
    if (rc || !is_ready)
        return problem(why, STATUS_BUSY,
                       "the broker is still counting the resources of the set");
    if (!is_whole)
        return problem(why, STATUS_GONE,
                       "the broker does not know all resources of the set: its "
                       "log no longer has the first changes");
    p->ids.walk = walk_keys;
    p->ids.parts = p->sums;
    return STATUS_OK;
}

static enum status
open_present(struct present *p, const struct document_wish *wish,
             uint64_t least, struct problem *why)
{
    const struct head *head = &wish->head;

    *p = (struct present){.wish = *wish};
    p->is_small = head->last == 0 || set_is_small(wish->set, head);
    p->wish.kind = GENERATION_RESOURCELIST;
    p->wish.page = 1;
    p->wish.patience = LOG_DISK;
    p->wish.at_us = DATETIME_NONE;
    memcpy(p->at.epoch, head->epoch, sizeof(p->at.epoch));
    p->at.now_us = DATETIME_NONE;
    p->at.last = p->is_small ? head->last : 0;
    p->at.until_us = head->last_us;
    return p->is_small ? read_small(p, why) : read_state(p, least, why);
}

/* Adds the entry of a resource. False: there is no room. */
static bool
add_entry(struct buf *to, struct slice entry)
{
    size_t size = entry.size + document_footer_of(DOCUMENT_URLSET).size;

    if (to->size + size > RECONCILE_ENTRIES_MAX)
        return false;
    buf_add_slice(to, entry);
    return true;
}

static enum status
add_entries(struct buf *to, struct present *p, struct slice ids,
            struct problem *why)
{
    struct slice lines = buf_slice(&p->lines), entry;
    bool has_room = true;
    enum status rc = STATUS_OK;

    for (size_t i = 0; i < p->n && has_room; i++) {
        entry = slice_take(&lines, '\n');
        entry.size++; /* with the end of the line */
        for (size_t k = 0; k < ids.size; k += DIGEST_SIZE)
            if (!memcmp(ids.data + k, &p->all[i], RESOURCE_ID_HALF)) {
                has_room = add_entry(to, entry);
                break;
            }
    }
    for (size_t k = 0; !p->is_small && !rc && has_room && k < ids.size;
         k += DIGEST_SIZE) {
        struct db_rows rows =
            DB_SELECT(&p->db, NULL, why,
                      "SELECT entry FROM keys CROSS JOIN resources USING (id)"
                      " WHERE key=?",
                      db_bytes(ids.data + k, RESOURCE_KEY_SIZE));

        if (DB_NEXT(&rows, &entry))
            has_room = add_entry(to, entry);
        rc = db_rows_end(&rows);
    }
    return rc;
}

enum status
reconcile_answer(struct buf *to, const struct document_wish *wish,
                 uint64_t least, struct slice body, bool wants_entries,
                 uint64_t *seq, struct problem *why)
{
    struct present p;
    struct negentropy_array array;
    struct negentropy n = {.ids = &p.ids,
                           .max_bytes = RECONCILE_ANSWER_MAX,
                           .max_ranges = RANGES_MAX,
                           .max_work = WORK_MAX};
    enum status rc;

    if (wants_entries && (body.size % DIGEST_SIZE ||
                          body.size > RECONCILE_IDS_MAX * DIGEST_SIZE))
        return problem(why, STATUS_MALFORMED,
                       "the body has no ids of 32 bytes each, at most %d",
                       RECONCILE_IDS_MAX);
    rc = open_present(&p, wish, least, why);
    *seq = p.at.last;
    if (!rc && wants_entries) {
        document_begin(to, wish, DOCUMENT_URLSET, CAP_RESOURCELIST,
                       DATETIME_NONE, NULL, (struct link_text){.size = 0},
                       &p.at);
        rc = add_entries(to, &p, body, why);
        document_footer(to, DOCUMENT_URLSET);
    } else if (!rc) {
        if (p.is_small) {
            negentropy_array_init(&array, p.all, p.n);
            n.ids = &array.ids;
        }
        rc = negentropy_answer(&n, body, to, why);
    }
    db_close(&p.db);
    buf_fini(&p.lines);
    free(p.all);
    return effort_why(wish->effort, rc, why);
}
