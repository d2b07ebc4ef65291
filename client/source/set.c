/*
 * set.c - creates, changes, describes, removes and lists sets.
 */
#include "client/source/set.h"

#include "client/lib/fetch.h"
#include "client/lib/json_fields.h"
#include "client/lib/set_url.h"
#include "client/source/discovery.h"
#include "client/source/document_fetch.h"
#include "proto/arena.h"

/* More than any description of a set has. */
#define ANSWER_BYTES_MAX 262144

/* Runs one request. `suffix`: appended to the URL of the set. `is_own`: the
 * program has named that, no source has. */
static enum status
exchange_settings(struct td_client *client, const char *set_url,
                  const char *suffix, const char *method,
                  const struct slice *body, bool is_own,
                  struct fetch_answer *answer)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Accept: application/json", NULL};
    char target[SET_URL_MAX + 16];
    char url[SET_URL_MAX + 1];
    struct fetch_request request = {.url = target,
                                    .headers = body ? headers : headers + 1,
                                    .body = body,
                                    .max_bytes = ANSWER_BYTES_MAX,
                                    .method = method,
                                    .is_own = is_own};
    enum status rc;

    buf_init(&answer->body, ANSWER_BYTES_MAX);
    rc = set_url_read(client, set_url, url);
    if (!rc) {
        snprintf(target, sizeof(target), "%s%s", url, suffix);
        rc = fetch_run(client, &request, NULL, NULL, answer);
    }
    if (!rc && answer->status / 100 != 2)
        rc = fetch_refused(&client->problem, answer);
    return rc;
}

enum td_status
set_send(struct td_client *client, const char *set_url, const char *suffix,
         const char *method, const struct slice *json, unsigned *status)
{
    struct fetch_answer answer = {.status = 0};
    enum status rc;

    client_begin(client);
    rc =
        exchange_settings(client, set_url, suffix, method, json, true, &answer);
    if (status)
        *status = answer.status;
    buf_fini(&answer.body);
    return client_end(client, rc);
}

enum td_status
td_set_create(struct td_client *client, const char *set_url,
              const char *settings, size_t size)
{
    return set_send(client, set_url, "?new=yes", "PUT",
                    &(struct slice){settings, size}, NULL);
}

enum td_status
td_set_put(struct td_client *client, const char *set_url, const char *settings,
           size_t size, int *is_new)
{
    unsigned status = 0;
    enum td_status rc = set_send(client, set_url, "", "PUT",
                                 &(struct slice){settings, size}, &status);

    if (!rc && is_new)
        *is_new = status == 201;
    return rc;
}

enum td_status
td_set_change(struct td_client *client, const char *set_url, const char *change,
              size_t size, int may_discard)
{
    return set_send(client, set_url, may_discard ? "?discard=yes" : "", "PATCH",
                    &(struct slice){change, size}, NULL);
}

enum td_status
td_set_delete(struct td_client *client, const char *set_url)
{
    return set_send(client, set_url, "", "DELETE", NULL, NULL);
}

/* Asks for a set's description and has its members read. The answer's body is
 * the caller's. */
static enum status
read_members(struct td_client *client, const char *set_url, bool is_own,
             td_member_fn *on_member, void *user, struct fetch_answer *answer)
{
    enum status rc =
        exchange_settings(client, set_url, "", NULL, NULL, is_own, answer);

    if (rc || !on_member)
        return rc;
    rc = json_members_read(buf_slice(&answer->body), on_member, user);
    return rc == STATUS_MEMORY ? problem_memory(&client->problem)
           : rc                ? client_fail(client, STATUS_MALFORMED,
                                             "the answer is no description of a set")
                               : rc;
}

struct link_search {
    const char *rel;
    bool is_next; /* its address is the next one */
    char *href;
    size_t size;
};

static void
on_link_member(const char *path, const char *value, void *user)
{
    struct link_search *l = user;
    const char *name = strrchr(path, '.');

    if (strncmp(path, "links.", 6) != 0 || !name)
        return;
    if (!strcmp(name, ".rel"))
        l->is_next = !strcmp(value, l->rel);
    else if (!strcmp(name, ".href") && l->is_next)
        snprintf(l->href, l->size, "%s", value);
}

bool
set_link(struct td_client *client, const char *set_url, const char *rel,
         char *href, size_t size)
{
    struct link_search l = {.rel = rel, .href = href, .size = size};
    struct fetch_answer answer;
    enum status rc;

    href[0] = '\0';
    rc = read_members(client, set_url, false, on_link_member, &l, &answer);
    buf_fini(&answer.body);
    return !rc && href[0];
}

