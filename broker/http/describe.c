#include "broker/http/describe.h"

#include <inttypes.h>

#include "broker/push/transports.h"
#include "broker/sets/links.h"
#include "broker/sets/positions.h"
#include "broker/sets/settings.h"
#include "proto/datetime.h"
#include "proto/hash.h"
#include "proto/json.h"

static void
add_text(struct buf *to, const char *name, const char *text)
{
    buf_add_format(to, ",\"%s\":", name);
    json_string(to, slice_of(text));
}

static void
add_time(struct buf *to, const char *name, int64_t us)
{
    char text[DATETIME_SIZE];

    datetime_write(text, us);
    buf_add_format(to, ",\"%s\":\"%.*s\"", name, DATETIME_SIZE, text);
}

/* What every description of a set begins with. */
static void
add_identity(struct buf *to, const struct set *set, const struct head *head,
             const struct settings *settings)
{
    char position[POSITION_MAX];

    position_write(position, head->epoch, head->last);
    BUF_ADD(to, "{\"name\":");
    json_string(to, slice_of(set->name));
    if (settings->title[0])
        add_text(to, "title", settings->title);
    if (settings->description[0])
        add_text(to, "description", settings->description);
    add_text(to, "position", position);
    add_time(to, "datetime", head->last_us);
}

void
describe_entry(struct buf *to, const struct set *set, const struct head *head)
{
    struct link_text self = link_to(registry_public_url(set->registry),
                                    LINK_SET, set->name, NULL, 0);
    struct settings settings;

    registry_settings(set, &settings);
    add_identity(to, set, head, &settings);
    add_text(to, "href", self.text);
    BUF_ADD(to, "}");
}

/* The channels, each with its relation: what a client follows instead of
 * building paths. Only what works now. */
static void
add_links(struct buf *to, const struct set *set, const struct head *head)
{
    const struct channel {
        const char *rel;
        enum link_kind kind;
        const char *type;
        bool is_there;
    } channels[] = {
        {"self", LINK_SET, "application/json", true},
        {"up", LINK_DESCRIPTION, "application/xml", true},
        {"capabilitylist", LINK_CAPABILITYLIST, "application/xml", true},
        {"changelist", LINK_CHANGELIST, "application/xml", true},
        {"changelist-archive", LINK_CHANGELIST_ARCHIVE, "application/xml",
         head->list > head->first_list},
        {"changes", LINK_POST, "application/json", true},
        {"stream", LINK_STREAM, NULL, true},
    };

    const char *url = registry_public_url(set->registry);
    const char *before = ",\"links\":[";

    for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]); i++) {
        const struct channel *c = &channels[i];
        struct link_text link =
            link_to(url, c->kind,
                    c->kind == LINK_DESCRIPTION ? NULL : set->name, NULL, 0);

        if (!c->is_there)
            continue;
        buf_add_format(to, "%s{\"rel\":\"%s\",\"href\":", before, c->rel);
        json_string(to, link_slice(&link));
        if (c->type)
            add_text(to, "type", c->type);
        BUF_ADD(to, "}");
        before = ",";
    }
    BUF_ADD(to, "]");
}

/* {"resourcesync.json":2,"resourcesync.xml":0} */
static void
add_subscribers(struct buf *to, const struct set *set)
{
    const char *name, *before = ",\"subscribers\":{";

    for (unsigned i = 0; (name = transports_name(i)); i++) {
        unsigned n =
            atomic_load_explicit(&set->subscribers[i], memory_order_relaxed);

        buf_add_format(to, "%s\"%s\":%u", before, name, n);
        before = ",";
    }
    BUF_ADD(to, "}");
}

void
describe_set(struct buf *to, const struct set *set, const struct head *head)
{
    struct settings settings;
    char earliest[POSITION_MAX];

    registry_settings(set, &settings);
    positions_earliest(head, earliest);
    add_identity(to, set, head, &settings);
    add_text(to, "epoch", head->epoch);
    buf_add_format(to,
                   ",\"last\":%" PRIu64 ",\"digest\":\"sha-256:", head->last);
    buf_add_hex(to, head->digest.bytes, DIGEST_SIZE);
    BUF_ADD(to, "\"");
    add_time(to, "created", head->created_us);
    add_text(to, "earliest", earliest);
    BUF_ADD(to, ",\"settings\":");
    settings_write(to, &settings, true);
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
