/*
 * json_members.c - all values of a JSON text, each with its path.
 */
#include "client/lib/json_members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/resourcesync/json_parse.h"

#define PATH_MAX_BYTES 256

/* The path of the current value. */
struct member_path {
    td_member_fn *on_member;
    void *user;
    char path[PATH_MAX_BYTES];
    size_t depth;
    size_t sizes[JSON_DEPTH_MAX + 1]; /* of the path, by depth */
    bool is_array[JSON_DEPTH_MAX + 1];
    unsigned index[JSON_DEPTH_MAX + 1];
};

static void
name_member(struct member_path *p, struct slice name)
{
    size_t size = p->sizes[p->depth];

    snprintf(p->path + size, sizeof(p->path) - size, "%s%.*s",
             size > 0 ? "." : "", SLICE_ARG(name));
}

/* Names a value in an array by its number. */
static void
begin_value(struct member_path *p)
{
    char number[16];

    if (!p->is_array[p->depth])
        return;
    snprintf(number, sizeof(number), "%u", p->index[p->depth]++);
    name_member(p, slice_of(number));
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct member_path *p = user;
    char *value;

    (void)why;
    switch (event) {
    case JSON_KEY:
        name_member(p, text);
        return STATUS_OK;
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        p->depth--;
        return STATUS_OK;
    case JSON_OBJECT:
    case JSON_ARRAY:
        begin_value(p);
        p->depth++;
        p->sizes[p->depth] = strlen(p->path);
        p->is_array[p->depth] = event == JSON_ARRAY;
        p->index[p->depth] = 0;
        return STATUS_OK;
    case JSON_STRING:
    case JSON_NUMBER:
    case JSON_OTHER:
        break;
    }
    begin_value(p);
    value = slice_dup(text);
    if (!value)
        return STATUS_MEMORY;
    p->on_member(p->path, value, p->user);
    free(value);
    return STATUS_OK;
}

enum status
json_members_read(struct slice text, td_member_fn *on_member, void *user,
                  struct problem *why)
{
    struct member_path p = {.on_member = on_member, .user = user};

    return json_parse_text(text, on_event, &p, why);
}
