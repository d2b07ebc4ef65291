#include "broker/store/segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/store/store_files.h"
#include "tests/test.h"
#include "tests/unit/store/stored.h"

FIXTURE(world_setup, world_teardown);

/* A batch of world_open with so many entries is large enough for a segment, and
 * a commit of one batch for a segment of its own; small ones stay in rows. */
#define LARGE 400
#define SMALL 10

/* The engine begins segments only after it has seen that there is room. */
static void
open_with_room(struct world *w, size_t n, unsigned each)
{
    world_open(w, n, each);
    assert_true(w->engine->ops->room(w->engine) > 0);
}

static void
reopen_with_room(struct world *w)
{
    reopen(w);
    assert_true(w->engine->ops->room(w->engine) > 0);
}

static unsigned
count_files(const struct world *w)
{
    char path[300];
    unsigned n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/" SEGMENTS_FOLDER, w->dir.path);
    dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        n += segments_number(e->d_name) > 0;
    closedir(dir);
    return n;
}

/* Files the list of batches up to `last`, and forgets them. */
static void
file_all(struct world *w, uint64_t number, size_t from, size_t to)
{
    struct list_info info = list_of(w, number, from, to);

    commit_end(w, &info, "header");
    commit_filed(w, number, SLICE("marks"));
    while (commit_nothing(w))
        continue;
}

/* The entries of a large commit are in a file and not in the database; readers
 * see no difference, also after a restart. */
TEST(a_large_commit_goes_into_a_segment)
{
    struct world *w = *state;

    open_with_room(w, 4, LARGE);
    commit_batches(w, 0, 2);
    commit_batches(w, 2, 4);
    assert_int_equal(ask(w, "SELECT sum(length(body)) FROM batches"), 0);
    assert_int_equal(ask(w, "SELECT sum(size) FROM batches"),
                     ask(w, "SELECT live FROM segments"));
    assert_int_equal(read_on(w, 0), 4 * LARGE);
    assert_int_equal(read_on(w, LARGE + 7), 4 * LARGE);
    reopen(w);
    assert_int_equal(w->head.last, 4 * LARGE);
    assert_int_equal(read_on(w, 0), 4 * LARGE);
    assert_int_equal(count_files(w), 1);
}

/* Batches `from` to `to` - 1 of the set, in a commit. */
static void
write_ahead(struct world *w, size_t from, size_t to)
{
    struct act acts[64];
    const struct commit commit = {clock_now_us(), acts, to - from};

    for (size_t i = from; i < to; i++)
        acts[i - from] = batch_of(w->set, w->chain[i]);
    w->engine->ops->write_ahead(w->engine, &commit);
}

static void
commit_ahead(struct world *w, size_t from, size_t to)
{
    struct act acts[64];
    const struct commit commit = {clock_now_us(), acts, to - from, NULL, true};
    bool is_more;

    for (size_t i = from; i < to; i++)
        acts[i - from] = batch_of(w->set, w->chain[i]);
    assert_int_equal(ENGINE(w, commit, &commit, &is_more, NULL), STATUS_OK);
}

/* Entries that were written ahead are not written again. */
TEST(a_commit_keeps_what_was_written_ahead)
{
    struct world *w = *state;
    char path[300];
    struct stat st;

    open_with_room(w, 3, LARGE);
    commit_batches(w, 0, 1);
    write_ahead(w, 1, 3);
    assert_int_equal(ask(w, "SELECT max(last) FROM batches"), LARGE);
    snprintf(path, sizeof(path), "%s/" SEGMENTS_FOLDER "/0000000001",
             w->dir.path);
    assert_int_equal(truncate(path, 0), 0);
    commit_ahead(w, 1, 3);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(ask(w, "SELECT max(last) FROM batches"), 3 * LARGE);
}

#define FIRST_FREE_PAGE                                              \
    "SELECT (size + 4095) / 4096 * 4096 FROM batches ORDER BY first" \
    " LIMIT 1"

/* No row names what was written ahead of a commit that did not come, and the
 * next commit writes over it. After a restart it is nothing, too. */
