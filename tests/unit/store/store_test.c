#include "broker/store/store.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/log/list_file.h"
#include "tests/test.h"
#include "tests/unit/store/stored.h"

FIXTURE(world_setup, world_teardown);

/* heads and entries are there after a restart. */
TEST(tells_every_set_with_its_head_when_it_is_opened_again)
{
    const struct batch *last;
    struct world *w = *state;

    world_open(w, 4, 5);
    assert_int_equal(w->n_loaded, 0);
    commit_batches(w, 0, 3);
    commit_batches(w, 3, 4);
    last = w->chain[3];

    reopen(w);
    assert_int_equal(w->n_loaded, 1);
    assert_true(w->head.exists);
    assert_string_equal(w->head.epoch, POSTS_EPOCH);
    assert_int_equal(w->head.created_us, POSTS_TIME(0));
    assert_int_equal(w->head.last, 20);
    assert_int_equal(w->head.last_us, POSTS_TIME(20));
    assert_memory_equal(w->head.digest.bytes, last->digest.bytes, DIGEST_SIZE);
    assert_int_equal(w->head.list, 1);
    assert_int_equal(w->head.list_bytes, last->list_bytes);
    assert_int_equal(read_on(w, 0), 20);
}

/* Also in the middle of a list, and right behind a closed one. */
TEST(tells_the_open_list_when_it_is_opened_again)
{
    struct list_info info;
    int64_t before_us;
    struct world *w = *state;

    world_open(w, 6, 5);
    commit_batches(w, 0, 4);
    info = list_of(w, 1, 0, 4);
    commit_end(w, &info, "header");
    reopen(w);
    assert_int_equal(w->head.list, 2);
    assert_int_equal(w->head.list_after, 20);
    assert_int_equal(w->head.list_from_us, info.until_us);
    assert_memory_equal(w->head.list_before.bytes, info.digest.bytes,
                        DIGEST_SIZE);
    assert_int_equal(w->head.list_bytes, 0);
    assert_int_equal(w->head.last, 20);
    assert_true(head_list_is_empty(&w->head));

    w->chain[4]->list_bytes = w->chain[4]->size;
    before_us = clock_now_us();
    commit_batches(w, 4, 5);
    reopen(w);
    assert_int_equal(w->head.list, 2);
    assert_int_equal(w->head.last, 25);
    assert_int_equal(w->head.list_bytes, w->chain[4]->size);
    /* The time when the broker accepted its first entry, not the source's
     * time. */
    assert_true(w->head.list_first_us >= before_us);
    assert_true(w->head.list_first_us <= clock_now_us());
}

/* journal.h: the place moves with the acts that lead to it, or not at all. */
TEST(keeps_the_place_in_the_journal)
{
    struct journal_place place = {.n = 7}, kept;
    struct world *w = *state;
    bool is_more;

    world_open(w, 3, 5);
    assert_int_equal(ENGINE(w, place, &kept, NULL), STATUS_OK);
    assert_int_equal(kept.n, 0);

    for (size_t i = 0; i < 3; i++) {
        const struct commit commit = {clock_now_us(), NULL, 0, &place};

        journal_place_next(&place, SLICE("a record"));
        assert_int_equal(ENGINE(w, commit, &commit, &is_more, NULL), 0);
        commit_batches(w, i, i + 1); /* leads to no place */
        reopen(w);
        assert_int_equal(ENGINE(w, place, &kept, NULL), STATUS_OK);
        assert_int_equal(kept.n, place.n);
        assert_memory_equal(&kept.chain, &place.chain, DIGEST_SIZE);
    }
}

/* design.md section 1: any position reads on, batches merged up to their size.
 */
TEST(reads_from_any_position_in_large_batches)
{
    struct world *w = *state;
    struct batch *b;

    world_open(w, 60, 50);
    for (size_t i = 0; i < 60; i += 20)
        commit_batches(w, i, i + 20);
    for (uint64_t after = 0; after < 3000; after += 37)
        assert_int_equal(read_on(w, after), 3000);
    assert_int_equal(ENGINE(w, read, w->set, 0, &b, NULL), 0);
    assert_true(b->size > BATCH_BYTES_MAX / 2);
    batch_unref(b);
    assert_int_equal(ENGINE(w, read, w->set, 3000, &b, NULL), 0);
    assert_null(b);
    assert_int_equal(ENGINE(w, read, w->set + 1, 0, &b, NULL), 0);
    assert_null(b);
}

