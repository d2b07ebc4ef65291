/*
 * media_types_test.c - the media type of a file.
 */
#include <stdio.h>
#include <string.h>

#include "client/watch/file_digest.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define CHECK(types, name, head, type) \
    check(types, name, head, sizeof(head) - 1, type)

static void
check(struct mediatypes *types, const char *name, const char *head, size_t size,
      const char *type)
{
    const char *found = mediatypes_of(types, name, head, size);

    if ((!found) != (!type) || (type && strcmp(found, type)))
        fail_msg("%s is %s, not %s", name, found ? found : "untold",
                 type ? type : "untold");
}

/* The extension decides, as people expect, not the content. */
TEST(goes_by_the_extension_first)
{
    struct mediatypes types;

    assert_true(mediatypes_open(&types, MEDIATYPES_TABLE));
    CHECK(&types, "a.html", "", "text/html");
    CHECK(&types, "a.HTML", "plain", "text/html");
    CHECK(&types, "a.json", "[1]", "application/json");
    CHECK(&types, "a.css", "a{}", "text/css");
    CHECK(&types, "a.csv", "a,b", "text/csv");
    CHECK(&types, "a.xml", "<a/>", "application/xml");
    CHECK(&types, "a.b.nt", "<a> <b> <c> .", "application/n-triples");
    CHECK(&types, "a.tar.gz", "", "application/gzip");
    mediatypes_close(&types);
}

TEST(goes_by_the_content_where_the_name_says_nothing)
{
    struct mediatypes types;

    assert_true(mediatypes_open(&types, MEDIATYPES_TABLE));
    CHECK(&types, "README", "Some text.\n", "text/plain");
    CHECK(&types, "a.unheard-of", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png");
    CHECK(&types, ".html", "%PDF-1.7\n", "application/pdf");
    CHECK(&types, "a.", "\x1f\x8b\x08\0\0\0\0\0", "application/gzip");
    CHECK(&types, "empty", "", NULL);
    mediatypes_close(&types);
}

/* A damaged table, or none, spoils no post. */
TEST(takes_from_the_table_only_what_is_a_type, tempdir_setup, tempdir_teardown)
{
    struct mediatypes types;
    char path[300];

    tempdir_write(tempdir_fd(state), "types",
                  "# comment/here html\ntext/good\tgood g2\r\nno-slash bad1\n"
                  "text/\"quote bad2\ntext/a/b bad3\ntext/ bad4\n\n"
                  "text/nothing\n");
    snprintf(path, sizeof(path), "%s/types", tempdir_path(state));
    assert_true(mediatypes_open(&types, path));
    CHECK(&types, "a.good", "", "text/good");
    CHECK(&types, "a.g2", "", "text/good");
    for (char n = '1'; n <= '4'; n++) {
        char name[] = "a.bad0";

        name[5] = n;
        assert_null(mediatypes_of(&types, name, "", 0));
    }
    CHECK(&types, "a.html", "", NULL);
    mediatypes_close(&types);

    assert_true(mediatypes_open(&types, "/no/such/table"));
    CHECK(&types, "a.html", "Some text.\n", "text/plain");
    mediatypes_close(&types);
}
