/*
 * handle_sets.c - PUT, PATCH, GET and DELETE a set, the report of its harvester
 * and its last hour; GET all sets.
 */

#include "broker/documents/documents.h"
#include "broker/documents/html.h"
#include "broker/http/answers.h"
#include "broker/http/deferral.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/push/transports.h"
#include "broker/sets/harvest.h"
#include "broker/sets/links.h"
#include "broker/sets/positions.h"
#include "broker/sets/rates.h"
#include "broker/sets/set_change.h"
#include "broker/sets/set_links.h"
#include "broker/sets/settings.h"
#include "broker/sets/source_description.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/json.h"

/* The largest description of a set: settings and a harvest full of escapes, and
 * the links of its bridges and hubs. */
#define DESCRIPTION_MAX (131072 + HARVEST_TEXT_MAX)

/* Two rows of 60 numbers, and the transports. */
#define RATE_TEXT_MAX 8192

/* Sets in one page of GET /sets: described without a disk, in a millisecond.
 * The last page that a request looks at may bring half as many more. */
#define PAGE_SETS 1000

/* Of descriptions, for programs. */
static const char *const set_type = "application/json";

/* Descriptions, which come from memory: making one reads and counts nothing. */

/* Adds the first members of every description of a set. */
static void
add_identity(struct buf *to, const struct set *set, const struct head *head,
             const struct settings *settings)
{
    BUF_ADD(to, "{\"name\":");
    json_text(to, slice_of(set->name));
    if (settings->title[0])
        json_text_member(to, "title", slice_of(settings->title));
    if (settings->description[0])
        json_text_member(to, "description", slice_of(settings->description));
    json_position_member(to, "position", head->epoch, head->last);
    json_datetime_member(to, "datetime", head->last_us);
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
    struct rate rate;
    bool has_any = false;

    registry_settings(set, &settings);
    add_identity(to, set, head, &settings);
    json_text_member(to, "href", slice_of(self.text));
    /* "rate" has the entries of the last 60 minutes, unless there were none. */
    if (has_rate)
        rates_read(set->registry->rates, set, &rate);
    for (unsigned i = 0; has_rate && i < RATE_MINUTES && !has_any; i++)
        has_any = rate.entries[i] > 0;
    if (has_any) {
        BUF_ADD(to, ",\"rate\":");
        rates_write_minutes(to, rate.entries);
    }
    add_harvest(to, set);
    BUF_ADD(to, "}");
}

