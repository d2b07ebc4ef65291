/*
 * handle_sets.c - PUT, PATCH, GET and DELETE a set, and the report of its
 * harvester; GET all sets.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "broker/base/authority.h"
#include "broker/http/answers.h"
#include "broker/http/routes.h"
#include "broker/http/set_pages.h"
#include "broker/net/response.h"
#include "broker/push/transports.h"
#include "broker/sets/alteration.h"
#include "broker/sets/harvest.h"
#include "broker/sets/links.h"
#include "broker/sets/positions.h"
#include "broker/sets/rates.h"
#include "broker/sets/set_links.h"
#include "broker/sets/settings.h"
#include "broker/sets/source_description.h"
#include "proto/datetime.h"
#include "proto/memory.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/json.h"

/* The largest description of a set: settings and a harvest full of escapes, and
 * the links of its bridges and hubs. */
#define DESCRIPTION_MAX (131072 + HARVEST_TEXT_MAX)

/* Sets in one page of GET /sets: described without a disk, in a millisecond.
 * The last page that a request looks at may bring half as many more. */
#define PAGE_SETS 1000

/* Descriptions, which come from memory: making one reads and counts nothing. */

static void
add_time(struct buf *to, const char *name, int64_t us)
{
    char text[DATETIME_SIZE];

    datetime_write(text, us);
    buf_add_format(to, ",\"%s\":\"%.*s\"", name, DATETIME_SIZE, text);
}

/* Adds the first members of every description of a set. */
static void
add_identity(struct buf *to, const struct set *set, const struct head *head,
             const struct settings *settings)
{
    char position[POSITION_MAX];

    position_write(position, head->epoch, head->last);
    BUF_ADD(to, "{\"name\":");
    json_text(to, slice_of(set->name));
    if (settings->title[0])
        json_text_member(to, "title", slice_of(settings->title));
    if (settings->description[0])
        json_text_member(to, "description", slice_of(settings->description));
    json_text_member(to, "position", slice_of(position));
    add_time(to, "datetime", head->last_us);
}

/* Appends "rate", the entries of the last 60 minutes, unless there were none.
 */
static void
add_rate(struct buf *to, const struct set *set)
{
    struct rate rate;
    bool has_any = false;

    rates_read(registry_rates(set->registry), set, &rate);
    for (unsigned i = 0; i < RATE_MINUTES && !has_any; i++)
        has_any = rate.entries[i] > 0;
    if (!has_any)
        return;
    BUF_ADD(to, ",\"rate\":");
    rates_write_minutes(to, rate.entries);
}

/* Appends "harvest", the report of the set's harvester, if it has one. */
static void
add_harvest(struct buf *to, const struct set *set)
{
    struct harvest *harvest = registry_harvest(set);

    if (!harvest)
        return;
    BUF_ADD(to, ",\"harvest\":");
    buf_add_slice(to, harvest->text);
    harvest_unref(harvest);
}

/* Appends the short object that stands for a set among others. */
static void
add_entry(struct buf *to, const struct set *set, const struct head *head,
          bool has_rate)
{
    struct link_text self = set_link(set, LINK_SET);
    struct settings settings;

    registry_settings(set, &settings);
    add_identity(to, set, head, &settings);
    json_text_member(to, "href", slice_of(self.text));
    if (has_rate)
        add_rate(to, set);
    add_harvest(to, set);
    BUF_ADD(to, "}");
}

static void
add_href(struct buf *to, const char *rel, struct slice href, const char *type)
{
    buf_add_format(to, "%s{\"rel\":\"%s\",\"href\":",
                   to->size > 0 && to->data[to->size - 1] != '[' ? "," : "",
                   rel);
    json_text(to, href);
    if (type)
        json_text_member(to, "type", slice_of(type));
    BUF_ADD(to, "}");
}

static void
add_link(struct buf *to, const struct set *set, const char *rel,
         enum link_kind kind, const char *type)
{
    struct link_text link = set_link(set, kind);

    add_href(to, rel, link_slice(&link), type);
}

