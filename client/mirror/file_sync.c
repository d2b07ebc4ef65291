/*
 * file_sync.c - makes the files agree with the database.
 */
#include "client/mirror/file_sync.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/dumps/download.h"
#include "client/mirror/file_commit.h"
#include "client/mirror/mirror.h"
#include "proto/number.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/digest.h"

/* Reads and writes the links `duplicate` of a resource */

void
duplicate_links_write(struct buf *to, const struct td_change *change,
                      const char *rel)
{
    for (size_t i = 0; i < change->n_links; i++) {
        const struct td_link *link = &change->links[i];

        /* With white space it is no URI, and would break the line format. */
        if (!link->href || !slice_has_word(slice_of(link->rel), rel) ||
            link->href[strcspn(link->href, " \n")])
            continue;
        buf_add_number(to, link->pri);
        if (link->length == UINT64_MAX)
            buf_add_text(to, " -");
        else
            buf_add_format(to, " %" PRIu64, link->length);
        buf_add_format(to, " %s ", link->href);
        /* A digest of an unknown algorithm adds nothing. */
        if (link->hash &&
            hash_normalise(to, slice_of(link->hash), NULL) == STATUS_MEMORY)
            return;
        buf_add_text(to, "\n");
    }
}

bool
duplicate_links_next(struct slice *rest, struct downloads_link *link)
{
    struct slice line = slice_take(rest, '\n');
    uint64_t pri = 0;

    if (line.size == 0)
        return false;
    number_read(slice_take(&line, ' '), &pri);
    link->pri = (uint32_t)pri;
    if (!number_read(slice_take(&line, ' '), &link->length))
        link->length = LENGTH_NONE;
    link->href = slice_take(&line, ' ');
    link->hash = line;
    return true;
}

#define SECOND_US INT64_C(1000000)

/* Bytes of the reasons why some millions of resources are given up. */
#define LEFT_MAX (1024u * 1024 * 1024)

/* Most resources that a turn looks at: the rest waits for the next. */
#define LOOKS 2048

/* Files that come in this time become one group, or more if the disk is slow.
 */
#define TURN_MS 20

/* Between two searches for old downloads, while there is always work. */
#define TIDY_MS 5000

/* Downloads, and files of dumps. */
#define FLIGHTS (2 * DOWNLOADS_ROOM)

/* A resource with a download under way, or a file that waits for the group. */
struct flight {
    int64_t id; /* 0: free */
    int64_t version;
    bool has_come;  /* the group has it */
    uint64_t bytes; /* of its file, which the database has not noted yet */
};

struct file_sync {
    struct mirror *m;
    struct file_commit *group;
    void (*on_idle)(void *user);
    void *user;
    struct timer turn;
    bool is_due;  /* the timer runs */
    bool is_held; /* file_sync_hold */
    int64_t from; /* id behind which the next look begins */
    /* A look found enough work for these hosts. The next one waits until part
     * of that is done: n_flights is at most `enough`. */
    size_t enough;
    bool has_more;     /* the last look ended before it had seen all */
    bool has_strays;   /* files in incoming/ may be there without a flight */
    bool has_changed;  /* the database changed since the last search for them */
    int64_t tidied_ms; /* the time of that search */
    struct flight flights[FLIGHTS];
    size_t n_flights;
    uint64_t bytes_come; /* of flights, as above */
    struct buf left; /* for file_sync_report_left: ids, each with its reason */
};

/* Counts the bytes of the mirror, for the limit of the downloads. */
static void
note_kept(struct file_sync *w)
{
    w->m->client->room.kept = w->m->db.counts.bytes_have + w->bytes_come;
}

/* Ends the run for lack of room, and keeps the files that came before. */
static bool
fail_full(struct file_sync *w, const struct problem *why)
{
    if (file_commit_finish(w->group))
        mirror_fail(w->m, why);
    return false;
}

/* Counts the bytes of a file that has come. False: it is too much. */
static bool
note_come(struct file_sync *w, struct flight *flight, uint64_t bytes)
{
    struct problem why = {""};

    note_kept(w);
    if (source_limits_check_total(&w->m->client->room, bytes, &why))
        return fail_full(w, &why);
    flight->bytes = bytes;
    w->bytes_come += bytes;
    note_kept(w);
    return true;
}

