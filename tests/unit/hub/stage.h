/*
 * stage.h - a hub that takes in what a foreign Source says (asked.h), and that
 * Source: an origin with one topic, which names this hub.
 */
#ifndef TESTS_UNIT_HUB_STAGE_H
#define TESTS_UNIT_HUB_STAGE_H

#include <stdint.h>

#include "tests/support/origin.h"
#include "tests/unit/hub/asked.h"

#define URLSET                                                 \
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/" \
    "0.9\" xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"

/* One change of that loc. */
#define NOTICE(capability, loc)                                   \
    URLSET "<rs:md capability=\"" capability "\"/><url><loc>" loc \
           "</loc><rs:md change=\"updated\"/></url></urlset>"

struct stage {
    struct asked asked;
    struct origin *origin;
    const char *topic;
};

/* The topic is that of the relay "news", or feeds the set "demo". */
void stage_open_relay(struct stage *s, void **state);
void stage_open_set(struct stage *s, void **state);
void stage_close(struct stage *s);

/* The set "demo" is made, which takes in the topic. */
void stage_put_set(struct stage *s);

/* The Source notifies, or pings; the answer. */
struct told stage_post(struct stage *s, const char *body);
struct told stage_ping(struct stage *s);

void assert_http(const struct told *t, unsigned http, const char *part);

/* How many documents the relay has got. */
unsigned stage_documents(struct stage *s);

/* What is fetched comes when it comes: until then. */
void stage_await_documents(struct stage *s, unsigned n);
void stage_await_entries(struct stage *s, uint64_t n);

#endif
