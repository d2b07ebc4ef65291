#include <stdio.h>
#include <string.h>

#include "broker/http/route_table.h"
#include "tests/test.h"

static const enum method all_methods[] = {
    METHOD_GET,    METHOD_HEAD,    METHOD_POST,  METHOD_PUT,
    METHOD_DELETE, METHOD_OPTIONS, METHOD_PATCH,
};

/* Design section 4: each row of the table comes to its handler. R-025: HEAD is
 * GET without a body. */
TEST(finds_the_handler_of_a_method_and_path)
{
    static const struct {
        enum method method;
        const char *path;
        handler_fn *handler;
        const char *name, *id;
        int act;
    } rows[] = {
        {METHOD_GET, "/healthz", handle_health_get, "", ""},
        {METHOD_GET, "/bridges", handle_report_get, "", "", REPORT_BRIDGES},
        {METHOD_GET, "/cluster", handle_report_get, "", "", REPORT_CLUSTER},
        {METHOD_GET, "/readyz", handle_ready_get, "", ""},
        {METHOD_GET, "/metrics", handle_report_get, "", "", REPORT_METRICS},
        {METHOD_POST, "/sets/demo/changes", handle_changes_post, "demo", ""},
        {METHOD_GET, "/sets/demo/changes", handle_memory_get, "demo", ""},
        {METHOD_POST, "/sets/a.b-c_d/rotate", handle_rotate_post, "a.b-c_d",
         ""},
        {METHOD_GET, "/sets/demo/stream", handle_stream_get, "demo", ""},
        {METHOD_GET, "/sets", handle_sets_get, "", ""},
        {METHOD_GET, "/sets/demo", handle_set_get, "demo", ""},
        {METHOD_PUT, "/sets/demo", handle_set_change, "demo", "", ACT_SETTINGS},
        {METHOD_PATCH, "/sets/demo", handle_set_change, "demo", "",
         ACT_SETTINGS},
        {METHOD_DELETE, "/sets/demo", handle_set_change, "demo", "",
         ACT_REMOVAL},
        {METHOD_PUT, "/sets/changes", handle_set_change, "changes", "",
         ACT_SETTINGS},
        /* Documents */
        {METHOD_GET, "/.well-known/resourcesync", handle_documents_get, "", ""},
        {METHOD_GET, "/sets/demo/capabilitylist.xml", handle_documents_get,
         "demo", ""},
        {METHOD_GET, "/sets/demo/changes/000000000001.xml",
         handle_documents_get, "demo", ""},
        /* HEAD */
        {METHOD_HEAD, "/healthz", handle_health_get, "", ""},
        {METHOD_HEAD, "/sets/demo/changes", handle_memory_get, "demo", ""},
        {METHOD_HEAD, "/sets/demo/changelist.xml", handle_documents_get, "demo",
         ""},
        /* The hub, its subscriptions, and relays */
        {METHOD_POST, "/hub", handle_hub_form, "", ""},
        {METHOD_POST, "/sets/demo/subscribe", handle_hub_form, "demo", ""},
        {METHOD_GET, "/relays", handle_command, "", "", COMMAND_RELAY_LIST},
        {METHOD_GET, "/relays/feed", handle_command, "feed", "",
         COMMAND_RELAY_SHOW},
        {METHOD_PUT, "/relays/feed", handle_command, "feed", "",
         COMMAND_RELAY_PUT},
        {METHOD_DELETE, "/relays/feed", handle_command, "feed", "",
         COMMAND_RELAY_REMOVE},
        {METHOD_GET, "/sets/a/subscriptions", handle_command, "a", "",
         COMMAND_LIST},
        {METHOD_HEAD, "/sets/a/subscriptions/17", handle_command, "a", "17",
         COMMAND_SHOW},
        {METHOD_DELETE, "/sets/a/subscriptions/17", handle_command, "a", "17",
         COMMAND_END},
        {METHOD_POST, "/sets/a/subscriptions/17/redeliver", handle_command, "a",
         "17", COMMAND_REDELIVER},
        {METHOD_HEAD, "/sets/a/subscriptions/17/attempts", handle_command, "a",
         "17", COMMAND_ATTEMPTS},
        {METHOD_POST, "/sets/a/subscriptions/17/attempts", handle_command, "a",
         "17", COMMAND_AGAIN},
        {METHOD_POST, "/sets/a/subscriptions/17/test", handle_command, "a",
         "17", COMMAND_TEST},
        {METHOD_GET, "/relays/a/subscriptions", handle_command, "a", "",
         COMMAND_LIST},
        {METHOD_HEAD, "/relays/a/subscriptions/17", handle_command, "a", "17",
         COMMAND_SHOW},
        {METHOD_DELETE, "/relays/a/subscriptions/17", handle_command, "a", "17",
         COMMAND_END},
        {METHOD_POST, "/relays/a/subscriptions/17/redeliver", handle_command,
         "a", "17", COMMAND_REDELIVER},
        {METHOD_GET, "/relays/a/subscriptions/17/attempts", handle_command, "a",
         "17", COMMAND_ATTEMPTS},
        {METHOD_POST, "/relays/a/subscriptions/17/attempts", handle_command,
         "a", "17", COMMAND_AGAIN},
        {METHOD_POST, "/relays/a/subscriptions/17/test", handle_command, "a",
         "17", COMMAND_TEST},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct route_found found;

        routes_find(rows[i].method, slice_of(rows[i].path), &found);
        if (!found.route || found.route->handler != rows[i].handler ||
            found.route->act != rows[i].act ||
            !slice_is(found.name, rows[i].name) ||
            !slice_is(found.id, rows[i].id) || !found.allow[0])
            fail_msg("row %zu, %s", i, rows[i].path);
    }
}

