#include "proto/json/json_parse.h"

#include "proto/ascii.h"
#include "proto/buf.h"
#include "proto/number.h"
#include "proto/swar.h"
#include "proto/utf8.h"

/*
 * What may come next, besides white space:
 *
 *   VALUE ----------------+----> (a string, a number ...) -----> NEXT
 *   ELEMENT_OR_END (] )---+----> [ : ELEMENT_OR_END      a , : VALUE or KEY
 *                         +----> { : KEY_OR_END          the end: NEXT
 *
 *   KEY, KEY_OR_END (} ) --"name"--> COLON -- : --> VALUE
 *
 * NEXT outside of all objects and arrays is END: only white space may follow.
 * Of lines, a line feed there leads to LINE, where a line begins: with { .
 */
enum expected {
    EXPECT_VALUE,
    EXPECT_ELEMENT_OR_END,
    EXPECT_KEY,
    EXPECT_KEY_OR_END,
    EXPECT_LINE,
    EXPECT_COLON,
    EXPECT_NEXT,
    EXPECT_END
};

static const char *const expectations[] = {
    [EXPECT_VALUE] = "no value where one must be",
    [EXPECT_ELEMENT_OR_END] = "neither a value nor \"]\" behind \"[\"",
    [EXPECT_KEY] = "no name of a member behind a comma",
    [EXPECT_KEY_OR_END] = "neither the name of a member nor \"}\" behind \"{\"",
    [EXPECT_LINE] = "the line does not begin with \"{\"",
    [EXPECT_COLON] = "no colon behind the name of a member",
    [EXPECT_NEXT] = ("neither a comma nor the end of the object or array "
                     "behind a value"),
    [EXPECT_END] = "something behind the end",
};

struct json_parse {
    json_event_fn *on_event;
    void *user;

    enum status rc;
    bool is_lines;
    uint64_t line;
    enum expected expected;
    unsigned depth;
    uint32_t is_object;  /* what is open is an object, a bit each; the innermost
                            is the lowest */
    unsigned bom;        /* bytes of it that were there: utf8.h */
    size_t n_spaces;     /* that the last piece ended with */
    struct problem *why; /* of the present call */

    bool is_escaped; /* the byte behind `cut` follows a backslash */
    struct buf cut;  /* the beginning of a token, as it was written */
    struct buf text; /* a string without its escapes */
};

static void
refuse(struct json_parse *json, const char *reason)
{
    json->rc = problem(json->why, STATUS_MALFORMED, "not JSON: %s", reason);
}

/* Refuses what is wrong with the whole, or with a line. */
static void
refuse_form(struct json_parse *json, const char *reason)
{
    json->rc = problem(json->why, STATUS_MALFORMED, "not %s: %s",
                       json->is_lines ? "NDJSON" : "JSON", reason);
}

/* Refuses what ends before its end. */
static void
refuse_end(struct json_parse *json)
{
    refuse_form(json, json->is_lines ? "the line ends within its entry"
                                     : "it ends too early");
}

static void
refuse_size(struct json_parse *json)
{
    json->rc =
        problem(json->why, STATUS_INVALID,
                "a string or space of more than %d bytes", JSON_TOKEN_MAX);
}

static inline void
report(struct json_parse *json, enum json_event event, struct slice text)
{
    json->rc = json->on_event(json->user, event, text, json->why);
}

/* The receiver of events that nobody wants. */
static enum status
ignore(void *user, enum json_event event, struct slice text,
       struct problem *why)
{
    (void)user;
    (void)event;
    (void)text;
    (void)why;
    return STATUS_OK;
}

static inline bool
is_value_expected(const struct json_parse *json)
{
    return json->expected <= EXPECT_ELEMENT_OR_END;
}

static inline void
end_value(struct json_parse *json)
{
    json->expected = json->depth > 0 ? EXPECT_NEXT : EXPECT_END;
}

/* Strings */

static inline uint64_t
find_end(uint64_t v)
{
    return swar_below(v, ' ') | swar_equal(v, '"') | swar_equal(v, '\\');
}

