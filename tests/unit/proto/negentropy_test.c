#include "proto/resourcesync/negentropy.h"

#include <stdlib.h>
#include <string.h>

#include "proto/datetime.h"
#include "proto/number.h"
#include "proto/resourcesync/fragment.h"
#include "tests/test.h"

/* Vectors: made by tests/tidings_test/negentropy.py, which knows nothing of
 * this program. The ids are SHA-256 of single bytes from 0 on. */

static struct digest *
make_ids(size_t n, uint64_t seed)
{
    struct digest *ids = calloc(n + 1, sizeof(*ids));

    for (size_t i = 0; i < n; i++) {
        uint64_t number = i + seed;

        digest_sha256(&ids[i], seed ? (struct slice){(char *)&number, 8}
                                    : (struct slice){(char *)&number, 1});
    }
    return ids;
}

static void
add_bytes(struct buf *to, const char *hex)
{
    uint8_t bytes[4096];
    size_t size = strlen(hex) / 2;

    assert_true(size <= sizeof(bytes));
    assert_true(hex_read(slice_of(hex), bytes, size));
    buf_add(to, bytes, size);
}

static void
assert_hex(struct slice bytes, const char *hex)
{
    struct buf text = {.max = 65536};

    buf_add_hex(&text, (const uint8_t *)bytes.data, bytes.size);
    buf_add(&text, "", 1);
    assert_string_equal(text.data, hex);
    buf_fini(&text);
}

/* A side that has the first `n` of those ids. */
struct side {
    struct digest *ids;
    struct negentropy_array array;
    struct negentropy n;
    struct buf have, need;
};

static void
begin_side(struct side *s, struct digest *ids, size_t n, bool is_client)
{
    memset(s, 0, sizeof(*s));
    s->ids = ids;
    s->have.max = s->need.max = 100000 * DIGEST_SIZE;
    negentropy_array_init(&s->array, ids, n);
    s->n = (struct negentropy){
        .ids = &s->array.ids, .max_bytes = 65536, .max_ranges = 16384};
    if (is_client) {
        s->n.have = &s->have;
        s->n.need = &s->need;
    }
}

static void
end_side(struct side *s)
{
    free(s->ids);
    buf_fini(&s->have);
    buf_fini(&s->need);
}

TEST(sums_ids)
{
    struct digest *ids = make_ids(40, 0);
    struct id_sum sum = {.n = 0}, half = {.n = 0}, both;

    for (size_t i = 0; i < 40; i++)
        id_sum_add(i < 20 ? &sum : &half, &ids[i]);
    both = sum;
    id_sum_merge(&both, &half);
    assert_string_equal(id_sum_text(&both).text,
                        "40-a2a39a20d26e59030a1647087920582b"
                        "6fd57eaef623382b7ff02ff4dffe1578");
    for (size_t i = 20; i < 40; i++)
        id_sum_remove(&both, &ids[i]);
    assert_memory_equal(&both, &sum, sizeof(sum));
    for (size_t i = 0; i < 20; i++)
        id_sum_remove(&both, &ids[i]);
    assert_string_equal(id_sum_text(&both).text,
                        "0-00000000000000000000000000000000"
                        "00000000000000000000000000000000");
    free(ids);
}