TEST(nothing_is_left_of_a_commit_that_did_not_come)
{
    struct world *w = *state;

    open_with_room(w, 6, LARGE);
    commit_batches(w, 0, 1);
    write_ahead(w, 3, 6);
    assert_int_equal(read_on(w, 0), LARGE);
    commit_batches(w, 1, 2);
    assert_int_equal(ask(w, "SELECT max(at) FROM batches"),
                     ask(w, FIRST_FREE_PAGE));
    assert_int_equal(ask(w, "SELECT count(*) FROM segments"), 1);
    assert_int_equal(read_on(w, 0), 2 * LARGE);

    write_ahead(w, 2, 6);
    reopen_with_room(w);
    assert_int_equal(w->head.last, 2 * LARGE);
    assert_int_equal(read_on(w, 0), 2 * LARGE);
    write_ahead(w, 4, 6);
    write_ahead(w, 2, 4);
    commit_ahead(w, 2, 4);
    commit_batches(w, 4, 6);
    reopen(w);
    assert_int_equal(read_on(w, 0), 6 * LARGE);
}

/* The second fsync would cost more than the second copy. */
TEST(a_small_commit_stays_in_rows)
{
    struct world *w = *state;

    open_with_room(w, 20, SMALL);
    for (size_t i = 0; i < 20; i += 2)
        commit_batches(w, i, i + 2);
    assert_int_equal(ask(w, "SELECT max(segment) FROM batches"), 0);
    assert_int_equal(ask(w, "SELECT count(*) FROM segments"), 0);
    assert_int_equal(read_on(w, 0), 20 * SMALL);
}

/* A quiet set's few entries would keep whole segments. */
TEST(small_batches_of_a_large_commit_stay_in_rows)
{
    struct world *w = *state;
    size_t bytes = 0;

    open_with_room(w, 64, SMALL);
    for (size_t i = 0; i < 64; i++) {
        assert_true(w->chain[i]->size < SEGMENT_BATCH_BYTES);
        bytes += w->chain[i]->size;
    }
    assert_true(bytes > SEGMENT_COMMIT_BYTES);
    commit_batches(w, 0, 64);
    assert_int_equal(ask(w, "SELECT max(segment) FROM batches"), 0);
}

/* A segment without entries is written again, under a new number: no file
 * grows, and none is made. */
TEST(a_segment_without_entries_is_used_again)
{
    struct world *w = *state;

    open_with_room(w, 60, LARGE);
    for (size_t i = 0; i < 60; i += 20) {
        commit_batches(w, i, i + 20);
        file_all(w, i / 20 + 1, i, i + 20);
        /* The former one is still the current one: the next start ends it. */
        reopen_with_room(w);
        assert_int_equal(count_files(w), 1);
    }
    assert_int_equal(ask(w, "SELECT count(*) FROM batches"), 0);
    assert_int_equal(ask(w, "SELECT count(*) FROM segments WHERE live > 0"), 0);
}

/* A backup in another process reads segments by the database that it has
 * copied. */
TEST(no_segment_is_used_again_while_a_backup_reads)
{
    struct world *w = *state;
    struct problem why = {""};
    int fd;

    open_with_room(w, 40, LARGE);
    commit_batches(w, 0, 20);
    assert_int_equal(segments_share(w->dir.path, &fd, &why), STATUS_OK);
    file_all(w, 1, 0, 20);
    reopen_with_room(w);
    commit_batches(w, 20, 40);
    assert_int_equal(count_files(w), 2);
    file_close(&fd);
}

/* The copy of a backup has no segments. */
TEST(a_copy_gets_all_entries)
{
    struct world *w = *state;
    struct problem why = {""};
    char from[300], to[300];
    int fd;

    open_with_room(w, 20, LARGE);
    commit_batches(w, 0, 20);
    snprintf(from, sizeof(from), "%s/tidings.db", w->dir.path);
    snprintf(to, sizeof(to), "%s/copy.db", w->dir.path);
    assert_int_equal(segments_share(w->dir.path, &fd, &why), STATUS_OK);
    assert_int_equal(db_copy(from, to, &why), STATUS_OK);
    assert_int_equal(store_files_gather(to, fd, &why), STATUS_OK);
    file_close(&fd);

    w->engine->ops->close(w->engine);
    w->engine = NULL;
    assert_int_equal(rename(to, from), 0);
    snprintf(to, sizeof(to), "%s/" SEGMENTS_FOLDER "/0000000001", w->dir.path);
    assert_int_equal(unlink(to), 0);
    reopen(w);
    assert_int_equal(read_on(w, 0), 20 * LARGE);
}

