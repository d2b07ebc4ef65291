#include "broker/broker.h"

#include <unistd.h>

#include "broker/access/checkpoint_keys.h"
#include "broker/access/identity_provider.h"
#include "broker/access/request_tickets.h"
#include "broker/access/tickets.h"
#include "broker/access/tokens.h"
#include "broker/archive/archiver.h"
#include "broker/archive/chore.h"
#include "broker/archive/epochs.h"
#include "broker/archive/set_progress.h"
#include "broker/archive/witnesses.h"
#include "broker/backup/backup_offer.h"
#include "broker/base/access_log.h"
#include "broker/bridge/bridges.h"
#include "broker/bridge/mqtt_db.h"
#include "broker/bucket/bucket.h"
#include "broker/bucket/vault.h"
#include "broker/calls/span_export.h"
#include "broker/check/databases.h"
#include "broker/documents/html.h"
#include "broker/http/http.h"
#include "broker/http/origins.h"
#include "broker/http/setting_files.h"
#include "broker/hub/hub_owner.h"
#include "broker/journal/membership.h"
#include "broker/log/log.h"
#include "broker/net/server.h"
#include "broker/posts/content_check.h"
#include "broker/posts/posts.h"
#include "broker/push/subscribers.h"
#include "broker/sets/data_directory.h"
#include "broker/sets/framework_events.h"
#include "broker/sets/registry.h"
#include "broker/sources/hub_db.h"
#include "broker/sources/peer_tokens.h"
#include "broker/store/store.h"
#include "proto/http/webhook_signature.h"
#include "proto/resourcesync/xml.h"

/* The longest time for answers in flight when the broker ends. */
#define FAREWELL_US 5000000

/* How often the broker looks for subscribers that need a heartbeat: or four
 * times within its interval, if that is shorter. */
#define TICK_US 1000000

/* Settings of a reload that other threads read. They hold no reference, so all
 * of them stay until the end. */
struct brought {
    struct bridging bridging;
    struct bridge_config *all; /* of `bridging`, to be freed */
    struct networks callable, trusted;
    struct origins origins;
    struct brought *earlier;
};

/* What a start hands to those parts that it opens. */
struct start {
    struct registry_options sets;
    struct server_options net;
};

struct broker {
    const struct config *config;
    char control_path[4200]; /* of CONTROL_SOCKET */
    struct unix_socket sockets[UNIX_SOCKETS_MAX];
    struct config_report config_report;
    char url[600];
    char public_url[600];
    struct announcer *announcer;
    struct membership *membership; /* NULL: this is a single broker */
    struct streams *of_tokens;     /* of a cluster; else NULL */
    struct cluster_seat seat;      /* of a cluster */
    struct chore use_saving;       /* of the tokens */
    bool cannot_save_uses;         /* the last time; archive thread */
    struct networks callable; /* beside public addresses: --allow-callbacks */
    struct networks trusted;  /* --trusted-proxies */
    struct origins origins;   /* --allow-origins */
    struct posts posts;
    struct content_check content_check;
    _Atomic(struct archiver *) filing;    /* the archiver, for the log thread */
    _Atomic(struct push *) woken;         /* push, for the log thread */
    struct span_export *spans;            /* NULL: none are wanted */
    struct witnesses *witnesses;          /* NULL: there are none */
    _Atomic(struct hub_owner *) notified; /* the hub, for the log thread */
    struct brought *brought;
    struct server *server;
    struct setting_files *files;
    struct http http;
    struct start *start; /* in broker_open */
};

/* Settings */

static bool
has_bytes_in_bucket(const struct config *config)
{
    return strcmp(config->cluster_bytes, "journal") != 0;
}

