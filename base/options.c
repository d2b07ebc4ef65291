#include "base/options.h"

#include "base/suggest.h"
#include "proto/number.h"
#include "proto/uri.h"

static enum status
not_a(struct problem *why, const char *text, const char *what)
{
    return problem(why, STATUS_INVALID, "\"%s\" is not %s",
                   problem_quote(slice_of(text)).text, what);
}

/* Texts */

enum status
option_text(const char *text, char *to, size_t room, struct problem *why)
{
    size_t size = strlen(text);

    if (size == 0)
        return problem(why, STATUS_INVALID, "is empty");
    if (size >= room)
        return problem(why, STATUS_INVALID, "is longer than %zu bytes",
                       room - 1);
    memcpy(to, text, size + 1);
    return STATUS_OK;
}

/* Reads decimal digits; returns their end, NULL: something else. */
static const char *
read_port(const char *text, unsigned *port)
{
    struct slice digits = {text, strspn(text, "0123456789")};
    uint64_t number;

    if (digits.size > 5 || !number_read(digits, &number) || number > UINT16_MAX)
        return NULL;
    *port = (unsigned)number;
    return text + digits.size;
}

static enum status
read_url(const char *text, char *to, size_t room, struct problem *why)
{
    enum status rc = option_text(text, to, room, why);
    const char *host = NULL, *end;
    unsigned port;

    if (rc)
        return rc;
    if (uri_check(slice_of(text), "URL", NULL))
        return not_a(why, text, "a URL");
    if (slice_starts(slice_of(text), "http://"))
        host = text + strlen("http://");
    else if (slice_starts(slice_of(text), "https://"))
        host = text + strlen("https://");
    else
        return not_a(why, text, "an http:// or https:// URL");
    if (strpbrk(text, "?#"))
        return problem(why, STATUS_INVALID,
                       "\"%s\" has a query or a fragment; paths are put "
                       "behind it",
                       problem_quote(slice_of(text)).text);
    /* HOST or HOST:PORT, HOST being a name or [ADDRESS]. Refuses a user before
     * it: that could look like a host ("localhost:80@example.org"), and
     * documents would publish it. */
    end = host + strcspn(host, *host == '[' ? "]/" : ":/@[]");
    if (*host == '[')
        end = *end == ']' ? end + 1 : host;
    if (end > host && *end == ':')
        end = read_port(end + 1, &port);
    if (!end || end == host || (*end && *end != '/'))
        return problem(why, STATUS_INVALID,
                       "\"%s\" has something else than HOST or HOST:PORT "
                       "before its path",
                       problem_quote(slice_of(text)).text);

    for (size_t size = strlen(to); to[size - 1] == '/'; size--)
        to[size - 1] = '\0';
    return STATUS_OK;
}

/* HOST:PORT, or [ADDRESS]:PORT for an address that has colons itself. */
enum status
option_listen(const char *text, char *to, size_t room, unsigned *port,
              struct problem *why)
{
    static const char form[] =
        "HOST:PORT, such as 127.0.0.1:8787 or [::1]:8787";
    const char *host = text;
    const char *colon = strrchr(text, ':');
    const char *end;
    size_t size;

    if (!colon)
        return not_a(why, text, form);
    size = (size_t)(colon - host);
    if (size > 2 && host[0] == '[' && host[size - 1] == ']') {
        host++;
        size -= 2;
        if (!memchr(host, ':', size))
            return not_a(why, text, form);
    } else if (memchr(host, ':', size)) {
        return not_a(why, text, form);
    }

    end = read_port(colon + 1, port);
    if (size == 0 || size >= room || !end || *end)
        return not_a(why, text, form);
    for (size_t i = 0; i < size; i++)
        if (host[i] <= ' ' || host[i] == 0x7f || strchr("[]/\\\"", host[i]))
            return not_a(why, text, form);
    snprintf(to, room, "%.*s", (int)size, host);
    return STATUS_OK;
}

/* Numbers */

/*
 * Reads digits and at most `decimals` decimals as a whole number of the
 * smallest unit ("0.25" with 6 is 250000), exactly: floating point would round.
 * Refuses more decimals, because cutting them could make 0 of a number, and 0
 * often means never. Returns the end of the number, NULL if there is none. A
 * number too large for the type becomes its maximum, which exceeds every limit.
 */
