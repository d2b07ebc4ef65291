#include "broker/bridge/rejection.h"

#include "proto/json.h"
#include "proto/mqtt_topic.h"

/* The status that a post over HTTP would get. */
static const struct answer {
    enum status rc;
    unsigned status;
    const char *title;
} answers[] = {
    {STATUS_MALFORMED, 400, "Bad Request"},
    {STATUS_NOT_FOUND, 404, "Not Found"},
    {STATUS_TOO_LARGE, 413, "Content Too Large"},
    {STATUS_UNSUPPORTED, 415, "Unsupported Media Type"},
    {STATUS_INVALID, 422, "Unprocessable Content"},
};

#define ANSWERS (sizeof(answers) / sizeof(answers[0]))

static const struct answer *
answer_of(enum status rc)
{
    for (size_t i = 0; i < ANSWERS - 1; i++)
        if (answers[i].rc == rc)
            return &answers[i];
    return &answers[ANSWERS - 1];
}

/* Adds a text unchanged if JSON can hold it. */
static void
add_text(struct buf *to, const char *name, struct slice text)
{
    bool is_plain =
        text.size <= REJECTION_TEXT_MAX && mqtt_topic_is_valid(text);

    buf_add_format(to, ",\"%s\":", name);
    json_string(to, is_plain ? text : slice_of(problem_quote(text).text));
}

void
rejection_write(struct buf *to, struct slice topic, struct slice set,
                struct slice key, enum status rc, const struct problem *why)
{
    const struct answer *answer = answer_of(rc);

    json_problem_begin(to, answer->status, answer->title, why);
    add_text(to, "topic", topic);
    add_text(to, "set", set);
    if (key.size > 0)
        add_text(to, "key", key);
    BUF_ADD(to, "}\n");
}
