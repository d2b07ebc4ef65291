#include "broker/config/config.h"

#include <unistd.h>

#include "base/commands/option_file.h"
#include "proto/resourcesync/json.h"

#define ROW_OF struct config
#include "base/option_rows.h"

/* Reads --mqtt. Checks it now, so that an error names the option; take_all
 * makes the bridge from the last one. */
static enum status
read_mqtt(const char *text, void *values, struct problem *why)
{
    struct config *config = values;
    struct bridge_config bridge;
    enum status rc = bridge_read_url(text, &bridge, why);

    if (!rc)
        snprintf(config->mqtt, sizeof(config->mqtt), "%s", bridge.url);
    return rc;
}

static const struct option rows[] = {
    {"config", "FILE", CONFIG_FILE, NULL,
     "read options from FILE first: lines of NAME = VALUE; SIGHUP reads it "
     "again"},

    {"listen", "HOST:PORT", LISTEN(listen_host, listen_port), "127.0.0.1:8787",
     "where to listen; port 0 is any free one"},
    {"listen-unix", "PATH", TEXT(listen_unix), NULL,
     "listen on this unix socket, too, for a proxy of this machine: a file of "
     "mode 0660 that the broker makes, and removes at its end"},
    {"data", "DIR", TEXT(data), "./tidings-data",
     "the data directory, made when missing"},
    {"lists-readable-by", "owner|group|all",
     CHOICE(list_readers, enum list_readers, READERS_OWNER), "owner",
     "users of this machine who may read the files of closed lists, tiles and "
     "dumps, such as a web server; the rest of the data directory is the "
     "owner's alone"},
    {"public-url", "URL", URL(public_url, 500 + 1), NULL,
     "what clients put before the paths; the address listened on if not given"},
    {"tls-cert", "FILE", TEXT(tls_cert), NULL,
     "certificate and its chain, PEM: speak https and wss, nothing else", true},
    {"tls-key", "FILE", TEXT(tls_key), NULL,
     "its private key, PEM, not encrypted", true},
    {"tls-client-ca", "FILE", TEXT(tls_client_ca), NULL,
     "certificates of authorities, PEM: clients may have one of theirs, which "
     "counts as the token that names it",
     true},
    {"ca-file", "FILE", TEXT(ca_file), NULL,
     "certificates of authorities, PEM, that callbacks, hosts of content, "
     "topics and MQTT brokers may have beside the system's",
     true},
    {"cluster", "CONNINFO", TEXT(cluster), NULL,
     "be one broker of a cluster: its journal is in this PostgreSQL database, "
     "\"host=A,B dbname=NAME user=USER passfile=FILE\" or a postgresql:// URL; "
     "no password in it"},
    {"cluster-name", "NAME", TEXT(cluster_name), NULL,
     "name of this broker, which no other of the cluster has; that of the "
     "machine if not given"},
    {"cluster-keep", "BYTES", BYTES(cluster_keep, MIB, 1024 * GIB), "4G",
     "the journal keeps its latest records, at most so many bytes of them: a "
     "broker that lacks older ones joins anew (tidingsd cluster join)"},
    {"cluster-clock", "SECONDS",
     SECONDS(cluster_clock_us, SECOND / 10, 36500 * DAY), "60",
     "no posts while the clock of the PostgreSQL server is farther from that "
     "of this machine: its times would be kept"},
    {"cluster-stale", "SECONDS", SECONDS(cluster_stale_us, 0, 3650 * DAY), "60",
     "not ready for reads (/readyz?for=reads) when this broker is so far "
     "behind its cluster, although PostgreSQL answers; 0 is never"},
    {"cluster-private-stale", "SECONDS",
     SECONDS(cluster_private_stale_us, 0, 3650 * DAY), "300",
     "private sets answer 503 when this broker has been cut off from its "
     "cluster for so long: a right may have been revoked there; 0 is never"},
    {"cluster-from", "URL", URL(cluster_from, 500 + 1), NULL,
     "another broker of the cluster: if the journal has forgotten records that "
     "this one lacks, or has another history, it fetches the backup of that "
     "one, with the token of --peer-tokens for URL/backup"},
    {"cluster-wait-for-all", NULL, FLAG(cluster_wait_for_all), "no",
     "take no posts after a failover of PostgreSQL before each broker has said "
     "how much it has, or has left (tidingsd cluster leave); else one that "
     "does not run is waited for 5 seconds"},
    {"cluster-read-only", NULL, FLAG(cluster_read_only), "no",
     "follow the cluster and serve reads alone: take no posts, change no "
     "settings, deliver nothing"},
    {"cluster-bytes", "journal|s3://BUCKET/...", TEXT(cluster_bytes), "journal",
     "content travels in the journal, at most 1 MiB of a resource, or by this "
     "bucket of S3, MinIO or Ceph, of any size; the same at all brokers; see "
     "--s3-credentials and --archive-cache"},
    {"cluster-durable-by", "standbys|provider|disk",
     CHOICE(cluster_durable_by, enum durable_by, DURABLE_STANDBYS), "standbys",
     "what keeps the commits of PostgreSQL when it loses a machine: standbys, "
     "for which it waits; a managed service, which copies its disk; nothing "
     "but its one disk"},
    {"postgresql", "CONNINFO", TEXT(postgresql), NULL,
     "post what applications publish in this PostgreSQL database, within their "
     "own transactions (tidingsd postgresql init); no password in it"},
    {"postgresql-as", "NAME", TEXT(postgresql_as), NULL,
     "the token whose rights these posts have; all rights if not given"},
    {"threads", "N", COUNT(threads, 1, 64), NULL,
     "service threads; one per core if not given"},

    {"rotate-entries", "N", COUNT(rotate_entries, 1, 50000), "50000",
     "close a Change List at this many entries"},
    /* At least one largest fragment (256 KiB) with header and footer. */
    {"rotate-bytes", "BYTES", BYTES(rotate_bytes, 512 * KIB, 50 * MIB), "50M",
     "close a Change List at this size"},
    {"rotate-age", "SECONDS", SECONDS(rotate_age_us, 0, 3650 * DAY), "86400",
     "close a Change List at this age; 0 is never"},
    {"retain-lists", "N", COUNT(retain_lists, 0, 1000000), "0",
     "closed Change Lists kept of a set, the latest; 0 is all"},
    {"retain-age", "SECONDS", SECONDS(retain_age_us, 0, 36500 * DAY), "0",
     "closed Change Lists are kept for so long; 0 is for ever"},
    {"archive", "s3://BUCKET/PREFIX?...", TEXT(archive), NULL,
     "keep the old files of closed lists, of Resource Lists and of dumps in "
     "this bucket of S3, MinIO or Ceph, and copies of them on the disk; the "
     "address may have endpoint=URL and region=REGION"},
    {"s3-credentials", "FILE", TEXT(s3_credentials), NULL,
     "access key ID and secret access key for it, a line each, or "
     "aws_access_key_id = ... and so on; if not given, the environment "
     "variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN"},
    {"local-days", "N", COUNT(local_days, 0, 36500), "7",
     "files go into the bucket when they are older than so many days"},
    {"archive-cache", "BYTES", BYTES(archive_cache, 0, 1048576 * GIB), "1G",
     "copies on the disk of what is in the bucket"},
    {"bucket-overwrite", NULL, FLAG(bucket_overwrite), "no",
     "also take a bucket that does not know If-None-Match on PUT (501): ask by "
     "HEAD, and store without it"},
    {"remove-grace", "SECONDS", SECONDS(remove_grace_us, 0, 3650 * DAY), "300",
     "files of removed sets and lists stay for so long, for who reads them"},
    {"index-lists", "N", COUNT(index_lists, 1, 49999), "1000",
     "closed lists in the Change List Index, and in one document of the "
     "archive, which has an index when there are more"},

    /* The longest URLs, all of them escaped, take 10 KB an entry: so no Source
     * Description has more than 50 MB. */
    {"description-sets", "N", COUNT(description_sets, 1, 5000), "5000",
     "sets in the Source Description, which has an index when there are more"},

    {"resource-list-every", "SECONDS",
     SECONDS(resource_list_every_us, 0, 3650 * DAY), "3600",
     "build the Resource List of a set anew so long after the last one, if the "
     "set has changed; 0 is on demand only"},
    {"resource-list-keep", "daily|none|N", KEEP(resource_list_keep, 1, 1000000),
     "daily",
     "Resource Lists that the archive keeps: the first of each day, none, or "
     "every Nth"},
    {"resource-list-entries", "N", COUNT(resource_list_entries, 1, 50000),
     "50000",
     "resources in a Resource List, which has an index when there are more"},

    {"content", "none|fetch|inline",
     CHOICE(content, enum content_mode, CONTENT_NONE), "none",
     "keep the bytes of resources: fetch them after a change, or take them "
     "inline, with the change"},
    {"content-versions", "all|AGE|N", KEEP(content_versions, 1, 36500), "all",
     "versions of a resource that keep their bytes; AGE is such as 30d, 12h"},

    {"resource-dump-every", "SECONDS",
     SECONDS(resource_dump_every_us, 0, 3650 * DAY), "86400",
     "build the Resource Dump of a set that keeps content anew so long after "
     "the last one, if the set has changed; 0 is on demand only"},
    {"resource-dump-keep", "daily|none|N", KEEP(resource_dump_keep, 1, 1000000),
     "none",
     "Resource Dumps that the archive keeps: the first of each day, none, or "
     "every Nth"},
    {"package-bytes", "BYTES", BYTES(package_bytes, KIB, 1024 * GIB), "1G",
     "largest ZIP package of a dump; content that is larger has one of its "
     "own"},

    {"max-body", "BYTES", BYTES(max_body, KIB, GIB), "50M",
     "largest body of a request, also when inflated"},
    {"max-resources-body", "BYTES", BYTES(max_resources_body, KIB, 1024 * GIB),
     "4G", "largest body of PUT resources, also when inflated"},
    {"max-content", "BYTES", BYTES(max_content, KIB, 1024 * GIB), "4G",
     "largest body of a post that brings the content of its changes along, and "
     "largest content that is fetched"},
    {"ingest-bytes", "BYTES", BYTES(ingest_bytes, MIB, 1024 * GIB), "256M",
     "memory for all posts at work; what needs more is answered 503"},
    {"unfiled-bytes", "BYTES", BYTES(unfiled_bytes, 0, 1024 * GIB), "256M",
     "closed lists that wait for their files; while there are more, posts "
     "wait, too; 0: no limit"},
    {"tail-bytes", "BYTES", BYTES(tail_bytes, MIB, 1024 * GIB), "64M",
     "memory for the latest changes of all sets"},
    /* At least one largest fragment, in every form. */
    {"message-bytes", "BYTES", BYTES(message_bytes, 512 * KIB, 16 * MIB), "1M",
     "largest message to a subscriber"},
    {"scan-posts", "off|on", EITHER(scan_posts), "on",
     "read XML in its usual form without libxml2, which reads all other; on is "
     "faster, and refuses the same"},
    {"compress-streams", "off|on", EITHER(compress_streams), "on",
     "compress the messages to WebSocket clients that offer "
     "permessage-deflate"},

    {"linger", "MS", MS(linger_us, 0, 10 * SECOND), "0",
     "how long a commit waits for company"},
    {"heartbeat", "SECONDS", SECONDS(heartbeat_us, SECOND / 10, 3600 * SECOND),
     "20", "a subscriber hears at least this often, also when nothing changes"},
    {"checkpoint-every", "SECONDS",
     SECONDS(checkpoint_every_us, SECOND / 10, 86400 * SECOND), "60",
     "the tree of a set that checkpoints sign has its new changes at least so "
     "often, and a stream that asks for checkpoints gets one so often"},
    {"witness", "\"URL KEY\",...", TEXT(witness), NULL,
     "witnesses that are asked to cosign the checkpoints of sets that are not "
     "private: the address of each, and its verifier key, with commas or "
     "blanks "
     "between all"},
    {"request-timeout", "SECONDS",
     SECONDS(request_timeout_us, SECOND / 10, 3600 * SECOND), "30",
     "the head of a request has to arrive in so long"},
    {"min-rate", "BYTES", BYTES(min_rate, 0, GIB), "1K",
     "a body, an answer or a stream has to move so many a second, over each "
     "--request-timeout, or it ends"},
    {"client-connections", "N", COUNT(client_connections, 1, 1000000), "2000",
     "connections of one client at most: of one address, of IPv6 the first 64 "
     "bits"},
    {"client-half-heads", "N", COUNT(client_half_heads, 1, 1000000), "1000",
     "of these, connections whose request has not come whole"},
    {"client-streams", "N", COUNT(client_streams, 1, 1000000), "2000",
     "of these, streams"},
    {"client-followed", "N", COUNT(client_followed, 1, 10000000), "20000",
     "sets that its streams of many sets follow together, each set counted "
     "once for each stream"},
    {"client-post-rate", "N", COUNT(client_post_rate, 0, 1000000), "0",
     "posts of one client in a second, over ten seconds; 0 is any number"},
    {"client-byte-rate", "BYTES", BYTES(client_byte_rate, 0, 1024 * GIB), "0",
     "bytes of its posts in a second, likewise"},
    {"client-sets", "N", COUNT(client_sets, 1, 1000000), "10000",
     "sets that one client may have created and not deleted"},
    {"client-kept-bytes", "BYTES", BYTES(client_kept_bytes, 0, 1048576 * GIB),
     "0",
     "bytes that the broker keeps of these sets: lists, content and dumps; 0 "
     "is the disk without one share"},
    {"client-keys", "N", COUNT(client_keys, 1, 100000000), "1000000",
     "Idempotency-Keys of one client that the broker remembers, of a day or "
     "two"},
    {"client-share", "PERCENT", COUNT(client_share, 1, 100), "25",
     "what one client may have of the memory for posts and for answers, of the "
     "disk, of the filters, of the names of sets and of the subscriptions"},
    {"allow-origins", "ORIGIN,...", TEXT(allow_origins), NULL,
     "pages of these origins may use the broker from a browser: https://host, "
     "https://host:port; * lets all pages read what needs no token",
     true},
    {"trusted-proxies", "CIDR,...", TEXT(trusted_proxies), NULL,
     "networks of proxies, and \"unix\" for those at --listen-unix: a request "
     "from there counts for the client that Forwarded or X-Forwarded-For names",
     true},

    {"jwt-keys", "FILE|URL", TEXT(jwt_keys), NULL,
     "JWK set of an identity provider, in a file or at an https URL: accept "
     "its JSON Web Tokens; needs --jwt-issuer and --jwt-audience",
     true},
    {"jwt-issuer", "TEXT", TEXT(jwt_issuer), NULL,
     "the provider, exactly as its tokens name it (iss)", true},
    {"jwt-audience", "TEXT", TEXT(jwt_audience), NULL,
     "this broker, as tokens for it name it (aud): others are refused", true},
    {"jwt-client", "TEXT", TEXT(jwt_client), NULL,
     "people sign in to the console there (OpenID Connect): the client_id of "
     "this broker, as a public client",
     true},
    {"jwt-scope", "TEXT", TEXT(jwt_scope), "openid",
     "scopes that the console asks for, with spaces between", true},

    {"hub-lease-min", "SECONDS",
     SECONDS(hub_lease_min_us, SECOND / 100, 90 * DAY), "300",
     "shortest lease of a subscription; who asks for less gets this"},
    {"hub-lease-default", "SECONDS",
     SECONDS(hub_lease_default_us, SECOND / 100, 90 * DAY), "864000",
     "lease of a subscription that asks for none"},
    {"hub-lease-max", "SECONDS",
     SECONDS(hub_lease_max_us, SECOND / 100, 90 * DAY), "2678400",
     "longest lease; who asks for more gets this"},
    {"hub-retry-first", "SECONDS",
     SECONDS(hub_retry.first_us, SECOND / 1000, 3600 * SECOND), "1",
     "pause after a delivery's first failure; it doubles with each"},
    {"hub-retry-max", "SECONDS",
     SECONDS(hub_retry.max_us, SECOND / 1000, 7 * DAY), "3600",
     "longest pause between two tries of a delivery"},
    {"hub-give-up", "SECONDS",
     SECONDS(hub_give_up_us, SECOND / 1000, 365 * DAY), "86400",
     "a delivery that has failed for so long is skipped"},
    {"hub-timeout", "SECONDS",
     SECONDS(hub_timeout_us, SECOND / 100, 600 * SECOND), "10",
     "how long a callback may take to answer"},
    {"hub-connections", "N", COUNT(hub_connections, 1, 100000), "1000",
     "connections to callbacks at most"},
    {"hub-host-connections", "N", COUNT(hub_host_connections, 1, 100000), "32",
     "connections to one host and port of them"},
    {"hub-body-bytes", "BYTES", BYTES(hub_body_bytes, MIB, 1024 * GIB), "64M",
     "memory for the bodies of deliveries in flight"},
    {"hub-signature", "METHOD", TEXT(hub_signature), "sha256",
     "how deliveries are signed: sha1, sha256, sha384 or sha512"},
    {"hub-trust-simple", NULL, FLAG(hub_trust_simple), "no",
     "simple subscriptions hold at once, without a verification of intent"},
    {"hub-subscriptions", "N", COUNT(hub_subscriptions, 1, 10000000), "100000",
     "subscriptions at most, in all"},
    {"hub-host-subscriptions", "N", COUNT(hub_host_subscriptions, 1, 10000000),
     "10000", "subscriptions with callbacks of one host"},
    {"relay-documents", "N", COUNT(relay_documents, 1, 1000000), "1000",
     "documents kept of a relay, the latest"},
    {"relay-bytes", "BYTES", BYTES(relay_bytes, MIB, 1024 * GIB), "256M",
     "bytes of documents kept of a relay, the latest"},
    {"peer-tokens", "FILE", TEXT(peer_tokens), NULL,
     "lines \"URL TOKEN-FILE\": the token for a topic that is fetched or a hub "
     "that is notified; both files are read for each request"},
    {"allow-callbacks", "CIDR,...", TEXT(allow_callbacks), NULL,
     "networks that may be called although they are not public, also for "
     "content",
     true},

    {"fetch-connections", "N", COUNT(fetch_connections, 1, 1000), "8",
     "connections for fetching content at most"},
    {"fetch-host-connections", "N", COUNT(fetch_host_connections, 1, 1000), "2",
     "connections to one host and port of them"},
    {"fetch-timeout", "SECONDS",
     SECONDS(fetch_timeout_us, SECOND / 100, 7 * DAY), "3600",
     "how long the fetch of one content may take"},
    {"fetch-stall", "SECONDS",
     SECONDS(fetch_stall_us, SECOND / 100, 3600 * SECOND), "30",
     "a fetch ends when no byte has come for so long"},
    {"fetch-retry-first", "SECONDS",
     SECONDS(fetch_retry.first_us, SECOND / 1000, 3600 * SECOND), "10",
     "pause after a fetch's first failure; it doubles with each"},
    {"fetch-retry-max", "SECONDS",
     SECONDS(fetch_retry.max_us, SECOND / 1000, 7 * DAY), "3600",
     "longest pause between two tries of a fetch"},
    {"fetch-tries", "N", COUNT(fetch_tries, 1, 1000), "12",
     "content that could not be fetched so often is given up"},

    {"mqtt", "URL", OWN(read_mqtt), NULL,
     "send the changes of all sets to an MQTT broker: mqtt://HOST[:PORT], or "
     "mqtts:// for TLS; for more, give a section [mqtt NAME] of the file "
     "instead"},

    {"insecure-open", NULL, FLAG(insecure_open), "no",
     "let everyone publish, although others than this host can connect"},
    {"closed", NULL, FLAG(closed), "no",
     "let nobody in without a token, also before there is one: for a first "
     "start where others can connect; the broker remembers it"},
    {"seccomp", "off|on", EITHER(seccomp), "on",
     "once ready, make only the system calls that serving needs: no programs, "
     "no other processes, no other users"},
    {"core-dumps", "off|on", EITHER(core_dumps), "off",
     "let a crash write all memory, secrets included, to a file, and debuggers "
     "of this user attach"},
    {"log-level", "error|warning|info|debug",
     CHOICE(log_level, enum diag_level, DIAG_ERROR), "info",
     "write lines of this level and of graver ones", true},
    {"log-format", "logfmt|json",
     CHOICE(log_format, enum log_format, LOG_LOGFMT), "logfmt",
     "form of these lines and of the access log", true},
    {"access-log", "FILE", TEXT(access_log), NULL,
     "write a line for each request to FILE, which SIGHUP opens again; - is "
     "standard output",
     true},
    {"otlp", "URL", URL(otlp, 1000 + 1), NULL,
     "send spans of posts with a sampled traceparent, and of their deliveries, "
     "to this collector: OTLP over HTTP, in JSON, to URL/v1/traces"},
    {"otlp-token", "FILE", TEXT(otlp_token), NULL,
     "bearer token for the collector"},
    {"check", NULL, FLAG(check), "no",
     "look at the options and their files, the address and the data directory, "
     "as a start would, write nothing, then end (tidingsd check looks at all "
     "that the directory holds)"},
    {"check-settings", NULL, FLAG(check_settings), "no",
     "look at the options and their files alone, as before a reload, then end"},
    {"example", NULL, WISH(CONFIG_EXAMPLE), NULL,
     "print a configuration file with every option and its default, then end"},
    {"routes", NULL, WISH(CONFIG_ROUTES), NULL,
     "print what the broker takes and answers by HTTP, as tables, then end"},
    {"limits", NULL, WISH(CONFIG_LIMITS), NULL,
     "print what one client and all together may hold, as a table, then end"},
    {"openapi", NULL, WISH(CONFIG_OPENAPI), NULL,
     "print the same in OpenAPI 3.1, then end"},
    {"asyncapi", NULL, WISH(CONFIG_ASYNCAPI), NULL,
     "print the streams and the topics of MQTT in AsyncAPI 3.0, then end"},
    {"version", NULL, WISH(CONFIG_VERSION), NULL,
     "say which version this is, then end"},
    {"help", NULL, WISH(CONFIG_HELP), NULL, "print this, then end"},
};

