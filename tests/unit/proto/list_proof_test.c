/*
 * list_proof_test.c - one list after the other continues the chain, or says
 * where it breaks.
 */
#include "proto/input/list_proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/made_lists.h"
#include "tests/test.h"

#define EPOCH "0123456789abcdef"
#define OTHER "fedcba9876543210"

struct stage {
    struct history history;
    struct list_chain chain;
    struct buf text;
    struct problem why;
    uint64_t reached;
};

static struct stage s;

static int
set_stage(void **state)
{
    (void)state;
    memset(&s, 0, sizeof(s));
    history_init(&s.history, EPOCH);
    buf_init(&s.text, 1 << 20);
    return 0;
}

static int
clear_stage(void **state)
{
    (void)state;
    history_fini(&s.history);
    buf_fini(&s.text);
    return 0;
}

/* Reads the text in pieces of `size` bytes, as the list NUMBER. */
static enum status
read_in_pieces(unsigned number, size_t size)
{
    char where[100];
    struct list_proof *proof;
    struct slice rest = buf_slice(&s.text);
    enum status rc = STATUS_OK;

    snprintf(where, sizeof(where), "/copy/%012u.xml.gz", number);
    proof = list_proof_new(&s.chain, where, NULL, NULL);
    assert_non_null(proof);
    s.why.text[0] = '\0';
    while (rest.size > 0 && !rc) {
        struct slice piece = {rest.data, rest.size < size ? rest.size : size};

        rc = list_proof_feed(proof, piece, &s.why);
        rest = (struct slice){rest.data + piece.size, rest.size - piece.size};
    }
    if (!rc)
        rc = list_proof_end(proof, &s.chain, &s.why);
    s.reached = list_proof_reached(proof);
    list_proof_free(proof);
    return rc;
}

static void
write_list(unsigned number, uint64_t after, uint64_t last, bool is_open)
{
    buf_clear(&s.text);
    made_list(&s.text, &s.history, number, after, last, is_open);
}

/* List 1 has the entries 1 to 5, list 2 those to 10, and so on. */
static void
begin(unsigned number)
{
    memset(&s.chain, 0, sizeof(s.chain));
    for (unsigned i = 1; i < number; i++) {
        write_list(i, (i - 1) * 5, i * 5, false);
        assert_int_equal(read_in_pieces(i, 4096), STATUS_OK);
    }
    write_list(number, (number - 1) * 5, number * 5, false);
}

/* Asserts that the list breaks for that reason, and keeps its proven part. */
static void
assert_breaks(unsigned number, uint64_t reached, const char *reason)
{
    struct list_chain before = s.chain;

    assert_true(read_in_pieces(number, 4096));
    if (!strstr(s.why.text, reason))
        fail_msg("\"%s\" is not in \"%s\"", reason, s.why.text);
    assert_int_equal(s.reached, reached);
    assert_memory_equal(&s.chain, &before, sizeof(before));
}

FIXTURE(set_stage, clear_stage);

/* closed lists and the open one prove the whole. */
TEST(lists_that_continue_each_other_are_proven)
{
    begin(1);
    assert_int_equal(read_in_pieces(1, 4096), STATUS_OK);
    begin(3);
    assert_int_equal(read_in_pieces(3, 4096), STATUS_OK);
    assert_false(s.chain.is_open);
    write_list(4, 15, 17, true);
    assert_int_equal(read_in_pieces(4, 4096), STATUS_OK);

    assert_true(s.chain.is_open);
    assert_int_equal(s.chain.after, 0);
    assert_int_equal(s.chain.last, 17);
    assert_string_equal(s.chain.epoch, EPOCH);
    assert_memory_equal(&s.chain.digest, &s.history.digests[17], DIGEST_SIZE);
}

/* An open list without entries states nothing new. */
TEST(an_empty_open_list_holds)
{
    begin(2);
    write_list(2, 5, 5, true);

    assert_int_equal(read_in_pieces(2, 4096), STATUS_OK);

    assert_int_equal(s.chain.last, 5);
}

/* The pieces in which a list arrives do not matter. */
TEST(pieces_do_not_matter)
{
    begin(3);
    for (size_t size = 1; size < 300; size += size < 40 ? 1 : 37) {
        struct list_chain before = s.chain;

        assert_int_equal(read_in_pieces(3, size), STATUS_OK);
        assert_int_equal(s.chain.last, 15);
        s.chain = before;
    }
}

