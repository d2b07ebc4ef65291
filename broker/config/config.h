/*
 * config.h - the broker's options: one row each, in config.c, gives name, type,
 * limits, default and help; command line, configuration file, --help and the
 * example of a file come from these rows.
 *
 * The file (--config FILE) has these options, too (option_file.h); a
 * command-line option wins. A flag's value is yes or no.
 *
 * Sections follow the options: each is a bridge to an MQTT broker
 * (bridge_config.h).
 */
#pragma once

#include <pthread.h>

#include "base/options.h"
#include "broker/base/diag.h"
#include "broker/config/bridge_config.h"
#include "proto/buf.h"

/* The socket in the data directory by which commands of tidingsd reach the
 * broker. */
#define CONTROL_SOCKET "control.sock"

/* How a set gets the bytes of its resources. */
enum content_mode {
    CONTENT_NONE,
    CONTENT_FETCH, /* the broker fetches them after a change */
    CONTENT_INLINE /* they come with the changes */
};

/* Users of the machine who may read closed lists and dumps in their files. */
enum list_readers { READERS_OWNER, READERS_GROUP, READERS_ALL };

/* What makes commits of PostgreSQL last (--cluster-durable-by), in the order of
 * its words; and none of them. */
enum durable_by {
    DURABLE_STANDBYS, /* a standby has each commit before its answer */
    DURABLE_PROVIDER, /* the disk of a managed service is on two machines */
    DURABLE_DISK,     /* one disk, which the operator trusts */
    DURABLE_UNCHECKED /* nothing that lasts is stored there */
};

/* Where the values of options are from, by the rows of config_options. */
struct config_origins {
    const char *file;              /* of --config; lent for ever; NULL: none */
    unsigned line_of[OPTIONS_MAX]; /* in the file; 0: none */
    bool is_argument[OPTIONS_MAX]; /* from the command line, which wins */
};

/* The most of --max-content in a cluster: content travels in records, each of
 * which is in memory as a whole. */
#define CLUSTER_CONTENT_MAX ((uint64_t)16 << 20)

/* What a broker with cluster_read_only answers to a request that it does not
 * take. */
#define CLUSTER_READ_ONLY                                                  \
    "this broker only reads (--cluster-read-only): another broker of its " \
    "cluster takes this request"

