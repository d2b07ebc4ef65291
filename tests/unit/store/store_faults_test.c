#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <sqlite3.h>

#include "broker/store/store.h"
#include "tests/test.h"
#include "tests/unit/base/disk.h"
#include "tests/unit/store/stored.h"

uint64_t stored_free_bytes;

int
fstatvfs(int fd, struct statvfs *fs)
{
    (void)fd;
    memset(fs, 0, sizeof(*fs));
    fs->f_frsize = 1;
    fs->f_bavail = stored_free_bytes ? stored_free_bytes : (uint64_t)1 << 40;
    return 0;
}

static void
refuses_cleanly(struct world *w, int result, int error, const char *reason)
{
    struct problem why = {""};
    unsigned n_refused = 0;
    enum status rc;

    world_open(w, 12, 100);
    commit_batches(w, 0, 1);
    do {
        disk_fails_as(DISK_WRITE_WAL, result, error, (int)n_refused);
        rc = try_batches(w, 1, 12, &why);
        disk_mend();
        if (rc) {
            assert_int_equal(rc, STATUS_BUSY);
            assert_non_null(strstr(why.text, reason));
            assert_int_equal(read_on(w, 0), 100);
            n_refused++;
        }
    } while (rc);
    assert_true(n_refused >= 10);
    assert_int_equal(read_on(w, 0), 1200);
    reopen(w);
    assert_int_equal(w->head.last, 1200);
    assert_int_equal(read_on(w, 0), 1200);
}

FIXTURE(world_setup, world_teardown);
TEST_GROUP(NULL, disk_setup, NULL);

/* log.md, commit: a full disk is a clean refusal, at whichever write it comes:
 * nothing is kept, readers see what was there, and the next commit works. */
TEST(refuses_cleanly_when_the_disk_is_full)
{
    refuses_cleanly(*state, SQLITE_FULL, ENOSPC, "full");
}

/* SQLite has no result of its own for it. */
TEST(refuses_cleanly_when_the_quota_is_used_up)
{
    refuses_cleanly(*state, SQLITE_IOERR_WRITE, EDQUOT, "quota");
}

/* The birth of a set is refused with its first batch. */
TEST(bears_no_set_when_the_disk_is_full)
{
    struct world *w = *state;

    world_open(w, 2, 10);
    disk_fails(DISK_WRITE_WAL, SQLITE_FULL, 0);
    assert_int_equal(try_batches(w, 0, 2, NULL), STATUS_BUSY);
    disk_mend();
    reopen(w);
    assert_int_equal(w->n_loaded, 0);
    commit_batches(w, 0, 2);
    reopen(w);
    assert_int_equal(w->n_loaded, 1);
    assert_int_equal(read_on(w, 0), 20);
}

/* A commit that cannot be applied to its end is taken back, and blocks nothing:
 * here a set is born that exists already. The place stays where it was. */
TEST(takes_back_what_it_could_not_apply)
{
    struct world *w = *state;
    struct journal_place place = {.n = 3};
    struct act births[2];
    const struct commit commit = {clock_now_us(), births, 2, &place};
    uint32_t id;
    bool is_more;

    world_open(w, 2, 10);
    commit_batches(w, 0, 1);
    births[0] = birth(w, "b", &id);
    births[1] = birth(w, "a", &id);
    births[1].set_id++;
    assert_int_equal(ENGINE(w, commit, &commit, &is_more, NULL), STATUS_BUSY);
    assert_int_equal(ENGINE(w, place, &place, NULL), STATUS_OK);
    assert_int_equal(place.n, 0);
    assert_int_equal(w->engine->ops->next_id(w->engine), id);
    commit_batches(w, 1, 2);
    assert_int_equal(ask(w, "SELECT count(*) FROM sets"), 1);
    assert_int_equal(read_on(w, 0), 20);
}

/* log.md, commit (measured): after an I/O error nobody knows; the next start
 * finds all of the commit, or nothing. */
TEST(does_not_know_after_an_io_error)
{
    struct problem why = {""};
    struct world *w = *state;

    world_open(w, 4, 100);
    commit_batches(w, 0, 2);
    disk_fails(DISK_WRITE_WAL, SQLITE_IOERR_WRITE, 1);
    assert_int_equal(try_batches(w, 2, 4, &why), STATUS_IO);
    assert_non_null(strstr(why.text, "commit"));
    disk_mend();
    reopen(w);
    assert_true(w->head.last == 200 || w->head.last == 400);
    assert_int_equal(read_on(w, 0), w->head.last);
}

