#include "broker/http/routes.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

static const enum method all_methods[] = {
    METHOD_GET,    METHOD_HEAD,    METHOD_POST,  METHOD_PUT,
    METHOD_DELETE, METHOD_OPTIONS, METHOD_OTHER,
};

static void
assert_route(enum method method, const char *path, handler_fn *handler,
             const char *set)
{
    struct route_found found;

    routes_find(method, slice_of(path), &found);
    assert_ptr_equal(found.handler, handler);
    assert_true(slice_is(found.holes.name, set));
    assert_true(found.allow[0] != '\0');
}

/* Design section 4: each row of the table comes to its handler. */
TEST(finds_the_handler_of_a_method_and_path)
{
    assert_route(METHOD_GET, "/healthz", handle_health_get, "");
    assert_route(METHOD_GET, "/bridges", handle_bridges_get, "");
    assert_route(METHOD_GET, "/readyz", handle_ready_get, "");
    assert_route(METHOD_GET, "/metrics", handle_metrics_get, "");
    assert_route(METHOD_POST, "/sets/demo/changes", handle_changes_post,
                 "demo");
    assert_route(METHOD_GET, "/sets/demo/changes", handle_memory_get, "demo");
    assert_route(METHOD_POST, "/sets/a.b-c_d/rotate", handle_rotate_post,
                 "a.b-c_d");
    assert_route(METHOD_GET, "/sets/demo/stream", handle_stream_get, "demo");
    assert_route(METHOD_GET, "/sets", handle_sets_get, "");
    assert_route(METHOD_GET, "/sets/demo", handle_set_get, "demo");
    assert_route(METHOD_PUT, "/sets/demo", handle_set_put, "demo");
    assert_route(METHOD_DELETE, "/sets/demo", handle_set_delete, "demo");
    assert_route(METHOD_PUT, "/sets/changes", handle_set_put, "changes");
}

/* Documents are GET, each at its path. */
TEST(finds_documents_as_well)
{
    assert_route(METHOD_GET, "/.well-known/resourcesync", handle_documents_get,
                 "");
    assert_route(METHOD_GET, "/sets/demo/capabilitylist.xml",
                 handle_documents_get, "demo");
    assert_route(METHOD_GET, "/sets/demo/changes/000000000001.xml",
                 handle_documents_get, "demo");
}

/* HEAD is GET without a body. */
TEST(answers_head_where_it_answers_get)
{
    assert_route(METHOD_HEAD, "/healthz", handle_health_get, "");
    assert_route(METHOD_HEAD, "/sets/demo/changes", handle_memory_get, "demo");
    assert_route(METHOD_HEAD, "/sets/demo/changelist.xml", handle_documents_get,
                 "demo");
}

static void
assert_holes(enum method method, const char *path, handler_fn *handler,
             const char *name, const char *id)
{
    struct route_found found;

    routes_find(method, slice_of(path), &found);
    assert_ptr_equal(found.handler, handler);
    assert_true(slice_is(found.holes.name, name));
    assert_true(slice_is(found.holes.id, id));
}

/* Design section 4: the hub, its subscriptions, and relays. */
TEST(finds_the_hub_and_what_belongs_to_it)
{
    assert_route(METHOD_POST, "/hub", handle_hub_post, "");
    assert_route(METHOD_POST, "/sets/demo/subscribe", handle_subscribe_post,
                 "demo");
    assert_route(METHOD_GET, "/relays", handle_relays_get, "");
    assert_route(METHOD_GET, "/relays/feed", handle_relay_get, "feed");
    assert_route(METHOD_PUT, "/relays/feed", handle_relay_put, "feed");
    assert_route(METHOD_DELETE, "/relays/feed", handle_relay_delete, "feed");
    for (int i = 0; i < 2; i++) {
        const char *of = i ? "relays" : "sets";
        char all[80], one[80], again[100];

        snprintf(all, sizeof(all), "/%s/a/subscriptions", of);
        snprintf(one, sizeof(one), "/%s/a/subscriptions/17", of);
        snprintf(again, sizeof(again), "/%s/a/subscriptions/17/redeliver", of);
        assert_holes(METHOD_GET, all, handle_subscriptions_get, "a", "");
        assert_holes(METHOD_HEAD, one, handle_subscription_get, "a", "17");
        assert_holes(METHOD_DELETE, one, handle_subscription_delete, "a", "17");
        assert_holes(METHOD_POST, again, handle_redeliver_post, "a", "17");
    }
}

static void
assert_allows(const char *path, const char *allow, unsigned n_methods)
{
    unsigned n = 0;

    for (size_t i = 0; i < sizeof(all_methods) / sizeof(all_methods[0]); i++) {
        struct route_found found;

        routes_find(all_methods[i], slice_of(path), &found);
        assert_string_equal(found.allow, allow);
        n += found.handler != NULL;
    }
    assert_int_equal(n, n_methods);
}

/* Design section 4: 405 with the methods that an address answers to. */
TEST(says_which_methods_an_address_answers_to)
{
    assert_allows("/healthz", "GET, HEAD", 2);
    assert_allows("/sets/demo/changes", "GET, HEAD, POST", 3);
    assert_allows("/sets/demo/rotate", "POST", 1);
    assert_allows("/sets/demo/stream", "GET, HEAD", 2);
    assert_allows("/sets", "GET, HEAD", 2);
    assert_allows("/sets/demo", "GET, HEAD, PUT, DELETE", 4);
    assert_allows("/sets/demo/changelist.xml", "GET, HEAD", 2);
    assert_allows("/.well-known/resourcesync", "GET, HEAD", 2);
    assert_allows("/bridges", "GET, HEAD", 2);
    assert_allows("/hub", "POST", 1); /* W-038 */
    assert_allows("/sets/demo/subscribe", "POST", 1);
    assert_allows("/sets/demo/subscriptions", "GET, HEAD", 2);
    assert_allows("/sets/demo/subscriptions/1", "GET, HEAD, DELETE", 3);
    assert_allows("/sets/demo/subscriptions/1/redeliver", "POST", 1);
    assert_allows("/relays", "GET, HEAD", 2);
    assert_allows("/relays/feed", "GET, HEAD, PUT, DELETE", 4);
}

/* 404: no method helps where there is nothing. */
TEST(finds_nothing_elsewhere)
{
    static const char *const paths[] = {
        "",
        "/healthz/",
        "/Healthz",
        "/sets/",
        "/sets//changes",
        "/sets/demo/changes/",
        "/sets/demo//changes",
        "/sets/demo/x/changes",
        "/sets/demo/changesx",
        "/xsets/demo/changes",
        "/sets//rotate",
        "/sets//stream",
        "/sets//changelist.xml",
        "/sets/demo/changes/000000000000.xml",
        "/sets/demo/changes?after=1",
        "/hub/",
        "/hubs",
        "/sets/demo/subscriptions/",
        "/sets/demo/subscriptions//redeliver",
        "/sets/demo/subscriptions/1/",
        "/sets/demo/subscriptions/1/2/redeliver",
        "/sets//subscriptions/1",
        "/relays/",
        "/relays/feed/subscribe",
        "*",
    };

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_allows(paths[i], "", 0);
}