TEST(computes_ids)
{
    struct digest id, same;
    int64_t us;

    assert_int_equal(datetime_read(SLICE("2026-04-01T18:10:00Z"), &us), 0);
    resource_id(&id, SLICE("http://example.com/a?b=1&amp;c=&quot;&lt;&gt;"),
                SLICE("md5:d41d8cd98f00b204e9800998ecf8427e sha-256:9F86D081884"
                      "C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08"),
                3, us);
    assert_hex(
        (struct slice){(char *)&id, sizeof(id)},
        "74a704bcbcadfbe211488d3f3bfd37b25bbecb25b5b02631e5d45df3b041a3b8");
    resource_id(&id, SLICE("http://example.com/a"),
                SLICE("md5:d41d8cd98f00b204e9800998ecf8427e"), 3, us);
    assert_hex(
        (struct slice){(char *)&id, sizeof(id)},
        "5bd48fa66118084cc32779267a31116d265f74a4ee162e1605ba5c093ada1f83");
    fragment_id(&same, SLICE("<url><loc>http://example.com/a</loc><lastmod>"
                             "2026-04-01T20:10:00+02:00</lastmod><rs:md "
                             "td:seq=\"7\" length=\"3\" hash=\"md5:"
                             "d41d8cd98f00b204e9800998ecf8427e\" "
                             "type=\"text/csv\"/></url>\n"));
    assert_memory_equal(&same, &id, sizeof(id));
    fragment_id(&same,
                SLICE("<url><loc>http://example.com/a</loc><changefreq>daily"
                      "</changefreq><rs:md td:seq=\"7\"/></url>\n"));
    assert_hex(
        (struct slice){(char *)&same, sizeof(same)},
        "5bd48fa66118084cc32779267a31116d6af759959b2c635aeb9e628e99c2e720");
}

/* Two resources that exchange their content change the sum. */
TEST(notices_an_exchange)
{
    struct digest id;
    struct id_sum before = {.n = 0}, after = {.n = 0};

    for (int i = 0; i < 4; i++) {
        resource_id(&id, i & 1 ? SLICE("http://a/1") : SLICE("http://a/2"),
                    (struct slice){NULL, 0}, (uint64_t)((i & 1) ^ (i >> 1)),
                    DATETIME_NONE);
        id_sum_add(i < 2 ? &before : &after, &id);
    }
    assert_memory_not_equal(before.words, after.words, sizeof(before.words));
}

static void
check_answer(size_t n, const char *message, const char *answer)
{
    struct side s;
    struct buf in = {.max = 65536}, out = {.max = 65536};
    struct problem why = {""};

    begin_side(&s, make_ids(40, 0), 40, false);
    negentropy_array_init(&s.array, s.ids, n); /* the first ones, in order */
    add_bytes(&in, message);
    assert_int_equal(negentropy_answer(&s.n, buf_slice(&in), &out, &why), 0);
    assert_hex(buf_slice(&out), answer);
    buf_fini(&in);
    buf_fini(&out);
    end_side(&s);
}

TEST(answers_as_the_vectors_say)
{
    check_answer(40, "6100000162b7dfe5684eee355c3164f40c97218e", "61");
    check_answer(
        5, "6100000178787878787878787878787878787878",
        "610000020501ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f98"
        "05daca546b084fed08b978af4d7d196a7446a86b58009e636b611db16211b65a"
        "9aadff29c509fc96082d34c2dfc1295d92073b5ea1dc8ef8da95f14dfded011f"
        "fb96d3e54b1f18d650d205d71d934c3646ff5fac1c096ba52eba4cf758b86536"
        "4f4167d3cd265fda17a34611b1533d8a281ff680dc5791b0ce0a11c25b35e11c"
        "8e75685509");
    check_answer(
        8,
        "6101021f18000802616201797979797979797979797979797979790300020000"
        "00017f9c9e31ac8256ca2f258583df262dbc",
        "6101021f18000802616202051f18d650d205d71d934c3646ff5fac1c096ba52e"
        "ba4cf758b865364f4167d3cd265fda17a34611b1533d8a281ff680dc5791b0ce"
        "0a11c25b35e11c8e756855092b4c342f5433ebe591a1da77e013d1b72475562d"
        "48578dca8b84bac6651c3cb92f0fd1e89b8de1d57292742ec380ea47066e307a"
        "d645f5bc3adad8a06ff58608334359b90efed75da5f0ada1d5e6b256f4a6bd0a"
        "ee7eb39c0f90182a021ffc8b03000200");
    check_answer(8, "62000001", "61"); /* of another version */
    check_answer(8, "00", "61");
    check_answer(8, "61", "61");
}

