#include "broker/archive/upload_apply.h"

#include <unistd.h>

#include "broker/archive/contents.h"
#include "broker/state/upload_file.h"

/* Bytes of a commit, roughly. */
#define PART_BYTES ((size_t)16 << 20)

/* Batches of other posts read in a step; and rows compared. */
#define STEP_BATCHES 64
#define STEP_ROWS    10000

#define WHAT "compare with the state"

/* differences: `staged` is the id of a created or updated resource, `fragment`
 * the entry of a deleted one, with its `hole`. */
static const char *const tables =
    "CREATE TABLE news(key BLOB PRIMARY KEY) WITHOUT ROWID;"
    "CREATE TABLE differences("
    " n INTEGER PRIMARY KEY, kind INTEGER NOT NULL, key BLOB NOT NULL,"
    " staged INTEGER, hole INTEGER, fragment BLOB)";

/* The state of a set that does not exist has no resources. */
static const char *const no_state =
    "ATTACH ':memory:' AS state;"
    "CREATE TABLE state.resources("
    " id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, entry BLOB NOT NULL);"
    "CREATE TABLE state.keys("
    " key BLOB PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID";

enum phase { PHASE_FOLDING, PHASE_NEWS, PHASE_COMPARING, PHASE_POSTING };

struct upload_apply {
    struct registry *registry;
    const char *dir;       /* lent */
    struct upload *upload; /* likewise */
    struct upload_file_about about;
    bool is_accepted;
    struct set *set; /* NULL: it does not exist */
    enum phase phase;
    uint64_t read;   /* the log up to that seq */
    uint64_t began;  /* the state begins behind this entry */
    bool is_healing; /* the state becomes whole */

    /* The comparison */
    struct file_path work;
    struct db db;
    struct upload_counts counts;  /* of the posted changes */
    bool is_holding;              /* holds deletions back */
    uint64_t n_changed;           /* resources that others have changed after
                                     the body began to arrive */
    uint64_t staged;              /* compared so far, by id */
    bool is_staged_done;          /* then comes the state, by key */
    struct resource_key compared; /* the last compared key of the state */
    bool has_compared;
    struct buf deleted;

    /* The changes to be posted together. */
    int64_t given; /* the number of the last difference of them */
    struct buf bytes;
    struct fragment *fragments; /* room for UPLOAD_APPLY_ENTRIES */
    size_t n;
};

/* Opening */

static enum status
attach_database(struct upload_apply *a, const char *path, const char *attach,
                const char *limit, struct problem *why)
{
    enum status rc = DB_DO(&a->db, WHAT, why, attach, path);

    return rc ? rc : db_exec(&a->db, limit, why);
}

enum status
upload_apply_open(struct upload_apply **apply, struct registry *registry,
                  const char *dir, struct upload *upload, struct problem *why)
{
    struct upload_apply *a = memory_new(1, sizeof(*a));
    struct upload_file_about *about = &a->about;
    struct file_path path;
    bool is_there;
    enum status rc;

    a->registry = registry;
    a->dir = dir;
    a->upload = upload;
    upload->outcome = (struct upload_outcome){.status = STATUS_OK};
    buf_init(&a->deleted, FRAGMENT_MAX);
    buf_init(&a->bytes, PART_BYTES);
    a->fragments = memory_new(UPLOAD_APPLY_ENTRIES, sizeof(*a->fragments));
    a->work = file_path("%s/%s.work", dir, upload->name);
    rc = a->fragments ? STATUS_OK : problem_memory(why);
    if (!rc && upload_file_path(dir, upload->name, &path, &a->is_accepted))
        rc = problem(why, STATUS_NOT_FOUND, "what arrived of %s is not there",
                     upload->name);
    unlink(a->work.text);
    if (!rc)
        rc = db_open(&a->db, a->work.text, DB_SMALL, why);
    /* The file is worthless after a crash: no journal, no fsync. */
    if (!rc)
        rc = db_exec(&a->db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF",
                     why);
    if (!rc) /* the WAL of the state belongs to its owner */
        sqlite3_db_config(a->db.handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                          NULL);
    if (!rc)
        rc = db_exec(&a->db, tables, why);
    if (!rc)
        rc = attach_database(a, path.text, "ATTACH ? AS up",
                             "PRAGMA up.cache_size=-8192", why);
    /* `accepted` and `left_out` are NULL, and so 0, in a file of an earlier
     * version. */
    if (!rc)
        rc = db_find(
            &a->db, WHAT, why, &is_there, "SELECT * FROM up.about", DB_VALUES(),
            DB_INTO(&about->epoch, &about->after, &about->max_delete, &about->n,
                    &about->accepted, &about->left_out, &about->traceparent));
    if (!rc && !is_there)
        rc = problem(why, STATUS_IO, "what arrived does not say whose it is");
    if (rc) {
        upload_apply_close(a);
        return rc;
    }
    db_heed(&a->db, log_ending(registry->log));
    a->read = a->about.after;
    *apply = a;
    return STATUS_OK;
}

