#include <stdlib.h>

#include "client/follow/change_batch.h"
#include "client/lib/json_fields.h"
#include "tests/fuzz/fuzz.h"

/* Longer than any input. */
#define LOC_SIZE 100000

/* The expected contents of a text. */
struct twin {
    const struct td_change *told;
    bool is_change;
    size_t n;
};

static enum status
check_twin(const struct document_entry *entry, const struct document_head *head,
           void *user)
{
    struct twin *twin = user;

    (void)head;
    FUZZ_ASSERT(twin->n++ == 0);
    FUZZ_ASSERT(slice_is(entry->change.loc, twin->told->loc));
    FUZZ_ASSERT(entry->has_kind == twin->is_change);
    FUZZ_ASSERT(
        !twin->is_change ||
        !strcmp(change_kind_names[entry->change.kind], twin->told->change));
    FUZZ_ASSERT(
        slice_equal(entry->change.hash,
                    slice_of(twin->told->hash ? twin->told->hash : "")));
    FUZZ_ASSERT(entry->change.length == twin->told->length);
    return STATUS_OK;
}

static void
check_xml(const struct td_change *told, bool is_change)
{
    static const struct document_events events = {NULL, check_twin};
    static const struct slice head =
        SLICE("<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" "
              "xmlns:rs=\"http://www.openarchives.org/rs/terms/\" "
              "xmlns:td=\"urn:tidings:1\">");
    struct twin twin = {told, is_change, 0};
    struct document *d = document_new("http://example.com/", &events, &twin);

    FUZZ_ASSERT(d);
    FUZZ_ASSERT(!document_feed(d, head, NULL));
    FUZZ_ASSERT(
        !document_feed(d, (struct slice){told->text, told->text_size}, NULL));
    FUZZ_ASSERT(!document_feed(d, SLICE("</urlset>"), NULL));
    FUZZ_ASSERT(!document_end(d, NULL));
    FUZZ_ASSERT(twin.n == 1);
    document_free(d);
}

static void
check_json(const struct td_change *told, bool is_change)
{
    static char loc[LOC_SIZE];
    char change[20] = "";
    struct json_fields_member members[] = {
        {.name = "loc", .text = loc, .size = sizeof(loc)},
        {.name = "change", .text = change, .size = sizeof(change)},
    };

    FUZZ_ASSERT(!json_fields_read((struct slice){told->text, told->text_size},
                                  members, 2, NULL));
    FUZZ_ASSERT(members[0].is_there && !strcmp(loc, told->loc));
    FUZZ_ASSERT(members[1].is_there == is_change);
    FUZZ_ASSERT(!is_change || !strcmp(change, told->change));
}

struct stage {
    struct change_batch batch;
    bool is_change;
};

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    static const struct filter all = {.text_size = 0};
    struct stage *stage = user;

    (void)head;
    FUZZ_ASSERT(
        !change_batch_add(&stage->batch, &all, entry, stage->is_change, NULL));
    return STATUS_OK;
}

static void
hand_over(struct slice bytes, enum td_form form, bool is_change)
{
    static const struct document_events events = {NULL, on_entry};
    struct stage stage = {.is_change = is_change};
    struct document *d =
        document_new("http://example.com/a/list.xml", &events, &stage);
    const struct td_change *changes;
    enum status rc;

    FUZZ_ASSERT(d);
    change_batch_init(&stage.batch, form);
    rc = document_feed(d, bytes, NULL);
    if (!rc)
        rc = document_end(d, NULL);
    document_free(d);
    changes = change_batch_seal(&stage.batch);
    for (size_t i = 0; i < change_batch_count(&stage.batch); i++) {
        FUZZ_ASSERT(!changes[i].change == !is_change);
        if (changes[i].text_size == 0)
            continue;
        FUZZ_ASSERT(changes[i].text[changes[i].text_size] == '\0');
        if (form == TD_XML)
            check_xml(&changes[i], is_change);
        else
            check_json(&changes[i], is_change);
    }
    change_batch_fini(&stage.batch);
}

/* For any document of a source, td hands over each entry with well-formed text
 * that says the same. */
FUZZ_TARGET(entry, bytes)
{
    hand_over(bytes, TD_XML, true);
    hand_over(bytes, TD_XML, false);
    hand_over(bytes, TD_JSON, true);
    hand_over(bytes, TD_JSON, false);
}
