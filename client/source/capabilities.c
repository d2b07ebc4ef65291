#include "client/lib/json_fields.h"
#include "client/lib/json_slices.h"
#include "client/source/discovery.h"
#include "proto/resourcesync/position.h"

#define AT(member) offsetof(struct offered, member)

/* Most bytes of the Resource Lists beside the first one, about. */
#define MORE_MAX 65536

/* All texts, with the relations of the links that they come from. */
static const struct {
    const char *rel; /* "": no link */
    size_t at;
} texts[] = {
    {"", AT(url)},
    {"", AT(name)},
    {"", AT(title)},
    {"capabilitylist", AT(capability_list)},
    {"resourcelist", AT(resource_list)},
    {"", AT(more_lists)},
    {"", AT(unread)},
    {"resourcedump", AT(resource_dump)},
    {"changelist", AT(change_list)},
    {"changedump", AT(change_dump)},
    {"resourcelist-archive", AT(resource_list_archive)},
    {"resourcedump-archive", AT(resource_dump_archive)},
    {"changelist-archive", AT(change_list_archive)},
    {"changedump-archive", AT(change_dump_archive)},
    {"change-notification", AT(topic)},
    {"changelist-notification", AT(topic)}, /* I-06 */
    {"urn:tidings:1:memory", AT(memory)},
    {"urn:tidings:1:stream", AT(stream)},
    {"urn:tidings:1:events", AT(events)},
    {"urn:tidings:1:streams", AT(streams)},
    {"urn:tidings:1:checkpoint", AT(checkpoint)},
    {"", AT(position)},
    {"", AT(earliest)},
    {"", AT(date)},
};

static char **
member_at(struct offered *o, size_t i)
{
    return (char **)(void *)((char *)o + texts[i].at);
}

void
offered_fini(struct offered *o)
{
    for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
        free(*member_at(o, i));
        *member_at(o, i) = NULL; /* two rows have the topic */
    }
    o->kind = NULL;
}

void
offered_merge(struct offered *o, struct offered *other)
{
    for (size_t i = 0; i < N_ELEMENTS(texts); i++)
        if (!*member_at(o, i)) {
            *member_at(o, i) = *member_at(other, i);
            *member_at(other, i) = NULL;
        }
    if (!o->kind)
        o->kind = other->kind;
    offered_fini(other);
}

bool
offered_is_something(const struct offered *o)
{
    return o->resource_list || o->resource_dump || o->change_list ||
           o->change_dump || o->resource_list_archive ||
           o->resource_dump_archive || o->change_list_archive ||
           o->change_dump_archive || o->topic || o->memory || o->stream ||
           o->events;
}

/* NULL: it is none of ours. */
static char **
member_of(struct offered *o, struct slice rel)
{
    for (size_t i = 0; i < N_ELEMENTS(texts); i++)
        if (rel.size > 0 && slice_is(rel, texts[i].rel))
            return member_at(o, i);
    return NULL;
}

bool
offered_take_row(struct offered *o, struct slice rel, struct slice href)
{
    char **member = member_of(o, rel), *more;
    const char *had = o->more_lists ? o->more_lists : "";

    href = slice_take(&href, '#');
    if (!member || !*member || member == &o->topic || slice_is(href, *member) ||
        uri_check(href, "href", NULL))
        return offered_take(o, rel, href);
    if (member != &o->resource_list || strlen(had) > MORE_MAX)
        return o->unread ||
               asprintf(&o->unread,
                        "the Capability List names another %.*s, %.*s, which "
                        "is not read",
                        SLICE_ARG(rel), SLICE_ARG(slice_cut(href, 300))) >= 0;
    if (asprintf(&more, "%s %.*s", had, SLICE_ARG(href)) < 0)
        return false;
    free(o->more_lists);
    o->more_lists = more;
    return true;
}

bool
offered_take(struct offered *o, struct slice rel, struct slice href)
{
    char **member = member_of(o, rel);

    href = slice_take(&href, '#'); /* never sent, and would swallow a query */
    if (!member || *member ||
        (!slice_starts(href, "http://") && !slice_starts(href, "https://")) ||
        uri_check(href, "href", NULL))
        return true;
    *member = slice_dup(href);
    return *member != NULL;
}

/* JSON */

#define TEXT_MAX 1024

/* Reads {"rel":"stream","href":"...","type":"..."}; `rel`: replaces its rel if
 * set. */
static bool
read_link(struct slice link, const char *rel, offered_link_fn *on_link,
          void *user)
{
    char own_rel[TEXT_MAX] = "";
    char href[4 * URI_CHARACTERS_MAX + 1] = "";
    char type[TEXT_MAX] = "";
    struct json_fields_member members[] = {
        JSON_TEXT("rel", own_rel),
        JSON_TEXT("href", href),
        JSON_TEXT("type", type),
    };
    enum status rc = json_fields_read(link, members, N_ELEMENTS(members), NULL);

    if (rc == STATUS_MEMORY)
        return false;
    if (rc || (!own_rel[0] && !rel) || !href[0] ||
        uri_check(slice_of(href), "href", NULL))
        return true;
    return on_link(slice_of(rel ? rel : own_rel), slice_of(href),
                   slice_of(type), user);
}

static bool
keep_text(char **member, const char *text)
{
    if (!*member && text[0])
        *member = slice_dup(slice_of(text));
    return *member || !text[0];
}

enum status
offered_describe(struct offered *o, struct slice json, offered_link_fn *on_link,
                 void *user)
{
    char name[SET_NAME_MAX + 1] = "";
    char title[TEXT_MAX] = "";
    char position[POSITION_MAX] = "";
    char earliest[POSITION_MAX] = "";
    struct json_fields_member members[] = {
        JSON_TEXT("name", name),
        JSON_TEXT("title", title),
        JSON_TEXT("position", position),
        JSON_TEXT("earliest", earliest),
    };
    struct slice rest = {NULL, 0};
    struct slice link;
    enum status rc = json_fields_read(json, members, N_ELEMENTS(members), NULL);

    if (rc)
        return rc;
    if ((!json_slices_member(json, "links", &rest) ||
         !slice_starts(rest, "[")) &&
        !position[0])
        return STATUS_MALFORMED;
    if (!keep_text(&o->name, name) || !keep_text(&o->title, title) ||
        !keep_text(&o->position, position) ||
        !keep_text(&o->earliest, earliest))
        return STATUS_MEMORY;
    while (rest.size > 0 && json_slices_element(&rest, &link))
        if (!read_link(link, NULL, on_link, user))
            return STATUS_MEMORY;
    return STATUS_OK;
}

enum status
offered_each_set(struct slice json, offered_link_fn *on_link, void *user,
                 struct problem *why)
{
    char next[4 * URI_CHARACTERS_MAX + 1] = "";
    struct json_fields_member member = JSON_TEXT("next", next);
    struct slice none = {NULL, 0};
    struct slice rest;
    struct slice set;
    enum status rc = json_fields_read(json, &member, 1, why);

    if (rc)
        return rc;
    if (!json_slices_member(json, "sets", &rest))
        return STATUS_MALFORMED;
    while (json_slices_element(&rest, &set))
        if (!read_link(set, "set", on_link, user))
            return STATUS_MEMORY;
    if (next[0] && !on_link(SLICE("next"), slice_of(next), none, user))
        return STATUS_MEMORY;
    return STATUS_OK;
}