static struct flight *
flight_of(struct file_sync *w, int64_t id)
{
    for (size_t i = 0, n = w->n_flights; n > 0 && i < FLIGHTS; i++) {
        if (w->flights[i].id == id)
            return &w->flights[i];
        n -= w->flights[i].id != 0;
    }
    return NULL;
}

static struct flight *
begin_flight(struct file_sync *w, const struct mirror_db_resource *r)
{
    for (size_t i = 0; i < FLIGHTS; i++)
        if (!w->flights[i].id) {
            w->flights[i] = (struct flight){r->id, r->version, false, 0};
            w->n_flights++;
            return &w->flights[i];
        }
    return NULL;
}

static void
end_flight(struct file_sync *w, struct flight *flight)
{
    flight->id = 0;
    w->n_flights--;
    w->bytes_come -= flight->bytes;
    note_kept(w);
}

/* The way of a file */

/* True if the file `name` of `dir_fd` matches the source's digest and length.
 */
static bool
is_right_file(const struct mirror_db_resource *r, int dir_fd, const char *name)
{
    struct digest_check *digests =
        digest_check_new(r->wanted.hash, r->wanted.length, false);
    struct problem why = {""};
    bool is = digests && digest_check_has_any(digests) &&
              !digests_file(digests, dir_fd, name, NULL, NULL, &why);

    digest_check_free(digests);
    return is;
}

/* Clears the path of a resource without a noted file. A file with the right
 * digest and length sets *is_there; without a digest from the source none is
 * right. One that may be ours stays; all else moves to found/. */
static bool
make_way(struct mirror *m, const struct mirror_db_resource *r, bool *is_there)
{
    char where[MIRROR_DIR_WHERE_SIZE] = "";
    char text[2 * RESOURCE_PATH_MAX];
    struct mirror_dir_mark mark;
    struct problem why = {""};
    enum mirror_dir_found found = mirror_dir_look(m->dir, r->path, &mark);
    const char *name;
    int fd;

    *is_there = false;
    if (found == MIRROR_DIR_FILE) {
        fd = mirror_dir_directory(m->dir, r->path, &name);
        *is_there = fd >= 0 && is_right_file(r, fd, name);
        file_close(&fd);
    }
    if (*is_there)
        return true;
    if (found == MIRROR_DIR_FAILED) {
        problem_errno(&why, "cannot look at", r->path);
        return mirror_fail(m, &why);
    }
    if (found == MIRROR_DIR_OTHER ||
        (found == MIRROR_DIR_FILE && !r->is_expected)) {
        if (mirror_dir_set_aside(m->dir, r->path, where, &why))
            return mirror_fail(m, &why);
        snprintf(text, sizeof(text),
                 "%s was in the way, not written by this mirror; it is now %s",
                 r->path, where);
        MIRROR_REPORT(m, TD_SYNC_TROUBLE, .path = r->path, .why = text);
    }
    return true;
}

/* Results of downloads */

static void
on_again(struct slice loc, const struct problem *why, void *user)
{
    struct file_sync *w = user;
    char text[4096];

    snprintf(text, sizeof(text), "%.*s", SLICE_ARG(loc));
    MIRROR_REPORT(w->m, TD_SYNC_FAILED, .loc = text, .why = why->text);
}

/* Sets have_second_us of a file that has come: R-415. The second is over by the
 * source's clock; when to look again is by ours. A digest is surer than any
 * time. */
static void
note_second(struct mirror_db_resource *r, int64_t date_s)
{
    int64_t now_us = clock_now_us();
    int64_t stated_us = r->wanted.lastmod_us != DATETIME_NONE
                            ? r->wanted.lastmod_us
                            : r->wanted.when_us;
    int64_t date_us = date_s >= 0 ? date_s * SECOND_US : now_us;
    bool is_one_clock = now_us - date_us >= 0 && now_us - date_us < SECOND_US;

    r->have_second_us = 0;
    if (!r->wanted.hash.size && stated_us != DATETIME_NONE &&
        stated_us % SECOND_US == 0 && stated_us + SECOND_US > date_us)
        r->have_second_us =
            stated_us + SECOND_US + (is_one_clock ? 0 : now_us - date_us);
}