void
upload_apply_close(struct upload_apply *a)
{
    if (!a)
        return;
    if (a->db.handle)
        db_close(&a->db);
    unlink(a->work.text);
    buf_fini(&a->deleted);
    buf_fini(&a->bytes);
    free(a->fragments);
    free(a);
}

/* Reads the head of the set. STATUS_GONE: the set of the upload was removed. */
static enum status
look_for_upload(struct upload_apply *a, struct head *head, struct problem *why)
{
    memset(head, 0, sizeof(*head));
    if (!a->set)
        a->set = registry_find(a->registry, slice_of(a->upload->name), head);
    else if (!log_head(a->set->log, head))
        return problem(why, STATUS_GONE, "the set was removed meanwhile");
    if (a->about.epoch[0] &&
        (!a->set || strcmp(head->epoch, a->about.epoch) != 0))
        return problem(why, STATUS_GONE, "the set was removed meanwhile");
    memcpy(a->upload->outcome.epoch, head->epoch, sizeof(head->epoch));
    a->upload->outcome.head = head->last;
    return STATUS_OK;
}

/* The state */

static enum status
fold_state(struct upload_apply *a, struct state_fold *folding,
           struct problem *why)
{
    uint64_t after = a->about.after;
    struct resources *resources = NULL;
    struct head head;
    bool is_more = false;
    enum status rc = look_for_upload(a, &head, why);

    if (!rc && a->set)
        rc = state_fold_open(folding, a->set, &resources, why);
    if (rc)
        return rc;
    if (resources && resources_at(resources)->seq < after)
        return folding->held == a->set
                   ? STATUS_RUNNING
                   : state_fold_step(folding, a->set, &is_more, why);
    a->upload->outcome.resources = resources ? resources_at(resources)->n : 0;
    if (resources) {
        a->began = resources_at(resources)->began;
        /* Otherwise other posts may name resources unknown to the state.
         */
        a->is_healing = !resources_at(resources)->is_whole && a->began <= after;
    }
    a->phase = PHASE_NEWS;
    return a->set ? attach_database(a, set_path(a->set, RESOURCES_FILE).text,
                                    "ATTACH ? AS state",
                                    "PRAGMA state.cache_size=-8192", why)
                  : db_exec(&a->db, no_state, why);
}

/* News */

/* Reads some entries of the log, up to entry `upto`, and notes the resources
 * that others have changed with them. */
static enum status
read_news(struct upload_apply *a, uint64_t upto, struct problem *why)
{
    struct log *log = a->registry->log;
    enum status rc = STATUS_OK;

    for (int i = 0; !rc && i < STEP_BATCHES && a->read < upto; i++) {
        struct batch *batch = NULL;

        rc = log_read(log, a->set->log, a->read, LOG_DISK, &batch, why);
        if (rc == STATUS_GONE) {
            /* No longer retained: the state has most of these entries. */
            struct head head;

            rc = look_for_upload(a, &head, why);
            if (rc || head.earliest <= a->read)
                return rc ? rc : problem(why, STATUS_IO, "cannot read the log");
            a->read = head.earliest;
            continue;
        }
        if (rc || !batch)
            return rc;
        for (; !rc && a->read < batch->last && a->read < upto; a->read++) {
            struct resource_key key;

            resource_key(
                &key, fragment_loc(batch_slice(batch, a->read, a->read + 1)));
            rc = DB_DO(&a->db, WHAT, why,
                       "INSERT OR IGNORE INTO news(key) VALUES(?)",
                       db_bytes(&key, sizeof(key)));
        }
        batch_unref(batch);
    }
    return rc;
}