/* log.md, lists: closed lists by number and by entry; the files that are still
 * to be written, oldest first. */
TEST(knows_its_closed_lists)
{
    struct list_info info[4], found;
    struct buf text;
    struct world *w = *state;
    uint32_t set = 0;
    size_t n = 4;

    world_open(w, 6, 5);
    buf_init(&text, 100);
    assert_int_equal(ENGINE(w, unfiled, &set, &found, &text, NULL),
                     STATUS_NOT_FOUND);
    commit_batches(w, 0, 6);
    for (size_t i = 0; i < 3; i++) {
        info[i] = list_of(w, i + 1, 2 * i, 2 * i + 2);
        commit_end(w, &info[i], i == 1 ? "header two" : "header");
    }

    assert_int_equal(ENGINE(w, lists, w->set, 2, &info[0], &n, NULL),
                     STATUS_OK);
    assert_int_equal(n, 2);
    assert_int_equal(info[0].number, 2);
    assert_int_equal(info[1].number, 3);
    n = 1;
    assert_int_equal(ENGINE(w, lists, w->set, 1, info, &n, NULL), STATUS_OK);
    assert_int_equal(n, 1);

    assert_int_equal(ENGINE(w, list, w->set, 2, &found, &text, NULL),
                     STATUS_OK);
    assert_true(slice_is(buf_slice(&text), "header two"));
    assert_int_equal(found.after, 10);
    assert_int_equal(found.last, 20);
    assert_int_equal(found.from_us, POSTS_TIME(10));
    assert_int_equal(found.until_us, POSTS_TIME(20));
    assert_int_equal(found.bytes, 4711);
    assert_memory_equal(found.digest.bytes, w->chain[3]->digest.bytes,
                        DIGEST_SIZE);
    assert_memory_equal(found.before.bytes, w->chain[2]->before.bytes,
                        DIGEST_SIZE);
    assert_false(found.is_filed);
    assert_int_equal(ENGINE(w, list, w->set, 4, &found, NULL, NULL),
                     STATUS_NOT_FOUND);

    /* A list is read by its entries once it has a file. */
    assert_int_equal(ENGINE(w, list_of, w->set, 12, &found, NULL, NULL),
                     STATUS_NOT_FOUND);
    commit_filed(w, 1, SLICE("marks one"));
    buf_clear(&text);
    assert_int_equal(ENGINE(w, list_of, w->set, 10, &found, &text, NULL),
                     STATUS_OK);
    assert_int_equal(found.number, 1);
    assert_true(found.is_filed);
    assert_true(slice_is(buf_slice(&text), "marks one"));
    assert_int_equal(ENGINE(w, list_of, w->set, 11, &found, NULL, NULL),
                     STATUS_NOT_FOUND);

    buf_clear(&text);
    assert_int_equal(ENGINE(w, unfiled, &set, &found, &text, NULL), STATUS_OK);
    assert_int_equal(found.number, 2);
    assert_int_equal(set, w->set);
    assert_true(slice_is(buf_slice(&text), "header two"));
    buf_fini(&text);
}

/* log.md, lists: rows go once they are filed, at most about 1 MB a commit,
 * until none is left; those of the open list stay. */
TEST(forgets_filed_rows_in_slices)
{
    int64_t before, after;
    struct list_info info;
    struct world *w = *state;
    unsigned n = 0;

    world_open(w, 40, 400);
    for (size_t i = 0; i < 40; i += 10)
        commit_batches(w, i, i + 10);
    info = list_of(w, 1, 0, 36);
    commit_end(w, &info, "header");
    assert_false(commit_nothing(w)); /* closed, not filed */
    before = ask(w, "SELECT sum(length(body)) FROM batches");
    assert_true(commit_filed(w, 1, SLICE("marks")));
    for (bool is_more = true; is_more; n++) {
        is_more = commit_nothing(w);
        after = ask(w, "SELECT sum(length(body)) FROM batches");
        assert_true(before - after < 1000000 + BATCH_BYTES_MAX);
        before = after;
    }
    assert_true(n >= 3);
    assert_int_equal(count_batches(w), 4);
    assert_int_equal(read_on(w, info.last), 16000);
}

