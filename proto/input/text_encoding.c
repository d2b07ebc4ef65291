#include "proto/input/text_encoding.h"

#include <iconv.h>

/* Bytes that show whether it is UTF-16. */
#define FIRST_SIZE 4

/* The longest declaration; a longer one is left to the XML reader. */
#define DECLARATION_MAX 512

/* Converted at once; one character's bytes wait for the next piece. */
#define PIECE_SIZE 4096
#define CARRY_MAX  16

/*
 *   FIRST --> SPACE --> DECLARATION --> PLAIN
 *     |                     +---------> CONVERTED
 *     +--> the same, on what iconv makes of UTF-16
 */
enum stage { FIRST, SPACE, DECLARATION, PLAIN, CONVERTED };

struct text_encoding {
    text_encoding_fn *on_text;
    void *user;
    enum stage stage;
    bool is_wide;     /* UTF-16: all is converted, before the stages */
    bool has_skipped; /* white space or NULs */
    iconv_t iconv;    /* or (iconv_t)-1 */
    struct text_encoding_found found;
    char held[DECLARATION_MAX]; /* of the stages FIRST and DECLARATION */
    size_t n_held;
    char carry[CARRY_MAX + PIECE_SIZE];
    size_t n_carry;
};

/* Encodings in which an ASCII byte is an ASCII character, and as which iconv
 * reads them; NULL: under their own name. Not those with states, whose
 * converters few people read. */
static const struct known {
    const char *begin;
    const char *as;
} known[] = {
    {"iso-8859-1", "WINDOWS-1252"},
    {"iso_8859-1", "WINDOWS-1252"},
    {"iso8859-1", "WINDOWS-1252"},
    {"latin1", "WINDOWS-1252"},
    {"latin-1", "WINDOWS-1252"},
    {"l1", "WINDOWS-1252"},
    {"us-ascii", "UTF-8"},
    {"ascii", "UTF-8"},
    {"utf-8", "UTF-8"},
    {"utf8", "UTF-8"},
    /* A declaration that can be read byte by byte is not in UTF-16. */
    {"utf-16", "UTF-8"},
    {"utf-16le", "UTF-8"},
    {"utf-16be", "UTF-8"},
    {"unicode", "UTF-8"},
    {"iso-8859-", NULL},
    {"iso8859-", NULL},
    {"windows-125", NULL},
    {"cp125", NULL},
    {"koi8-", NULL},
    {"shift_jis", NULL},
    {"shift-jis", "SHIFT_JIS"},
    {"sjis", NULL},
    {"euc-jp", NULL},
    {"euc-kr", NULL},
    {"gb2312", "GBK"},
    {"gbk", NULL},
    {"gb18030", NULL},
    {"big5", NULL},
};

struct text_encoding *
text_encoding_new(text_encoding_fn *on_text, void *user)
{
    struct text_encoding *e = memory_new(1, sizeof(*e));

    if (!e)
        return NULL;
    e->on_text = on_text;
    e->user = user;
    e->iconv = (iconv_t)-1;
    return e;
}

void
text_encoding_free(struct text_encoding *e)
{
    if (e && e->iconv != (iconv_t)-1)
        iconv_close(e->iconv);
    free(e);
}

static enum status
open_converter(struct text_encoding *e, const char *from, struct slice stated,
               struct problem *why)
{
    if (stated.size >= sizeof(e->found.name))
        stated.size = sizeof(e->found.name) - 1;
    memcpy(e->found.name, stated.data, stated.size);
    e->found.name[stated.size] = '\0';
    if (!strcmp(from, "UTF-8"))
        return STATUS_OK;
    e->iconv = iconv_open("UTF-8", from);
    if (e->iconv != (iconv_t)-1)
        return STATUS_OK;
    return errno == ENOMEM
               ? problem_memory(why)
               : problem_quoting(why, STATUS_MALFORMED,
                                 "nobody here reads the encoding", stated);
}

static enum status
hand_on(struct text_encoding *e, struct slice text, struct problem *why)
{
    return text.size > 0 ? e->on_text(text, e->user, why) : STATUS_OK;
}

static enum status take_text(struct text_encoding *e, struct slice text,
                             struct problem *why);

