/*
 * durability_test.c - the files of closed lists survive a power failure.
 */
#include "broker/log/list_file.h"
#include "tests/support/posts.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/base/syncs.h"

static enum status
source(void *user, uint64_t after, struct batch **batch, struct problem *why)
{
    (void)after;
    (void)why;
    *batch = batch_ref(*(struct batch **)user);
    return STATUS_OK;
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* the log deletes the rows of a list when its file is on the disk. */
TEST(a_closed_list_is_on_the_disk_before_its_rows_may_go)
{
    struct problem why = {""};
    struct batch *batch;
    struct list_info info = {.number = 7, .last = 3};
    struct buf marks;

    posts_chain(&batch, 1, 3);
    info.before = batch->before;
    info.digest = batch->digest;
    info.from_us = POSTS_TIME(0);
    info.until_us = POSTS_TIME(3);
    buf_init(&marks, 65536);
    syncs_begin();

    if (list_file_write(tempdir_fd(state), &info, SLICE("<urlset>\n"), source,
                        &batch, &marks, &why))
        fail_msg("%s", why.text);

    assert_true(syncs_keep_file(tempdir_fd(state), "000000000007.xml.gz"));
    buf_fini(&marks);
    batch_unref(batch);
}