#define N_ROWS N_ELEMENTS(rows)
_Static_assert(N_ROWS <= OPTIONS_MAX, "raise OPTIONS_MAX");

const struct options config_options = {rows, N_ROWS};

/* To add an option: a row above, its member in config.h, then
 *
 *     tidingsd --help > broker/options.txt
 *     tidingsd --example > broker/tidingsd.ini
 *
 * The test unit/config/config_file compares both. */

/* The file */

static struct bridge_config *
bridge_of(const struct option_file *file)
{
    struct config *config = file->user;

    return &config->bridges[config->n_bridges - 1];
}

/* Ends a section after its last key. */
static enum status
end_section(struct option_file *file, unsigned *line, struct problem *why)
{
    const struct bridge_config *bridge = bridge_of(file);
    const char *key;
    unsigned of_key = 0;
    enum status rc = bridge_check(bridge, &key, why);

    if (!rc)
        return rc;
    if (key)
        of_key = file->line_of[options_index(&bridge_options, slice_of(key))];
    *line = of_key > 0 ? of_key : bridge->line;
    return problem_prefix(why, rc, "%s: %s%s", bridge_place(bridge).text,
                          key ? key : "", key ? " " : "");
}

_Static_assert(sizeof(((struct config_origins *)0)->line_of) ==
                   sizeof(((struct option_file *)0)->line_of),
               "both are by rows");

