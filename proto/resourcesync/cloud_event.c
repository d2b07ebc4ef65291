#include "proto/resourcesync/cloud_event.h"

#include "proto/resourcesync/json.h"

/* Finds what the event had that the change came as; empty: nothing. */
static struct slice
find_own(const struct change *change, const char *name)
{
    for (size_t i = 0; i < change->n_attributes; i++) {
        const struct attribute *a = &change->attributes[i];

        if (slice_is(a->ns, CLOUD_EVENT_NS) && slice_is(a->name, name))
            return a->value;
    }
    return (struct slice){NULL, 0};
}

static struct slice
first_of(struct slice a, struct slice b)
{
    return a.size > 0 ? a : b;
}

void
cloud_event_write(struct buf *to, const struct change *change,
                  const struct cloud_event_source *source)
{
    struct slice id = find_own(change, "id"), url = find_own(change, "source"),
                 type = find_own(change, "type");
    bool is_own_time = type.size > 0 && change->source_us != DATETIME_NONE;
    char position[POSITION_MAX], kind[64], time[DATETIME_SIZE];

    if (id.size == 0 || url.size == 0) {
        position_write(position, source->epoch, change->seq);
        id = slice_of(position);
        url = source->url;
    }
    snprintf(kind, sizeof(kind), "org.resourcesync.change.%s",
             change_kind_name(change->kind));
    datetime_write(time, is_own_time ? change->source_us : change->datetime_us);
    BUF_ADD(to, "{\"specversion\":\"1.0\"");
    json_text_member(to, "id", id);
    json_text_member(to, "source", url);
    json_text_member(to, "type", first_of(type, slice_of(kind)));
    json_text_member(to, "subject",
                     first_of(find_own(change, "subject"), change->loc));
    json_text_member(to, "time", (struct slice){time, sizeof(time)});
    BUF_ADD(to, ",\"datacontenttype\":\"application/json\",\"data\":");
    json_change(to, change);
    BUF_ADD(to, "}");
}

void
cloud_event_write_heartbeat(struct buf *to,
                            const struct cloud_event_source *source,
                            uint64_t after, int64_t now_us)
{
    char position[POSITION_MAX], time[DATETIME_SIZE];

    position_write(position, source->epoch, after);
    datetime_write(time, now_us);
    buf_add_format(to, "{\"specversion\":\"1.0\",\"id\":\"%s-%" PRId64 "\"",
                   position, now_us);
    json_text_member(to, "source", source->url);
    json_text_member(to, "type", SLICE("org.resourcesync.heartbeat"));
    json_text_member(to, "time", (struct slice){time, sizeof(time)});
    BUF_ADD(to, "}");
}
