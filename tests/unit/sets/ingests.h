/*
 * ingests.h - posts to the set "demo", for the tests of how they are taken and
 * of what they hold meanwhile.
 */
#ifndef TESTS_UNIT_SETS_INGESTS_H
#define TESTS_UNIT_SETS_INGESTS_H

#include "broker/sets/ingest.h"
#include "proto/vocab.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define JSON "application/json"
#define XML  "application/xml"

#define ENTRY(n) "{\"loc\":\"http://example.com/" n "\",\"change\":\"updated\"}"

#define XML_HEAD                                           \
    "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>" \
    "<rs:md capability='changelist'/>"
#define XML_ENTRY(n)                           \
    "<url><loc>http://example.com/" n "</loc>" \
    "<rs:md change='updated'/></url>"

static inline void
ingests_open(struct sets *s, void **state)
{
    sets_configure(s, tempdir_path(state));
    sets_open(s);
}

static inline struct sets_outcome
ingests_post(struct sets *s, const char *type, const char *body)
{
    return sets_post_body(s, "demo", type, slice_of(body), 0);
}

/* Nothing of the budget is reserved by anybody. */
static inline void
ingests_assert_budget(struct sets *s)
{
    assert_true(budgets_reserve(registry_budgets(s->registry), BUDGET_POSTS,
                                s->config.ingest_bytes));
    budgets_release(registry_budgets(s->registry), BUDGET_POSTS,
                    s->config.ingest_bytes);
}

#endif
