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
    struct list_file file = {.dir_fd = tempdir_fd(state),
                             .info = {.number = 7, .last = 3}};

    posts_chain(&batch, 1, 3);
    file.info.before = batch->before;
    file.info.digest = batch->digest;
    file.info.from_us = POSTS_TIME(0);
    file.info.until_us = POSTS_TIME(3);
    buf_init(&file.marks, LIST_FILE_MARKS_MAX);
    syncs_begin();

    if (list_file_write(&file, SLICE("<urlset>\n"), source, &batch, &why))
        fail_msg("%s", why.text);

    assert_true(syncs_keep_file(tempdir_fd(state), "000000000007.xml.gz"));
    buf_fini(&file.marks);
    batch_unref(batch);
}