/* Sixteen bytes looked at in one step: as signed numbers, those beyond ASCII
 * are less than a space, too. */
typedef signed char bytes16 __attribute__((vector_size(16)));

/* Returns where the first byte of a string stands that is not plain ASCII, such
 * as its end, or a place before it that is near `end`. */
static inline const char *
skip_plain(const char *at, const char *end)
{
    for (; end - at >= 16; at += 16) {
        bytes16 v, found;
        uint64_t halves[2];

        memcpy(&v, at, sizeof(v));
        found = (bytes16)((v < ' ') | (v == '"') | (v == '\\'));
        memcpy(halves, &found, sizeof(found));
        if (halves[0])
            return at + swar_first(halves[0]);
        if (halves[1])
            return at + 8 + swar_first(halves[1]);
    }
    return at;
}

/* Reports a string's content: what its escapes stand for. */
static inline void
report_string(struct json_parse *json, struct slice text)
{
    if (is_value_expected(json)) {
        end_value(json);
        report(json, JSON_STRING, text);
    } else {
        json->expected = EXPECT_COLON;
        report(json, JSON_KEY, text);
    }
}

/* Reads the four digits of an escape off the front of `rest`. */
static bool
take_hex(struct slice *rest, uint32_t *number)
{
    *number = 0;
    for (size_t i = 0; i < 4; i++) {
        unsigned digit = i < rest->size ? hex_value(rest->data[i]) : 16;

        if (digit > 15)
            return false;
        *number = *number << 4 | digit;
    }
    slice_skip(rest, 4);
    return true;
}

/* Reads an escape, of which the backslash is gone, off the front of `rest`. */
static uint32_t
take_escape(struct json_parse *json, struct slice *rest)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *letter = memchr(letters, rest->data[0], sizeof(letters) - 1);
    uint32_t c = 0, low = 0;

    slice_skip(rest, 1);
    if (letter)
        return (uint32_t)meanings[letter - letters];
    if (rest->data[-1] != 'u' || !take_hex(rest, &c)) {
        refuse(json, "an escape in a string that JSON does not have");
        return 0;
    }
    if (c < 0xd800 || c > 0xdfff)
        return c;
    if (c < 0xdc00 && slice_skip_start(rest, "\\u") && !take_hex(rest, &low))
        low = 0;
    if (low < 0xdc00 || low > 0xdfff)
        json->rc = problem(json->why, STATUS_INVALID,
                           "half of a surrogate pair in a string");
    return 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
}

/* Judges a string that is not plain ASCII. `raw` is what stands between its
 * quotes, where a control character can only be behind a backslash. */
static void
take_string(struct json_parse *json, struct slice raw)
{
    struct slice text = raw;
    uint32_t c;

    if (raw.size > 0 && memchr(raw.data, '\\', raw.size)) {
        /* Replaces the escapes. */
        buf_clear(&json->text);
        while (raw.size > 0 && !json->rc) {
            struct slice plain = slice_take(&raw, '\\');
            char utf8[UTF8_SIZE_MAX];

            buf_add_slice(&json->text, plain);
            if (raw.data == plain.data + plain.size)
                break; /* there was no backslash */
            buf_add(&json->text, utf8,
                    utf8_write(utf8, take_escape(json, &raw)));
        }
        if (json->text.failed && !json->rc)
            json->rc = problem_memory(json->why);
        text = buf_slice(&json->text);
    }
    for (size_t i = 0, n; i < text.size && !json->rc; i += n) {
        n = utf8_read(text.data + i, text.size - i, &c);
        if (n == 0)
            refuse(json, "a string that is not UTF-8");
        else if (!utf8_is_xml(c))
            json->rc =
                problem_quoting(json->why, STATUS_INVALID,
                                "a character that XML cannot carry", text);
    }
    if (!json->rc)
        report_string(json, text);
}

/* Looks for the quote that ends a string. Returns where it, or a control
 * character, stands, or `end`. */
