#include "proto/resourcesync/cloud_event.h"

#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/fragment.h"
#include "tests/test.h"

#define URL   "http://h/sets/s"
#define TIME  "2026-04-01T18:10:00.125000Z"
#define OLD   "2026-03-01T00:00:00Z"
#define OURS  "\"id\":\"0123456789abcdef-7\",\"source\":\"" URL "\""
#define START "{\"specversion\":\"1.0\","
#define CHANGE(kind)                                                     \
    ",\"datacontenttype\":\"application/json\",\"data\":{\"loc\":\"u\"," \
    "\"change\":\"" kind "\",\"datetime\":\"" TIME "\""

/* An entry with more attributes of its rs:md. */
#define LINE(kind, more)                                           \
    "<url><loc>u</loc><rs:md change=\"" kind "\" datetime=\"" TIME \
    "\" td:seq=\"7\"" more "/></url>\n"
#define CE(more) " xmlns:ce=\"" CLOUD_EVENT_NS "\"" more

/* W-094: an entry is an event of ours; one that came as an event is that event
 * again. */
TEST(an_event_is_ours_or_the_one_that_came)
{
    static const struct {
        const char *fragment, *begins;
    } rows[] = {
        {LINE("deleted", ""),
         START OURS ",\"type\":\"org.resourcesync.change.deleted\","
                    "\"subject\":\"u\",\"time\":\"" TIME
                    "\"" CHANGE("deleted") ",\"seq\":7}}"},
        {LINE("updated", " td:datetime=\"" OLD "\""), START OURS
         ",\"type\":\"org.resourcesync.change.updated\","
         "\"subject\":\"u\",\"time\":\"" TIME "\"" CHANGE("updated")},
        {LINE("updated", " td:datetime=\"" OLD
                         "\"" CE(" ce:type=\"a.b\" ce:subject=\"q&quot;\""
                                 " ce:source=\"/shop\" ce:id=\"1\"")),
         START
         "\"id\":\"1\",\"source\":\"/shop\",\"type\":\"a.b\","
         "\"subject\":\"q\\\"\",\"time\":\"2026-03-01T00:00:00.000000Z\""},
        /* With its extensions; not with what would be there twice, or is none.
         */
        {LINE("created",
              CE(" ce:a1=\"&lt;\" ce:data=\"x\" ce:dataschema=\"x\""
                 " ce:id=\"1\" ce:source=\"/s\" ce:specversion=\"2\""
                 " ce:time=\"2026-11-01T10:00:00+01:00\" ce:type=\"a\""
                 " ce:A=\"x\" ce:a-b=\"x\" ce:datacontenttype=\"x\"")),
         START
         "\"id\":\"1\",\"source\":\"/s\",\"type\":\"a\",\"subject\":\"u\","
         "\"time\":\"2026-11-01T09:00:00.000000Z\",\"a1\":\"<\"" CHANGE(
             "created")},
        /* Without a source an id is nobody's, and the other way round. */
        {LINE("created", CE(" ce:type=\"a.b\" ce:id=\"1\"")), START OURS
         ",\"type\":\"a.b\",\"subject\":\"u\",\"time\":\"" TIME "\""},
        {LINE("created", CE(" ce:source=\"/shop\" ce:id=\"\"")),
         START OURS ",\"type\":\"org.resourcesync.change.created\","},
        /* Of another namespace. */
        {LINE("created", " xmlns:ce=\"http://x/\" ce:type=\"a\" ce:id=\"1\""
                         " ce:source=\"/s\""),
         START OURS ",\"type\":\"org.resourcesync.change.created\","},
    };
    const struct cloud_event_source source = {SLICE(URL), "0123456789abcdef"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct entry entry;
        struct buf event;

        entry_init(&entry);
        buf_init(&event, 10000);
        assert_int_equal(fragment_read(&entry, slice_of(rows[i].fragment)), 0);
        cloud_event_write(&event, &entry.change, &source);
        if (!slice_starts(buf_slice(&event), rows[i].begins))
            fail_msg("%.*s\nand not\n%s", (int)event.size, event.data,
                     rows[i].begins);
        buf_fini(&event);
        entry_fini(&entry);
    }
}