/* Adds the topics of the channels, and their hubs. */
static void
add_topics(struct buf *to, const struct set *set)
{
    struct hubs hubs;

    set_links_hubs(set, &hubs);
    add_link(to, set, "change-notification", LINK_NOTIFICATIONS,
             "application/xml");
    add_link(to, set, "framework-notification", LINK_FRAMEWORK_NOTIFICATIONS,
             "application/xml");
    for (size_t i = 0; i < hubs.n; i++)
        add_href(to, "hub", link_slice(&hubs.urls[i]), NULL);
}

/* Adds the same channels at MQTT brokers. */
static void
add_mqtt_links(struct buf *to, const struct set *set)
{
    struct mqtt_links mqtt;

    set_links_mqtt(set, &mqtt);
    for (size_t i = 0; i < mqtt.n; i++) {
        const struct mqtt_link *link = &mqtt.links[i];

        add_href(to, MQTT_LINK_REL, (struct slice){link->text, link->size},
                 link->type);
    }
}

/* Adds the current generation of a kind, and its archive. */
static void
add_generations(struct buf *to, struct set *set, const struct head *head,
                enum generation_kind kind)
{
    const struct kind_names *names = &links_kinds[kind];
    const char *url = registry_public_url(set->registry);
    struct link_text current = link_to_current(url, set->name, kind);
    struct link_text archive = link_to_generations(url, set->name, kind);

    if (set_offers(set, head, kind))
        add_href(to, capability_name(names->capability), link_slice(&current),
                 "application/xml");
    if (head->generations[kind].n_archived > 0)
        add_href(to, capability_name(names->archive), link_slice(&archive),
                 "application/xml");
}

/* Adds the documents by their capabilities, then the channels: clients follow
 * these links instead of building paths. Only links that work now. */
static void
add_links(struct buf *to, struct set *set, const struct head *head)
{
    const char *xml = "application/xml";
    struct link_text up = source_description_link(set);

    BUF_ADD(to, ",\"links\":[");
    add_link(to, set, "self", LINK_SET, "application/json");
    add_href(to, "up", link_slice(&up), xml);
    add_link(to, set, "capabilitylist", LINK_CAPABILITYLIST, xml);
    add_link(to, set, "changelist", LINK_CHANGELIST, xml);
    if (head->list > head->first_list)
        add_link(to, set, "changelist-archive", LINK_CHANGELIST_ARCHIVE, xml);
    for (int kind = 0; kind < GENERATION_KINDS; kind++)
        add_generations(to, set, head, (enum generation_kind)kind);
    add_topics(to, set);
    for (const struct channel_link *c = links_channels; c->rel; c++)
        add_link(to, set, c->rel, c->kind, c->type);
    add_mqtt_links(to, set);
    BUF_ADD(to, "]");
}

/* Adds figures of the kept content; nothing for a set that keeps none. */
static void
add_content(struct buf *to, const struct set *set,
            const struct settings *settings)
{
    static const char *const modes[] = {
        [CONTENT_FETCH] = "fetch", [CONTENT_INLINE] = "inline"};
    uint64_t last =
        atomic_load_explicit(&set->content_counts.last, memory_order_acquire);

    if (settings->content == CONTENT_NONE)
        return;
    buf_add_format(
        to,
        ",\"content\":{\"mode\":\"%s\",\"last\":%" PRIu64 ",\"kept\":%" PRIu64
        ",\"bytes\":%" PRIu64 ",\"missing\":%" PRIu64 "}",
        modes[settings->content], last,
        atomic_load_explicit(&set->content_counts.files, memory_order_relaxed),
        atomic_load_explicit(&set->content_counts.bytes, memory_order_relaxed),
        atomic_load_explicit(&set->content_counts.missing,
                             memory_order_relaxed));
}

/* {"websocket-json":2,"websocket-xml":0,...} */
static void
add_subscribers(struct buf *to, const struct set *set)
{
    const char *before = ",\"subscribers\":{";

    for (size_t i = 0; i < transports_count(); i++) {
        unsigned n =
            atomic_load_explicit(&set->subscribers[i], memory_order_relaxed);

        buf_add_format(to, "%s\"%s\":%u", before,
                       transports_of_number(i)->label, n);
        before = ",";
    }
    BUF_ADD(to, "}");
}