static enum status
source(void *user, uint64_t after, struct batch **batch, struct problem *why)
{
    struct world *w = user;

    return ENGINE(w, read, w->set, after, batch, why);
}

/* Design section 1: a crash between "filed" and the forgetting changes nothing
 * that anyone can see: rows and file are both there, and say the same; the next
 * start forgets. */
TEST(forgets_after_a_crash_what_the_file_holds)
{
    struct world *w = *state;
    struct list_file file = {.dir_fd = w->dir.fd}, kept = file;

    world_open(w, 20, 100);
    commit_batches(w, 0, 20);
    file.info = list_of(w, 1, 0, 15);
    commit_end(w, &file.info, "header");
    buf_init(&file.marks, LIST_FILE_MARKS_MAX);
    buf_init(&kept.marks, LIST_FILE_MARKS_MAX);
    assert_int_equal(list_file_write(&file, SLICE("header"), source, w, NULL),
                     STATUS_OK);
    commit_filed(w, 1, buf_slice(&file.marks));

    reopen(w);
    assert_int_equal(w->head.last, 2000);
    assert_int_equal(w->head.list, 2);
    assert_int_equal(read_on(w, 0), 2000);
    assert_int_equal(
        ENGINE(w, list_of, w->set, 700, &kept.info, &kept.marks, NULL),
        STATUS_OK);
    for (uint64_t after = 0; after < 1500; after += 61) {
        struct batch *row, *block;

        assert_int_equal(source(w, after, &row, NULL), STATUS_OK);
        assert_int_equal(list_file_read(&kept, after, NULL, &block, NULL),
                         STATUS_OK);
        assert_true(slice_equal(batch_slice(row, after, after + 1),
                                batch_slice(block, after, after + 1)));
        batch_unref(row);
        batch_unref(block);
    }

    forget_all(w);
    assert_int_equal(count_batches(w), 5);
    assert_int_equal(read_on(w, 1500), 2000);
    reopen(w);
    assert_int_equal(w->head.last, 2000);
    buf_fini(&file.marks);
    buf_fini(&kept.marks);
}

static enum status
source_in_memory(void *user, uint64_t after, struct batch **batch,
                 struct problem *why)
{
    struct world *w = user;

    (void)why;
    for (size_t i = 0; i < w->n_chain && !*batch; i++)
        if (after < w->chain[i]->last)
            *batch = batch_ref(w->chain[i]);
    return STATUS_OK;
}

/* Files list 1 and moves its file to `name`. */
static void
write_list_as(struct world *w, struct list_file *file,
              list_file_source_fn *from, const char *name)
{
    buf_init(&file->marks, LIST_FILE_MARKS_MAX);
    assert_int_equal(list_file_write(file, SLICE("header"), from, w, NULL),
                     STATUS_OK);
    assert_int_equal(
        renameat(w->dir.fd, "000000000001.xml.gz", w->dir.fd, name), 0);
}

/* log.md, lists: the bytes of a file and its marks are a function of the
 * entries and the header. The batches of a commit and of the store make no
 * difference.
 */