/* Checks settings that depend on each other. */
static enum status
check_settings(const struct config *config, struct problem *why)
{
    const struct {
        bool is_wrong;
        const char *reason;
    } rows[] = {
        {config->closed && config->insecure_open,
         "--closed and --insecure-open exclude each other"},
        {config->hub_lease_min_us > config->hub_lease_max_us,
         "--hub-lease-min is longer than --hub-lease-max"},
        {config->hub_retry.first_us > config->hub_retry.max_us,
         "--hub-retry-first is longer than --hub-retry-max"},
        {config->cluster_read_only && !config->cluster[0],
         "--cluster-read-only needs --cluster: a single broker has nothing to "
         "follow"},
        {config->cluster_from[0] && !config->cluster[0],
         "--cluster-from needs --cluster"},
        {has_bytes_in_bucket(config) && !config->cluster[0],
         "--cluster-bytes needs --cluster: content of a single broker stays on "
         "its disk"},
        {has_bytes_in_bucket(config) && config->archive[0] &&
             strcmp(config->cluster_bytes, config->archive) != 0,
         "--cluster-bytes and --archive have different addresses: a broker has "
         "one bucket"},
        {config->tls_key[0] && !config->tls_cert[0],
         "--tls-cert is missing: TLS needs both --tls-cert and --tls-key"},
        {config->tls_cert[0] && !config->tls_key[0],
         "--tls-key is missing: TLS needs both --tls-cert and --tls-key"},
        {config->tls_client_ca[0] && !config->tls_cert[0],
         "--tls-client-ca: only TLS has certificates, see --tls-cert"},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        if (rows[i].is_wrong)
            return problem(why, STATUS_INVALID, "%s", rows[i].reason);
    if (config->hub_lease_default_us < config->hub_lease_min_us ||
        config->hub_lease_default_us > config->hub_lease_max_us)
        return problem(why, STATUS_INVALID,
                       "--hub-lease-default is %s: it is %g seconds",
                       config->hub_lease_default_us < config->hub_lease_min_us
                           ? "shorter than --hub-lease-min"
                           : "longer than --hub-lease-max",
                       (double)config->hub_lease_default_us / 1e6);
    if ((!strcmp(config->listen_host, "0.0.0.0") ||
         !strcmp(config->listen_host, "::")) &&
        !config->public_url[0])
        return problem(why, STATUS_INVALID,
                       "listening on %s needs --public-url: documents name "
                       "themselves by it",
                       config->listen_host);
    /* Escaped, each takes several bytes in the headers of lists: these have a
     * limit. */
    if (strpbrk(config->public_url, "&<>\"'"))
        return problem(why, STATUS_INVALID,
                       "--public-url: without & < > \" ' please: %s",
                       config->public_url);
    return STATUS_OK;
}

static enum status
check_networks(const char *option, bool may_have_unix, const char *text,
               struct problem *why)
{
    struct networks networks;

    return networks_read(slice_of(text), may_have_unix, &networks, why)
               ? problem_prefix(why, STATUS_INVALID, "--%s: ", option)
               : STATUS_OK;
}

/* Checks that not everybody may do everything, unless that is wanted. */
static enum status
check_reach(const struct config *config, bool has_token, struct problem *why)
{
    const char *reached = NULL, *host = strstr(config->public_url, "://");
    size_t size;

    /* The host of "http://host:port/path", brackets included. */
    host = host ? host + 3 : config->public_url;
    size = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
    if (*host && !address_is_loopback_host((struct slice){host, size}))
        reached = config->public_url;
    if (!address_is_loopback_host(slice_of(config->listen_host)))
        reached = config->listen_host;
    if (!reached || has_token || config->jwt_keys[0] || config->closed ||
        config->insecure_open)
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "anyone who reaches %s could publish: make a token first "
                   "(tidingsd token add), give --closed to make it later, or "
                   "give --insecure-open if that is wanted",
                   reached);
}

static enum status
read_origins(const struct config *config, struct origins *origins,
             struct problem *why)
{
    enum status rc =
        origins_read(slice_of(config->allow_origins), origins, why);

    return rc ? problem_prefix(why, rc, "--allow-origins: ") : rc;
}

enum status
broker_check(const struct config *config, struct problem *why)
{
    struct provider_options provider = setting_files_provider(config);
    char path[sizeof(config->data) + 16];
    enum signature_method method;
    struct origins origins;
    enum status rc = check_settings(config, why);

    if (!rc && signature_method_of(slice_of(config->hub_signature), &method))
        rc = problem(why, STATUS_INVALID,
                     "--hub-signature: \"%s\" is not sha1, sha256, sha384 or "
                     "sha512",
                     problem_quote(slice_of(config->hub_signature)).text);
    if (!rc)
        rc = check_networks("allow-callbacks", false, config->allow_callbacks,
                            why);
    if (!rc)
        rc = check_networks("trusted-proxies", true, config->trusted_proxies,
                            why);
    if (!rc)
        rc = witnesses_check(config->witness, why);
    if (!rc)
        rc = provider_options_check(&provider, why);
    if (!rc)
        rc = read_origins(config, &origins, why);
    if (!rc && config->cluster[0])
        rc = membership_check(config, why);
    if (!rc && config->postgresql[0] &&
        pg_check_address(config->postgresql, why))
        rc = problem_prefix(why, STATUS_INVALID, "--postgresql: ");
    if (rc)
        return rc;
    /* The file is made with the first token, but in a cluster with the first
     * start: then the tokens themselves decide, later. */
    snprintf(path, sizeof(path), "%s/tokens.db", config->data);
    return check_reach(config, config->cluster[0] || !access(path, F_OK), why);
}