/* Appends the object that describes a set, and a newline. */
static void
add_description(struct buf *to, struct set *set, const struct head *head)
{
    struct settings settings;
    char earliest[POSITION_MAX];

    registry_settings(set, &settings);
    settings.peers = registry_peers(set);
    positions_earliest(head, earliest);
    add_identity(to, set, head, &settings);
    json_text_member(to, "epoch", slice_of(head->epoch));
    buf_add_format(to,
                   ",\"last\":%" PRIu64 ",\"digest\":\"sha-256:", head->last);
    buf_add_hex(to, head->digest.bytes, DIGEST_SIZE);
    BUF_ADD(to, "\"");
    add_time(to, "created", head->created_us);
    json_text_member(to, "earliest", slice_of(earliest));
    BUF_ADD(to, ",\"settings\":");
    settings_write(to, &settings, true);
    add_content(to, set, &settings);
    settings_fini(&settings);
    add_harvest(to, set);
    buf_add_format(to,
                   ",\"lists\":{\"open\":%" PRIu64 ",\"entries\":%" PRIu64
                   ",\"bytes\":%" PRIu64 ",\"closed\":%" PRIu64
                   ",\"fileBytes\":%" PRIu64 "}",
                   head->list, head->last - head->list_after, head->list_bytes,
                   head->list - head->first_list, head->file_bytes);
    add_subscribers(to, set);
    add_links(to, set, head);
    BUF_ADD(to, "}\n");
}

/* One set */

/* PUT and PATCH: the settings are read after the last byte. DELETE has none. */
struct putting {
    struct task task; /* from the log thread to the connection's */
    struct ticket ticket;
    struct http *http;
    enum alter_mode mode;
    bool may_discard;
    bool is_quiet; /* a report of a harvester, or a DELETE: answers 204 */
    char name[SET_NAME_MAX + 1];
    struct buf body;
    struct alteration *alteration;
};

static void
putting_free(struct putting *p)
{
    if (!p)
        return;
    buf_fini(&p->body);
    alter_free(p->alteration);
    free(p);
}

static void
answer_set(struct request *rq, unsigned status, struct set *set,
           const struct head *head)
{
    struct link_text self = set_link(set, LINK_SET);
    enum method method = request_method(rq);
    bool is_get = method == METHOD_GET || method == METHOD_HEAD;
    struct problem why = {""};
    struct response r;
    struct buf text;

    buf_init(&text, DESCRIPTION_MAX);
    add_description(&text, set, head);
    if (text.failed) {
        answers_failure(rq, problem_memory(&why), &why);
        buf_fini(&text);
        return;
    }
    response_init(&r, status, "application/json");
    response_header(&r, "Cache-Control", "%s",
                    answers_cache_control(set_is_private(set)));
    if (status == 201)
        response_header(&r, "Location", "%s", self.text);
    if (is_get)
        response_header(&r, "Vary", "Accept");
    if (is_get && answers_prefer_page(rq))
        set_pages_one(rq, &r, set, &text);
    response_text(&r, &text);
    request_answer(rq, &r);
    buf_fini(&text);
}

void
handle_set_get(struct http *http, struct request *rq,
               const struct route_target *target)
{
    (void)http;
    answer_set(rq, 200, target->set, &target->head);
}

/* Waiting does not help, so there is no Retry-After. */
static void
answer_conflict(struct request *rq, const struct alteration *a)
{
    struct response r;
    struct buf members;

    buf_init(&members, 4096);
    if (discards_any(&a->discards)) {
        BUF_ADD(&members, ",\"discards\":");
        discards_write(&members, &a->discards);
        BUF_ADD(&members, "\0");
    }
    response_init(&r, 409, NULL);
    response_answer_problem(rq, &r, &a->post.why, members.data);
    buf_fini(&members);
}