static const char *
find_quote(struct json_parse *json, const char *at, const char *end)
{
    while (at < end) {
        if (json->is_escaped) {
            if ((unsigned char)*at < ' ')
                break;
            json->is_escaped = false;
            at++;
            continue;
        }
        at = swar_skip(at, end, find_end);
        if (at == end || *at != '\\')
            break;
        json->is_escaped = true;
        at++;
    }
    return at;
}

/* Keeps the beginning of a token that the piece cuts. */
static const char *
keep_cut(struct json_parse *json, const char *begin, const char *end)
{
    buf_add(&json->cut, begin, (size_t)(end - begin));
    if (json->cut.is_starved)
        json->rc = problem_memory(json->why);
    else if (json->cut.failed)
        refuse_size(json);
    return end;
}

/* Reads the rest of a string, from `begin`; before it stands what was cut, or
 * the quote. The search for its end begins at `at`. */
static const char *
read_rest(struct json_parse *json, const char *begin, const char *at,
          const char *end)
{
    struct slice raw;
    size_t size;

    at = find_quote(json, at, end);
    if (at == end) {
        if (json->cut.size == 0)
            buf_add(&json->cut, "\"", 1);
        return keep_cut(json, begin, end);
    }
    /* Before a look at that byte: pieces without it are too long, too. */
    size = json->cut.size > 0 ? json->cut.size - 1 : 0;
    if (size + (size_t)(at - begin) > JSON_TOKEN_MAX) {
        refuse_size(json);
        return at;
    }
    if (*at == '\n' && json->is_lines) {
        refuse_end(json);
        return at;
    }
    if (*at != '"') {
        refuse(json, "a control character in a string");
        return at;
    }
    raw = slice_between(begin, at);
    if (json->cut.size > 0) {
        keep_cut(json, begin, at);
        raw = slice_from(buf_slice(&json->cut), 1);
    }
    if (!json->rc)
        take_string(json, raw);
    buf_clear(&json->cut);
    return at + 1;
}

/* Reads a string from behind its quote on. */
static inline const char *
read_string(struct json_parse *json, const char *begin, const char *end)
{
    const char *at = skip_plain(begin, end);

    if (at == end || *at != '"' || at - begin > JSON_TOKEN_MAX)
        return read_rest(json, begin, at, end);
    report_string(json, slice_between(begin, at));
    return at + 1;
}

/* Numbers and words */

/* A byte of a number or word: not all of them are one. */
static inline bool
is_of_word(char c)
{
    return ascii_is_alnum(c) || c == '.' || c == '-' || c == '+';
}

static bool
take_digits(struct slice *rest)
{
    size_t size = rest->size;

    while (rest->size > 0 && ascii_is_digit(rest->data[0]))
        slice_skip(rest, 1);
    return rest->size < size;
}

/* RFC 8259 section 6. */
static bool
is_number(struct slice text)
{
    slice_take_char(&text, '-');
    if (!slice_take_char(&text, '0') && !take_digits(&text))
        return false;
    if (slice_take_char(&text, '.') && !take_digits(&text))
        return false;
    if (slice_take_char(&text, 'e') || slice_take_char(&text, 'E')) {
        if (!slice_take_char(&text, '+'))
            slice_take_char(&text, '-');
        if (!take_digits(&text))
            return false;
    }
    return text.size == 0;
}

static const char *
read_word(struct json_parse *json, const char *at, const char *end)
{
    const char *begin = at;
    struct slice word;
    bool is_other;

    while (at < end && is_of_word(*at))
        at++;
    if (at == end)
        return keep_cut(json, begin, end);
    word = slice_between(begin, at);
    if (json->cut.size > 0) {
        keep_cut(json, begin, at);
        word = buf_slice(&json->cut);
    }
    is_other = slice_is(word, "true") || slice_is(word, "false") ||
               slice_is(word, "null");
    if (!json->rc && word.size > JSON_TOKEN_MAX) {
        refuse_size(json);
    } else if (!json->rc && !is_other && !is_number(word)) {
        refuse(json, "neither a number nor true, false or null");
    } else if (!json->rc) {
        end_value(json);
        report(json, is_other ? JSON_OTHER : JSON_NUMBER, word);
    }
    buf_clear(&json->cut);
    return at;
}