static enum status
check_peer_tokens(const struct config *config, struct problem *why)
{
    enum status rc = config->peer_tokens[0]
                         ? peer_tokens_check(config->peer_tokens, why)
                         : STATUS_OK;

    return rc ? problem_prefix(why, rc, "--peer-tokens: ") : rc;
}

/* The bucket of --archive and --cluster-bytes; "": none. */
static const char *
bucket_address(const struct config *config)
{
    return has_bytes_in_bucket(config) ? config->cluster_bytes
                                       : config->archive;
}

static enum status
check_bucket(const struct config *config, struct problem *why)
{
    const struct bucket_options options = {.address = bucket_address(config),
                                           .credentials =
                                               config->s3_credentials};
    struct bucket *bucket = NULL;
    enum status rc =
        *options.address ? bucket_open(&bucket, &options, why) : STATUS_OK;

    bucket_close(bucket);
    return rc ? problem_prefix(why, rc, "%s: ",
                               has_bytes_in_bucket(config) ? "--cluster-bytes"
                                                           : "--archive")
              : STATUS_OK;
}

enum status
broker_check_files(const struct config *config, struct problem *why)
{
    struct setting_contents contents;
    enum status rc = check_peer_tokens(config, why);

    if (!rc)
        rc = access_log_check(config->access_log, why);
    if (!rc)
        rc = span_export_check(config->otlp, config->otlp_token, why);
    if (!rc)
        rc = check_bucket(config, why);
    if (!rc)
        rc = setting_contents_read(&contents, config, why);

    if (rc)
        return rc;
    setting_contents_free(&contents);
    return bridges_check_files(config, why);
}

/* The socket for proxies; its path is "" without one. */
static struct unix_socket
proxy_socket(const struct config *config)
{
    return (struct unix_socket){LISTENER_UNIX, config->listen_unix, 0660};
}

static enum status
check_proxy_socket(const struct config *config, struct problem *why)
{
    struct unix_socket socket = proxy_socket(config);
    enum status rc =
        config->listen_unix[0] ? server_check_unix(&socket, why) : STATUS_OK;

    return rc ? problem_prefix(why, rc, "--listen-unix: ") : rc;
}

enum status
broker_check_surroundings(const struct config *config, struct problem *why)
{
    struct server_options net = {
        .host = config->listen_host,
        .port = config->listen_port,
        .threads = (unsigned)config->threads,
    };
    enum status rc = server_check(&net, why);

    if (rc)
        return problem_prefix(why, rc, "--listen: ");
    rc = check_proxy_socket(config, why);
    if (rc)
        return rc;
    rc = log_check(config->data, why);
    if (!rc)
        rc = databases_check_versions(config->data, why);
    if (!rc)
        rc = store_check(config->data, why);
    if (!rc)
        rc = owned_file_check(&hub_db_file, config->data, why);
    if (!rc && config->n_bridges > 0)
        rc = owned_file_check(&mqtt_db_file, config->data, why);
    return rc ? problem_prefix(why, rc, "--data: ") : STATUS_OK;
}

/* Callbacks from below */

/* On the log thread. Relays and bridges may post before the archiver has begun,
 * which looks at everything when it begins. Acquire, for the release of
 * begin_work. */
static void
on_closed(void *user)
{
    struct broker *b = user;
    struct archiver *archiver =
        atomic_load_explicit(&b->filing, memory_order_acquire);

    if (archiver)
        thread_wake(&archiver->thread);
}

/* On the log thread, or that of the journal. The log may take its first turn
 * before there are service threads. Acquire, for the release of
 * open_posts_and_push. */
static void
on_certain(void *user)
{
    struct broker *b = user;
    struct push *push = atomic_load_explicit(&b->woken, memory_order_acquire);

    if (push)
        push_copy_is_certain(push);
}

/* On the log thread. The hub exists before requests that change sets are let
 * in, and neither relays nor bridges give a set settings, or remove one. But
 * another broker of a cluster may; the hub looks at everything when it begins.
 * Acquire, for the release of open_hub_and_bridges. */