static void
report_left(struct file_sync *w, const struct mirror_db_resource *r,
            const char *why)
{
    char loc[4 * 2048 + 1];

    snprintf(loc, sizeof(loc), "%.*s", SLICE_ARG(r->loc));
    MIRROR_REPORT(w->m, TD_SYNC_LEFT, .loc = loc, .path = r->path, .why = why);
}

static bool
give_up(struct file_sync *w, int64_t id, const char *why)
{
    struct mirror_db_resource r;

    if (!mirror_db_give_up(&w->m->db, id) || !mirror_db_get(&w->m->db, id, &r))
        return false;
    if (!w->m->options->as_of) {
        report_left(w, &r, why);
        return true;
    }
    buf_add(&w->left, &id, sizeof(id));
    buf_add(&w->left, why, strlen(why) + 1);
    return mirror_has_all(w->m, &w->left, "the list of files that are missing");
}

void
file_sync_report_left(struct file_sync *w)
{
    struct mirror_db_resource r;
    int64_t id;

    for (size_t i = 0; i < w->left.size;
         i += sizeof(id) + strlen(w->left.data + i + sizeof(id)) + 1) {
        memcpy(&id, w->left.data + i, sizeof(id));
        if (!mirror_db_get(&w->m->db, id, &r))
            return;
        if (r.todo == MIRROR_DB_FETCH && r.is_left)
            report_left(w, &r, w->left.data + i + sizeof(id));
    }
    buf_clear(&w->left);
}

static void
on_done(const struct downloads_result *result, void *user)
{
    struct file_sync *w = user;
    struct mirror *m = w->m;
    struct flight *flight = flight_of(w, (int64_t)result->id);
    int64_t version = flight ? flight->version : 0;
    struct mirror_db_resource r;
    bool is_wanted;

    file_sync_poke(w);
    if (!flight)
        return;
    if (result->why.rc == STATUS_IO || result->why.rc == STATUS_MEMORY) {
        fail_full(w, &result->why);
        return;
    }
    if (m->is_over || !mirror_write(m) ||
        !mirror_db_get(&m->db, (int64_t)result->id, &r))
        return;
    is_wanted = r.todo == MIRROR_DB_FETCH && r.version == version;
    if (is_wanted && !result->why.rc) {
        note_second(&r, result->date_s);
        flight->has_come = note_come(w, flight, result->bytes) &&
                           file_commit_add(w->group, &r, false);
        return;
    }
    end_flight(w, flight);
    if (!is_wanted) {
        download_forget(m->dir->incoming_fd, result->file);
        return;
    }
    w->has_strays = true; /* its partial file, for the next run */
    give_up(w, r.id, result->why.text);
}

static void
on_out(int64_t id, bool is_removal, void *user)
{
    struct file_sync *w = user;
    struct flight *flight = flight_of(w, id);

    if (!is_removal && flight && flight->has_come)
        end_flight(w, flight);
    file_sync_poke(w);
}

/* Takes a wanted resource whose file came without a download: `file` (a path on
 * the mirror's file system) is whole and right, or NULL: it is at its path
 * already. *is_taken false: a download is under way, and the caller keeps the
 * file. Inside mirror_write; false: mirror_fail was called. */
static bool
take_file(struct file_sync *w, const struct mirror_db_resource *r,
          const char *file, bool *is_taken)
{
    struct mirror *m = w->m;
    struct flight *flight = flight_of(w, r->id) ? NULL : begin_flight(w, r);
    char name[DOWNLOAD_NAME_MAX];
    struct problem why = {""};

    *is_taken = flight != NULL;
    if (!flight)
        return true;
    file_commit_name(name, r->id, r->version);
    if (file && renameat(AT_FDCWD, file, m->dir->incoming_fd, name)) {
        problem(&why, STATUS_IO, "cannot take %s: %s", file, strerror(errno));
        return mirror_fail(m, &why);
    }
    if (!r->is_expected && !mirror_db_expect(&m->db, r->id))
        return false;
    flight->has_come =
        note_come(w, flight,
                  file && r->wanted.length != LENGTH_NONE ? r->wanted.length
                                                          : 0) &&
        file_commit_add(w->group, r, !file);
    file_sync_poke(w);
    return flight->has_come;
}

