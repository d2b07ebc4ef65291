/*
 * metrics.h - the broker's metrics, for GET /metrics: one row each, below.
 *
 * To add a metric, add a row to METRIC_ROWS, and call metrics_add (or
 * _observe_us, _set) at the event. Names and units follow Prometheus'
 * convention: tidings_, the thing counted, the base unit (seconds, bytes),
 * _total for counters. Help is one sentence without a full stop, and without "
 * and \.
 *
 * No row has a label for the set. A broker may have 50,000 sets, any publisher
 * can make new ones, and each would be a time series for ever; the documents of
 * a set have its own figures. The values of every label are known at the start.
 * (The sets that lag most are named, but never more than ten of each kind of
 * reader: rates.h.)
 *
 * Counting: each thread adds to one of METRIC_SHARDS copies of all cells,
 * always the same, so that threads do not fight for a cache line (with more
 * threads than copies two share one: the addition is atomic, only slower).
 * Relaxed throughout: a sum that orders nothing. A reader sums up the copies;
 * it may miss a simultaneous addition, but nothing is lost, and a histogram's
 * count is the sum of its buckets by construction. An addition costs some 6 ns,
 * a post of one entry 40,000 (measured).
 *
 * Any thread, always.
 */
#pragma once

#include "proto/buf.h"

/* The names of labels; their values: metrics.c, or metrics_name. */
enum metric_label {
    LABEL_NONE,
    LABEL_CODE,      /* HTTP status */
    LABEL_TRANSPORT, /* of push/transports.c */
    LABEL_LEVEL,     /* of diagnostics */
    LABEL_VERSION,
    LABEL_REASON, /* of enum fetch_reason (archive/content_download.h) */
    LABEL_LIMIT,  /* of enum client_kind and client_rate (client_limits.h) */
    LABEL_CERTIFICATE, /* enum metric_certificate */
    LABEL_DISK,        /* enum metric_disk */
    LABEL_RELAY,       /* enum metric_relay */
    LABEL_UPSTREAM,    /* enum metric_upstream */
    LABEL_WITNESS,     /* of archive/witnesses.c */
    METRIC_LABELS
};

/* Values of labels that several files use. */
enum metric_certificate { CERTIFICATE_SERVER, CERTIFICATE_CLIENT_CA };

enum metric_disk {
    DISK_DATABASE,
    DISK_WAL, /* and other files that SQLite puts beside a database */
    DISK_CHANGE_LISTS,
    DISK_RESOURCE_LISTS,
    DISK_DUMPS,
    DISK_CONTENT,
    DISK_TEMPORARY, /* uploads, bytes that arrive, files that are written */
    DISK_OTHER,
    DISK_KINDS
};

enum metric_relay { RELAYS_ACTIVE, RELAYS_WITHOUT_TOPIC, RELAYS_LEAVING };

enum metric_upstream { UPSTREAM_SOURCE, UPSTREAM_FETCH, UPSTREAM_DOCUMENT };

/* The kind and the unit; seconds are counted in microseconds. A gauge of a time
 * (microseconds since 1970) has no sample while it is 0. */
enum metric_kind {
    COUNTER,
    COUNTER_SECONDS,
    GAUGE,
    GAUGE_SECONDS,
    GAUGE_TIME,
    HISTOGRAM_SECONDS
};

