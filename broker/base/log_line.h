/*
 * log_line.h - one line of a log, in logfmt or as a JSON object.
 *
 *   time=2026-11-20T07:43:00.123Z level=info msg="a list is filed" list=3
 *   {"time":"2026-11-20T07:43:00.123Z","level":"info","msg":"a list is filed",
 *    "list":3}
 *
 * (in one line). The caller says name, type and value of each field; the format
 * is that of the process (log_line_set_format).
 *
 * Whatever bytes a text has, a line stays one line of UTF-8, does not command a
 * terminal, and is valid in its format: control characters, characters that
 * break lines or change their direction, quotes and backslashes are escaped as
 * in JSON, and bytes that are not UTF-8 become U+FFFD. In logfmt a plain text
 * has no quotes. A line has at most LOG_LINE_MAX bytes. A text that does not
 * fit is cut, and ends in "..."; a later field without room is left out.
 *
 * Any thread; a line belongs to its caller.
 */
#pragma once

#include "proto/slice.h"

/* Below PIPE_BUF (4,096), so that a pipe takes a line in one piece; enough for
 * the longest problem (problem.h), escaped, and some keys. */
#define LOG_LINE_MAX 2000

enum log_format { LOG_LOGFMT, LOG_JSON };

/* The format of lines that begin from now on. Any thread. */
void log_line_set_format(enum log_format format);

struct log_line {
    enum log_format format;
    size_t size;
    char text[LOG_LINE_MAX + 1];
};

/* Begins a line with the field `time`, in microseconds since 1970. Names of
 * fields are letters and _. */
void log_line_begin(struct log_line *line, int64_t time_us);

void log_line_text(struct log_line *line, const char *name, struct slice text);

/* A text that logfmt always has in quotes. */
void log_line_sentence(struct log_line *line, const char *name,
                       struct slice text);
void log_line_number(struct log_line *line, const char *name, uint64_t number);
void log_line_flag(struct log_line *line, const char *name, bool flag);

/* Seconds with six decimals: 0.001250. */
void log_line_seconds(struct log_line *line, const char *name, int64_t us);

/* As log_line_number, for one field at the end, which always has room. */
void log_line_last(struct log_line *line, const char *name, uint64_t number);

/* Ends the line with a line feed. Returns its bytes, which `line` has. */
struct slice log_line_end(struct log_line *line);
