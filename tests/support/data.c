#include "tests/support/data.h"

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"

/* Folders that nftw keeps open at a time. */
#define OPEN_MAX_DIRS 16

/* Of the directory at hand: nftw hands nothing on. */
static struct digest sum;

static bool
is_nothing(const char *name, const struct stat *st)
{
    return !strcmp(name, "lock") || !strcmp(name, "tidings.db-shm") ||
           (!strcmp(name, "tidings.db-wal") && st->st_size == 0);
}

/* In whatever order the files come: each has a sum of its own. */
static int
add_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    char bytes[65536];
    struct digest one;
    FILE *file;
    size_t n;

    if (type != FTW_F || is_nothing(path + ftw->base, st))
        return 0;
    digest_start(&one, slice_of(path));
    file = fopen(path, "re");
    assert_non_null(file);
    while ((n = fread(bytes, 1, sizeof(bytes), file)) > 0)
        digest_add(&one, (struct slice){bytes, n});
    fclose(file);
    for (size_t i = 0; i < DIGEST_SIZE; i++)
        sum.bytes[i] ^= one.bytes[i];
    return 0;
}

struct digest
data_sum(const char *dir)
{
    memset(&sum, 0, sizeof(sum));
    assert_int_equal(nftw(dir, add_file, OPEN_MAX_DIRS, FTW_PHYS), 0);
    return sum;
}
