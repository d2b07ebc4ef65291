/*
 * Posted entries come out unchanged and in order, in any format and any form:
 * every row of terms.h (R-240, R-241, R-242, R-243, R-244, R-245, R-246, R-247,
 * R-248, R-249, R-250, R-024), and random entries.
 */
#include "tests/support/again.h"
#include "tests/support/terms.h"
#include "tests/test.h"
#include "tests/unit/proto/reading.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Reads a post; then its changes go every way. */
static void
assert_comes_back(const char *type, const struct buf *document,
                  const struct buf *told)
{
    struct reading reading = read_all(type, buf_slice(document));
    struct problem why = {""};
    struct again a;
    struct input_reader *reader;
    const char *fault;

    if (reading.rc)
        fail_msg("%s: entry %d: %s\n%.*s", type, (int)reading.why.entry,
                 reading.why.text, SLICE_ARG(buf_slice(document)));
    assert_int_equal(reading.text.size - 1, told->size);
    if (memcmp(reading.text.data, told->data, told->size))
        fail_msg("%s: not\n%.*sbut\n%s", type, SLICE_ARG(buf_slice(told)),
                 reading.text.data);
    reading_fini(&reading);

    again_open(&a);
    reader = input_reader_new(format_of(slice_of(type)), INPUT_POST, 50000,
                              again_add, &a);
    assert_non_null(reader);
    assert_int_equal(input_reader_feed(reader, buf_slice(document), &why), 0);
    assert_int_equal(input_reader_end(reader, &why), 0);
    fault = again_check(&a);
    if (fault)
        fail_msg("%s, %s: not\n%.*sbut\n%.*s", type, fault,
                 SLICE_ARG(buf_slice(&a.posted)), SLICE_ARG(buf_slice(&a.got)));
    input_reader_free(reader);
    again_close(&a);
}

/* R-240, R-241, R-242, R-243, R-244, R-245, R-246, R-247, R-248, R-249, R-250,
 * R-253, R-254: each row by itself. */
TEST(every_term_comes_back)
{
    struct buf document, told;

    buf_init(&document, 1 << 20);
    buf_init(&told, 1 << 20);
    for (size_t i = 0; i < n_terms; i++) {
        buf_clear(&told);
        terms_told(&told, i);
        buf_clear(&document);
        terms_json(&document, i);
        assert_comes_back(JSON, &document, &told);
        assert_comes_back(NDJSON, &document, &told);
    }
    buf_fini(&document);
    buf_fini(&told);
}

/* R-253: all of them, in order. */
TEST(all_terms_come_back_in_order)
{
    struct buf document, told;

    buf_init(&document, 1 << 20);
    buf_init(&told, 1 << 20);
    terms_told_all(&told);
    terms_xml_document(&document);
    assert_comes_back(XML, &document, &told);
    buf_clear(&document);
    terms_json_document(&document);
    assert_comes_back(JSON, &document, &told);
    buf_clear(&document);
    terms_ndjson_document(&document);
    assert_comes_back(NDJSON, &document, &told);
    buf_fini(&document);
    buf_fini(&told);
}

/* R-253, R-024: of documents as sources post them. */
TEST(examples_come_back)
{
    static const char *const names[] = {
        "odd/cdata-and-references.xml", "odd/links.xml",
        "odd/type-parameters.xml",      "odd/several-hashes.xml",
        "odd/old-lastmod.xml",          "relations.xml",
        "foreign-and-escaped.xml",      "change-list-closed.xml",
    };

    for (size_t i = 0; i < COUNT(names); i++) {
        struct slice bytes = examples_load(names[i]);
        struct reading reading = read_all(XML, bytes);
        struct buf document = {.data = (char *)bytes.data, .size = bytes.size};

        reading.text.size--; /* its NUL */
        assert_comes_back(XML, &document, &reading.text);
        reading_fini(&reading);
        free((char *)bytes.data);
    }
}

/* Entries made up by chance */

static uint64_t
next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 11;
}

/* A number below `n`. */
static size_t
below(uint64_t *seed, size_t n)
{
    return (size_t)(next_random(seed) % n);
}

static bool
perhaps(uint64_t *seed)
{
    return below(seed, 2) == 0;
}

/* Where the texts of one entry are. */
struct made {
    struct buf text; /* of a fixed size: never moves */
    struct attribute attributes[CHANGE_ATTRIBUTES_MAX];
    size_t n_attributes;
    struct link links[8];
};

