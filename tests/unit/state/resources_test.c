#include "broker/state/resources.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/datetime.h"
#include "proto/resourcesync/fragment.h"
#include "tests/support/fold_dbs.h"
#include "tests/test.h"
#include "tests/unit/state/folded.h"

FIXTURE(folded_setup, folded_teardown);

/* at each commit the state is what all entries up
 * to its position say, one after the other: however they are grouped, and
 * through restarts. */
TEST(is_what_the_log_says_up_to_its_position)
{
    struct folded *w = *state;
    uint64_t seq = 0;

    folded_open(w, BATCHES, 60, 90);
    folded_check(w);
    while (seq < folded_last(w)) {
        unsigned n = 1 + model_random(&w->random) % 5;

        while (n-- > 0 && seq < folded_last(w))
            seq = folded_on(w, seq, seq + 1 + model_random(&w->random) % 100);
        folded_commit(w);
        assert_int_equal(resources_at(w->resources)->seq, seq);
        folded_check(w);
        if (model_random(&w->random) % 4 == 0) {
            folded_reopen(w);
            folded_check(w);
        }
    }
}

/* From the first request on each commit keeps the ids, and their sum is that of
 * the entries. */
TEST(keeps_ids_once_somebody_asked)
{
    struct folded *w = *state;
    uint64_t seq = 0;

    folded_open(w, BATCHES, 60, 90);
    while (seq < folded_last(w)) {
        seq = folded_on(w, seq, seq + 1 + model_random(&w->random) % 300);
        folded_commit(w);
        if (seq > folded_last(w) / 3)
            assert_int_equal(resources_add_ids(w->resources, NULL), 0);
        assert_true(resources_at(w->resources)->has_ids ==
                    (seq > folded_last(w) / 3));
        folded_check(w);
        if (model_random(&w->random) % 4 == 0) {
            folded_reopen(w);
            folded_check(w);
        }
    }
}

/* Uncommitted changes have not happened. */
TEST(is_as_of_the_last_commit)
{
    struct folded *w = *state;

    folded_open(w, 4, 50, 20);
    folded_to_batch(w, 1);
    folded_on(w, w->batches[1]->last, UINT64_MAX);
    assert_int_equal(resources_at(w->resources)->seq, w->batches[1]->last);
    folded_check(w);
    folded_reopen(w);
    folded_check(w);
    folded_check_all(w);
}

/* A commit of nothing is none. */
TEST(needs_nothing_to_be_folded)
{
    struct resources_entry entry;
    struct folded *w = *state;

    folded_open(w, 1, 1, 1);
    folded_commit(w);
    assert_int_equal(resources_at(w->resources)->us, DATETIME_NONE);
    assert_int_equal(resources_next(w->resources, 0, &entry, NULL),
                     STATUS_NOT_FOUND);
    folded_check(w);
}

/* A walk can begin at any resource, and no change disturbs it. */
TEST(walks_on_from_any_resource)
{
    struct resources_entry entry;
    int64_t ids[20];
    struct folded *w = *state;
    size_t n = 0;

    folded_open(w, 10, 50, 20);
    folded_to(w, folded_last(w));
    for (int64_t id = 0; !resources_next(w->resources, id, &entry, NULL);
         id = entry.id) {
        assert_in_range(n, 0, 19);
        ids[n++] = entry.id;
    }
    assert_int_equal(n, resources_at(w->resources)->n);
    assert_in_range(n, 5, 20);
    for (size_t i = n - 1; i > 0; i--) {
        assert_int_equal(resources_next(w->resources, ids[i - 1], &entry, NULL),
                         STATUS_OK);
        assert_int_equal(entry.id, ids[i]);
    }
}

/* Two brokers of a cluster build the same Resource List: the order does not
 * depend on which entries were folded together. */
TEST(walks_in_an_order_that_the_log_decides)
{
    struct folded *w = *state;
    uint64_t seqs[MODEL_MAX];
    size_t n = 0;

    folded_open(w, 30, 60, 40);
    for (uint64_t seq = 1; seq <= folded_last(w); seq++)
        folded_to(w, seq);
    for (unsigned i = 0; i < 2; i++) {
        struct resources_entry e = {.id = 0};
        struct problem why = {""};
        size_t k = 0;

        for (; !resources_next(w->resources, e.id, &e, &why); k++) {
            if (i == 0)
                seqs[n++] = e.seq;
            else
                assert_int_equal(e.seq, seqs[k]);
        }
        assert_int_equal(k, n);
        assert_int_equal(fold_db_begin(fold_db_of(w->resources), 0, &why),
                         STATUS_OK);
        while (resources_at(w->resources)->seq < folded_last(w)) {
            uint64_t to = resources_at(w->resources)->seq + 300;

            folded_to(w, to < folded_last(w) ? to : folded_last(w));
        }
    }
}