TEST(files_the_same_bytes_from_memory_and_from_the_store)
{
    struct world *w = *state;
    struct list_file made = {.dir_fd = w->dir.fd}, stored = made;
    struct buf bytes[2];
    struct batch *b;

    world_open(w, 40, 90);
    commit_batches(w, 0, 40);
    assert_int_equal(source(w, 0, &b, NULL), STATUS_OK);
    assert_true(b->last > w->chain[0]->last); /* merged */
    batch_unref(b);
    made.info = stored.info = list_of(w, 1, 0, 40);
    write_list_as(w, &made, source_in_memory, "made");
    write_list_as(w, &stored, source, "read");
    for (size_t i = 0; i < 2; i++) {
        int fd = openat(w->dir.fd, i ? "read" : "made", O_RDONLY);
        ssize_t size;

        buf_init(&bytes[i], SIZE_MAX);
        size = read(fd, buf_room(&bytes[i], 1 << 20), 1 << 20);
        assert_in_range(size, 10000, (1 << 20) - 1);
        bytes[i].size = (size_t)size;
        close(fd);
    }
    assert_true(slice_equal(buf_slice(&bytes[0]), buf_slice(&bytes[1])));
    assert_true(slice_equal(buf_slice(&made.marks), buf_slice(&stored.marks)));
    assert_true(made.marks.size > (size_t)3 * LIST_MARK_SIZE);
    for (size_t i = 0; i < 2; i++)
        buf_fini(&bytes[i]);
    buf_fini(&made.marks);
    buf_fini(&stored.marks);
}

/* The identity of the WAL: its header, which changes when it begins anew. */
static bool
wal_generation(const struct world *w, uint8_t generation[8], off_t *size)
{
    char path[400];
    struct stat st;
    int fd;
    bool has;

    snprintf(path, sizeof(path), "%s/tidings.db-wal", w->dir.path);
    fd = open(path, O_RDONLY);
    has = fd >= 0 && pread(fd, generation, 8, 12) == 8 && !fstat(fd, &st);
    if (has)
        *size = st.st_size;
    if (fd >= 0)
        close(fd);
    return has;
}

/* A log that goes on for ever: the same batch, with new seqs. */
static void
commit_more(struct world *w)
{
    struct batch *b = w->chain[0];
    const struct act act = batch_of(w->set, b);

    b->first += 1000;
    b->last += 1000;
    commit_acts(w, &act, 1);
    w->engine->ops->tidy(w->engine);
}

/* log.md, commit: checkpoints, and between commits a RESTART, make the WAL
 * begin anew again and again, so that it does not grow with the written
 * bytes. */
TEST(writes_the_wal_from_its_beginning_again_and_again)
{
    uint8_t before[8], now[8];
    struct world *w = *state;
    off_t size = 0;

    world_open(w, 1, 700);
    commit_batches(w, 0, 1);
    for (int round = 0; round < 4; round++) {
        assert_true(wal_generation(w, before, &size));
        do {
            commit_more(w);
            assert_true(wal_generation(w, now, &size));
            assert_true(size < (off_t)256 << 20);
        } while (!memcmp(before, now, sizeof(now)));
    }
}

/* Threads */

struct reader {
    pthread_t id;
    struct world *w;
    uint64_t until;
    bool is_wrong;
};

/* Follows the log while it grows; each read is of one moment. */
static void *
follow(void *user)
{
    struct reader *r = user;
    uint64_t after = 0;

    while (after < r->until && !r->is_wrong) {
        struct batch *b;

        if (r->w->engine->ops->read(r->w->engine, r->w->set, after, &b, NULL)) {
            r->is_wrong = true;
        } else if (b) {
            r->is_wrong = after + 1 < b->first || after + 1 > b->last ||
                          b->last_us != POSTS_TIME(b->last);
            after = b->last;
            batch_unref(b);
        }
    }
    return NULL;
}

/* design.md section 3: reads come from any thread, while commits go on. */
TEST(is_read_by_threads_while_it_is_written)
{
    struct reader readers[3];
    struct world *w = *state;

    world_open(w, 40, 20);
    commit_batches(w, 0, 1);
    for (int i = 0; i < 3; i++) {
        readers[i] = (struct reader){.w = w, .until = 800};
        assert_int_equal(
            pthread_create(&readers[i].id, NULL, follow, &readers[i]), 0);
    }
    for (size_t i = 1; i < 40; i++) {
        commit_batches(w, i, i + 1);
        w->engine->ops->tidy(w->engine);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(readers[i].id, NULL);
        assert_false(readers[i].is_wrong);
    }
}
