#include "broker/base/metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include "broker/base/client_limits.h"

#define ROW(id, kind, label, text, help) \
    [METRIC_##id] = {text, help, kind, LABEL_##label},

static const struct row {
    const char *name;
    const char *help;
    enum metric_kind kind;
    enum metric_label label;
} rows[METRICS] = {METRIC_ROWS(ROW)};

#undef ROW

static const char *const label_names[METRIC_LABELS] = {
    [LABEL_CODE] = "code",       [LABEL_TRANSPORT] = "transport",
    [LABEL_LEVEL] = "level",     [LABEL_VERSION] = "version",
    [LABEL_REASON] = "reason",   [LABEL_LIMIT] = "limit",
    [LABEL_CERTIFICATE] = "of",  [LABEL_DISK] = "kind",
    [LABEL_RELAY] = "state",     [LABEL_UPSTREAM] = "reason",
    [LABEL_WITNESS] = "witness",
};

#define CLIENT_LABEL(kind, label, ...) label,

/* Each list ends with NULL. */
static const char *label_values[METRIC_LABELS][METRIC_VALUES_MAX + 1] = {
    [LABEL_CODE] = {"200", "206", "304", "400", "401", "403", "404", "405",
                    "406", "408", "409", "410", "412", "413", "415", "416",
                    "422", "426", "429", "431", "500", "501", "503", "other"},
    [LABEL_LEVEL] = {"error", "warning", "info", "debug"},
    [LABEL_VERSION] = {TIDINGS_VERSION},
    [LABEL_REASON] = {"refused", "unreachable", "timeout", "broken", "status",
                      "differs", "too-large", "room"},
    [LABEL_LIMIT] = {CLIENT_ROWS(CLIENT_LABEL) "post-rate", "byte-rate"},
    [LABEL_CERTIFICATE] = {"server", "client-ca"},
    [LABEL_DISK] = {"database", "wal", "change-lists", "resource-lists",
                    "dumps", "content", "temporary", "other"},
    [LABEL_RELAY] = {"active", "without-topic", "leaving"},
    [LABEL_UPSTREAM] = {"source", "fetch", "document"},
};

/* Upper bounds of a histogram's buckets: from a push within one machine to a
 * disk that has nearly stopped. */
static const int64_t bounds_us[] = {
    100,   250,    500,    1000,   2500,    5000,    10000,   25000,
    50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000,
};

/* A row's cells: one for each value of its label. A histogram has one for each
 * bucket, one for larger values, and the sum in microseconds. */
enum { BEYOND = N_ELEMENTS(bounds_us), SUM, HISTOGRAM_CELLS };

#define CELLS METRIC_VALUES_MAX
_Static_assert(HISTOGRAM_CELLS <= CELLS, "a histogram has too many buckets");

/* Of a status: its hundreds; 0: there was none. */
#define STATUS_CLASSES 6

static const char *const status_classes[STATUS_CLASSES] = {
    "none", "1xx", "2xx", "3xx", "4xx", "5xx"};

#define REQUESTS_NAME "tidings_http_request_duration_seconds"

struct shard {
    _Alignas(64) _Atomic(uint64_t) cells[METRICS][CELLS];
    _Atomic(uint64_t) requests[METRIC_ROUTES_MAX][STATUS_CLASSES]
                              [HISTOGRAM_CELLS];
};

static struct shard shards[METRIC_SHARDS];
static _Atomic(uint64_t) known[METRICS][CELLS]; /* metrics_set */

static struct metric_route {
    const char *method, *path; /* NULL: no such row */
    atomic_bool is_seen[STATUS_CLASSES];
} routes[METRIC_ROUTES_MAX];

/* Counting */

static struct shard *
my_shard(void)
{
    static atomic_uint n_threads;
    static _Thread_local struct shard *mine;

    if (!mine)
        mine = &shards[add_relaxed(&n_threads, 1) % METRIC_SHARDS];
    return mine;
}

static void
observe_us(_Atomic(uint64_t) cells[HISTOGRAM_CELLS], int64_t us)
{
    size_t bucket = 0;

    while (bucket < BEYOND && us > bounds_us[bucket])
        bucket++;
    add_relaxed(&cells[bucket], 1);
    add_relaxed(&cells[SUM], us > 0 ? (uint64_t)us : 0);
}

void
metrics_add_label(enum metric metric, size_t value, int64_t n)
{
    add_relaxed(&my_shard()->cells[metric][value], (uint64_t)n);
}

void
metrics_add(enum metric metric, int64_t n)
{
    metrics_add_label(metric, 0, n);
}

void
metrics_observe_us(enum metric metric, int64_t us)
{
    observe_us(my_shard()->cells[metric], us);
}

void
metrics_name_route(size_t route, const char *method, const char *path)
{
    if (route < METRIC_ROUTES_MAX)
        routes[route] = (struct metric_route){.method = method, .path = path};
}

void
metrics_observe_request(size_t route, unsigned status, int64_t us)
{
    size_t class = status / 100 < STATUS_CLASSES ? status / 100 : 0;
    atomic_bool *is_seen;

    if (route >= METRIC_ROUTES_MAX)
        return;
    observe_us(my_shard()->requests[route][class], us);
    /* Most threads find it true, and do not fight for its cache line. */
    is_seen = &routes[route].is_seen[class];
    if (!load_relaxed(is_seen))
        store_relaxed(is_seen, true);
}

void
metrics_set(enum metric metric, int64_t value)
{
    metrics_set_label(metric, 0, value);
}

void
metrics_set_label(enum metric metric, size_t value, int64_t n)
{
    store_relaxed(&known[metric][value], (uint64_t)n);
}

size_t
metrics_code(unsigned status)
{
    const char *const *values = label_values[LABEL_CODE];
    const char digits[] = {(char)('0' + status / 100 % 10),
                           (char)('0' + status / 10 % 10),
                           (char)('0' + status % 10)};
    size_t i = 0;

    while (values[i + 1] && memcmp(values[i], digits, sizeof(digits)) != 0)
        i++;
    return i; /* the last value is "other" */
}

void
metrics_name(enum metric_label label, size_t value, const char *name)
{
    if (value < METRIC_VALUES_MAX)
        label_values[label][value] = name;
}

/* Writing */

static uint64_t
read_cell(enum metric metric, size_t cell)
{
    uint64_t sum = load_relaxed(&known[metric][cell]);

    for (size_t i = 0; i < METRIC_SHARDS; i++)
        sum += load_relaxed(&shards[i].cells[metric][cell]);
    return sum;
}

static void
write_seconds(struct buf *to, uint64_t us)
{
    buf_add_format(to, "%" PRIu64 ".%06" PRIu64 "\n", us / 1000000,
                   us % 1000000);
}

void
metrics_write_head(struct buf *to, const char *name, const char *type,
                   const char *help)
{
    buf_add_format(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/*
 * # HELP tidings_commit_duration_seconds Time of a transaction ...
 * # TYPE tidings_commit_duration_seconds histogram
 * tidings_commit_duration_seconds_bucket{le="0.0001"} 0
 * ...
 * tidings_commit_duration_seconds_bucket{le="+Inf"} 12
 * tidings_commit_duration_seconds_sum 0.031234
 * tidings_commit_duration_seconds_count 12
 */
static void
write_histogram(struct buf *to, const char *name, const char *labels,
                const uint64_t cells[HISTOGRAM_CELLS])
{
    const char *comma = labels[0] ? "," : "";
    const char *open = labels[0] ? "{" : "", *close = labels[0] ? "}" : "";
    uint64_t count = 0;

    for (size_t i = 0; i < BEYOND; i++) {
        count += cells[i];
        buf_add_format(to, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name,
                       labels, comma, (double)bounds_us[i] / 1e6, count);
    }
    count += cells[BEYOND];
    buf_add_format(to, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n%s_sum%s%s%s ",
                   name, labels, comma, count, name, open, labels, close);
    write_seconds(to, cells[SUM]);
    buf_add_format(to, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels,
                   close, count);
}

static void
write_requests(struct buf *to)
{
    metrics_write_head(to, REQUESTS_NAME, "histogram",
                       "Time from the head of a request to the last byte of "
                       "its answer, by route, without streams and long polls");
    for (size_t route = 0; route < METRIC_ROUTES_MAX; route++)
        for (size_t class = 0; class < STATUS_CLASSES; class ++)
            if (routes[route].path &&
                load_relaxed(&routes[route].is_seen[class])) {
                uint64_t cells[HISTOGRAM_CELLS] = {0};
                char labels[256];

                for (size_t s = 0; s < METRIC_SHARDS; s++)
                    for (size_t i = 0; i < HISTOGRAM_CELLS; i++)
                        cells[i] +=
                            load_relaxed(&shards[s].requests[route][class][i]);
                snprintf(labels, sizeof(labels),
                         "method=\"%s\",route=\"%s\",status=\"%s\"",
                         routes[route].method, routes[route].path,
                         status_classes[class]);
                write_histogram(to, REQUESTS_NAME, labels, cells);
            }
}

static void
write_value(struct buf *to, enum metric metric, size_t cell)
{
    enum metric_kind kind = rows[metric].kind;
    uint64_t value = read_cell(metric, cell);

    /* A reader may see a decrease of one copy before the increase of
     * another. */
    if (kind != COUNTER && kind != COUNTER_SECONDS && (int64_t)value < 0)
        value = 0;
    if (kind == COUNTER_SECONDS || kind == GAUGE_SECONDS || kind == GAUGE_TIME)
        write_seconds(to, value);
    else
        buf_add_format(to, "%" PRIu64 "\n", value);
}

void
metrics_write(struct buf *to)
{
    static const char *const types[] = {
        [COUNTER] = "counter",  [COUNTER_SECONDS] = "counter",
        [GAUGE] = "gauge",      [GAUGE_SECONDS] = "gauge",
        [GAUGE_TIME] = "gauge", [HISTOGRAM_SECONDS] = "histogram",
    };

    for (int m = 0; m < METRICS; m++) {
        const struct row *row = &rows[m];
        const char *const *values = label_values[row->label];

        metrics_write_head(to, row->name, types[row->kind], row->help);
        if (row->kind == HISTOGRAM_SECONDS) {
            uint64_t cells[HISTOGRAM_CELLS];

            for (size_t i = 0; i < HISTOGRAM_CELLS; i++)
                cells[i] = read_cell(m, i);
            write_histogram(to, rows[m].name, "", cells);
        } else if (!row->label) {
            buf_add_format(to, "%s ", row->name);
            write_value(to, m, 0);
        } else {
            for (size_t i = 0; values[i]; i++) {
                if (!(rows[m].kind != GAUGE_TIME || read_cell(m, i) > 0))
                    continue;
                buf_add_format(to, "%s{%s=\"%s\"} ", row->name,
                               label_names[row->label], values[i]);
                write_value(to, m, i);
            }
        }
    }
    write_requests(to);
}

/* The process */

/* /proc/self/stat: "PID (NAME) S ...", the start in ticks since boot being the
 * 22nd word; the name may have blanks and parentheses in it. */
static void
measure_start(void)
{
    FILE *file = fopen("/proc/stat", "re");
    int64_t ticks = 0, boot = 0, hertz = sysconf(_SC_CLK_TCK);
    char text[1024] = "";
    char *at;

    /* The start of the machine, in seconds since 1970. */
    while (file && !boot && fgets(text, sizeof(text), file))
        if (sscanf(text, "btime %" SCNd64, &boot) != 1)
            boot = 0;
    if (file)
        fclose(file);
    file = fopen("/proc/self/stat", "re");
    if (!file)
        return;
    if (fgets(text, sizeof(text), file) && (at = strrchr(text, ')')) &&
        sscanf(at + 1,
               "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%*s %*s %*s %*s %" SCNd64,
               &ticks) == 1 &&
        boot)
        metrics_set(METRIC_PROCESS_START,
                    boot * 1000000 + ticks * 1000000 / hertz);
    fclose(file);
}

void
process_measure(void)
{
    int64_t page = sysconf(_SC_PAGESIZE), all, resident, n = 0;
    FILE *memory = fopen("/proc/self/statm", "re"); /* in pages */
    DIR *dir = opendir("/proc/self/fd");
    struct rusage usage;
    struct rlimit files;

    while (dir && readdir(dir))
        n++;
    if (dir) { /* less ".", "..", this one and `memory` */
        closedir(dir);
        metrics_set(METRIC_PROCESS_FDS, n - 3 - (memory != NULL));
    }
    if (memory) {
        if (fscanf(memory, "%" SCNd64 " %" SCNd64, &all, &resident) == 2) {
            metrics_set(METRIC_PROCESS_VIRTUAL, all * page);
            metrics_set(METRIC_PROCESS_RESIDENT, resident * page);
        }
        fclose(memory);
    }

    if (!getrusage(RUSAGE_SELF, &usage))
        metrics_set(METRIC_PROCESS_CPU,
                    (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                        usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    if (!getrlimit(RLIMIT_NOFILE, &files))
        metrics_set(METRIC_PROCESS_FDS_MAX, (int64_t)files.rlim_cur);
    measure_start();
}
