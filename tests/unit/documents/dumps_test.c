#include <stdio.h>
#include <string.h>

#include "broker/builds/generation.h"
#include "broker/documents/documents.h"
#include "tests/support/dumping.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* Adds a Change Dump, or a gap, of a list with `n` changes. */
static void
list(struct dumping *d, unsigned n, bool is_whole)
{
    for (unsigned i = 1; i <= n; i++)
        if (is_whole)
            dumping_post(d, i, "updated", "a");
        else
            dumping_promise(d, i, "never seen");
    sets_rotate(&d->sets, "demo");
    dumping_work(d);
}

/* The entries name these generations, in order and without a gap; each states
 * the interval that its document states. */
static void
assert_names(struct dumping *d, struct xpath *x, const char *entry,
             unsigned first, unsigned last)
{
    static const char *const times[] = {"from", "until"};
    char question[120], loc[120];
    struct xpath dump;

    snprintf(question, sizeof(question), "/*/%s", entry);
    assert_xpath_count(x, question, last - first + 1);
    for (unsigned i = first; i <= last; i++) {
        snprintf(question, sizeof(question), "/*/%s[%u]/s:loc", entry,
                 i - first + 1);
        snprintf(loc, sizeof(loc), DUMPING_DEMO "changedump/%012u.xml", i);
        assert_xpath_text(x, question, loc);
        dumping_read(d, dumps_generation_open, i, 0, &dump);
        for (size_t k = 0; k < 2; k++) {
            snprintf(question, sizeof(question), "string(/*/%s[%u]/rs:md/@%s)",
                     entry, i - first + 1, times[k]);
            snprintf(loc, sizeof(loc), "%s", xpath_get(x, question));
            snprintf(question, sizeof(question), "/*/rs:md/@%s", times[k]);
            assert_xpath_text(&dump, question, loc);
        }
        if (i > first) {
            snprintf(question, sizeof(question),
                     "string(/*/%s[%u]/rs:md/@until)", entry, i - first);
            assert_xpath_text(&dump, "/*/rs:md/@from", xpath_get(x, question));
        }
        xpath_close(&dump);
    }
}

/* The same of a document of the set, which is open for that only. */
static void
assert_document_names(struct dumping *d, document_open_fn *open,
                      const char *entry, unsigned first, unsigned last)
{
    struct xpath x;

    dumping_read(d, open, 0, 0, &x);
    assert_names(d, &x, entry, first, last);
    xpath_close(&x);
}

static void
assert_missing(struct dumping *d, document_open_fn *open, uint64_t number,
               uint64_t last, enum status rc, const char *text)
{
    struct document document;
    struct problem why = {""};

    assert_int_equal(dumping_try(d, open, number, last, &document, &why), rc);
    assert_string_equal(why.text, text);
}

