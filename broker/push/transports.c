#include "broker/push/transports.h"

#include "broker/push/websocket.h"

static const struct transport transports[] = {
    {"resourcesync.json", MESSAGE_JSON, websocket_wrap},
    {"resourcesync.xml", MESSAGE_XML, websocket_wrap},
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
transports_of_websocket(bool has_offer, struct slice offer, bool *is_named)
{
    struct slice name;

    *is_named = has_offer;
    if (!has_offer)
        return &transports[0];
    while ((name = next_name(&offer)).size > 0)
        for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++)
            if (slice_is(name, transports[i].subprotocol))
                return &transports[i];
    return NULL;
}

unsigned
transports_number(const struct transport *transport)
{
    return (unsigned)(transport - transports);
}

const char *
transports_name(unsigned n)
{
    _Static_assert(sizeof(transports) / sizeof(transports[0]) <=
                       SET_TRANSPORTS_MAX,
                   "each is counted");
    return n < sizeof(transports) / sizeof(transports[0])
               ? transports[n].subprotocol
               : NULL;
}
