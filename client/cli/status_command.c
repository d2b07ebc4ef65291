/*
 * status_command.c - tidings healthy, and tidings status: the last hour of a
 * broker or of a set, and with
 * --plot a picture of it.
 *
 *     entries in the last hour   2114, at most 1192 in a minute
 *     1192 |                                                          #
 *          |                                                         ##
 *        0 +------------------------------------------------------------
 *           60 min ago                                               now
 */

#include "base/clock.h"
#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/cli/progress.h"
#include "client/lib/json_slices.h"
#include "client/mirror/mirror_status.h"
#include "proto/number.h"
#include "proto/uri.h"

enum { OPTION_PLOT, OPTION_JSON };

static const struct option options[] = {
    [OPTION_PLOT] = {"plot", NULL, .help = "also draw the last hour"},
    [OPTION_JSON] = {"json", NULL, .help = "as a JSON object"},
};

/* Of the name of a fact. */
#define FACT_WIDTH 27

#define MINUTES 60
#define ROWS    6

/* The steps of a character in the picture. */
static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char *const letters[] = {".", ".", ":", ":", "|", "|", "#", "#"};

#define STEPS N_ELEMENTS(blocks)

struct minutes {
    uint64_t all[MINUTES];
    uint64_t sum, most;
};

/* Reads the array `name` of an object; false: it has none of this length. */
static bool
read_minutes(struct slice json, const char *name, struct minutes *minutes)
{
    struct slice array, one;
    size_t n = 0;

    memset(minutes, 0, sizeof(*minutes));
    if (!json_slices_member(json, name, &array))
        return false;
    while (json_slices_element(&array, &one)) {
        if (n == MINUTES || !number_read(one, &minutes->all[n]))
            return false;
        minutes->sum += minutes->all[n];
        if (minutes->all[n] > minutes->most)
            minutes->most = minutes->all[n];
        n++;
    }
    return n == MINUTES;
}

/* 75 columns at most, without a colour. A minute with anything at all shows. */
static void
plot(const struct minutes *minutes)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *const *steps = letters, *value = NULL;
    double most = (double)minutes->most;

    for (size_t i = 0; !(value && value[0]) && i < N_ELEMENTS(names); i++)
        value = getenv(names[i]);
    if (value && (strstr(value, "UTF-8") || strstr(value, "utf8")))
        steps = blocks; /* the terminal shows them */
    for (unsigned row = ROWS; row-- > 0;) {
        if (row == ROWS - 1)
            printf("%12" PRIu64 " |", minutes->most);
        else
            printf("%12s |", "");
        for (unsigned i = 0; i < MINUTES; i++) {
            uint64_t n = minutes->all[i], below = (uint64_t)row * STEPS;
            uint64_t height =
                n ? (uint64_t)((double)n / most * ROWS * STEPS) : 0;

            if (n && !height)
                height = 1;
            if (height > below + STEPS)
                height = below + STEPS;
            fputs(height > below ? steps[height - below - 1] : " ", stdout);
        }
        putchar('\n');
    }
    printf("%12d +", 0);
    for (unsigned i = 0; i < MINUTES; i++)
        putchar('-');
    printf("\n%14s%-57snow\n\n", "", "60 min ago");
}

static void
print_status(struct broker_call *call, bool has_plot)
{
    struct slice json = buf_slice(&call->json), sets, disk, value;
    struct minutes entries, lags;
    uint64_t n_sets, free_bytes, total;
    int64_t since_us;

    if (call->code)
        return;
    if (!read_minutes(json, "entries", &entries) ||
        !read_minutes(json, "lags", &lags)) {
        call->code = failed("the answer is not the status of a broker");
        return;
    }
    if (json_slices_member(json, "sets", &sets) && number_read(sets, &n_sets))
        printf("%-26s %" PRIu64 "\n", "sets", n_sets);
    if (json_slices_member(json, "disk", &disk) &&
        json_slices_member(disk, "free", &value) &&
        number_read(value, &free_bytes) &&
        json_slices_member(disk, "total", &value) && number_read(value, &total))
        printf("%-26s %" PRIu64 " MB of %" PRIu64 " MB\n", "free on the disk",
               free_bytes / 1000000, total / 1000000);
    printf("%-26s %" PRIu64 ", at most %" PRIu64 " in a minute\n",
           "entries in the last hour", entries.sum, entries.most);
    if (has_plot)
        plot(&entries);
    printf("%-26s at most %" PRIu64 " entries\n", "lag in the last hour",
           lags.most);
    if (has_plot)
        plot(&lags);
    if (!json_slices_member(json, "since", &value))
        return;
    value = json_slices_text(value);
    if (!datetime_read(value, &since_us) &&
        clock_now_us() - since_us < (int64_t)MINUTES * 60000000)
        printf("%-26s %.*s, the start of the broker\n", "counted since",
               (int)value.size, value.data); /* its hour is not over */
}

