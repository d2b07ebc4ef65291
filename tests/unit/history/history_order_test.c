/*
 * history_order_test.c - Change Lists without seqs, followed by their order,
 * whatever the times of their entries are.
 */
#include <limits.h>

#include "client/history/history.h"
#include "tests/test.h"
#include "tests/unit/history/history_stage.h"

FIXTURE(set_stage, clear_stage);

/* One look at a list: what it has then, and what is new. */
struct look {
    const char *list, *names;
    bool is_doubtful;
};

/* Follows /c.xml from `after` on, look by look, by the position alone. */
static void
follow_looks(struct stage *s, const char *after, const struct look *looks,
             size_t n)
{
    for (size_t i = 0; i < n; i++) {
        offer_list(s, looks[i].list);
        if (i == 0)
            tells(s, after, looks[0].names, NULL);
        else
            tells_on(s, looks[i].names);
        assert_int_equal(s->notes.doubt.rc != STATUS_OK, looks[i].is_doubtful);
        tells_on(s, "");
    }
}

static void
open_lists(struct stage *s, const char *path, const char *source)
{
    db_close(&s->read.db);
    assert_int_equal(read_lists_open(&s->read, path, source, NULL), STATUS_OK);
    s->lists = &s->read;
}

/* The same with the notes of the lists read, in memory or a file. */
static void
follow_with_notes(struct stage *s, const char *path, const char *after,
                  const struct look *looks, size_t n)
{
    open_lists(s, path, "http://source.example/");
    follow_looks(s, after, looks, n);
}

#define SEES(...)                       \
    (const struct look[]){__VA_ARGS__}, \
        sizeof((const struct look[]){__VA_ARGS__}) / sizeof(struct look)

#define BOTH(after, ...)                                      \
    do {                                                      \
        follow_looks(s, after, SEES(__VA_ARGS__));            \
        follow_with_notes(s, NULL, after, SEES(__VA_ARGS__)); \
        db_close(&s->read.db);                                \
        s->lists = NULL;                                      \
    } while (0)

/* no entry has a time, and the list begins before the baseline. */
TEST(entries_without_any_time_are_told_by_their_order)
{
    struct stage *s = *state;

    BOTH(AT("05"), {LIST(FROM("03"), UNTIMED("b") UNTIMED("c")), "b c "},
         {LIST(FROM("03"), UNTIMED("b") UNTIMED("c") UNTIMED("d") UNTIMED("b")),
          "d b "},
         {LIST(FROM("03"), UNTIMED("b") UNTIMED("c") UNTIMED("d") UNTIMED("b")
                               UNTIMED("b")),
          "b "});
}

/* an entry that is late, at the end and before it. */
TEST(a_late_entry_is_told)
{
    struct stage *s = *state;

    BOTH(AT("01"),
         {LIST(FROM("01"), CHANGE("b", "02") CHANGE("c", "04")), "b c "},
         {LIST(FROM("01"),
               CHANGE("b", "02") CHANGE("c", "04") CHANGE("d", "02")),
          "d "},
         {LIST(FROM("01"), CHANGE("b", "02") CHANGE("e", "03") CHANGE("c", "04")
                               CHANGE("d", "02")),
          "e "},
         {LIST(FROM("01"), CHANGE("b", "02") CHANGE("e", "03") CHANGE("c", "04")
                               CHANGE("d", "02") CHANGE("f", "05")),
          "f "});
}

/* written anew in another order: nothing is new. Two entries are, and
 * with the notes it is known which; without, some come twice rather than not
 * at all, and there is a doubt. */
TEST(a_list_in_another_order_is_recognised)
{
    struct stage *s = *state;
    const struct look looks[] = {
        {LIST(FROM("01"),
              CHANGE("c", "02") CHANGE("b", "03") CHANGE("a", "04")),
         "c b a "},
        {LIST(FROM("01"),
              CHANGE("a", "04") CHANGE("b", "03") CHANGE("c", "02")),
         ""},
        {LIST(FROM("01"), CHANGE("a", "04") CHANGE("a2", "02") CHANGE("b", "03")
                              CHANGE("b2", "02") CHANGE("c", "02")),
         "a2 b2 "}};

    follow_with_notes(s, NULL, AT("01"), looks, 3);
    db_close(&s->read.db);
    s->lists = NULL;
    follow_looks(s, AT("01"), looks, 2);
    put(s, "/c.xml", looks[2].list);
    assert_int_equal(read_on(s), STATUS_OK);
    assert_non_null(
        strstr(s->why.rc ? "" : s->notes.doubt.text, "another one"));
}

