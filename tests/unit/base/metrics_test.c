#include "broker/base/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/support/samples.h"
#include "tests/test.h"

/* Metrics are the process's: each test looks at what it adds itself. */
static struct samples before, after;

static void
look(struct samples *s)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    metrics_write(&text);
    assert_false(text.failed);
    samples_read(s, buf_slice(&text));
    buf_fini(&text);
}

static void
assert_grown(const char *series, double by)
{
    double grown =
        samples_value(&after, series) - samples_value(&before, series);

    if (grown < by - 1e-9 || grown > by + 1e-9)
        fail_msg("%s has grown by %g", series, grown);
}

/* Prometheus text, read as strictly as promtool does. */
TEST(what_is_counted_is_written_by_the_rules_of_the_format)
{
    metrics_name(LABEL_TRANSPORT, 0, "pigeon");
    look(&before);

    metrics_add(METRIC_POSTS, 2);
    metrics_add(METRIC_POSTS, 3);
    metrics_add_label(METRIC_POSTS_REJECTED, metrics_code(422), 1);
    metrics_add_label(METRIC_SUBSCRIBERS, 0, 2);
    metrics_add_label(METRIC_SUBSCRIBERS, 0, -1);
    metrics_set(METRIC_LOG_AHEAD, 1500000);

    look(&after);
    assert_grown("tidings_posts_total", 5);
    assert_grown("tidings_posts_rejected_total{code=\"422\"}", 1);
    assert_grown("tidings_posts_rejected_total{code=\"503\"}", 0);
    assert_grown("tidings_subscribers{transport=\"pigeon\"}", 1);
    assert_grown("tidings_log_ahead_seconds", 1.5);
}

TEST(a_status_has_its_own_value_or_is_other)
{
    look(&before);
    metrics_add_label(METRIC_RESPONSES, metrics_code(200), 1);
    metrics_add_label(METRIC_RESPONSES, metrics_code(503), 2);
    metrics_add_label(METRIC_RESPONSES, metrics_code(299), 4);
    metrics_add_label(METRIC_RESPONSES, metrics_code(0), 8);
    metrics_add_label(METRIC_RESPONSES, metrics_code(12345), 16);

    look(&after);
    assert_grown("tidings_http_responses_total{code=\"200\"}", 1);
    assert_grown("tidings_http_responses_total{code=\"503\"}", 2);
    assert_grown("tidings_http_responses_total{code=\"other\"}", 28);
}

#define COMMIT(rest) "tidings_commit_duration_seconds" rest

/* A bucket holds what is at most its bound; the sum is exact. */
TEST(a_histogram_counts_by_bounds)
{
    look(&before);
    metrics_observe_us(METRIC_COMMIT_TIME, 0);
    metrics_observe_us(METRIC_COMMIT_TIME, 100);
    metrics_observe_us(METRIC_COMMIT_TIME, 101);
    metrics_observe_us(METRIC_COMMIT_TIME, 10000000);
    metrics_observe_us(METRIC_COMMIT_TIME, 10000001);
    metrics_observe_us(METRIC_COMMIT_TIME, -5); /* counted, adds nothing */

    look(&after);
    assert_grown(COMMIT("_bucket{le=\"0.0001\"}"), 3);
    assert_grown(COMMIT("_bucket{le=\"0.00025\"}"), 4);
    assert_grown(COMMIT("_bucket{le=\"5\"}"), 4);
    assert_grown(COMMIT("_bucket{le=\"10\"}"), 5);
    assert_grown(COMMIT("_bucket{le=\"+Inf\"}"), 6);
    assert_grown(COMMIT("_count"), 6);
    assert_grown(COMMIT("_sum"), 20.000202);
}

#define GET_SETS "{method=\"GET\",route=\"/sets\",status=\"2xx\""
#define REQUESTS(part, rest) \
    "tidings_http_request_duration_seconds" part GET_SETS rest "}"