/* Mirrors */

static struct datetime_text
time_text(int64_t us)
{
    return us > 0 ? datetime_text_short(us - us % 1000000)
                  : (struct datetime_text){"never"};
}

static void
print_text_line(const char *label, const char *text, const char *rest)
{
    fputs(label, stdout);
    print_plain(text);
    printf("%s\n", rest);
}

/* Prints what the table has no place for, a line each. */
static void
print_certainty(const struct mirror_db_certainty *c, const char *filter)
{
    char text[FILTER_TEXT_MAX + 100];

    if (c->doubt[0]) {
        snprintf(text, sizeof(text), " (since %s)",
                 time_text(c->doubt_us).text);
        print_text_line("not known to be complete: ", c->doubt,
                        c->doubt_us ? text : "");
    } else if (c->complete_us) {
        snprintf(text, sizeof(text), "complete%s%s as of %s, by ",
                 filter[0] ? " for " : "", filter,
                 time_text(c->complete_us).text);
        print_text_line(text,
                        c->complete_by[0] ? c->complete_by : "its history", "");
    }
    if (c->n_held)
        printf("held back: %" PRIu64 " of %" PRIu64
               " resources would be deleted\n",
               c->n_held, c->n_held_of);
    snprintf(text, sizeof(text), "left out: %" PRIu64 " rows: ", c->n_left_out);
    if (c->n_left_out)
        print_text_line(text, c->left_out, "");
    if (c->n_mended)
        printf("mended: %" PRIu64 " values\n", c->n_mended);
}

static void
print_mirror(const struct mirror_status *mirror)
{
    static const struct table_column columns[] = {
        {"POSITION"}, {"CAUGHT UP"}, {"COMPLETE AS OF"}, {"SET"}, {NULL}};
    const struct mirror_db_counts *c = &mirror->counts;
    char bytes[BYTES_TEXT_SIZE];
    struct table table;

    for (size_t i = 0; i < mirror->n_sources; i++)
        print_pair(FACT_WIDTH, "mirror of", mirror->sources[i]);
    print_pair(FACT_WIDTH, "filter", mirror->filter[0] ? mirror->filter : NULL);
    if (mirror->as_of_us > 0)
        print_pair(FACT_WIDTH, "as it was", time_text(mirror->as_of_us).text);
    printf("%-26s %" PRIu64 ", %s\n", "files", c->n_have,
           bytes_text((double)c->bytes_have, bytes));
    printf("%-26s %" PRIu64 " to fetch (%s), %" PRIu64 " to remove\n",
           "pending", c->n_fetch - c->n_left,
           bytes_text((double)c->bytes_wanted, bytes), c->n_remove);
    printf("%-26s %" PRIu64 "%s\n", "failed", c->n_left,
           c->n_left ? ", which the next run tries again" : "");
    if (mirror->is_at_work && mirror->process)
        printf("%-26s process %ld\n", "at work", mirror->process);
    else
        print_pair(FACT_WIDTH, "at work",
                   mirror->is_at_work ? "a process" : "nobody");
    putchar('\n');
    table_begin(&table, columns);
    for (size_t i = 0; i < mirror->n_sets; i++) {
        const struct mirror_status_set *set = &mirror->sets[i];

        table_add_text(&table, set->position);
        table_add_text(&table, time_text(set->caught_up_us).text);
        table_add_text(&table,
                       set->certainty.doubt[0]
                           ? "not known"
                           : time_text(set->certainty.complete_us).text);
        table_add_text(&table, set->url);
    }
    table_end(&table);
    /* Of several sets, those that are not simply complete. */
    for (size_t i = 0; i < mirror->n_sets; i++) {
        const struct mirror_status_set *set = &mirror->sets[i];

        if (mirror->n_sets > 1 && !set->certainty.doubt[0] &&
            !set->certainty.n_held && !set->certainty.n_left_out)
            continue;
        if (mirror->n_sets > 1)
            print_text_line("\n", set->url, "");
        print_certainty(&set->certainty, mirror->filter);
    }
}

/* {"mirror":"...","sources":["..."],"sets":[{"set":"...","position":"...",
 *  "caughtUp":"...","complete_as_of":"...",...}],"files":3,"bytes":12,"fetch":0,"fetchBytes":0,
 *  "remove":0,"failed":0,"atWork":true,"process":123} */
