#include "client/verify/verify_head.h"

#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

/* The statements of a list of a history about itself, in words. */
static enum status
on_entry(const struct verify_entry *entry, void *user)
{
    struct buf *seen = user;

    FUZZ_ASSERT(entry->loc.size > 0 && entry->loc.size <= VERIFY_HREF_MAX);
    buf_add_format(seen, "%.*s %lld %d\n", SLICE_ARG(entry->loc),
                   (long long)entry->until_us, entry->has_digest);
    return STATUS_OK;
}

static enum status
read_in_steps(struct slice bytes, size_t step, struct buf *seen)
{
    struct verify_reader *r = verify_reader_new(on_entry, seen);
    const struct verify_head *head;
    struct problem why = {.text = ""};
    enum status rc = STATUS_OK;

    FUZZ_ASSERT(r);
    while (!rc && bytes.size > 0)
        rc = verify_reader_feed(r, fuzz_take(&bytes, step), &why);
    if (!rc)
        rc = verify_reader_end(r, &why);
    head = verify_reader_head(r);
    FUZZ_ASSERT(strlen(head->prev) <= VERIFY_HREF_MAX);
    FUZZ_ASSERT(strlen(head->next) <= VERIFY_HREF_MAX);
    FUZZ_ASSERT(!head->epoch[0] || epoch_is_valid(slice_of(head->epoch)));
    buf_add_format(seen, "%d %d %s %d %llu %llu %d %lld %lld %s %s %d",
                   head->is_index, head->has_capability, head->epoch,
                   head->has_range, (unsigned long long)head->after,
                   (unsigned long long)head->last, head->has_digest,
                   (long long)head->from_us, (long long)head->until_us,
                   head->prev, head->next, head->has_before);
    verify_reader_free(r);
    if (rc)
        fuzz_check_problem(&why);
    return rc;
}

FUZZ_TARGET(verify_head, bytes)
{
    struct buf whole, pieces;
    enum status rc;

    buf_init(&whole, SIZE_MAX);
    buf_init(&pieces, SIZE_MAX);
    rc = read_in_steps(bytes, SIZE_MAX, &whole);
    FUZZ_ASSERT(!rc == !read_in_steps(bytes, 1 + bytes.size % 61, &pieces));
    FUZZ_ASSERT(rc || slice_equal(buf_slice(&whole), buf_slice(&pieces)));
    buf_fini(&whole);
    buf_fini(&pieces);
}
