/*
 * post_search_test.c - a post is found among the entries of its target, or not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/harvest/harvest_entry.h"
#include "tests/test.h"

/* Behind how many of the target's entries, a letter each ("-": one without
 * text), the post is found; 0: it is not. */
static size_t
find(const char *post_letters, const char *target_letters)
{
    struct harvest_post post = {.n = strlen(post_letters)};
    struct post_search search;
    size_t found = 0;
    FILE *to = open_memstream(&post.body, &post.size);

    assert_non_null(to);
    for (size_t i = 0; i < post.n; i++)
        fprintf(to, "%s{\"loc\":\"u:%c\"}", i ? ",\n" : "[", post_letters[i]);
    fputs("]\n", to);
    fclose(to);
    post.changes = (struct slice){post.body, post.size};
    assert_true(post_search_init(&search, &post));
    for (size_t i = 0; target_letters[i] && !found; i++) {
        char text[32];
        int size = snprintf(text, sizeof(text), "{\"loc\":\"u:%c\",\"seq\":1}",
                            target_letters[i]);

        if (post_search_next(&search,
                             (struct slice){text, target_letters[i] == '-'
                                                      ? 0
                                                      : (size_t)size}))
            found = i + 1;
    }
    post_search_fini(&search);
    free(post.body);
    return found;
}

TEST(a_post_is_found_where_its_entries_follow_each_other)
{
    assert_int_equal(find("abc", "abc"), 3);
    assert_int_equal(find("abc", "xyabcz"), 5);
    assert_int_equal(find("a", "xa"), 2);
}

TEST(entries_that_do_not_follow_each_other_are_none)
{
    assert_int_equal(find("abc", ""), 0);
    assert_int_equal(find("abc", "ab"), 0);
    assert_int_equal(find("abc", "abxc"), 0);
    assert_int_equal(find("abc", "ab-c"), 0);
    assert_int_equal(find("abc", "acb"), 0);
}

TEST(a_post_is_found_behind_what_begins_as_it_does)
{
    assert_int_equal(find("aab", "aaab"), 4);
    assert_int_equal(find("abac", "ababac"), 6);
    assert_int_equal(find("abc", "ababc"), 5);
    assert_int_equal(find("aaba", "aabaaba"), 4);
    assert_int_equal(find("aabaaac", "aabaabaaac"), 10);
}

TEST(a_post_without_entries_cannot_be_looked_for)
{
    char body[] = "[]\n";
    const struct harvest_post none = {.changes = {body, 3}, .n = 0};
    struct post_search search;
    const struct harvest_post fewer = {.changes = {body, 3}, .n = 2};

    assert_false(post_search_init(&search, &none));
    post_search_fini(&search);
    assert_false(post_search_init(&search, &fewer));
    post_search_fini(&search);
}
