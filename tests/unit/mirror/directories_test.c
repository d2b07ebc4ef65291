/*
 * directories_test.c - the directories above files, each once.
 */
#include "client/mirror/directories.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

/* What is listed of files, which end with NULL: "|a|a/b|". */
static void
assert_above(const char *const *files, const char *expected)
{
    struct directories d = {NULL, 0, 0};
    char told[400] = "";

    for (size_t i = 0; files[i]; i++)
        assert_true(directories_add(&d, files[i]));
    directories_sort(&d);
    for (size_t i = 0; i < d.n; i++) {
        strcat(told, d.all[i]);
        strcat(told, "|");
    }
    assert_string_equal(told, expected);
    directories_clear(&d);
    assert_int_equal(d.n, 0);
}

TEST(all_above_a_file_are_listed_up_to_the_mirror_s_own)
{
    const char *const files[] = {"h/a/b/1.txt", NULL};

    assert_above(files, "|h|h/a|h/a/b|");
}

TEST(a_file_in_the_mirror_s_own_has_only_that_above_it)
{
    const char *const files[] = {"1.txt", NULL};

    assert_above(files, "|");
}

TEST(each_is_listed_once_whoever_is_its_neighbour)
{
    const char *const files[] = {"h/a/1", "h/a/2", "1",     "h/b/1",
                                 "2",     "h/a/3", "h/b/1", NULL};

    assert_above(files, "|h|h/a|h/b|");
}

/* Of which one is the beginning of the other, or has its length. */
TEST(those_of_names_that_begin_alike_are_several)
{
    const char *const files[] = {"ab/1", "a/1", "ac/1", "abc/1", NULL};

    assert_above(files, "|a|ab|abc|ac|");
}

TEST(no_files_have_none)
{
    const char *const files[] = {NULL};

    assert_above(files, "");
}
