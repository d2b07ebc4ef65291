/*
 * transport_choice.c - chooses the transport of the next connection.
 */
#include "client/follow/transport_choice.h"

/* The best one first. */
static const struct row {
    unsigned transport;
    const char *name;
} rows[TRANSPORT_CHOICE_MAX] = {
    {TD_WEBSOCKET, "WebSocket"},
    {TD_EVENTS, "server-sent events"},
    {TD_LONG_POLL, "long poll"},
    {TD_POLL, "Change Lists"},
};

static int
row_of(unsigned transport)
{
    for (int i = 0; i < TRANSPORT_CHOICE_MAX; i++)
        if (rows[i].transport == transport)
            return i;
    return -1;
}

unsigned
transport_choice_choose(const struct transport_choice *ways, int64_t now_ms)
{
    for (int i = 0; i < TRANSPORT_CHOICE_MAX; i++) {
        const struct way *way = &ways->ways[i];

        if ((ways->open & rows[i].transport) &&
            (!way->is_unfit || now_ms >= way->again_ms))
            return rows[i].transport;
    }
    return 0;
}

void
transport_choice_unfit(struct transport_choice *ways, unsigned transport,
                       int64_t now_ms)
{
    int i = row_of(transport);
    struct way *way = i < 0 ? NULL : &ways->ways[i];

    if (!way)
        return;
    way->is_unfit = true;
    way->pause_ms =
        way->pause_ms ? way->pause_ms * 2 : TRANSPORT_CHOICE_AGAIN_FIRST_MS;
    if (way->pause_ms > TRANSPORT_CHOICE_AGAIN_LAST_MS)
        way->pause_ms = TRANSPORT_CHOICE_AGAIN_LAST_MS;
    way->again_ms = now_ms + way->pause_ms;
}

void
transport_choice_fit(struct transport_choice *ways, unsigned transport)
{
    int i = row_of(transport);

    if (i >= 0)
        ways->ways[i] = (struct way){.is_unfit = false};
}

void
transport_choice_forget(struct transport_choice *ways)
{
    for (int i = 0; i < TRANSPORT_CHOICE_MAX; i++)
        ways->ways[i].is_unfit = false;
}

const char *
transport_choice_name(unsigned transport)
{
    int i = row_of(transport);

    return i < 0 ? "" : rows[i].name;
}