struct config {
    struct config_origins origins;
    char listen_host[256];  /* an address or name to listen on */
    unsigned listen_port;   /* 0: any free one */
    char listen_unix[4096]; /* path of a unix socket; "": none */
    char data[4096];        /* directory */
    enum list_readers list_readers;
    char public_url[512];     /* without a slash at the end; "": from listen */
    char tls_cert[4096];      /* file; "": no TLS */
    char tls_key[4096];       /* file; "" if tls_cert is "" */
    char tls_client_ca[4096]; /* file; "": clients have no certificates */
    char ca_file[4096];       /* "": the system's authorities alone */
    char cluster[2048];       /* address of PostgreSQL, unchecked; "": none */
    char cluster_name[256];   /* unchecked */
    uint64_t cluster_keep;    /* bytes of records */
    int64_t cluster_clock_us; /* most difference of clocks */
    int64_t cluster_stale_us; /* not ready for reads then; 0: never */
    int64_t cluster_private_stale_us; /* private sets are 503 then; likewise */
    char cluster_from[512];           /* without a slash at the end; "": none */
    bool cluster_wait_for_all;
    bool cluster_read_only;   /* follow the cluster, and add nothing to it */
    char cluster_bytes[1024]; /* "journal", or as archive */
    enum durable_by cluster_durable_by;
    char postgresql[2048];   /* address of the outbox, unchecked; "": none */
    char postgresql_as[65];  /* the token of its posts; "": all rights */
    uint64_t threads;        /* service threads; default: one per core */
    uint64_t rotate_entries; /* 1 to 50,000 */
    uint64_t rotate_bytes;   /* 512 KiB to 50 MiB, header and footer counted */
    int64_t rotate_age_us;   /* 0: never by age */
    uint64_t retain_lists;   /* closed lists kept at most; 0: all */
    int64_t retain_age_us;   /* how long closed lists are kept; 0: for ever */
    char archive[1024];      /* address of a bucket, unchecked; "": none */
    char s3_credentials[4096]; /* "": the environment */
    uint64_t local_days;
    uint64_t archive_cache;  /* bytes */
    bool bucket_overwrite;   /* bucket.h: may_overwrite */
    int64_t remove_grace_us; /* how long dropped files stay on the disk */
    uint64_t index_lists;    /* closed lists in the index, and in a document of
                                the archive: 1 to 49,999 */
    uint64_t description_sets;      /* in a Source Description: 1 to 5,000 */
    int64_t resource_list_every_us; /* 0: on demand only */
    uint64_t resource_list_keep;    /* OPTION_KEEP_DAILY, ... */
    uint64_t resource_list_entries; /* 1 to 50,000 */
    enum content_mode content;
    uint64_t content_versions;      /* OPTION_KEEP_ALL, ... */
    int64_t resource_dump_every_us; /* 0: on demand only */
    uint64_t resource_dump_keep;    /* OPTION_KEEP_NONE, ... */
    uint64_t package_bytes;
    uint64_t max_body;           /* bytes of one post */
    uint64_t max_resources_body; /* bytes of all resources of a set */
    uint64_t max_content;  /* bytes of a post with its content, or of a fetch */
    uint64_t ingest_bytes; /* bytes of all posts being read or committed */
    uint64_t unfiled_bytes; /* bytes of closed lists without a file */
    uint64_t tail_bytes;    /* bytes of recent batches kept in memory */
    uint64_t message_bytes; /* largest message */
    bool scan_posts;        /* xml_scan_switch() */
    bool compress_streams;  /* of WebSockets whose clients ask for it */
    int64_t linger_us;      /* how long a commit waits for more posts */
    int64_t heartbeat_us;
    int64_t checkpoint_every_us;
    char witness[4096];         /* for witnesses_open, unchecked; "": none */
    int64_t request_timeout_us; /* of a head; and see min_rate */
    uint64_t min_rate; /* bytes a second that a peer must move, measured over
                          each request_timeout_us; 0: any */
    uint64_t client_connections; /* the most of one client (client_limits.h) */
    uint64_t client_half_heads;  /* likewise */
    uint64_t client_streams;     /* likewise */
    uint64_t client_followed;    /* likewise */
    uint64_t client_post_rate;   /* posts a second; 0: any */
    uint64_t client_byte_rate;   /* bytes of posts a second; 0: any */
    uint64_t client_sets;        /* sets that one client may have created */
    uint64_t client_kept_bytes;  /* that its sets keep; 0: all but a share of
                                    the disk */
    uint64_t client_keys;        /* idempotency keys of one client */
    uint64_t client_share;       /* percent of a common limit */
    char jwt_keys[4096];         /* file or URL of a JWK set; "": no provider */
    char jwt_issuer[512];        /* "" if jwt_keys is "", and only then */
    char jwt_audience[512];      /* likewise */
    char jwt_client[512];        /* "": nobody signs in there */
    char jwt_scope[512];
    char allow_origins[2048];   /* for origins_read, unchecked; "": none */
    char trusted_proxies[2048]; /* for networks_read_proxies, unchecked; "":
                                   none */

    /* The hub */
    int64_t hub_lease_min_us; /* broker_check checks min <= default <= max */
    int64_t hub_lease_default_us;
    int64_t hub_lease_max_us;
    struct backoff hub_retry;
    int64_t hub_give_up_us;        /* of one delivery, from its first failure */
    int64_t hub_timeout_us;        /* of one call */
    uint64_t hub_connections;      /* to all callbacks */
    uint64_t hub_host_connections; /* to one host and port */
    uint64_t hub_body_bytes;       /* bodies of deliveries in flight */
    char hub_signature[16];        /* name of a method, unchecked */
    bool hub_trust_simple;         /* no verification of intent */
    uint64_t hub_subscriptions;    /* the most in all */
    uint64_t hub_host_subscriptions; /* of the callbacks of one host */
    uint64_t relay_documents;        /* the latest ones that a relay keeps */
    uint64_t relay_bytes;            /* likewise */
    char peer_tokens[4096];          /* file of peer_tokens.h; "": none */
    char allow_callbacks[2048]; /* for networks_read, unchecked; "": none */

