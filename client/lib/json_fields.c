/*
 * json_fields.c - reads the members of a small JSON object.
 */
#include "client/lib/json_fields.h"

#include "proto/number.h"
#include "proto/resourcesync/json_parse.h"

struct answer {
    struct json_fields_member *members;
    size_t n_members;
    size_t depth;
    struct json_fields_member *next; /* of the next value; NULL: not wanted */
};

static struct json_fields_member *
member_of(const struct answer *a, struct slice name)
{
    for (size_t i = 0; i < a->n_members; i++)
        if (slice_is(name, a->members[i].name))
            return &a->members[i];
    return NULL;
}

/* Copies as many whole characters as there is room for. */
static void
take_text(struct json_fields_member *member, struct slice text)
{
    size_t size = text.size;

    if (!member->text)
        return;
    if (size >= member->size) {
        size = member->size - 1;
        while (size && ((unsigned char)text.data[size] & 0xc0) == 0x80)
            size--;
    }
    if (size)
        memcpy(member->text, text.data, size);
    member->text[size] = '\0';
    member->is_there = true;
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct answer *a = user;
    struct json_fields_member *member = a->next;

    (void)why;
    a->next = NULL;
    switch (event) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        a->depth++;
        break;
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        a->depth--;
        break;
    case JSON_KEY:
        a->next = a->depth == 1 ? member_of(a, text) : NULL;
        break;
    case JSON_STRING:
        if (member)
            take_text(member, text);
        break;
    case JSON_NUMBER:
        if (member && member->number)
            member->is_there = number_read(text, member->number);
        break;
    case JSON_OTHER:
        break;
    }
    return STATUS_OK;
}

enum status
json_fields_read(struct slice body, struct json_fields_member *members,
                 size_t n_members)
{
    struct answer a = {.members = members, .n_members = n_members};

    return json_parse_text(body, on_event, &a, NULL);
}