static const char *
read_decimal(const char *text, int decimals, uint64_t *number)
{
    bool is_fraction = false;
    const char *p;

    *number = 0;
    for (p = text;; p++) {
        if (*p == '.' && p > text && !is_fraction && decimals > 0) {
            is_fraction = true;
            if (p[1] < '0' || p[1] > '9')
                return NULL;
            continue;
        }
        if (*p < '0' || *p > '9')
            break;
        if (is_fraction && decimals-- == 0)
            return NULL;
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(*p - '0'), number))
            *number = UINT64_MAX;
    }
    if (p == text)
        return NULL;
    for (; decimals > 0; decimals--)
        if (__builtin_mul_overflow(*number, 10, number))
            *number = UINT64_MAX;
    return p;
}

static const char suffixes[] = "KMGT";

/* Reads a letter of `letters` that may follow a number: each stands for
 * `factor` times the one before. */
static const char *
read_suffix(const char *p, const char *letters, uint64_t factor,
            uint64_t *number)
{
    const char *found = *p ? strchr(letters, *p) : NULL;

    if (!found)
        return p;
    for (; found >= letters; found--)
        if (__builtin_mul_overflow(*number, factor, number))
            *number = UINT64_MAX;
    return p + 1;
}

/* Writes a number in the unit of its type: 250000 microseconds as "0.25". */
static void
write_decimal(struct buf *to, enum option_type type, uint64_t number)
{
    uint64_t unit = type == OPTION_SECONDS ? 1000000
                    : type == OPTION_MILLISECONDS || type == OPTION_PAUSE ? 1000
                                                                          : 1;
    uint64_t rest = number % unit;

    buf_add_number(to, number / unit);
    if (rest > 0)
        BUF_ADD(to, ".");
    for (; rest > 0; rest = rest * 10 % unit)
        buf_add_number(to, rest * 10 / unit);
}

/* Writes a limit in the form of its type: "50M", "0.1". */
static void
write_limit(enum option_type type, uint64_t number, struct buf *to)
{
    size_t n = 0;

    while (type == OPTION_BYTES && number && number % 1024 == 0 && n < 3) {
        number /= 1024;
        n++;
    }
    write_decimal(to, type, number);
    if (n > 0)
        buf_add(to, suffixes + n - 1, 1);
}

/* Room for the longest text that option_limits writes. */
#define OPTION_LIMITS_SIZE 64

/* Writes the limits of a number: "1 to 50M"; "": it has none. */
static void
option_limits(const struct option *o, char *to, size_t size)
{
    struct buf limits;

    to[0] = '\0';
    if (o->type < OPTION_COUNT || o->type > OPTION_PERCENT)
        return;
    buf_init_fixed(&limits, to, size);
    write_limit(o->type, o->min, &limits);
    BUF_ADD(&limits, " to ");
    write_limit(o->type, o->max, &limits);
    BUF_ADD(&limits, "\0");
}

/* A row a type: the size of the value at the offset, 0 if there is none, or it
 * is the option's maximum; of a number its decimals and its form. */
static const struct {
    size_t size;
    int decimals;
    const char *form;
} types[] = {
    [OPTION_COUNT] = {sizeof(uint64_t), 0, "a whole number"},
    [OPTION_BYTES] = {sizeof(uint64_t), 0,
                      "a number of bytes, such as 65536, 64K or 50M"},
    [OPTION_SECONDS] = {sizeof(uint64_t), 6,
                        "a number of seconds, such as 20 or 0.25"},
    [OPTION_MILLISECONDS] = {sizeof(uint64_t), 3,
                             "a number of milliseconds, such as 5 or 0.5"},
    [OPTION_PAUSE] = {0, 3, "a time, such as 90, 10m or 1.5h"},
    [OPTION_NUMBER] = {0, 0, "a whole number"},
    [OPTION_LIMIT] = {0, 0, "a number from 1 on, such as 500 or 50M, or none"},
    [OPTION_PERCENT] = {0, 0, "a number, or none"},
    [OPTION_KEEP] = {sizeof(uint64_t)},
    [OPTION_FLAG] = {sizeof(bool)},
    [OPTION_EITHER] = {sizeof(bool)},
    [OPTION_CHOICE] = {sizeof(unsigned)},
};

