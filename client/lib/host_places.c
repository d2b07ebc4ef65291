/*
 * host_places.c - how many requests of a handle a host gets at a time, and
 * when.
 */
#include "client/lib/host_places.h"

#include "base/clock.h"
#include "client/lib/host_name.h"

/* The longest pause that a host may ask for, in seconds. */
#define PAUSE_MAX_S 3600

struct places_host {
    struct list node; /* in host_places->hosts */
    struct websub_origin name;
    struct list waiting[2]; /* of struct host_place: files, others */
    unsigned n_taken;       /* places of requests that read */
    unsigned n_documents;   /* of them, those that are no files */
    unsigned n_known;       /* requests that know this host */
    int64_t until_ms;       /* the end of its pause */
    unsigned status;        /* of the answer that asked for it */
};

static void on_turn(void *user);

void
host_places_init(struct host_places *places, struct handle_loop *loop)
{
    list_init(&places->hosts);
    places->per_host = HOST_PLACES_DEFAULT;
    timer_init(&places->turn, loop, on_turn, places);
}

static void
forget_host(struct places_host *host)
{
    list_remove(&host->node);
    free(host);
}

void
host_places_fini(struct host_places *places)
{
    struct places_host *host;

    list_until_empty (host, &places->hosts, node)
        forget_host(host);
    timer_stop(&places->turn);
}

void
host_places_set(struct host_places *places, unsigned per_host)
{
    places->per_host = per_host ? per_host : HOST_PLACES_DEFAULT;
}

/* The host of a URL. Forgets hosts that nobody asks and that need no pause.
 * NULL: it is not known, and is not to be, or no memory. */
static struct places_host *
host_of(struct host_places *places, const char *url, bool is_to_be_known)
{
    int64_t now_ms = clock_steady_ms();
    struct places_host *found = NULL;
    struct places_host *host;
    struct websub_origin name;

    if (!host_name_read(slice_of(url), &name))
        return NULL;
    list_walk (host, &places->hosts, node) {
        if (!strcmp(host->name.text, name.text))
            found = host;
        else if (!host->n_known && host->until_ms <= now_ms)
            forget_host(host);
    }
    if (found || !is_to_be_known)
        return found;
    found = calloc(1, sizeof(*found));
    if (!found)
        return NULL;
    found->name = name;
    list_init(&found->waiting[0]);
    list_init(&found->waiting[1]);
    list_append(&places->hosts, &found->node);
    return found;
}

static struct list *
queue_of(struct places_host *host, const struct host_place *place)
{
    return &host->waiting[place->kind != HOST_PLACE_FILE];
}

static void
count_place(struct host_place *place, int n)
{
    struct places_host *host = place->host;

    if (place->kind == HOST_PLACE_STREAM)
        return;
    host->n_taken += (unsigned)n;
    if (place->kind == HOST_PLACE_DOCUMENT)
        host->n_documents += (unsigned)n;
}

/* Milliseconds until a waiting request may begin, or end because of a long
 * pause; 0: now, -1: not before another one ends. */
static int64_t
wait_ms(const struct host_places *places, const struct places_host *host,
        const struct host_place *place, int64_t now_ms)
{
    int64_t pause_ms = host->until_ms - now_ms;
    int64_t patience_ms = place->since_ms + DOCUMENT_PATIENCE_MS - now_ms;

    if (place->is_held)
        return -1;
    if (pause_ms > HOST_PAUSE_MOST_S * 1000)
        return 0;
    if (pause_ms > 0)
        return pause_ms;
    if (place->kind == HOST_PLACE_STREAM || host->n_taken < places->per_host)
        return 0;
    if (place->kind == HOST_PLACE_FILE || host->n_documents > 0)
        return -1;
    return patience_ms > 0 ? patience_ms : 0;
}

/* The next request that may begin at a host; NULL: none. Reduces *least_ms to
 * the time until one may; -1: no time yet. */
static struct host_place *
next_place(const struct host_places *places, struct places_host *host,
           int64_t now_ms, int64_t *least_ms)
{
    for (int kind = 1; kind >= 0; kind--) {
        struct host_place *place;

        list_walk (place, &host->waiting[kind], node) {
            int64_t ms = wait_ms(places, host, place, now_ms);

            if (!ms)
                return place;
            if (ms > 0 && (*least_ms < 0 || ms < *least_ms))
                *least_ms = ms;
        }
    }
    return NULL;
}

/* Lets one request begin, and comes again for the next: its on_turn may do
 * anything. */
static void
on_turn(void *user)
{
    struct host_places *places = user;
    int64_t now_ms = clock_steady_ms();
    int64_t least_ms = -1;
    struct places_host *host;

    list_walk (host, &places->hosts, node) {
        struct host_place *place = next_place(places, host, now_ms, &least_ms);

        if (!place)
            continue;
        list_remove(&place->node);
        place->is_waiting = false;
        count_place(place, 1);
        timer_start(&places->turn, 0);
        place->on_turn(place->user);
        return;
    }
    if (least_ms >= 0)
        timer_start(&places->turn, (uint64_t)least_ms);
}

bool
host_place_ask(struct host_places *places, struct host_place *place,
               const char *url)
{
    struct places_host *host = host_of(places, url, true);
    int64_t now_ms = clock_steady_ms();
    bool is_first;

    host_place_return(places, place);
    if (!host)
        return true; /* libcurl will say why */
    place->host = host;
    place->since_ms = now_ms;
    host->n_known++;
    is_first = list_is_empty(&host->waiting[1]) &&
               list_is_empty(queue_of(host, place));
    if ((is_first || place->kind == HOST_PLACE_STREAM) &&
        host->until_ms <= now_ms && !wait_ms(places, host, place, now_ms)) {
        count_place(place, 1);
        return true;
    }
    place->is_waiting = true;
    list_append(queue_of(host, place), &place->node);
    timer_start(&places->turn, 0);
    return false;
}

void
host_place_return(struct host_places *places, struct host_place *place)
{
    if (!place->host)
        return;
    if (place->is_waiting)
        list_remove(&place->node);
    else if (!place->is_held)
        count_place(place, -1);
    place->host->n_known--;
    place->host = NULL;
    place->is_waiting = false;
    timer_start(&places->turn, 0);
}

void
host_place_hold(struct host_places *places, struct host_place *place,
                bool is_held)
{
    if (place->is_held == is_held)
        return;
    place->is_held = is_held;
    if (!place->host)
        return;
    if (!place->is_waiting)
        count_place(place, is_held ? -1 : 1);
    timer_start(&places->turn, 0);
}

void
host_places_pause(struct host_places *places, const char *url, unsigned status,
                  unsigned seconds)
{
    struct places_host *host = host_of(places, url, true);
    int64_t until_ms =
        clock_steady_ms() +
        1000 * (int64_t)(seconds < PAUSE_MAX_S ? seconds : PAUSE_MAX_S);

    if (!host || host->until_ms >= until_ms)
        return;
    host->until_ms = until_ms;
    host->status = status;
    timer_start(&places->turn, 0);
}

unsigned
host_places_pause_s(struct host_places *places, const char *url,
                    unsigned *status)
{
    struct places_host *host = host_of(places, url, false);
    int64_t ms = host ? host->until_ms - clock_steady_ms() : 0;

    if (ms <= HOST_PAUSE_MOST_S * 1000)
        return 0;
    *status = host->status;
    return (unsigned)(ms / 1000);
}