/* Adds `n` Change Dumps of one change each. */
static void
lists(struct dumping *d, unsigned n)
{
    while (n-- > 0)
        list(d, 1, true);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* the address of the capability is that of the one dump, then of
 * the index of all. */
TEST(one_dump_is_told_itself_and_several_in_an_index)
{
    struct buf dump, current;
    struct dumping d;
    struct xpath x;

    dumping_open(&d, state);
    list(&d, 1, true);
    dumping_text(&d, dumps_current_open, 0, 0, &current);
    dumping_text(&d, dumps_generation_open, 1, 0, &dump);
    assert_true(slice_equal(buf_slice(&current), buf_slice(&dump)));
    buf_fini(&dump);
    buf_fini(&current);

    list(&d, 2, true);
    list(&d, 1, true);
    dumping_read(&d, dumps_current_open, 0, 0, &x);
    assert_xpath_count(&x, "/s:sitemapindex/rs:md[@capability='changedump']",
                       1);
    assert_xpath_text(&x, "/*/rs:ln[@rel='up']/@href",
                      DUMPING_DEMO "capabilitylist.xml");
    assert_xpath_text(&x, "/*/rs:ln[@rel='archives']/@href",
                      DUMPING_DEMO "changedump-archive.xml");
    assert_xpath_text(&x, "/*/rs:md/@from",
                      xpath_get(&x, "string(/*/s:sitemap[1]/rs:md/@from)"));
    assert_xpath_count(&x, "//s:lastmod", 0);
    assert_names(&d, &x, "s:sitemap", 1, 3);
    xpath_close(&x);
    dumping_end(&d);
}

/* the index has no gap; those before one are in the archive,
 * which has all. */
TEST(the_index_has_the_dumps_behind_the_last_gap)
{
    struct dumping d;
    struct xpath x;

    dumping_open(&d, state);
    lists(&d, 2);
    list(&d, 1, false);
    lists(&d, 1);
    dumping_read(&d, dumps_current_open, 0, 0, &x);
    assert_xpath_text(&x, "/s:urlset/rs:md/@td:after", "3");
    xpath_close(&x);
    lists(&d, 2);
    assert_document_names(&d, dumps_current_open, "s:sitemap", 3, 5);
    dumping_read(&d, generation_archive_open, 0, 0, &x);
    assert_xpath_count(&x, "/s:urlset/s:url", 5);
    xpath_close(&x);
    dumping_end(&d);
}

/* the index has a bounded number; R-224: documents that leave it are in
 * the archive.
 */
TEST(the_index_has_the_last_ones_where_there_are_many)
{
    struct dumping d;

    dumping_open(&d, state);
    d.sets.config.index_lists = 3;
    lists(&d, 3);
    assert_document_names(&d, dumps_current_open, "s:sitemap", 1, 3);
    lists(&d, 2);
    assert_document_names(&d, dumps_current_open, "s:sitemap", 3, 5);
    dumping_end(&d);
}

/* */
TEST(the_archive_has_all_in_order)
{
    struct dumping d;
    struct xpath x;

    dumping_open(&d, state);
    d.sets.config.index_lists = 4;
    assert_missing(&d, generation_archive_open, 0, 0, STATUS_NOT_FOUND,
                   "the broker keeps nothing of this kind of this set");
    lists(&d, 4);
    dumping_read(&d, generation_archive_open, 0, 0, &x);
    assert_xpath_count(&x, "/s:urlset/rs:md[@capability='changedump-archive']",
                       1);
    assert_xpath_text(&x, "/*/rs:ln[@rel='up']/@href",
                      DUMPING_DEMO "capabilitylist.xml");
    assert_names(&d, &x, "s:url", 1, 4);
    xpath_close(&x);
    lists(&d, 2);

    dumping_read(&d, generation_archive_open, 0, 0, &x);
    assert_xpath_count(
        &x, "/s:sitemapindex/rs:md[@capability='changedump-archive']", 1);
    assert_xpath_text(&x, "/*/rs:ln[@rel='up']/@href",
                      DUMPING_DEMO "capabilitylist.xml");
    assert_xpath_count(&x, "/*/s:sitemap", 2);
    assert_xpath_count(&x, "//s:lastmod", 0);
    assert_xpath_text(&x, "/*/s:sitemap[2]/s:loc",
                      DUMPING_DEMO
                      "changedump-archive/000000000005-000000000008.xml");
    xpath_close(&x);
    dumping_read(&d, generation_archive_part_open, 1, 4, &x);
    assert_xpath_text(&x, "/*/rs:ln[@rel='index']/@href",
                      DUMPING_DEMO "changedump-archive.xml");
    assert_names(&d, &x, "s:url", 1, 4);
    xpath_close(&x);
    dumping_read(&d, generation_archive_part_open, 5, 8, &x);
    assert_names(&d, &x, "s:url", 5, 6);
    xpath_close(&x);
    dumping_end(&d);
}

/* a package, its manifest and its dump stay the same after later
 * ones, in any process. */
TEST(what_was_told_once_stays_as_it_is)
{
    static const struct {
        document_open_fn *open;
        uint64_t part;
    } rows[] = {{dumps_generation_open, 0},
                {dumps_package_open, 1},
                {dumps_generation_open, 1}};
    struct document document;
    struct buf then[3], now;
    struct problem why = {""};
    struct dumping d;
    struct digest tag;

    dumping_open(&d, state);
    list(&d, 3, true);
    for (size_t i = 0; i < 3; i++)
        dumping_text(&d, rows[i].open, 1, rows[i].part, &then[i]);
    assert_int_equal(dumping_try(&d, dumps_package_open, 1, 1, &document, &why),
                     STATUS_OK);
    tag = document.tag;
    assert_true(document.is_final);
    assert_false(document.may_be_packed);
    assert_null(document.gzip);
    document_close(&document);

    list(&d, 2, true);
    dumping_end(&d);
    d.sets.config.package_bytes = 1;
    dumping_begin(&d);
    list(&d, 2, true);
    while (generation_sweep_one(d.sets.registry))
        ;
    for (size_t i = 0; i < 3; i++) {
        dumping_text(&d, rows[i].open, 1, rows[i].part, &now);
        assert_true(slice_equal(buf_slice(&then[i]), buf_slice(&now)));
        buf_fini(&now);
        buf_fini(&then[i]);
    }
    assert_int_equal(dumping_try(&d, dumps_package_open, 1, 1, &document, &why),
                     STATUS_OK);
    assert_memory_equal(&tag, &document.tag, sizeof(tag));
    document_close(&document);
    assert_int_equal(dumping_try(&d, dumps_package_open, 3, 2, &document, &why),
                     STATUS_OK);
    assert_memory_not_equal(&tag, &document.tag, sizeof(tag));
    document_close(&document);
    dumping_end(&d);
}

TEST(what_is_not_there_is_said)
{
    struct dumping d;

    dumping_open(&d, state);
    assert_missing(&d, dumps_current_open, 0, 0, STATUS_NOT_FOUND,
                   "no Change Dump of this set was built yet");
    list(&d, 1, true);
    assert_missing(&d, dumps_generation_open, 2, 0, STATUS_NOT_FOUND,
                   "there is no such Change Dump");
    assert_missing(&d, dumps_package_open, 2, 1, STATUS_NOT_FOUND,
                   "there is no such Change Dump");
    assert_missing(&d, dumps_package_open, 1, 2, STATUS_NOT_FOUND,
                   "this Change Dump has no such package");
    assert_missing(&d, dumps_generation_open, 1, 2, STATUS_NOT_FOUND,
                   "this Change Dump has no such package");

    /* */
    lists(&d, 2);
    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 1);
    sets_retain(&d.sets);
    assert_int_equal(dumping_n_archived(&d), 1);
    while (generation_sweep_one(d.sets.registry))
        ;
    assert_missing(&d, dumps_generation_open, 2, 0, STATUS_GONE,
                   "this Change Dump is no longer kept");
    assert_missing(&d, dumps_package_open, 2, 1, STATUS_GONE,
                   "this Change Dump is no longer kept");
    dumping_check(&d, 3);
    dumping_end(&d);
}

/* the index drops the documents that the archive has dropped. */
TEST(the_index_begins_later_when_the_oldest_go)
{
    struct dumping d;

    dumping_open(&d, state);
    lists(&d, 5);
    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 3);
    sets_retain(&d.sets);
    assert_document_names(&d, dumps_current_open, "s:sitemap", 3, 5);
    assert_document_names(&d, generation_archive_open, "s:url", 3, 5);
    dumping_end(&d);
}