/* Begins the section "mqtt NAME". */
static enum status
begin_section(struct option_file *file, struct slice title, struct problem *why)
{
    static const char form[] = "a bridge to an MQTT broker is [mqtt NAME]";
    struct config *config = file->user;
    struct slice rest = title, word = slice_take(&rest, ' ');
    enum status rc;

    while (slice_starts(rest, " "))
        slice_take(&rest, ' ');
    if (!slice_is(word, "mqtt"))
        return problem(why, STATUS_INVALID,
                       "[%s]: there is no such section; %s",
                       problem_quote(title).text, form);
    if (rest.size == 0)
        return problem(why, STATUS_INVALID, "[mqtt]: has no name; %s", form);
    for (size_t i = 0; i < config->n_bridges; i++)
        if (slice_is(rest, config->bridges[i].name))
            return problem(why, STATUS_INVALID,
                           "%s: is there twice, first in line %u",
                           bridge_place(&config->bridges[i]).text,
                           config->bridges[i].line);
    rc = bridging_add(&config->bridges, &config->n_bridges, rest, file->line,
                      why);
    if (rc)
        return problem_prefix(why, rc, "[%s]: ", problem_quote(title).text);
    if (!file->is_in_section) /* those of the broker's options */
        memcpy(config->origins.line_of, file->line_of, sizeof(file->line_of));
    file->options = &bridge_options;
    file->values = bridge_of(file);
    return STATUS_OK;
}

