/*
 * copies_test.c - documents of three brokers that share a journal: each has the
 * same bytes everywhere, whichever broker took the posts, and whether a broker
 * has the entries in memory or on its disk.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/documents/documents.h"
#include "tests/clock.h"
#include "tests/support/bodies.h"
#include "tests/support/set_changes.h"
#include "tests/support/sets.h"
#include "tests/support/shared_journal.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define BROKERS 3

struct copies {
    struct shared_journal all;
    struct seat seats[BROKERS];
    struct tempdir dirs[BROKERS];
    struct sets s[BROKERS];
};

static int
copies_setup(void **state)
{
    struct copies *c = calloc(1, sizeof(*c));

    assert_non_null(c);
    shared_journal_init(&c->all);
    for (int i = 0; i < BROKERS; i++) {
        tempdir_open(&c->dirs[i]);
        sets_configure(&c->s[i], c->dirs[i].path);
        c->s[i].config.index_lists = 2;
        c->s[i].config.description_sets = 2;
        c->s[i].journal = seat_take(&c->seats[i], &c->all);
        sets_open(&c->s[i]);
    }
    *state = c;
    return 0;
}

static int
copies_teardown(void **state)
{
    struct copies *c = *state;

    for (int i = 0; i < BROKERS; i++) {
        sets_close(&c->s[i]);
        tempdir_close(&c->dirs[i]);
    }
    shared_journal_fini(&c->all);
    free(c);
    return 0;
}

FIXTURE(copies_setup, copies_teardown);

static void
follow_all(struct copies *c)
{
    for (int i = 0; i < BROKERS; i++)
        shared_journal_follow(&c->all, c->s[i].registry->log);
}

/* Appends the bytes of a document, its tag, its date and its gzip bytes; the
 * status if it is not there. */
static void
read_document(struct sets *s, const char *path, struct buf *to)
{
    struct document_wish wish = {
        .registry = s->registry, .page = 1, .patience = LOG_DISK};
    struct document_found found;
    struct document document;
    enum status rc;

    assert_int_equal(documents_find(slice_of(path), &found), STATUS_OK);
    if (found.has_set) {
        wish.set = sets_find(s, "demo");
        wish.head = sets_head(s, "demo");
    }
    wish.kind = found.kind;
    wish.number = found.number;
    wish.last = found.last;
    rc = documents_open(&found, &wish, &document, NULL);
    buf_add_format(to, "%s %d ", path, (int)rc);
    if (rc)
        return;
    buf_add(to, (const char *)document.tag.bytes, DIGEST_SIZE);
    buf_add(to, (const char *)&document.modified_us,
            sizeof(document.modified_us));
    bodies_read(document.body, to);
    buf_add_format(to, "gzip %d ", document.gzip != NULL);
    if (document.gzip)
        bodies_read(document.gzip, to);
}

#define SET "/sets/demo/"

static const char *const paths[] = {
    "/.well-known/resourcesync",
    "/descriptions/000000000001-000000000002.xml",
    "/descriptions/000000000003-000000000004.xml",
    SET "capabilitylist.xml",
    SET "changelist.xml",
    SET "changes/latest.xml",
    SET "changes/000000000001.xml",
    SET "changes/000000000002.xml",
    SET "changes/000000000003.xml",
    SET "changes/000000000004.xml",
    SET "changes/000000000005.xml",
    SET "changes/000000000006.xml",
    SET "changelist-archive.xml",
    SET "changelist-archive/000000000001-000000000002.xml",
    SET "changelist-archive/000000000003-000000000004.xml",
};

#define N_PATHS (sizeof(paths) / sizeof(paths[0]))

/* Returns how many documents there are. */
static size_t
assert_equal_documents(struct copies *c)
{
    size_t n = 0;

    for (size_t i = 0; i < N_PATHS; i++) {
        struct buf texts[BROKERS];

        for (int b = 0; b < BROKERS; b++) {
            buf_init(&texts[b], SIZE_MAX);
            read_document(&c->s[b], paths[i], &texts[b]);
            assert_false(texts[b].failed);
            if (!slice_equal(buf_slice(&texts[b]), buf_slice(&texts[0])))
                fail_msg("%s differs at broker %d", paths[i], b);
        }
        n += texts[0].size > 100;
        for (int b = 0; b < BROKERS; b++)
            buf_fini(&texts[b]);
    }
    return n;
}

/* Each broker has written its file at another time. */
static void
age_files(struct copies *c, int i)
{
    const struct timespec times[2] = {{1700000000 + 1000 * i, 0},
                                      {1700000000 + 1000 * i, 0}};
    struct log *log = c->s[i].registry->log;
    struct log_set *set = sets_find(&c->s[i], "demo")->log;
    int fd;

    assert_int_equal(log_list_file(log, set, 1, &fd, NULL), STATUS_OK);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

/* Issue, 3: identity and gzip bytes, ETags and dates are those of one broker.
 * Each closed list has several blocks of gzip; its entries came in posts of
 * several sizes, at all brokers. One broker has them in memory, as they were
 * posted, the others from their stores, which join small batches. */
TEST(documents_are_equal_at_all_brokers)
{
    struct copies *c = *state;
    struct log *log;
    struct problem why;
    bool is_done = false;

    set_changes_put(&c->s[0], "demo", "{\"title\":\"Demo & more\"}");
    for (unsigned list = 0; list < 5; list++) {
        for (unsigned i = 0; i < 5; i++)
            sets_post_heavy(&c->s[(list + i) % BROKERS], "demo",
                            list * 1000 + i * 100, 1 + 20 * (i % 3), 4000);
        sets_rotate(&c->s[list % BROKERS], "demo");
    }
    sets_post(&c->s[1], "demo", 1, 3);
    sets_post(&c->s[2], "other", 1, 3);
    set_changes_put(&c->s[1], "third", "{}");
    follow_all(c);
    (void)assert_equal_documents(c);
    for (int i = 1; i < BROKERS; i++) { /* empties the memory */
        sets_close(&c->s[i]);
        sets_open(&c->s[i]);
    }
    assert_int_equal(assert_equal_documents(c), N_PATHS);
    for (int i = 0; i < BROKERS; i++)
        sets_file_all(&c->s[i]);
    assert_int_equal(assert_equal_documents(c), N_PATHS);
    for (int i = 0; i < BROKERS; i++)
        age_files(c, i);
    clock_pass_us(10000000); /* the files have got old enough for a date */
    assert_int_equal(assert_equal_documents(c), N_PATHS);
    log = c->s[0].registry->log;
    assert_int_equal(log_file_list(log, &is_done, &why), STATUS_OK);
    assert_true(is_done);

    for (int i = 0; i < BROKERS; i++)
        sets_fold_all(&c->s[i]);
    atomic_store(&sets_find(&c->s[2], "demo")->retain_lists, 3);
    sets_retain(&c->s[2]);
    sets_fold_all(&c->s[2]);
    sets_retain(&c->s[2]);
    assert_int_equal(sets_head(&c->s[2], "demo").first_list, 3);
    follow_all(c);
    (void)assert_equal_documents(c);
}
