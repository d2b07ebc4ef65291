/*
 * verify_signed_test.c - td_verify with keys: entries have to be those that a
 * checkpoint signs, and a false one is named.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/tidings.h"
#include "proto/datetime.h"
#include "proto/tlog/note.h"
#include "tests/clock.h"
#include "tests/support/made_lists.h"
#include "tests/support/site.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

#define EPOCH  "0123456789abcdef"
#define ORIGIN "example.com/sets/news/" EPOCH
#define XML    "application/xml"
#define EACH   3 /* entries of a list */
#define LISTS  3
#define LAST   (EACH * LISTS)

struct stage {
    struct history history; /* that was signed */
    struct history other;   /* from entry 5 on another one */
    struct signing_key *log, *witness, *stranger;
    struct tempdir dir;
    struct site *site;
    struct td_client *client;
    struct td_proof proof;
    int64_t time_s; /* of the next checkpoint */
};

static struct stage s;

static int64_t
now_s(void)
{
    return clock_now_us() / 1000000;
}

/* Makes the entries from `seq` on others, and their digests as they then are.
 */
static void
write_anew(struct history *h, uint64_t seq)
{
    const char *number =
        slice_find((struct slice){h->fragments[seq], h->sizes[seq]}, "n=5&");

    h->fragments[seq][number + 2 - h->fragments[seq]] = '7';
    for (uint64_t i = seq; i <= LAST; i++) {
        h->digests[i] = h->digests[i - 1];
        digest_add(&h->digests[i],
                   (struct slice){h->fragments[i], h->sizes[i]});
    }
}

static struct signing_key *
make_key(const char *secret)
{
    return signing_key_new((const unsigned char *)secret);
}

static int
set_stage(void **state)
{
    (void)state;
    memset(&s, 0, sizeof(s));
    history_init(&s.history, EPOCH);
    history_init(&s.other, EPOCH);
    write_anew(&s.other, 5);
    s.log = make_key("a key of the log, of 32 bytes!!!");
    s.witness = make_key("a key of a witness, of 32 bytes!");
    s.stranger = make_key("a key of a stranger, 32 bytes!!!");
    tempdir_open(&s.dir);
    s.site = site_new();
    s.time_s = 1767225610;
    s.client = td_open();
    assert_non_null(s.client);
    clock_skip_waits(transfers_none, NULL);
    return 0;
}

static int
clear_stage(void **state)
{
    (void)state;
    td_close(s.client);
    site_free(s.site);
    tempdir_close(&s.dir);
    signing_key_free(s.log);
    signing_key_free(s.witness);
    signing_key_free(s.stranger);
    history_fini(&s.history);
    history_fini(&s.other);
    return 0;
}

FIXTURE(set_stage, clear_stage);

/* What is signed */

static void
leaf_of(const struct history *h, uint64_t index, struct digest *hash)
{
    tree_leaf(hash, &h->digests[index + 1]);
}

/* Appends a checkpoint of the first `size` entries, signed by `log`, with the
 * time s.time_s (0: none), and cosigned by `witness`; NULL: by none. */
static void
add_checkpoint(struct buf *to, const struct history *h, const char *origin,
               uint64_t size, const struct signing_key *log,
               const struct signing_key *witness)
{
    struct checkpoint checkpoint = {.origin = slice_of(origin), .size = size};
    struct tree_edge edge = {.size = 0};
    size_t begin = to->size;
    struct slice text;

    for (uint64_t i = 0; i < size; i++) {
        struct digest hash;

        leaf_of(h, i, &hash);
        tree_edge_add(&edge, &hash);
    }
    tree_edge_root(&edge, &checkpoint.root);
    checkpoint_write(to, &checkpoint);
    text.size = to->size - begin - 1;
    text.data = slice_dup((struct slice){to->data + begin, text.size});
    if (log)
        assert_true(
            note_sign(to, text, origin, log, NOTE_SIGNATURE, 0) &&
            (s.time_s == 0 || note_sign(to, text, origin, log, NOTE_COSIGNATURE,
                                        (uint64_t)s.time_s)));
    if (witness)
        assert_true(note_sign(to, text, "witness.example", witness,
                              NOTE_COSIGNATURE, 1767225611));
    free((char *)(uintptr_t)text.data);
}