enum td_status
td_set_get(struct td_client *client, const char *set_url,
           td_member_fn *on_member, void *user, char **json)
{
    struct fetch_answer answer;
    enum status rc;

    if (json)
        *json = NULL;
    client_begin(client);
    rc = read_members(client, set_url, true, on_member, user, &answer);
    if (!rc && json) {
        *json = slice_dup(buf_slice(&answer.body));
        if (!*json)
            rc = problem_memory(&client->problem);
    }
    buf_fini(&answer.body);
    return client_end(client, rc);
}

/* The sets of a source */

struct set_listing {
    struct td_client *client;
    td_set_fn *on_set;
    void *user;
    const char *url;
    size_t n_sets;
    size_t n_missed;
    struct problem missed; /* the first */
    struct problem why;
    bool has_no_memory;
    bool is_over;
};

static void
on_set(struct offered *offered, const struct problem *missed, void *user)
{
    struct set_listing *l = user;
    bool is_new;

    if (!missed &&
        text_set_add(&l->client->found, slice_of(offered->url), &is_new))
        l->has_no_memory = true;
    l->n_sets += !missed;
    if (missed && l->n_missed++ == 0)
        l->missed = *missed;
    l->on_set(offered->url, missed ? missed->text : NULL, l->user);
}

static void
on_end(const struct problem *why, void *user)
{
    struct set_listing *l = user;

    l->why = *why;
    if (l->has_no_memory)
        problem_memory(&l->why);
    else if (!why->rc && l->n_missed > 0) {
        l->why = l->missed;
        problem_prefix(&l->why, l->missed.rc,
                       "%zu of %zu sets of %.300s cannot be read: ",
                       l->n_missed, l->n_sets + l->n_missed, l->url);
    }
    l->is_over = true;
}

enum td_status
td_sets(struct td_client *client, const char *url, td_set_fn *on_each,
        void *user)
{
    struct set_listing l = {.client = client,
                            .on_set = on_each,
                            .user = user,
                            .url = url ? url : ""};
    struct discovery *discovery;
    enum status rc;

    client_begin(client);
    if (client_add_source(client, url))
        return client_end(client, STATUS_MEMORY);
    discovery = discovery_start(client, l.url, 0, NULL, on_set, on_end, &l);
    if (!discovery)
        return client_end(client, problem_memory(&client->problem));
    rc = client_until(client, &l.is_over, &l.why);
    if (!l.is_over)
        discovery_free(discovery);
    return client_end(client, rc);
}

/*
 * Td_describe: what a set offers, from discovery and its Change
 * List.
 *
 * A server may lack any document; the offer has all that were found.
 */

/* A description of a set is small; a Capability List has one row for each
 * capability and channel. Further items, of a broken server, are dropped. */
#define ITEMS_MAX 256

struct offer {
    const char *url;
    struct td_offer offer;
    struct td_item items[ITEMS_MAX];
    struct arena arena; /* of the items' strings */
    struct buf json;
    char digest[80];
    struct datetime_text from; /* of the Change List */
    struct offered offered;    /* the set found */
    unsigned n_sets;
    struct discovery *discovery;
    struct document_fetch *page;
    struct problem why;
    bool is_over;
    bool has_failed; /* no memory for a part of it */
};

/* Items: strings of the arena */

/* Sets an empty member to a copy. */
static void
copy_text(struct offer *o, const char **member, struct slice text)
{
    char *copy;

    if (*member || !text.size)
        return;
    copy = arena_take(&o->arena, text.size + 1);
    o->has_failed |= !copy;
    if (copy) {
        memcpy(copy, text.data, text.size);
        copy[text.size] = '\0';
    }
    *member = copy;
}

static void
copy_time(struct offer *o, const char **member, int64_t us)
{
    copy_text(o, member, slice_of(datetime_text_short(us).text));
}

static bool
is_equal(const char *a, struct slice b)
{
    return a && slice_is(b, a);
}