static void
on_changed(void *user)
{
    struct broker *b = user;
    struct hub_owner *hub =
        atomic_load_explicit(&b->notified, memory_order_acquire);

    if (hub)
        hub_owner_sets_changed(hub);
}

static void
on_wake(struct service *service, void *user)
{
    const struct http *http = user;

    push_on_wake(http->push, service);
}

static void
on_tick(struct service *service, void *user)
{
    const struct http *http = user;

    push_on_tick(http->push, service);
    if (service_number(service) == 0)
        clients_settle(&http->registry->clients);
}

/* Hands all posts of one turn of the loop to the log together. */
static void
on_turn(struct service *service, void *user)
{
    const struct http *http = user;

    (void)service;
    log_wake(http->registry->log);
}

/* Opening and closing */

/* Saves the last uses of tokens. Archive thread, once a second. */
static void
save_uses(struct chore *chore)
{
    struct broker *b = list_entry(chore, struct broker, use_saving);
    struct problem why = {""};
    enum status rc = tokens_save_uses(b->http.tokens, false, &why);

    diag_first_failure(&b->cannot_save_uses, rc != STATUS_OK, "broker",
                       "the last uses of tokens are not saved", why.text);
}

static enum status
guard(void *user, bool is_on, struct problem *why)
{
    struct broker *b = user;

    (void)is_on; /* a broker that runs never opens */
    return log_guard(b->http.registry->log, why);
}

/* A full disk does not keep a closed broker from starting. */
static void
close_for_good(struct broker *b)
{
    struct problem why = {""};

    tokens_end_openness(b->http.tokens);
    if (guard(b, true, &why))
        DIAG(DIAG_WARNING, "broker",
             "the store cannot remember that this broker is closed",
             diag_text("error", why.text));
}

static struct streams *
open_streams(void *user)
{
    const struct broker *b = user;

    return pg_streams_open(&b->membership->options);
}

static uint64_t
place_of_copy(void *user, enum ability *ability)
{
    const struct broker *b = user;
    struct log_copy copy;

    log_copy(b->http.registry->log, &copy);
    if (ability)
        *ability = copy.state == COPY_CERTAIN    ? IS_ABLE
                   : copy.state == COPY_NO_TURNS ? IS_LAST
                                                 : IS_UNABLE;
    return copy.place;
}

/* The floors of the start */

/* Fails before a file is touched or made. */
static enum status
look_first(struct broker *b, struct problem *why)
{
    enum status rc = broker_check(b->config, why);

    if (!rc)
        rc = server_check(&b->start->net, why);
    if (!rc)
        rc = check_proxy_socket(b->config, why);
    if (!rc)
        rc = file_check_lock(b->config->data, why);
    return rc ? rc : databases_check_versions(b->config->data, why);
}

static enum status
open_sets(struct broker *b, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (b->config->cluster[0])
        rc = membership_open(&b->membership, b->config, why);
    if (!rc && b->membership)
        b->start->sets.journal = b->membership->journal;
    b->http.membership = b->membership;
    efforts_init(&b->http.efforts, (unsigned)(b->config->threads + 1) / 2);
    if (!rc)
        rc = registry_open(&b->http.registry, &b->start->sets, why);
    if (!rc && !b->membership)
        rc = epochs_check_key(b->http.registry, why);
    if (!rc)
        rc = checkpoint_keys_open(&b->http.registry->checkpoint_keys,
                                  b->config->data, !b->membership, why);
    if (!rc && *bucket_address(b->config))
        rc = vault_open(
            &(struct vault_options){
                .data = b->config->data,
                .address = bucket_address(b->config),
                .credentials = b->config->s3_credentials,
                .cache_bytes = b->config->archive_cache,
                .may_overwrite = b->config->bucket_overwrite,
                .keeps_lists = b->config->archive[0] != '\0',
                .keeps_content = has_bytes_in_bucket(b->config),
                .local_us = (int64_t)b->config->local_days * 86400 * 1000000,
                .seat = &b->seat},
            why);
    if (!rc && b->membership)
        rc = membership_check_copy(b->membership, b->http.registry->log, why);
    return rc;
}