static const struct bad {
    const char *message, *why;
} bad[] = {
    {"", "empty"},
    {"6100", "a bound is no two numbers"},
    {"618000", "a bound is no two numbers"},
    {"61ffffffffffffffffffff7f00", "a bound is no two numbers"},
    {"6181ffffffffffffffff7f0000020000", "too far"}, /* 2^64 - 1 */
    {"6101210000", "0 to 32 bytes"},
    {"61010500", "0 to 32 bytes"},
    {"6101ffffffffffffffff7f00", "0 to 32 bytes"},
    {"610000", "mode"},
    {"61000003", "mode"},
    {"6100000100112233445566778899aabbccddee", "cut off"},
    {"61000002", "has no length"},
    {"6100000201", "cut off"},
    {"61000002ffffffffffffffff7f", "cut off"},
    {"610102050500"
     "01010500",
     "ends before it begins"},
    {"61000000"
     "000000",
     "behind the last"},
    {"61020000"
     "01010000",
     NULL},
    {"610100000101000001010000", NULL},
};

TEST(refuses_what_is_malformed)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct side s;
        struct buf in = {.max = 65536}, out = {.max = 65536};
        struct problem why = {""};
        enum status rc;

        begin_side(&s, make_ids(40, 0), 40, i % 2);
        add_bytes(&in, bad[i].message);
        rc = (i % 2 ? negentropy_compare
                    : negentropy_answer)(&s.n, buf_slice(&in), &out, &why);
        if (!bad[i].why) {
            assert_int_equal(rc, 0);
        } else {
            assert_int_equal(rc, STATUS_MALFORMED);
            assert_true(strstr(why.text, bad[i].why) || !bad[i].message[0]);
        }
        buf_fini(&in);
        buf_fini(&out);
        end_side(&s);
    }
}

/* Every prefix of a message and every single bit of it: no more than an
 * error. */
TEST(survives_any_bytes)
{
    struct side s;
    struct buf in = {.max = 65536}, out = {.max = 1 << 20};
    struct problem why;

    begin_side(&s, make_ids(40, 0), 40, true);
    s.have.max = s.need.max = DIGEST_SIZE << 20;
    add_bytes(&in,
              "6101021f18000802616201797979797979797979797979797979790300020000"
              "00017f9c9e31ac8256ca2f258583df262dbc"
              "");
    for (size_t i = 1; i <= 8 * in.size; i++) {
        char copy[4096];

        memcpy(copy, in.data, in.size);
        copy[(i - 1) / 8] ^= (char)(1 << (i - 1) % 8);
        for (int client = 0; client < 2; client++) {
            buf_clear(&out);
            buf_clear(&s.have);
            buf_clear(&s.need);
            (void)!(client ? negentropy_compare : negentropy_answer)(
                &s.n, (struct slice){copy, in.size}, &out, &why);
            buf_clear(&out);
            if (i <= in.size)
                (void)!(client ? negentropy_compare : negentropy_answer)(
                    &s.n, (struct slice){in.data, i}, &out, &why);
        }
    }
    buf_fini(&in);
    buf_fini(&out);
    end_side(&s);
}

TEST(refuses_too_many_ranges_and_ids_outside)
{
    struct side s;
    struct buf in = {.max = 65536}, out = {.max = 65536};
    struct problem why;

    begin_side(&s, make_ids(40, 0), 40, true);
    s.n.max_ranges = 3;
    add_bytes(&in, "61010000010000010000010000");
    assert_int_equal(negentropy_compare(&s.n, buf_slice(&in), &out, &why),
                     STATUS_MALFORMED);
    assert_non_null(strstr(why.text, "more than 3 ranges"));
    buf_clear(&in);
    add_bytes(&in, "6101010502010600000000000000000000000000000000000000000000"
                   "00000000000000000000");
    assert_int_equal(negentropy_compare(&s.n, buf_slice(&in), &out, &why),
                     STATUS_MALFORMED);
    assert_non_null(strstr(why.text, "outside its range"));
    buf_clear(&in);
    add_bytes(&in, "62");
    assert_int_equal(negentropy_compare(&s.n, buf_slice(&in), &out, &why),
                     STATUS_MALFORMED);
    buf_fini(&in);
    buf_fini(&out);
    end_side(&s);
}

