#include "proto/http/ws_handshake.h"
#include "tests/fuzz/fuzz.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="

static bool
lies_within(struct slice part, struct slice whole)
{
    return part.size == 0 || (part.data >= whole.data &&
                              part.data + part.size <= whole.data + whole.size);
}

/* A part of a body yields no more bytes than it has; the whole of it yields no
 * fewer than a part. */
static void
read_body(const struct upgrade_answer *a, struct slice behind)
{
    struct slice half = {behind.data, behind.size / 2};
    struct buf part, whole;
    enum status rc;

    buf_init(&part, SIZE_MAX);
    buf_init(&whole, SIZE_MAX);
    rc = upgrade_body(a, half, false, &part);
    FUZZ_ASSERT(part.size <= half.size);
    if (upgrade_body(a, behind, false, &whole))
        FUZZ_ASSERT(rc); /* it was not all there before, either */
    FUZZ_ASSERT(whole.size <= behind.size && whole.size >= part.size);
    FUZZ_ASSERT(part.size == 0 || !memcmp(part.data, whole.data, part.size));
    FUZZ_ASSERT(rc || part.size == whole.size);
    buf_fini(&part);
    buf_fini(&whole);
}

FUZZ_TARGET(upgrade, bytes)
{
    struct upgrade_answer a, again;
    struct problem why = {.text = ""};
    enum status rc = upgrade_read(bytes, &a, &why);
    struct slice head;

    if (rc == STATUS_MALFORMED || rc == STATUS_TOO_LARGE)
        fuzz_check_problem(&why);
    else
        FUZZ_ASSERT(!rc || rc == STATUS_AGAIN);
    if (rc)
        return;
    FUZZ_ASSERT(a.head_size > 0 && a.head_size <= bytes.size);
    FUZZ_ASSERT(a.status == 101 || (a.status >= 200 && a.status <= 999));
    head = fuzz_take(&bytes, a.head_size);
    FUZZ_ASSERT(lies_within(a.accept, head) && lies_within(a.type, head));
    FUZZ_ASSERT(lies_within(a.protocol, head));
    FUZZ_ASSERT(lies_within(a.extensions, head));

    /* The head alone says the same; less of it says nothing. */
    FUZZ_ASSERT(!upgrade_read(head, &again, NULL));
    FUZZ_ASSERT(again.head_size == a.head_size && again.status == a.status);
    head.size--;
    FUZZ_ASSERT(upgrade_read(head, &again, NULL) == STATUS_AGAIN);

    if (upgrade_check(&a, KEY, "resourcesync.json", &why))
        fuzz_check_problem(&why);
    read_body(&a, bytes);
}