/* Entries of any size, those that fill many pages included, grow and shrink. */
TEST(keeps_entries_of_every_size)
{
    static char text[200000];
    struct attribute attribute = {SLICE("urn:x"), SLICE("x"), SLICE("a"),
                                  SLICE("")};
    const size_t sizes[] = {10, 200000, 5000, 199000, 1, 0, 4000};
    struct digest digest;
    struct folded *w = *state;

    folded_open(w, 1, 1, 1);
    memset(text, 'x', sizeof(text));
    digest_sha256(&digest, SLICE(EPOCH));
    for (uint64_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct batch *b = batch_new(i, MODEL_TIME(i), &digest, NULL);
        struct fragment fragment;
        struct change change;
        struct buf bytes;

        change_init(&change);
        change.loc = SLICE("http://example.com/r/1");
        change.kind = sizes[i] ? CHANGE_UPDATED : CHANGE_DELETED;
        attribute.value = (struct slice){text, sizes[i]};
        change.attributes = &attribute;
        change.n_attributes = 1;
        buf_init(&bytes, FRAGMENT_MAX);
        assert_int_equal(fragment_write(&bytes, &change, &fragment, NULL), 0);
        assert_int_equal(batch_reserve(b, bytes.size + FRAGMENT_STAMP_MAX, 1),
                         0);
        batch_add(b, bytes.data, &fragment, MODEL_TIME(i + 1));
        buf_fini(&bytes);
        assert_int_equal(fold_db_add(fold_db_of(w->resources), b, i + 1, NULL),
                         0);
        folded_commit(w);
        model_fold(&w->model, b, i + 1);
        model_check(&w->model, w->resources);
        digest = b->digest;
        batch_unref(b);
    }
}

/* Memory is limited: after so many entries the state asks for a commit. */
TEST(says_when_enough_is_gathered)
{
    struct folded *w = *state;
    uint64_t seq = 0;

    folded_open(w, 50, 4000, MODEL_MAX);
    while (!fold_db_is_full(fold_db_of(w->resources)))
        seq = folded_on(w, seq, UINT64_MAX);
    assert_in_range(seq, 64000, 68000);
    folded_commit(w);
    assert_false(fold_db_is_full(fold_db_of(w->resources)));
    folded_check(w);
    folded_check_all(w);
}

/* Retention deletes only entries whose fold survives a crash of the machine. */
TEST(tells_what_is_firm)
{
    struct folded *w = *state;

    folded_open(w, 2, 50, 20);
    folded_to_batch(w, 0);
    assert_int_equal(resources_at(w->resources)->kept, 0);
    assert_int_equal(resources_keep(w->resources, NULL), STATUS_OK);
    assert_int_equal(resources_at(w->resources)->kept, w->batches[0]->last);
    folded_to(w, folded_last(w));
    assert_int_equal(resources_at(w->resources)->kept, w->batches[0]->last);
    folded_reopen(w);
    assert_int_equal(resources_at(w->resources)->kept, 0); /* nobody knows */
    assert_int_equal(resources_keep(w->resources, NULL), STATUS_OK);
    assert_int_equal(resources_at(w->resources)->kept, folded_last(w));
}

/* The WAL does not grow for ever. */
TEST(makes_firm_what_has_become_much)
{
    struct stat st;
    struct folded *w = *state;

    folded_open(w, 30, 2000, MODEL_MAX);
    for (uint64_t seq = 0; seq < folded_last(w);) {
        seq = folded_on(w, seq, UINT64_MAX);
        folded_commit(w);
        assert_int_equal(fstatat(w->dir.fd, "resources.db-wal", &st, 0), 0);
        assert_in_range(st.st_size, 0, 2 << 20);
    }
    assert_in_range(resources_at(w->resources)->kept, 1, folded_last(w));
    folded_check(w);
}

/* In a process of its own: folds on, commit after commit, until it is killed.
 */
