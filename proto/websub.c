#include "proto/websub.h"

#include "proto/number.h"

static const char *const mode_names[] = {
    [WEBSUB_SUBSCRIBE] = "subscribe",
    [WEBSUB_UNSUBSCRIBE] = "unsubscribe",
    [WEBSUB_PUBLISH] = "publish",
};

const char *
websub_mode_name(enum websub_mode mode)
{
    return mode_names[mode];
}

/* Reading */

/* The value of a parameter, empty if it is not there. */
static enum status
read_parameter(const struct urlencoded_data *form, const char *name,
               struct slice *value, struct problem *why)
{
    (void)urlencoded_get(form, name, value);
    for (size_t i = 0; i < form->n; i++)
        if (slice_is(form->fields[i].name, name) &&
            !slice_equal(form->fields[i].value, *value))
            return problem(why, STATUS_MALFORMED,
                           "%s: there twice, with different values", name);
    return STATUS_OK;
}

static enum status
read_mode(const struct urlencoded_data *form, enum websub_mode *mode,
          struct problem *why)
{
    struct slice value;
    enum status rc = read_parameter(form, "hub.mode", &value, why);

    if (rc)
        return rc;
    if (value.size == 0)
        return problem(why, STATUS_MALFORMED, "hub.mode: missing or empty");
    for (size_t i = 0; i < sizeof(mode_names) / sizeof(mode_names[0]); i++)
        if (slice_is(value, mode_names[i])) {
            *mode = (enum websub_mode)i;
            return STATUS_OK;
        }
    return problem(why, STATUS_MALFORMED,
                   "hub.mode: neither \"subscribe\" nor \"unsubscribe\" nor "
                   "\"publish\": \"%s\"",
                   problem_quote(value).text);
}

static enum status
read_url(const struct urlencoded_data *form, const char *name,
         struct slice *url, struct problem *why)
{
    enum status rc = read_parameter(form, name, url, why);

    if (rc)
        return rc;
    if (url->size == 0)
        return problem(why, STATUS_MALFORMED, "%s: missing or empty", name);
    return websub_check_url(*url, name, why);
}

static enum status
read_lease(const struct urlencoded_data *form, uint64_t *lease_s,
           struct problem *why)
{
    struct slice value;
    enum status rc = read_parameter(form, "hub.lease_seconds", &value, why);
    struct slice digits = value;

    if (rc)
        return rc;
    if (value.size == 0)
        return STATUS_OK;
    for (size_t i = 0; i < value.size; i++)
        if (value.data[i] < '0' || value.data[i] > '9')
            goto refused;
    while (digits.size > 0 && digits.data[0] == '0') {
        digits.data++;
        digits.size--;
    }
    if (digits.size == 0)
        goto refused;
    if (!number_read(digits, lease_s))
        *lease_s = UINT64_MAX;
    return STATUS_OK;

refused:
    return problem(why, STATUS_MALFORMED,
                   "hub.lease_seconds: not a positive number of seconds: "
                   "\"%s\"",
                   problem_quote(value).text);
}

static enum status
check_topics(const struct urlencoded_data *form, struct problem *why)
{
    struct slice topic;
    size_t at = 0;

    if (!websub_next_topic(form, &at, &topic))
        return problem(why, STATUS_MALFORMED,
                       "hub.url or hub.topic: missing; one of them names the "
                       "topic that has changed");
    do {
        enum status rc = websub_check_url(topic, "hub.url or hub.topic", why);

        if (rc)
            return rc;
    } while (websub_next_topic(form, &at, &topic));
    return STATUS_OK;
}

enum status
websub_read(const struct urlencoded_data *form, struct websub_request *request,
            struct problem *why)
{
    enum status rc;

    *request = (struct websub_request){.lease_s = 0};
    rc = read_mode(form, &request->mode, why);
    if (rc)
        return rc;
    if (request->mode == WEBSUB_PUBLISH)
        return check_topics(form, why);

    rc = read_url(form, "hub.topic", &request->topic, why);
    if (!rc)
        rc = read_url(form, "hub.callback", &request->callback, why);
    if (!rc)
        rc = read_parameter(form, "hub.secret", &request->secret, why);
    if (!rc && request->mode == WEBSUB_SUBSCRIBE)
        rc = read_lease(form, &request->lease_s, why);
    if (rc)
        return rc;
    if (request->secret.size > WEBSUB_SECRET_MAX)
        return problem(why, STATUS_INVALID,
                       "hub.secret: %zu bytes long; at most %d are allowed",
                       request->secret.size, WEBSUB_SECRET_MAX);
    return STATUS_OK;
}

bool
websub_next_topic(const struct urlencoded_data *form, size_t *at,
                  struct slice *topic)
{
    while (*at < form->n) {
        const struct urlencoded_field *field = &form->fields[(*at)++];

        if (slice_is(field->name, "hub.url") ||
            slice_is(field->name, "hub.topic")) {
            *topic = field->value;
            return true;
        }
    }
    return false;
}

/* Composing */

/* Appends the callback, ready for parameters. Its first "?" begins the query: a
 * "?" at the end of a value, or an "&" at the end of a path, separates nothing.
 */
static void
add_callback(struct buf *to, struct slice callback)
{
    struct slice query = callback;
    struct slice path = slice_take(&query, '?');

    buf_add_slice(to, callback);
    if (path.size == callback.size)
        BUF_ADD(to, "?");
    else if (query.size > 0 && query.data[query.size - 1] != '&')
        BUF_ADD(to, "&");
}

void
websub_verification_url(struct buf *to, struct slice callback,
                        enum websub_mode mode, struct slice topic,
                        struct slice challenge, uint64_t lease_s)
{
    add_callback(to, callback);
    urlencoded_add(to, "hub.mode", slice_of(websub_mode_name(mode)));
    urlencoded_add(to, "hub.topic", topic);
    urlencoded_add(to, "hub.challenge", challenge);
    if (mode == WEBSUB_SUBSCRIBE) {
        char digits[NUMBER_SIZE_MAX];

        urlencoded_add(to, "hub.lease_seconds",
                       (struct slice){digits, number_write(digits, lease_s)});
    }
}

void
websub_denial_url(struct buf *to, struct slice callback, struct slice topic,
                  struct slice reason)
{
    add_callback(to, callback);
    urlencoded_add(to, "hub.mode", SLICE("denied"));
    urlencoded_add(to, "hub.topic", topic);
    if (reason.size > 0)
        urlencoded_add(to, "hub.reason", reason);
}