/* clang-format off */
#define METRIC_ROWS(ROW) \
    ROW(BUILD_INFO, GAUGE, VERSION, "tidings_build_info", \
        "Always 1; the label says which version this is") \
    ROW(POSTS, COUNTER, NONE, "tidings_posts_total", \
        "Posts of changes that were committed") \
    ROW(ENTRIES, COUNTER, NONE, "tidings_entries_total", \
        "Change entries that were committed") \
    ROW(POSTS_REJECTED, COUNTER, CODE, "tidings_posts_rejected_total", \
        "Posts of changes that were refused, by the status of the answer") \
    ROW(POSTS_INCOMPLETE, COUNTER, NONE, "tidings_posts_incomplete_total", \
        "Posts of changes that did not arrive whole") \
    ROW(UPLOADS, COUNTER, NONE, "tidings_uploads_total", \
        "Whole states of sets that were taken over from their sources") \
    ROW(UPLOADS_REJECTED, COUNTER, CODE, "tidings_uploads_rejected_total", \
        "Whole states that were refused, by the status of the answer") \
    ROW(UPLOADS_AT_WORK, GAUGE, NONE, "tidings_uploads_at_work", \
        "PUT requests for all resources of a set that are at work") \
    ROW(INGEST, GAUGE, NONE, "tidings_ingest_bytes", \
        "Memory that posts at work hold") \
    ROW(INGEST_LIMIT, GAUGE, NONE, "tidings_ingest_limit_bytes", \
        "Memory that posts at work may hold (--ingest-bytes)") \
    ROW(COMMIT_TIME, HISTOGRAM_SECONDS, NONE, \
        "tidings_commit_duration_seconds", \
        "Time of a transaction that keeps entries, the fsync included") \
    ROW(COMMITS_FAILED, COUNTER, NONE, "tidings_commits_failed_total", \
        "Transactions of the log that were not kept") \
    ROW(LOG_AHEAD, GAUGE_SECONDS, NONE, "tidings_log_ahead_seconds", \
        "How far the last event time of any set is ahead of the clock") \
    ROW(LOG_ROOM, GAUGE, NONE, "tidings_log_has_room", \
        "1 while the disk has room for posts, else 0") \
    ROW(CLUSTER_CUT_OFF, GAUGE, NONE, "tidings_cluster_cut_off", \
        "1 while the journal of the cluster gives no turns or records, else " \
        "0") \
    ROW(CLUSTER_PLACE, GAUGE, NONE, "tidings_cluster_place", \
        "The last record of the journal that this broker has") \
    ROW(CLUSTER_BEHIND, GAUGE, NONE, "tidings_cluster_behind_records", \
        "Records of the journal that this broker has not, as of the last " \
        "look") \
    ROW(CLUSTER_LEASES, GAUGE, NONE, "tidings_cluster_leases", \
        "Work of the cluster that this broker does: the hub, and each bridge") \
    ROW(CLUSTER_PARTS, GAUGE, NONE, "tidings_cluster_parts", \
        "Work of the cluster that its brokers share: the parts of the hub, " \
        "and each bridge") \
    ROW(CLUSTER_UNABLE, GAUGE, NONE, "tidings_cluster_unable", \
        "1 while this broker cannot do work of its cluster, else 0") \
    ROW(CLUSTER_FAILURES, COUNTER, NONE, \
        "tidings_cluster_begin_failures_total", \
        "Attempts of this broker to begin work of its cluster that failed") \
    ROW(CLUSTER_OLDEST, GAUGE_SECONDS, NONE, \
        "tidings_cluster_oldest_transaction_seconds", \
        "How long the oldest transaction lasts in the database of the " \
        "cluster, as far as this broker may see") \
    ROW(CLUSTER_AGE, GAUGE_SECONDS, NONE, "tidings_cluster_behind_seconds", \
        "Time since this broker last had all records of the journal") \
    ROW(CLUSTER_CLOCK, GAUGE_SECONDS, NONE, \
        "tidings_cluster_clock_offset_seconds", \
        "How far the clock of the PostgreSQL server is from that of this " \
        "broker, before or behind") \
    ROW(CLUSTER_JOINS, COUNTER, NONE, "tidings_cluster_joins_total", \
        "Copies of another broker that replaced this one's (--cluster-from)") \
    ROW(SETS, GAUGE, NONE, "tidings_sets", "Sets") \
    ROW(TAIL, GAUGE, NONE, "tidings_tail_bytes", \
        "Memory that the latest changes of all sets hold") \
    ROW(TAIL_LIMIT, GAUGE, NONE, "tidings_tail_limit_bytes", \
        "Memory that they may hold (--tail-bytes)") \
    ROW(WAL, GAUGE, NONE, "tidings_wal_bytes", \
        "Size of the database's write-ahead log after the last commit") \
    ROW(CHECKPOINTS, COUNTER, NONE, "tidings_checkpoints_total", \
        "Checkpoints of the database's write-ahead log") \
    ROW(DISK, GAUGE, DISK, "tidings_disk_bytes", \
        "Room that files of the data directory take, by kind, as of the last " \
        "walk through it") \
    ROW(DISK_FREE, GAUGE, NONE, "tidings_disk_free_bytes", \
        "Room that is free on the file system of the data directory") \
    ROW(DISK_SIZE, GAUGE, NONE, "tidings_disk_size_bytes", \
        "Size of that file system") \
    ROW(WITNESS_COSIGNATURES, COUNTER, WITNESS, \
        "tidings_witness_cosignatures_total", \
        "Checkpoints that the witness has cosigned") \
    ROW(WITNESS_REFUSALS, COUNTER, WITNESS, \
        "tidings_witness_refusals_total", \
        "Checkpoints that the witness has not cosigned, by an answer 4xx or " \
        "503") \
    ROW(WITNESS_FAILURES, COUNTER, WITNESS, \
        "tidings_witness_failures_total", \
        "Requests that the witness has not answered, or with something else") \
    ROW(WITNESS_TIME, GAUGE_TIME, WITNESS, \
        "tidings_witness_last_timestamp_seconds", \
        "Time of the last cosignature of the witness, since unix epoch in " \
        "seconds") \
    ROW(LISTS_CLOSED, COUNTER, NONE, "tidings_lists_closed_total", \
        "Change Lists that were closed") \
    ROW(FILES_WRITTEN, COUNTER, NONE, "tidings_list_files_written_total", \
        "Closed Change Lists that were written to their files") \
    ROW(UNFILED, GAUGE, NONE, "tidings_list_unfiled_bytes", \
        "Size of the closed Change Lists that have no file yet") \
    ROW(UNFILED_LIMIT, GAUGE, NONE, "tidings_list_unfiled_limit_bytes", \
        "Size from which posts wait until lists are filed (--unfiled-bytes)") \
    ROW(FILES_FAILED, COUNTER, NONE, "tidings_list_files_failed_total", \
        "Attempts to write a closed Change List to its file that failed") \
    ROW(BUCKET_STORED, COUNTER, NONE, "tidings_bucket_stored_total", \
        "Files of the archive that the bucket has taken") \
    ROW(BUCKET_FETCHED, COUNTER, NONE, "tidings_bucket_fetched_total", \
        "Files of the archive that came back from the bucket") \
    ROW(BUCKET_FAILED, COUNTER, NONE, "tidings_bucket_failed_total", \
        "Attempts to store, fetch or delete a file of the archive that failed") \
    ROW(BUCKET_LOST, COUNTER, NONE, "tidings_bucket_lost_total", \
        "Answers of the bucket that it has lost a file, or has other bytes") \
    ROW(BUCKET_SWEPT, COUNTER, NONE, "tidings_bucket_swept_total", \
        "Objects of content deleted in the bucket, since no set had them") \
    ROW(BUCKET_COPIES, GAUGE, NONE, "tidings_bucket_copies_bytes", \
        "Size of the files on the disk that are in the bucket, too") \
    ROW(BUCKET_WAITING, GAUGE, NONE, "tidings_bucket_waiting_bytes", \
        "Size of the files that the bucket should have, and has not taken") \
    ROW(FOLDS_FAILED, COUNTER, NONE, "tidings_folds_failed_total", \
        "Attempts to bring the state, the tree or the content of a set up to " \
        "date that failed") \
    ROW(FOLD_LAG, GAUGE, NONE, "tidings_fold_lag_entries", \
        "Entries that are not known to be in the states of their sets, of " \
        "all sets together") \
    ROW(CONTENT_LAG, GAUGE, NONE, "tidings_content_lag_entries", \
        "Entries of which it is not known whether their bytes are there, of " \
        "all sets that keep content") \
    ROW(CONTENT_THINNED, COUNTER, NONE, "tidings_content_thinned_total", \
        "Versions of resources whose bytes went because of contentVersions") \
    ROW(FETCHES, GAUGE, NONE, "tidings_fetches", \
        "Fetches of content that are under way, or wait for a connection") \
    ROW(FETCHED, COUNTER, NONE, "tidings_fetched_total", \
        "Fetches whose bytes agreed with the change and were stored") \
    ROW(FETCHED_BYTES, COUNTER, NONE, "tidings_fetched_bytes_total", \
        "Bytes of these") \
    ROW(FETCHES_FAILED, COUNTER, REASON, "tidings_fetches_failed_total", \
        "Fetches that failed, by reason") \
    ROW(FETCHES_GIVEN_UP, COUNTER, NONE, "tidings_fetches_given_up_total", \
        "Entries whose content is not tried to be fetched any more") \
    ROW(PUSH_LATENCY, HISTOGRAM_SECONDS, NONE, "tidings_push_latency_seconds", \
        "From the commit of entries to the handing over of the message to a " \
        "subscriber's socket, for subscribers connected at the commit") \
    ROW(MESSAGES, COUNTER, TRANSPORT, "tidings_messages_sent_total", \
        "Messages sent to subscribers, heartbeats included") \
    ROW(SUBSCRIBERS, GAUGE, TRANSPORT, "tidings_subscribers", \
        "Connected subscribers") \
    ROW(LAG, GAUGE, TRANSPORT, "tidings_subscriber_lag_entries", \
        "Entries that subscribers are behind, all together") \
    ROW(LAG_MAX, GAUGE, TRANSPORT, "tidings_subscriber_lag_max_entries", \
        "Entries that the last subscriber is behind") \
    ROW(HUB_ATTEMPTS, COUNTER, NONE, "tidings_hub_attempts_total", \
        "Attempts to deliver to a callback") \
    ROW(HUB_DELIVERIES, COUNTER, NONE, "tidings_hub_deliveries_total", \
        "Deliveries that a callback answered 2xx") \
    ROW(HUB_FAILURES, COUNTER, NONE, "tidings_hub_failures_total", \
        "Attempts to deliver that failed") \
    ROW(HUB_GIVEN_UP, COUNTER, NONE, "tidings_hub_given_up_total", \
        "Deliveries that were given up (--hub-give-up)") \
    ROW(HUB_SKIPPED, COUNTER, NONE, "tidings_hub_skipped_entries_total", \
        "Entries that subscriptions were moved past, not delivered") \
    ROW(HUB_VERIFICATIONS, COUNTER, NONE, "tidings_hub_verifications_total", \
        "Verifications of intent that callbacks confirmed") \
    ROW(HUB_VERIFICATIONS_FAILED, COUNTER, NONE, \
        "tidings_hub_verifications_failed_total", \
        "Verifications of intent that failed") \
    ROW(HUB_SUBSCRIPTIONS, GAUGE, NONE, "tidings_hub_subscriptions", \
        "Subscriptions of callbacks that are active") \
    ROW(HUB_IN_FLIGHT, GAUGE, NONE, "tidings_hub_in_flight", \
        "Deliveries that are under way") \
    ROW(HUB_BODY_BYTES, GAUGE, NONE, "tidings_hub_body_bytes", \
        "Memory that bodies of deliveries under way hold") \
    ROW(HUB_LATENCY, HISTOGRAM_SECONDS, NONE, "tidings_hub_latency_seconds", \
        "From the commit of entries to the callback's 2xx, for deliveries " \
        "that succeed at the first try") \
    ROW(HUB_LAG, GAUGE, NONE, "tidings_hub_lag_max_entries", \
        "Entries that the last subscription is behind") \
    ROW(RELAYS, GAUGE, RELAY, "tidings_relays", \
        "Relays, by state; one without its topic gets nothing") \
    ROW(RELAY_DOCUMENTS, COUNTER, NONE, "tidings_relay_documents_total", \
        "Documents of foreign Sources that relays have taken in") \
    ROW(RELAY_KEPT, GAUGE, NONE, "tidings_relay_kept_documents", \
        "Documents that relays keep") \
    ROW(RELAY_KEPT_BYTES, GAUGE, NONE, "tidings_relay_kept_bytes", \
        "Bytes of these") \
    ROW(RELAY_LAG, GAUGE, NONE, "tidings_relay_lag_max_documents", \
        "Documents that the last subscription of a relay is behind") \
    ROW(UPSTREAM_FAILURES, COUNTER, UPSTREAM, \
        "tidings_upstream_failures_total", \
        "Documents of foreign Sources that were not taken in, because the " \
        "source does not name this hub, or the fetch failed, or the document " \
        "was refused") \
    ROW(MQTT_DIRECTIONS, GAUGE, NONE, "tidings_mqtt_directions", \
        "Directions of bridges, each of which needs a connection") \
    ROW(MQTT_CONNECTED, GAUGE, NONE, "tidings_mqtt_connected", \
        "Connections of bridges to MQTT brokers that stand") \
    ROW(MQTT_CONNECTIONS, COUNTER, NONE, "tidings_mqtt_connections_total", \
        "Connections to MQTT brokers that were accepted") \
    ROW(MQTT_FAILURES, COUNTER, NONE, "tidings_mqtt_failures_total", \
        "Connections to MQTT brokers that failed or were lost") \
    ROW(MQTT_WITHOUT_TOKEN, GAUGE, NONE, "tidings_mqtt_without_token", \
        "Directions of bridges that wait because their token is missing") \
    ROW(MQTT_PUBLISHED, COUNTER, NONE, "tidings_mqtt_published_total", \
        "Messages that were published, repeats included") \
    ROW(MQTT_ACKNOWLEDGED, COUNTER, NONE, "tidings_mqtt_acknowledged_total", \
        "Messages that the MQTT broker acknowledged") \
    ROW(MQTT_REFUSED, COUNTER, NONE, "tidings_mqtt_refused_total", \
        "Messages that the MQTT broker refused") \
    ROW(MQTT_LEFT_OUT, COUNTER, NONE, "tidings_mqtt_left_out_entries_total", \
        "Entries that bridges could not send: too large for a packet, or no " \
        "longer retained") \
    ROW(MQTT_IN_FLIGHT, GAUGE, NONE, "tidings_mqtt_in_flight", \
        "Messages that are published and not acknowledged") \
    ROW(MQTT_LAG, GAUGE, NONE, "tidings_mqtt_lag_entries", \
        "Entries that bridges are behind, of all sets together") \
    ROW(MQTT_RECEIVED, COUNTER, NONE, "tidings_mqtt_received_total", \
        "Messages that were received") \
    ROW(MQTT_POSTED, COUNTER, NONE, "tidings_mqtt_posted_total", \
        "Messages whose changes were committed") \
    ROW(MQTT_IGNORED, COUNTER, NONE, "tidings_mqtt_ignored_total", \
        "Messages that were passed over: retained, our own, without changes") \
    ROW(MQTT_REJECTED, COUNTER, NONE, "tidings_mqtt_rejected_total", \
        "Messages that were bad") \
    ROW(MQTT_REPEATS, COUNTER, NONE, "tidings_mqtt_repeats_total", \
        "Messages without a key that may be repeats, and were kept") \
    ROW(OUTBOX_POSTED, COUNTER, NONE, "tidings_outbox_entries_total", \
        "Entries of the outbox in PostgreSQL that were posted") \
    ROW(OUTBOX_REFUSED, COUNTER, NONE, "tidings_outbox_refused_total", \
        "Batches of the outbox that the broker refused, with each try") \
    ROW(CERTIFICATE_END, GAUGE_TIME, CERTIFICATE, \
        "tidings_certificate_end_timestamp_seconds", \
        "End of the first certificate to expire of a file in use, since unix " \
        "epoch in seconds") \
    ROW(CONNECTIONS, GAUGE, NONE, "tidings_connections", \
        "Open connections, subscribers included") \
    ROW(ACCEPTED, COUNTER, NONE, "tidings_connections_accepted_total", \
        "Connections that were accepted") \
    ROW(ACCEPT_PAUSES, COUNTER, NONE, "tidings_accept_pauses_total", \
        "Pauses of accepting for want of file descriptors") \
    ROW(SLOW, COUNTER, NONE, "tidings_slow_connections_total", \
        "Connections that ended because too little moved on them") \
    ROW(DENIED, COUNTER, NONE, "tidings_denied_requests_total", \
        "Requests that ended because their token did while they were under " \
        "way") \
    ROW(DISPLACED, COUNTER, NONE, "tidings_displaced_connections_total", \
        "Connections that waited for a request, and ended to make room") \
    ROW(CLIENT_REFUSALS, COUNTER, LIMIT, "tidings_client_refusals_total", \
        "Refusals because a client has its share, by the limit") \
    ROW(RESPONSES, COUNTER, CODE, "tidings_http_responses_total", \
        "Answers, by status") \
    ROW(RECEIVED, COUNTER, NONE, "tidings_received_bytes_total", \
        "Bytes of bodies and WebSocket messages that were received") \
    ROW(SENT, COUNTER, NONE, "tidings_sent_bytes_total", \
        "Bytes that were given to sockets, headers included") \
    ROW(TRACEPARENTS_MALFORMED, COUNTER, NONE, \
        "tidings_traceparents_malformed_total", \
        "Values of traceparent in posts that were passed over: not of W3C " \
        "Trace Context, version 00") \
    ROW(SPANS_SENT, COUNTER, NONE, "tidings_spans_sent_total", \
        "Spans that the collector took (--otlp)") \
    ROW(SPANS_LOST, COUNTER, NONE, "tidings_spans_lost_total", \
        "Spans that the collector did not take") \
    ROW(SPANS_DROPPED, COUNTER, NONE, "tidings_spans_dropped_total", \
        "Spans that were dropped because too many waited for the collector") \
    ROW(ACCESS_DROPPED, COUNTER, NONE, \
        "tidings_access_log_dropped_lines_total", \
        "Lines of the access log that were dropped: its file is too slow, or " \
        "cannot be written") \
    ROW(DIAGNOSTICS, COUNTER, LEVEL, "tidings_diagnostics_total", \
        "Diagnostic lines that were written") \
    ROW(DIAGNOSTICS_SUPPRESSED, COUNTER, LEVEL, \
        "tidings_diagnostics_suppressed_total", \
        "Diagnostic lines that were left out because they repeated") \
    ROW(PROCESS_CPU, COUNTER_SECONDS, NONE, "process_cpu_seconds_total", \
        "Total user and system CPU time spent in seconds") \
    ROW(PROCESS_FDS, GAUGE, NONE, "process_open_fds", \
        "Number of open file descriptors") \
    ROW(PROCESS_FDS_MAX, GAUGE, NONE, "process_max_fds", \
        "Maximum number of open file descriptors") \
    ROW(PROCESS_RESIDENT, GAUGE, NONE, "process_resident_memory_bytes", \
        "Resident memory size in bytes") \
    ROW(PROCESS_VIRTUAL, GAUGE, NONE, "process_virtual_memory_bytes", \
        "Virtual memory size in bytes") \
    ROW(PROCESS_START, GAUGE_SECONDS, NONE, "process_start_time_seconds", \
        "Start time of the process since unix epoch in seconds")