static bool
is_text(const struct option *o)
{
    return o->type == OPTION_TEXT || o->type == OPTION_LISTEN ||
           o->type == OPTION_URL;
}

/* The size of the value at the offset; 0: there is no value. */
static size_t
value_size(const struct option *o)
{
    return is_text(o)                    ? o->max
           : o->type < N_ELEMENTS(types) ? types[o->type].size
                                         : 0;
}

static enum status
read_number(const struct option *o, const char *text, uint64_t *number,
            struct problem *why)
{
    bool may_be_none = o->type == OPTION_LIMIT || o->type == OPTION_PERCENT;
    char limits[OPTION_LIMITS_SIZE];
    char *to;
    const char *end = read_decimal(text, types[o->type].decimals, number);

    if (may_be_none && !strcmp(text, "none")) {
        *number = o->type == OPTION_LIMIT ? 0 : UINT64_MAX; /* as an int: -1 */
        return STATUS_OK;
    }
    if (end && !strcmp(o->argument, "BYTES"))
        end = read_suffix(end, suffixes, 1024, number);
    else if (end && o->type == OPTION_PAUSE)
        end = *end == 's' ? end + 1 : read_suffix(end, "mh", 60, number);
    if (!end || *end || (o->type == OPTION_LIMIT && !*number))
        return not_a(why, text, types[o->type].form);
    if (*number >= o->min && *number <= o->max)
        return STATUS_OK;

    option_limits(o, limits, sizeof(limits));
    to = strstr(limits, " to ");
    return problem(why, STATUS_INVALID, "%s is not between %.*s and %s",
                   problem_quote(slice_of(text)).text, (int)(to - limits),
                   limits, to + 4);
}

/* Words */

/* Reads the index of a word of "a|b|c". */
static enum status
read_word(const struct option *o, const char *text, unsigned *word,
          struct problem *why)
{
    struct slice rest = slice_of(o->argument);
    char words[100];
    size_t n = 0;

    for (*word = 0; rest.size > 0; ++*word)
        if (slice_is(slice_take(&rest, '|'), text))
            return STATUS_OK;
    rest = slice_of(o->argument);
    while (rest.size > 0 && n < sizeof(words)) {
        struct slice next = slice_take(&rest, '|');
        const char *before = n == 0 ? "" : rest.size > 0 ? ", " : " or ";

        n += (size_t)snprintf(words + n, sizeof(words) - n, "%s%.*s", before,
                              SLICE_ARG(next));
    }
    return not_a(why, text, words);
}

struct slice
option_word(const struct option *o, unsigned value)
{
    struct slice rest = slice_of(o->argument), word;

    do
        word = slice_take(&rest, '|');
    while (value-- > o->min);
    return word;
}

struct keep_text
option_keep_text(uint64_t value)
{
    uint64_t hours = value >= OPTION_KEEP_AGE ? value - OPTION_KEEP_AGE : 0;
    uint64_t days = hours % 24 ? 0 : hours / 24;
    uint64_t number = days ? days : hours ? hours : value;
    const char *unit = days ? "d" : hours ? "h" : "";
    struct keep_text t;

    if (value == OPTION_KEEP_NONE)
        return (struct keep_text){"none"};
    if (value == OPTION_KEEP_DAILY)
        return (struct keep_text){"daily"};
    if (value == OPTION_KEEP_ALL)
        return (struct keep_text){"all"};
    snprintf(t.text, sizeof(t.text), "%" PRIu64 "%s", number, unit);
    return t;
}

static enum status
read_keep(const struct option *o, const char *text, uint64_t *value,
          struct problem *why)
{
    bool has_ages = strstr(o->argument, "AGE");
    uint64_t hours;
    const char *end;

    *value = has_ages ? OPTION_KEEP_ALL : OPTION_KEEP_NONE;
    if (!strcmp(text, option_keep_text(*value).text))
        return STATUS_OK;
    *value = OPTION_KEEP_DAILY;
    if (!has_ages && !strcmp(text, option_keep_text(*value).text))
        return STATUS_OK;
    end = read_decimal(text, 0, value);
    if (end && !*end && *value >= o->min && *value <= o->max)
        return STATUS_OK;
    hours = !end || !has_ages ? 0 : !strcmp(end, "d") ? 24 : !strcmp(end, "h");
    if (hours > 0 && *value > 0 && *value <= o->max) {
        *value = OPTION_KEEP_AGE + *value * hours;
        return STATUS_OK;
    }
    return problem(why, STATUS_INVALID,
                   "\"%s\" is not %s or a number between %" PRIu64
                   " and %" PRIu64,
                   problem_quote(slice_of(text)).text,
                   has_ages ? "all, an age such as 30d or 12h" : "daily, none",
                   o->min, o->max);
}

