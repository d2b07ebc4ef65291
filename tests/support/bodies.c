#include "tests/support/bodies.h"

#include "tests/test.h"

unsigned
bodies_read(struct body *body, struct buf *to)
{
    uint64_t size = 0;
    unsigned waits = 0;
    bool may_block = false;

    for (;;) {
        struct slice piece = {NULL, 0};
        enum body_result result = body->next(body, may_block, &piece);

        if (result == BODY_END)
            break;
        if (result == BODY_WAITS) {
            assert_false(may_block);
            may_block = true;
            waits++;
            continue;
        }
        assert_int_equal(result, BODY_DATA);
        buf_add_slice(to, piece);
        size += piece.size;
        may_block = false;
    }
    assert_int_equal(size, body->size);
    body->free(body);
    return waits;
}

enum status
bodies_open(document_open_fn *open, const struct document_wish *wish,
            struct body **body, struct problem *why)
{
    struct document document = {NULL};
    enum status rc = open(wish, &document, why);

    if (rc)
        return rc;
    *body = document.body;
    document.body = NULL;
    document_close(&document);
    return STATUS_OK;
}
