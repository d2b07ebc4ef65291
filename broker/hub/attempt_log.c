#include "broker/hub/attempt_log.h"

#include "broker/hub/hub_state.h"
#include "proto/number.h"
#include "proto/resourcesync/json.h"
#include "proto/utf8.h"

const struct json_shape attempt_shape = {
    "Attempt", "An attempt to deliver to a subscription",
    "time time, kind 'delivery'|'again'|'test', delivery? string (its "
    "Tidings-Delivery), first? count, last? count, entries count, try count, "
    "outcome 'delivered'|'failed'|'skipped'|'ended', status? count (HTTP), "
    "ms count, answer? string (the first 200 bytes), answerCut? flag, "
    "error? string (why there is no answer), nextTry? time"};

const struct json_shape attempts_shape = {
    "Attempts", "The last attempts of a subscription, the newest first",
    "subscription count, since? time (none is missing since then), "
    "attempts [Attempt]"};

/* Each byte of an answer may become U+FFFD. */
#define TEXT_MAX (3 * ATTEMPT_ANSWER_KEPT)

/* Names */

void
delivery_name_write(char to[DELIVERY_ID_SIZE], const struct subscription *s,
                    const struct delivery_name *name)
{
    const uint64_t numbers[] = {s->id, name->after, name->last};
    char *limit = to + DELIVERY_ID_SIZE, *end = stpcpy(to, s->topic->epoch);

    for (size_t i = 0; i < N_ELEMENTS(numbers); i++) {
        *end++ = '-';
        end += number_write(end, numbers[i]);
    }
    *end = '\0';
    if (name->form != 0)
        end += snprintf(end, (size_t)(limit - end), "-%08" PRIx32, name->form);
    if (name->generation != 0)
        end += snprintf(end, (size_t)(limit - end), "-r%" PRIu32,
                        name->generation);
    if (name->single_us != 0)
        snprintf(end, (size_t)(limit - end), "-s%" PRId64, name->single_us);
}

/* Rows */

static size_t
bytes_of(const struct attempt_row *row)
{
    return sizeof(*row) + row->size;
}

/* Moves a log to those with as many rows as it has now. */
static void
file_log(struct attempt_logs *all, struct attempt_log *log)
{
    list_put(&all->with[log->n], &log->node);
}

static void
drop_row(struct attempt_logs *all, struct attempt_log *log,
         struct attempt_row *row)
{
    list_remove(&row->node);
    all->bytes -= bytes_of(row);
    free(row);
    log->n--;
}

static void
drop_oldest(struct attempt_logs *all, struct attempt_log *log)
{
    drop_row(all, log, list_entry(log->rows.next, struct attempt_row, node));
    log->is_cut = true;
    file_log(all, log);
}

/* Makes room for as many bytes. */
static void
keep_within(struct attempt_logs *all, size_t bytes)
{
    for (unsigned n = ATTEMPTS_MAX; n > 0; n--) {
        struct attempt_log *log;

        while (all->bytes + bytes > all->max_bytes &&
               (log = list_front(&all->with[n],
                                 offsetof(struct attempt_log, node))))
            drop_oldest(all, log);
    }
}

/* Writes a stranger's text for people: white space as blanks, and U+FFFD for
 * other controls and for what is no UTF-8. A character that the limit has cut
 * in two is left out. */
static size_t
write_shown(char to[TEXT_MAX], struct slice text)
{
    bool is_cut = text.size > ATTEMPT_ANSWER_KEPT;
    size_t size = 0;

    if (is_cut)
        text.size = ATTEMPT_ANSWER_KEPT;
    while (text.size > 0) {
        uint32_t c;
        size_t n = utf8_read(text.data, text.size, &c);

        if (n == 0 && is_cut && text.size < UTF8_SIZE_MAX &&
            (unsigned char)*text.data >= 0xc0)
            break;
        if (n > 0 && (c == '\t' || c == '\n' || c == '\r'))
            c = ' ';
        else if (n == 0 || c < ' ' || (c >= 0x7f && c < 0xa0))
            c = 0xfffd;
        size += utf8_write(to + size, c);
        slice_skip(&text, n > 0 ? n : 1);
    }
    return size;
}

static struct attempt_log *
log_of(struct subscription *s)
{
    struct attempt_log *log = s->attempts;

    if (log)
        return log;
    log = s->attempts = memory_new(1, sizeof(*log));
    list_init(&log->node);
    list_init(&log->rows);
    return log;
}

static bool
shows_answers(const struct subscription *s)
{
    return s->kind == SUBSCRIPTION_CALLBACK &&
           !(s->terms.is_simple && s->hub->config->hub_trust_simple);
}