static enum status
open_tokens(struct broker *b, struct problem *why)
{
    struct clients *clients = &b->http.registry->clients;
    enum status rc = tokens_open(&b->http.tokens, b->config->data, why);

    if (rc)
        return rc;
    b->http.tickets = request_tickets_new(b->http.tokens, clients);
    b->http.sessions = tickets_new(&tickets_of_sessions, clients);
    tokens_guard(b->http.tokens, guard, b);
    if (!tokens_are_open(b->http.tokens) || b->config->jwt_keys[0])
        close_for_good(b);
    if (b->membership) {
        /* Makes tokens and tickets those of the cluster. */
        b->of_tokens = pg_streams_open(&b->membership->options);
        rc = tokens_join(
            b->http.tokens, b->of_tokens,
            b->config->cluster_read_only ? CLUSTER_READ_ONLY : NULL, why);
        if (!rc)
            rc = request_tickets_start(b->http.tickets,
                                       b->http.registry->checkpoint_keys, why);
    }
    if (!rc)
        b->http.registry->tokens = b->http.tokens;
    return rc;
}

/* Decides whether this broker is open, and refuses to be open to a network. One
 * that cannot ask its cluster whether there are tokens may open later. */
static enum status
judge_reach(struct broker *b, struct problem *why)
{
    enum status rc = read_origins(b->config, &b->origins, why);
    bool may_open =
        !b->config->closed && !log_is_guarded(b->http.registry->log);

    if (rc)
        return rc;
    if (tokens_are_unknown(b->http.tokens) &&
        (!may_open || check_reach(b->config, false, NULL)))
        tokens_end_openness(b->http.tokens);
    if (tokens_are_open(b->http.tokens) && !may_open) {
        DIAG(DIAG_WARNING, "broker",
             "this broker is closed, has no tokens now, and stays closed: "
             "make one (tidingsd token add), or end it and open it again "
             "(tidingsd token open-again)",
             diag_text("data", b->config->data));
        close_for_good(b);
    }
    return check_reach(b->config, !tokens_are_open(b->http.tokens), why);
}

static enum status
open_posts_and_push(struct broker *b, struct problem *why)
{
    enum status rc;

    announcer_begin(b->announcer, b->http.registry);
    posts_init(&b->posts, b->http.registry);
    rc = push_open(&b->http.push, b->http.registry,
                   (unsigned)b->config->threads, why);
    if (!rc)
        atomic_store_explicit(&b->woken, b->http.push, memory_order_release);
    return rc;
}

static enum status
open_server(struct broker *b, struct problem *why)
{
    const struct config *config = b->config;
    enum status rc = networks_read(slice_of(config->trusted_proxies), true,
                                   &b->trusted, why);

    if (!rc)
        rc = broker_reopen_log(b, why);
    if (rc)
        return rc;
    b->start->net.clients = &b->http.registry->clients;
    b->start->net.trusted = &b->trusted;
    http_name_routes(); /* on_end may come at once */
    rc = server_open(&b->server, &b->start->net, why);
    if (!rc)
        rc = setting_files_begin(b->files, b->server, b->http.provider, why);
    if (rc)
        return rc;
    data_directory_set_readers(config->data, config->list_readers);
    /* The port may only be known now. */
    snprintf(b->url, sizeof(b->url),
             strchr(config->listen_host, ':') ? "%s://[%s]:%u" : "%s://%s:%u",
             config->tls_cert[0] ? "https" : "http", config->listen_host,
             server_port(b->server));
    snprintf(b->public_url, sizeof(b->public_url), "%s",
             config->public_url[0] ? config->public_url : b->url);
    origins_init(&b->http, b->url);
    b->http.origins = &b->origins;
    data_directory_remember_url(config->data, b->public_url);
    return STATUS_OK;
}

static enum status
open_archive(struct broker *b, struct problem *why)
{
    enum status rc = networks_read(slice_of(b->config->allow_callbacks), false,
                                   &b->callable, why);

    if (!rc)
        rc = backup_offer_open(&b->http.backup, b->config->data, why);
    if (!rc)
        rc = archiver_open(&b->http.archiver, b->http.registry, &b->callable,
                           why);
    return rc ? rc
              : content_check_init(&b->content_check, &b->posts,
                                   b->http.archiver->contents, why);
}

static enum status
open_hub_and_bridges(struct broker *b, struct problem *why)
{
    struct hub_owner_options options = {
        .posts = &b->posts,
        .tokens = b->http.tokens,
        .allowed = &b->callable,
        .seat = b->membership ? &b->seat : NULL,
        .is_reader = b->config->cluster_read_only,
    };
    enum status rc = check_peer_tokens(b->config, why);

    if (!rc && b->config->otlp[0])
        rc = span_export_open(&b->spans, b->config->otlp, b->config->otlp_token,
                              why);
    if (!rc)
        rc = hub_owner_open(&b->http.hub, &options, why);
    if (rc)
        return rc;
    atomic_store_explicit(&b->notified, b->http.hub, memory_order_release);
    return bridges_open(&b->http.bridges, &b->posts,
                        b->membership ? &b->seat : NULL, why);
}

