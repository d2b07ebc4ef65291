/*
 * ways.c - chooses the transport of the next connection.
 */
#include "client/follow/ways.h"

#include <stddef.h>

/* The best one first. */
static const struct row {
    unsigned transport;
    const char *name;
} rows[WAYS_MAX] = {
    {TD_WEBSOCKET, "WebSocket"},
    {TD_EVENTS, "server-sent events"},
    {TD_LONG_POLL, "long poll"},
    {TD_POLL, "Change Lists"},
};

static int
row_of(unsigned transport)
{
    for (int i = 0; i < WAYS_MAX; i++)
        if (rows[i].transport == transport)
            return i;
    return -1;
}

void
ways_open(struct ways *ways, unsigned open)
{
    ways->open = open;
}

unsigned
ways_choose(const struct ways *ways, int64_t now_ms)
{
    for (int i = 0; i < WAYS_MAX; i++) {
        const struct way *way = &ways->ways[i];

        if ((ways->open & rows[i].transport) &&
            (!way->is_unfit || now_ms >= way->again_ms))
            return rows[i].transport;
    }
    return 0;
}

void
ways_unfit(struct ways *ways, unsigned transport, int64_t now_ms)
{
    int i = row_of(transport);
    struct way *way = i < 0 ? NULL : &ways->ways[i];

    if (!way)
        return;
    way->is_unfit = true;
    way->pause_ms = way->pause_ms ? way->pause_ms * 2 : WAYS_AGAIN_FIRST_MS;
    if (way->pause_ms > WAYS_AGAIN_LAST_MS)
        way->pause_ms = WAYS_AGAIN_LAST_MS;
    way->again_ms = now_ms + way->pause_ms;
}

void
ways_fit(struct ways *ways, unsigned transport)
{
    int i = row_of(transport);

    if (i >= 0)
        ways->ways[i] = (struct way){.is_unfit = false};
}

void
ways_forget(struct ways *ways)
{
    for (int i = 0; i < WAYS_MAX; i++)
        ways->ways[i].is_unfit = false;
}

const char *
ways_name(unsigned transport)
{
    int i = row_of(transport);

    return i < 0 ? "" : rows[i].name;
}
