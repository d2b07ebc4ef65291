#include "tests/support/build_orders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "proto/datetime.h"
#include "tests/clock.h"
#include "tests/support/bodies.h"
#include "tests/support/chores.h"
#include "tests/support/model.h"
#include "tests/support/schema.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

void
build_orders_begin(struct build_orders *w)
{
    sets_open(&w->sets);
    state_fold_init(&w->folding, w->sets.registry);
    w->folding.rest_us = FOLD_AT_ONCE;
    build_schedule_init(&w->schedule, w->sets.registry, &w->folding, NULL,
                        &w->thread);
}

void
build_orders_end(struct build_orders *w)
{
    chore_end(&w->schedule.chore);
    chore_end(&w->folding.chore);
    sets_close(&w->sets);
}

void
build_orders_configure(struct build_orders *w, const char *path)
{
    memset(w, 0, sizeof(*w));
    pthread_mutex_init(&w->thread.mutex, NULL);
    pthread_cond_init(&w->thread.changed, NULL);
    sets_configure(&w->sets, path);
    w->sets.config.resource_list_entries = 10;
    w->sets.config.resource_list_every_us = 1;
    w->sets.config.resource_list_keep = OPTION_KEEP_NONE;
    w->sets.config.remove_grace_us = 0;
    w->random = 5;
    w->page = 1;
}

void
build_orders_open(struct build_orders *w, void **state)
{
    build_orders_configure(w, tempdir_path(state));
    build_orders_begin(w);
}

bool
build_orders_round(struct build_orders *w)
{
    bool is_more = chore_step(&w->folding.chore);

    return chore_step(&w->schedule.chore) || is_more;
}

void
build_orders_look(struct build_orders *w)
{
    clock_pass_us(1); /* so that the next one is due */
    chore_look(&w->folding.chore);
    chore_look(&w->schedule.chore);
}

void
build_orders_work(struct build_orders *w)
{
    build_orders_look(w);
    while (build_orders_round(w))
        ;
    build_orders_look(w);
    while (build_orders_round(w))
        ;
}

struct generation
build_orders_current(struct build_orders *w)
{
    return sets_head(&w->sets, "demo")
        .generations[GENERATION_RESOURCELIST]
        .current;
}

enum status
build_orders_try(struct build_orders *w, document_open_fn *open,
                 uint64_t number, uint64_t last, struct document *document)
{
    const struct document_wish wish = {
        .registry = w->sets.registry,
        .set = sets_find(&w->sets, "demo"),
        .head = sets_head(&w->sets, "demo"),
        .number = number,
        .last = last,
        .form = w->form,
        .page = w->page,
        .patience = LOG_DISK,
    };
    struct problem why = {""};

    return open(&wish, document, &why);
}

void
build_orders_text(struct build_orders *w, document_open_fn *open,
                  uint64_t number, uint64_t last, struct buf *text)
{
    struct document document;

    assert_int_equal(build_orders_try(w, open, number, last, &document),
                     STATUS_OK);
    buf_init(text, SIZE_MAX);
    bodies_read(document.body, text);
    document.body = NULL;
    document_close(&document);
    assert_in_range(text->size, 1, DOCUMENT_BYTES_MAX); /* */
    if (w->form == DOCUMENT_XML)
        assert_valid(buf_slice(text));
}

void
build_orders_read(struct build_orders *w, document_open_fn *open,
                  uint64_t number, uint64_t last, struct xpath *x)
{
    struct buf text;

    build_orders_text(w, open, number, last, &text);
    xpath_open(x, buf_slice(&text));
    buf_fini(&text);
}