static enum status
begin_epochs(struct broker *b, struct problem *why)
{
    return epochs_begin(b->http.registry, why);
}

static enum status
begin_work(struct broker *b, struct problem *why)
{
    enum status rc;

    identity_provider_await(b->http.provider);
    b->use_saving.look = save_uses;
    archiver_add(b->http.archiver, &b->use_saving);
    rc = archiver_start(b->http.archiver, why);
    if (!rc)
        rc = witnesses_open(&b->witnesses, b->http.registry, b->config->witness,
                            why);
    if (rc)
        return rc;
    /* The archiver finds lists that were closed before the log thread could
     * wake it. */
    atomic_store_explicit(&b->filing, b->http.archiver, memory_order_release);
    thread_wake(&b->http.archiver->thread);
    return b->membership ? pg_journal_follow(b->membership->journal,
                                             b->http.registry->log, why)
                         : STATUS_OK;
}

/*
 * The order of the start:
 *
 * - The address comes first: if it is in use, the start fails before it has
 *   touched or made a file. So it does if another process has the data
 *   directory, or a newer program has used it.
 *
 * - The archive follows the server, without its thread, with the checker of
 *   posts to sets that keep content: hub and bridges post.
 *
 * - Sets that have lost entries get new epochs before the hub delivers
 *   anything. A list ends there, whose header has the public URL.
 *
 * - The hub starts when the server listens and the public URL is known:
 *   deliveries name it, and a callback may call back at once. (Until the last
 *   part has started such a call gets 503 and Retry-After, like any other.)
 *
 * - The bridges follow, for the same reason: their messages name change memory
 *   by the public URL, and a receiver may read there at once. From now on their
 *   incoming messages are committed and acknowledged like any other post: they
 *   make sets, wake the hub's cursors, may fill a list, and survive even if
 *   this start still fails.
 *
 * - The archive's thread comes last: lists that it closes by age get headers
 *   with the public URL, for ever, and a start that fails must not have closed
 *   a list without a new post.
 *
 *   So do the threads that ask witnesses.
 *
 * - In a cluster, the changes of other brokers follow. (The first turn brings
 *   some already, when the log begins.)
 */
static enum status (*const floors[])(struct broker *b, struct problem *why) = {
    look_first,           open_sets,   open_tokens,  judge_reach,
    open_posts_and_push,  open_server, open_archive, begin_epochs,
    open_hub_and_bridges, begin_work,
};

enum status
broker_open(struct broker **broker, const struct config *config,
            struct problem *why)
{
    struct broker *b = memory_new(1, sizeof(*b));
    struct start start = {
        .sets =
            {
                .config = config,
                .public_url = b->public_url,
                .few_entries = SET_FEW_ENTRIES,
                .progress_size = sizeof(struct set_progress),
                .open_engine = store_open,
                .on_certain = on_certain,
                .on_closed = on_closed,
                .on_changed = on_changed,
                .user = b,
                .on_acts = announcer_announce,
                .on_followed = announcer_follow,
            },
        .net =
            {
                .host = config->listen_host,
                .port = config->listen_port,
                .threads = config->threads,
                .tls_cert = config->tls_cert[0] ? config->tls_cert : NULL,
                .tls_key = config->tls_key[0] ? config->tls_key : NULL,
                .request_timeout_us = config->request_timeout_us,
                .min_rate = config->min_rate,
                .on_request = http_on_request,
                .on_end = http_on_end,
                .write_problem = html_problem,
                .on_wake = on_wake,
                .tick_us = config->heartbeat_us / 4 < TICK_US
                               ? config->heartbeat_us / 4
                               : TICK_US,
                .on_tick = on_tick,
                .on_turn = on_turn,
                .user = &b->http,
            },
    };
    enum status rc = STATUS_OK;