/* `head`, then up to `most` of `pieces`. */
static struct slice
make_text(struct made *m, uint64_t *seed, const char *head,
          const char *const *pieces, size_t n_pieces, size_t most)
{
    size_t start = m->text.size;

    buf_add_text(&m->text, head);
    for (size_t n = below(seed, most + 1); n > 0; n--)
        buf_add_text(&m->text, pieces[below(seed, n_pieces)]);
    assert_false(m->text.failed);
    return (struct slice){m->text.data + start, m->text.size - start};
}

static struct slice
make_uri(struct made *m, uint64_t *seed, const char *head)
{
    static const char *const pieces[] = {
        "a",        "/",
        "?",        "&",
        "<",        ">",
        "\"",       "'",
        "%",        "%20",
        "#",        "=",
        "\\",       "\xc2\xa0",
        "[",        "]",
        "{",        "}",
        "&amp;",    "\xf0\x9f\x8c\x8a",
        "~",        "^",
        "`",        "|",
        "\xc3\xa5", "\xef\xbf\xbd",
        "]]>",
    };

    return make_text(m, seed, head, pieces, COUNT(pieces), 30);
}

static struct slice
make_value(struct made *m, uint64_t *seed)
{
    static const char *const pieces[] = {
        "a",
        " ",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "&",
        "<",
        ">",
        "\"",
        "'",
        "\\",
        "/",
        "&#10;",
        "]]>",
        "<!--",
        "\x7f",
        "\xc2\x80",
        "\xc2\x85",
        "\xe2\x80\xa8",
        "\xef\xbb\xbf",
        "\xf0\x9f\x8c\x8a",
        "\xf4\x8f\xbf\xbf",
        "\\u0000",
        "\xef\xbf\xbd",
        "\xee\x80\x80",
    };

    return make_text(m, seed, "", pieces, COUNT(pieces), 20);
}

static struct slice
pick(uint64_t *seed, const char *const *texts, size_t n)
{
    return slice_of(texts[below(seed, n)]);
}

#define PICK(seed, texts) pick(seed, texts, COUNT(texts))

/* Each namespace with its own names, so that no attribute comes twice. */
static void
make_attributes(struct made *m, uint64_t *seed,
                const struct attribute **attributes, size_t *n)
{
    static const char *const spaces[] = {
        "urn:a", "urn:b", NS_XML, "http://example.com/?a='1'&b=%C3%A5",
        "ns1",   "xmlns",
    };
    static const char *const prefixes[] = {
        "", "a", "rs", "td", "xml", "xmlns", "ns1", "ns2", "a b", "\xc3\xa5",
    };
    static const char *const names[] = {"a",   "href", "\xc3\xa5-._", "xmlns",
                                        "rel", "_",    "change"};

    *attributes = &m->attributes[m->n_attributes];
    *n = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct attribute *a = &m->attributes[m->n_attributes];

        if (m->n_attributes == CHANGE_ATTRIBUTES_MAX || below(seed, 5) > 0)
            continue;
        a->ns = PICK(seed, spaces);
        a->prefix = PICK(seed, prefixes);
        a->name = slice_of(names[i]);
        a->value = make_value(m, seed);
        m->n_attributes++;
        ++*n;
    }
}

static int64_t
make_time(uint64_t *seed)
{
    static const int64_t us[] = {
        DATETIME_NONE,
        0,
        1,
        -1,
        INT64_C(-62167219200000000),
        INT64_C(253402300799999999),
        INT64_C(1775067000000000),
        INT64_C(1775067000125000),
        INT64_C(951868799123456),
    };

    return us[below(seed, COUNT(us))];
}

static struct slice
make_hash(uint64_t *seed)
{
    static const char *const hashes[] = {
        "",
        "",
        "md5:D41d8cd98f00b204e9800998ecf8427E",
        "sha-1:da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "sha-1:da39a3ee5e6b4b0d3255bfef95601890afd80709"
        " md5:d41d8cd98f00b204e9800998ecf8427e",
        "sha-256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852"
        "b855 md5:d41d8cd98f00b204e9800998ecf8427e"
        " sha-1:DA39A3EE5E6B4B0D3255BFEF95601890AFD80709",
    };

    return PICK(seed, hashes);
}

static uint64_t
make_length(uint64_t *seed)
{
    static const uint64_t lengths[] = {LENGTH_NONE, 0, 1, 4294967296,
                                       INT64_MAX};

    return lengths[below(seed, COUNT(lengths))];
}