/* Sets that post seldom must not keep segments that are nearly empty: their
 * entries move into rows. */
TEST(the_rest_of_nearly_empty_segments_moves_into_rows)
{
    struct world *w = *state;
    unsigned n = 0;

    open_with_room(w, 64, LARGE);
    /* A segment each: every start begins another one. */
    for (size_t i = 0; i < 12; i++) {
        commit_batches(w, i, i + 1);
        reopen_with_room(w);
    }
    while (commit_nothing(w))
        assert_true(++n < 1000);
    assert_true(ask(w, "SELECT count(*) FROM segments") <= 8);
    assert_true(ask(w, "SELECT count(*) FROM batches WHERE segment = 0") >= 4);
    assert_int_equal(read_on(w, 0), 12 * LARGE);
    reopen(w);
    assert_int_equal(read_on(w, 0), 12 * LARGE);
}

/* A segment takes its room before it has entries. On a full disk that room is
 * for entries; those in segments move out of them. */
TEST(gives_segments_back_when_room_is_scarce)
{
    struct world *w = *state;

    open_with_room(w, 4, LARGE);
    commit_batches(w, 0, 2);
    assert_int_equal(count_files(w), 1);
    stored_free_bytes = (uint64_t)900 << 20;
    reopen_with_room(w);
    while (commit_nothing(w))
        continue;
    commit_batches(w, 2, 4);
    w->engine->ops->tidy(w->engine);
    stored_free_bytes = 0;
    assert_int_equal(count_files(w), 0);
    assert_int_equal(ask(w, "SELECT max(segment) FROM batches"), 0);
    assert_int_equal(read_on(w, 0), 4 * LARGE);
}

/* Readers beside a writer */

struct readers {
    struct world *w;
    struct segments segments;
    atomic_uint number; /* of the segment that has batch number % 64 */
    atomic_uint n_read, n_gone;
};

static void *
run_reader(void *user)
{
    static char bytes[BATCH_BYTES_MAX];
    struct readers *r = user;
    uint32_t number;

    while ((number = atomic_load(&r->number)) < UINT32_MAX) {
        const struct segment_place place = {number, 0};
        const struct batch *b = r->w->chain[number % 64];
        struct problem why = {""};
        enum status rc = number == 0 ? STATUS_AGAIN
                                     : segments_read(&r->segments, &place,
                                                     b->size, bytes, &why);

        if (rc == STATUS_AGAIN)
            atomic_fetch_add(&r->n_gone, 1);
        else if (rc || memcmp(bytes, b->bytes, b->size) != 0)
            abort();
        else
            atomic_fetch_add(&r->n_read, 1);
    }
    return NULL;
}

/* A reader gets the bytes that its row names, or learns that they have gone:
 * never those of the segment that was made of its segment. */
TEST(a_reader_never_gets_the_bytes_of_another_segment)
{
    struct readers r = {.w = *state};
    struct problem why = {""};
    pthread_t thread;

    world_chain(r.w, 64, LARGE);
    assert_int_equal(segments_open(&r.segments, r.w->dir.path, &why), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_reader, &r), 0);
    for (uint32_t i = 1;
         i <= 200 || !atomic_load(&r.n_read) || !atomic_load(&r.n_gone); i++) {
        const struct batch *b = r.w->chain[i % 64];
        const struct act act = {.kind = ACT_BATCH, .entries.batch = b};
        const struct commit commit = {0, &act, 1, NULL};
        struct segment_place place;

        assert_int_equal(segments_write(&r.segments, &commit, &place, &why), 0);
        assert_int_equal(place.number, i);
        r.segments.end = r.segments.next_end;
        segments_count(&r.segments, i, (int64_t)b->size);
        atomic_store(&r.number, i);
        segments_end(&r.segments);
        segments_count(&r.segments, i, -(int64_t)b->size);
    }
    atomic_store(&r.number, UINT32_MAX);
    pthread_join(thread, NULL);
    assert_int_equal(count_files(r.w), 1);
    segments_close(&r.segments);
}