/* Reports a key that does not exist here; it may exist elsewhere. */
static enum status
explain_key(const struct option_file *file, struct slice key,
            struct problem *why)
{
    const struct option *o = options_find(&config_options, key);

    if (file->is_in_section && o)
        return problem(why, STATUS_INVALID,
                       "%s: is the broker's, not the bridge's: it has to stand "
                       "before the first section",
                       o->name);
    o = options_find(&bridge_options, key);
    if (!file->is_in_section && o)
        return problem(why, STATUS_INVALID,
                       "%s: is a bridge's: it has to stand in a section [mqtt "
                       "NAME]",
                       o->name);
    return options_unknown(file->options, "", key, "", why);
}

/* Reading */

/* Reads the file, then takes the arguments. STATUS_INVALID: `why` names file
 * and line. */
static enum status
take_all(struct config *config, const struct arguments *given,
         struct problem *why)
{
    struct config_origins *from = &config->origins;
    const char *path =
        given->options[options_index(&config_options, SLICE("config"))];
    struct option_file file = {
        .options = &config_options,
        .values = config,
        .begin = begin_section,
        .end = end_section,
        .explain = explain_key,
        .section_form = "a section is [mqtt NAME]",
        .user = config,
    };
    enum status rc = STATUS_OK;

    from->file = path;
    for (size_t i = 0; i < N_ROWS; i++)
        from->is_argument[i] = given->options[i] != NULL;
    if (path) {
        rc = option_file_read(&file, path, why);
        if (rc == STATUS_NOT_FOUND)
            rc = STATUS_INVALID;
        if (!file.is_in_section)
            memcpy(from->line_of, file.line_of, sizeof(file.line_of));
    }
    if (!rc)
        rc = options_take(&config_options, given->options, config, why);
    /* More bytes of content than a record carries never come to a row. */
    if (config->cluster[0] && !strcmp(config->cluster_bytes, "journal") &&
        config->max_content > CLUSTER_CONTENT_MAX)
        config->max_content = CLUSTER_CONTENT_MAX;
    if (!rc && config->mqtt[0]) {
        /* The bridge of --mqtt stands in front of all others. */
        struct bridge_config own, *bridge;

        rc = bridging_add(&config->bridges, &config->n_bridges, SLICE("mqtt"),
                          0, why);
        if (rc)
            return problem_prefix(why, rc, "--mqtt: ");
        bridge = config->bridges;
        own = bridge[config->n_bridges - 1];
        memmove(bridge + 1, bridge, (config->n_bridges - 1) * sizeof(own));
        *bridge = own;
        rc = bridge_read_url(config->mqtt, bridge, why);
        memcpy(bridge->out, "*", sizeof("*"));
    }
    return rc ? rc
              : bridging_check(config->bridges, config->n_bridges, path, why);
}