static void
print_mirror_json(const struct mirror_status *mirror, const char *dir)
{
    const struct mirror_db_counts *c = &mirror->counts;

    put_members(stdout, "{", "mirror:t", dir);
    fputs(",\"sources\":[", stdout);
    for (size_t i = 0; i < mirror->n_sources; i++) {
        fputs(i ? "," : "", stdout);
        put_json_string(stdout, mirror->sources[i]);
    }
    fputs("],\"sets\":[", stdout);
    for (size_t i = 0; i < mirror->n_sets; i++) {
        const struct mirror_status_set *set = &mirror->sets[i];
        const struct mirror_db_certainty *of = &set->certainty;

        put_members(stdout, i ? ",{" : "{", "set:t position:e caughtUp:t",
                    set->url, set->position,
                    set->caught_up_us ? time_text(set->caught_up_us).text
                                      : NULL);
        put_members(stdout, ",",
                    "complete_as_of:t complete_by:e not_complete:e",
                    of->complete_us ? time_text(of->complete_us).text : NULL,
                    of->complete_by, of->doubt);
        if (of->doubt[0] && of->doubt_us)
            put_members(stdout, ",", "not_complete_since:t",
                        time_text(of->doubt_us).text);
        put_members(stdout, ",",
                    "held_back:n left_out:n mended:n left_out_example:t",
                    of->n_held, of->n_left_out, of->n_mended,
                    of->n_left_out ? of->left_out : NULL);
        putchar('}');
    }
    put_members(stdout, "],",
                "as_of:t filter:e files:n bytes:n fetch:n fetchBytes:n "
                "remove:n failed:n atWork:b process:z",
                mirror->as_of_us > 0 ? time_text(mirror->as_of_us).text : NULL,
                mirror->filter, c->n_have, c->bytes_have,
                c->n_fetch - c->n_left, c->bytes_wanted, c->n_remove, c->n_left,
                mirror->is_at_work, (uint64_t)mirror->process);
    puts("}");
}

static enum exit_code
run_status(const struct arguments *arguments)
{
    const char *url = arguments->operands[0], *sets = strstr(url, "/sets/");
    struct slice rest = slice_of(sets ? sets + strlen("/sets/") : "");
    struct broker_call call;
    bool is_set = slice_take(&rest, '/').size > 0 && rest.size == 0;
    struct mirror_status mirror;
    struct problem why = {""};
    enum status rc;

    if (!uri_is_web(url)) { /* the directory of a mirror */
        if (arguments->options[OPTION_PLOT])
            return bad_usage("--plot draws the last hour of a broker or a set");
        rc = mirror_status_read(&mirror, url, &why);
        if (rc)
            say("%s", why.text);
        else if (arguments->options[OPTION_JSON])
            print_mirror_json(&mirror, url);
        else
            print_mirror(&mirror);
        mirror_status_fini(&mirror);
        return rc ? EXIT_FAILED : EXIT_GOOD;
    }
    broker_call_begin(&call, arguments, url, is_set ? "/rate" : "/status");
    broker_call_send(&call, "GET");
    if (arguments->options[OPTION_JSON])
        broker_call_show(&call, true);
    else
        print_status(&call, arguments->options[OPTION_PLOT] != NULL);
    return broker_call_end(&call);
}

const struct command status_command = {
    .name = "status",
    .operands = "BROKER-URL|SET-URL|DIR",
    .help = "Shows the last hour of a broker or a set, or the state of a "
            "mirror.",
    .more =
        "Of a broker (http://host:port/): its sets, its disk, the entries of "
        "all sets and the largest lag of a reader; the token needs the right "
        "to observe. Of a set: its entries and the largest lag of its "
        "readers. A picture has a column for each minute, in 75 columns of "
        "text.\n\n"
        "Of a DIR that tidings sync has made: its sources; the files that are "
        "there; what is to fetch or to remove; what the last run has given "
        "up; the process that works on it; and of each set the position, when "
        "the mirror last equalled it, and since when it is known to be "
        "complete, or why not. It sends nothing, and disturbs no process.",
    .examples = "tidings status http://127.0.0.1:8787/ --plot\n"
                "tidings status mirror\n",
    .options = OPTIONS(options),
    .run = run_status,
};

static enum exit_code
run_healthy(const struct arguments *arguments)
{
    struct broker_call call;

    broker_call_begin(&call, arguments, arguments->operands[0], "/healthz");
    call.takes_text = true;
    broker_call_send(&call, "GET");
    return broker_call_end(&call);
}

const struct command healthy_command = {
    .name = "healthy",
    .operands = "BROKER-URL",
    .help = "Ends with 0 if a broker answers, else with 1.",
    .more = "It asks /healthz, which needs no token: for health checks of "
            "containers.",
    .examples = "tidings healthy http://127.0.0.1:8787/\n",
    .run = run_healthy,
};
