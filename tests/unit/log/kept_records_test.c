#include "broker/log/kept_records.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "proto/buf.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

struct world {
    struct tempdir dir;
    struct kept_records k;
    struct buf read;
};

static int
setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    tempdir_open(&w->dir);
    w->k = (struct kept_records){.dir = w->dir.path, .fd = -1};
    buf_init(&w->read, SIZE_MAX);
    *state = w;
    return 0;
}

static int
teardown(void **state)
{
    struct world *w = *state;

    file_close(&w->k.fd);
    tempdir_close(&w->dir);
    buf_fini(&w->read);
    free(w);
    return 0;
}

FIXTURE(setup, teardown);

static enum status
take(const struct journal_place *place, struct slice record, void *user,
     struct problem *why)
{
    (void)why;
    buf_add_format(user, "%d %.*s;", (int)place->n, SLICE_ARG(record));
    return STATUS_OK;
}

/* The records behind number `after`, as text. */
static const char *
read_behind(struct world *w, uint64_t after)
{
    struct journal_place place = {.n = after};
    struct problem why;

    buf_clear(&w->read);
    assert_int_equal(
        kept_records_read(w->dir.path, &place, take, &w->read, &why),
        STATUS_OK);
    buf_add(&w->read, "", 1);
    return w->read.data;
}

TEST(hands_over_what_is_behind_a_place)
{
    struct world *w = *state;
    struct journal_place place = {.n = 4}, expected = place;
    struct problem why;

    assert_string_equal(read_behind(w, 0), "");
    kept_records_add(&w->k, 5, SLICE("five"));
    kept_records_add(&w->k, 6, SLICE("six"));
    assert_string_equal(read_behind(w, 4), "5 five;6 six;");
    assert_string_equal(read_behind(w, 5), "6 six;");
    assert_string_equal(read_behind(w, 6), "");
    assert_string_equal(read_behind(w, 3), ""); /* there is no 4 */
    assert_int_equal(
        kept_records_read(w->dir.path, &place, take, &w->read, &why),
        STATUS_OK);
    journal_place_next(&expected, SLICE("five"));
    journal_place_next(&expected, SLICE("six"));
    assert_memory_equal(&place, &expected, sizeof(place));
}

/* The next process goes on behind the last whole entry. */
TEST(cuts_off_what_a_crash_left_unfinished)
{
    struct world *w = *state;
    int fd;

    kept_records_add(&w->k, 1, SLICE("one"));
    file_close(&w->k.fd);
    fd = openat(w->dir.fd, KEPT_RECORDS_LATEST, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "\0\0\0\0\0\0\0\2\0\0\0\7tw", 14), 14);
    close(fd);
    assert_string_equal(read_behind(w, 0), "1 one;");
    kept_records_add(&w->k, 2, SLICE("two"));
    assert_string_equal(read_behind(w, 0), "1 one;2 two;");
}

TEST(keeps_no_record_beyond_two_files)
{
    struct world *w = *state;
    size_t size = KEPT_RECORDS_BYTES / 2;
    char *bytes = calloc(1, size);
    struct journal_place place = {.n = 0};
    struct problem why;

    assert_non_null(bytes);
    for (uint64_t n = 1; n <= 6; n++)
        kept_records_add(&w->k, n, (struct slice){bytes, size});
    free(bytes);
    for (uint64_t n = 0; n <= 2 && place.n < 6; n++) {
        place.n = n;
        buf_clear(&w->read);
        assert_int_equal(
            kept_records_read(w->dir.path, &place, take, &w->read, &why),
            STATUS_OK);
        assert_int_equal(place.n, n < 2 ? n : 6);
    }
}