/* entries of one second stay in order, and one late entry does not turn
 * the list round. */
TEST(a_late_entry_turns_no_list_round)
{
    struct stage *s = *state;

    BOTH(AT("01"),
         {LIST(FROM("01"),
               CHANGE("x", "03") CHANGE("y", "03") CHANGE("b", "02")),
          "b x y "},
         {LIST(FROM("01"), CHANGE("x", "03") CHANGE("y", "03") CHANGE("b", "02")
                               CHANGE("x", "02")),
          "x "});
}

/* newest first, with a window that moves by several entries. */
TEST(a_list_that_grows_at_its_front_is_followed)
{
    struct stage *s = *state;

    BOTH(AT("01"), {LIST("", MODIFIED("b", "03") MODIFIED("a", "01")), "a b "},
         {LIST("", MODIFIED("d", "05") MODIFIED("c", "04") MODIFIED("b", "03")
                       MODIFIED("a", "01")),
          "c d "},
         {LIST("",
               MODIFIED("f", "05") MODIFIED("e", "05") MODIFIED("d", "05")
                   MODIFIED("c", "04") MODIFIED("b", "03") MODIFIED("a", "01")),
          "e f "});
    BOTH(AT("01"), {LIST("", MODIFIED("b", "03") MODIFIED("a", "01")), "a b "},
         {LIST(FROM("02"),
               MODIFIED("d", "05") MODIFIED("c", "04") MODIFIED("b", "03")),
          "c d "});
}

/* what the lists have is known; the times do not matter. */
TEST(from_now_on_begins_at_the_end_of_the_lists)
{
    struct stage *s = *state;

    for (int i = 0; i < 2; i++) {
        offer_list(s,
                   i ? LIST(FROM("01"), UNTIMED("a") UNTIMED("b"))
                     : LIST(FROM("01"), CHANGE("a", "02") CHANGE("b", "05")));
        s->begins_now = true;
        tells(s, AT("28"), "", NULL);
        s->begins_now = false;
        put(s, "/c.xml",
            i ? LIST(FROM("01"), UNTIMED("a") UNTIMED("b") UNTIMED("c"))
              : LIST(FROM("01"),
                     CHANGE("a", "02") CHANGE("b", "05") CHANGE("c", "04")));
        tells_on(s, "c ");
        tells_on(s, "");
    }
    offer_list(s, INDEX(FROM("01"), FOUR_LISTS));
    put_four_lists(s);
    s->begins_now = true;
    tells(s, AT("28"), "", AT_N("08", "1"));
    assert_int_equal(site_count(s->site, "/3.xml"), 0);
}

/* Of an entry without its times. */
#define OLD_MARK "07f7fefb19ebe41b"

#define NEW_PART PART("/new.xml", FROM("02") UNTIL("04"))

/* a part that was never read is read whole, however old its entries are
 * and wherever it is in the index; parts that were there before are not. */
TEST(a_new_part_is_read_whole)
{
    struct stage *s = *state;
    struct tempdir dir;
    char path[PATH_MAX];
    struct read_list read;

    tempdir_open(&dir);
    snprintf(path, sizeof(path), "%s/read", dir.path);
    put_four_lists(s);
    put(s, "/new.xml", LIST(FROM("02") UNTIL("04"), CHANGE("n", "02")));
    put(s, "/5.xml", LIST(FROM("09"), CHANGE("o", "04")));
    follow_with_notes(
        s, path, AT("06"),
        SEES({INDEX(FROM("01"), FOUR_LISTS), "d e "},
             {INDEX(FROM("01"), PART_1 NEW_PART PART_2 PART_3 PART_4), "n "}));
    assert_int_equal(site_count(s->site, "/1.xml"), 0);

    /* The file is read again by the next process. */
    open_lists(s, path, "http://source.example/");
    tells_on(s, "");
    put(s, "/c.xml",
        INDEX(FROM("01"),
              PART_1 NEW_PART PART_2 PART_3 PART_4 PART("/5.xml", FROM("09"))));
    tells_on(s, "o ");
    tells_on(s, "");

    /* A part that has changed, as its index says, is read again. */
    put(s, "/new.xml",
        LIST(FROM("02") UNTIL("04"), CHANGE("n", "02") CHANGE("n2", "03")));
    put(s, "/c.xml",
        INDEX(FROM("01"), PART_1 "<sitemap><loc>/new.xml</loc><lastmod>" DAY(
                              "10") "</lastmod><rs:md " FROM("02")
                              UNTIL("04") "/></sitemap>" PART_2 PART_3 PART_4
                                  PART("/5.xml", FROM("09"))));
    tells_on(s, "n2 ");
    tells_on(s, "");

    /* That of another source is of no use. */
    open_lists(s, path, "http://other.example/");
    assert_false(read_lists_find(s->lists, s->reached.list, &read));
    tempdir_close(&dir);
}