enum status
config_read(struct config *config, int argc, char **argv,
            enum config_wish *wish, struct problem *why)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct arguments given;
    enum status rc;

    *config = (struct config){.threads = 1};
    if (gethostname(config->cluster_name, sizeof(config->cluster_name) - 1))
        config->cluster_name[0] = '\0';
    if (cores > 1)
        config->threads = cores > 64 ? 64 : (uint64_t)cores;
    rc = options_take(&config_options, NULL, config, why);
    *wish = CONFIG_RUN;
    if (rc)
        return rc;
    rc = options_arguments(&config_options, argc, argv, false, &given, why);
    if (!rc && given.wish)
        *wish = (enum config_wish)given.wish->min;
    else if (!rc)
        rc = take_all(config, &given, why);
    options_arguments_fini(&given);
    if (rc)
        config_fini(config);
    return rc;
}

void
config_fini(struct config *config)
{
    bridging_free(config->bridges, config->n_bridges);
    config->bridges = NULL;
    config->n_bridges = 0;
}

/* Whether there is TLS is fixed; its files may change. */
static bool
is_live(const struct option *o, const struct config *running,
        const struct config *next)
{
    return o->is_live && (!slice_starts(slice_of(o->name), "tls-") ||
                          !running->tls_cert[0] == !next->tls_cert[0]);
}

