/*
 * ingests.h - posts to the set "demo", for the tests of how they are taken and
 * of what they hold meanwhile.
 */
#ifndef TESTS_UNIT_SETS_INGESTS_H
#define TESTS_UNIT_SETS_INGESTS_H

#include "broker/sets/ingest.h"
#include "proto/vocab.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

#define JSON "application/json"
#define XML  "application/xml"

#define ENTRY(n) "{\"loc\":\"http://example.com/" n "\",\"change\":\"updated\"}"

#define XML_HEAD                                           \
    "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>" \
    "<rs:md capability='changelist'/>"
#define XML_ENTRY(n)                           \
    "<url><loc>http://example.com/" n "</loc>" \
    "<rs:md change='updated'/></url>"

static inline struct sets_outcome
ingests_post(const char *type, const char *body)
{
    return sets_post_body(&s, "demo", type, slice_of(body), 0);
}

/* Nobody has reserved anything of the budget. */
static inline bool
ingests_budget_is_free(void)
{
    struct budgets *budgets = registry_budgets(s.registry);
    bool is_free =
        budgets_reserve(budgets, BUDGET_POSTS, s.config.ingest_bytes);

    if (is_free)
        budgets_release(budgets, BUDGET_POSTS, s.config.ingest_bytes);
    return is_free;
}

/* The fixture of these tests: stage.h; and every post gives back what it has
 * reserved. */
static inline int
ingests_close(void **state)
{
    bool is_free = !s.registry || ingests_budget_is_free();

    if (!is_free)
        print_error("something of the budget is still reserved\n");
    return stage_close(state) || !is_free ? -1 : 0;
}

#endif