/* Reads on in the log. *is_there: it has come to the end. */
static enum status
catch_up(struct upload_apply *a, bool *is_there, struct problem *why)
{
    struct head head;
    enum status rc = look_for_upload(a, &head, why);

    if (!rc && a->set)
        rc = read_news(a, head.last, why);
    *is_there = !a->set || a->read >= head.last;
    return rc;
}

/* Comparing */

static enum status
compare_some_staged(struct upload_apply *a, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&a->db, WHAT, why,
                  "SELECT id, hole, fragment FROM up.staged WHERE id>?"
                  " ORDER BY id LIMIT ?",
                  a->staged, STEP_ROWS);
    struct slice fragment;
    uint32_t hole;
    unsigned n = 0;

    while (DB_NEXT(&rows, &a->staged, &hole, &fragment)) {
        bool is_there, is_same = false, is_left = false;
        struct resource_key key;
        struct db_rows state;
        struct slice entry;
        uint64_t seq;

        n++;
        resource_key(&key, fragment_loc(fragment));
        state = DB_SELECT(&a->db, WHAT, why,
                          "SELECT r.seq, r.entry FROM state.keys k"
                          " JOIN state.resources r ON r.id=k.id WHERE k.key=?",
                          db_bytes(&key, sizeof(key)));
        is_there = DB_NEXT(&state, &seq, &entry);
        if (is_there) {
            /* The state may have a newer change than the body, which the log
             * may no longer have. */
            is_same = fragment_is_resource(fragment, hole, entry);
            is_left = seq > a->about.after;
            a->n_changed += is_left;
            is_left = is_left && !is_same;
        }
        rows.rc = db_rows_end(&state);
        a->counts.newer += is_left;
        a->counts.unchanged += is_same;
        if (!rows.rc && !is_same && !is_left)
            rows.rc = DB_DO(&a->db, WHAT, why,
                            "INSERT INTO differences(kind, key, staged)"
                            " VALUES(?,?,?)",
                            is_there ? CHANGE_UPDATED : CHANGE_CREATED,
                            db_bytes(&key, sizeof(key)), a->staged);
    }
    a->is_staged_done = n < STEP_ROWS;
    return db_rows_end(&rows);
}

/* Handles a resource that only the state has. */
static enum status
compare_missing(struct upload_apply *a, int64_t id, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&a->db, WHAT, why,
                  "SELECT seq, entry FROM state.resources WHERE id=?", id);
    struct fragment fragment;
    struct slice entry;
    uint64_t seq;
    bool is_left = false;
    enum status rc;

    if (DB_NEXT(&rows, &seq, &entry)) {
        is_left = seq > a->about.after;
        buf_clear(&a->deleted);
        fragment_write_deleted(&a->deleted, entry, &fragment);
    } else if (!rows.rc) {
        rows.rc = problem(why, STATUS_IO, "the state lacks a row");
    }
    rc = db_rows_end(&rows);
    a->counts.newer += is_left;
    a->n_changed += is_left;
    if (rc || is_left)
        return rc;
    if (a->deleted.failed)
        return problem_memory(why);
    return DB_DO(&a->db, WHAT, why,
                 "INSERT INTO differences(kind, key, hole, fragment)"
                 " VALUES(?,?,?,?)",
                 CHANGE_DELETED, db_bytes(&a->compared, sizeof(a->compared)),
                 fragment.hole, db_blob(buf_slice(&a->deleted)));
}

static enum status
compare_some_of_state(struct upload_apply *a, bool *is_more,
                      struct problem *why)
{
    const struct resource_key from = a->compared; /* a->compared changes */
    struct db_rows rows = DB_SELECT(
        &a->db, WHAT, why,
        "SELECT k.key, k.id,"
        " EXISTS(SELECT 1 FROM up.keys u WHERE u.key=k.key)"
        " FROM state.keys k WHERE k.key>? ORDER BY k.key LIMIT ?",
        db_bytes(&from, a->has_compared ? sizeof(from) : 0), STEP_ROWS);
    struct slice key;
    bool is_in_both;
    unsigned n = 0;
    int64_t id;

