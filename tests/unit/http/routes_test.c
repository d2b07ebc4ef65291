#include "broker/http/routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

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
    assert_true(slice_is(found.set, set));
    assert_true(found.allow[0] != '\0');
}

/* Design section 4: each row of the table comes to its handler. */
static void
finds_the_handler_of_a_method_and_path(void **state)
{
    (void)state;
    assert_route(METHOD_GET, "/healthz", handle_health_get, "");
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
static void
finds_documents_as_well(void **state)
{
    (void)state;
    assert_route(METHOD_GET, "/.well-known/resourcesync", handle_documents_get,
                 "");
    assert_route(METHOD_GET, "/sets/demo/capabilitylist.xml",
                 handle_documents_get, "demo");
    assert_route(METHOD_GET, "/sets/demo/changes/000000000001.xml",
                 handle_documents_get, "demo");
}

/* HEAD is GET without a body. */
static void
answers_head_where_it_answers_get(void **state)
{
    (void)state;
    assert_route(METHOD_HEAD, "/healthz", handle_health_get, "");
    assert_route(METHOD_HEAD, "/sets/demo/changes", handle_memory_get, "demo");
    assert_route(METHOD_HEAD, "/sets/demo/changelist.xml", handle_documents_get,
                 "demo");
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
static void
says_which_methods_an_address_answers_to(void **state)
{
    (void)state;
    assert_allows("/healthz", "GET, HEAD", 2);
    assert_allows("/sets/demo/changes", "GET, HEAD, POST", 3);
    assert_allows("/sets/demo/rotate", "POST", 1);
    assert_allows("/sets/demo/stream", "GET, HEAD", 2);
    assert_allows("/sets", "GET, HEAD", 2);
    assert_allows("/sets/demo", "GET, HEAD, PUT, DELETE", 4);
    assert_allows("/sets/demo/changelist.xml", "GET, HEAD", 2);
    assert_allows("/.well-known/resourcesync", "GET, HEAD", 2);
}

/* 404: no method helps where there is nothing. */
static void
finds_nothing_elsewhere(void **state)
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
        "*",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_allows(paths[i], "", 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_handler_of_a_method_and_path),
        cmocka_unit_test(finds_documents_as_well),
        cmocka_unit_test(answers_head_where_it_answers_get),
        cmocka_unit_test(says_which_methods_an_address_answers_to),
        cmocka_unit_test(finds_nothing_elsewhere),
    };

    return cmocka_run_group_tests_name("routes", tests, NULL, NULL);
}