/* Objects and arrays */

static void
open_value(struct json_parse *json, bool is_object)
{
    if (json->depth == JSON_DEPTH_MAX) {
        json->rc = problem(json->why, STATUS_INVALID, "nested deeper than %d",
                           JSON_DEPTH_MAX);
        return;
    }
    json->depth++;
    json->is_object = json->is_object << 1 | is_object;
    json->expected = is_object ? EXPECT_KEY_OR_END : EXPECT_ELEMENT_OR_END;
    report(json, is_object ? JSON_OBJECT : JSON_ARRAY, (struct slice){NULL, 0});
}

static inline bool
may_close(const struct json_parse *json, bool is_object)
{
    return json->expected ==
               (is_object ? EXPECT_KEY_OR_END : EXPECT_ELEMENT_OR_END) ||
           (json->expected == EXPECT_NEXT &&
            (json->is_object & 1) == is_object);
}

static void
refuse_byte(struct json_parse *json, char c)
{
    const char *reason = expectations[json->expected];

    if (json->expected == EXPECT_LINE)
        refuse_form(json, reason);
    else
        refuse(json,
               c == '\v' || c == '\f' ? "a vertical tab or form feed" : reason);
}

/* Reads the token at `at`; returns where it ends. */
static inline const char *
read_token(struct json_parse *json, const char *at, const char *end)
{
    if (*at == '"' && json->expected <= EXPECT_KEY_OR_END)
        return read_string(json, at + 1, end);
    switch (*at) {
    case ':':
        if (json->expected != EXPECT_COLON)
            break;
        json->expected = EXPECT_VALUE;
        return at + 1;
    case ',':
        if (json->expected != EXPECT_NEXT)
            break;
        json->expected = json->is_object & 1 ? EXPECT_KEY : EXPECT_VALUE;
        return at + 1;
    case '{':
    case '[':
        if (!is_value_expected(json) &&
            (json->expected != EXPECT_LINE || *at == '['))
            break;
        open_value(json, *at == '{');
        return at + 1;
    case '}':
    case ']':
        if (!may_close(json, *at == '}'))
            break;
        json->depth--;
        json->is_object >>= 1;
        end_value(json);
        report(json, *at == '}' ? JSON_OBJECT_END : JSON_ARRAY_END,
               (struct slice){NULL, 0});
        return at + 1;
    default:
        if (!is_value_expected(json) || !is_of_word(*at))
            break;
        return read_word(json, at, end);
    }
    refuse_byte(json, *at);
    return at;
}

/* Skips white space, counting its lines. */
static inline const char *
skip_spaces(struct json_parse *json, const char *at, const char *end)
{
    for (; at < end && slice_is_space(*at); at++) {
        if (json->n_spaces++ == JSON_TOKEN_MAX) {
            refuse_size(json);
            return at;
        }
        if (*at != '\n')
            continue;
        if (json->is_lines) {
            if (json->expected != EXPECT_END && json->expected != EXPECT_LINE) {
                refuse_end(json);
                return at;
            }
            json->expected = EXPECT_LINE;
            json->n_spaces = 0;
        }
        json->line++;
    }
    if (at < end)
        json->n_spaces = 0;
    return at;
}

/* Reads from `at` on; returns how far. */
static const char *
read_piece(struct json_parse *json, const char *at, const char *end)
{
    if (at < end && !slice_is_space(*at))
        json->n_spaces = 0;
    if (json->cut.size > 0 && at < end)
        at = json->cut.data[0] == '"' ? read_rest(json, at, at, end)
                                      : read_word(json, at, end);
    while (!json->rc && at < end) {
        if (*at <= ' ') {
            at = skip_spaces(json, at, end);
            if (at == end || json->rc)
                break;
        }
        at = read_token(json, at, end);
        /* Most tokens have the next mark right behind them. */
        if (at < end && *at == ',' && json->expected == EXPECT_NEXT) {
            json->expected = json->is_object & 1 ? EXPECT_KEY : EXPECT_VALUE;
            at++;
        } else if (at < end && *at == ':' && json->expected == EXPECT_COLON) {
            json->expected = EXPECT_VALUE;
            at++;
        }
    }
    return at;
}