/* The first reading after a baseline: each list from that time on. What stands
 * in two lists comes once; a change that is made again comes again. */
TEST(late_entries_of_later_lists_are_told_after_a_baseline)
{
    struct stage *s = *state;

    offer_list(s, INDEX(FROM("01"),
                        PART("/1.xml", FROM("01")) PART("/2.xml", FROM("03"))));
    put(s, "/1.xml",
        LIST(FROM("01"),
             CHANGE("a", "02") CHANGE("b", "06") CHANGE("x", "07")));
    put(s, "/2.xml",
        LIST(FROM("03"),
             CHANGE("b", "06") CHANGE("x", "07") CHANGE("c", "04")));
    tells(s, AT("01"), "a b x c ", AT_N("07", "1"));
    tells_on(s, "");
    put(s, "/2.xml",
        LIST(FROM("03"), CHANGE("b", "06") CHANGE("x", "07") CHANGE("c", "04")
                             CHANGE("x", "07")));
    tells_on(s, "x ");
}

/* as far back as there is; nobody knows what was before. */
TEST(the_beginning_is_where_the_lists_begin)
{
    struct stage *s = *state;

    put_four_lists(s);
    offer_list(
        s, INDEX(FROM("05"), LINK("archives", "/archive.xml") PART_3 PART_4));
    put(s, "/archive.xml", ARCHIVE(URL_1 URL_2));
    tells(s, "@-+0", "a b c d e ", AT_N("08", "1"));
    assert_non_null(strstr(s->notes.doubt.text, "/1.xml begins at 2026-09-01"));
    tells_on(s, "");
    assert_int_equal(s->notes.doubt.rc, STATUS_OK);

    offer_list(s, LIST(FROM("01"), UNTIMED("a") UNTIMED("b")));
    tells(s, "@-+0", "a b ", NULL);
    tells_on(s, "");
    offer_list(s, LIST("", ""));
    tells(s, "@-+0", "", NULL);
    tells_on(s, "");
    offer_list(s, LIST("", CHANGE("a", "02")));
    tells_on(s, "a ");

    /* Numbers prove it. */
    offer_list(s, LIST(FROM("01") SEQS("0", "1"), NUMBERED("a", "02", "1")));
    tells(s, "@-+0", "a ", EPOCH "-1");
    assert_int_equal(s->notes.doubt.rc, STATUS_OK);
}

/* A list that was never read is no other one: what it has in common with the
 * last one comes again, unless its time shows that it is the same. */
TEST(a_new_part_may_resemble_the_last_one)
{
    struct stage *s = *state;

    open_lists(s, NULL, "http://source.example/");
    offer_list(s, INDEX("", PART("/1.xml", FROM("01"))));
    put(s, "/1.xml", LIST(FROM("01"), UNTIMED("a") UNTIMED("b")));
    tells(s, AT("01"), "a b ", NULL);
    put(s, "/c.xml",
        INDEX("", PART("/0.xml", FROM("01") UNTIL("02"))
                      PART("/1.xml", FROM("02"))));
    put(s, "/0.xml",
        LIST("", UNTIMED("b") CHANGE("y", "02") CHANGE("x", "01")));
    tells_on(s, "x b y ");
    tells_on(s, "");
    assert_int_equal(s->notes.doubt.rc, STATUS_OK);
}

/* a closed list gets an entry, and its index says nothing. Small lists
 * are read again at looks without news, a few at each; others are not. */