static const char *const types[] = {
    "",
    "text/csv",
    "application/vnd.api+json",
    "a/b;c=d ; e=\"f \\\" & <g>\"",
    "a/b; c=\"\xc3\xa5\"",
};

static const char *const encodings[] = {"", "gzip", "br, gzip", " & < \" "};

static void
make_link(struct made *m, uint64_t *seed, struct link *link)
{
    static const char *const rels[] = {
        "via", "duplicate", "memento", "a.b-c9", "urn:x:&<>\"'", REL_PATCH,
    };

    *link = (struct link){
        .rel = PICK(seed, rels),
        .href = make_uri(m, seed, "http://example.com/"),
        .hash = make_hash(seed),
        .type = PICK(seed, types),
        .encoding = PICK(seed, encodings),
        .modified_us = make_time(seed),
        .length = make_length(seed),
        .pri = perhaps(seed) ? (uint32_t)below(seed, 1000000) : 0,
    };
    if (slice_is(link->rel, REL_PATCH)) /* R-243 */
        link->type = SLICE("text/x-diff");
    make_attributes(m, seed, &link->attributes, &link->n_attributes);
}

static void
make_change(struct made *m, uint64_t *seed, struct change *change)
{
    static const char *const freqs[] = {"", "always", "hourly", "never"};
    static const char *const priorities[] = {
        "", "0", "1", "0.0", "1.0000", "0.12345678901234"};
    static const char *const tags[] = {"", "a", "a a b", "\xc3\xa5 &<>\"'",
                                       "\xf0\x9f\x8c\x8a ]]> \\"};

    static const char *const texts[] = {"", "a \t\r\n &amp; <b> \" ]]> \\u0041",
                                        "\xf0\x9f\x8c\x8a\x7f"};
    static const char *const traces[] = {
        "", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};
    static const char *const data[] = {
        "", "\"\"", "-0.0e+7", "[{\"a\":[]},\"]]>&#10;<\\\"\\\\\\u000a\"]",
        "{\"\":\"{\",\"a\":\":\",\"b\":\"[\"}"};

    buf_clear(&m->text);
    m->n_attributes = 0;
    change_init(change);
    change->kind = (enum change_kind)below(seed, 3);
    change->loc = make_uri(m, seed, "http://example.com/");
    change->datetime_us = make_time(seed);
    change->lastmod_us = make_time(seed);
    change->changefreq = PICK(seed, freqs);
    change->priority = PICK(seed, priorities);
    change->tags = PICK(seed, tags);
    if (change->kind != CHANGE_DELETED) {
        change->hash = make_hash(seed);
        change->length = make_length(seed);
        change->type = PICK(seed, types);
        change->encoding = PICK(seed, encodings);
    }
    make_attributes(m, seed, &change->attributes, &change->n_attributes);
    change->links = m->links;
    change->n_links = perhaps(seed) ? below(seed, COUNT(m->links) + 1) : 0;
    for (size_t i = 0; i < change->n_links; i++)
        make_link(m, seed, &m->links[i]);
    change->title = PICK(seed, texts);
    change->summary = PICK(seed, texts);
    change->author = PICK(seed, texts);
    change->data = PICK(seed, data);
    change->traceparent = PICK(seed, traces);
}

/* Every form carries each change that change_check accepts. */
TEST(entries_made_up_by_chance_come_back)
{
    const uint64_t n_rounds = test_size(60, 2000);
    static struct made m;

    buf_init(&m.text, 1 << 20);
    assert_non_null(buf_room(&m.text, 1 << 20));
    for (uint64_t round = 1; round <= n_rounds; round++) {
        uint64_t seed = round * UINT64_C(0x9e3779b97f4a7c15);
        const char *fault;
        struct again a;

        again_open(&a);
        for (int i = 0; i < 20; i++) {
            struct problem why = {""};
            struct change change;

            make_change(&m, &seed, &change);
            if (change_check(&change, &why))
                fail_msg("round %d: %s", (int)round, why.text);
            assert_int_equal(again_add(&change, &a, &why), STATUS_OK);
        }
        fault = again_check(&a);
        if (fault)
            fail_msg("round %d, %s: not\n%.*sbut\n%.*s", (int)round, fault,
                     SLICE_ARG(buf_slice(&a.posted)),
                     SLICE_ARG(buf_slice(&a.got)));
        again_close(&a);
    }
    buf_fini(&m.text);
}