static uint64_t
room(struct world *w)
{
    return w->engine->ops->room(w->engine);
}

static bool
has_room(struct world *w)
{
    return room(w) > 0;
}

/* log.md, commit: below the reserve the log refuses posts, but goes on to free
 * space; the database never shrinks, but its free pages count as room. */
TEST(keeps_a_reserve_for_what_frees_space)
{
    struct list_info info;
    struct world *w = *state;

    world_open(w, 30, 1000);
    commit_batches(w, 0, 30);
    stored_free_bytes = (uint64_t)110 << 20;
    assert_true(has_room(w));
    stored_free_bytes = (uint64_t)109 << 20;
    assert_false(has_room(w));
    info = list_of(w, 1, 0, 30);
    commit_end(w, &info, "header");
    commit_filed(w, 1, SLICE("marks"));
    forget_all(w);
    assert_int_equal(count_batches(w), 0);
    assert_true(has_room(w)); /* the pages that were freed count */
    stored_free_bytes = (uint64_t)63 << 20;
    assert_false(has_room(w)); /* but the WAL and a file need a disk */
    stored_free_bytes = 0;
}

/* A commit needs the WAL and, later, the database: one beyond the reserve's
 * part for it needs twice its size. */
TEST(has_room_for_what_a_commit_takes)
{
    struct world *w = *state;

    world_open(w, 1, 10);
    commit_batches(w, 0, 1);
    stored_free_bytes = (uint64_t)110 << 20;
    assert_int_equal(room(w), 16 << 20);
    stored_free_bytes = (uint64_t)310 << 20;
    assert_int_equal(room(w), (16 << 20) + (100 << 20));
    stored_free_bytes = 0;
}

static off_t
wal_size(const struct world *w)
{
    char path[400];
    struct stat st;

    snprintf(path, sizeof(path), "%s/tidings.db-wal", w->dir.path);
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

/* A refused large commit gives back the space that it has written: others need
 * the disk. The earlier rows are there. */
TEST(gives_back_what_a_refused_commit_has_written)
{
    struct world *w = *state;
    off_t before;

    world_open(w, 40, 2000);
    commit_batches(w, 0, 1);
    before = wal_size(w);
    disk_fails(DISK_WRITE_WAL, SQLITE_FULL, 1000);
    assert_int_equal(try_batches(w, 1, 40, NULL), STATUS_BUSY);
    disk_mend();
    assert_int_equal(wal_size(w), before);
    commit_batches(w, 1, 2);
    assert_true(wal_size(w) > before);
    assert_int_equal(read_on(w, 0), 4000);
    reopen(w);
    assert_int_equal(w->head.last, 4000);
    assert_int_equal(read_on(w, 0), 4000);
}

static bool
is_said(const char *path, const char *text)
{
    char said[4096];
    FILE *f = fopen(path, "r");
    size_t n;

    assert_non_null(f);
    n = fread(said, 1, sizeof(said) - 1, f);
    fclose(f);
    said[n] = '\0';
    return strstr(said, text) != NULL;
}

/* Nothing is refused, but the WAL grows: the operator has to know that before
 * the disk is full. */
TEST(says_that_a_checkpoint_has_failed)
{
    int stderr_fd = dup(STDERR_FILENO), fd;
    char path[400];
    struct world *w = *state;

    world_open(w, 40, 2000);
    snprintf(path, sizeof(path), "%s/said", w->dir.path);
    fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    assert_true(fd >= 0);
    dup2(fd, STDERR_FILENO);
    close(fd);
    disk_fails(DISK_WRITE_DATABASE, SQLITE_IOERR_WRITE, 0);
    commit_batches(w, 0, 40);
    AWAIT(is_said(path, "a checkpoint has failed"));
    disk_mend();
    dup2(stderr_fd, STDERR_FILENO);
    close(stderr_fd);
    assert_int_equal(read_on(w, 0), 80000);
}

/* a row that the disk has damaged is reported, not served. */
TEST(says_which_entry_is_damaged)
{
    struct problem why = {""};
    struct batch *b;
    struct world *w = *state;

    world_open(w, 3, 10);
    commit_batches(w, 0, 3);
    change(w, "UPDATE batches SET body = substr(body, 2) WHERE first = 11");
    assert_int_equal(ENGINE(w, read, w->set, 10, &b, &why), STATUS_IO);
    assert_null(b);
    assert_string_equal(why.text, "the stored entry 11 is damaged");
    assert_int_equal(ENGINE(w, read, w->set, 20, &b, NULL), 0);
    batch_unref(b);
}