    b->http.access_log = access_log_new((unsigned)config->threads);
    xml_scan_switch(config->scan_posts);
    b->announcer = start.sets.announcer = announcer_new();
    b->files = setting_files_new(config);
    b->http.provider = identity_provider_new(b->public_url);
    b->config = config;
    b->start = &start;
    b->seat = (struct cluster_seat){open_streams, place_of_copy, b};
    config_report_init(&b->config_report);
    config_report_update(&b->config_report, config);
    b->http.config_report = &b->config_report;
    snprintf(b->control_path, sizeof(b->control_path), "%s/" CONTROL_SOCKET,
             config->data);
    b->sockets[0] =
        (struct unix_socket){LISTENER_CONTROL, b->control_path, 0600};
    b->sockets[1] = proxy_socket(config);
    start.net.unix_sockets = b->sockets;
    start.net.n_unix_sockets = config->listen_unix[0] ? 2 : 1;
    for (size_t i = 0; !rc && i < N_ELEMENTS(floors); i++)
        rc = floors[i](b, why);
    if (rc) {
        broker_close(b);
        return rc;
    }
    b->http.posts = &b->posts;
    if (http_is_local(&b->http)) {
        /* A bare HAProxy, and nginx with HTTP/1.1, send nothing that
         * distinguishes them from a client of this machine (http.c). Each start
         * says so; most brokers have no proxy, so the log does not get a
         * warning. */
        diag(DIAG_INFO, "broker",
             "all programs of this machine may publish: a proxy here must send "
             "X-Forwarded-For, else it lets everybody publish, and so does a "
             "forwarder of TCP, unless there are tokens");
    }
    atomic_store_explicit(&b->http.is_ready, true, memory_order_release);
    *broker = b;
    return STATUS_OK;
}

/* Logs each bridge of `these` that is not in `those`. */
static void
report_bridges(const char *msg, const struct bridging *these,
               const struct bridging *those)
{
    for (size_t i = 0; i < these->n; i++) {
        size_t j = 0;

        while (j < those->n && !bridge_is_same(&these->all[i], &those->all[j]))
            j++;
        if (j == those->n)
            DIAG_REPORT(DIAG_INFO, "broker", msg,
                        diag_text("bridge", these->all[i].name));
    }
}

static bool
are_bridges_same(const struct bridging *a, const struct bridging *b)
{
    for (size_t i = 0; i < a->n && i < b->n; i++)
        if (!bridge_is_same(&a->all[i], &b->all[i]))
            return false;
    return a->n == b->n;
}

static enum status
reload_bridges(struct broker *b, struct config *next, struct brought *brought,
               struct problem *why)
{
    const struct bridging *last = registry_bridging(b->http.registry);
    enum status rc;

    brought->all = next->bridges;
    brought->bridging = (struct bridging){next->bridges, next->n_bridges};
    next->bridges = NULL;
    next->n_bridges = 0;
    rc = bridges_reload(b->http.bridges, &brought->bridging, why);
    if (rc)
        return rc;
    report_bridges("a bridge ends", last, &brought->bridging);
    report_bridges("a bridge begins", &brought->bridging, last);
    return STATUS_OK;
}

/* Makes room for the settings of `next` that other threads read. */
static enum status
bring_settings(struct broker *b, const struct config *next,
               struct brought **brought, struct problem *why)
{
    *brought = memory_new(1, sizeof(**brought));
    (*brought)->earlier = b->brought;
    b->brought = *brought;
    if (networks_read(slice_of(next->allow_callbacks), false,
                      &(*brought)->callable, why))
        return STATUS_INVALID;
    if (read_origins(next, &(*brought)->origins, why))
        return STATUS_INVALID;
    return networks_read(slice_of(next->trusted_proxies), true,
                         &(*brought)->trusted, why);
}

/* Begins with the steps that can fail. The bridges are the last of these: the
 * other side sees a bridge that was closed. */
enum status
broker_reload(struct broker *b, struct config *next, struct problem *why)
{
    struct bridging bridging = {next->bridges, next->n_bridges};
    bool has_lists =
        strcmp(b->config->allow_callbacks, next->allow_callbacks) != 0 ||
        strcmp(b->config->trusted_proxies, next->trusted_proxies) != 0 ||
        strcmp(b->config->allow_origins, next->allow_origins) != 0;
    bool has_bridges =
        !are_bridges_same(registry_bridging(b->http.registry), &bridging);
    struct setting_contents contents = {.identity = NULL};
    struct brought *brought = NULL;
    enum status rc = broker_check(next, why);
    int log_fd = -1;

    watched_files_look(setting_files_watched(b->files));

    if (!rc)
        rc = bridges_check_files(next, why);
    if (!rc)
        rc = setting_contents_read(&contents, next, why);
    if (!rc)
        rc =
            access_log_open(b->http.access_log, next->access_log, &log_fd, why);
    if (!rc && (has_lists || has_bridges))
        rc = bring_settings(b, next, &brought, why);
    if (!rc && has_bridges)
        rc = reload_bridges(b, next, brought, why);
    else if (!rc) /* one may be missing since a failed reload */
        rc = bridges_reload(b->http.bridges,
                            registry_bridging(b->http.registry), why);
    if (!rc)
        access_log_use(b->http.access_log, log_fd);
    else
        file_close(&log_fd);
    if (!rc && has_lists) {
        networks_replace(&b->callable, &brought->callable);
        networks_replace(&b->trusted, &brought->trusted);
        atomic_store_explicit(&b->origins.successor, &brought->origins,
                              memory_order_release);
    }
    if (!rc)
        setting_files_use(b->files, next, &contents);
    if (!rc && next->jwt_keys[0])
        close_for_good(b);
    setting_contents_free(&contents);
    return rc;
}