TEST(a_closed_list_that_grows_is_noticed)
{
    struct stage *s = *state;
    char position[TD_POSITION_SIZE];
    struct buf list;
    unsigned n;

    open_lists(s, NULL, "http://source.example/");
    put_four_lists(s);
    offer_list(s, INDEX(FROM("01"), FOUR_LISTS));
    tells(s, AT("01"), "a b c d e ", NULL);
    put(s, "/2.xml",
        LIST(FROM("03") UNTIL("05"), CHANGE("c", "04") CHANGE("f", "04")));
    tells_on(s, "f ");
    put(s, "/2.xml",
        LIST(FROM("03") UNTIL("05"),
             CHANGE("c", "04") CHANGE("f", "04") CHANGE("g", "04")));
    n = site_count(s->site, "/4.xml");
    source_position_write(position, &s->reached);
    tells_again(s, position, "g ", NULL);
    assert_int_equal(site_count(s->site, "/4.xml"), n + 1);
    assert_int_equal(site_answered(s->site, "/4.xml", n), 304);

    /* News of the newest list come first. */
    put(s, "/2.xml",
        LIST(FROM("03") UNTIL("05"), CHANGE("c", "04") CHANGE("f", "04")
                                         CHANGE("g", "04") CHANGE("h", "04")));
    put(s, "/4.xml", LIST(FROM("07"), CHANGE("e", "08") CHANGE("i", "09")));
    tells_on(s, "i ");
    tells_on(s, "h ");

    buf_init(&list, SIZE_MAX);
    buf_add_text(&list,
                 "<urlset" NS "<rs:md capability=\"changelist\" " FROM("01")
                     UNTIL("03") "/>" CHANGE("a", "02") CHANGE("b", "03"));
    for (size_t i = 0; i < 1000; i++)
        buf_add_format(&list, CHANGE("%zu", "03"), i);
    buf_add_text(&list, "</urlset>");
    site_put(s->site, "/1.xml", NULL, buf_slice(&list));
    buf_fini(&list);
    assert_int_equal(read_on(s), STATUS_OK);
    assert_int_equal(s->n_told, 1000);
    n = site_count(s->site, "/1.xml");
    tells_on(s, "");
    assert_int_equal(site_count(s->site, "/1.xml"), n);
}

/* an older part, written anew while its index says that it has changed:
 * its times decide, and there is a doubt. */
TEST(an_older_part_that_is_another_one_is_doubtful)
{
    struct stage *s = *state;

    open_lists(s, NULL, "http://source.example/");
    put_four_lists(s);
    offer_list(s, INDEX(FROM("01"), PART_3 PART_4));
    tells(s, AT("05"), "d e ", NULL);
    put(s, "/3.xml", LIST("", CHANGE("q", "06") CHANGE("r", "09")));
    put(s, "/c.xml",
        INDEX(FROM("01"), PART("/3.xml", FROM("05") UNTIL("10")) PART_4));
    tells_on(s, "r ");
    assert_non_null(strstr(s->notes.doubt.text, "/3.xml is another one"));
    tells_on(s, "");
    assert_int_equal(s->notes.doubt.rc, STATUS_OK);
}

/* A reader that stops within entries out of order goes on there. */
TEST(a_place_may_be_within_entries_out_of_order)
{
    struct stage *s = *state;
    char position[TD_POSITION_SIZE];

    offer_list(s, LIST(FROM("01"), CHANGE("a", "02")));
    tells(s, AT("01"), "a ", NULL);
    put(s, "/c.xml",
        LIST(FROM("01"), CHANGE("a", "02") CHANGE("d", "05") CHANGE("b", "03")
                             CHANGE("c", "03") CHANGE("e", "05")));
    s->frees_at = 1;
    assert_int_equal(read_on(s), STATUS_STOPPED);
    assert_string_equal(s->names, "b ");
    source_position_write(position, &s->reached);
    assert_non_null(strstr(position, ":w"));
    assert_int_equal(read_on(s), STATUS_STOPPED);
    assert_string_equal(s->names, "c ");
    s->frees_at = 0;
    tells_on(s, "d e ");
    tells_on(s, "");
}

/* A position of an earlier version is followed by its time, once, with a doubt:
 * entries of that time come again. */
TEST(a_place_of_an_earlier_version_goes_on)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"), CHANGE("z", "01") CHANGE("a", "02")
                                       CHANGE("b", "02") CHANGE("c", "03")));
    tells(s, "@2026-09-02T00:00:00.000000Z+1~" OLD_MARK, "a b c ", NULL);
    assert_non_null(strstr(s->notes.doubt.text, "an earlier version"));
    tells_on(s, "");
    assert_int_equal(s->notes.doubt.rc, STATUS_OK);
    put(s, "/c.xml",
        LIST("", CHANGE("a", "02") CHANGE("b", "02") CHANGE("c", "03")));
    tells(s, "@2026-09-02T00:00:00.000000Z+2~" OLD_MARK, "a b c ", NULL);
}