enum status
option_read(const struct option *o, const char *text, void *values,
            struct problem *why)
{
    void *value = (char *)values + o->offset;
    uint64_t number;
    enum status rc;
    unsigned word;

    switch (o->type) {
    case OPTION_TEXT:
        return option_text(text, value, o->max, why);
    case OPTION_LISTEN:
        return option_listen(text, value, o->max,
                             (unsigned *)(void *)((char *)values + o->port),
                             why);
    case OPTION_URL:
        return read_url(text, value, o->max, why);
    case OPTION_KEEP:
        return read_keep(o, text, value, why);
    case OPTION_FLAG:
        *(bool *)value = slice_is(slice_of(text), "yes");
        return *(bool *)value || slice_is(slice_of(text), "no")
                   ? STATUS_OK
                   : not_a(why, text, "yes or no");
    case OPTION_COUNT:
    case OPTION_BYTES:
    case OPTION_SECONDS:
    case OPTION_MILLISECONDS:
    case OPTION_LIMIT:
        return read_number(o, text, value, why);
    case OPTION_PAUSE:
    case OPTION_NUMBER:
    case OPTION_PERCENT:
        rc = read_number(o, text, &number, why);
        if (!rc)
            *(unsigned *)value = (unsigned)number;
        return rc;
    case OPTION_SWITCH:
        *(int *)value = 1;
        return STATUS_OK;
    case OPTION_LENT:
        *(const char **)value = text;
        return STATUS_OK;
    case OPTION_EITHER:
    case OPTION_CHOICE:
        rc = read_word(o, text, &word, why);
        if (!rc && o->type == OPTION_EITHER)
            *(bool *)value = word == 1;
        else if (!rc)
            *(unsigned *)value = (unsigned)o->min + word;
        return rc;
    case OPTION_OWN:
        return o->read(text, values, why);
    default:
        return problem(why, STATUS_INVALID, "has no value");
    }
}

void
option_write(const struct option *o, const void *values, struct buf *to)
{
    const void *value = (const char *)values + o->offset;

    switch (o->type) {
    case OPTION_TEXT:
    case OPTION_URL:
        buf_add_text(to, value);
        break;
    case OPTION_LISTEN:
        buf_add_format(
            to, strchr(value, ':') ? "[%s]:%u" : "%s:%u", (const char *)value,
            *(const unsigned *)(const void *)((const char *)values + o->port));
        break;
    case OPTION_COUNT:
    case OPTION_BYTES:
    case OPTION_SECONDS:
    case OPTION_MILLISECONDS:
        write_decimal(to, o->type, *(const uint64_t *)value);
        break;
    case OPTION_KEEP:
        buf_add_text(to, option_keep_text(*(const uint64_t *)value).text);
        break;
    case OPTION_FLAG:
        buf_add_text(to, *(const bool *)value ? "yes" : "no");
        break;
    case OPTION_EITHER:
    case OPTION_CHOICE:
        buf_add_slice(to, option_word(o, o->type == OPTION_EITHER
                                             ? *(const bool *)value
                                             : *(const unsigned *)value));
        break;
    default:
        break;
    }
}

bool
option_is_same(const struct option *o, const void *a, const void *b)
{
    const char *of_a = (const char *)a + o->offset;
    const char *of_b = (const char *)b + o->offset;

    if (o->type == OPTION_LISTEN &&
        memcmp((const char *)a + o->port, (const char *)b + o->port,
               sizeof(unsigned)))
        return false;
    if (is_text(o))
        return !strcmp(of_a, of_b);
    return !memcmp(of_a, of_b, value_size(o));
}

void
option_copy(const struct option *o, const void *from, void *to)
{
    memcpy((char *)to + o->offset, (const char *)from + o->offset,
           value_size(o));
    if (o->type == OPTION_LISTEN)
        memcpy((char *)to + o->port, (const char *)from + o->port,
               sizeof(unsigned));
}