/* Retention took the beginning: the remaining lists are proven from there
 * on. */
TEST(the_middle_is_proven_from_its_first_list_on)
{
    write_list(3, 10, 15, false);
    assert_int_equal(read_in_pieces(3, 4096), STATUS_OK);
    write_list(4, 15, 20, true);
    assert_int_equal(read_in_pieces(4, 4096), STATUS_OK);

    assert_int_equal(s.chain.after, 10);
    assert_int_equal(s.chain.last, 20);
    assert_memory_equal(&s.chain.digest, &s.history.digests[20], DIGEST_SIZE);
}

/* a log goes on in a new epoch, with the digest of all before. */
TEST(a_new_epoch_follows)
{
    struct buf plain = {.max = 1 << 20};
    struct slice rest;

    begin(2);
    rest = buf_slice(&s.text);
    assert_true(slice_skip_past(&rest, "td:epoch=\"" EPOCH "\""));
    buf_add(&plain, s.text.data, s.text.size - rest.size - EPOCH_SIZE - 1);
    buf_add_text(&plain, OTHER "\" td:follows=\"" EPOCH "\"");
    buf_add_slice(&plain, rest);
    buf_fini(&s.text);
    s.text = plain;

    assert_int_equal(read_in_pieces(2, 4096), STATUS_OK);

    assert_string_equal(s.chain.epoch, OTHER);
    assert_memory_equal(&s.chain.digest, &s.history.digests[10], DIGEST_SIZE);
}

/* Edits of a list, which break the chain behind entry `reached`. */
static const struct {
    const char *name;
    unsigned number;
    const char *from, *to;
    uint64_t reached;
    const char *reason;
} edits[] = {
    {"an altered entry", 2, "n=8&amp;", "n=9&amp;", 5,
     "an entry from 6 to 10 was altered: expected"},
    {"another history", 2, EPOCH, OTHER, 5,
     "another history: expected epoch " EPOCH ", found " OTHER},
    {"another epoch that does not follow", 2, "td:epoch=\"" EPOCH "\"",
     "td:epoch=\"" OTHER "\" td:follows=\"" OTHER "\"", 5,
     "another history: expected epoch " EPOCH ", found " OTHER},
    {"another epoch of the first list", 1, EPOCH, OTHER, 0,
     "an entry from 1 to 5 was altered"},
    {"a time that does not grow", 2, "00:00:08.000000Z\" td:seq",
     "00:00:07.000000Z\" td:seq", 7,
     "the time of entry 8: expected one after 2026-01-01T00:00:07.000000Z, "
     "found 2026-01-01T00:00:07.000000Z"},
    {"a smaller last entry", 2, "td:last=\"10\"", "td:last=\"9\"", 9,
     "entry 10, but it says that its last one is 9"},
    {"link prev to another list", 2, "000000000001.xml", "000000000007.xml", 5,
     "its link prev is 000000000007.xml, the list before it is "
     "000000000001.xml"},
    {"no link prev", 2, "rel=\"prev\"", "rel=\"none\"", 5,
     "its link prev is ,"},
    {"an earlier from", 2, "from=\"2026-01-01T00:00:05.000000Z\"",
     "from=\"2026-01-01T00:00:04.000000Z\"", 5,
     "expected from=\"2026-01-01T00:00:05.000000Z\""},
    {"a later until", 2, "until=\"2026-01-01T00:00:10.000000Z\"",
     "until=\"2026-01-01T00:00:11.000000Z\"", 10,
     "expected until=\"2026-01-01T00:00:10.000000Z\""},
    {"link prev of the first list", 1, "rel=\"next\"", "rel=\"prev\"", 0,
     "it has a link prev, but begins with the first entry"},
    {"a line that is no entry", 1, "</urlset>\n", "<!-- -->\n</urlset>\n", 5,
     "neither an entry nor the end: \"<!-- -->\""},
    {"an empty line at the end", 1, "</urlset>\n", "</urlset>\n\n", 5,
     "neither an entry nor the end: \"\""},
    {"another document", 1, "changelist", "resourcelist", 0,
     "it is no Change List"},
    {"no epoch", 1, "td:epoch", "td:other", 0,
     "it is no Change List of Tidings"},
    {"too many entries", 1, "td:last=\"5\"", "td:last=\"50001\"", 0,
     "the entries after 0 up to 50001"},
    {"another root", 1, "<urlset ", "<urlsat ", 0,
     "line 2: expected \"<urlset xmlns="},
    {"another attribute", 1, " td:epoch", " was=\"1\" td:epoch", 0,
     "it is no Change List of Tidings"},
    {"attributes in another order", 1, " td:after=\"0\" td:last=\"5\"",
     " td:last=\"5\" td:after=\"0\"", 0, "it is no Change List of Tidings"},
    {"a number written otherwise", 1, "td:last=\"5\"", "td:last=\"05\"", 0,
     "line 5: td:last is \"05\""},
    {"a time written otherwise", 1, "from=\"2026-01-01T", "from=\"2026-01-01t",
     0, "line 5: a time is \"2026-01-01t00:00:00.000000Z\""},
    {"a root that is open", 1, "/>\n<url>", ">\n<url>", 0,
     "line 5: expected \"/>\", found \">\""},
    {"a line between head and entries", 1, "/>\n<url>", "/>\n\n<url>", 0,
     "line 6: expected \"<url>\", found \"\""},
    {"a control character", 2, "n=8&amp;", "n=\x01&amp;", 7,
     "entry 8 is no plain text"},
};

