#include "broker/push/transports.h"

#include "broker/push/eventsource.h"
#include "broker/push/websocket.h"

/* An event stream carries JSON only: every client would have to take the lines
 * of XML apart and put them together again. */
static const struct transport transports[TRANSPORTS] = {
    {"resourcesync.json", MESSAGE_JSON, false, websocket_accept, websocket_wrap,
     websocket_close, "websocket-json"},
    {"resourcesync.xml", MESSAGE_XML, false, websocket_accept, websocket_wrap,
     websocket_close, "websocket-xml"},
    {"resourcesync.json", MESSAGE_JSON, true, websocket_accept,
     websocket_wrap_deflated, websocket_close, "websocket-json-deflate"},
    {"resourcesync.xml", MESSAGE_XML, true, websocket_accept,
     websocket_wrap_deflated, websocket_close, "websocket-xml-deflate"},
    {NULL, MESSAGE_JSON, false, eventsource_accept, eventsource_wrap_chunked,
     eventsource_close_chunked, "eventsource"},
    {NULL, MESSAGE_JSON, false, eventsource_accept, eventsource_wrap_plain,
     eventsource_close_plain, "eventsource-1.0"},
};

/* The next name of a comma-separated list. */
static struct slice
next_name(struct slice *list)
{
    struct slice name;
    size_t n = 0;

    while (list->size > 0 && strchr(" \t,", *list->data)) {
        list->data++;
        list->size--;
    }
    while (n < list->size && !strchr(" \t,", list->data[n]))
        n++;
    name = (struct slice){list->data, n};
    list->data += n;
    list->size -= n;
    return name;
}

const struct transport *
transports_of_websocket(bool has_offer, struct slice offer, bool is_deflated)
{
    struct slice name;

    if (!has_offer)
        offer = slice_of(transports[0].subprotocol);
    while ((name = next_name(&offer)).size > 0)
        for (size_t i = 0; i < TRANSPORTS; i++)
            if (transports[i].subprotocol &&
                transports[i].is_deflated == is_deflated &&
                slice_is(name, transports[i].subprotocol))
                return &transports[i];
    return NULL;
}

const struct transport *
transports_of_events(bool is_1_0)
{
    return &transports[TRANSPORTS - (is_1_0 ? 1 : 2)];
}

size_t
transports_number(const struct transport *transport)
{
    return (size_t)(transport - transports);
}

const struct transport *
transports_of_number(size_t number)
{
    return &transports[number];
}

struct slice
transports_piece(struct slice wrapped, size_t offset)
{
    size_t rest = wrapped.size - offset;

    return (struct slice){wrapped.data + offset,
                          rest < STREAM_FRAME_MAX ? rest : STREAM_FRAME_MAX};
}

const char *
transports_label(size_t number)
{
    _Static_assert(TRANSPORTS <= SET_TRANSPORTS_MAX, "each is counted");
    return transports[number].label;
}