void
broker_report_config(struct broker *b)
{
    config_report_update(&b->config_report, b->config);
}

enum status
broker_reopen_log(struct broker *b, struct problem *why)
{
    struct access_log *log = b->http.access_log;
    int fd;
    enum status rc = access_log_open(log, b->config->access_log, &fd, why);

    if (!rc)
        access_log_use(log, fd);
    return rc;
}

struct watched_files *
broker_files(struct broker *b)
{
    return setting_files_watched(b->files);
}

bool
broker_needs_copy(const struct broker *b)
{
    struct log_copy copy;

    log_copy(b->http.registry->log, &copy);
    return log_copy_is_wrong(&copy);
}

const struct thread *
broker_most_silent(const struct broker *b)
{
    const struct thread *service = server_most_silent(b->server);
    const struct thread *writer = log_writer(b->http.registry->log);

    return thread_silent_us(service) > thread_silent_us(writer) ? service
                                                                : writer;
}

const char *
broker_url(const struct broker *b)
{
    return b->url;
}

/*
 * The order of the end:
 *
 * - No new requests; subscribers get a farewell.
 *
 * - The bridges' threads end: they read the log, post to it, and acknowledge
 *   its answers, so they need it still. (The bridges publish later commits
 *   after the next start, as with any cursor.)
 *
 * - The hub's thread ends: it reads the log, may post to it, and needs the
 *   server's threads for the answers to its orders. (Later orders are refused
 *   because the broker is ending; posts of the hub that the log has are
 *   answered.)
 *
 * - The thread ends that follows other brokers: it waits for the log.
 *
 * - The log commits and answers the posts that it has, also by the server's
 *   threads, and wakes the archive for closed lists.
 *
 * - The check of content and the archive end, so that no other thread opens
 *   files when the server ends.
 *
 * - The server sends the answers, and ends.
 *
 * - Bridges and hub are freed, which the log and requests could use until now,
 *   and the log's files are closed.
 */
void
broker_close(struct broker *b)
{
    if (!b)
        return;
    vault_stop();
    if (b->server) {
        server_stop_accepting(b->server);
        push_farewell(b->http.push, b->server);
    }
    bridges_stop(b->http.bridges);
    witnesses_close(b->witnesses);
    if (b->http.hub)
        hub_owner_stop(b->http.hub);
    if (b->membership)
        pg_journal_stop(b->membership->journal);
    if (b->http.registry)
        log_stop(b->http.registry->log);
    content_check_stop(&b->content_check);
    archiver_stop(b->http.archiver);
    server_close(b->server, FAREWELL_US);
    backup_offer_close(b->http.backup);
    access_log_free(b->http.access_log);
    config_report_fini(&b->config_report);
    content_check_fini(&b->content_check);
    archiver_close(b->http.archiver); /* /readyz could ask it until now */
    bridges_close(b->http.bridges);
    hub_owner_close(b->http.hub);
    span_export_close(b->spans);
    push_close(b->http.push);
    tickets_free(b->http.sessions);
    request_tickets_free(b->http.tickets);
    tokens_close(b->http.tokens);
    if (b->of_tokens)
        b->of_tokens->ops->close(b->of_tokens);
    vault_close(); /* its thread asks the log for its place */
    registry_close(b->http.registry);
    membership_close(b->membership);
    posts_fini(&b->posts);
    identity_provider_free(b->http.provider);
    announcer_free(b->announcer);
    setting_files_free(b->files);
    while (b->brought) {
        struct brought *brought = b->brought;

        b->brought = brought->earlier;
        bridging_free(brought->all, brought->bridging.n);
        free(brought);
    }
    free(b);
}
