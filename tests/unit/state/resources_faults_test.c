#include <string.h>

#include <sqlite3.h>

#include "broker/state/resources.h"
#include "tests/support/fold_dbs.h"
#include "tests/support/model.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/base/disk.h"

#define EPOCH "0123456789abcdef"

static struct resources *
open_state(void **state)
{
    struct problem why = {""};
    struct resources *r;

    if (resources_open(&r, tempdir_path(state), EPOCH, &why))
        fail_msg("%s", why.text);
    return r;
}

/* Folds `batch` again and again; each time one more call of the disk succeeds,
 * until all do. A failure leaves the state as it was; a commit stays, whether
 * its fsync succeeded or not. Returns how often it failed. */
static unsigned
fold_against(void **state, struct resources **r, struct model *m,
             const struct batch *batch, int result, enum status expected)
{
    unsigned n_failed = 0;
    bool is_done = false;

    while (!is_done) {
        struct problem why = {""};
        enum status rc;

        assert_int_equal(resources_at(*r)->seq, batch->first - 1);
        disk_fails(DISK_ALL, result, (int)n_failed);
        rc = fold_db_add(fold_db_of(*r), batch, batch->last, &why);
        assert_int_equal(rc, STATUS_OK);
        rc = fold_db_commit(fold_db_of(*r), &why);
        if (!rc)
            rc = resources_keep(*r, &why);
        disk_mend();
        is_done = resources_at(*r)->seq == batch->last;
        if (is_done && m->seq < batch->last)
            model_fold(m, batch, batch->last);
        assert_true(is_done || rc);
        model_check(m, *r);
        if (rc) {
            assert_int_equal(rc, expected);
            assert_true(why.text[0]);
            assert_true(resources_at(*r)->kept < batch->last);
            n_failed++;
            fold_db_close(fold_db_of(*r)); /* as resources.h wants it */
            *r = open_state(state);
            model_check(m, *r);
        }
    }
    return n_failed;
}

FIXTURE(tempdir_setup, tempdir_teardown);
TEST_GROUP(NULL, disk_setup, NULL);

/* at whichever call a disk is full or fails. */
TEST(is_as_of_the_last_commit_when_the_disk_fails)
{
    static const struct {
        int result;
        enum status expected;
    } faults[] = {{SQLITE_FULL, STATUS_BUSY}, {SQLITE_IOERR, STATUS_IO}};
    struct resources *r = open_state(state);
    struct digest digest;
    struct model m;
    uint64_t after = 0, random = 5;

    model_init(&m);
    digest_sha256(&digest, SLICE(EPOCH));
    for (unsigned i = 0; i < 6; i++) {
        struct batch *b = model_batch(&after, &digest, &random, 100, 60);

        assert_in_range(fold_against(state, &r, &m, b, faults[i % 2].result,
                                     faults[i % 2].expected),
                        5, 1000);
        batch_unref(b);
    }
    assert_int_equal(resources_keep(r, NULL), STATUS_OK);
    assert_int_equal(resources_at(r)->kept, 600);
    fold_db_close(fold_db_of(r));
    model_fini(&m);
}

/* It cannot be begun, nor begun anew, and can when there is room again. */
TEST(begins_when_there_is_room)
{
    struct problem why = {""};
    struct resources *r;
    unsigned n_failed = 0;
    enum status rc;

    do {
        disk_fails(DISK_ALL, SQLITE_FULL, (int)n_failed);
        rc = resources_open(&r, tempdir_path(state),
                            n_failed % 2 ? EPOCH : "fedcba9876543210", &why);
        disk_mend();
        n_failed += rc != STATUS_OK;
        if (rc)
            assert_int_equal(rc, STATUS_BUSY);
    } while (rc);
    assert_in_range(n_failed, 3, 1000);
    fold_db_close(fold_db_of(r));
}

/* The end does not wait for a commit, nor for its fsync: the commit has not
 * begun. */
TEST(gives_up_a_commit_when_the_process_ends)
{
    atomic_bool is_ending = false;
    struct resources *r = open_state(state);
    struct digest digest;
    struct batch *first, *second;
    struct model m;
    uint64_t after = 0, random = 5;

    model_init(&m);
    digest_sha256(&digest, SLICE(EPOCH));
    first = model_batch(&after, &digest, &random, 1000, 600);
    second = model_batch(&after, &digest, &random, 1000, 600);
    fold_db_heed(fold_db_of(r), &is_ending);
    assert_int_equal(fold_db_add(fold_db_of(r), first, 1000, NULL), STATUS_OK);
    assert_int_equal(fold_db_commit(fold_db_of(r), NULL), STATUS_OK);
    model_fold(&m, first, 1000);

    is_ending = true;
    assert_int_equal(resources_keep(r, NULL), STATUS_STOPPED);
    assert_int_equal(fold_db_add(fold_db_of(r), second, 2000, NULL), STATUS_OK);
    assert_int_equal(fold_db_commit(fold_db_of(r), NULL), STATUS_STOPPED);
    assert_int_equal(resources_at(r)->seq, 1000);
    assert_int_equal(resources_at(r)->kept, 0);
    fold_db_close(fold_db_of(r));

    r = open_state(state);
    model_check(&m, r);
    assert_int_equal(fold_db_add(fold_db_of(r), second, 2000, NULL), STATUS_OK);
    assert_int_equal(fold_db_commit(fold_db_of(r), NULL), STATUS_OK);
    model_fold(&m, second, 2000);
    model_check(&m, r);
    fold_db_close(fold_db_of(r));
    batch_unref(first);
    batch_unref(second);
    model_fini(&m);
}
