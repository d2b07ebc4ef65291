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
    char *limit = to + DELIVERY_ID_SIZE, *end = to + EPOCH_SIZE;

    topic_epoch(s->topic, to);
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

/* Files the log among those with as many rows. */
static void
set_count(struct attempt_logs *all, struct attempt_log *log, unsigned n)
{
    if (log->n > 0)
        list_remove(&log->node);
    log->n = n;
    if (n > 0)
        list_append(&all->with[n], &log->node);
}

/* Takes the oldest row out; the caller corrects the count. */
static struct attempt_row *
take_oldest(struct attempt_logs *all, struct attempt_log *log)
{
    struct attempt_row *row =
        list_take(&log->rows, offsetof(struct attempt_row, node));

    all->bytes -= row ? bytes_of(row) : 0;
    return row;
}

/* Drops rows until all logs keep within their bytes. */
static void
keep_within(struct attempt_logs *all)
{
    for (unsigned n = ATTEMPTS_MAX; n > 0 && all->bytes > all->max_bytes; n--) {
        struct attempt_log *log;

        while (all->bytes > all->max_bytes &&
               (log = list_front(&all->with[n],
                                 offsetof(struct attempt_log, node)))) {
            free(take_oldest(all, log));
            log->is_cut = true;
            set_count(all, log, n - 1);
        }
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

static bool
shows_answers(const struct subscription *s)
{
    return s->kind == SUBSCRIPTION_CALLBACK &&
           !(s->terms.is_simple && s->hub->config->hub_trust_simple);
}

/* A full log has its oldest row overwritten, if the new one is as long: so most
 * deliveries need no new memory. */
void
attempt_log_add(struct subscription *s, const struct attempt_row *row,
                const struct call *call)
{
    struct attempt_logs *all = &s->hub->attempts;
    struct attempt_log *log = &s->attempts;
    bool is_answered = call->failure == CALL_ANSWERED;
    bool is_full = log->n == ATTEMPTS_MAX;
    struct slice from = is_answered ? call->answer : slice_of(call->why);
    struct attempt_row *made = is_full ? take_oldest(all, log) : NULL;
    char text[TEXT_MAX];
    size_t size =
        is_answered && !shows_answers(s) ? 0 : write_shown(text, from);

    if (made && made->size != size) {
        free(made);
        made = NULL;
    }
    if (!made)
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
    all->bytes += bytes_of(made);
    log->is_cut |= is_full;
    if (!is_full)
        set_count(all, log, log->n + 1);
    keep_within(all);
}

void
attempt_log_free(struct subscription *s)
{
    struct attempt_log *log = &s->attempts;

    struct attempt_row *row;

    while ((row = take_oldest(&s->hub->attempts, log)))
        free(row);
    set_count(&s->hub->attempts, log, 0);
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

const struct attempt_row *
attempt_log_find(const struct subscription *s, struct slice delivery)
{
    const struct attempt_row *found = NULL, *row;
    char name[DELIVERY_ID_SIZE];

    list_walk (row, &s->attempts.rows, node) {
        delivery_name_write(name, s, &row->name);
        if (row->name.last > 0 && slice_is(delivery, name))
            found = row;
    }
    return found;
}

/* Reports */

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
    json_time_member(to, "time", row->at_us);
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
        json_flag_member(to, "answerCut", true);
    json_time_member(to, "nextTry", row->next_us);
    BUF_ADD(to, "}");
}

/* From when on the log of a subscription lacks no attempt. */
static int64_t
whole_since(const struct subscription *s)
{
    int64_t from_us = s->hub->attempts.since_us;

    const struct attempt_row *oldest =
        list_front(&s->attempts.rows, offsetof(struct attempt_row, node));

    if (s->attempts.is_cut)
        return oldest ? oldest->at_us : clock_now_us();
    return s->created_us > from_us ? s->created_us : from_us;
}

void
attempt_log_report(struct buf *to, const struct subscription *s)
{
    const struct list *rows = &s->attempts.rows;

    buf_add_format(to, "{\"subscription\":%" PRIu64, s->id);
    json_time_member(to, "since", whole_since(s));
    BUF_ADD(to, ",\"attempts\":[");
    for (struct list *at = rows->prev; at != rows; at = at->prev) {
        json_separate(to, ",\n");
        attempt_row_report(to, s, list_entry(at, struct attempt_row, node));
    }
    BUF_ADD(to, "]}\n");
}