/* clang-format on */

#define METRIC_NAME(name, kind, label, text, help) METRIC_##name,

enum metric {
    METRIC_ROWS(METRIC_NAME) METRICS /* how many there are */
};

#undef METRIC_NAME

/* Values of one label. */
#define METRIC_VALUES_MAX 24

#define METRIC_SHARDS 16

/* Adds `n`; for a gauge `n` may be negative. _label: adds to the cell of value
 * number `value` of the row's label. */
void metrics_add(enum metric metric, int64_t n);
void metrics_add_label(enum metric metric, size_t value, int64_t n);

/* Adds one observation of a duration to a histogram. */
void metrics_observe_us(enum metric metric, int64_t us);

/* Sets a gauge. Never together with metrics_add on the same row. */
void metrics_set(enum metric metric, int64_t value);
void metrics_set_label(enum metric metric, size_t value, int64_t n);

/* Requests by route: tidings_http_request_duration_seconds, with the labels
 * method, route (the path of a row: "/sets/{set}") and status ("2xx"). The rows
 * of the tables of routes and documents bound its series: some 85 routes, at
 * most 5 classes of statuses each. A series is written from its first request
 * on, and most routes are never asked for: some 20 in use are 400 lines.
 *
 * metrics_name_route gives row number `route` its labels, which are plain and
 * live for ever. Before any thread reads.
 *
 * metrics_observe_request adds a request; `status` 0: it ended without one. */
#define METRIC_ROUTES_MAX 128

void metrics_name_route(size_t route, const char *method, const char *path);
void metrics_observe_request(size_t route, unsigned status, int64_t us);

/* Returns the number of an HTTP status among the values of LABEL_CODE; unlisted
 * ones are "other". */
size_t metrics_code(unsigned status);

/* Names value number `value` of a label. `name` is plain, and lives for ever.
 * Before any thread reads. */
void metrics_name(enum metric_label label, size_t value, const char *name);

/* Appends the lines HELP and TYPE of a family that is no row, whose samples
 * the caller appends. `type`: gauge, counter or histogram. */
void metrics_write_head(struct buf *to, const char *name, const char *type,
                        const char *help);

/* Appends all metrics in Prometheus' text format 0.0.4. */
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

void metrics_write(struct buf *to);

/* Sets the process_ rows from the system's figures of this process. A row whose
 * figure cannot be read keeps its value. Reads /proc: may block, and takes time
 * for each descriptor (some milliseconds for 10,000). Any thread that may wait.
 */
void process_measure(void);