/* On the service thread: the log has answered. */
static void
on_answered(struct task *task)
{
    struct putting *p = list_entry(task, struct putting, task);
    const struct post *post = &p->alteration->post;
    struct request *rq = ticket_request(p->ticket);
    struct response r;
    struct head head;

    if (rq) {
        request_set_user(rq, NULL);
        if (post->status == STATUS_CONFLICT && !p->is_quiet) {
            answer_conflict(rq, p->alteration);
        } else if (post->status) {
            answers_failure(rq, post->status, &post->why);
        } else if (p->is_quiet) {
            response_init(&r, 204, NULL);
            request_answer(rq, &r);
        } else {
            log_head(p->alteration->set->log, &head);
            answer_set(rq, post->is_birth ? 201 : 200, p->alteration->set,
                       &head);
        }
    }
    putting_free(p);
}

/* On the log thread. */
static void
on_altered(struct alteration *alteration, void *user)
{
    struct putting *p = user;

    p->alteration = alteration;
    service_post(p->ticket.service, &p->task);
}

static void
refuse_change(struct request *rq, struct putting *p, enum status rc,
              const struct problem *why)
{
    request_set_user(rq, NULL);
    putting_free(p);
    answers_failure(rq, rc, why);
}

static void
on_data(struct request *rq, struct slice bytes)
{
    struct putting *p = request_user(rq);

    buf_add_slice(&p->body, bytes);
}

/* True if the client may name hubs. They receive notifications without having
 * subscribed, so only clients that may publish may name some. */
static bool
may_put(struct putting *p, const struct alter_wish *wish, struct problem *why)
{
    struct settings settings;
    bool names_peers =
        !alter_read(p->http->registry, wish, &settings, NULL) && settings.peers;

    settings_fini(&settings);
    return !names_peers || !answers_may_publish(p->http, why);
}

static void
on_end(struct request *rq)
{
    struct putting *p = request_user(rq);
    struct alter_wish wish = {p->mode, p->may_discard, slice_of(p->name),
                              buf_slice(&p->body), request_client(rq)};
    struct registry *registry = p->http->registry;
    struct harvest *harvest = NULL;
    struct problem why = {""};
    enum status rc = STATUS_OK;

    if (p->is_quiet)
        rc = harvest_read(&harvest, wish.body, &why);
    else if (!may_put(p, &wish, &why))
        rc = STATUS_FORBIDDEN;
    if (!rc) {
        p->ticket = request_ticket(rq);
        request_set_user(rq, NULL); /* the log owns it now, and asks at the
                                       commit */
        wish.authority = request_take_authority(rq);
        rc = p->is_quiet
                 ? alter_harvest(registry, wish.name, wish.client,
                                 wish.authority, harvest, on_altered, p, &why)
                 : alter_settings(registry, &wish, on_altered, p, &why);
        authority_unref(wish.authority);
    }
    if (rc)
        refuse_change(rq, p, rc, &why);
}

static void
on_gone(struct request *rq)
{
    putting_free(request_user(rq));
}

static const struct request_handlers handlers = {
    .on_data = on_data,
    .on_end = on_end,
    .on_gone = on_gone,
};

/* Reads ?NAME=yes; "no" is the default. */
static enum status
read_yes(struct request *rq, const char *name, bool *is_yes,
         struct problem *why)
{
    struct slice value;

    *is_yes = false;
    if (!request_parameter(rq, name, &value))
        return STATUS_OK;
    *is_yes = slice_is(value, "yes");
    if (!*is_yes && !slice_is(value, "no"))
        return problem(why, STATUS_MALFORMED, "%s: \"%s\" is not yes or no",
                       name, problem_quote(value).text);
    return STATUS_OK;
}