/* Tables */

size_t
options_index(const struct options *options, struct slice name)
{
    size_t i = 0;

    while (i < options->n && !slice_is(name, options->rows[i].name))
        i++;
    return i;
}

const struct option *
options_find(const struct options *options, struct slice name)
{
    size_t i = options_index(options, name);

    return i < options->n ? &options->rows[i] : NULL;
}

/* Options of an earlier version, and those in their place. */
static const struct {
    const char *name, *now, *values;
} former[] = {{"cluster-unsafe", "cluster-durable-by", "provider, or disk"}};

enum status
options_unknown(const struct options *options, const char *mark,
                struct slice name, const char *otherwise, struct problem *why)
{
    struct suggestion s;

    for (size_t i = 0; i < N_ELEMENTS(former); i++)
        if (slice_is(name, former[i].name) &&
            options_find(options, slice_of(former[i].now)))
            return problem(why, STATUS_INVALID,
                           "%s%s: there is no such option any more: give %s%s "
                           "%s",
                           mark, former[i].name, mark, former[i].now,
                           former[i].values);
    suggest_begin(&s, name);
    for (size_t i = 0; i < options->n; i++)
        suggest_consider(&s, options->rows[i].name);
    if (s.nearest)
        return problem(why, STATUS_INVALID,
                       "%s%s: there is no such option; did you mean %s%s?",
                       mark, problem_quote(name).text, mark, s.nearest);
    return problem(why, STATUS_INVALID, "%s%s: there is no such option%s", mark,
                   problem_quote(name).text, otherwise);
}

enum status
options_read(const struct option *option, const char *mark, const char *text,
             void *values, struct problem *why)
{
    enum status rc = option_read(option, text, values, why);

    return rc ? problem_prefix(why, rc, "%s%s: ", mark, option->name) : rc;
}

/* Takes an option: argv[*i], and its value, if that is the next argument. */
static enum status
take_option(const struct options *options, int argc, char **argv, int *i,
            struct arguments *given, struct problem *why)
{
    bool is_help = !strcmp(argv[*i], "-h");
    const char *argument = is_help ? "--help" : argv[*i];
    const char *equals = strchr(argument, '=');
    size_t size = equals ? (size_t)(equals - argument) : strlen(argument);
    const struct option *o;
    struct slice name;
    const char *value;
    size_t row;

    if (size <= 2 || !slice_starts(slice_of(argument), "--"))
        return problem(why, STATUS_INVALID,
                       "\"%s\" is not an option; --help lists them",
                       problem_quote(slice_of(argument)).text);
    name = (struct slice){argument + 2, size - 2};
    row = options_index(options, name);
    if (row == options->n)
        return options_unknown(options, "--", name, "; --help lists them", why);
    if (given->options[row] && !options->rows[row].may_repeat)
        return problem(why, STATUS_INVALID, "--%s: is there twice",
                       options->rows[row].name);
    o = &options->rows[row];
    if (!o->argument && equals)
        return problem(why, STATUS_INVALID, "--%s: takes no value", o->name);
    value = !o->argument    ? "yes"
            : equals        ? equals + 1
            : *i + 1 < argc ? argv[++*i]
                            : NULL;
    if (!value ||
        (o->argument && !equals && slice_starts(slice_of(value), "--")))
        return problem(why, STATUS_INVALID, "--%s: %s is missing", o->name,
                       o->argument);
    given->options[row] = value;
    given->given[given->n_given++] = (struct given){row, value};
    if (o->type == OPTION_WISH)
        given->wish = o;
    return STATUS_OK;
}

enum status
options_arguments(const struct options *options, int argc, char **argv,
                  bool has_operands, struct arguments *given,
                  struct problem *why)
{
    bool takes_options = true;
    enum status rc = STATUS_OK;

    memset(given, 0, sizeof(*given));
    given->given = memory_new((size_t)argc + 1, sizeof(given->given[0]));
    given->operands = memory_new((size_t)argc + 2, sizeof(given->operands[0]));
    if (!given->given || !given->operands)
        return problem_memory(why);
    for (int i = 1; !rc && !given->wish && i < argc; i++)
        if (has_operands && takes_options && !strcmp(argv[i], "--"))
            takes_options = false;
        else if (has_operands &&
                 (!takes_options || *argv[i] != '-' || !strcmp(argv[i], "-")))
            given->operands[given->n_operands++] = argv[i];
        else
            rc = take_option(options, argc, argv, &i, given, why);
    return rc;
}

