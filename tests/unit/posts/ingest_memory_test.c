/* The memory of a post on its way, and its release. */
#include "tests/support/gzip.h"
#include "tests/test.h"
#include "tests/unit/posts/ingests.h"

FIXTURE(stage_open, ingests_close);

/* log.md, memory: the announced length is checked before the first byte; it
 * reserves nothing yet (design rule 6). */
TEST(judges_the_announced_length_at_once, stage_configure, ingests_close)
{
    struct problem why = {""};
    struct ingest *a, *b = NULL;

    s.config.max_body = 1000000;
    s.config.ingest_bytes = 1500000;
    sets_open(&s);
    assert_int_equal(
        ingest_begin(&b, &s.posts, SLICE("demo"), SLICE(JSON), 1000001, &why),
        STATUS_TOO_LARGE);
    assert_string_equal(why.text,
                        "a post has at most 1000000 bytes, not 1000001");
    assert_null(b);
    assert_int_equal(
        ingest_begin(&a, &s.posts, SLICE("demo"), SLICE(JSON), 1000000, &why),
        STATUS_OK);
    assert_int_equal(
        ingest_begin(&b, &s.posts, SLICE("demo"), SLICE(JSON), 1000000, &why),
        STATUS_OK);
    ingest_free(b);
    ingest_free(a);
}

/* log.md, memory: the reservation grows with the fragments: a body that was
 * announced small, or not at all, cannot hold more than all posts may. */
TEST(grows_its_reservation_with_the_fragments, stage_configure, ingests_close)
{
    struct problem why = {""};
    enum status rc = STATUS_OK;
    struct ingest *in;
    unsigned n = 0;

    s.config.ingest_bytes = 1 << 20;
    sets_open(&s);
    assert_int_equal(
        ingest_begin(&in, &s.posts, SLICE("demo"), SLICE(JSON), 0, &why),
        STATUS_OK);
    rc = ingest_feed(in, SLICE("[" ENTRY("0")), &why);
    while (!rc) {
        rc = ingest_feed(in, SLICE("," ENTRY("&&&&&&&&&&&&&&&&")), &why);
        assert_true(++n < 20000); /* 100 bytes each at least */
    }
    assert_int_equal(rc, STATUS_BUSY);
    assert_true(n > 1000);
    /* Another post finds no room until this one goes. */
    assert_int_equal(clients_take(&s.registry->clients, NULL, CLIENT_POSTS,
                                  (1 << 20) - 1000, NULL),
                     STATUS_BUSY);
    ingest_free(in);
    assert_true(ingests_hold_nothing());
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
}

static struct ingest *
begin_coded(const char *coding)
{
    struct ingest *in = NULL;

    assert_int_equal(ingest_begin(&in, &s.posts, SLICE("demo"),
                                  SLICE("application/x-ndjson"), 0, NULL),
                     STATUS_OK);
    assert_int_equal(ingest_decode(in, slice_of(coding), NULL), STATUS_OK);
    return in;
}

/* Design section 3: the content of one packet is inflated in many small steps,
 * and --max-body ends it. */
TEST(catches_up_with_gzip_in_steps, stage_configure, ingests_close)
{
    struct problem why = {""};
    enum status rc = STATUS_OK;
    struct ingest *in;
    unsigned n = 0;
    struct buf zip;

    s.config.max_body = 8 << 20;
    sets_open(&s);
    buf_init(&zip, SIZE_MAX);
    gzip_add_bomb(&zip, '\n', (size_t)10 << 20);

    in = begin_coded("gzip");
    assert_int_equal(ingest_feed(in, buf_slice(&zip), &why), STATUS_OK);
    for (; !rc && gunzip_is_behind(in->decoding.gunzip); n++)
        rc = gunzip_step(in->decoding.gunzip, &why);
    assert_int_equal(rc, STATUS_TOO_LARGE);
    assert_true(n >= 16 && n <= 40);
    ingest_free(in);

    in = begin_coded("identity");
    assert_int_equal(ingest_feed(in, SLICE(ENTRY("1")), &why), STATUS_OK);
    assert_false(gunzip_is_behind(in->decoding.gunzip));
    ingest_free(in);

    assert_int_equal(
        ingest_begin(&in, &s.posts, SLICE("demo"), SLICE(JSON), 0, NULL),
        STATUS_OK);
    assert_int_equal(ingest_decode(in, SLICE("br"), &why), STATUS_UNSUPPORTED);
    assert_string_equal(why.text, "a post is read as it is, or in gzip; not "
                                  "in \"br\"");
    ingest_free(in);
    buf_fini(&zip);
}

/* log.md, memory: bytes that wait to be inflated count as held. */
TEST(reserves_what_waits_to_be_inflated)
{
    struct problem why = {""};
    size_t others;
    struct ingest *in;
    struct buf member, zip;

    buf_init(&member, SIZE_MAX);
    buf_init(&zip, SIZE_MAX);
    gzip_add_bomb(&member, '\n', 1 << 20);
    while (zip.size <= 150000)
        buf_add_slice(&zip, buf_slice(&member));
    others = s.config.ingest_bytes - 150000;
    assert_int_equal(
        clients_take(&s.registry->clients, NULL, CLIENT_POSTS, others, NULL),
        STATUS_OK);
    in = begin_coded("gzip");

    assert_int_equal(ingest_feed(in, buf_slice(&zip), &why), STATUS_BUSY);

    ingest_free(in);
    clients_give(&s.registry->clients, NULL, CLIENT_POSTS, others);
    buf_fini(&member);
    buf_fini(&zip);
}

/* A post that breaks off is as if it had never begun. */
TEST(forgets_a_post_that_breaks_off)
{
    struct ingest *in;

    ingest_free(NULL);
    assert_int_equal(
        ingest_begin(&in, &s.posts, SLICE("demo"), SLICE(XML), 5000, NULL),
        STATUS_OK);
    assert_int_equal(
        ingest_feed(in, SLICE(XML_HEAD XML_ENTRY("1") "<url><lo"), NULL),
        STATUS_OK);
    ingest_free(in);
    assert_true(ingests_hold_nothing());
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
    assert_int_equal(
        ingests_post(XML, XML_HEAD XML_ENTRY("2") "</urlset>").first, 1);
}