    /* Content that is fetched */
    uint64_t fetch_connections;      /* in all */
    uint64_t fetch_host_connections; /* to one host and port */
    int64_t fetch_timeout_us;        /* of one fetch */
    int64_t fetch_stall_us;          /* without a byte */
    struct backoff fetch_retry;
    uint64_t fetch_tries; /* of one entry's content */

    char mqtt[512]; /* --mqtt: URL of the bridge "mqtt"; "": none */
    struct bridge_config *bridges; /* of --mqtt, then of the sections; NULL:
                                      none */
    size_t n_bridges;

    bool insecure_open; /* open although not on loopback */
    bool closed;        /* also before there is a token */
    bool seccomp;       /* syscall_filter.h */
    bool core_dumps;    /* files of all memory, where the system writes them */
    enum diag_level log_level;
    enum log_format log_format;
    char otlp[1024];       /* URL of a collector of spans; "": none */
    char otlp_token[4096]; /* file; "": none */
    char access_log[4096]; /* file; "-": standard output; "": none */
    bool check;            /* --check: check everything that a start needs, then
                              end */
    bool check_settings;   /* --check-settings: check the options and the files
                              they name */
};

enum config_wish {
    CONFIG_RUN,
    CONFIG_HELP,     /* --help */
    CONFIG_EXAMPLE,  /* --example: call config_example */
    CONFIG_ROUTES,   /* --routes */
    CONFIG_LIMITS,   /* --limits */
    CONFIG_OPENAPI,  /* --openapi */
    CONFIG_ASYNCAPI, /* --asyncapi */
    CONFIG_VERSION   /* --version */
};

/* Reads the defaults, then the file, then the command line; the command line
 * wins. STATUS_INVALID: `why` names the option, and its file and line.
 * config_fini frees what this allocates; after a failure there is nothing to
 * free. */
MUST_CHECK enum status config_read(struct config *config, int argc, char **argv,
                                   enum config_wish *wish, struct problem *why);
void config_fini(struct config *config);

/* For a reload: `next` was read while a broker runs with `running`. Calls
 * `on_difference` for each option that differs, in order of the rows; is_live:
 * it can change while the broker runs. */
void config_compare(const struct config *running, const struct config *next,
                    void (*on_difference)(const char *name, bool is_live,
                                          void *user),
                    void *user);

/* Copies the options that can change. No other thread reads these members. */
void config_take_live(struct config *running, const struct config *next);

/* Returns the row of an option ("rotate-age"), for parts that read the same
 * kind of value elsewhere: type, limits, default. NULL: there is none. */
const struct option *config_option(const char *name);

/* The options, and what --help and the example of a file say of their values.
 */
extern const struct options config_options;

#define CONFIG_VALUES                                                  \
    "BYTES may end in K, M or G (1024 each); SECONDS and MS may have " \
    "decimals."

/* Prints --example: a file for --config with every option in it, as a comment,
 * with its default; if it has none, with its argument's name. */
void config_example(FILE *to);

/* The present options as JSON, for GET /config: name, value, default, where the
 * value is from, and whether a reload changes it. Leaves out the query of a
 * URL, and the bridges. The main thread writes it at the start and at each
 * reload, because it alone reads options that can change; any thread copies
 * it. */

/* The longest text: some 100 options, few of them long. */
#define CONFIG_REPORT_MAX ((size_t)1 << 18)

struct config_report {
    pthread_mutex_t mutex;
    struct buf text;
};

void config_report_init(struct config_report *report);
void config_report_fini(struct config_report *report);

/* Replaces the text by that of `config`. */
void config_report_update(struct config_report *report,
                          const struct config *config);

/* Appends the text. Any thread. */
void config_report_copy(struct config_report *report, struct buf *to);

/* Its members */
extern const struct json_shape options_shape, option_shape;