void
config_compare(const struct config *running, const struct config *next,
               void (*on_difference)(const char *name, bool is_live,
                                     void *user),
               void *user)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (!option_is_same(&rows[i], running, next))
            on_difference(rows[i].name, is_live(&rows[i], running, next), user);
}

/* {"name":"heartbeat","value":"5","default":"20","from":"file",
 *  "place":"/etc/tidings.ini:3","reload":false} */
static void
write_option(const struct config *config, size_t i, struct buf *to)
{
    const struct config_origins *from = &config->origins;
    const struct option *o = &rows[i];
    char place[4200], *query;
    struct buf value = {.max = 8192};

    if (o->type == OPTION_OWN)
        buf_add_text(&value, config->mqtt); /* the only one */
    else
        option_write(o, config, &value);
    /* Options refuse a URL with a user; its query may have a key, and is left
     * out. */
    query = value.size ? memchr(value.data, '?', value.size) : NULL;
    if (query && slice_starts(buf_slice(&value), "https://")) {
        value.size = (size_t)(query - value.data);
        BUF_ADD(&value, "?...");
    }
    buf_add_format(to, "{\"name\":\"%s\"", o->name);
    json_text_member(to, "value", buf_slice(&value));
    buf_fini(&value);
    if (o->standard)
        json_text_member(to, "default", slice_of(o->standard));
    json_text_member(to, "from",
                     from->is_argument[i] ? SLICE("command line")
                     : from->line_of[i]   ? SLICE("file")
                                          : SLICE("default"));
    if (!from->is_argument[i] && from->line_of[i]) {
        snprintf(place, sizeof(place), "%s:%u", from->file, from->line_of[i]);
        json_text_member(to, "place", slice_of(place));
    }
    json_flag_member(to, "reload", is_live(o, config, config));
    BUF_ADD(to, "}");
}

