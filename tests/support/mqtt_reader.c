#include "tests/support/mqtt_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/xmldoc.h"
#include "tests/test.h"

void
mqtt_reader_init(struct mqtt_reader *r, struct mqtt_peer *peer,
                 const char *topic, enum notice_form form)
{
    *r = (struct mqtt_reader){.peer = peer, .form = form};
    snprintf(r->topic, sizeof(r->topic), "%s", topic);
    trace_init(&r->trace);
}

void
mqtt_reader_init_after(struct mqtt_reader *r, struct mqtt_peer *peer,
                       const char *topic, enum notice_form form, uint64_t after)
{
    mqtt_reader_init(r, peer, topic, form);
    trace_init_after(&r->trace, after);
}

void
mqtt_reader_fini(struct mqtt_reader *r)
{
    trace_fini(&r->trace);
    free(r->lasts);
}

static void
check_number(const struct mqtt_heard *h, const char *name, uint64_t number)
{
    const char *value = mqtt_heard_property(h, name);
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    assert_non_null(value);
    assert_string_equal(value, text);
}

static void
check_text(const struct mqtt_heard *h, const char *name, const char *text)
{
    const char *value = mqtt_heard_property(h, name);

    assert_non_null(value);
    assert_string_equal(value, text);
}

/* The set's name is a level of the topic: PREFIX/SET/notifications. */
static void
check_properties(const struct mqtt_reader *r, const struct mqtt_heard *h,
                 const struct notice *n)
{
    const char *set = mqtt_heard_property(h, "set");
    char level[100];

    if (r->is_311) {
        assert_string_equal(h->content_type, "");
        assert_int_equal(h->n_properties, 0);
        return;
    }
    assert_string_equal(h->content_type, r->form == NOTICE_XML
                                             ? "application/xml"
                                             : "application/json");
    assert_non_null(set);
    snprintf(level, sizeof(level), "/%s/", set);
    assert_non_null(strstr(h->topic, level));
    if (r->form == NOTICE_JSON)
        assert_string_equal(n->set, set);
    check_text(h, "epoch", n->epoch);
    check_number(h, "after", n->after);
    check_number(h, "last", n->last);
    check_text(h, "from", n->from);
    check_text(h, "until", n->until);
}

/* Is it one that was heard already? If so it ends where it did. */
static bool
is_repeat(const struct mqtt_reader *r, const struct notice *n)
{
    uint64_t last = n->after < r->n_lasts ? r->lasts[n->after] : 0;

    if (n->after == r->trace.last)
        return false;
    if (last == 0)
        fail_msg("a message after %" PRIu64 " came at %" PRIu64, n->after,
                 r->trace.last);
    assert_int_equal(n->last, last);
    return true;
}

static void
remember(struct mqtt_reader *r, const struct notice *n)
{
    size_t size = r->n_lasts ? r->n_lasts : 1024;

    while (size <= n->after)
        size *= 2;
    if (size > r->n_lasts) {
        r->lasts = realloc(r->lasts, size * sizeof(*r->lasts));
        assert_non_null(r->lasts);
        memset(r->lasts + r->n_lasts, 0,
               (size - r->n_lasts) * sizeof(*r->lasts));
        r->n_lasts = size;
    }
    r->lasts[n->after] = n->last;
}

static void
take_json(struct trace *t, const struct notice *n)
{
    struct problem why = {""};

    if (!trace_epoch(t, n->epoch, &why))
        fail_msg("%s", why.text);
    for (size_t i = 0; i < n->n; i++)
        if (!trace_add(t, n->entries[i].seq, n->entries[i].datetime,
                       n->entries[i].change, n->entries[i].loc, &why))
            fail_msg("%s", why.text);
}

static void
take_xml(struct trace *t, struct slice text)
{
    struct problem why = {""};
    struct xmldoc d;

    if (!xmldoc_read(&d, text, &why) || !trace_document(t, &d, &why))
        fail_msg("%s", why.text);
    assert_string_equal(d.capability, "change-notification");
    xmldoc_free(&d);
}

static void
read_next(struct mqtt_reader *r)
{
    const struct mqtt_heard *h = mqtt_peer_next(r->peer, &r->at, r->topic);
    struct notice n = {.n = 0};

    notice_read(&n, r->form, h->payload);
    notice_check(&n);
    assert_true(n.n > 0);
    assert_false(h->is_retained);
    check_properties(r, h, &n);
    if (is_repeat(r, &n)) {
        r->n_repeats++;
    } else {
        r->n_messages++;
        remember(r, &n);
    }
    if (r->form == NOTICE_XML)
        take_xml(&r->trace, h->payload);
    else
        take_json(&r->trace, &n);
    if (h->payload.size > r->largest)
        r->largest = h->payload.size;
    notice_free(&n);
}

void
mqtt_reader_until(struct mqtt_reader *r, uint64_t last)
{
    while (r->trace.last < last)
        read_next(r);
    assert_int_equal(r->trace.last, last);
}
