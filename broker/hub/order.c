#include "broker/hub/order.h"

#include <stdio.h>
#include <stdlib.h>

#include <openssl/crypto.h>

/* The longest interval between two deliveries: a day. */
#define INTERVAL_MAX_S 86400

struct order *
order_new(enum order_kind kind, size_t max)
{
    struct order *order = calloc(1, sizeof(*order));

    if (!order)
        return NULL;
    order->kind = kind;
    buf_init(&order->body, SIZE_MAX);
    buf_init(&order->text, SIZE_MAX);
    buf_init(&order->memory, max);
    /* Makes all room at once: slices point into it, so it must not move. */
    if (max > 0 && !buf_room(&order->memory, max)) {
        order_free(order);
        return NULL;
    }
    return order;
}

void
order_free(struct order *order)
{
    if (!order)
        return;
    urlencoded_fini(&order->form);
    if (order->memory.data) /* it may hold a secret */
        OPENSSL_cleanse(order->memory.data, order->memory.size);
    buf_fini(&order->memory);
    buf_fini(&order->body);
    buf_fini(&order->text);
    free(order);
}

struct slice
order_keep(struct order *order, struct slice text)
{
    struct buf *memory = &order->memory;
    size_t at = memory->size;

    buf_add_slice(memory, text);
    if (memory->failed || text.size == 0)
        return (struct slice){NULL, 0};
    return (struct slice){memory->data + at, text.size};
}

/* Reads seconds, with up to six decimals. */
static enum status
read_interval(struct slice text, int64_t *us)
{
    int64_t value = 0, unit = 1000000;
    bool has_point = false, has_digit = false;

    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];

        if (c == '.' && !has_point && has_digit) {
            has_point = true;
            has_digit = false; /* a digit must follow */
            continue;
        }
        if (c < '0' || c > '9')
            return STATUS_MALFORMED;
        has_digit = true;
        if (has_point) {
            unit /= 10; /* 0 behind the sixth decimal: ignores the rest */
            value += (c - '0') * unit;
        } else {
            value = 10 * value + (int64_t)(c - '0') * 1000000;
        }
        if (value > (int64_t)INTERVAL_MAX_S * 1000000)
            return STATUS_MALFORMED;
    }
    *us = value;
    return has_digit ? STATUS_OK : STATUS_MALFORMED;
}

/* Takes an optional parameter. A repetition must have the same value. */
static enum status
take_once(struct slice name, struct slice value, bool *is_there,
          struct slice *taken, struct problem *why)
{
    if (*is_there && !slice_equal(*taken, value))
        return problem(why, STATUS_MALFORMED,
                       "%s: is there twice, with different values",
                       problem_quote(name).text);
    *is_there = true;
    *taken = value;
    return STATUS_OK;
}

static bool
is_of_filter(struct slice name)
{
    return slice_is(name, "change") || slice_is(name, "prefix") ||
           slice_is(name, "type") || slice_is(name, "tag");
}

/* Reads the optional parameters of a subscription. */
static enum status
read_wishes(struct order *order, struct problem *why)
{
    bool has_interval = false;
    struct slice interval = {NULL, 0};
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < order->form.n; i++) {
        const struct urlencoded_field *field = &order->form.fields[i];

        if (is_of_filter(field->name))
            rc = filter_add(&order->filter, field->name, field->value, why);
        else if (slice_is(field->name, "after"))
            rc = take_once(field->name, field->value, &order->has_after,
                           &order->after, why);
        else if (slice_is(field->name, "interval"))
            rc = take_once(field->name, field->value, &has_interval, &interval,
                           why);
    }
    if (!rc)
        rc = filter_seal(&order->filter, why);
    if (!rc && has_interval && read_interval(interval, &order->interval_us))
        rc = problem(why, STATUS_MALFORMED,
                     "interval: \"%s\" is not a number of seconds up to %d",
                     problem_quote(interval).text, INTERVAL_MAX_S);
    return rc;
}

/* An unsubscription has no optional parameters. */
enum status
order_read_form(struct order *order, struct slice body, struct problem *why)
{
    enum status rc = urlencoded_read(&order->form, body, why);

    if (!rc)
        rc = websub_read(&order->form, &order->request, why);
    if (rc)
        return rc;
    order->kind =
        order->request.mode == WEBSUB_PUBLISH ? ORDER_PUBLISH : ORDER_SUBSCRIBE;
    return order->request.mode == WEBSUB_SUBSCRIBE ? read_wishes(order, why)
                                                   : STATUS_OK;
}

enum status
order_read_simple(struct order *order, struct slice body, struct problem *why)
{
    bool is_there = false;
    enum status rc = urlencoded_read(&order->form, body, why);

    order->kind = ORDER_SUBSCRIBE;
    order->is_simple = true;
    order->request.mode = WEBSUB_SUBSCRIBE;
    for (size_t i = 0; !rc && i < order->form.n; i++)
        if (slice_is(order->form.fields[i].name, "callbackURI"))
            rc = take_once(order->form.fields[i].name,
                           order->form.fields[i].value, &is_there,
                           &order->request.callback, why);
    if (!rc && !is_there)
        rc = problem(why, STATUS_MALFORMED, "callbackURI: is missing");
    if (!rc)
        rc = websub_check_url(order->request.callback, "callbackURI", why);
    if (!rc)
        rc = read_wishes(order, why);
    return rc;
}