void
options_arguments_fini(struct arguments *given)
{
    free(given->given);
    free(given->operands);
    given->given = NULL;
    given->operands = NULL;
}

enum status
options_take(const struct options *options, const char *const *texts,
             void *values, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < options->n; i++) {
        const struct option *o = &options->rows[i];
        const char *text = texts ? texts[i] : o->standard;

        if (text && o->type != OPTION_FILE && o->type != OPTION_GIVEN)
            rc = options_read(o, "--", text, values, why);
    }
    return rc;
}

/* Printing */

#define TEXT_WIDTH  80
#define HELP_COLUMN 29

const char *
options_wrap(FILE *to, const char *text, size_t column, const char *indent)
{
    bool is_first = true; /* of its line */

    for (; *text && *text != '\n'; is_first = false) {
        size_t word = strcspn(text, " \n");

        if (!is_first && column + 1 + word > TEXT_WIDTH) {
            fprintf(to, "\n%s", indent);
            column = strlen(indent);
        } else if (!is_first) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", (int)word, text);
        column += word;
        text += word;
        /* Skips blanks and newlines that do not end the paragraph. */
        while (*text == ' ' ||
               (*text == '\n' && text[1] && !strchr("\n ", text[1])))
            text++;
    }
    fputc('\n', to);
    return *text == '\n' ? text + 1 : text;
}

void
option_describe(const struct option *o, char *to, size_t size)
{
    char limits[OPTION_LIMITS_SIZE] = "";
    bool has_default = o->standard && o->argument;

    const struct {
        const char *before, *text; /* NULL: not there */
    } notes[] = {
        {"", limits},
        {"default ", has_default ? o->standard : NULL},
        {"or ", o->variable},
        {"may be repeated", o->may_repeat ? "" : NULL},
    };

    const char *before = " (";
    int n = snprintf(to, size, "%s", o->help);

    option_limits(o, limits, sizeof(limits));
    for (size_t i = 0; i < N_ELEMENTS(notes); i++) {
        if (!notes[i].text || (i == 0 && !limits[0]) || (size_t)n >= size)
            continue;
        n += snprintf(to + n, size - (size_t)n, "%s%s%s", before,
                      notes[i].before, notes[i].text);
        before = "; ";
    }
    if (*before == ';' && (size_t)n < size)
        snprintf(to + n, size - (size_t)n, ")");
}

void
options_help_row(const char *name, const char *argument, const char *help,
                 FILE *to)
{
    char indent[HELP_COLUMN + 1];
    int n = fprintf(to, "  %s%s%s", name, argument ? " " : "",
                    argument ? argument : "");

    /* A long name has a line of its own. */
    if (n + 1 > HELP_COLUMN)
        n = fprintf(to, "\n") - 1;
    fprintf(to, "%*s", HELP_COLUMN - n, "");
    snprintf(indent, sizeof(indent), "%*s", HELP_COLUMN, "");
    options_wrap(to, help, HELP_COLUMN, indent);
}

void
options_help(const struct options *options, FILE *to)
{
    for (size_t i = 0; i < options->n; i++) {
        const struct option *o = &options->rows[i];
        char text[OPTION_DESCRIPTION_SIZE], name[64];

        option_describe(o, text, sizeof(text));
        snprintf(name, sizeof(name), "--%s", o->name);
        options_help_row(name, o->argument, text, to);
    }
}

void
options_example(const struct options *options, FILE *to)
{
    for (size_t i = 0; i < options->n; i++) {
        const struct option *o = &options->rows[i];
        char text[OPTION_DESCRIPTION_SIZE], unit[32] = "";

        if (o->type <= OPTION_FILE)
            continue; /* only on the command line */
        option_describe(o, text, sizeof(text));
        if (o->argument)
            snprintf(unit, sizeof(unit), "%s: ", o->argument);
        fprintf(to, "\n# %s", unit);
        options_wrap(to, text, strlen("# ") + strlen(unit), "# ");
        fprintf(to, "#%s = %s\n", o->name,
                o->standard ? o->standard : o->argument);
    }
}
