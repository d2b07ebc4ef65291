#include "broker/log/head.h"

#include "proto/resourcesync/document_write.h"

void
head_start(struct head *head, const char *epoch, int64_t created_us)
{
    memset(head, 0, sizeof(*head));
    memcpy(head->epoch, epoch, EPOCH_SIZE);
    memcpy(head->origin, epoch, EPOCH_SIZE);
    head->exists = true;
    head->created_us = head->last_us = head->list_from_us = created_us;
    head_number_lists(head, 1);
    digest_sha256(&head->digest, slice_of(head->epoch));
    head->list_before = head->digest;
}

void
head_change_epoch(struct head *head, const char *epoch,
                  const uint64_t former_builds[GENERATION_STATES])
{
    /* An epoch without entries has no list either. */
    if (!head->former[0] || head->began != head->last)
        memcpy(head->former, head->epoch, sizeof(head->former));
    memcpy(head->epoch, epoch, EPOCH_SIZE);
    head->began = head->last;
    memcpy(head->former_builds, former_builds, sizeof(head->former_builds));
    if (head->last > 0)
        return;
    /* Without entries there is nothing to go on from: so that d(0) is the
     * digest of the epoch that readers know. */
    memcpy(head->origin, epoch, EPOCH_SIZE);
    digest_sha256(&head->digest, slice_of(head->epoch));
    head->list_before = head->digest;
}

void
head_number_lists(struct head *head, uint64_t number)
{
    head->list = head->start_list = head->first_list = number;
    for (int kind = 0; kind < GENERATION_KINDS; kind++)
        head->generations[kind].last = number - 1;
}

bool
head_must_end_list(const struct head *head, const struct list_limits *limits,
                   size_t size)
{
    if (head_list_is_empty(head))
        return false;
    return head_list_is_full(head, limits) ||
           head->list_bytes + size + DOCUMENT_FRAME_MAX > limits->bytes;
}

bool
head_list_is_full(const struct head *head, const struct list_limits *limits)
{
    return head->last - head->list_after >= limits->entries;
}

bool
head_list_is_empty(const struct head *head)
{
    return head->last == head->list_after;
}

struct list_info
head_open_list(const struct head *head)
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

int64_t
event_time(int64_t last_us, int64_t source_us, int64_t now_us)
{
    if (source_us > last_us && source_us <= now_us)
        return source_us;
    return now_us > last_us ? now_us : last_us + 1;
}

void
head_end_list(struct head *head)
{
    head->list++;
    head->list_after = head->last;
    head->list_from_us = head->last_us;
    head->list_before = head->digest;
    head->list_bytes = 0;
}
