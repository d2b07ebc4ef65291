/*
 * etag_test.c - other bytes have another tag, the same bytes the same one.
 */
#include "tests/unit/documents/stage.h"

static struct digest
tag_of_list(struct sets *s, uint64_t number)
{
    struct document document = stage_open(s, changelist_open, number, 0);

    document_close(&document);
    return document.tag;
}

FIXTURE(stage_setup, stage_teardown);

/* it stays while a list is written to its file, and after a restart. */
TEST(the_tag_of_a_change_list_follows_its_bytes)
{
    struct sets *s = *state;
    struct digest tags[4];

    s->config.rotate_entries = 3;
    sets_open(s);
    for (unsigned n = 0; n < 3; n++) { /* the third closes the list */
        sets_post(s, "demo", 1, 1);
        tags[n] = tag_of_list(s, 1);
        for (unsigned i = 0; i < n; i++)
            assert_memory_not_equal(&tags[i], &tags[n], sizeof(tags[n]));
    }
    tags[3] = tag_of_list(s, 2);
    assert_memory_not_equal(&tags[2], &tags[3], sizeof(tags[3]));

    sets_file_all(s);
    sets_close(s);
    sets_open(s);
    tags[0] = tag_of_list(s, 1);
    assert_memory_equal(&tags[0], &tags[2], sizeof(tags[0]));
}