    while (DB_NEXT(&rows, &key, &id, &is_in_both)) {
        n++;
        if (key.size != sizeof(a->compared)) {
            rows.rc = problem(why, STATUS_IO,
                              "the state has a key of %zu bytes", key.size);
            break;
        }
        memcpy(&a->compared, key.data, key.size);
        a->has_compared = true;
        if (!is_in_both)
            rows.rc = compare_missing(a, id, why);
    }
    *is_more = n == STEP_ROWS;
    return db_rows_end(&rows);
}

static void
count_one(const struct upload_apply *a, struct upload_counts *counts,
          enum change_kind kind, bool is_news)
{
    if (is_news)
        counts->newer++;
    else if (kind == CHANGE_DELETED && a->is_holding)
        counts->held_back++;
    else if (kind == CHANGE_CREATED)
        counts->created++;
    else if (kind == CHANGE_UPDATED)
        counts->updated++;
    else
        counts->deleted++;
}

/* Posts the deletions, or holds them back, as of the news so
 * far. After a crash an accepted upload stays accepted. Any other upload is
 * judged again, without the resources that its own posts have added. */
static enum status
judge_deletions(struct upload_apply *a, struct problem *why)
{
    /* Without GROUP BY, which would sort in a temporary file. */
    struct db_rows rows =
        DB_SELECT(&a->db, WHAT, why,
                  "SELECT kind, EXISTS(SELECT 1 FROM news"
                  " WHERE news.key=differences.key) FROM differences");
    const struct upload_file_about *about = &a->about;
    uint64_t *n_of = &a->upload->outcome.resources;
    struct upload_counts counts = {.deleted = 0};
    enum change_kind kind;
    bool is_news;
    enum status rc;

    while (DB_NEXT(&rows, &kind, &is_news))
        count_one(a, &counts, kind, is_news);
    rc = db_rows_end(&rows);
    *n_of -= a->n_changed < *n_of ? a->n_changed : *n_of;
    if (rc || a->is_accepted)
        return rc;
    if (counts.deleted <= about->accepted ||
        (about->left_out == 0 && about->max_delete > 0 &&
         (counts.deleted <= UPLOADS_FEW ||
          counts.deleted * 100 <= about->max_delete * *n_of)))
        return upload_file_take(a->dir, a->upload->name, why);
    a->is_holding = true;
    return STATUS_OK;
}

/* Posting */

/* Adds a change, with the trace of the upload if there is room for it. */
static void
add_fragment(struct upload_apply *a, struct slice fragment, uint32_t hole)
{
    struct slice trace = slice_of(a->about.traceparent);

    buf_add(&a->bytes, fragment.data, hole);
    if (trace.size > 0 && fragment.size + FRAGMENT_TRACEPARENT_SIZE <=
                              FRAGMENT_MAX - FRAGMENT_STAMP_MAX)
        fragment_add_traceparent(&a->bytes, trace);
    buf_add_slice(&a->bytes, slice_from(fragment, hole));
}

/* Gathers the next changes, as many as there is room for; a->n = 0: there are
 * no more. */
