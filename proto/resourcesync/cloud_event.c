#include "proto/resourcesync/cloud_event.h"

#include "proto/resourcesync/json.h"

bool
cloud_event_is_name(struct slice name)
{
    return name.size > 0 &&
           slice_is_of(name, "abcdefghijklmnopqrstuvwxyz0123456789");
}

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

/* True if it is an attribute that we know nothing about: of a name that events
 * can have, and that we do not write ourselves. A data schema is that of the
 * data that came, which is a part of ours. */
static bool
is_extension(const struct attribute *a)
{
    static const char *const ours[] = {
        "specversion", "id",         "source",          "type",
        "subject",     "time",       "datacontenttype", "dataschema",
        "data",        "traceparent"};
    bool is_free =
        slice_is(a->ns, CLOUD_EVENT_NS) && cloud_event_is_name(a->name);

    for (size_t i = 0; i < N_ELEMENTS(ours); i++)
        is_free &= !slice_is(a->name, ours[i]);
    return is_free;
}

void
cloud_event_write(struct buf *to, const struct change *change,
                  const struct cloud_event_source *source)
{
    struct slice id = find_own(change, "id"), url = find_own(change, "source"),
                 type = find_own(change, "type");
    /* The time of the event that came, else that of the entry. */
    struct slice time = find_own(change, "time");
    bool has_own = type.size > 0 && change->source_us != DATETIME_NONE;
    int64_t us = has_own ? change->source_us : change->datetime_us;
    char position[POSITION_MAX], kind[64];

    if (id.size == 0 || url.size == 0) {
        position_write(position, source->epoch, change->seq);
        id = slice_of(position);
        url = source->url;
    }
    snprintf(kind, sizeof(kind), "org.resourcesync.change.%s",
             change_kind_names[change->kind]);
    BUF_ADD(to, "{\"specversion\":\"1.0\"");
    json_text_member(to, "id", id);
    json_text_member(to, "source", url);
    json_text_member(to, "type", first_of(type, slice_of(kind)));
    json_text_member(to, "subject",
                     first_of(find_own(change, "subject"), change->loc));
    if (time.size > 0)
        (void)!datetime_read(time, &us);
    json_datetime_member(to, "time", us);
    for (size_t i = 0; i < change->n_attributes; i++) {
        const struct attribute *a = &change->attributes[i];

        if (!is_extension(a))
            continue;
        buf_add_format(to, ",\"%.*s\":", SLICE_ARG(a->name));
        json_text(to, a->value);
    }
    if (traceparent_is_valid(change->traceparent))
        json_text_member(to, "traceparent", change->traceparent);
    BUF_ADD(to, ",\"datacontenttype\":\"application/json\",\"data\":");
    json_change(to, change);
    BUF_ADD(to, "}");
}

void
cloud_event_write_heartbeat(struct buf *to,
                            const struct cloud_event_source *source,
                            uint64_t after, int64_t now_us)
{
    char position[POSITION_MAX];

    position_write(position, source->epoch, after);
    buf_add_format(to, "{\"specversion\":\"1.0\",\"id\":\"%s-%" PRId64 "\"",
                   position, now_us);
    json_text_member(to, "source", source->url);
    json_text_member(to, "type", SLICE("org.resourcesync.heartbeat"));
    json_datetime_member(to, "time", now_us);
    BUF_ADD(to, "}");
}