bool
file_sync_wants(struct mirror *m, const struct mirror_db_description *t,
                struct mirror_db_resource *r)
{
    uint64_t max_file = m->client->room.limits.max_file_bytes;
    bool has_common;

    if (!mirror_db_find(&m->db, t->loc, r) || r->todo != MIRROR_DB_FETCH ||
        !hashes_agree(r->wanted.hash, t->hash, &has_common) ||
        (max_file && t->length != LENGTH_NONE && t->length > max_file))
        return false;
    if (r->wanted.length != t->length &&
        (!has_common ||
         (r->wanted.length != LENGTH_NONE && t->length != LENGTH_NONE)))
        return false;
    return has_common ||
           (!r->wanted.hash.size &&
            (t->when_us == DATETIME_NONE || t->when_us == r->wanted.when_us));
}

bool
file_sync_adopt(struct file_sync *w, const struct mirror_db_description *t,
                const char *file)
{
    struct mirror *m = w->m;
    struct mirror_db_resource r;
    bool is_there = false;
    bool is_taken;

    if ((w->n_flights == FLIGHTS && !file_commit_finish(w->group)) ||
        !mirror_write(m))
        return false;
    if (!file_sync_wants(m, t, &r))
        return !m->is_over;
    if ((!r.is_there && !make_way(m, &r, &is_there)) ||
        !take_file(w, &r, is_there ? NULL : file, &is_taken))
        return false;
    if (is_taken && !is_there) {
        m->bytes_done += t->length == LENGTH_NONE ? 0 : t->length;
        m->n_unpacked++;
    }
    return true;
}

bool
file_sync_finish(struct file_sync *w)
{
    return file_commit_finish(w->group);
}

/* Drops downloads that a newer version has overtaken. */
static bool
drop_overtaken(struct file_sync *w)
{
    struct mirror *m = w->m;
    char name[DOWNLOAD_NAME_MAX];

    if (!m->has_news)
        return true;
    m->has_news = false;
    w->has_changed = true;
    w->enough = DOWNLOADS_ROOM;
    for (size_t i = 0; i < FLIGHTS; i++) {
        struct flight *flight = &w->flights[i];
        struct mirror_db_resource r;

        if (!flight->id || flight->has_come)
            continue;
        if (!mirror_db_get(&m->db, flight->id, &r))
            return false;
        if (r.todo == MIRROR_DB_FETCH && r.version == flight->version)
            continue;
        downloads_drop(w->m->downloads, (uint64_t)flight->id);
        file_commit_name(name, flight->id, flight->version);
        download_forget(m->dir->incoming_fd, name);
        end_flight(w, flight);
    }
    return true;
}

/* New downloads */

/* Gives a resource to the downloads. *is_taken false: not now. */
static bool
fetch_one(struct file_sync *w, const struct mirror_db_resource *r,
          bool *is_taken)
{
    struct downloads_link links[DOWNLOADS_LOOKED_AT_MAX];
    struct slice rest = r->wanted.links;
    char name[DOWNLOAD_NAME_MAX];
    struct want want = {.id = (uint64_t)r->id,
                        .loc = r->loc,
                        .hash = r->wanted.hash,
                        .length = r->wanted.length,
                        .encoding = r->wanted.encoding,
                        .duplicates = links,
                        .file = name};
    enum status rc;
    struct problem why = {""};
    uint64_t max_file = w->m->client->room.limits.max_file_bytes;

    if (r->wanted.length != LENGTH_NONE &&
        !(max_file && r->wanted.length > max_file) &&
        source_limits_check_total(&w->m->client->room, r->wanted.length, &why))
        return fail_full(w, &why);
    while ((!w->m->options->has_no_mirrors || w->m->options->as_of) &&
           want.n_duplicates < DOWNLOADS_LOOKED_AT_MAX &&
           duplicate_links_next(&rest, &links[want.n_duplicates]))
        want.n_duplicates++;
    if (w->m->options->as_of && !want.hash.size) {
        if (!want.n_duplicates)
            return mirror_write(w->m) &&
                   give_up(w, r->id,
                           "no digest proves that its bytes are of then");
        /* The first memento stands for the resource. */
        want.loc = links[0].href;
        want.hash = links[0].hash;
        want.duplicates++;
        want.n_duplicates--;
    }
    file_commit_name(name, r->id, r->version);
    rc = downloads_add(w->m->downloads, &want);
    *is_taken = !rc;
    if (rc == STATUS_MEMORY)
        return mirror_fail_memory(w->m);
    if (!rc)
        begin_flight(w, r);
    return true;
}