static void
add_href(struct buf *to, const char *rel, struct slice href, const char *type)
{
    json_separate(to, ",");
    buf_add_format(to, "{\"rel\":\"%s\",\"href\":", rel);
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

/* Which documents are added: the Change List and its archive, or the others. */
struct documents {
    struct buf *to;
    bool has_changes;
};

static void
add_document(void *user, enum capability capability, struct link_text href)
{
    const struct documents *d = user;

    if (d->has_changes ==
        (capability == CAP_CHANGELIST || capability == CAP_CHANGELIST_ARCHIVE))
        add_href(d->to, capability_names[capability], link_slice(&href),
                 "application/xml");
}

/* Adds the documents by their capabilities, then the channels: clients follow
 * these links instead of building paths. Only links that work now. */
static void
add_links(struct buf *to, struct set *set, const struct head *head)
{
    struct link_text up = source_description_link(set);
    struct documents documents = {to, true};
    struct hubs hubs;
    struct mqtt_links mqtt;

    BUF_ADD(to, ",\"links\":[");
    add_link(to, set, "self", LINK_SET, "application/json");
    add_href(to, "up", link_slice(&up), "application/xml");
    add_link(to, set, "capabilitylist", LINK_CAPABILITYLIST, "application/xml");
    capabilitylist_each(set, head, add_document, &documents);
    documents.has_changes = false;
    capabilitylist_each(set, head, add_document, &documents);
    set_links_hubs(set, &hubs);
    for (size_t i = 0; i < hubs.n; i++)
        add_href(to, "hub", link_slice(&hubs.urls[i]), NULL);
    for (const struct channel_link *c = links_channels; c->rel; c++)
        add_link(to, set, c->rel, c->kind, c->type);
    set_links_mqtt(set, &mqtt);
    for (size_t i = 0; i < mqtt.n; i++) {
        const struct mqtt_link *link = &mqtt.links[i];

        add_href(to, MQTT_LINK_REL, (struct slice){link->text, link->size},
                 link->type);
    }
    BUF_ADD(to, "]");
}

/* Appends the object that describes a set, and a newline. */
static void
add_description(struct buf *to, struct set *set, const struct head *head)
{
    static const char *const modes[] = {
        [CONTENT_FETCH] = "fetch", [CONTENT_INLINE] = "inline"};
    const struct content_counts *counts = &set->content_counts;
    struct settings settings;
    struct id_sum sum;
    uint64_t last;

    registry_settings(set, &settings);
    settings.peers = registry_peers(set);
    add_identity(to, set, head, &settings);
    json_text_member(to, "epoch", slice_of(head->epoch));
    json_number_member(to, "last", head->last);
    json_text_member(to, "digest", slice_of(digest_text(&head->digest).text));
    json_datetime_member(to, "created", head->created_us);
    json_position_member(to, "earliest", head->epoch, head_earliest(head));
    if (head->former[0])
        json_position_member(to, "follows", head->former, head->began);
    if (registry_sum(set, &last, &sum)) {
        json_text_member(to, "sum", slice_of(id_sum_text(&sum).text));
        json_position_member(to, "sumPosition", head->epoch, last);
    }
    BUF_ADD(to, ",\"settings\":");
    settings_write(to, &settings, true);
    /* Figures of the kept content; `last` comes before the others. */
    last = atomic_load_explicit(&counts->last, memory_order_acquire);
    if (settings.content != CONTENT_NONE)
        buf_add_format(
            to,
            ",\"content\":{\"mode\":\"%s\",\"last\":%" PRIu64
            ",\"kept\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"missing\":%" PRIu64
            "}",
            modes[settings.content], last, load_relaxed(&counts->files),
            load_relaxed(&counts->bytes), load_relaxed(&counts->missing));
    peers_unref(settings.peers);
    add_harvest(to, set);
    buf_add_format(to,
                   ",\"lists\":{\"open\":%" PRIu64 ",\"entries\":%" PRIu64
                   ",\"bytes\":%" PRIu64 ",\"closed\":%" PRIu64
                   ",\"fileBytes\":%" PRIu64 "}",
                   head->list, head->last - head->list_after, head->list_bytes,
                   head->list - head->first_list, head->file_bytes);
    BUF_ADD(to, ",\"subscribers\":{");
    for (size_t i = 0; i < TRANSPORTS; i++) {
        json_separate(to, ",");
        buf_add_format(to, "\"%s\":%u", transport_rows[i].label,
                       load_relaxed(&set->subscribers[i]));
    }
    BUF_ADD(to, "}");
    add_links(to, set, head);
    BUF_ADD(to, "}\n");
}

/* Pages for people */

/* The longest page of a set: its description has some kilobytes. */
#define SET_PAGE_MAX ((size_t)2 * 1024 * 1024)

static const struct html_column columns[] = {{"Set"},
                                             {"Changes", "changes", true},
                                             {"Last change", "datetime"},
                                             {"Lists", "lists"},
                                             {NULL}};

/* Appends a row of the list. */
static void
add_row(struct buf *to, struct set *set, const struct head *head)
{
    struct link_text self = set_link(set, LINK_SET);
    struct link_text list = set_link(set, LINK_CHANGELIST);
    char time[DATETIME_SIZE];
    struct settings settings;

    registry_settings(set, &settings);
    BUF_ADD(to, "<tr>");
    html_cell(to, &columns[0]);
    html_link(to, SLICE("item"), link_slice(&self), slice_of(set->name));
    if (settings.title[0]) {
        BUF_ADD(to, "<small>");
        xml_escape(to, slice_of(settings.title));
        BUF_ADD(to, "</small>");
    }
    BUF_ADD(to, "</td>");
    html_cell(to, &columns[1]);
    buf_add_number(to, head->last);
    BUF_ADD(to, "</td>");
    html_cell(to, &columns[2]);
    if (head->last > 0) {
        datetime_write(time, head->last_us);
        html_value(to, (struct slice){time, sizeof(time)});
    }
    BUF_ADD(to, "</td>");
    html_cell(to, &columns[3]);
    html_link(to, SLICE(""), link_slice(&list), SLICE("changes"));
    if (set_offers(set, head, GENERATION_RESOURCELIST)) {
        list = set_link_kind(set, GENERATION_RESOURCELIST, LINK_CURRENT);
        html_link(to, SLICE(""), link_slice(&list), SLICE("resources"));
    }
    BUF_ADD(to, "</td></tr>\n");
}

/* Replaces the rows by a page with them. `next` is the URL of the next page, or
 * empty. */
static void
make_list_page(struct buf *rows, const struct request *rq, struct slice next)
{
    struct html_head head = {
        .title = "Sets",
        .depth = html_depth(rq->path),
        .other = SLICE("?raw"),
        .other_name = "As JSON",
    };
    struct buf page = {.max = rows->max}, escaped = {.max = HTML_TEXT_MAX};

    xml_escape(&escaped, next);
    head.next = buf_slice(&escaped);
    html_begin(&page, &head);
    if (rows->size) {
        html_table(&page, columns);
        buf_add_slice(&page, buf_slice(rows));
        BUF_ADD(&page, "</tbody></table>\n");
    } else {
        BUF_ADD(&page, "<p>None.</p>\n");
    }
    html_end(&page, &head);
    page.failed |= rows->failed;
    buf_fini(&escaped);
    buf_fini(rows);
    *rows = page;
}

/* One set */

/* PUT and PATCH: the settings are read after the last byte. DELETE has none. */
struct putting {
    struct deferral deferral;
    enum act_kind act;         /* ACT_SETTINGS, ACT_HARVEST, ACT_REMOVAL */
    enum set_change_mode mode; /* of ACT_SETTINGS */
    bool may_discard;
    uint64_t accepted; /* deletions, of POST to a harvest */
    struct set *set;   /* of ACT_REMOVAL, and of that */
    char name[SET_NAME_MAX + 1];
    struct set_change *change;
};

static void
free_change(struct deferral *d)
{
    set_change_free(list_entry(d, struct putting, deferral)->change);
}

static void
answer_set(struct request *rq, unsigned status, struct set *set,
           const struct head *head)
{
    struct link_text self = set_link(set, LINK_SET);
    enum method method = rq->method;
    bool is_get = method == METHOD_GET || method == METHOD_HEAD;
    int face = is_get ? answers_choose_face(rq, &set_type, 1) : 0;
    struct response r;
    struct buf text = {.max = DESCRIPTION_MAX};

    if (face == FACE_NONE)
        return;
    add_description(&text, set, head);
    if (text.failed) {
        request_refuse(rq, 503, NO_MEMORY);
        buf_fini(&text);
        return;
    }
    response_init(&r, status, set_type,
                  answers_cache_control(set_is_private(set)));
    if (status == 201)
        response_header(&r, "Location", "%s", self.text);
    if (is_get)
        response_header(&r, "Vary", REQUEST_PAGE_VARY);
    if (face == FACE_PAGE) {
        /* Makes a page of the JSON. If that fails, the JSON stays. */
        struct link_text list = set_link(set, LINK_CAPABILITYLIST);
        const struct html_head page_head = {
            .title = set->name,
            .set = set->name,
            .depth = html_depth(rq->path),
            .other = SLICE("?raw"),
            .other_name = "As JSON",
            .capability = link_slice(&list),
        };
        struct buf page = {.max = SET_PAGE_MAX};

        if (html_json(&page, &page_head, buf_slice(&text), false)) {
            buf_fini(&text);
            text = page;
            response_page(&r);
        } else {
            buf_fini(&page);
        }
    }
    response_text(&r, &text);
    request_answer(rq, &r);
    buf_fini(&text);
}

enum status
handle_set_get(const struct route_call *call)
{
    answer_set(call->rq, 200, call->set, &call->head);
    return STATUS_OK;
}

/* The log has answered: 204 to the report of a harvester, or a removal. */
static void
answer_change(struct deferral *d, struct request *rq)
{
    struct putting *p = list_entry(d, struct putting, deferral);
    const struct post *post = &p->change->post;
    struct response r;
    struct head head;

    if (post->status) {
        struct buf members = {.max = 4096};

        if (discards_any(&p->change->discards)) {
            BUF_ADD(&members, ",\"discards\":");
            discards_write(&members, &p->change->discards);
            BUF_ADD(&members, "\0");
        }
        response_init(&r, 409, NULL, NULL);
        response_answer_problem(rq, &r, &p->change->post.why, members.data);
        buf_fini(&members);
    } else if (p->act != ACT_SETTINGS) {
        response_init(&r, 204, NULL, NULL);
        request_answer(rq, &r);
    } else {
        log_head(p->change->set->log, &head);
        answer_set(rq, post->is_birth ? 201 : 200, p->change->set, &head);
    }
}

/* On the log thread. */
static void
on_changed(struct set_change *change, void *user)
{
    struct putting *p = user;
    const struct post *post = &change->post;
    bool is_conflict =
        post->status == STATUS_CONFLICT && p->act == ACT_SETTINGS;

    p->change = change;
    deferral_end(&p->deferral, is_conflict ? STATUS_OK : post->status,
                 &post->why);
}

/* Makes the report of a consent to deletions that are held back. */
static enum status
consent_to(struct harvest **harvest, const struct putting *p,
           struct problem *why)
{
    struct harvest *now = registry_harvest(p->set);
    enum status rc = STATUS_OK;

    if (!now)
        return problem(why, STATUS_NOT_FOUND,
                       "no harvester has reported on the set %s", p->set->name);
    if (now->held_back == 0)
        rc = problem(why, STATUS_CONFLICT, "no deletion is held back");
    else if (now->held_back > p->accepted)
        rc = problem(why, STATUS_CONFLICT,
                     "%" PRIu64 " deletions are held back, more than %" PRIu64,
                     now->held_back, p->accepted);
    else
        *harvest = harvest_with_consent(now, p->accepted);
    harvest_unref(now);
    return rc;
}

static enum status
begin_change(struct deferral *d, struct problem *why)
{
    struct putting *p = list_entry(d, struct putting, deferral);
    struct set_change_wish wish = {p->mode,
                                   p->may_discard,
                                   slice_of(p->name),
                                   buf_slice(&d->body),
                                   request_client(d->rq),
                                   d->authority};
    struct harvest *harvest = NULL;
    struct settings settings;
    bool names_peers;
    enum status rc = STATUS_OK;

    if (p->act == ACT_REMOVAL)
        return set_change_remove(p->set, d->authority, on_changed, p, why);
    if (p->act == ACT_HARVEST) {
        if (d->rq->method == METHOD_PUT)
            rc = harvest_read(&harvest, buf_slice(&d->body), why);
        else if (d->rq->method == METHOD_POST)
            rc = consent_to(&harvest, p, why);
        return rc ? rc
                  : set_change_harvest(d->http->registry, slice_of(p->name),
                                       request_client(d->rq), d->authority,
                                       harvest, on_changed, p, why);
    }
    /* Hubs receive notifications without having subscribed, so only clients
     * that may publish may name some. */
    names_peers =
        !settings_read(&settings, d->http->registry->config, wish.body,
                       wish.mode == SET_CHANGE_MERGE, NULL) &&
        settings.peers;
    peers_unref(settings.peers);
    if (names_peers && answers_may_publish(d->http, why))
        return STATUS_FORBIDDEN;
    return set_change_settings(d->http->registry, &wish, on_changed, p, why);
}

static const struct deferral_kind putting = {
    .begin = begin_change, .answer = answer_change, .fini = free_change};

/* PUT, PATCH or DELETE of the set, PUT or DELETE of the report of its
 * harvester, or POST of a consent to what it holds back. */
enum status
handle_set_change(const struct route_call *call)
{
    bool is_put = call->rq->method == METHOD_PUT;
    bool is_new = false, may_discard = false, is_there = true;
    uint64_t accepted = 0;
    struct putting *p;
    enum status rc = STATUS_OK;

    if (call->act == ACT_SETTINGS && is_put)
        rc = query_yes(call->rq, "new", &is_new, call->why);
    if (call->act == ACT_SETTINGS && !rc)
        rc = query_yes(call->rq, "discard", &may_discard, call->why);
    if (call->act == ACT_HARVEST && call->rq->method == METHOD_POST && !rc)
        rc = query_number(call->rq, "accept-deletions", 1, HARVEST_COUNT_MAX,
                          &accepted, &is_there, call->why);
    if (!rc && !is_there)
        rc = problem(call->why, STATUS_MALFORMED,
                     "the parameter accept-deletions is missing");
    if (rc)
        return rc;
    p = deferral_new(call, &putting, sizeof(*p));
    p->deferral.decides = true;
    p->act = (enum act_kind)call->act;
    p->mode = !is_put  ? SET_CHANGE_MERGE
              : is_new ? SET_CHANGE_CREATE
                       : SET_CHANGE_REPLACE;
    p->may_discard = may_discard;
    p->accepted = accepted;
    p->set = call->set;
    memcpy(p->name, call->name.data, call->name.size);
    return deferral_receive(&p->deferral, call, STATUS_OK);
}

enum status
handle_harvest_get(const struct route_call *call)
{
    struct harvest *harvest = registry_harvest(call->set);
    struct buf text = {.max = HARVEST_TEXT_MAX + 1};

    if (!harvest)
        return problem(call->why, STATUS_NOT_FOUND,
                       "no harvester has reported on the set %s",
                       call->set->name);
    buf_add_slice(&text, harvest->text);
    BUF_ADD(&text, "\n");
    harvest_unref(harvest);
    answers_buf(call->rq, 200, "application/json",
                answers_cache_control(set_is_private(call->set)), &text);
    return STATUS_OK;
}

/* {"set":"news","minutes":60,"entries":[0,...,17],"lags":[0,...,250],
 *  "readers":{"websocket-json":{"connected":2,"lag":250},...}} */
enum status
handle_set_rate_get(const struct route_call *call)
{
    struct rate rate;
    struct buf text = {.max = RATE_TEXT_MAX};

    rates_read(call->http->registry->rates, call->set, &rate);
    buf_add_format(&text, "{\"set\":\"%s\",", call->set->name);
    rates_write(&text, &rate);
    BUF_ADD(&text, ",\"readers\":{");
    for (size_t i = 0; i < TRANSPORTS; i++) {
        json_separate(&text, ",");
        buf_add_format(&text, "\"%s\":{\"connected\":%u,\"lag\":%u}",
                       transport_rows[i].label,
                       load_relaxed(&call->set->subscribers[i]),
                       rate.transport_lags[i]);
    }
    BUF_ADD(&text, "}}\n");
    answers_buf(call->rq, 200, "application/json", "no-store", &text);
    return STATUS_OK;
}

/* GET /sets: {"sets":[{"name":"demo",...}],"next":"http://...?after=demo"}
 *
 * ?since=DATETIME leaves out the sets whose last change is earlier, and
 * ?rate=yes adds the last hour of each. The next page keeps both. */

struct sets_wish {
    struct slice after;
    int64_t since_us; /* DATETIME_NONE: any */
    bool has_rate;
    bool is_page; /* for people */
};

struct page {
    struct set *sets[PAGE_SETS];
    struct head heads[PAGE_SETS];
    size_t n, n_written;
    bool is_more, has_private;
};

/* Looks at some thousand sets at most, so that a request for the few that
 * changed does not hold the thread. */
#define PAGES_LOOKED_AT 10

static void
add_sets(struct buf *to, struct http *http, struct page *page,
         const struct sets_wish *wish, const struct principal *principal)
{
    struct slice after = wish->after;

    for (unsigned n = 0; n < PAGES_LOOKED_AT; n++) {
        page->n = PAGE_SETS;
        page->is_more = registry_page(http->registry, after, principal,
                                      page->sets, page->heads, &page->n);
        for (size_t i = 0; i < page->n; i++) {
            if (page->heads[i].last_us < wish->since_us)
                continue;
            page->n_written++;
            if (!wish->is_page)
                json_separate(to, ",\n");
            page->has_private |= set_is_private(page->sets[i]);
            if (wish->is_page)
                add_row(to, page->sets[i], &page->heads[i]);
            else
                add_entry(to, page->sets[i], &page->heads[i], wish->has_rate);
        }
        if (!page->is_more || page->n == 0 || page->n_written >= PAGE_SETS / 2)
            break;
        after = slice_of(page->sets[page->n - 1]->name);
    }
}

static void
write_sets(struct buf *to, struct http *http, struct request *rq,
           struct page *page, const struct sets_wish *wish,
           const struct principal *principal)
{
    struct link_text stream = registry_link(http->registry, LINK_STREAMS);
    struct buf next = {.max = LINK_URL_MAX + 64};

    if (!wish->is_page)
        BUF_ADD(to, "{\"sets\":[");
    add_sets(to, http, page, wish, principal);
    if (page->is_more && page->n > 0) {
        struct link_text link =
            link_format("%s/sets?after=%s", http->registry->options.public_url,
                        page->sets[page->n - 1]->name);
        char since[DATETIME_SIZE];

        buf_add_slice(&next, link_slice(&link));
        if (wish->since_us != DATETIME_NONE) {
            datetime_write(since, wish->since_us);
            buf_add_format(&next, "&since=%.*s", DATETIME_SIZE, since);
        }
        if (wish->has_rate)
            BUF_ADD(&next, "&rate=yes");
    }
    if (wish->is_page) {
        make_list_page(to, rq, buf_slice(&next));
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

enum status
handle_sets_get(const struct route_call *call)
{
    struct request *rq = call->rq;
    int face = answers_choose_face(rq, &set_type, 1);
    struct sets_wish wish = {.after = {"", 0},
                             .since_us = DATETIME_NONE,
                             .is_page = face == FACE_PAGE};
    bool has_since;
    struct page *page;
    struct response r;
    struct buf text = {.max = (size_t)2 * PAGE_SETS * DESCRIPTION_MAX};
    enum status rc;

    if (face == FACE_NONE)
        return STATUS_OK;
    if (request_parameter(rq, "after", &wish.after) && wish.after.size > 0 &&
        !set_name_is_valid(wish.after))
        return problem(call->why, STATUS_MALFORMED,
                       "after: \"%s\" is not the name of a set",
                       problem_quote(wish.after).text);
    rc = query_time(rq, "since", &has_since, &wish.since_us, call->why);
    if (!rc)
        rc = query_yes(rq, "rate", &wish.has_rate, call->why);
    if (rc)
        return rc;
    page = memory_new(1, sizeof(*page)); /* not small */
    if (page)
        write_sets(&text, call->http, rq, page, &wish, call->principal);
    if (!page || text.failed) {
        rc = problem_memory(call->why);
    } else {
        response_init(&r, 200, set_type,
                      answers_cache_control(page->has_private));
        response_header(&r, "Vary", REQUEST_PAGE_VARY);
        if (wish.is_page)
            response_page(&r);
        r.body = body_of_buf(&text);
        request_answer(rq, &r);
    }
    free(page);
    buf_fini(&text);
    return rc;
}