/* Packages do not grow: one that was read is not fetched again. */
TEST(a_package_is_fetched_once)
{
    struct stage *s = *state;
    struct tempdir dir;
    struct zips z;

    offer(s, &s->offered.change_dump, "/d.xml");
    put(s, "/d.xml",
        "<urlset" NS "<rs:md capability=\"changedump\" " FROM(
            "01") "/>"
                  "<url><loc>/zips/1.zip</loc><rs:md " FROM("01")
                      UNTIL("03") "/></url></urlset>");
    tempdir_open(&dir);
    zips_begin(&z, dir.fd, "1.zip");
    zips_add(&z, "manifest.xml",
             SLICE(LIST(FROM("01") UNTIL("03"), CHANGE("a", "02"))));
    zips_end(&z);
    site_dir(s->site, "/zips/", dir.path);
    open_lists(s, NULL, "http://source.example/");
    tells(s, AT("01"), "a ", NULL);
    tells_on(s, "");
    tells_on(s, "");
    assert_int_equal(site_count(s->site, "/zips/1.zip"), 1);
    tempdir_close(&dir);
}

/* an entry of a Change Dump comes with its bytes, if these are right. */
TEST(a_package_has_the_bytes_of_its_entries)
{
    static const char manifest[] =
        LIST(FROM("01") UNTIL("05"),
             "<url><loc>http://e.org/a</loc><rs:md change=\"created\" "
             "datetime=\"2026-09-02T00:00:00Z\" length=\"3\" "
             "path=\"/1\"/></url>"
             "<url><loc>http://e.org/b</loc><rs:md change=\"created\" "
             "datetime=\"2026-09-03T00:00:00Z\" length=\"4\" "
             "path=\"/2\"/></url>"
             "<url><loc>http://e.org/c</loc><rs:md change=\"created\" "
             "datetime=\"2026-09-04T00:00:00Z\" path=\"/3\"/></url>");
    struct stage *s = *state;
    struct tempdir dir;
    struct zips z;

    offer(s, &s->offered.change_dump, "/d.xml");
    put(s, "/d.xml",
        "<urlset" NS "<rs:md capability=\"changedump\" " FROM(
            "01") "/>"
                  "<url><loc>/zips/1.zip</loc><rs:md " FROM("01")
                      UNTIL("05") "/></url></urlset>");
    tempdir_open(&dir);
    zips_begin(&z, dir.fd, "1.zip");
    zips_add(&z, "2", SLICE("long"));
    zips_add(&z, "1", SLICE("other")); /* not of that length */
    zips_add(&z, "3", SLICE("last"));
    zips_add(&z, "manifest.xml", SLICE(manifest));
    zips_end(&z);
    site_dir(s->site, "/zips/", dir.path);
    s->scratch = dir.path;
    tells(s, AT("01"), "a b c ", NULL);
    buf_add(&s->files, "", 1);
    assert_string_equal(s->files.data, "long;last;");
    tempdir_close(&dir);
}

/* A source can choose marks by choosing URLs. With slots by the mark itself,
 * these meet in one: that is 3 * 10^10 steps, more than the test's time. */
TEST(marks_of_a_stranger_meet_in_no_slot)
{
    enum { N = 500000 };

    uint64_t *marks = malloc(N * sizeof(*marks));
    struct mark_set set;

    (void)state;
    for (uint64_t i = 0; i < N; i++)
        marks[i] = (i / 2) << 32 | 1; /* each twice */
    assert_true(mark_set_init(&set, marks, N));
    assert_true(mark_set_take(&set, marks[N - 1]));
    assert_true(mark_set_take(&set, marks[N - 1]));
    assert_false(mark_set_take(&set, marks[N - 1]));
    mark_set_put_back(&set, marks[N - 1]);
    mark_set_put_back(&set, marks[N - 1]);
    assert_true(mark_set_take(&set, marks[N - 1]));
    assert_true(mark_set_has(&set, marks[0]));
    assert_false(mark_set_has(&set, 2));
    mark_set_fini(&set);
    assert_false(mark_set_has(&set, marks[0]));
    free(marks);
}