static enum status
next_changes(struct upload_apply *a, struct problem *why)
{
    struct db_rows rows = DB_SELECT(
        &a->db, WHAT, why,
        "SELECT d.n, d.kind, EXISTS(SELECT 1 FROM news WHERE news.key=d.key),"
        " ifnull(s.hole, d.hole), ifnull(s.fragment, d.fragment)"
        " FROM differences d LEFT JOIN up.staged s ON s.id=d.staged"
        " WHERE d.n>? ORDER BY d.n",
        a->given);
    /* In a cluster the content of all has to fit into one record. */
    size_t most =
        log_is_shared(a->registry->log) &&
                registry_content(a->registry, slice_of(a->upload->name)) ==
                    CONTENT_INLINE
            ? CONTENT_POST_MAX / CONTENT_CARRIED_MAX
            : UPLOAD_APPLY_ENTRIES;
    enum change_kind kind;
    struct slice fragment;
    uint32_t hole;
    bool is_news;
    int64_t n;

    buf_clear(&a->bytes);
    a->n = 0;
    while (a->n < most &&
           DB_NEXT(&rows, &n, &kind, &is_news, &hole, &fragment)) {
        if (!is_news && !(kind == CHANGE_DELETED && a->is_holding)) {
            size_t start = a->bytes.size;

            if (a->n > 0 && start + fragment.size + FRAGMENT_TRACEPARENT_SIZE >
                                a->bytes.max)
                break; /* there is no room for it */
            add_fragment(a, fragment, hole);
            if (!a->bytes.failed)
                fragment_set_kind(a->bytes.data + start, hole, kind);
            a->fragments[a->n++] = (struct fragment){
                .size = (uint32_t)(a->bytes.size - start),
                .hole = hole,
                .datetime_us = DATETIME_NONE,
            };
        }
        count_one(a, &a->counts, kind, is_news);
        a->given = n;
    }
    if (!rows.rc && a->bytes.failed)
        rows.rc = problem_memory(why);
    return db_rows_end(&rows);
}

static enum status
post_differences(struct upload_apply *a, struct state_fold *folding,
                 bool *is_done, struct problem *why)
{
    struct resources *resources;
    struct post post;
    bool is_there;
    enum status rc = catch_up(a, &is_there, why);

    if (rc || !is_there)
        return rc;
    rc = next_changes(a, why);
    if (rc)
        return rc;
    if (a->n == 0) {
        a->upload->outcome.counts = a->counts;
        if (a->set)
            store_relaxed(&a->set->held_back,
                          a->upload->outcome.counts.held_back);
        *is_done = true;
        if (!a->is_healing)
            return STATUS_OK;
        /* Marks the state as whole: the log has all changes up to a->read.
         * After a crash before this call the upload runs again without effect,
         * and comes here again. */
        rc = state_fold_open(folding, a->set, &resources, why);
        return rc ? rc : resources_heal(resources, a->began, a->read, why);
    }
    if (!a->set) {
        rc = registry_make(a->registry, slice_of(a->upload->name),
                           a->upload->client, &a->set, why);
        if (rc)
            return rc;
    }
    post = (struct post){.kind = POST_CHANGES,
                         .set = a->set->log,
                         .is_never_held = true,
                         .authority = a->upload->authority,
                         .bytes = a->bytes,
                         .fragments = a->fragments,
                         .n_fragments = a->n};
    rc = contents_carry(a->set, &post, why);
    if (!rc)
        rc = log_post_and_wait(a->registry->log, &post, why);
    buf_fini(&post.contents);
    buf_fini(&post.content_bytes);
    if (rc)
        return rc;
    memcpy(a->upload->outcome.epoch, post.epoch, sizeof(post.epoch));
    if (a->upload->outcome.first == 0)
        a->upload->outcome.first = post.first;
    a->upload->outcome.last = post.last;
    /* Reads the entries of others before ours, and passes over ours. */
    while (!rc && a->read + 1 < post.first)
        rc = read_news(a, post.first - 1, why);
    a->read = post.last;
    return rc;
}

enum status
upload_apply_step(struct upload_apply *a, struct state_fold *folding,
                  bool *is_done, struct problem *why)
{
    bool is_there = false, is_more = true;
    enum status rc = STATUS_OK;

    *is_done = false;
    switch (a->phase) {
    case PHASE_FOLDING:
        rc = fold_state(a, folding, why);
        break;
    case PHASE_NEWS:
        rc = catch_up(a, &is_there, why);
        if (is_there)
            a->phase = PHASE_COMPARING;
        break;
    case PHASE_COMPARING:
        rc = db_exec(&a->db, "BEGIN", why);
        if (!rc)
            rc = a->is_staged_done ? compare_some_of_state(a, &is_more, why)
                                   : compare_some_staged(a, why);
        if (!rc)
            rc = db_exec(&a->db, "COMMIT", why);
        if (!rc && !is_more) {
            rc = judge_deletions(a, why);
            a->phase = PHASE_POSTING;
        }
        break;
    case PHASE_POSTING:
        rc = post_differences(a, folding, is_done, why);
        break;
    }
    return rc;
}