/* A route that was never asked for has no series, nor a class of statuses. */
TEST(requests_are_counted_by_route_and_class_of_status)
{
    metrics_name_route(0, "GET", "/sets");
    metrics_name_route(1, "PUT", "/sets/{set}");
    look(&before);
    metrics_observe_request(0, 200, 100);
    metrics_observe_request(0, 206, 300000);
    metrics_observe_request(0, 404, 100);
    metrics_observe_request(0, 0, 100);
    metrics_observe_request(0, 99999, 100);
    metrics_observe_request(METRIC_ROUTES_MAX, 200, 100);

    look(&after);
    assert_int_equal(after.n - before.n, 3 * 19);
    assert_int_equal(samples_value(&after, REQUESTS("_count", "")), 2);
    assert_int_equal(
        samples_value(&after, REQUESTS("_bucket", ",le=\"0.0001\"")), 1);
    assert_int_equal(samples_value(&after, REQUESTS("_bucket", ",le=\"0.5\"")),
                     2);
    assert_true(samples_value(&after, REQUESTS("_sum", "")) == 0.3001);
}

/* More threads than copies: nothing is lost where two share one. */

#define THREADS 40
#define TIMES   10000

static void *
count(void *user)
{
    (void)user;
    for (int i = 0; i < TIMES; i++) {
        metrics_add(METRIC_ENTRIES, 1);
        metrics_add(METRIC_CONNECTIONS, i % 2 ? -1 : 1);
        metrics_observe_us(METRIC_PUSH_LATENCY, 1000);
    }
    return NULL;
}

TEST(many_threads_count_together_while_somebody_reads)
{
    pthread_t threads[THREADS];

    look(&before);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < 20; i++)
        look(&after);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    look(&after);
    assert_grown("tidings_entries_total", THREADS * TIMES);
    assert_grown("tidings_connections", 0);
    assert_grown("tidings_push_latency_seconds_count", THREADS * TIMES);
    assert_grown("tidings_push_latency_seconds_sum", THREADS * TIMES / 1000);
}

/* A time that is unknown has no sample, not the year 1970. */
TEST(a_time_has_a_sample_while_it_is_known)
{
    static const char *const end =
        "tidings_certificate_end_timestamp_seconds{of=\"client-ca\"}";

    metrics_set_label(METRIC_CERTIFICATE_END, CERTIFICATE_CLIENT_CA,
                      1700000000500000);
    look(&before);
    metrics_set_label(METRIC_CERTIFICATE_END, CERTIFICATE_CLIENT_CA, 0);
    look(&after);
    assert_true(samples_value(&before, end) == 1700000000.5);
    assert_int_equal(after.n, before.n - 1);
}

/* A gauge is not negative while one copy has lost a value and another has not
 * gained it yet. */
TEST(a_gauge_is_never_below_nothing)
{
    metrics_add(METRIC_CONNECTIONS, -3);
    look(&after);
    assert_int_equal((int)samples_value(&after, "tidings_connections"), 0);
    metrics_add(METRIC_CONNECTIONS, 3);
}

/* The kernel's time, as a new file has it: the clock of the test stands still,
 * and other files' tests may have run for a while before this process began. */
static double
seconds_of_kernel(void)
{
    FILE *file = tmpfile();
    struct stat st;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    fclose(file);
    return (double)st.st_mtim.tv_sec;
}

TEST(the_process_is_measured)
{
    FILE *files[3];
    double start, now = seconds_of_kernel();

    process_measure();
    look(&before);
    for (int i = 0; i < 3; i++)
        assert_non_null(files[i] = fopen("/dev/null", "re"));
    process_measure();
    look(&after);
    for (int i = 0; i < 3; i++)
        fclose(files[i]);

    assert_grown("process_open_fds", 3);
    start = samples_value(&after, "process_start_time_seconds");
    assert_true(start > now - 600 && start < now + 2);
    assert_true(samples_value(&after, "process_resident_memory_bytes") > 1e5);
    assert_true(samples_value(&after, "process_virtual_memory_bytes") >=
                samples_value(&after, "process_resident_memory_bytes"));
    assert_true(samples_value(&after, "process_max_fds") >=
                samples_value(&after, "process_open_fds"));
    assert_true(samples_value(&after, "process_cpu_seconds_total") > 0);
}