TEST(an_edited_list_is_found)
{
    for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
        print_message("%s\n", edits[i].name);
        begin(edits[i].number);
        made_edit(&s.text, edits[i].from, edits[i].to);
        assert_breaks(edits[i].number, edits[i].reached, edits[i].reason);
    }
}

/* True if the byte is in a link. The proof compares their names alone. */
static bool
is_in_link(struct slice text, size_t at)
{
    while (at > 0 && text.data[at - 1] != '\n')
        at--;
    return slice_starts((struct slice){text.data + at, text.size - at},
                        "<rs:ln");
}

/* Every single bit counts, except in links that nobody follows. */
TEST(a_flipped_bit_is_found)
{
    struct buf good;

    begin(2);
    buf_init(&good, 1 << 20);
    buf_add_slice(&good, buf_slice(&s.text));
    for (size_t i = 0; i < good.size * 8; i++) {
        struct list_chain before = s.chain;
        enum status rc;

        buf_clear(&s.text);
        buf_add_slice(&s.text, buf_slice(&good));
        s.text.data[i / 8] ^= (char)(1 << i % 8);
        rc = read_in_pieces(2, 4096);
        if (!rc)
            assert_memory_equal(&s.chain.digest, &s.history.digests[10],
                                DIGEST_SIZE);
        if (!rc && !is_in_link(buf_slice(&good), i / 8))
            fail_msg("nobody sees bit %zu of byte %zu", i % 8, i / 8);
        s.chain = before;
    }
    buf_fini(&good);
}

TEST(a_missing_list_is_found)
{
    begin(2);
    write_list(3, 10, 15, false);

    assert_breaks(3, 5,
                  "entries 6 to 10 are missing: what comes next "
                  "begins after entry 10");
}

TEST(a_list_that_comes_again_is_found)
{
    begin(3);
    write_list(1, 0, 5, false);

    assert_breaks(1, 10,
                  "expected what comes after entry 10, found a list "
                  "that begins after entry 0");
}

TEST(a_truncated_list_is_found)
{
    begin(2);
    s.text.size -= 5;
    assert_breaks(2, 10, "it ends here, but not with </urlset>");
    begin(2);
    s.text.size -= strlen("</urlset>\n") + 20;
    assert_breaks(2, 9, "it ends here, but not with </urlset>");
    begin(2);
    s.text.size = 100;
    assert_breaks(2, 5, "it ends here, but not with </urlset>");
    s.text.size = 0;
    assert_breaks(2, 5, "line 1: it ends here, but not with </urlset>");
}

TEST(a_doubled_entry_is_found)
{
    begin(2);
    made_double(&s.text, &s.history, 8);

    assert_breaks(2, 8, "expected entry 9, found entry 8");
}

