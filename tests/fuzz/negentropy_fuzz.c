/*
 * negentropy_fuzz.c - the first byte says how many ids the one side has, the
 * second the other one; the rest is a message. A server answers it, and a
 * client reads it as an answer.
 */
#include "proto/resourcesync/negentropy.h"

#include "tests/fuzz/fuzz.h"

#define IDS_MAX 256

struct side {
    struct digest ids[IDS_MAX];
    struct negentropy_array array;
    struct negentropy n;
    struct buf have, need, message;
};

static void
begin_side(struct side *s, size_t n, uint8_t salt, bool is_client)
{
    *s = (struct side){.have.max = IDS_MAX * DIGEST_SIZE / 2,
                       .need.max = IDS_MAX * DIGEST_SIZE / 2,
                       .message.max = SIZE_MAX / 2};
    for (size_t i = 0; i < n; i++) { /* half of them are the other side's too */
        uint8_t text[2] = {(uint8_t)i, i & 1 ? salt : 0};

        digest_sha256(&s->ids[i], (struct slice){(char *)text, 2});
    }
    negentropy_array_init(&s->array, s->ids, n);
    s->n = (struct negentropy){.ids = &s->array.ids,
                               .max_bytes = NEGENTROPY_BYTES_LEAST,
                               .max_ranges = 512,
                               .max_work = 100};
    if (is_client) {
        s->n.max_work = 0;
        s->n.have = &s->have;
        s->n.need = &s->need;
    }
}

static void
end_side(struct side *s)
{
    buf_fini(&s->have);
    buf_fini(&s->need);
    buf_fini(&s->message);
}

/* A message is refused with a reason, or its answer is no longer than was said,
 * and the other party can read it. */
FUZZ_TARGET(negentropy, bytes)
{
    static struct side client, server;
    struct problem why = {""};
    struct slice head = fuzz_take(&bytes, 2);
    enum status rc;

    if (head.size < 2)
        return;
    begin_side(&server, (uint8_t)head.data[0], 1, false);
    begin_side(&client, (uint8_t)head.data[1], 2, true);
    rc = negentropy_answer(&server.n, bytes, &server.message, &why);
    if (rc)
        fuzz_check_problem(&why);
    else
        FUZZ_ASSERT(server.message.size <= NEGENTROPY_BYTES_LEAST);
    if (!rc && server.message.size > 1) {
        rc = negentropy_compare(&client.n, buf_slice(&server.message),
                                &client.message, &why);
        FUZZ_ASSERT(!rc || rc == STATUS_STOPPED);
    }
    end_side(&client);
    begin_side(&client, (uint8_t)head.data[1], 2, true);
    rc = negentropy_compare(&client.n, bytes, &client.message, &why);
    FUZZ_ASSERT(client.have.size <= client.have.max &&
                client.need.size <= client.need.max);
    if (rc && rc != STATUS_STOPPED)
        fuzz_check_problem(&why);
    if (!rc && client.message.size > 0) {
        buf_clear(&server.message);
        server.n.max_ranges = UINT64_MAX;
        FUZZ_ASSERT(!negentropy_answer(&server.n, buf_slice(&client.message),
                                       &server.message, &why));
    }
    end_side(&client);
    end_side(&server);
}
