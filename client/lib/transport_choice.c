/*
 * transport_choice.c - chooses the transport of the next connection.
 */
#include "client/lib/transport_choice.h"

#include "client/lib/host_name.h"
#include "proto/fnv1a.h"

/* In the order of their bits, enum td_transport: the best one first. */
static const char *const names[TRANSPORT_CHOICE_MAX] = {
    "WebSocket", "server-sent events", "long poll", "Change Lists"};

/* -1: it is 0, or a stream that is shared. */
static int
row_of(unsigned transport)
{
    int row = ffs((int)transport) - 1;

    return row < TRANSPORT_CHOICE_MAX ? row : -1;
}

unsigned
transport_choice_choose(const struct transport_choice *choice, unsigned open,
                        int64_t now_ms)
{
    for (int i = 0; i < TRANSPORT_CHOICE_MAX; i++)
        if ((open & 1u << i) && now_ms >= choice->ways[i].again_ms)
            return 1u << i;
    return 0;
}

bool
transport_choice_unfit(struct transport_choice *choice, unsigned transport,
                       int64_t now_ms)
{
    int i = row_of(transport);
    struct way *way = i < 0 ? NULL : &choice->ways[i];
    bool is_news = way && way->pause_ms == 0;

    /* Sets that connect at once find the same at once. */
    if (!way || now_ms < way->again_ms)
        return false;
    way->pause_ms =
        way->pause_ms ? way->pause_ms * 2 : TRANSPORT_CHOICE_AGAIN_FIRST_MS;
    if (way->pause_ms > TRANSPORT_CHOICE_AGAIN_LAST_MS)
        way->pause_ms = TRANSPORT_CHOICE_AGAIN_LAST_MS;
    way->again_ms = now_ms + way->pause_ms;
    return is_news;
}

void
transport_choice_fit(struct transport_choice *choice, unsigned transport)
{
    int i = row_of(transport);

    if (i >= 0)
        choice->ways[i] = (struct way){.again_ms = 0};
}

unsigned
transport_choice_wait_s(const struct transport_choice *choice, int64_t now_ms)
{
    return now_ms < choice->wait_until_ms ? choice->wait_s : 0;
}

bool
transport_choice_cut(struct transport_choice *choice, int64_t lasted_ms,
                     int64_t now_ms)
{
    unsigned known_s = transport_choice_wait_s(choice, now_ms);
    unsigned wait_s = lasted_ms < 2000 ? 1 : (unsigned)(lasted_ms / 2000);

    if (lasted_ms < 1000 || (known_s && wait_s >= known_s))
        return false;
    choice->wait_s = wait_s;
    choice->wait_until_ms = now_ms + TRANSPORT_CHOICE_AGAIN_LAST_MS;
    return true;
}

void
transport_choice_forget(struct transport_choice *choice)
{
    for (int i = 0; i < TRANSPORT_CHOICE_MAX; i++)
        choice->ways[i].again_ms = 0;
}

const char *
transport_choice_name(unsigned transport)
{
    int i = row_of(transport);

    return i < 0 ? "" : names[i];
}

struct transport_choice *
transport_hosts_of(struct transport_hosts *hosts, const char *url)
{
    struct transport_host *host = hosts->hosts, *oldest = hosts->hosts;
    struct transport_host *end = host + TRANSPORT_HOSTS_MAX;
    struct websub_origin origin = {""};
    uint64_t name;

    (void)host_name_read(slice_of(url), &origin);
    name = fnv1a_text(FNV1A_BEGIN, origin.text);
    while (host < end && !(host->used && host->name == name)) {
        oldest = host->used < oldest->used ? host : oldest;
        host++;
    }
    if (host == end) {
        host = oldest;
        *host = (struct transport_host){.name = name};
    }
    host->used = ++hosts->n_used;
    return &host->choice;
}
