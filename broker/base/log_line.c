#include "broker/base/log_line.h"

#include "base/relaxed.h"
#include "proto/datetime.h"
#include "proto/utf8.h"

/* Kept free for log_line_last, with a name of up to 14 letters, and for the end
 * of the line. */
#define TAIL_SIZE 40

/* A field whose value may not have so much room is left out. It is more than
 * any value but a text needs. */
#define VALUE_LEAST 40

/* "2026-11-20T07:43:00.123": datetime_write's six decimals, cut to three. */
#define TIME_SIZE 23

/* Relaxed: a line that begins at the moment of a change may have either. */
static atomic_int chosen = LOG_LOGFMT;

void
log_line_set_format(enum log_format format)
{
    store_relaxed(&chosen, (int)format);
}

static void
add_bytes(struct log_line *line, const char *bytes, size_t size)
{
    memcpy(line->text + line->size, bytes, size);
    line->size += size;
}

#define ADD(line, literal) add_bytes((line), (literal), sizeof(literal) - 1)

/* Room for one character: "\\u2028", or four bytes. */
#define ESCAPE_SIZE 16

/* Writes the next character of `text`, escaped for quotes, and returns how many
 * bytes of `text` it takes. Escapes controls (C0, DEL, C1), line and paragraph
 * separators, and characters that change the direction of text. */
static size_t
escape_text(struct slice text, char to[ESCAPE_SIZE])
{
    uint32_t c = 0;
    size_t n = utf8_read(text.data, text.size, &c);

    if (n == 0) {
        memcpy(to, "\xef\xbf\xbd", 4);
        return 1;
    }
    if (c == '"' || c == '\\')
        snprintf(to, ESCAPE_SIZE, "\\%c", (int)c);
    else if (c == '\n')
        memcpy(to, "\\n", 3);
    else if (c < 0x20 || (c >= 0x7f && c < 0xa0) ||
             (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
        snprintf(to, ESCAPE_SIZE, "\\u%04x", (unsigned)c);
    else
        snprintf(to, ESCAPE_SIZE, "%.*s", (int)n, text.data);
    return n;
}

static void
add_quoted(struct log_line *line, struct slice text)
{
    static const char cut[] = "...\"";
    size_t end = LOG_LINE_MAX - TAIL_SIZE - (sizeof(cut) - 1);

    ADD(line, "\"");
    while (text.size > 0) {
        char c[ESCAPE_SIZE];
        size_t n;

        if (*text.data >= ' ' && *text.data < 0x7f && *text.data != '"' &&
            *text.data != '\\' && line->size < end) {
            add_bytes(line, text.data++, 1);
            text.size--;
            continue;
        }
        n = escape_text(text, c);
        if (line->size + strlen(c) > end) {
            ADD(line, cut);
            return;
        }
        add_bytes(line, c, strlen(c));
        slice_skip(&text, n);
    }
    ADD(line, "\"");
}

static void
add_name(struct log_line *line, const char *name)
{
    bool is_first = line->size == 0;

    if (line->format == LOG_JSON) {
        add_bytes(line, is_first ? "{\"" : ",\"", 2);
        add_bytes(line, name, strlen(name));
        ADD(line, "\":");
        return;
    }
    add_bytes(line, " ", is_first ? 0 : 1);
    add_bytes(line, name, strlen(name));
    ADD(line, "=");
}

/* False: there is no room for the field. */
static bool
begin_field(struct log_line *line, const char *name)
{
    if (LOG_LINE_MAX - TAIL_SIZE < line->size + strlen(name) + VALUE_LEAST)
        return false;
    add_name(line, name);
    return true;
}

/* Adds a field whose value needs no quotes in any format. */
static void
add_field(struct log_line *line, const char *name, const char *value)
{
    if (begin_field(line, name))
        add_bytes(line, value, strlen(value));
}

void
log_line_begin(struct log_line *line, int64_t time_us)
{
    char text[DATETIME_SIZE];

    line->format = (enum log_format)load_relaxed(&chosen);
    line->size = 0;
    datetime_write(text, time_us);
    memcpy(text + TIME_SIZE, "Z", 1);
    log_line_text(line, "time", (struct slice){text, TIME_SIZE + 1});
}

void
log_line_text(struct log_line *line, const char *name, struct slice text)
{
    bool is_plain = line->format == LOG_LOGFMT && text.size > 0;

    if (!begin_field(line, name))
        return;
    for (size_t i = 0; is_plain && i < text.size; i++)
        is_plain = text.data[i] > ' ' && text.data[i] < 0x7f &&
                   !strchr("\"=\\", text.data[i]);
    if (is_plain && text.size <= LOG_LINE_MAX - TAIL_SIZE - line->size)
        add_bytes(line, text.data, text.size);
    else
        add_quoted(line, text);
}

void
log_line_sentence(struct log_line *line, const char *name, struct slice text)
{
    if (begin_field(line, name))
        add_quoted(line, text);
}

void
log_line_number(struct log_line *line, const char *name, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    add_field(line, name, text);
}

void
log_line_flag(struct log_line *line, const char *name, bool flag)
{
    add_field(line, name, flag ? "true" : "false");
}

void
log_line_seconds(struct log_line *line, const char *name, int64_t us)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64 ".%06" PRId64, us / 1000000,
             us % 1000000);
    add_field(line, name, text);
}

void
log_line_last(struct log_line *line, const char *name, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    add_name(line, name);
    add_bytes(line, text, strlen(text));
}

struct slice
log_line_end(struct log_line *line)
{
    if (line->format == LOG_JSON)
        ADD(line, "}");
    ADD(line, "\n");
    return (struct slice){line->text, line->size};
}
