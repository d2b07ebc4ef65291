#include "client/source/capabilities.h"

#include <stdlib.h>

#include "client/lib/json_fields.h"
#include "client/lib/json_slices.h"
#include "proto/resourcesync/position.h"
#include "proto/uri.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* All members, in the order of the struct. */
#define MEMBERS(o)                                                       \
    {                                                                    \
        &(o)->url, &(o)->name, &(o)->title, &(o)->capability_list,       \
            &(o)->resource_list, &(o)->resource_dump, &(o)->change_list, \
            &(o)->change_dump, &(o)->resource_list_archive,              \
            &(o)->resource_dump_archive, &(o)->change_list_archive,      \
            &(o)->change_dump_archive, &(o)->topic, &(o)->memory,        \
            &(o)->stream, &(o)->events, &(o)->streams, &(o)->position,   \
            &(o)->earliest, &(o)->date                                   \
    }

void
offered_fini(struct offered *o)
{
    char **const members[] = MEMBERS(o);

    for (size_t i = 0; i < N(members); i++) {
        free(*members[i]);
        *members[i] = NULL;
    }
    o->kind = NULL;
}

void
offered_merge(struct offered *o, struct offered *other)
{
    char **const to[] = MEMBERS(o);
    char **const from[] = MEMBERS(other);

    for (size_t i = 0; i < N(to); i++)
        if (!*to[i]) {
            *to[i] = *from[i];
            *from[i] = NULL;
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

static char **
member_of(struct offered *o, struct slice rel)
{
    const struct {
        const char *rel;
        char **member;
    } rows[] = {
        {"capabilitylist", &o->capability_list},
        {"resourcelist", &o->resource_list},
        {"resourcedump", &o->resource_dump},
        {"changelist", &o->change_list},
        {"changedump", &o->change_dump},
        {"resourcelist-archive", &o->resource_list_archive},
        {"resourcedump-archive", &o->resource_dump_archive},
        {"changelist-archive", &o->change_list_archive},
        {"changedump-archive", &o->change_dump_archive},
        {"change-notification", &o->topic},
        {"changelist-notification", &o->topic}, /* I-06 */
        {"urn:tidings:1:memory", &o->memory},
        {"urn:tidings:1:stream", &o->stream},
        {"urn:tidings:1:events", &o->events},
        {"urn:tidings:1:streams", &o->streams},
    };

    for (size_t i = 0; i < N(rows); i++)
        if (slice_is(rel, rows[i].rel))
            return rows[i].member;
    return NULL;
}

bool
offered_take(struct offered *o, struct slice rel, struct slice href)
{
    char **member = member_of(o, rel);
    const char *fragment =
        href.size > 0 ? memchr(href.data, '#', href.size) : NULL;

    if (fragment) /* never sent, and it would swallow a query */
        href.size = (size_t)(fragment - href.data);
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
    char told[TEXT_MAX] = "";
    char href[4 * URI_CHARACTERS_MAX + 1] = "";
    char type[TEXT_MAX] = "";
    struct json_fields_member members[] = {
        {.name = "rel", .text = told, .size = sizeof(told)},
        {.name = "href", .text = href, .size = sizeof(href)},
        {.name = "type", .text = type, .size = sizeof(type)},
    };
    enum status rc = json_fields_read(link, members, N(members));

    if (rc == STATUS_MEMORY)
        return false;
    if (rc || (!told[0] && !rel) || !href[0] ||
        uri_check(slice_of(href), "href", NULL))
        return true;
    return on_link(slice_of(rel ? rel : told), slice_of(href), slice_of(type),
                   user);
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
        {.name = "name", .text = name, .size = sizeof(name)},
        {.name = "title", .text = title, .size = sizeof(title)},
        {.name = "position", .text = position, .size = sizeof(position)},
        {.name = "earliest", .text = earliest, .size = sizeof(earliest)},
    };
    struct slice rest = {NULL, 0};
    struct slice link;
    enum status rc = json_fields_read(json, members, N(members));

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
offered_each_set(struct slice json, offered_link_fn *on_link, void *user)
{
    char next[4 * URI_CHARACTERS_MAX + 1] = "";
    struct json_fields_member member = {
        .name = "next", .text = next, .size = sizeof(next)};
    struct slice none = {NULL, 0};
    struct slice rest;
    struct slice set;
    enum status rc = json_fields_read(json, &member, 1);

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