static void
begin_line(struct json_parse *json)
{
    json->rc = STATUS_OK;
    json->expected = json->is_lines ? EXPECT_LINE : EXPECT_VALUE;
    json->depth = 0;
    json->n_spaces = 0;
    json->is_escaped = false;
    buf_clear(&json->cut);
}

static void
begin_text(struct json_parse *json)
{
    json->line = 1;
    json->bom = 0;
    begin_line(json);
}

static void
init_parse(struct json_parse *json, bool is_lines, json_event_fn *on_event,
           void *user)
{
    json->on_event = on_event ? on_event : ignore;
    json->user = user;
    json->is_object = 0;
    json->is_lines = is_lines;
    buf_init(&json->cut, JSON_TOKEN_MAX + 1);
    buf_init(&json->text, JSON_TOKEN_MAX);
    begin_text(json);
}

static void
fini_parse(struct json_parse *json)
{
    buf_fini(&json->cut);
    buf_fini(&json->text);
}

struct json_parse *
json_parse_new(bool is_lines, json_event_fn *on_event, void *user)
{
    struct json_parse *json = memory_room(sizeof(*json));

    if (json)
        init_parse(json, is_lines, on_event, user);
    return json;
}

void
json_parse_free(struct json_parse *json)
{
    if (!json)
        return;
    fini_parse(json);
    free(json);
}

void
json_parse_reset(struct json_parse *json)
{
    buf_clear_large(&json->cut, JSON_KEPT_BYTES);
    buf_clear_large(&json->text, JSON_KEPT_BYTES);
    begin_text(json);
}

enum status
json_parse_feed(struct json_parse *json, struct slice *bytes,
                struct problem *why)
{
    json->why = why;
    if (!json->rc && !bom_skip(&json->bom, bytes))
        refuse_form(json, "it begins with half a byte order mark");
    if (!json->rc && bytes->size > 0)
        slice_skip(bytes, (size_t)(read_piece(json, bytes->data,
                                              bytes->data + bytes->size) -
                                   bytes->data));
    return json->rc;
}

bool
json_parse_skip_line(struct json_parse *json, struct slice *bytes)
{
    struct slice rest = *bytes;

    slice_take(bytes, '\n');
    if (bytes->size == 0 && !slice_ends(rest, "\n"))
        return false;
    json->line++;
    begin_line(json);
    return true;
}

enum status
json_parse_end(struct json_parse *json, struct problem *why)
{
    json->why = why;
    if (!json->rc && json->bom > 0 && json->bom < BOM_SIZE)
        refuse_form(json, "it begins with half a byte order mark");
    if (!json->rc && json->cut.size > 0 &&
        json->cut.data[0] != '"') /* a space ends a number or word */
        read_piece(json, " ", &" "[1]);
    if (!json->rc && json->expected != EXPECT_END &&
        json->expected != EXPECT_LINE)
        refuse_end(json);
    return json->rc;
}

uint64_t
json_parse_line(const struct json_parse *json)
{
    return json->line;
}

unsigned
json_parse_depth(const struct json_parse *json)
{
    return json->depth;
}

enum status
json_parse_text(struct slice text, json_event_fn *on_event, void *user,
                struct problem *why)
{
    struct json_parse json;
    enum status rc;

    init_parse(&json, false, on_event, user);
    rc = json_parse_feed(&json, &text, why);
    if (!rc)
        rc = json_parse_end(&json, why);
    if (rc && why)
        why->line = json.line;
    fini_parse(&json);
    return rc;
}