/* Converts all but the beginning of a last character. */
static enum status
convert_piece(struct text_encoding *e, bool is_end, struct problem *why)
{
    char *in = e->carry;
    size_t n_in = e->n_carry;
    bool is_cut = false; /* more is to come */
    enum status rc = STATUS_OK;

    while (!rc && n_in > 0 && !is_cut) {
        char text[PIECE_SIZE];
        char *out = text;
        size_t n_out = sizeof(text) - 3;
        bool is_bad = iconv(e->iconv, &in, &n_in, &out, &n_out) == (size_t)-1 &&
                      errno != E2BIG;

        is_cut = is_bad && errno == EINVAL && !is_end;
        if (is_bad && !is_cut) {
            size_t size = e->is_wide && n_in > 1 ? 2 : 1;

            memcpy(out, "\xEF\xBF\xBD", 3);
            out += 3;
            in += size;
            n_in -= size;
        }
        rc = e->is_wide ? take_text(e, slice_between(text, out), why)
                        : hand_on(e, slice_between(text, out), why);
    }
    memmove(e->carry, in, n_in);
    e->n_carry = n_in;
    return rc;
}

static enum status
convert(struct text_encoding *e, struct slice bytes, struct problem *why)
{
    enum status rc = STATUS_OK;

    while (!rc && bytes.size > 0) {
        size_t n = sizeof(e->carry) - e->n_carry;

        if (n > bytes.size)
            n = bytes.size;
        memcpy(e->carry + e->n_carry, bytes.data, n);
        e->n_carry += n;
        slice_skip(&bytes, n);
        rc = convert_piece(e, false, why);
    }
    return rc;
}

/* The value of `encoding` in a declaration; empty if it has none. */
static struct slice
declared_encoding(struct slice declaration)
{
    struct slice none = {NULL, 0};
    char quote;

    if (!slice_skip_past(&declaration, "encoding"))
        return none;
    declaration = slice_without_spaces(declaration);
    if (!slice_take_char(&declaration, '='))
        return none;
    declaration = slice_without_spaces(declaration);
    quote = slice_starts(declaration, "'") ? '\'' : '"';
    if (!slice_take_char(&declaration, quote))
        return none;
    return slice_without_spaces(slice_take(&declaration, quote));
}

/* Finds how iconv reads the declared encoding; NULL: nobody here does. */
static const char *
converter_of(struct slice stated, char name[TEXT_ENCODING_NAME_SIZE])
{
    if (!slice_copy(name, TEXT_ENCODING_NAME_SIZE, stated))
        return NULL;
    for (size_t i = 0; i < N_ELEMENTS(known); i++) {
        bool is_it = known[i].as ? !strcasecmp(name, known[i].begin)
                                 : !strncasecmp(name, known[i].begin,
                                                strlen(known[i].begin));

        if (is_it)
            return known[i].as ? known[i].as : name;
    }
    return NULL;
}

/* Hands on a declaration of UTF-8; leaves out another one but its lines. */
static enum status
end_declaration(struct text_encoding *e, size_t size, struct problem *why)
{
    struct slice held = {e->held, size};
    struct slice stated = declared_encoding(held);
    char name[TEXT_ENCODING_NAME_SIZE];
    const char *from = converter_of(stated, name);
    enum status rc = STATUS_OK;

    e->found.is_behind_space = e->has_skipped;
    e->stage = PLAIN;
    if (!e->is_wide && (stated.size == 0 || slice_is_word(stated, "utf-8")))
        return hand_on(e, held, why);
    if (!e->is_wide && !from)
        return problem_quoting(why, STATUS_MALFORMED,
                               "nobody here reads the encoding", stated);
    if (!e->is_wide)
        rc = open_converter(e, from, stated, why);
    if (e->iconv != (iconv_t)-1 && !e->is_wide)
        e->stage = CONVERTED;
    for (size_t i = 0; !rc && i < size; i++)
        if (e->held[i] == '\n')
            rc = hand_on(e, SLICE("\n"), why);
    return rc;
}

/* Looks for a declaration in what follows the white space. */
static enum status
look_for_declaration(struct text_encoding *e, struct slice text, bool is_end,
                     struct problem *why)
{
    static const char begin[] = "<?xml";
    size_t n = sizeof(e->held) - e->n_held;
    size_t n_before = e->n_held;
    const char *end;
    size_t size;
    enum status rc;