/* Checks the root element of each document of a generation. */
static void
check_root(struct build_orders *w, struct xpath *x, const struct generation *g)
{
    struct head head = sets_head(&w->sets, "demo");
    char at[DATETIME_SIZE + 1] = "", last[24];

    datetime_write(at, g->at_us);
    snprintf(last, sizeof(last), "%llu", (unsigned long long)g->seq);
    assert_xpath_count(x, "/*/rs:md[@capability='resourcelist']", 1);
    assert_xpath_text(x, "/*/rs:md/@at", at);
    assert_xpath_text(x, "/*/rs:md/@td:epoch", head.epoch);
    assert_xpath_text(x, "/*/rs:md/@td:after", "0");
    assert_xpath_text(x, "/*/rs:md/@td:last", last);
    assert_xpath_text(x, "/*/rs:ln[@rel='up']/@href",
                      RENEWALS_DEMO "capabilitylist.xml");
}

/* Removes the entries of one document from the expected ones. */
static void
take_entries(struct xpath *x, struct model *expected)
{
    size_t n = xpath_count(x, "/s:urlset/s:url");

    for (size_t i = 1; i <= n; i++) {
        static const char before[] = "http://example.com/r/";
        const char *loc;
        unsigned long number;

        loc = xpath_of(x, i, "s:loc");
        if (strncmp(loc, before, sizeof(before) - 1) != 0)
            fail_msg("%s is not of the set", loc);
        number = strtoul(loc + sizeof(before) - 1, NULL, 10);
        assert_in_range(number, 0, MODEL_MAX - 1);
        if (!expected->resources[number].entry)
            fail_msg("%s is there twice, or was deleted", loc);
        assert_int_equal(strtoull(xpath_of(x, i, "rs:md/@td:seq"), NULL, 10),
                         expected->resources[number].seq);
        free(expected->resources[number].entry);
        expected->resources[number].entry = NULL;
    }
}

/* The log, folded in memory up to entry `last`. */
static void
expect(struct build_orders *w, struct model *m, uint64_t last)
{
    model_init(m);
    model_fold_log(m, w->sets.registry->log, sets_find(&w->sets, "demo")->log,
                   last);
}

static void
expect_nothing_more(struct model *m)
{
    for (size_t i = 0; i < MODEL_MAX; i++)
        if (m->resources[i].entry)
            fail_msg("http://example.com/r/%zu is missing", i);
    model_fini(m);
}

/* the
 * current list, or its index and parts, is what the log says that the set was
 * then. */
void
build_orders_check(struct build_orders *w)
{
    const struct generation g = build_orders_current(w);
    struct model expected;
    struct xpath index, part;
    char text[120];

    expect(w, &expected, g.seq);
    build_orders_read(w, resourcelist_current_open, 0, 0, &index);
    check_root(w, &index, &g);
    if (g.parts == 1) {
        assert_xpath_count(&index, "/*/rs:ln[@rel='index']", 0);
        take_entries(&index, &expected);
    } else {
        assert_xpath_count(&index, "/s:sitemapindex/s:sitemap", g.parts);
        assert_xpath_count(&index, "//s:lastmod", 0);
    }
    for (uint64_t i = 1; g.parts > 1 && i <= g.parts; i++) {
        build_orders_read(w, resourcelist_generation_open, g.number, i, &part);
        check_root(w, &part, &g);
        snprintf(text, sizeof(text), RENEWALS_DEMO "resourcelist/%012llu.xml",
                 (unsigned long long)g.number);
        assert_xpath_text(&part, "/*/rs:ln[@rel='index']/@href", text);
        assert_in_range(xpath_count(&part, "/s:urlset/s:url"), 1, 10);
        take_entries(&part, &expected);
        snprintf(text, sizeof(text), "/*/s:sitemap[%llu]/rs:md/@at",
                 (unsigned long long)i);
        assert_xpath_text(&part, "/*/rs:md/@at", xpath_get(&index, text));
        snprintf(text, sizeof(text), "/*/s:sitemap[%llu]/s:loc",
                 (unsigned long long)i);
        snprintf(text + 60, sizeof(text) - 60,
                 "/resourcelist/%012llu/%012llu.xml",
                 (unsigned long long)g.number, (unsigned long long)i);
        assert_non_null(strstr(xpath_get(&index, text), text + 60));
        xpath_close(&part);
    }
    xpath_close(&index);
    expect_nothing_more(&expected);
}