static const char *
key_text(const char *name, enum note_kind kind, const struct signing_key *pair)
{
    static char texts[4][NOTE_KEY_SIZE];
    static unsigned next;
    struct note_key key = {.kind = kind};

    next = (next + 1) % 4;
    snprintf(key.name, sizeof(key.name), "%s", name);
    memcpy(key.public, signing_key_public(pair), SIGNING_KEY_SIZE);
    note_key_write(texts[next], &key);
    return texts[next];
}

static void
trust_log(void)
{
    assert_int_equal(
        td_trust(s.client, key_text(ORIGIN, NOTE_SIGNATURE, s.log), NULL, 0),
        TD_OK);
}

static void
trust_witness(unsigned required)
{
    assert_int_equal(
        td_trust(s.client, key_text(ORIGIN, NOTE_SIGNATURE, s.log),
                 key_text("witness.example", NOTE_COSIGNATURE, s.witness),
                 required),
        TD_OK);
}

/* A directory */

static void
save(const char *name, struct slice bytes)
{
    int fd = openat(s.dir.fd, name, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    assert_int_equal(write(fd, bytes.data, bytes.size), bytes.size);
    close(fd);
}

static void
save_list(const struct history *h, unsigned number, struct buf *text)
{
    char name[40];

    buf_clear(text);
    made_list(text, h, number, (number - 1) * EACH, number * EACH, false);
    snprintf(name, sizeof(name), "%012u.xml", number);
    save(name, buf_slice(text));
}

static void
save_all(const struct history *h)
{
    struct buf text = {.max = 1 << 20};

    for (unsigned i = 1; i <= LISTS; i++)
        save_list(h, i, &text);
    buf_fini(&text);
}

static void
save_checkpoint(const struct history *h, const char *origin, uint64_t size,
                const struct signing_key *log,
                const struct signing_key *witness)
{
    struct buf text = {.max = NOTE_BYTES_MAX};

    add_checkpoint(&text, h, origin, size, log, witness);
    save("checkpoint", buf_slice(&text));
    buf_fini(&text);
}

static enum td_status
verify(void)
{
    return td_verify(s.client, s.dir.path, NULL, NULL, &s.proof);
}

static void
assert_refused(const char *reason)
{
    assert_int_equal(verify(), TD_DIFFERENT);
    if (!strstr(td_problem(s.client), reason))
        fail_msg("\"%s\" is not in \"%s\"", reason, td_problem(s.client));
    assert_null(td_checkpoint(s.client));
}

TEST(a_copy_is_what_was_signed)
{
    const struct td_checkpoint *checkpoint;

    save_all(&s.history);
    save_checkpoint(&s.history, ORIGIN, LAST, s.log, s.witness);
    assert_int_equal(verify(), TD_OK); /* without a key nobody looks */
    assert_null(td_checkpoint(s.client));
    trust_witness(1);
    assert_int_equal(verify(), TD_OK);
    checkpoint = td_checkpoint(s.client);
    assert_string_equal(checkpoint->origin, ORIGIN);
    assert_int_equal(checkpoint->size, LAST);
    assert_int_equal(checkpoint->time_s, 1767225610);
    assert_int_equal(checkpoint->is_signed, 1);
    assert_int_equal(checkpoint->n_witnesses, 1);
    save_checkpoint(&s.history, ORIGIN, LAST - 2, s.log, s.witness);
    assert_int_equal(verify(), TD_OK);
    assert_int_equal(td_checkpoint(s.client)->size, LAST - 2);
}

/* Every way to lie, and its name. */
TEST(what_was_not_signed_is_refused)
{
    trust_witness(1);
    save_all(&s.history);
    assert_refused("is missing: nothing says that these entries were signed");
    save_checkpoint(&s.history, ORIGIN, LAST, s.log, NULL);
    assert_refused("has cosignatures of 0 known witnesses, and 1 are required");
    save_checkpoint(&s.history, ORIGIN, LAST, s.log, s.stranger);
    assert_refused("has cosignatures of 0 known witnesses, and 1 are required");
    save_checkpoint(&s.history, ORIGIN, LAST, NULL, s.witness);
    assert_refused("no known key has signed the checkpoint of " ORIGIN);
    save_checkpoint(&s.history, ORIGIN, LAST, s.stranger, s.witness);
    assert_refused("no known key has signed the checkpoint of " ORIGIN);
    save_checkpoint(&s.history, "example.com/sets/olds/" EPOCH, LAST, s.log,
                    s.witness);
    assert_refused("no known key has signed the checkpoint of "
                   "example.com/sets/olds/");
    save_checkpoint(&s.history, "example.com/sets/news/fedcba9876543210", LAST,
                    s.log, s.witness);
    assert_refused("is of the log example.com/sets/news/fedcba9876543210, and "
                   "not of the epoch " EPOCH);
    save_checkpoint(&s.other, ORIGIN, LAST, s.log, s.witness);
    assert_refused("the entries 1 to 9 are not those that were signed");
    save_checkpoint(&s.other, ORIGIN, 4, s.log, s.witness);
    assert_int_equal(verify(), TD_OK); /* up to there they are */
    save_checkpoint(&s.history, ORIGIN, LAST + 1, s.log, s.witness);
    assert_refused("the checkpoint is of 10 entries, and the lists end behind "
                   "entry 9");
    save_checkpoint(&s.history, ORIGIN, LAST, s.log, s.witness);
    assert_int_equal(unlinkat(s.dir.fd, "000000000001.xml", 0), 0);
    assert_refused("only the broker has the tree of the entries before");
}

/* True for a byte of a link, and of the time when the set was made, T(0): that
 * is in no entry, and so in no digest. */
static bool
is_outside(struct slice text, size_t at)
{
    struct slice rest = text;
    size_t begin = at;

    while (begin > 0 && text.data[begin - 1] != '\n')
        begin--;
    if (slice_starts(slice_from(text, begin), "<rs:ln "))
        return true;
    return slice_skip_past(&rest, " from=\"") && at >= text.size - rest.size &&
           at < text.size - rest.size + DATETIME_SIZE;
}

/* Flips each bit of a file. A link is navigation, which nothing signs: a false
 * one is refused, or the whole history is proven all the same. */
static void
flip_bits(const char *name, const struct buf *text)
{
    for (size_t bit = 0; bit < 8 * text->size; bit++) {
        enum td_status rc;

        text->data[bit / 8] ^= (char)(1 << (bit % 8));
        save(name, buf_slice(text));
        rc = verify();
        /* A signature under another name or ID is that of a stranger. */
        if (rc == TD_OK && (is_outside(buf_slice(text), bit / 8) ||
                            td_checkpoint(s.client)->time_s == 0))
            assert_int_equal(s.proof.last, LAST);
        else if (rc == TD_OK || !td_problem(s.client)[0])
            fail_msg("bit %zu of %s: %d: %.60s", bit, name, rc,
                     text->data + bit / 8 - (bit / 8 > 30 ? 30 : bit / 8));
        text->data[bit / 8] ^= (char)(1 << (bit % 8));
    }
    save(name, buf_slice(text));
    assert_int_equal(verify(), TD_OK);
}

TEST(each_bit_of_a_history_counts)
{
    struct buf text = {.max = 1 << 20};
    char name[40];

    trust_witness(1);
    save_all(&s.history);
    save_checkpoint(&s.history, ORIGIN, LAST, s.log, s.witness);
    for (unsigned i = 1; i <= LISTS; i++) {
        save_list(&s.history, i, &text);
        snprintf(name, sizeof(name), "%012u.xml", i);
        flip_bits(name, &text);
    }
    buf_clear(&text);
    add_checkpoint(&text, &s.history, ORIGIN, LAST, s.log, s.witness);
    flip_bits("checkpoint", &text);
    buf_fini(&text);
}

/* A server */

static void
put_note(const struct history *h, uint64_t size)
{
    struct buf text = {.max = NOTE_BYTES_MAX};

    add_checkpoint(&text, h, ORIGIN, size, s.log, s.witness);
    site_put(s.site, "/checkpoint", "text/plain", buf_slice(&text));
    buf_fini(&text);
}

/* The lists of one history, checkpoint and tiles of another one. */
static void
put_all(const struct history *lists, const struct history *tree)
{
    struct digest hashes[LAST];
    struct buf text = {.max = 1 << 20};
    char url[200];

    site_putf(s.site, "/capability.xml", XML,
              "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" "
              "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"
              "<rs:ln rel=\"urn:tidings:1:checkpoint\" href=\"%s/checkpoint\"/>"
              "<rs:md capability=\"capabilitylist\"/>"
              "<url><loc>%s/changelist.xml</loc>"
              "<rs:md capability=\"changelist\"/></url></urlset>",
              site_url(s.site), site_url(s.site));
    made_list(&text, lists, 1, 0, LAST, true);
    site_put(s.site, "/changelist.xml", XML, buf_slice(&text));
    buf_fini(&text);
    for (uint64_t i = 0; i < LAST; i++)
        leaf_of(tree, i, &hashes[i]);
    snprintf(url, sizeof(url), "/tile/0/000.p/%d?" EPOCH, LAST);
    site_put(s.site, url, "application/octet-stream",
             (struct slice){(const char *)hashes, sizeof(hashes)});
    put_note(tree, LAST);
}

static enum td_status
verify_site(void)
{
    return td_verify(s.client, site_link(s.site, "/capability.xml"), NULL, NULL,
                     &s.proof);
}

TEST(a_server_is_held_to_what_it_has_signed)
{
    trust_log();
    put_all(&s.history, &s.history);
    assert_int_equal(verify_site(), TD_OK);
    assert_int_equal(td_checkpoint(s.client)->size, LAST);

    /* The history was written anew from one entry on. */
    put_all(&s.other, &s.history);
    assert_int_equal(verify_site(), TD_DIFFERENT);
    assert_non_null(
        strstr(td_problem(s.client), "entry 5 is not the one that was signed"));
    assert_int_equal(s.proof.broken_at, 4);

    /* So were the tiles, but nothing is signed anew. */
    put_all(&s.other, &s.other);
    put_note(&s.history, LAST);
    assert_int_equal(verify_site(), TD_DIFFERENT);
    assert_non_null(strstr(td_problem(s.client),
                           "the entries 1 to 9 are not those that were "
                           "signed"));

    /* Its end was cut off. */
    put_all(&s.history, &s.history);
    put_note(&s.history, LAST + 1);
    assert_int_equal(verify_site(), TD_DIFFERENT);
    assert_non_null(strstr(td_problem(s.client), "the lists end behind entry"));
}

/* Witnesses come later than the log's signature. */
TEST(the_checkpoint_that_witnesses_have_seen_is_asked_for)
{
    struct buf text = {.max = NOTE_BYTES_MAX};

    put_all(&s.history, &s.history);
    add_checkpoint(&text, &s.history, ORIGIN, LAST, s.log, NULL);
    site_put(s.site, "/checkpoint", "text/plain", buf_slice(&text));
    buf_clear(&text);
    add_checkpoint(&text, &s.history, ORIGIN, LAST - 3, s.log, s.witness);
    site_put(s.site, "/checkpoint?witnessed", "text/plain", buf_slice(&text));
    buf_fini(&text);
    trust_log();
    assert_int_equal(verify_site(), TD_OK);
    assert_int_equal(td_checkpoint(s.client)->size, LAST);
    trust_witness(1);
    assert_int_equal(verify_site(), TD_OK);
    assert_int_equal(td_checkpoint(s.client)->size, LAST - 3);
    assert_int_equal(td_checkpoint(s.client)->n_witnesses, 1);
    site_status(s.site, "/checkpoint?witnessed", 404, NULL, 0);
    assert_int_equal(verify_site(), TD_DIFFERENT);
    assert_non_null(
        strstr(td_problem(s.client), "has cosignatures of 0 known witnesses"));
}

TEST(keys_that_are_none_are_refused)
{
    assert_int_equal(td_trust(s.client, "news", NULL, 0), TD_INVALID);
    assert_int_equal(
        td_trust(s.client, key_text(ORIGIN, NOTE_COSIGNATURE, s.log), NULL, 0),
        TD_INVALID);
    assert_int_equal(
        td_trust(s.client, NULL, key_text(ORIGIN, NOTE_SIGNATURE, s.log), 0),
        TD_INVALID);
    assert_int_equal(td_trust(s.client, NULL, NULL, 1), TD_INVALID);
    assert_int_equal(td_trust(s.client, NULL, NULL, 0), TD_OK);
}

/* A text without a key turns nothing off: the keys of before stay. R-453 */
TEST(keys_that_are_missing_are_refused)
{
    static const char *const none[] = {"", "\n\n", "# news\n", "  # x\n \n"};
    const char *log = key_text(ORIGIN, NOTE_SIGNATURE, s.log);

    trust_log();
    for (size_t i = 0; i < N_ELEMENTS(none); i++) {
        assert_int_equal(td_trust(s.client, none[i], NULL, 0), TD_INVALID);
        assert_non_null(strstr(td_problem(s.client), "no key of a log"));
        assert_int_equal(td_trust(s.client, log, none[i], 0), TD_INVALID);
        assert_non_null(strstr(td_problem(s.client), "no key of a witness"));
    }
    save_all(&s.history);
    assert_refused("is missing: nothing says that these entries were signed");
}

/* Who holds a key counts once: twice in the file, or by another name. R-453 */
TEST(a_witness_counts_once)
{
    const char *log = key_text(ORIGIN, NOTE_SIGNATURE, s.log);
    const char *one = key_text("witness.example", NOTE_COSIGNATURE, s.witness);
    const char *alias = key_text("alias.example", NOTE_COSIGNATURE, s.witness);
    const char *other = key_text("other.example", NOTE_COSIGNATURE, s.stranger);

    const struct {
        const char *keys[3];
        unsigned required;
        enum td_status known, status; /* of td_trust, td_verify */
    } rows[] = {
        {{one, one}, 1, TD_OK, TD_OK},
        {{one, one}, 2, TD_INVALID, TD_OK},
        {{one, alias}, 0, TD_OK, TD_OK}, /* of all: that is one */
        {{alias, one}, 0, TD_OK, TD_OK}, /* with the second name */
        {{one, alias}, 2, TD_INVALID, TD_OK},
        {{one, alias, other}, 2, TD_OK, TD_DIFFERENT},
        {{one, alias, other}, 1, TD_OK, TD_OK},
    };

    save_all(&s.history);
    save_checkpoint(&s.history, ORIGIN, LAST, s.log, s.witness);
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        char text[3 * NOTE_KEY_SIZE] = "";

        for (size_t k = 0; k < 3 && rows[i].keys[k]; k++)
            strcat(strcat(text, rows[i].keys[k]), "\n");
        assert_int_equal(td_trust(s.client, log, text, rows[i].required),
                         rows[i].known);
        if (rows[i].known)
            continue;
        assert_int_equal(verify(), rows[i].status);
        if (!rows[i].status)
            assert_int_equal(td_checkpoint(s.client)->n_witnesses, 1);
    }
}

/* The time of a checkpoint is its key's: a line that was cut off, and a time to
 * come, say nothing. R-452 */
TEST(a_checkpoint_has_a_time_that_has_come)
{
    const struct {
        int64_t time_s; /* 0: none */
        const char *reason;
    } rows[] = {
        {0, "has signed no time"},
        {now_s() + 301, "clock is more than 5 minutes behind"},
        {now_s() + INT64_C(30) * 366 * 86400, "is dated 20"},
        {now_s() + 300, NULL},
        {now_s(), NULL},
    };

    save_all(&s.history);
    trust_log();
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        s.time_s = rows[i].time_s;
        save_checkpoint(&s.history, ORIGIN, LAST, s.log, NULL);
        if (rows[i].reason)
            assert_refused(rows[i].reason);
        else
            assert_int_equal(verify(), TD_OK);
    }
}
