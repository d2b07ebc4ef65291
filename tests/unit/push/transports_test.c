#include "broker/push/transports.h"

#include "tests/test.h"

/* An offer of subprotocols comes to this one; NULL: to none. */
static void
assert_chosen(const char *offer, const char *subprotocol)
{
    for (int is_deflated = 0; is_deflated <= 1; is_deflated++) {
        const struct transport *t =
            transports_of_websocket(true, slice_of(offer), is_deflated);

        assert_int_equal(t != NULL, subprotocol != NULL);
        if (t) {
            assert_string_equal(t->subprotocol, subprotocol);
            assert_int_equal(t->is_deflated, is_deflated);
        }
    }
}

/* Design section 4: a request without subprotocol means JSON, and the answer
 * states none. */
TEST(speaks_json_to_who_asks_for_nothing)
{
    const struct transport *t =
        transports_of_websocket(false, (struct slice){NULL, 0}, false);

    assert_non_null(t);
    assert_int_equal(t->form, MESSAGE_JSON);
}

/* The client's order counts, not ours. */
TEST(takes_the_first_of_the_clients_list_that_it_speaks)
{
    assert_chosen("resourcesync.xml", "resourcesync.xml");
    assert_chosen("resourcesync.json", "resourcesync.json");
    assert_chosen("resourcesync.xml, resourcesync.json", "resourcesync.xml");
    assert_chosen("resourcesync.json,resourcesync.xml", "resourcesync.json");
    assert_chosen("chat, resourcesync.xml", "resourcesync.xml");
    assert_chosen(" ,\t, resourcesync.json ,", "resourcesync.json");
}

/* RFC 6455: names are compared whole and with their case; to speak something
 * that was not asked for would break the connection. */
TEST(speaks_nothing_that_was_not_asked_for)
{
    assert_chosen("", NULL);
    assert_chosen(" , ", NULL);
    assert_chosen("chat", NULL);
    assert_chosen("resourcesync", NULL);
    assert_chosen("resourcesync.xml2", NULL);
    assert_chosen("resourcesync.XML", NULL);
    assert_chosen("xresourcesync.xml", NULL);
}

/* Each subprotocol has its form. */
TEST(knows_the_form_of_each)
{
    assert_int_equal(
        transports_of_websocket(true, SLICE("resourcesync.xml"), false)->form,
        MESSAGE_XML);
    assert_int_equal(
        transports_of_websocket(true, SLICE("resourcesync.json"), true)->form,
        MESSAGE_JSON);
}

/* An error offers only what the broker speaks. */
TEST(offers_what_it_speaks)
{
    struct buf offer;

    buf_init(&offer, 100);
    transports_offer(&offer);
    buf_add(&offer, "", 1);
    assert_string_equal(offer.data, "resourcesync.json, resourcesync.xml");
    assert_chosen(offer.data, "resourcesync.json");
    buf_fini(&offer);
}

/* A client without chunks gets none; both get JSON, and no subprotocol selects
 * an event stream. */
TEST(speaks_events_to_both_versions_of_http)
{
    const struct transport *chunked =
        transports_of_events(false, false, MESSAGE_JSON);
    const struct transport *plain =
        transports_of_events(true, false, MESSAGE_JSON);

    assert_ptr_not_equal(chunked, plain);
    assert_int_equal(chunked->form, MESSAGE_JSON);
    assert_int_equal(plain->form, MESSAGE_JSON);
    assert_null(chunked->subprotocol);
    assert_null(plain->subprotocol);
    assert_true(plain->is_1_0);
    assert_false(chunked->is_1_0);
}

/* A heartbeat is shared by number: no two transports have the same. */
TEST(numbers_them_all)
{
    const struct transport *all[] = {
        transports_of_websocket(true, SLICE("resourcesync.json"), false),
        transports_of_websocket(true, SLICE("resourcesync.xml"), false),
        transports_of_websocket(true, SLICE("resourcesync.json"), true),
        transports_of_websocket(true, SLICE("resourcesync.xml"), true),
        transports_of_events(false, false, MESSAGE_JSON),
        transports_of_events(true, false, MESSAGE_JSON),
        transports_of_events(false, true, MESSAGE_JSON),
        transports_of_events(true, true, MESSAGE_JSON),
        transports_of_events(false, false, MESSAGE_XML),
        transports_of_events(true, false, MESSAGE_XML),
        transports_of_events(false, true, MESSAGE_XML),
        transports_of_events(true, true, MESSAGE_XML),
    };
    unsigned seen = 0;

    assert_int_equal(TRANSPORTS, sizeof(all) / sizeof(all[0]));
    for (size_t i = 0; i < TRANSPORTS; i++) {
        assert_in_range(all[i] - transport_rows, 0, TRANSPORTS - 1);
        seen |= 1u << (all[i] - transport_rows);
    }
    assert_int_equal(seen, (1u << TRANSPORTS) - 1);
}

/* Subscribers per transport. Two rows with one label would be
 * one time series twice. */
TEST(each_has_its_own_label_in_the_metrics)
{
    for (size_t i = 0; i < TRANSPORTS; i++) {
        const char *label = transport_rows[i].label;

        assert_non_null(label);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(label, transport_rows[j].label);
    }
    assert_string_equal(
        transports_of_websocket(true, SLICE("resourcesync.xml"), false)->label,
        "websocket-xml");
}