/* Starts downloads. is_expected has to be on the disk before a download can
 * end: so all are marked, then committed, then started. */
static bool
expect_some(struct file_sync *w, int64_t *ids, size_t *n_ids)
{
    struct mirror *m = w->m;
    size_t room = downloads_room(w->m->downloads);
    int64_t began = w->from;
    bool is_full = false;

    w->has_more = true;
    /* Not more than the disk can take. */
    if (w->n_flights >= DOWNLOADS_ROOM)
        room = 0;
    else if (w->n_flights + room > DOWNLOADS_ROOM)
        room = DOWNLOADS_ROOM - w->n_flights;
    *n_ids = 0;
    for (int n = 0;
         n < LOOKS && *n_ids < room && w->n_flights + *n_ids < DOWNLOADS_ROOM;
         n++) {
        struct mirror_db_resource r;
        bool is_there = false;
        bool is_taken = false;

        if (!mirror_db_next(&m->db, MIRROR_DB_FETCH, w->from, &r))
            return false;
        if (!r.id) {
            w->has_more = began != 0; /* the next turn begins anew */
            w->from = 0;
            break;
        }
        w->from = r.id;
        if (flight_of(w, r.id))
            continue;
        if (downloads_is_full_for(w->m->downloads, r.loc)) {
            is_full = true;
            continue;
        }
        if (!mirror_write(m) || (!r.is_there && !make_way(m, &r, &is_there)) ||
            (is_there && !take_file(w, &r, NULL, &is_taken)))
            return false;
        if (is_there)
            continue;
        if (!r.is_expected && !mirror_db_expect(&m->db, r.id))
            return false;
        ids[(*n_ids)++] = r.id;
    }
    w->enough = is_full || *n_ids == room ? (w->n_flights + *n_ids) * 3 / 4
                                          : DOWNLOADS_ROOM;
    return true;
}

static bool
fetch_some(struct file_sync *w)
{
    struct mirror *m = w->m;
    int64_t ids[DOWNLOADS_ROOM];
    size_t n_ids = 0;
    bool is_taken = true;
    bool is_full = false;

    if (w->is_held || w->n_flights > w->enough)
        return true;
    if (!expect_some(w, ids, &n_ids) || !mirror_db_commit(&m->db))
        return false;
    for (size_t i = 0; i < n_ids; i++) {
        struct mirror_db_resource r;

        if (!mirror_db_get(&m->db, ids[i], &r))
            return false;
        if (r.todo == MIRROR_DB_FETCH && !fetch_one(w, &r, &is_taken))
            return false;
        is_full = is_full || !is_taken;
    }
    if (is_full)
        w->enough = w->n_flights * 3 / 4;
    return true;
}

bool
file_sync_is_idle(const struct file_sync *w)
{
    const struct mirror_db_counts *c = &w->m->db.counts;

    return c->n_fetch == c->n_left && c->n_remove == 0 && w->n_flights == 0;
}

/* Old downloads */

/* Takes the file if it came whole, before the earlier run ended. The digest
 * decides, as the last bytes may not be on the disk. A file with a note goes to
 * the downloads, which read it a part at a time. */
static void
take_whole(struct file_sync *w, const struct mirror_db_resource *r,
           const char *name)
{
    int fd = w->m->dir->incoming_fd;
    char whole[DOWNLOAD_NAME_MAX];
    struct flight *flight;

    file_commit_name(whole, r->id, r->version);
    if (strcmp(name, whole) != 0 || w->n_flights >= DOWNLOADS_ROOM ||
        !r->is_expected || download_has_note(fd, name) ||
        !is_right_file(r, fd, name))
        return;
    flight = begin_flight(w, r);
    flight->has_come = file_commit_add(w->group, r, false);
}