static void
receive_body(struct http *http, struct request *rq,
             const struct route_target *target, enum alter_mode mode)
{
    struct problem why = {""};
    struct putting *p;
    bool may_discard = false;
    enum status rc = read_yes(rq, "discard", &may_discard, &why);

    if (rc) {
        answers_failure(rq, rc, &why);
        return;
    }
    p = memory_new(1, sizeof(*p));
    p->task.run = on_answered;
    p->http = http;
    p->mode = mode;
    p->is_quiet = target->act == ACT_HARVEST;
    p->may_discard = may_discard;
    memcpy(p->name, target->name.data, target->name.size);
    buf_init(&p->body, (size_t)target->body_max);
    request_set_user(rq, p);
    request_receive(rq, &handlers, target->body_max);
}

void
handle_set_put(struct http *http, struct request *rq,
               const struct route_target *target)
{
    struct problem why = {""};
    bool is_new;
    enum status rc = read_yes(rq, "new", &is_new, &why);

    if (rc)
        answers_failure(rq, rc, &why);
    else
        receive_body(http, rq, target, is_new ? ALTER_CREATE : ALTER_REPLACE);
}

/* PATCH of the set, or PUT of the report of its harvester. */
void
handle_set_change(struct http *http, struct request *rq,
                  const struct route_target *target)
{
    receive_body(http, rq, target, ALTER_CHANGE);
}

/* DELETE of the set, or of the report of its harvester. */
void
handle_set_end(struct http *http, struct request *rq,
               const struct route_target *target)
{
    struct putting *p = memory_new(1, sizeof(*p));
    struct authority *authority = request_take_authority(rq);
    struct problem why = {""};
    enum status rc;

    p->task.run = on_answered;
    p->is_quiet = true;
    p->ticket = request_ticket(rq);
    rc = target->act == ACT_HARVEST
             ? alter_harvest(http->registry, target->name, request_client(rq),
                             authority, NULL, on_altered, p, &why)
             : alter_remove(target->set, authority, on_altered, p, &why);
    authority_unref(authority);
    if (rc) {
        putting_free(p);
        answers_failure(rq, rc, &why);
    }
}

void
handle_harvest_get(struct http *http, struct request *rq,
                   const struct route_target *target)
{
    struct harvest *harvest = registry_harvest(target->set);
    struct buf text;

    (void)http;
    if (!harvest) {
        request_refuse(rq, 404, "no harvester has reported on the set %s",
                       target->set->name);
        return;
    }
    buf_init(&text, HARVEST_TEXT_MAX + 1);
    buf_add_slice(&text, harvest->text);
    BUF_ADD(&text, "\n");
    harvest_unref(harvest);
    answers_buf(rq, 200, "application/json",
                answers_cache_control(set_is_private(target->set)), &text);
}

/* GET /sets: {"sets":[{"name":"demo",...}],"next":"http://...?after=demo"}
 *
 * ?since=DATETIME leaves out the sets whose last change is earlier, and
 * ?rate=yes adds the last hour of each. The next page keeps both. */

struct sets_wish {
    struct slice after;
    int64_t since_us; /* DATETIME_NONE: any */
    bool has_rate;
    bool is_page; /* for people (set_pages.h) */
};

struct page {
    struct set *sets[PAGE_SETS];
    struct head heads[PAGE_SETS];
    size_t n, n_written;
    bool is_more, has_private;
};

/* Appends the URL of the next page. */
static void
add_next(struct buf *url, struct http *http, const char *last,
         const struct sets_wish *wish)
{
    struct link_text link =
        link_to_sets(registry_public_url(http->registry), last);
    char since[DATETIME_SIZE];

    buf_add_slice(url, link_slice(&link));
    if (wish->since_us != DATETIME_NONE) {
        datetime_write(since, wish->since_us);
        buf_add_format(url, "&since=%.*s", DATETIME_SIZE, since);
    }
    if (wish->has_rate)
        BUF_ADD(url, "&rate=yes");
}

static void
write_page(struct buf *to, struct page *page, const struct sets_wish *wish)
{
    for (size_t i = 0; i < page->n; i++) {
        if (page->heads[i].last_us < wish->since_us)
            continue;
        if (page->n_written++ > 0 && !wish->is_page)
            BUF_ADD(to, ",\n");
        page->has_private |= set_is_private(page->sets[i]);
        if (wish->is_page)
            set_pages_add_row(to, page->sets[i], &page->heads[i]);
        else
            add_entry(to, page->sets[i], &page->heads[i], wish->has_rate);
    }
}

