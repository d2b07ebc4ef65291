#include "broker/documents/memory.h"

#include "broker/sets/message.h"

enum status
memory_open(struct set *set, uint64_t after, enum log_patience patience,
            struct body **body, uint64_t *last, struct problem *why)
{
    const struct message_wish wish = {
        .set = set,
        .form = MESSAGE_JSON,
        .after = after,
        .upto = UINT64_MAX,
        .max_bytes = registry_config(set->registry)->message_bytes,
        .patience = patience,
        .has_next = true,
    };
    struct buf text;
    enum status rc;

    buf_init(&text, (size_t)1 << 30);
    rc = message_write(&text, &wish, last, why);
    if (!rc) {
        *body = body_of_buf(&text);
        if (!*body)
            rc = problem(why, STATUS_MEMORY, "no memory for a page");
    }
    buf_fini(&text);
    return rc;
}