/* Searches incoming/ for files without a flight, left by an earlier run or by a
 * resource that was given up. Removes those that the database does not want,
 * and takes whole ones if `takes`. False: mirror_fail was called. */
static bool
remove_leftovers(struct file_sync *w, bool takes)
{
    DIR *dir = file_open_dir(w->m->dir->incoming_fd, ".", 0);
    const struct dirent *entry;
    bool is_good = true;

    if (!dir)
        return true;
    w->has_strays = w->has_changed = false;
    w->tidied_ms = clock_steady_ms();
    while (is_good && (entry = file_next(dir))) {
        struct mirror_db_resource r = {.id = 0};
        int64_t id = 0;
        int64_t version = 0;

        if (entry->d_name[0] == '.')
            continue;
        if (sscanf(entry->d_name, "%" SCNd64 "-%" SCNd64, &id, &version) == 2) {
            const struct flight *flight = flight_of(w, id);

            if (flight && flight->version == version)
                continue;
            is_good = mirror_db_get(&w->m->db, id, &r);
        }
        if (r.todo == MIRROR_DB_FETCH && r.version == version) {
            w->has_strays = true;
            if (takes)
                take_whole(w, &r, entry->d_name);
        } else if (is_good) {
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    closedir(dir);
    return is_good;
}

/* Turns */

static void
on_turn(void *user)
{
    struct file_sync *w = user;
    struct mirror *m = w->m;
    const struct mirror_db_counts *c = &m->db.counts;
    bool is_idle;

    w->is_due = false;
    if (m->is_over)
        return;
    if (!drop_overtaken(w) || !fetch_some(w) || !mirror_db_commit(&m->db))
        return;
    /* Of a past time, a later change may have what its list has not. */
    if (!w->is_held || !m->options->as_of)
        file_commit_start(w->group);
    if (m->is_over)
        return;
    is_idle = file_sync_is_idle(w);
    if (w->has_strays && w->has_changed &&
        (is_idle || clock_steady_ms() - w->tidied_ms >= TIDY_MS) &&
        !remove_leftovers(w, false))
        return;
    if (is_idle) {
        w->on_idle(w->user);
        return;
    }
    /* Some work has to wait for a download or the group. Poke for the rest. */
    if (!w->is_held && w->has_more && w->n_flights <= w->enough &&
        w->n_flights < c->n_fetch - c->n_left)
        file_sync_poke(w);
}

/* Life cycle */

struct file_sync *
file_sync_new(struct mirror *m, void (*on_idle)(void *user), void *user)
{
    struct file_sync *w = calloc(1, sizeof(*w));
    struct downloads_limits limits = {
        .per_host = m->options->per_host,
        .attempts = m->options->attempts,
        .max_bytes = m->client->room.limits.max_file_bytes,
    };

    if (!w)
        return NULL;
    if (m->options->until_caught_up)
        limits.patience_ms = m->options->patience_ms;
    w->m = m;
    w->on_idle = on_idle;
    w->user = user;
    w->enough = DOWNLOADS_ROOM;
    buf_init(&w->left, LEFT_MAX);
    timer_init(&w->turn, m->client->loop, on_turn, w);
    w->group = file_commit_new(m, on_out, w);
    w->m->downloads = downloads_new(m->client, &limits, m->dir->incoming_fd,
                                    on_done, on_again, w);
    if (!w->group || !w->m->downloads) {
        file_sync_free(w);
        return NULL;
    }
    note_kept(w);
    (void)remove_leftovers(
        w, true); /* if the database cannot be read, the run is over */
    return w;
}

void
file_sync_free(struct file_sync *w)
{
    if (!w)
        return;
    downloads_free(w->m->downloads);
    w->m->downloads = NULL;
    file_commit_free(w->group);
    buf_fini(&w->left);
    timer_stop(&w->turn);
    free(w);
}

void
file_sync_poke(struct file_sync *w)
{
    if (w->is_due)
        return;
    w->is_due = true;
    timer_start(&w->turn, w->n_flights ? TURN_MS : 0);
}

void
file_sync_hold(struct file_sync *w, bool holds)
{
    if (w->is_held && !holds)
        file_sync_poke(w);
    w->is_held = holds;
}