void
attempt_log_add(struct subscription *s, const struct attempt_row *row,
                const struct call *call)
{
    struct attempt_logs *all = &s->hub->attempts;
    struct attempt_log *log = log_of(s);
    bool is_answered = call->failure == CALL_ANSWERED;
    struct slice from = is_answered ? call->answer : slice_of(call->why);
    struct attempt_row *made;
    char text[TEXT_MAX];
    size_t size =
        is_answered && !shows_answers(s) ? 0 : write_shown(text, from);

    if (log->n == ATTEMPTS_MAX)
        drop_oldest(all, log);
    keep_within(all, sizeof(*made) + size);
    made = memory_room(sizeof(*made) + size);
    *made = *row;
    made->at_us = clock_now_us() - call->took_us;
    made->took_ms = (uint32_t)(call->took_us / 1000);
    made->status = (uint16_t)call->status;
    made->is_cut = size > 0 && is_answered &&
                   (call->is_cut || from.size > ATTEMPT_ANSWER_KEPT);
    made->size = (uint16_t)size;
    memcpy(made->text, text, size);
    list_append(&log->rows, &made->node);
    log->n++;
    all->bytes += bytes_of(made);
    file_log(all, log);
}

void
attempt_log_free(struct subscription *s)
{
    struct attempt_log *log = s->attempts;

    if (!log)
        return;
    while (!list_is_empty(&log->rows))
        drop_row(&s->hub->attempts, log,
                 list_entry(log->rows.next, struct attempt_row, node));
    list_remove(&log->node);
    free(log);
    s->attempts = NULL;
}

void
attempt_logs_open(struct attempt_logs *all)
{
    for (size_t i = 0; i < N_ELEMENTS(all->with); i++)
        list_init(&all->with[i]);
    all->max_bytes = ATTEMPT_LOGS_BYTES;
    all->since_us = clock_now_us();
}

/* Looking */

/* The row before `row`; before NULL the newest one. NULL: there is none. */
static const struct attempt_row *
row_before(const struct subscription *s, const struct attempt_row *row)
{
    const struct attempt_log *log = s->attempts;
    struct list *node;

    if (!log)
        return NULL;
    node = row ? row->node.prev : log->rows.prev;
    return node == &log->rows ? NULL
                              : list_entry(node, struct attempt_row, node);
}

const struct attempt_row *
attempt_log_last(const struct subscription *s)
{
    return row_before(s, NULL);
}

const struct attempt_row *
attempt_log_find(const struct subscription *s, struct slice delivery)
{
    const struct attempt_row *row = NULL;
    char name[DELIVERY_ID_SIZE];

    while ((row = row_before(s, row))) {
        delivery_name_write(name, s, &row->name);
        if (row->name.last > 0 && slice_is(delivery, name))
            break;
    }
    return row;
}

/* Reports */

static void
add_time(struct buf *to, const char *name, int64_t us)
{
    char text[DATETIME_SIZE];

    buf_add_format(to, "\"%s\":\"%.*s\"", name,
                   (int)datetime_write_short(text, us), text);
}

void
attempt_row_report(struct buf *to, const struct subscription *s,
                   const struct attempt_row *row)
{
    static const char *const kinds[] = {"delivery", "again", "test"};
    static const char *const outcomes[] = {"delivered", "failed", "skipped",
                                           "ended"};
    struct slice text = {row->text, row->size};
    char name[DELIVERY_ID_SIZE];

    BUF_ADD(to, "{");
    add_time(to, "time", row->at_us);
    json_text_member(to, "kind", slice_of(kinds[row->kind]));
    if (row->name.last > 0 || row->kind == ATTEMPT_TEST) {
        delivery_name_write(name, s, &row->name);
        json_text_member(to, "delivery", slice_of(name));
    }
    if (row->n_entries > 0) {
        json_number_member(to, "first", row->name.after + 1);
        json_number_member(to, "last", row->name.last);
    }
    json_number_member(to, "entries", row->n_entries);
    json_number_member(to, "try", row->tries);
    json_text_member(to, "outcome", slice_of(outcomes[row->outcome]));
    if (row->status > 0)
        json_number_member(to, "status", row->status);
    json_number_member(to, "ms", row->took_ms);
    if (row->size > 0)
        json_text_member(to, row->status > 0 ? "answer" : "error", text);
    if (row->is_cut)
        BUF_ADD(to, ",\"answerCut\":true");
    if (row->next_us > 0) {
        BUF_ADD(to, ",");
        add_time(to, "nextTry", row->next_us);
    }
    BUF_ADD(to, "}");
}

/* From when on the log of a subscription lacks no attempt. */
static int64_t
whole_since(const struct subscription *s)
{
    const struct attempt_log *log = s->attempts;
    int64_t from_us = s->hub->attempts.since_us;

    if (log && log->is_cut)
        return list_is_empty(&log->rows)
                   ? clock_now_us()
                   : list_entry(log->rows.next, struct attempt_row, node)
                         ->at_us;
    return s->created_us > from_us ? s->created_us : from_us;
}

void
attempt_log_report(struct buf *to, const struct subscription *s)
{
    const struct attempt_row *row = NULL;
    const char *before = "";

    buf_add_format(to, "{\"subscription\":%" PRIu64 ",", s->id);
    add_time(to, "since", whole_since(s));
    BUF_ADD(to, ",\"attempts\":[");
    while ((row = row_before(s, row))) {
        buf_add_text(to, before);
        attempt_row_report(to, s, row);
        before = ",\n";
    }
    BUF_ADD(to, "]}\n");
}
