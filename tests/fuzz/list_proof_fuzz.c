#include "proto/input/list_proof.h"

#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

/* What a proof hands over. */
struct seen {
    struct buf text; /* in words */
    uint64_t at;     /* where the next entry begins */
};

static enum status
on_head(const struct list_head *head, void *user, struct problem *why)
{
    struct seen *seen = user;

    (void)why;
    FUZZ_ASSERT(strlen(head->up) <= LIST_HREF_MAX);
    FUZZ_ASSERT(strlen(head->prev) <= LIST_HREF_MAX);
    FUZZ_ASSERT(strlen(head->next) <= LIST_HREF_MAX);
    FUZZ_ASSERT(epoch_is_valid(slice_of(head->covers.epoch)));
    seen->at = head->text.size;
    buf_add_format(&seen->text, "%s %llu %llu %lld %lld %s %s %s %d\n",
                   head->covers.epoch, (unsigned long long)head->covers.after,
                   (unsigned long long)head->covers.last,
                   (long long)head->covers.from_us,
                   (long long)head->covers.until_us, head->up, head->prev,
                   head->next, head->has_before);
    return STATUS_OK;
}

static enum status
on_entry(const struct list_entry *entry, void *user, struct problem *why)
{
    struct seen *seen = user;

    (void)why;
    FUZZ_ASSERT(entry->at == seen->at);
    FUZZ_ASSERT(entry->view->size == entry->text.size);
    seen->at += entry->text.size;
    buf_add_format(&seen->text, "%llu %lld %.*s",
                   (unsigned long long)entry->view->seq,
                   (long long)entry->view->us, SLICE_ARG(entry->text));
    return STATUS_OK;
}

/* A list that is proven is its head, its entries and its last line. */
static enum status
prove_in_steps(struct slice bytes, size_t step, struct seen *seen)
{
    static const struct list_proof_events events = {on_head, on_entry};
    struct list_chain chain = {.epoch = ""};
    struct list_proof *proof = list_proof_new(&chain, "1.xml", &events, seen);
    size_t size = bytes.size;
    struct problem why = {.text = ""};
    enum status rc = STATUS_OK;

    FUZZ_ASSERT(proof);
    while (!rc && bytes.size > 0)
        rc = list_proof_feed(proof, fuzz_take(&bytes, step), &why);
    if (!rc)
        rc = list_proof_end(proof, &chain, &why);
    FUZZ_ASSERT(!rc == (chain.epoch[0] != '\0'));
    FUZZ_ASSERT(rc || seen->at + strlen("</urlset>\n") == size);
    buf_add_format(&seen->text, "%d %llu", rc,
                   (unsigned long long)list_proof_reached(proof));
    list_proof_free(proof);
    if (rc)
        fuzz_check_problem(&why);
    return rc;
}

FUZZ_TARGET(list_proof, bytes)
{
    struct seen whole = {.at = 0}, pieces = {.at = 0};
    enum status rc;

    buf_init(&whole.text, SIZE_MAX);
    buf_init(&pieces.text, SIZE_MAX);
    rc = prove_in_steps(bytes, SIZE_MAX, &whole);
    FUZZ_ASSERT(rc == prove_in_steps(bytes, 1 + bytes.size % 61, &pieces));
    FUZZ_ASSERT(slice_equal(buf_slice(&whole.text), buf_slice(&pieces.text)));
    buf_fini(&whole.text);
    buf_fini(&pieces.text);
}