struct cost {
    unsigned rounds;
    size_t bytes, longest;
};

static struct cost
reconcile(struct side *client, struct side *server)
{
    struct cost cost = {0, 0, 0};
    struct buf question = {.max = 1 << 24}, answer = {.max = 1 << 24};
    struct problem why = {""};

    assert_int_equal(negentropy_begin(&client->n, &question, &why), 0);
    while (question.size > 0) {
        buf_clear(&answer);
        assert_int_equal(
            negentropy_answer(&server->n, buf_slice(&question), &answer, &why),
            0);
        cost.rounds++;
        cost.bytes += question.size + answer.size;
        if (answer.size > cost.longest)
            cost.longest = answer.size;
        buf_clear(&question);
        assert_int_equal(
            negentropy_compare(&client->n, buf_slice(&answer), &question, &why),
            0);
        assert_true(question.size <= client->n.max_bytes);
        assert_true(cost.rounds < 100000);
    }
    buf_fini(&question);
    buf_fini(&answer);
    return cost;
}

static int
compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct digest));
}

/* Sorts the ids, and returns how many they are without repeats. */
static size_t
count_once(const struct buf *found)
{
    struct digest *ids = (struct digest *)found->data;
    size_t n = found->size / DIGEST_SIZE, kept = 0;

    qsort(ids, n, sizeof(*ids), compare);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || compare(&ids[kept - 1], &ids[i]))
            ids[kept++] = ids[i];
    return kept;
}

/* The client has the ids before `n`, the server those from `first` on, `more`
 * behind them. */
static struct cost
check_run(size_t n, size_t first, size_t more, size_t max_bytes,
          uint64_t max_work)
{
    struct side client, server;
    struct digest *all = make_ids(n + more, 77);
    struct digest *theirs = make_ids(n + more, 77);
    struct cost cost;

    memmove(theirs, theirs + first, (n + more - first) * sizeof(*theirs));
    begin_side(&client, make_ids(n, 77), n, true);
    begin_side(&server, theirs, n + more - first, false);
    server.n.max_bytes = max_bytes;
    server.n.max_work = max_work;
    cost = reconcile(&client, &server);
    assert_true(cost.longest <= max_bytes);
    assert_non_null(buf_room(&client.have, 1)); /* also without any */
    assert_non_null(buf_room(&client.need, 1));
    assert_int_equal(count_once(&client.have), first);
    assert_int_equal(count_once(&client.need), more);
    qsort(all, first, sizeof(*all), compare);
    qsort(all + n, more, sizeof(*all), compare);
    assert_memory_equal(client.have.data, all, first * sizeof(*all));
    assert_memory_equal(client.need.data, all + n, more * sizeof(*all));
    free(all);
    end_side(&client);
    end_side(&server);
    return cost;
}

TEST(finds_all_differences)
{
    static const size_t sizes[] = {0, 1, 2, 31, 32, 33, 500, 20000};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            size_t first = sizes[k] < sizes[i] ? sizes[k] : sizes[i];

            check_run(sizes[i], first, sizes[k], 65536, 0);
        }
}

TEST(goes_on_after_short_answers)
{
    struct cost cost = check_run(20000, 3000, 5000, NEGENTROPY_BYTES_LEAST, 0);

    assert_true(cost.rounds > 10);
    check_run(20000, 0, 20000, NEGENTROPY_BYTES_LEAST, 0);
    check_run(0, 0, 5000, NEGENTROPY_BYTES_LEAST, 0);
    check_run(50000, 10, 10, 65536, 1000);
}

/* The target: a million resources, ten differences. */
TEST(costs_little_for_ten_differences_in_a_million)
{
    struct cost cost = check_run(1000000, 5, 5, 65536, 0);

    print_message("%u round trips, %zu bytes\n", cost.rounds, cost.bytes);
    assert_true(cost.rounds <= 6);
    assert_true(cost.bytes <= 100000);
    cost = check_run(1000000, 0, 0, 65536, 0);
    assert_int_equal(cost.rounds, 1);
}