static void
on_item(const struct discovery_item *found, void *user)
{
    struct offer *o = user;
    struct td_item *item = o->items, *end = item + o->offer.n_items;

    /* Documents may repeat a link. */
    while (item < end && !(is_equal(item->rel, found->rel) &&
                           is_equal(item->href, found->href)))
        item++;
    if (item == o->items + ITEMS_MAX)
        return;
    if (item == end) {
        *item = (struct td_item){.rel = NULL};
        copy_text(o, &item->rel, found->rel);
        copy_text(o, &item->href, found->href);
        o->offer.n_items++;
    }
    copy_text(o, &item->type, found->type);
    copy_time(o, &item->from, found->from_us);
    copy_time(o, &item->until, found->until_us);
}

/* The set */

static void
on_description(struct slice json, void *user)
{
    struct offer *o = user;
    struct json_fields_member digest = JSON_TEXT("digest", o->digest);

    buf_clear(&o->json);
    buf_add_slice(&o->json, json);
    json_fields_read(json, &digest, 1, NULL);
}

static void
on_offered(struct offered *offered, const struct problem *missed, void *user)
{
    struct offer *o = user;

    if (o->n_sets++ == 0 && !missed) {
        o->offered = *offered;
        *offered = (struct offered){.url = NULL};
    }
    if (o->n_sets == 1)
        return;
    problem(&o->why, STATUS_REFUSED, "%.800s has several sets: ask for one",
            o->url);
    o->is_over = true;
    discovery_free(o->discovery);
    o->discovery = NULL;
}

static void
on_offered_end(const struct problem *why, void *user)
{
    struct offer *o = user;

    o->discovery = NULL;
    o->why = *why;
    o->is_over = true;
}

/* The set's Change Lists */

static enum status
on_list(const struct document_entry *entry, const struct document_head *head,
        void *user)
{
    (void)entry;
    (void)user;
    return head->is_index ? STATUS_OK : STATUS_STOPPED;
}

static void
on_lists(const struct document_fetch_answer *answer, const struct problem *why,
         void *user)
{
    struct offer *o = user;

    o->page = NULL;
    o->is_over = true;
    if (why->rc) {
        if (why->rc != STATUS_REFUSED) /* a missing list is no failure */
            o->why = *why;
        return;
    }
    o->from = datetime_text_short(answer->head->from_us);
    o->offer.n_lists = answer->head->is_index ? answer->head->n_entries : 1;
}

enum status
offer_read(struct td_client *client, const char *set_url, td_offer_fn *on_offer,
           void *user)
{
    static const struct discovery_watch watch = {
        .on_item = on_item, .on_description = on_description};
    static const struct document_events events = {NULL, on_list};
    struct offer o = {.json.max = DOCUMENT_FETCH_TEXT_MAX};
    struct document_fetch_request request = {.url = NULL};
    char set[SET_URL_MAX + 1];
    enum status rc;

    arena_init(&o.arena, SIZE_MAX / 2);
    rc = set_url_read(client, set_url, set);
    o.url = rc ? set_url : set;
    if (rc == STATUS_INVALID && uri_is_web(set_url))
        rc = STATUS_OK; /* a Capability List */
    if (!rc)
        rc = client_add_source(client, set_url);
    if (rc)
        goto out;

    o.discovery = discovery_start(client, o.url, 0, &watch, on_offered,
                                  on_offered_end, &o);
    rc = o.discovery ? client_until(client, &o.is_over, &o.why)
                     : problem_memory(&client->problem);
    request.url = o.offered.change_list;
    if (!rc && request.url) {
        o.is_over = false;
        o.page = document_fetch_start(client, &request, &events, on_lists, &o);
        rc = o.page ? client_until(client, &o.is_over, &o.why)
                    : problem_memory(&client->problem);
    }
    if (!rc && (o.has_failed || o.json.failed))
        rc = problem_memory(&client->problem);
    if (rc)
        goto out;

    o.offer.set_url = o.url;
    o.offer.title = o.offered.title;
    o.offer.position = o.offered.position;
    o.offer.earliest = o.offered.earliest;
    o.offer.digest = o.digest[0] ? o.digest : NULL;
    o.offer.from = o.from.text[0] ? o.from.text : NULL;
    o.offer.items = o.items;
    o.offer.description = o.json.data;
    o.offer.description_size = o.json.size;
    on_offer(&o.offer, user);

out:
    discovery_free(o.discovery);
    document_fetch_free(o.page);
    offered_fini(&o.offered);
    arena_fini(&o.arena);
    buf_fini(&o.json);
    return rc;
}

enum td_status
td_describe(struct td_client *client, const char *set_url,
            td_offer_fn *on_offer, void *user)
{
    client_begin(client);
    return client_end(client, offer_read(client, set_url, on_offer, user));
}
