/*
 * ingests.h - posts to the set "demo", for tests of their acceptance and of
 * their memory meanwhile.
 */
#ifndef TESTS_UNIT_POSTS_INGESTS_H
#define TESTS_UNIT_POSTS_INGESTS_H

#include "broker/posts/ingest.h"
#include "proto/resourcesync/vocab.h"
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

/* No post holds anything. */
static inline bool
ingests_hold_nothing(void)
{
    return !clients_held(&s.registry->clients, CLIENT_POSTS);
}

/* The fixture of these tests: stage.h; and every post gives back what it has
 * reserved. */
static inline int
ingests_close(void **state)
{
    bool is_free = !s.registry || ingests_hold_nothing();

    if (!is_free)
        print_error("some memory for posts is still held\n");
    return stage_close(state) || !is_free ? -1 : 0;
}

#endif
