#include "broker/push/follow_request.h"

#include "base/array.h"
#include "broker/push/resume_text.h"
#include "proto/json/json_parse.h"
#include "proto/json_shape.h"

/* The longest value of `set`: a name, "@", a position. */
#define SET_VALUE_MAX (PATTERN_MAX + 1 + POSITION_MAX)

void
follow_request_fini(struct follow_request *r)
{
    free(r->items);
    free(r->resume);
    memset(r, 0, sizeof(*r));
}

/* resume_text_read refuses a longer text; its rest need not be kept. */
static void
set_resume(struct follow_request *r, struct slice text)
{
    if (text.size > RESUME_TEXT_MAX)
        text.size = RESUME_TEXT_MAX + 1;
    free(r->resume);
    r->resume = slice_dup(text);
}

void
follow_request_resume(struct follow_request *r, struct slice text)
{
    r->resumes_all = true;
    set_resume(r, text);
}

static struct follow_item *
add_item(struct follow_request *r)
{
    if (!ONE_MORE(r->items, &r->capacity, r->n))
        return NULL;
    r->items[r->n] = (struct follow_item){.name = ""};
    return &r->items[r->n++];
}

/* Values */

static enum status
read_name(struct follow_item *item, struct slice text, struct problem *why)
{
    item->is_pattern = text.size > 0 && memchr(text.data, '*', text.size);
    if (item->is_pattern ? !rights_is_pattern(text) : !set_name_is_valid(text))
        return problem_quoting(why, STATUS_INVALID,
                               "neither the name of a set nor a pattern", text);
    memcpy(item->name, text.data, text.size);
    item->name[text.size] = '\0';
    return STATUS_OK;
}

static enum status
read_after(struct follow_item *item, struct slice text, struct problem *why)
{
    if (position_read(text, &item->after))
        return problem_quoting(why, STATUS_INVALID,
                               "not a position, which is EPOCH-SEQ or a seq",
                               text);
    item->has_after = true;
    return STATUS_OK;
}

static enum status
check_item(const struct follow_item *item, struct problem *why)
{
    if (!item->name[0])
        return problem(why, STATUS_INVALID, "an object of follow has no set");
    if (item->has_after && item->has_since)
        return problem(why, STATUS_INVALID,
                       "since and after of %s contradict each other: give one",
                       item->name);
    if (item->is_pattern &&
        (item->has_since ||
         (item->has_after && (item->after.epoch[0] || item->after.seq > 0))))
        return problem(why, STATUS_INVALID,
                       "the sets of the pattern %s have no common position: "
                       "they begin now, or after 0",
                       item->name);
    return STATUS_OK;
}

/* Queries */

enum status
follow_request_query(struct follow_request *r, struct slice query,
                     struct problem *why)
{
    while (query.size > 0) {
        struct slice value = slice_take(&query, '&');
        struct slice parameter = slice_take(&value, '='), text, name;
        char decoded[3 * SET_VALUE_MAX];
        struct follow_item *item;
        enum status rc;
        long size = -1;

        if (slice_is(parameter, "resume")) /* nothing in it is escaped */
            follow_request_resume(r, value);
        if (!slice_is(parameter, "set"))
            continue;
        item = add_item(r);
        if (!item)
            return problem_memory(why);
        if (value.size <= sizeof(decoded))
            size = uri_decode(value, decoded);
        if (size < 0)
            return problem_quoting(why, STATUS_INVALID,
                                   "set: too long, or a bad escape", value);
        text = (struct slice){decoded, (size_t)size};
        name = slice_take(&text, '@');
        rc = read_name(item, name, why);
        if (!rc && name.size < (size_t)size)
            rc = read_after(item, text, why);
        if (!rc)
            rc = check_item(item, why);
        if (rc)
            return rc;
    }
    return STATUS_OK;
}

/* JSON */

const struct json_shape follow_item_shape = {
    "FollowItem", "A set, or the sets of a pattern",
    "set string (a name, or a pattern), after? string (a position), "
    "since? string (W3C Datetime)"};

const struct json_shape follow_shape = {
    "Follow", "Sets that a stream of many sets begins and ends to follow",
    "follow? [FollowItem], unfollow? [string], "
    "resume? string (the positions of all sets)"};

/*
 *     ROOT --{--> MEMBERS --"follow": [--> FOLLOW --{--> ITEM --"set":--> VALUE
 *                    |
 *                    +------"unfollow": [--> UNFOLLOW
 */
enum place { ROOT, MEMBERS, FOLLOW, ITEM, UNFOLLOW };

struct reading {
    struct follow_request *request;
    enum place place;
    char key[16]; /* of the value that comes next; "": none */
};

static enum status
refuse(struct problem *why)
{
    return problem(why, STATUS_INVALID,
                   "not {\"follow\": [{\"set\": NAME, \"after\": POSITION}], "
                   "\"unfollow\": [NAME], \"resume\": TEXT}");
}

static struct follow_item *
last_item(const struct reading *r)
{
    return &r->request->items[r->request->n - 1];
}

static enum status
read_string(struct reading *r, struct slice text, struct problem *why)
{
    struct follow_item *item;

    if (r->place == UNFOLLOW) {
        item = add_item(r->request);
        if (!item)
            return problem_memory(why);
        item->is_end = true;
        return read_name(item, text, why);
    }
    if (r->place == MEMBERS && !strcmp(r->key, "resume")) {
        set_resume(r->request, text);
        return STATUS_OK;
    }
    if (r->place != ITEM)
        return refuse(why);
    item = last_item(r);
    if (!strcmp(r->key, "set"))
        return read_name(item, text, why);
    if (!strcmp(r->key, "after"))
        return read_after(item, text, why);
    if (strcmp(r->key, "since") != 0)
        return refuse(why);
    if (datetime_read_any(text, &item->since_us))
        return problem_quoting(why, STATUS_INVALID, "since: not a W3C Datetime",
                               text);
    item->has_since = true;
    return STATUS_OK;
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct reading *r = user;
    bool is_end;

    switch (event) {
    case JSON_OBJECT:
        if (r->place != FOLLOW && r->place != ROOT)
            return refuse(why);
        r->place = r->place == FOLLOW ? ITEM : MEMBERS;
        return r->place == ITEM && !add_item(r->request) ? problem_memory(why)
                                                         : STATUS_OK;
    case JSON_OBJECT_END:
        is_end = r->place == ITEM;
        if (is_end)
            r->place = FOLLOW;
        return is_end ? check_item(last_item(r), why) : STATUS_OK;
    case JSON_ARRAY:
        is_end = !strcmp(r->key, "unfollow");
        if (r->place != MEMBERS || (!is_end && strcmp(r->key, "follow") != 0))
            return refuse(why);
        r->place = is_end ? UNFOLLOW : FOLLOW;
        return STATUS_OK;
    case JSON_ARRAY_END:
        r->place = MEMBERS;
        return STATUS_OK;
    case JSON_KEY:
        if (text.size >= sizeof(r->key))
            return problem_quoting(why, STATUS_INVALID, "an unknown member",
                                   text);
        snprintf(r->key, sizeof(r->key), "%.*s", SLICE_ARG(text));
        return STATUS_OK;
    case JSON_STRING:
        return read_string(r, text, why);
    case JSON_NUMBER:
    case JSON_OTHER:
        break;
    }
    return refuse(why);
}

enum status
follow_request_json(struct follow_request *request, struct slice text,
                    struct problem *why)
{
    struct reading r = {.request = request};

    return json_parse_text(text, on_event, &r, why);
}