static void
fold_until_killed(struct folded *w, int told)
{
    uint64_t seq;

    folded_close_state(w);
    if (resources_open(&w->resources, w->dir.path, EPOCH, NULL))
        _exit(1);
    seq = resources_at(w->resources)->seq;
    while (seq < folded_last(w)) {
        const struct batch *b = folded_batch(w, seq + 1);
        uint64_t last = seq + 1 + model_random(&w->random) % 40;

        seq = last < b->last ? last : b->last;
        if (fold_db_add(fold_db_of(w->resources), b, seq, NULL) ||
            fold_db_commit(fold_db_of(w->resources), NULL) ||
            (model_random(&w->random) % 8 == 0 &&
             resources_keep(w->resources, NULL)))
            _exit(1);
        if (write(told, &seq, sizeof(seq)) != sizeof(seq))
            _exit(1);
    }
    pause();
}

/* kill -9 at any moment leaves the state of one position, and no
 * committed entry is folded again. */
TEST(is_of_one_position_after_a_kill)
{
    struct folded *w = *state;

    folded_open(w, BATCHES, 200, 500);
    w->random = test_seed();
    for (unsigned n = 0; n < 30; n++) {
        unsigned n_commits = 1 + model_random(&w->random) % 20;
        uint64_t told = 0;
        int pipes[2], status;
        pid_t pid;

        assert_int_equal(pipe(pipes), 0);
        folded_close_state(w);
        w->resources = NULL;
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            close(pipes[0]);
            w->random += n;
            fold_until_killed(w, pipes[1]);
        }
        close(pipes[1]);
        for (unsigned i = 0; i < n_commits && told < folded_last(w); i++)
            assert_int_equal(read(pipes[0], &told, sizeof(told)), sizeof(told));
        for (volatile uint32_t i = model_random(&w->random) % 500000; i > 0;)
            i--; /* any moment will do */
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        while (read(pipes[0], &told, sizeof(told)) == sizeof(told))
            ;
        close(pipes[0]);
        folded_open_state(w);
        assert_in_range(resources_at(w->resources)->seq, told, folded_last(w));
        folded_check(w);
        /* The kill may have come before it reported the last commit. */
        if (resources_at(w->resources)->seq == folded_last(w)) {
            model_fini(&w->model);
            model_init(&w->model);
            assert_int_equal(fold_db_begin(fold_db_of(w->resources), 0, NULL),
                             0);
        }
    }
}

/* Fills a new state in `dir` with the resources of another one. */
static struct resources *
fill_state(struct resources *from, const char *dir)
{
    struct resources *to = NULL;
    struct resources_entry entry = {.id = 0};

    assert_int_equal(resources_open(&to, dir, EPOCH, NULL), STATUS_OK);
    while (!resources_next(from, entry.id, &entry, NULL))
        assert_int_equal(resources_fill(to, entry.seq, entry.entry, NULL),
                         STATUS_OK);
    assert_int_equal(resources_fill_end(to, resources_at(from)->seq,
                                        resources_at(from)->us, NULL),
                     STATUS_OK);
    return to;
}

/* A restore fills a state from a Resource List. It equals the state from which
 * the broker made the list, and the log goes on behind it. */
TEST(goes_on_from_a_list_of_all_resources)
{
    struct folded *w = *state;
    struct resources *folded;
    struct tempdir other;

    folded_open(w, BATCHES, 60, 90);
    folded_to_batch(w, BATCHES / 2);
    tempdir_open(&other);
    folded = w->resources;
    w->resources = fill_state(folded, other.path);
    assert_true(resources_at(w->resources)->is_whole);
    assert_int_equal(resources_at(w->resources)->kept,
                     resources_at(folded)->seq);
    assert_int_equal(resources_at(w->resources)->bytes,
                     resources_at(folded)->bytes);
    folded_check(w);
    folded_check_all(w);
    fold_db_close(fold_db_of(w->resources));
    w->resources = folded;
    tempdir_close(&other);
}

TEST(takes_no_resource_of_a_list_twice)
{
    struct folded *w = *state;
    struct resources_entry entry;
    struct problem why = {""};
    char copy[4096];
    struct slice again = {copy, 0};

    folded_open(w, 1, 1, 1);
    folded_check_all(w);
    assert_int_equal(resources_next(w->resources, 0, &entry, NULL), STATUS_OK);
    assert_true(slice_copy(copy, sizeof(copy), entry.entry));
    again.size = entry.entry.size;
    fold_db_close(fold_db_of(w->resources));
    assert_int_equal(
        resources_open(&w->resources, w->dir.path, "fedcba9876543210", NULL),
        STATUS_OK);
    assert_int_equal(resources_fill(w->resources, 1, again, &why), STATUS_OK);
    assert_int_equal(resources_fill(w->resources, 2, again, &why),
                     STATUS_DIFFERENT);
    assert_non_null(strstr(why.text, "twice"));
}