TEST(a_missing_entry_is_found)
{
    begin(2);
    made_drop(&s.text, &s.history, 8);
    assert_breaks(2, 7, "expected entry 8, found entry 9");
    begin(2);
    made_drop(&s.text, &s.history, 10);
    assert_breaks(2, 9, "its last entry is 10, but ends with entry 9");
}

TEST(an_edited_digest_of_link_prev_is_found)
{
    char digest[DIGEST_TEXT_SIZE + 1] = "";

    digest_write(digest, &s.history.digests[5]);
    begin(2);
    made_edit(&s.text, digest + 8, digest + 9);
    assert_breaks(2, 5, "td:digest is \"sha-256:");
    begin(2);
    made_edit(&s.text, digest,
              "sha-256:0000000000000000000000000000000000000"
              "000000000000000000000000000");
    assert_breaks(2, 5, "the td:digest of its link prev: expected sha-256:");
}

TEST(an_open_list_before_another_is_found)
{
    begin(3);
    s.chain.is_open = true;
    assert_breaks(3, 10, "000000000002.xml, is not closed");
}

TEST(an_edited_link_next_is_found)
{
    begin(2);
    made_edit(&s.text, "000000000003.xml", "000000000009.xml");
    assert_int_equal(read_in_pieces(2, 4096), STATUS_OK);
    write_list(3, 10, 15, false);
    assert_breaks(3, 10,
                  "the link next of the list before it, 000000000002.xml, is "
                  "000000000009.xml");
}

/* The first list has to state what it continues: nothing else proves it. */
TEST(a_first_list_has_to_say_what_it_continues)
{
    write_list(2, 5, 10, false);
    made_edit(&s.text, "rel=\"prev\"", "rel=\"none\"");
    assert_breaks(2, 0,
                  "it has no link prev with a td:digest, but begins after "
                  "entry 5");
    write_list(2, 5, 10, false);
    made_edit(&s.text, " from=\"", " form=\"");
    assert_breaks(2, 0, "it has no from");
}

TEST(a_closed_list_without_entries_is_found)
{
    begin(2);
    write_list(2, 5, 5, true);
    made_edit(&s.text, " td:epoch=\"",
              " until=\"2026-01-01T00:00:05.000000Z\" td:epoch=\"");
    assert_breaks(2, 5, "it is closed, but has no entries");
}

TEST(what_never_ends_is_refused)
{
    begin(1);
    buf_clear(&s.text);
    for (int i = 0; i < 300000; i++)
        BUF_ADD(&s.text, "x");
    assert_breaks(1, 0, "line 1: it is longer than 262144 bytes");
    buf_clear(&s.text);
    for (int i = 0; i < 70000; i++)
        BUF_ADD(&s.text, "\n");
    assert_breaks(1, 0, "no entry within the first 65536 bytes");
}

/* Statements of other documents about the list have to agree. */
TEST(what_was_told_elsewhere_has_to_agree)
{
    struct list_proof *proof;

    begin(2);
    proof = list_proof_new(&s.chain, "000000000002.xml", NULL, NULL);
    assert_non_null(proof);
    list_proof_expect(proof, 8, &s.history.digests[8], "the copy");
    assert_int_equal(list_proof_feed(proof, buf_slice(&s.text), &s.why), 0);
    list_proof_free(proof);

    proof = list_proof_new(&s.chain, "000000000002.xml", NULL, NULL);
    assert_non_null(proof);
    list_proof_expect(proof, 8, &s.history.digests[7], "the copy");
    assert_int_equal(list_proof_feed(proof, buf_slice(&s.text), &s.why),
                     STATUS_DIFFERENT);
    assert_non_null(strstr(s.why.text, "the copy has other entries up to 8"));
    assert_int_equal(list_proof_feed(proof, buf_slice(&s.text), &s.why),
                     STATUS_DIFFERENT);
    list_proof_free(proof);
}

TEST(names_are_last_segments)
{
    assert_true(slice_is(list_name("http://a/b/1.xml?x=/y"), "1.xml"));
    assert_true(slice_is(list_name("/d/1.xml.gz"), "1.xml"));
    assert_true(slice_is(list_name("1.xml"), "1.xml"));
    assert_true(slice_is(list_name("/a#b/c?/1.xml"), "1.xml"));
    assert_true(slice_is(list_name(""), ""));
    assert_true(slice_is(list_name("a/.gz"), ".gz"));
}