const struct json_shape option_shape = {
    "Option", "An option of tidingsd",
    "name string, value string, default? string, from string (where it was "
    "given), place? string (file and line), reload flag (a reload changes it)"};

const struct json_shape options_shape = {"Options", "All options",
                                         "options [Option]"};

void
config_take_live(struct config *running, const struct config *next)
{
    bool takes[N_ROWS];

    for (size_t i = 0; i < N_ROWS; i++)
        takes[i] = is_live(&rows[i], running, next);
    for (size_t i = 0; i < N_ROWS; i++) {
        if (takes[i])
            option_copy(&rows[i], next, running);
        if (!takes[i] && !option_is_same(&rows[i], running, next))
            continue;
        running->origins.line_of[i] = next->origins.line_of[i];
        running->origins.is_argument[i] = next->origins.is_argument[i];
    }
}

const struct option *
config_option(const char *name)
{
    return options_find(&config_options, slice_of(name));
}

/* Help */

void
config_example(FILE *to)
{
    fprintf(to,
            "# Configuration of tidingsd: tidingsd --config FILE. Every option "
            "stands here\n# with its default; remove the # before a name to "
            "change it. An option of the\n# command line wins over the one "
            "here; tidingsd --config FILE --check looks\n# whether all is "
            "well.\n#\n# " CONFIG_VALUES "\n");
    options_example(&config_options, to);
    fprintf(to, "\n# Bridges to MQTT brokers: for each a section with a name "
                "of its own (a-z 0-9\n# _ -), behind all that stands above. "
                "It has url, and out or in or both.\n\n#[mqtt NAME]\n");
    options_example(&bridge_options, to);
}

/* The report */

void
config_report_init(struct config_report *report)
{
    pthread_mutex_init(&report->mutex, NULL);
    buf_init(&report->text, CONFIG_REPORT_MAX);
}

void
config_report_fini(struct config_report *report)
{
    buf_fini(&report->text);
    pthread_mutex_destroy(&report->mutex);
}

void
config_report_update(struct config_report *report, const struct config *config)
{
    struct buf text = {.max = CONFIG_REPORT_MAX}, before;

    BUF_ADD(&text, "{\"options\":[");
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].type == OPTION_WISH || rows[i].type == OPTION_FILE)
            continue;
        json_separate(&text, ",");
        write_option(config, i, &text);
    }
    BUF_ADD(&text, "]}\n");
    pthread_mutex_lock(&report->mutex);
    before = report->text;
    report->text = text;
    pthread_mutex_unlock(&report->mutex);
    buf_fini(&before);
}

void
config_report_copy(struct config_report *report, struct buf *to)
{
    pthread_mutex_lock(&report->mutex);
    to->failed |= report->text.failed;
    buf_add_slice(to, buf_slice(&report->text));
    pthread_mutex_unlock(&report->mutex);
}
