/*
 * stage.h - a hub that accepts documents of a foreign Source (asked.h), and
 * that Source: an origin with one topic, which names this hub.
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
    struct origin *origin;
    const char *topic;
};

extern struct stage stage;

/* The topic is that of the relay "news", or feeds the set "demo". */
int stage_open_relay(void **state);
int stage_open_set(void **state);
int stage_close(void **state);

/* The set "demo" is made, which takes in the topic. */
void stage_put_set(void);

/* The Source notifies (as text/plain, or application/xml), or pings; the
 * answer.
 */
struct told stage_post(const char *body);
struct told stage_post_xml(const char *key, const char *body);
struct told stage_ping(void);

void assert_http(struct told t, unsigned http, const char *part);

/* How many documents the relay has got. */
unsigned stage_documents(void);

/* A fetch takes its time; these wait for its result. */
void stage_await_documents(unsigned n);
void stage_await_entries(uint64_t n);

#endif
