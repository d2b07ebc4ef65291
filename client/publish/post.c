#include "client/publish/post.h"

#include <string.h>

#include "client/lib/json_fields.h"

void
post_key_line(char line[POST_KEY_LINE], struct slice key)
{
    static const char name[] = "Idempotency-Key: ";
    size_t size = sizeof(name) - 1;

    memcpy(line, name, size);
    size += key_write(line + size, key);
    line[size] = '\0';
}

bool
post_receipt(struct slice body, struct td_receipt *receipt)
{
    struct json_fields_member members[] = {
        {.name = "first", .number = &receipt->first},
        {.name = "last", .number = &receipt->last},
        {.name = "position",
         .text = receipt->position,
         .size = sizeof(receipt->position)},
        {.name = "datetime",
         .text = receipt->datetime,
         .size = sizeof(receipt->datetime)},
    };
    size_t n_members = sizeof(members) / sizeof(members[0]);
    bool is_good = json_fields_read(body, members, n_members);

    for (size_t i = 0; i < n_members; i++)
        is_good = is_good && members[i].is_there;
    return is_good;
}

uint64_t
post_fault(struct slice body)
{
    uint64_t entry = 0;
    struct json_fields_member member = {.name = "entry", .number = &entry};

    return json_fields_read(body, &member, 1) && member.is_there ? entry : 0;
}