static void
assert_allows(const char *path, const char *allow, unsigned n_methods)
{
    unsigned n = 0;

    for (size_t i = 0; i < sizeof(all_methods) / sizeof(all_methods[0]); i++) {
        struct route_found found;

        routes_find(all_methods[i], slice_of(path), &found);
        if (strcmp(found.allow, allow) != 0)
            fail_msg("%s allows %s", path, found.allow);
        n += found.route != NULL;
    }
    if (n != n_methods)
        fail_msg("%s answers to %u methods", path, n);
}

/* Design section 4: 405 with the methods that an address answers to; W-038. */
TEST(says_which_methods_an_address_answers_to)
{
    static const struct {
        const char *path, *allow;
        unsigned n_methods;
    } rows[] = {
        {"/healthz", "GET, HEAD", 2},
        {"/sets/demo/changes", "GET, HEAD, POST", 3},
        {"/sets/demo/rotate", "POST", 1},
        {"/sets/demo/stream", "GET, HEAD", 2},
        {"/sets", "GET, HEAD", 2},
        {"/sets/demo", "GET, HEAD, PUT, PATCH, DELETE", 5},
        {"/sets/demo/changelist.xml", "GET, HEAD", 2},
        {"/.well-known/resourcesync", "GET, HEAD", 2},
        {"/bridges", "GET, HEAD", 2},
        {"/hub", "POST", 1},
        {"/sets/demo/subscribe", "POST", 1},
        {"/sets/demo/subscriptions", "GET, HEAD", 2},
        {"/sets/demo/subscriptions/1", "GET, HEAD, DELETE", 3},
        {"/sets/demo/subscriptions/1/redeliver", "POST", 1},
        {"/sets/demo/subscriptions/1/attempts", "GET, HEAD, POST", 3},
        {"/sets/demo/subscriptions/1/test", "POST", 1},
        {"/relays", "GET, HEAD", 2},
        {"/relays/feed", "GET, HEAD, PUT, DELETE", 4},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_allows(rows[i].path, rows[i].allow, rows[i].n_methods);
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