/* Looks at some thousand sets at most, so that a request for the few that
 * changed does not hold the thread. */
#define PAGES_LOOKED_AT 10

static void
add_sets(struct buf *to, struct http *http, struct page *page,
         const struct sets_wish *wish, const struct principal *principal)
{
    struct slice after = wish->after;

    for (unsigned i = 0; i < PAGES_LOOKED_AT; i++) {
        page->n = PAGE_SETS;
        page->is_more = registry_page(http->registry, after, principal,
                                      page->sets, page->heads, &page->n);
        write_page(to, page, wish);
        if (!page->is_more || page->n == 0 || page->n_written >= PAGE_SETS / 2)
            break;
        after = slice_of(page->sets[page->n - 1]->name);
    }
}

/* Replaces the rows by a page for people. */
static void
make_page(struct buf *rows, const struct request *rq, struct slice next)
{
    struct buf page;

    buf_init(&page, rows->max);
    set_pages_list(&page, rq, buf_slice(rows), next);
    page.failed |= rows->failed;
    buf_fini(rows);
    *rows = page;
}

static void
write_sets(struct buf *to, struct http *http, struct request *rq,
           struct page *page, const struct sets_wish *wish,
           const struct principal *principal)
{
    struct link_text stream = registry_link(http->registry, LINK_STREAMS);
    struct buf next;

    if (!wish->is_page)
        BUF_ADD(to, "{\"sets\":[");
    add_sets(to, http, page, wish, principal);
    buf_init(&next, LINK_URL_MAX + 64);
    if (page->is_more && page->n > 0)
        add_next(&next, http, page->sets[page->n - 1]->name, wish);
    if (wish->is_page) {
        make_page(to, rq, buf_slice(&next));
    } else {
        BUF_ADD(to, "]");
        json_text_member(to, "stream", link_slice(&stream));
        if (next.size)
            json_text_member(to, "next", buf_slice(&next));
        BUF_ADD(to, "}\n");
    }
    to->failed |= next.failed;
    buf_fini(&next);
}

static enum status
read_sets_wish(struct request *rq, struct sets_wish *wish, struct problem *why)
{
    struct slice since;

    if (request_parameter(rq, "after", &wish->after) && wish->after.size > 0 &&
        !set_name_is_valid(wish->after))
        return problem(why, STATUS_MALFORMED,
                       "after: \"%s\" is not the name of a set",
                       problem_quote(wish->after).text);
    if (request_parameter(rq, "since", &since) &&
        datetime_read_any(since, &wish->since_us))
        return problem(why, STATUS_MALFORMED,
                       "since: not a W3C Datetime: \"%s\"",
                       problem_quote(since).text);
    return read_yes(rq, "rate", &wish->has_rate, why);
}

void
handle_sets_get(struct http *http, struct request *rq,
                const struct route_target *target)
{
    struct sets_wish wish = {.after = {"", 0},
                             .since_us = DATETIME_NONE,
                             .is_page = answers_prefer_page(rq)};
    struct problem why = {""};
    struct page *page;
    struct response r;
    struct buf text;

    if (read_sets_wish(rq, &wish, &why)) {
        answers_failure(rq, STATUS_MALFORMED, &why);
        return;
    }
    page = memory_new(1, sizeof(*page)); /* not small */
    buf_init(&text, (size_t)2 * PAGE_SETS * DESCRIPTION_MAX);
    if (page)
        write_sets(&text, http, rq, page, &wish, target->principal);
    if (!page || text.failed) {
        answers_failure(rq, problem_memory(&why), &why);
    } else {
        response_init(&r, 200, "application/json");
        response_header(&r, "Cache-Control", "%s",
                        answers_cache_control(page->has_private));
        response_header(&r, "Vary", "Accept");
        if (wish.is_page)
            response_page(&r);
        r.body = body_of_buf(&text);
        request_answer(rq, &r);
    }
    free(page);
    buf_fini(&text);
}