    if (n > text.size)
        n = text.size;
    memcpy(e->held + e->n_held, text.data, n);
    e->n_held += n;
    size = e->n_held < sizeof(begin) ? e->n_held : sizeof(begin);
    if (memcmp(e->held, begin, size < 5 ? size : 5) ||
        (size > 5 && !slice_is_space(e->held[5]))) {
        end = NULL;
    } else {
        end = memmem(e->held, e->n_held, "?>", 2);
        if (!end && !is_end && e->n_held < sizeof(e->held))
            return STATUS_OK;
    }
    if (end) {
        size = (size_t)(end + 2 - e->held);
        rc = end_declaration(e, size, why);
    } else {
        size = e->n_held;
        e->stage = PLAIN;
        rc = hand_on(e, (struct slice){e->held, size}, why);
    }
    if (rc)
        return rc;
    slice_skip(&text, size > n_before ? size - n_before : 0);
    return take_text(e, text, why);
}

/* Text in the stages after FIRST. */
static enum status
take_text(struct text_encoding *e, struct slice text, struct problem *why)
{
    if (e->stage == SPACE) {
        /* Leaves out white space, NULs and marks, whose bytes begin no
         * document. */
        while (text.size > 0 &&
               memchr(" \t\r\n\0\xEF\xBB\xBF", text.data[0], 8)) {
            e->found.n_lines += text.data[0] == '\n';
            e->has_skipped |= (unsigned char)text.data[0] <= ' ';
            slice_skip(&text, 1);
        }
        if (text.size == 0)
            return STATUS_OK;
        e->stage = DECLARATION;
        e->n_held = 0;
    }
    if (text.size == 0)
        return STATUS_OK;
    if (e->stage == DECLARATION)
        return look_for_declaration(e, text, false, why);
    return e->stage == CONVERTED ? convert(e, text, why)
                                 : hand_on(e, text, why);
}

/* Tells UTF-16 by its mark, or by the zeros beside ASCII. */
static enum status
judge_first(struct text_encoding *e, struct problem *why)
{
    const unsigned char *b = (const unsigned char *)e->held;
    char first[FIRST_SIZE];
    struct slice bytes = {first, e->n_held};
    const char *from = NULL;

    memcpy(first, e->held, e->n_held);
    if (e->n_held >= 2 && b[0] == 0xff && b[1] == 0xfe)
        from = "UTF-16LE";
    else if (e->n_held >= 2 && b[0] == 0xfe && b[1] == 0xff)
        from = "UTF-16BE";
    if (from)
        slice_skip(&bytes, 2);
    else if (e->n_held == FIRST_SIZE && b[0] && !b[1] && b[2] && !b[3])
        from = "UTF-16LE";
    else if (e->n_held == FIRST_SIZE && !b[0] && b[1] && !b[2] && b[3])
        from = "UTF-16BE";
    e->stage = SPACE;
    e->n_held = 0;
    if (from) {
        enum status rc = open_converter(e, from, slice_of(from), why);

        e->is_wide = true;
        return rc ? rc : convert(e, bytes, why);
    }
    return take_text(e, bytes, why);
}

enum status
text_encoding_feed(struct text_encoding *e, struct slice bytes,
                   struct problem *why)
{
    enum status rc = STATUS_OK;

    while (e->stage == FIRST && bytes.size > 0 && e->n_held < FIRST_SIZE) {
        e->held[e->n_held++] = bytes.data[0];
        slice_skip(&bytes, 1);
    }
    if (e->stage == FIRST && e->n_held == FIRST_SIZE)
        rc = judge_first(e, why);
    if (rc || bytes.size == 0)
        return rc;
    return e->is_wide ? convert(e, bytes, why) : take_text(e, bytes, why);
}

enum status
text_encoding_end(struct text_encoding *e, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (e->stage == FIRST && e->n_held > 0)
        rc = judge_first(e, why);
    if (!rc && e->n_carry > 0)
        rc = convert_piece(e, true, why);
    if (!rc && e->stage == DECLARATION && e->n_held > 0)
        rc = look_for_declaration(e, (struct slice){"", 0}, true, why);
    return rc;
}

const struct text_encoding_found *
text_encoding_found(const struct text_encoding *e)
{
    return &e->found;
}
