#include "broker/archive/contents.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/array.h"
#include "broker/archive/set_progress.h"
#include "broker/archive/state_fold.h"
#include "broker/bucket/vault.h"

/* Room left free on a disk: the log needs it. */
#define LEAVES_BYTES ((uint64_t)256 << 20)

/* Files deleted in one step: loose ones; files of a set that keeps none; and
 * files looked at, a folder at least. */
#define STEP_LOOSE 256
#define STEP_CLEAR 1000
#define STEP_SWEEP 1000

/* A file, and how many pins it has. */
struct pinned {
    struct map_node node;
    const struct set *set;
    struct digest digest;
    unsigned n;
    bool is_new; /* placed; the name may not be durable yet */
};

struct content_pin {
    struct list node;
    struct contents *contents;
    struct set *set;
    struct pinned **files;
    size_t n_files, capacity;
    struct content_touched touched;
    bool has_ended;
    uint64_t last; /* contents_end */
};

enum status
contents_hold(struct contents *c, struct holding *disk, uint64_t bytes,
              uint64_t own, struct problem *why)
{
    struct clients *clients = &c->registry->clients;
    uint64_t taken = load_relaxed(&c->announced) - own + LEAVES_BYTES;
    int fd =
        open(c->registry->config->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint64_t room = fd < 0 ? 0 : file_free_bytes(fd);
    enum status rc;

    file_close(&fd);
    room = room > taken ? room - taken : 0;
    clients_limit_all(clients, CLIENT_DISK,
                      room + clients_held(clients, CLIENT_DISK));
    rc = holding_add(disk, bytes, why);
    if (rc != STATUS_BUSY)
        return rc;
    return problem(why, rc,
                   "the disk has no room for %" PRIu64 " bytes, only for "
                   "%" PRIu64,
                   bytes, room);
}

/* Files; the mutex is held. */

/* A digest is spread as evenly as a hash, and a client that wanted to choose
 * its bits would have to find bytes that have them. */
static uint64_t
hash_of(const struct digest *digest)
{
    uint64_t hash;

    memcpy(&hash, digest->bytes, sizeof(hash));
    return hash;
}

/* NULL: nobody pins the file. */
static struct pinned *
find_file(const struct contents *c, const struct set *set,
          const struct digest *digest)
{
    struct pinned *file;

    map_each_same (file, &c->files, hash_of(digest), node) {
        if (file->set == set && !memcmp(&file->digest, digest, sizeof(*digest)))
            return file;
    }
    return NULL;
}

/* Pins: any thread */

enum status
contents_pin(struct contents *c, struct set *set, struct content_pin **pin,
             struct problem *why)
{
    struct content_pin *made = memory_new(1, sizeof(*made));
    struct head head;
    enum status rc = STATUS_OK;

    made->contents = c;
    made->set = set;
    pthread_mutex_lock(&c->mutex);
    while (c->is_shut)
        pthread_cond_wait(&c->changed, &c->mutex);
    /* Under the mutex: a thread that clears folders of removed sets from now on
     * sees the pin. */
    if (log_head(set->log, &head))
        list_append(&c->pins, &made->node);
    else
        rc = problem(why, STATUS_GONE, "there is no set %s", set->name);
    pthread_mutex_unlock(&c->mutex);
    if (rc) {
        free(made);
        return rc;
    }
    *pin = made;
    return STATUS_OK;
}

/* Adds a file to the pin; its release frees it. */
static enum status
add_digest(struct content_pin *pin, const struct digest *digest, bool is_new,
           struct problem *why)
{
    struct contents *c = pin->contents;
    struct pinned *file;

    if (!ONE_MORE(pin->files, &pin->capacity, pin->n_files))
        return problem_memory(why);
    pthread_mutex_lock(&c->mutex);
    while (c->going_set == pin->set &&
           !memcmp(&c->going, digest, sizeof(*digest)))
        pthread_cond_wait(&c->changed, &c->mutex);
    file = find_file(c, pin->set, digest);
    if (!file) {
        file = memory_new(1, sizeof(*file));
        file->set = pin->set;
        file->digest = *digest;
        map_add(&c->files, &file->node, hash_of(digest));
    }
    file->n++;
    file->is_new |= is_new;
    pthread_mutex_unlock(&c->mutex);
    pin->files[pin->n_files++] = file;
    return STATUS_OK;
}

enum status
contents_place(struct content_pin *pin, struct arriving *arriving,
               struct problem *why)
{
    enum status rc = add_digest(pin, &arriving->digest, true, why);

    content_touch(&pin->touched, &arriving->digest);
    return rc ? rc
              : content_file_place(set_path(pin->set, "").text, arriving, why);
}

enum status
contents_find(struct content_pin *pin, const struct digest *digest,
              uint64_t *length, struct problem *why)
{
    enum status rc = add_digest(pin, digest, false, why);

    if (!rc)
        rc =
            content_file_look(set_path(pin->set, "").text, digest, length, why);
    if (rc)
        return rc;
    /* The pin that placed the file may not have synced its name yet, or have
     * failed: then this one does. */
    pthread_mutex_lock(&pin->contents->mutex);
    if (pin->files[pin->n_files - 1]->is_new)
        content_touch(&pin->touched, digest);
    pthread_mutex_unlock(&pin->contents->mutex);
    return STATUS_OK;
}

enum status
contents_share(const struct set *set, struct content_fact *fact,
               struct buf *bytes, struct problem *why)
{
    struct file_path dir = set_path(set, "");
    enum status rc =
        content_file_look(dir.text, &fact->digest, &fact->length, why);

    if (rc)
        return rc;
    if (!vault_keeps_content() || fact->length == 0)
        return content_file_read(dir.text, &fact->digest, bytes, why);
    fact->due_us = CONTENT_IN_BUCKET;
    rc = content_file_store(dir.text, &fact->digest, fact->length, false, why);
    return rc && rc != STATUS_TOO_LARGE && rc != STATUS_STOPPED
               ? problem_prefix(why, STATUS_BUSY,
                                "its content cannot be stored now: ")
               : rc;
}

enum status
contents_carry(const struct set *set, struct post *post, struct problem *why)
{
    struct slice rest = buf_slice(&post->bytes), hash;
    enum status rc = STATUS_OK;

    buf_init(&post->contents, SIZE_MAX);
    buf_init(&post->content_bytes, CONTENT_POST_MAX + 1);
    for (size_t i = 0;
         !rc && i < post->n_fragments && log_is_shared(set->registry->log) &&
         set_content_mode(set) == CONTENT_INLINE;
         i++) {
        struct content_fact fact = {.seq = i, .is_here = true};
        const struct fragment *f = &post->fragments[i];
        struct slice entry = {rest.data, f->size};

        fragment_bytes(entry, f->hole, &hash, &fact.length);
        if (fragment_kind(entry.data, f->hole) != CHANGE_DELETED &&
            hash_find_sha256(hash, &fact.digest)) {
            rc = contents_share(set, &fact, &post->content_bytes, why);
            buf_add(&post->contents, &fact, sizeof(fact));
        }
        slice_skip(&rest, f->size);
    }
    return rc || !post->contents.failed ? rc : problem_memory(why);
}

/* A file that a pin places again meanwhile already had that name on the
 * disk. */
enum status
contents_sync(struct content_pin *pin, struct problem *why)
{
    enum status rc =
        content_files_sync(set_path(pin->set, "").text, &pin->touched, why);

    if (rc)
        return rc;
    pthread_mutex_lock(&pin->contents->mutex);
    for (size_t i = 0; i < pin->n_files; i++)
        pin->files[i]->is_new = false;
    pthread_mutex_unlock(&pin->contents->mutex);
    return STATUS_OK;
}

void
contents_end(struct content_pin *pin, uint64_t last)
{
    if (!pin)
        return;
    pthread_mutex_lock(&pin->contents->mutex);
    pin->has_ended = true;
    pin->last = last;
    pthread_mutex_unlock(&pin->contents->mutex);
}

/* Archive thread */

/* Releases one file of the pin, and sets *digest to it. Returns false if none
 * was left; the pin is then freed. */
static bool
release_file(struct content_pin *pin, struct digest *digest)
{
    struct contents *c = pin->contents;
    struct pinned *file;

    if (pin->n_files == 0) {
        free(pin->files);
        free(pin);
        return false;
    }
    file = pin->files[--pin->n_files];
    *digest = file->digest;
    pthread_mutex_lock(&c->mutex);
    if (--file->n == 0) {
        map_remove(&c->files, &file->node);
        free(file);
    }
    pthread_mutex_unlock(&c->mutex);
    return true;
}

/* Releases all files of the pin and frees it. */
static void
drop_pin(struct content_pin *pin)
{
    struct digest digest;

    while (release_file(pin, &digest))
        ;
}

bool
contents_shut(struct contents *c, const struct set *set)
{
    struct content_pin *pin;
    bool is_free = true;

    pthread_mutex_lock(&c->mutex);
    list_walk (pin, &c->pins, node)
        if (pin->set == set)
            is_free = false;
    c->is_shut = is_free;
    pthread_mutex_unlock(&c->mutex);
    return is_free;
}

void
contents_unshut(struct contents *c)
{
    pthread_mutex_lock(&c->mutex);
    c->is_shut = false;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

/* The content of a set */

uint64_t
contents_seq(const struct set *set)
{
    return set->progress->content.seq;
}

bool
contents_is_due(const struct set *set, int64_t now_us)
{
    return set->progress->content.has == CONTENT_SOME &&
           set->progress->content.due_us <= now_us;
}

bool
contents_needs(struct set *set, const struct list_info *list)
{
    if (set_content_mode(set) == CONTENT_NONE ||
        contents_seq(set) >= list->last)
        return false;
    set->progress->content.wanted = list->last;
    return true;
}

/* Opening */

/* Begins a new search for orphans. Nothing is deleted before the entries that
 * the log has now are folded.
 */
static void
mark_unsettled(struct set *set)
{
    struct content_progress *progress = &set->progress->content;
    struct head head = {.last = 0};

    log_head(set->log, &head);
    progress->settled = head.last;
    progress->sweep = 0;
    progress->is_loose = true;
    progress->earliest = 0;
}

/* Publishes the figures of the content to any thread. Stores the position last:
 * a thread that loads it first (describe.c) gets the counts of that position,
 * or later ones, and does not mistake content that is still to be fetched for
 * present. */
static void
publish_counts(struct set *set, const struct content_at *at)
{
    store_relaxed(&set->content_counts.files, at->files);
    store_relaxed(&set->content_counts.bytes, at->bytes);
    store_relaxed(&set->content_counts.missing, at->missing);
    store_relaxed(&set->content_counts.former, at->rows - at->current);
    atomic_store_explicit(&set->content_counts.last, at->seq,
                          memory_order_release);
}

void
contents_note(struct set *set, const struct content *content)
{
    const struct content_at *at = content_at(content);

    if (at->seq < set->progress->content.seq) /* it has begun anew */
        mark_unsettled(set);
    set->progress->content.is_loose |= at->is_loose;
    set->progress->content.seq = at->seq;
    set->progress->content.due_us = at->due_us;
    publish_counts(set, at);
}

/* Brings facts into the content that is open. Entries from before the cluster
 * came with their bytes, and have none. ACT_TAKEN follows what is on the
 * disk: if a crash comes between, the next process posts it again. */
static enum status
settle_facts(struct contents *c, struct set *set, struct content *content,
             struct problem *why)
{
    struct log *log = c->registry->log;
    struct content_progress *p = &set->progress->content;
    struct act act = {.kind = ACT_TAKEN, .taken = {.after = p->taken}};
    uint64_t alone = set_content_mode(set) == CONTENT_INLINE ? p->settled : 0;
    enum status rc = content_settle(content, log, set->log, alone + 1,
                                    c->arriving, &p->is_unsettled, why);

    act.taken.upto = content_at(content)->fact;
    if (rc || act.taken.upto <= p->taken)
        return rc;
    p->taken = act.taken.upto;
    return log_act(log, set->log, &act, 0, why);
}

/* The log may no longer reach back to the position of the content, or may end
 * before it: then the content begins anew. In a cluster another broker may have
 * retired lists: the log has them until they are folded here, or work_on_set
 * finds that it has not. */
static enum status
open_content(struct contents *c, struct set *set, const struct head *head,
             struct content **content, struct problem *why)
{
    bool is_new = set->progress->content.has != CONTENT_SOME;
    bool is_shared = log_is_shared(c->registry->log);
    struct fold_db *db;
    uint64_t seq;
    enum status rc = folds_open(&c->opened, set, head->origin, &db, why);

    if (rc)
        return rc;
    db->versions = load_relaxed(&set->content_versions);
    if (set->progress->content.versions != db->versions)
        set->progress->content.thinned =
            db->versions == OPTION_KEEP_ALL ? UINT64_MAX : 0;
    set->progress->content.versions = db->versions;
    *content = content_of(db);
    seq = content_at(*content)->seq;
    if ((seq < head->earliest && !is_shared) || seq > head->last) {
        is_new = true;
        DIAG(DIAG_INFO, "archive",
             "a set keeps content from now on; resources older than its log "
             "are unknown",
             diag_text("set", set->name),
             diag_number("from", head->earliest + 1));
        rc = fold_db_begin(db, head->earliest, why);
    }
    if (is_new)
        mark_unsettled(set);
    if (!rc && is_shared)
        rc = settle_facts(c, set, *content, why);
    if (rc == STATUS_AGAIN) /* it has begun anew */
        rc = STATUS_OK;
    if (rc) {
        folds_drop(&c->opened, set);
        return rc;
    }
    set->progress->content.has = CONTENT_SOME;
    contents_note(set, *content);
    return STATUS_OK;
}

enum status
contents_open(struct contents *c, struct set *set, struct content **content,
              struct problem *why)
{
    struct head head;

    folds_drop_removed(&c->opened);
    if (!log_head(set->log, &head))
        return problem(why, STATUS_GONE, "the set %s was removed", set->name);
    if (set_content_mode(set) == CONTENT_NONE)
        return problem(why, STATUS_NOT_FOUND, "the set %s keeps no content",
                       set->name);
    return open_content(c, set, &head, content, why);
}

/* Deleting files without use */

/* Deletes a file, unless it is pinned or a row names it. */
static enum status
take_away(struct contents *c, const struct set *set, struct content *content,
          const struct digest *digest, bool is_loose, bool *is_gone,
          struct problem *why)
{
    bool is_pinned, is_named = false;
    enum status rc;

    *is_gone = false;
    pthread_mutex_lock(&c->mutex);
    is_pinned = find_file(c, set, digest);
    if (!is_pinned) {
        c->going_set = set;
        c->going = *digest;
    }
    pthread_mutex_unlock(&c->mutex);
    if (is_pinned)
        return STATUS_OK;
    rc = content_refers_to(content, digest, &is_named, why);
    if (!rc && !is_named)
        rc = content_file_unlink(set_path(set, "").text, digest, is_loose, why);
    *is_gone = !rc && !is_named;
    pthread_mutex_lock(&c->mutex);
    c->going_set = NULL;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    return rc;
}

/* The same for some of the files that lost their rows. */
static enum status
take_loose_away(struct contents *c, struct set *set, struct content *content,
                struct problem *why)
{
    struct digest digests[STEP_LOOSE];
    const struct digest *after = NULL;
    struct digest last;
    size_t n, n_gone = 0;
    enum status rc = STATUS_OK;

    while (!rc && n_gone == 0) {
        n = STEP_LOOSE;
        rc = content_loose(content, after, digests, &n, why);
        if (rc || n == 0) {
            set->progress->content.is_loose = rc != STATUS_OK;
            return rc;
        }
        last = digests[n - 1];
        after = &last;
        for (size_t i = 0; !rc && i < n; i++) {
            bool is_gone;

            rc = take_away(c, set, content, &digests[i], true, &is_gone, why);
            if (!rc && is_gone)
                digests[n_gone++] = digests[i];
        }
    }
    return rc ? rc : content_let_go(content, digests, n_gone, why);
}

struct sweep {
    struct contents *contents;
    struct set *set;
    struct content *content;
    uint64_t n, n_gone;
};

static enum status
sweep_file(const struct digest *digest, void *user, struct problem *why)
{
    struct sweep *s = user;
    bool is_gone = false;
    enum status rc = take_away(s->contents, s->set, s->content, digest, false,
                               &is_gone, why);

    s->n++;
    s->n_gone += is_gone;
    return rc;
}

/* Looks for orphans in some of the folders. */
static enum status
sweep_orphans(struct contents *c, struct set *set, struct content *content,
              struct problem *why)
{
    struct sweep s = {.contents = c, .set = set, .content = content};
    struct file_path dir = set_path(set, "");
    enum status rc = STATUS_OK;

    while (!rc && set->progress->content.sweep < CONTENT_FOLDERS &&
           s.n < STEP_SWEEP) {
        rc = content_files_each(dir.text, set->progress->content.sweep,
                                sweep_file, &s, why);
        set->progress->content.sweep += !rc;
    }
    if (s.n_gone > 0)
        DIAG(DIAG_INFO, "archive",
             "files without an entry in their set were deleted",
             diag_text("set", set->name), diag_number("files", s.n_gone));
    return rc;
}

/* Deletes some files of a set that keeps none, the rows first. *is_more is
 * false if files are pinned: then nothing is deleted now. */
static enum status
clear_content(struct contents *c, struct set *set, bool *is_more,
              struct problem *why)
{
    size_t n_files = STEP_CLEAR;
    enum status rc;
    int fd;

    *is_more = contents_shut(c, set);
    if (!*is_more)
        return STATUS_OK; /* an earlier post is at work */
    folds_drop(&c->opened, set);
    rc = db_unlink(set_path(set, CONTENT_FILE).text, why);
    fd = open(set_path(set, "").text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!rc && fd >= 0)
        rc = vault_clear(fd, CONTENT_FOLDER, &n_files, why);
    file_close(&fd);
    contents_unshut(c);
    if (rc == STATUS_AGAIN)
        return STATUS_OK;
    if (!rc) {
        set->progress->content =
            (struct content_progress){.has = CONTENT_NOTHING};
        publish_counts(set, &(struct content_at){.seq = 0});
        DIAG(DIAG_INFO, "archive",
             "a set keeps no content any more: its content was deleted",
             diag_text("set", set->name));
    }
    return rc;
}

/* What is due */

/* The position to fold to: that of the state (state_fold.h). */
static uint64_t
target_of(const struct set *set, const struct head *head)
{
    uint64_t folded = state_fold_seq(set);

    return folded < head->last ? folded : head->last;
}

/* True if a set of that name has kept content. */
static bool
has_any(const struct set *set)
{
    return !access(set_path(set, CONTENT_FILE).text, F_OK) ||
           !access(set_path(set, CONTENT_FOLDER).text, F_OK);
}

/* Of a set that keeps none: true if its old content is to go now. */
static bool
is_to_be_cleared(struct set *set)
{
    struct content_progress *progress = &set->progress->content;
    int64_t now_us = clock_steady_us();
    int64_t grace_us = set->registry->config->remove_grace_us;

    if (atomic_load(&set->is_unread))
        return false;
    if (progress->has == CONTENT_UNKNOWN)
        progress->has = has_any(set) ? CONTENT_SOME : CONTENT_NOTHING;
    if (progress->has == CONTENT_NOTHING)
        return false;
    if (progress->off_us == 0) {
        progress->off_us = now_us;
        DIAG(DIAG_WARNING, "archive",
             "a set keeps no content any more: its content will be deleted",
             diag_text("set", set->name),
             diag_number("in_seconds", (uint64_t)(grace_us / 1000000)));
    }
    return now_us - progress->off_us >= grace_us;
}

static bool
is_settled(const struct set *set)
{
    return set->progress->content.has == CONTENT_SOME &&
           !set->progress->content.is_unsettled &&
           set->progress->content.seq >= set->progress->content.settled;
}

/* True if some files may be without use. */
static bool
has_unneeded(const struct set *set)
{
    return is_settled(set) && (set->progress->content.is_loose ||
                               set->progress->content.sweep < CONTENT_FOLDERS);
}

/* True if the set has something to fold, and room for it. Retention makes
 * room. */
static bool
can_fold(const struct set *set, const struct head *head, bool has_room)
{
    return (has_room ||
            set->progress->content.wanted > set->progress->content.seq) &&
           set->progress->content.seq < target_of(set, head);
}

static bool
wants_step(struct set *set, const struct head *head, void *user)
{
    const struct contents *c = user;
    struct content_progress *p = &set->progress->content;
    bool may_delete = log_may_delete(c->registry->log);
    bool has_room = chore_has_room(c->registry);
    bool is_late = !has_room && p->seq < head->last;

    if (set_content_mode(set) == CONTENT_NONE)
        return is_to_be_cleared(set) && may_delete;
    p->off_us = 0;
    if (p->has != CONTENT_SOME) /* even without room: it knows its position */
        return has_any(set) || (head->last > 0 && (has_room || p->wanted > 0));
    if (is_late && !p->is_late)
        DIAG(DIAG_WARNING, "archive",
             "the content of a set is behind, because the disk is nearly full",
             diag_text("set", set->name));
    p->is_late = is_late;
    p->is_unsettled |= atomic_exchange(&set->has_facts, false);
    return can_fold(set, head, has_room) || p->is_unsettled ||
           p->versions != load_relaxed(&set->content_versions) ||
           p->thinned != UINT64_MAX || head->earliest > p->earliest ||
           (may_delete && has_unneeded(set));
}

/* Steps */

/* Overtaken rows may belong to entries that are no longer retained already, so
 * a look follows each fold behind retention. */
static enum status
work_on_set(struct contents *c, struct set *set, struct content *content,
            const struct head *head, struct problem *why)
{
    struct log *log = c->registry->log;
    enum status rc = STATUS_OK;
    bool is_more = false;

    if (can_fold(set, head, chore_has_room(c->registry))) {
        rc = folds_advance(&c->opened, set, target_of(set, head), why);
        if (!rc && log_is_shared(log))
            rc = settle_facts(c, set, content, why);
        if (rc == STATUS_AGAIN) /* it has begun anew */
            rc = STATUS_OK;
        contents_note(set, content);
        if (head->earliest > 0)
            set->progress->content.earliest = 0;
    }
    if (!rc && head->earliest > set->progress->content.earliest) {
        rc = content_forget(content, head->earliest, &is_more, why);
        set->progress->content.is_loose = true;
        if (!rc && !is_more)
            set->progress->content.earliest = head->earliest;
    }
    if (!rc && set->progress->content.thinned != UINT64_MAX)
        rc = content_thin(content, &set->progress->content.thinned, why);
    /* Files without use stay while a backup copies files. */
    if (!rc && has_unneeded(set) && log_begin_deleting(log)) {
        if (set->progress->content.is_loose)
            rc = take_loose_away(c, set, content, why);
        if (!rc && set->progress->content.sweep < CONTENT_FOLDERS)
            rc = sweep_orphans(c, set, content, why);
        log_end_deleting(log);
    }
    contents_note(set, content);
    return rc == STATUS_AGAIN ? STATUS_OK : rc; /* damaged: it begins anew */
}

/* Pins */

/* True if the content is where it no longer needs the pin. First it folds the
 * entries of earlier processes, which have no pins. */
static bool
may_end(const struct content_pin *pin)
{
    struct set *set = pin->set;
    struct head head;

    if (!log_head(set->log, &head) || set_content_mode(set) == CONTENT_NONE)
        return true;
    return is_settled(set) && set->progress->content.seq >= pin->last;
}

/* Ends a pin: deletes its files without a row. */
static enum status
delete_pinned(struct contents *c, struct content_pin *pin, struct problem *why)
{
    struct content *content;
    struct digest digest;
    bool is_gone;
    struct set *set = pin->set;
    enum status rc = contents_open(c, set, &content, why);

    if (rc == STATUS_GONE || rc == STATUS_NOT_FOUND) {
        if (rc == STATUS_NOT_FOUND)
            set->progress->content.has =
                CONTENT_UNKNOWN; /* with files, perhaps */
        drop_pin(pin);
        return STATUS_OK;
    }
    if (rc) { /* later */
        pthread_mutex_lock(&c->mutex);
        list_append(&c->pins, &pin->node);
        pthread_mutex_unlock(&c->mutex);
        return rc;
    }
    while (!rc && release_file(pin, &digest)) {
        rc = take_away(c, set, content, &digest, false, &is_gone, why);
        set->progress->content.is_loose |= is_gone; /* with a row, perhaps */
    }
    if (rc) {
        drop_pin(pin);
        mark_unsettled(set); /* the other files are orphans */
    }
    return rc;
}

/* Ends one pin; false: none can end. While a backup copies files, those without
 * a row become orphans. */
static bool
end_one_pin(struct contents *c)
{
    struct log *log = c->registry->log;
    struct content_pin *pin = NULL, *other;
    struct problem why = {""};
    struct set *set;
    enum status rc;

    pthread_mutex_lock(&c->mutex);
    list_walk (other, &c->pins, node) {
        if (other->has_ended && may_end(other)) {
            pin = other;
            list_remove(&pin->node);
            break;
        }
    }
    pthread_mutex_unlock(&c->mutex);
    if (!pin)
        return false;
    set = pin->set;
    if (!log_begin_deleting(log)) {
        drop_pin(pin);
        if (set_content_mode(set) == CONTENT_NONE)
            set->progress->content.has = CONTENT_UNKNOWN;
        else
            mark_unsettled(set);
        return true;
    }
    rc = delete_pinned(c, pin, &why);
    log_end_deleting(log);
    if (rc && rc != STATUS_STOPPED)
        DIAG(DIAG_WARNING, "archive",
             "files that nobody may need are still on the disk, and will be "
             "looked at again",
             diag_text("error", why.text));
    return !rc;
}

/* All sets */

static bool
contents_some(struct chore *chore)
{
    struct contents *c = list_entry(chore, struct contents, chore);
    struct log *log = c->registry->log;
    struct problem why = {""};
    struct content *content;
    struct head head;
    struct set *set;
    bool is_more = true;
    enum status rc = STATUS_OK;

    if (!c->turn.is_due && list_is_empty(&c->turn.waiting.clients))
        return false; /* no set wants a turn */
    if (end_one_pin(c))
        return true;
    set = turn_next(&c->turn);
    if (!set)
        return false;
    if (set_content_mode(set) == CONTENT_NONE) {
        is_more = log_begin_deleting(log);
        if (is_more) {
            rc = clear_content(c, set, &is_more, &why);
            log_end_deleting(log);
        }
    } else if (!log_head(set->log, &head)) {
        rc = STATUS_GONE;
    } else {
        rc = open_content(c, set, &head, &content, &why);
        if (!rc)
            rc = work_on_set(c, set, content, &head, &why);
    }
    return turn_end(&c->turn, set, rc, is_more,
                    "the content of a set could not be brought up to date, and "
                    "will be tried again",
                    &why);
}

/* Life */

void
contents_free(struct contents *c)
{
    struct content_pin *pin;

    if (!c)
        return;
    folds_fini(&c->opened);
    list_drain (pin, &c->pins, node)
        drop_pin(pin);
    map_fini(&c->files);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

enum status
contents_new(struct contents **contents, struct registry *registry,
             struct problem *why)
{
    struct contents *c = memory_new(1, sizeof(*c));
    enum status rc;

    /* Pins can end after the end of the chore. */
    c->chore = (struct chore){.turn = &c->turn,
                              .folds = &c->opened,
                              .step = contents_some,
                              .needs = contents_needs};
    c->registry = registry;
    snprintf(c->arriving, sizeof(c->arriving), "%s/arriving",
             registry->config->data);
    folds_init(&c->opened, &content_folding);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    list_init(&c->pins);
    turn_init(&c->turn, TURN_CONTENT, registry, wants_step, c);
    rc = arriving_clear(c->arriving, why);
    if (rc) {
        contents_free(c);
        return rc;
    }
    *contents = c;
    return STATUS_OK;
}
