/*
 * json_fields.c - reads the members of JSON objects.
 */
#include "client/lib/json_fields.h"

#include "proto/json/json_parse.h"
#include "proto/number.h"

#define PATH_MAX_BYTES 256

/* The path of the present value; and who wants it: the fields of the outer
 * object, or on_member all. */
struct reading {
    struct json_fields_member *members;
    size_t n_members;
    td_member_fn *on_member;
    void *user;
    char path[PATH_MAX_BYTES];
    size_t depth;
    size_t sizes[JSON_DEPTH_MAX + 1]; /* of the path, by depth */
    bool is_array[JSON_DEPTH_MAX + 1];
    unsigned index[JSON_DEPTH_MAX + 1];
};

static void
name_member(struct reading *r, struct slice name)
{
    size_t size = r->sizes[r->depth];

    if (!r->on_member && r->depth > 1) /* no field is there */
        return;
    snprintf(r->path + size, sizeof(r->path) - size, "%s%.*s",
             size > 0 ? "." : "", SLICE_ARG(name));
}

/* Names a value in an array by its number. */
static void
begin_value(struct reading *r)
{
    char number[16];

    if (!r->on_member || !r->is_array[r->depth])
        return;
    snprintf(number, sizeof(number), "%u", r->index[r->depth]++);
    name_member(r, slice_of(number));
}

/* Copies as many whole characters of a text as there is room for. */
static void
take_field(struct reading *r, enum json_event event, struct slice text)
{
    for (size_t i = 0; r->depth == 1 && i < r->n_members; i++) {
        struct json_fields_member *member = &r->members[i];

        if (strcmp(member->name, r->path) != 0)
            continue;
        if (event == JSON_NUMBER && member->number)
            member->is_there = number_read(text, member->number);
        if (event != JSON_STRING || !member->text)
            return;
        text = slice_cut(text, member->size - 1);
        if (text.size)
            memcpy(member->text, text.data, text.size);
        member->text[text.size] = '\0';
        member->is_there = true;
        return;
    }
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct reading *r = user;
    char *value;

    (void)why;
    switch (event) {
    case JSON_KEY:
        name_member(r, text);
        return STATUS_OK;
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        r->depth--;
        return STATUS_OK;
    case JSON_OBJECT:
    case JSON_ARRAY:
        begin_value(r);
        r->depth++;
        r->sizes[r->depth] = strlen(r->path);
        r->is_array[r->depth] = event == JSON_ARRAY;
        r->index[r->depth] = 0;
        return STATUS_OK;
    case JSON_STRING:
    case JSON_NUMBER:
    case JSON_OTHER:
        break;
    }
    begin_value(r);
    take_field(r, event, text);
    if (!r->on_member)
        return STATUS_OK;
    value = slice_dup(text);
    if (!value)
        return STATUS_MEMORY;
    r->on_member(r->path, value, r->user);
    free(value);
    return STATUS_OK;
}

enum status
json_fields_read(struct slice body, struct json_fields_member *members,
                 size_t n_members, struct problem *why)
{
    struct reading r = {.members = members, .n_members = n_members};

    return json_parse_text(body, on_event, &r, why);
}

enum status
json_members_read(struct slice text, td_member_fn *on_member, void *user)
{
    struct reading r = {.on_member = on_member, .user = user};

    return json_parse_text(text, on_event, &r, NULL);
}
