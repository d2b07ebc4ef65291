#include "broker/log/lists.h"

#include <string.h>

#include "proto/datetime.h"
#include "proto/document_write.h"

void
lists_start(struct head *head, const char *epoch, int64_t created_us)
{
    memset(head, 0, sizeof(*head));
    memcpy(head->epoch, epoch, EPOCH_SIZE);
    head->exists = true;
    head->created_us = head->last_us = head->list_from_us = created_us;
    lists_number(head, 1);
    digest_start(&head->digest, slice_of(head->epoch));
    head->list_before = head->digest;
}

void
lists_number(struct head *head, uint64_t number)
{
    head->list = head->start_list = head->first_list = number;
    for (int kind = 0; kind < GENERATION_KINDS; kind++)
        head->generations[kind].last = number - 1;
}

bool
lists_must_end(const struct head *head, const struct list_limits *limits,
               size_t size)
{
    if (lists_is_empty(head))
        return false;
    return lists_is_full(head, limits) ||
           head->list_bytes + size + DOCUMENT_FRAME_MAX > limits->bytes;
}

bool
lists_is_full(const struct head *head, const struct list_limits *limits)
{
    return head->last - head->list_after >= limits->entries;
}

bool
lists_is_empty(const struct head *head)
{
    return head->last == head->list_after;
}

struct list_info
lists_open(const struct head *head)
{
    return (struct list_info){
        .number = head->list,
        .after = head->list_after,
        .last = head->last,
        .from_us = head->list_from_us,
        .until_us = DATETIME_NONE,
        .bytes = head->list_bytes,
        .before = head->list_before,
        .digest = head->digest,
    };
}

struct list_info
lists_end(struct head *head)
{
    struct list_info ended = lists_open(head);

    ended.until_us = head->last_us;
    head->list++;
    head->list_after = head->last;
    head->list_from_us = head->last_us;
    head->list_before = head->digest;
    head->list_bytes = 0;
    return ended;
}
