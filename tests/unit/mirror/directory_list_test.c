/*
 * directory_list_test.c - the directories above files, each once.
 */
#include <stdlib.h>
#include <string.h>

#include "client/mirror/file_commit.h"
#include "tests/test.h"

static int
compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

TEST(each_directory_above_a_file_is_listed_once)
{
    static const struct {
        const char *name;
        const char *files[8]; /* up to NULL */
        const char *expected;
    } rows[] = {
        {"up to the mirror's own", {"h/a/b/1.txt"}, "|h|h/a|h/a/b|"},
        {"a file in the mirror's own", {"1.txt"}, "|"},
        {"neighbours or not",
         {"h/a/1", "h/a/2", "1", "h/b/1", "2", "h/a/3", "h/b/1"},
         "|h|h/a|h/b|"},
        {"names that begin alike",
         {"ab/1", "a/1", "ac/1", "abc/1"},
         "|a|ab|abc|ac|"},
        {"no files", {NULL}, ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct directory_list d = {NULL};
        char told[400] = "";

        for (size_t k = 0; rows[i].files[k]; k++)
            assert_true(directory_list_add(&d, rows[i].files[k]));
        if (d.n > 0)
            qsort(d.all, d.n, sizeof(*d.all), compare_paths);
        for (size_t k = 0; k < d.n; k++)
            strcat(strcat(told, d.all[k]), "|");
        if (strcmp(told, rows[i].expected))
            fail_msg("%s: %s", rows[i].name, told);
        directory_list_clear(&d);
        assert_int_equal(d.n, 0);
    }
}
