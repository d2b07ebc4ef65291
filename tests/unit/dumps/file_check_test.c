#include "client/dumps/download.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* Of "hello". */
#define SHA256 \
    "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(a_file_is_read_whole)
{
    int dir = tempdir_fd(state);
    struct digest_check *d =
        digest_check_new(SLICE("sha-256:" SHA256), 5, false);
    struct problem why = {.text = ""};

    tempdir_write(dir, "whole", "hello");
    tempdir_write(dir, "part", "hel");

    assert_int_equal(digests_file(d, dir, "whole", NULL, NULL, &why),
                     STATUS_OK);
    assert_int_equal(digests_file(d, dir, "part", NULL, NULL, &why),
                     STATUS_INVALID);
    assert_string_equal(why.text, "has 3 bytes, the source announced 5");
    assert_int_equal(digests_file(d, dir, "none", NULL, NULL, &why), STATUS_IO);
    assert_string_equal(why.text,
                        "cannot read none: No such file or directory");
    digest_check_free(d);
}
