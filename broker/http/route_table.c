#include "broker/http/route_table.h"

#include "broker/access/token_json.h"
#include "broker/documents/documents.h"
#include "broker/documents/oai.h"
#include "broker/documents/reconcile.h"
#include "broker/sets/harvest.h"
#include "broker/sets/settings.h"
#include "proto/http/request_head.h"

#define JSON        "application/json"
#define TEXT        "text/plain"
#define HTML        "text/html"
#define TAR         "application/x-tar"
#define FORM        "application/x-www-form-urlencoded"
#define JWK_SET     "application/jwk-set+json"
#define MERGE_PATCH "application/merge-patch+json"

/* A subscription: topic, callback, secret and filters, all percent-encoded. Or
 * some hundred topics of a ping. */
#define FORM_MAX 16384

/* Two URLs with escapes. */
#define RELAY_MAX 16384

/* The route ignores a body, which curl or a form may send. */
#define IGNORED_MAX 1024

#define OPTION(name, of) \
    .option = "--" name, .member = offsetof(struct config, of)

#define FILTERS "change, prefix, type, tag, data"

#define CONDITIONS                                                        \
    "Accept, Accept-Encoding, Range, If-Range, If-Match, If-None-Match, " \
    "If-Modified-Since, If-Unmodified-Since"

#define OAI_ARGUMENTS \
    "verb, identifier, metadataPrefix, from, until, set, resumptionToken"

/* The readers of proto/input/input_formats.h. */
#define CHANGES                                                           \
    "application/xml, application/json, application/x-ndjson, text/xml, " \
    "application/ndjson, application/jsonl"
#define EVENTS \
    "application/cloudevents+json, application/cloudevents-batch+json"

/* Texts of several rows */
#define BAD_QUERY  "a parameter is malformed"
#define BAD_FORM   "an argument is malformed, or no text of XML"
#define BAD_JSON   "a parameter or the JSON is malformed"
#define NO_AFTER   "`after` is missing or malformed"
#define NOT_KNOWN  "there is no such subscription"
#define NOT_ACTIVE "the subscription is not verified"
#define TOO_OFTEN                                                          \
    "a test or a repeat of the subscription is under way, or ten were in " \
    "the last seconds"
#define GONE "the set was removed, or is removed meanwhile"
#define LOST "the set was removed, or has lost what came before its lists began"
#define POSITION_GONE                                                \
    "the set was removed, or the broker cannot serve the position: " \
    "`earliest`, `last` and `restart` say where to go on"
#define OPEN        "the broker has `--insecure-open`"
#define PEERS       "settings that name foreign hubs or topics, and " OPEN
#define BAD_SETTING "a setting that the broker cannot take"
#define NO_SERVICE \
    "a topic, callback, secret or filter that the hub cannot serve"
#define NO_TOKEN "there is no such token"
#define NO_STREAM                                                      \
    "neither a WebSocket nor an event stream, or a handshake without " \
    "`Upgrade`"
#define NO_FACE "`Accept` refuses all media types of the answer"
#define NO_FORM NO_FACE ", or `Accept-Encoding` the only form"
#define OTHER   "`If-Match` or `If-Unmodified-Since` names another version"
#define BEYOND  "`Range` lies behind the end"
#define BAD_STREAM                                                     \
    "a parameter or the JSON is malformed, or the broker speaks none " \
    "of the subprotocols"
#define FLOOD                                                               \
    "too many requests wait for their verification, or the client has its " \
    "share of the subscriptions"

/* clang-format off */
/* The subscriptions of a set, or of a relay. */
#define SUBSCRIPTIONS(at, of, owner, news)                                    \
    {METHOD_GET, at, handle_command, of, .act = COMMAND_LIST,                 \
     .does = "Lists the subscriptions of a " owner,                           \
     .rights = RIGHT_MANAGE | RIGHT_OBSERVE, .parameters = "after, callback", \
     .secrets = "callback",                                                   \
     .statuses = {{200, JSON, "Subscriptions"}, {400, BAD_QUERY}}},           \
    {METHOD_GET, at "/{id}", handle_command, of, .act = COMMAND_SHOW,         \
     .does = "Describes a subscription",                                      \
     .rights = RIGHT_MANAGE | RIGHT_OBSERVE,                                  \
     .statuses = {{200, JSON, "Subscription"}, {404, NOT_KNOWN}}},            \
    {METHOD_DELETE, at "/{id}", handle_command, of, .act = COMMAND_END,       \
     .does = "Ends a subscription", .rights = RIGHT_MANAGE,                   \
     .statuses = {{204, ""}, {404, NOT_KNOWN}}},                              \
    {METHOD_POST, at "/{id}/redeliver", handle_command, of,                   \
     .act = COMMAND_REDELIVER,                                                \
     .does = "Delivers the " news " behind a position again",                 \
     .rights = RIGHT_MANAGE, .parameters = "after",                           \
     .bodies = {{NULL, .bytes = IGNORED_MAX}},                                \
     .statuses = {{200, JSON, "Subscription"}, {400, NO_AFTER},               \
                  {404, NOT_KNOWN}, {410, POSITION_GONE},                     \
                  {422, NOT_ACTIVE}}},                                        \
    {METHOD_GET, at "/{id}/attempts", handle_command, of,                     \
     .act = COMMAND_ATTEMPTS,                                                 \
     .does = "Lists the last attempts to deliver to a subscription",          \
     .rights = RIGHT_MANAGE | RIGHT_OBSERVE,                                  \
     .statuses = {{200, JSON, "Attempts"}, {404, NOT_KNOWN}}},                \
    {METHOD_POST, at "/{id}/attempts", handle_command, of,                    \
     .act = COMMAND_AGAIN, .does = "Sends one of the last deliveries again",  \
     .rights = RIGHT_MANAGE, .parameters = "delivery",                        \
     .bodies = {{NULL, .bytes = IGNORED_MAX}},                                \
     .statuses =                                                              \
         {{200, JSON, "Attempt"}, {400, "`delivery` is missing"},             \
          {404, "there is no such subscription, or no such delivery"},        \
          {410, "the set was removed, or no longer has the entries"},         \
          {422, NOT_ACTIVE ", has another filter by now, or the delivery "    \
                           "was a test"},                                     \
          {429, TOO_OFTEN}}},                                                 \
    {METHOD_POST, at "/{id}/test", handle_command, of, .act = COMMAND_TEST,   \
     .does = "Sends a test to a subscription", .rights = RIGHT_MANAGE,        \
     .bodies = {{NULL, .bytes = IGNORED_MAX}},                                \
     .statuses = {{200, JSON, "Attempt"}, {404, NOT_KNOWN},                   \
                  {422, NOT_ACTIVE ", or is another hub's"},                  \
                  {429, TOO_OFTEN}}}
/* clang-format on */

const struct route route_table[] = {
    {METHOD_GET, "/sets", handle_sets_get, .does = "Lists the sets",
     .rights = RIGHTS_OF_SETS, .parameters = "after, since, rate, raw",
     .fields = "Accept",
     .statuses = {{200, JSON ", " HTML, "Sets"},
                  {400, BAD_QUERY},
                  {406, NO_FACE}}},
    {METHOD_GET, "/sets/{set}", handle_set_get, OF_SET,
     .does = "Describes a set", .rights = RIGHT_SUBSCRIBE | RIGHT_MANAGE,
     .parameters = "raw", .fields = "Accept",
     .statuses = {{200, JSON ", " HTML, "Set"}, {406, NO_FACE}}},
    {METHOD_PUT, "/sets/{set}", handle_set_change, OF_NEW_SET,
     .act = ACT_SETTINGS, .does = "Creates a set, or replaces its settings",
     .rights = RIGHT_MANAGE, .parameters = "new, discard",
     .bodies = {{JSON, .schema = "Settings", .bytes = SETTINGS_BYTES_MAX,
                 .is_optional = true}},
     .statuses = {{200, JSON, "Set"},
                  {201, JSON, "Set"},
                  {400, BAD_JSON},
                  {403, PEERS},
                  {409, "`new=yes`, and the set exists; or stored bytes would "
                        "be deleted (`discards`) without `discard=yes`, or "
                        "unreadable settings replaced"},
                  {422, BAD_SETTING}}},
    {METHOD_PATCH, "/sets/{set}", handle_set_change, OF_SET,
     .act = ACT_SETTINGS, .does = "Changes some settings of a set",
     .rights = RIGHT_MANAGE, .parameters = "discard",
     .bodies = {{MERGE_PATCH ", " JSON, .schema = "SettingsChange",
                 .bytes = SETTINGS_BYTES_MAX}},
     .statuses = {{200, JSON, "Set"},
                  {400, BAD_JSON},
                  {403, PEERS},
                  {409, "stored bytes would be deleted (`discards`) without "
                        "`discard=yes`; or the set has unreadable settings"},
                  {410, GONE},
                  {422, BAD_SETTING}}},
    {METHOD_DELETE, "/sets/{set}", handle_set_change, OF_SET,
     .act = ACT_REMOVAL, .does = "Removes a set", .rights = RIGHT_MANAGE,
     .statuses = {{204, ""}, {410, GONE}}},

    {METHOD_GET, "/sets/{set}/changes", handle_memory_get, OF_SET,
     .does = "Reads changes behind a position, and may wait for them",
     .rights = RIGHT_SUBSCRIBE, .has_positions = true,
     .parameters = "after, since, wait, raw, " FILTERS, .fields = "Accept",
     .statuses = {{200, JSON ", application/xml, text/xml, " HTML, "Message"},
                  {400, BAD_QUERY},
                  {406, NO_FACE},
                  {410, POSITION_GONE}}},
    {METHOD_POST, "/sets/{set}/changes", handle_changes_post, OF_NEW_SET,
     .does = "Posts changes: all of them or none", .rights = RIGHT_PUBLISH,
     .rejected = METRIC_POSTS_REJECTED,
     .fields = "Idempotency-Key, traceparent, " EVENT_FIELDS,
     .bodies = {{CHANGES ", " EVENTS, .schema = "Post",
                 OPTION("max-body", max_body), .coding = "gzip",
                 .prefix = EVENT_PREFIX},
                {"multipart/related", OPTION("max-content", max_content),
                 .needs_length = true, .handler = handle_multipart_post}},
     .statuses = {{200, JSON, "Posted"},
                  {400, "the body or the Idempotency-Key is malformed"},
                  {409, "a post with this Idempotency-Key is at work"},
                  {410, GONE},
                  {413,
                   "also more than 50,000 entries of XML, or 1,000 events"},
                  {415, "also a charset other than UTF-8"},
                  {422, "an entry that the broker cannot take (`entry`, "
                        "`line`); content that is missing or differs; an "
                        "Idempotency-Key that other entries had; an event "
                        "that lacks an attribute, or differs from that of its "
                        "source and id"}}},
    {METHOD_GET, "/sets/{set}/stream", handle_stream_get, OF_SET,
     .does = "Streams the changes of a set", .rights = RIGHT_SUBSCRIBE,
     .is_stream = true, .has_positions = true,
     .parameters = "after, since, lastEventId, checkpoints, lines, " FILTERS,
     .fields = "Upgrade, Sec-WebSocket-Protocol, "
               "Sec-WebSocket-Extensions, Accept, Last-Event-ID",
     .statuses = {{101, "WebSocket"},
                  {200, "text/event-stream"},
                  {204, ""},
                  {400, "a parameter is malformed, or the broker speaks none "
                        "of the subprotocols"},
                  {426, NO_STREAM}}},
    {METHOD_GET, "/stream", handle_many_get,
     .does = "Streams the changes of many sets", .rights = RIGHT_SUBSCRIBE,
     .is_stream = true, .has_positions = true,
     .parameters = "set, resume, lastEventId, lines, " FILTERS,
     .fields = "Upgrade, Sec-WebSocket-Protocol, "
               "Sec-WebSocket-Extensions, Accept, Last-Event-ID",
     .statuses = {{101, "WebSocket"},
                  {200, "text/event-stream"},
                  {400, BAD_STREAM},
                  {426, NO_STREAM}}},
    {METHOD_POST, "/stream", handle_many_post,
     .does = "Streams the changes of the sets that the body names",
     .rights = RIGHT_SUBSCRIBE,
     .parameters = "set, resume, lastEventId, lines, " FILTERS,
     .fields = "Accept, Last-Event-ID",
     .bodies = {{JSON, .schema = "Follow", .bytes = STREAM_MESSAGE_MAX}},
     .statuses = {{200, "text/event-stream"},
                  {400, BAD_STREAM},
                  {426, NO_STREAM}}},
    {METHOD_GET, "/sets/{set}/resources", handle_documents_get, OF_SET,
     .does = "Lists the resources of a set as they were at a time",
     .rights = RIGHT_SUBSCRIBE, .has_positions = true, .effort = EFFORT_FOLD,
     .parameters = "as-of, after, list, page, raw", .fields = CONDITIONS,
     .statuses = {{200, JSON ", application/xml, text/xml", "PastResources"},
                  {206, JSON ", application/xml, text/xml"},
                  {304, ""},
                  {400, BAD_QUERY},
                  {406, NO_FORM},
                  {410, "the set was removed, or its state is not known"},
                  {412, OTHER},
                  {413, "the changes from its list on exceed `--max-body`"},
                  {416, BEYOND}}},
    {METHOD_PUT, "/sets/{set}/resources", handle_resources_put, OF_NEW_SET,
     .does = "Posts all resources: the broker finds the changes",
     .rights = RIGHT_PUBLISH, .rejected = METRIC_UPLOADS_REJECTED,
     .parameters = "max-delete, accept-deletions, left-out",
     .fields = "traceparent",
     .bodies = {{CHANGES, .schema = "Resources",
                 OPTION("max-resources-body", max_resources_body),
                 .coding = "gzip"}},
     .statuses = {{200, JSON, "ResourcesPosted"},
                  {400, "a parameter or the body is malformed"},
                  {409, "another request posts the resources of this set; or, "
                        "without `accept-deletions`, deletions are held back "
                        "(`held_back`)"},
                  {410, GONE},
                  {415, "also a charset other than UTF-8"},
                  {422, "an entry that the broker cannot take, or content "
                        "that is missing"}}},
    {METHOD_GET, "/sets/{set}/harvest", handle_harvest_get, OF_SET,
     .does = "Reads the report of the harvester of a set",
     .rights = RIGHT_SUBSCRIBE | RIGHT_MANAGE,
     .statuses = {{200, JSON, "Harvest"}, {404, "no harvester has reported"}}},
    {METHOD_PUT, "/sets/{set}/harvest", handle_set_change, OF_NEW_SET,
     .act = ACT_HARVEST,
     .does = "Reports how a set stands to the source that it is harvested from",
     .rights = RIGHT_PUBLISH,
     .bodies = {{JSON, .schema = "HarvestReport", .bytes = HARVEST_BYTES_MAX}},
     .statuses = {{204, ""},
                  {400, "the JSON is malformed"},
                  {422,
                   "a member that is missing, unknown or of another type"}}},
    {METHOD_POST, "/sets/{set}/harvest", handle_set_change, OF_SET,
     .act = ACT_HARVEST,
     .does = "Consents to deletions that the harvester of a set holds back",
     .rights = RIGHT_PUBLISH | RIGHT_MANAGE, .parameters = "accept-deletions",
     .bodies = {{NULL, .bytes = IGNORED_MAX}},
     .statuses = {{204, ""},
                  {400, "the parameter is missing or malformed"},
                  {404, "no harvester has reported"},
                  {409, "no deletion is held back; or more are"},
                  {410, GONE}}},
    {METHOD_DELETE, "/sets/{set}/harvest", handle_set_change, OF_SET,
     .act = ACT_HARVEST, .does = "Forgets the report of the harvester of a set",
     .rights = RIGHT_PUBLISH | RIGHT_MANAGE,
     .statuses = {{204, ""}, {410, GONE}}},
    {METHOD_POST, "/sets/{set}/rotate", handle_rotate_post, OF_SET,
     .does = "Closes the open Change List", .rights = RIGHT_MANAGE,
     .bodies = {{NULL, .bytes = IGNORED_MAX}},
     .statuses = {{200, JSON, "Closed"}, {410, GONE}}},
    {METHOD_POST, "/sets/{set}/resourcelist", handle_build_post, OF_SET,
     .act = GENERATION_RESOURCELIST, .does = "Builds a Resource List now",
     .rights = RIGHT_MANAGE, .bodies = {{NULL, .bytes = IGNORED_MAX}},
     .statuses = {{200, JSON, "Built"}, {202, JSON, "Built"}, {410, LOST}}},
    {METHOD_POST, "/sets/{set}/resourcedump", handle_build_post, OF_SET,
     .act = GENERATION_RESOURCEDUMP, .does = "Builds a Resource Dump now",
     .rights = RIGHT_MANAGE, .bodies = {{NULL, .bytes = IGNORED_MAX}},
     .statuses = {{200, JSON, "Built"},
                  {202, JSON, "Built"},
                  {409, "content of some resources is not there (`missing`)"},
                  {410, LOST}}},

    {METHOD_GET, "/sets/{set}/oai", handle_oai, OF_SET,
     .does = "Answers a harvester of OAI-PMH 2.0", .rights = RIGHT_SUBSCRIBE,
     .effort = EFFORT_TURN, .parameters = OAI_ARGUMENTS,
     .statuses = {{200, "text/xml"}, {400, BAD_FORM}, {410, GONE}}},
    {METHOD_POST, "/sets/{set}/oai", handle_oai, OF_SET,
     .does = "Answers a harvester of OAI-PMH 2.0", .rights = RIGHT_SUBSCRIBE,
     .effort = EFFORT_TURN,
     .bodies = {{FORM, .bytes = OAI_FORM_MAX, .is_optional = true}},
     .statuses = {{200, "text/xml"}, {400, BAD_FORM}, {410, GONE}}},

    {METHOD_POST, "/sets/{set}/reconcile", handle_reconcile, OF_SET,
     .does = "Compares a copy with the resources of a set, by Negentropy",
     .rights = RIGHT_SUBSCRIBE, .has_positions = true, .effort = EFFORT_ANSWER,
     .parameters = "after, entries",
     .bodies = {{"application/octet-stream", .bytes = RECONCILE_MESSAGE_MAX}},
     .statuses = {{200, "application/octet-stream, application/xml"},
                  {400, "the message, the ids or a parameter is malformed"},
                  {410, POSITION_GONE},
                  {413, "or the entries of a small set are too large"}}},

    {METHOD_GET, "/sets/{set}/rate", handle_set_rate_get, OF_SET,
     .does = "Reads the last hour of a set, minute by minute",
     .rights = RIGHT_SUBSCRIBE | RIGHT_MANAGE,
     .statuses = {{200, JSON, "Rate"}}},

    {METHOD_POST, "/hub", handle_hub_form,
     .does = "Subscribes and unsubscribes callbacks, and takes pings and "
             "notifications",
     .fields = "Link, Idempotency-Key",
     .bodies = {{FORM, .schema = "HubForm", .bytes = FORM_MAX},
                {"any", OPTION("max-body", max_body),
                 .handler = handle_hub_notification}},
     .statuses =
         {{200, "notifications"},
          {202, "subscriptions, and pings with topics that the hub has not"},
          {204, "pings"},
          {400, "a parameter or a link is missing or malformed"},
          {401, "the right to the topic is missing"},
          {403,
           "the same; a notification of a topic that nobody registered, or "
           "whose Source does not name it and this hub; any "
           "notification or ping where " OPEN},
          {404, "there is no such topic, or the hub knows none of a ping"},
          {410, POSITION_GONE},
          {422, NO_SERVICE},
          {429, FLOOD},
          {502, "the Source of the topic does not answer well"},
          {504, "the Source of the topic does not answer in time"}}},
    {METHOD_GET, "/hub/keys", handle_hub_keys, .act = COMMAND_KEYS,
     .does = "Shows the public keys that the hub signs deliveries with",
     .statuses = {{200, JWK_SET, "HubKeys"}}},
    {METHOD_POST, "/hub/keys", handle_hub_keys, .act = COMMAND_KEYS_ROTATE,
     .does = "Makes a new key of the hub, and ends the former one",
     .rights = RIGHT_ADMIN, .parameters = "grace",
     .bodies = {{NULL, .bytes = IGNORED_MAX}},
     .statuses = {{200, JWK_SET, "HubKeys"},
                  {400, BAD_QUERY},
                  {409, "the hub has as many keys as it may have"}}},
    {METHOD_POST, "/sets/{set}/subscribe", handle_hub_form, OF_SET,
     .does = "Subscribes a callback to a set", .rights = RIGHT_SUBSCRIBE,
     .bodies = {{FORM, .schema = "SubscribeForm", .bytes = FORM_MAX}},
     .statuses = {{202, ""},
                  {400, "a parameter is missing or malformed"},
                  {410, POSITION_GONE},
                  {422, NO_SERVICE},
                  {429, FLOOD}}},
    SUBSCRIPTIONS("/sets/{set}/subscriptions", OF_SET, "set", "changes"),

    {METHOD_GET, "/relays", handle_command, .act = COMMAND_RELAY_LIST,
     .does = "Lists the relays", .rights = RIGHT_OBSERVE,
     .statuses = {{200, JSON, "Relays"}}},
    {METHOD_GET, "/relays/{relay}", handle_command, OF_RELAY,
     .act = COMMAND_RELAY_SHOW, .does = "Describes a relay",
     .rights = RIGHT_MANAGE | RIGHT_OBSERVE,
     .statuses = {{200, JSON, "Relay"}}},
    {METHOD_PUT, "/relays/{relay}", handle_command, OF_RELAY,
     .act = COMMAND_RELAY_PUT,
     .does = "Creates a relay, or changes the name of its hub",
     .rights = RIGHT_MANAGE, .is_publisher = true,
     .bodies = {{JSON, .schema = "RelayRequest", .bytes = RELAY_MAX}},
     .statuses = {{200, JSON, "Relay"},
                  {201, JSON, "Relay"},
                  {400, "the JSON is malformed"},
                  {403, OPEN},
                  {409, "the relay has another topic, or another relay or set "
                        "has the topic"},
                  {422, "a topic or hub that the broker cannot take"}}},
    {METHOD_DELETE, "/relays/{relay}", handle_command, OF_RELAY,
     .act = COMMAND_RELAY_REMOVE, .does = "Removes a relay",
     .rights = RIGHT_MANAGE, .is_publisher = true,
     .statuses = {{204, ""}, {403, OPEN}, {409, "the relay is being removed"}}},
    SUBSCRIPTIONS("/relays/{relay}/subscriptions", OF_RELAY, "relay",
                  "documents"),

    {METHOD_GET, "/bridges", handle_report_get, .act = REPORT_BRIDGES,
     .does = "Describes the bridges", .rights = RIGHT_OBSERVE,
     .statuses = {{200, JSON, "Bridges"}}},
    {METHOD_GET, "/cluster", handle_report_get, .act = REPORT_CLUSTER,
     .does = "Describes the cluster of the broker", .rights = RIGHT_OBSERVE,
     .statuses = {{200, JSON, "Cluster"}}},
    {METHOD_GET, "/tokens", handle_token, .act = TOKEN_LIST,
     .does = "Lists the tokens", .rights = RIGHT_ADMIN,
     .statuses = {{200, JSON, "Tokens"}}},
    {METHOD_POST, "/tokens", handle_token, .act = TOKEN_ADD,
     .does = "Makes a token", .rights = RIGHT_ADMIN,
     .bodies = {{JSON, .schema = "TokenRequest", .bytes = TOKEN_JSON_MAX}},
     .statuses = {{201, JSON, "Token"},
                  {400, "the JSON is malformed"},
                  {409, "the name exists, or there are too many tokens"},
                  {422, "a name, pattern or end that a token cannot have"}}},
    {METHOD_GET, "/tokens/self", handle_token_self,
     .does = "Describes the token of the request",
     .statuses = {{200, JSON, "Token"}}},
    {METHOD_GET, "/tokens/{token}", handle_token, .act = TOKEN_SHOW,
     .does = "Describes a token", .rights = RIGHT_ADMIN,
     .statuses = {{200, JSON, "Tokens"}, {404, NO_TOKEN}}},
    {METHOD_DELETE, "/tokens/{token}", handle_token, .act = TOKEN_REVOKE,
     .does = "Revokes a token", .rights = RIGHT_ADMIN,
     .statuses = {{204, ""}, {404, NO_TOKEN}}},
    {METHOD_POST, "/tokens/{token}/rotate", handle_token, .act = TOKEN_ROTATE,
     .does = "Gives a token a new text", .rights = RIGHT_ADMIN,
     .parameters = "grace", .bodies = {{NULL, .bytes = IGNORED_MAX}},
     .statuses = {{200, JSON, "Token"},
                  {400, BAD_QUERY},
                  {404, NO_TOKEN},
                  {409, "the token has expired"},
                  {422, "everyone has no secret"}}},

    {METHOD_POST, "/tickets", handle_tickets_post,
     .does = "Makes a ticket for one request without a token",
     .rights = RIGHTS_OF_SETS | RIGHT_OBSERVE,
     .bodies = {{NULL, .bytes = IGNORED_MAX}},
     .statuses = {{201, JSON, "Ticket"}}},

    {METHOD_POST, "/session", handle_session_post,
     .does = "Makes a session, with a cookie; with `renew`, gives the one of "
             "the request its token",
     .rights = RIGHTS_OF_SETS | RIGHT_OBSERVE, .parameters = "renew",
     .bodies = {{NULL, .bytes = IGNORED_MAX}},
     .statuses = {{200, JSON, "Token"},
                  {201, JSON, "Token"},
                  {400, BAD_QUERY},
                  {401, "the request has no token"},
                  {403, "a page of another origin sends it"},
                  {410, "the session to renew has ended"}}},
    {METHOD_DELETE, "/session", handle_session_delete, .does = "Ends a session",
     .statuses = {{204, ""}}},

    {METHOD_GET, "/healthz", handle_health_get,
     .does = "Answers while the process lives", .is_probe = true,
     .statuses = {{200, TEXT}}},
    {METHOD_GET, "/readyz", handle_ready_get,
     .does = "Answers 200 while the broker takes posts; with `for=reads`, "
             "while it serves reads",
     .is_probe = true, .parameters = "for",
     .statuses = {{200, TEXT},
                  {503, "the broker refuses posts, or soon will (`reasons`)"}}},
    {METHOD_GET, "/status", handle_report_get, .act = REPORT_STATUS,
     .does = "Reads the last hour of the broker", .rights = RIGHT_OBSERVE,
     .statuses = {{200, JSON, "Status"}}},
    {METHOD_GET, "/config", handle_report_get, .act = REPORT_CONFIG,
     .does = "Reads the options, their defaults and where they are from",
     .rights = RIGHT_ADMIN, .statuses = {{200, JSON, "Options"}}},
    {METHOD_GET, "/backup", handle_backup_get,
     .does = "Reads the backup: 202 while it is being made",
     .rights = RIGHT_ADMIN,
     .statuses = {{200, TAR},
                  {202, JSON, "Backup"},
                  {404, "there is no backup, or it was sent"},
                  {409, "the backup is being sent"}}},
    {METHOD_POST, "/backup", handle_backup_post,
     .does = "Begins to make a backup of the broker", .rights = RIGHT_ADMIN,
     .bodies = {{NULL, .bytes = IGNORED_MAX}},
     .statuses = {{202, JSON, "Backup"},
                  {409, "another backup is being made or sent"}}},
    {METHOD_GET, "/metrics", handle_report_get, .act = REPORT_METRICS,
     .does = "Reads the metrics, for Prometheus", .rights = RIGHT_OBSERVE,
     .statuses = {{200, TEXT}}},
};

const size_t route_table_size = N_ELEMENTS(route_table);

/* Some are of a set, so 404 and 410 are possible. */
const struct route route_documents = {
    METHOD_GET,
    NULL,
    handle_documents_get,
    .does = "Reads the document",
    .fields = CONDITIONS ", Accept-Datetime",
    .parameters = "page, plain, raw, seq, old, witnessed",
    .statuses = {{200, "the document"},
                 {206, "the `Range` of it"},
                 {302, "of a TimeGate or the documentation"},
                 {304, ""},
                 {400,
                  "`page` or `seq` is no number, or `Accept-Datetime` no date"},
                 {404, "there is no such document or set"},
                 {406, NO_FORM},
                 {410, "the document is no longer kept, or the set was "
                       "removed"},
                 {412, OTHER},
                 {416, BEYOND}},
};

/* Statuses of the router itself, or of the HTTP reader below it. */
const struct route_refusal route_refusals[] = {
    {400, "any",
     "the head is not strict HTTP/1.1, or the chunks of the body are not; a "
     "body with a method that takes none; a WebSocket where none begins, or a "
     "malformed handshake; no TLS where the broker speaks TLS"},
    {401, "a right",
     "once there are tokens: this one is missing, unknown or over"},
    {403, "a right", "the token lacks it (`right`)"},
    {403, "any",
     "an `Origin` that is not the broker's; without a token a `Host` that is "
     "not the broker's (but for `/healthz` and `/readyz`); without tokens and "
     "`--insecure-open` a request that came by a proxy; with "
     "`--cluster-read-only` all but reads"},
    {404, "any",
     "there is nothing at this path; there is no such set or relay, or none "
     "can have this name; a private set, without the right `subscribe`"},
    {405, "any", "the path takes other methods: `Allow` names them"},
    {408, "a body",
     "less than `--min-rate` bytes a second came, over `--request-timeout`"},
    {410, "{set}",
     "the set was removed; 404 without a token that has the right `subscribe`"},
    {411, "a body", "this body has to announce its `Content-Length`"},
    {413, "a body",
     "the body is larger than the table says, also when inflated"},
    {414, "any", "the target has more than 8,192 bytes"},
    {415, "a body",
     "another media type (`Accept`, or for PATCH `Accept-Patch`, names those "
     "of the table, and the text the option of curl that is right) or "
     "Content-Encoding (`Accept-Encoding` names the coding)"},
    {417, "any", "an `Expect` other than `100-continue`"},
    {426, "any",
     "a WebSocket of another version: `Sec-WebSocket-Version` names 13"},
    {429, "any",
     "the client has its share of streams, memory or other things "
     "(`--client-streams`, `--client-followed`, `--client-sets`, "
     "`--client-kept-bytes`, `--client-keys`, `--client-share`), or posts "
     "faster than it may (`--client-post-rate`, `--client-byte-rate`: "
     "`Retry-After` and `RateLimit` say when it may again)"},
    {431, "any",
     "a field line of more than 8,192 bytes, more than 100 field "
     "lines, or a head of more than 16,384 bytes"},
    {500, "any", "the broker failed: its log says why"},
    {501, "any", "a method that the broker does not know"},
    {503, "any",
     "the broker starts or ends; the disk is nearly full; all posts or readers "
     "together would need more memory than they may have; the broker is cut "
     "off from its cluster, and the request is a post, or names a position "
     "that is ahead of this broker; a broker of a cluster has not built a "
     "Resource List yet"},
    {505, "any", "neither HTTP/1.0 nor HTTP/1.1"},
};

const size_t route_refusals_size = N_ELEMENTS(route_refusals);

_Static_assert(REQUEST_TARGET_MAX == 8192 && REQUEST_FIELD_MAX == 8192 &&
                   REQUEST_FIELDS_MAX == 100 && REQUEST_HEAD_MAX == 16384,
               "the refusals above say so");

unsigned
route_document_rights(const struct document_found *document)
{
    return document->is_public ? 0
           : document->has_set ? RIGHT_SUBSCRIBE
                               : RIGHTS_OF_SETS;
}

const char *
route_method(enum method method)
{
    return method == METHOD_GET ? "GET, HEAD" : method_name(method);
}

const char *
route_reason(const struct route *route, unsigned status)
{
    for (size_t i = 0; i < ROUTE_STATUSES && route->statuses[i].status; i++)
        if (route->statuses[i].status == status)
            return route->statuses[i].what;
    return NULL;
}

bool
route_takes_body(const struct route *route)
{
    return route->bodies->option || route->bodies->bytes;
}

/* True if the row makes the router answer with this status. */
static bool
follows_from_row(const struct route *route, unsigned status)
{
    const struct route_body *body = route->bodies;

    switch (status) {
    case 401:
    case 403:
        return route->rights || route->is_publisher ||
               route == &route_documents;
    case 404:
        return route->of != OF_NOTHING;
    case 410:
        return route->of == OF_SET;
    case 411:
        return body[0].needs_length || body[1].needs_length;
    case 413:
        return route_takes_body(route);
    case 415:
        return body->types;
    }
    return false;
}

bool
route_may_answer(const void *row, unsigned status)
{
    const struct route *route = row;

    return status == 429 || status == 500 || status == 503 ||
           route_reason(route, status) || follows_from_row(route, status);
}

bool
route_refuses(const struct route *route, unsigned status)
{
    return status >= 400 &&
           (route_reason(route, status) || follows_from_row(route, status));
}

/* Printing */

/* "a, b" as "`a`, `b`". */
static void
print_words(FILE *to, const char *words)
{
    const char *end;

    for (; (end = strstr(words, ", ")); words = end + 2)
        fprintf(to, "`%.*s`, ", (int)(end - words), words);
    fprintf(to, "`%s`", words);
}

static void
print_body(FILE *to, const struct route_body *body)
{
    if (!body->types)
        fprintf(to, "ignored");
    else if (!strcmp(body->types, "any"))
        fprintf(to, "any other type");
    else
        print_words(to, body->types);
    if (body->coding)
        fprintf(to, ", also in `%s`", body->coding);
    if (body->option)
        fprintf(to, ", up to `%s`", body->option);
    else
        fprintf(to, ", up to %" PRIu64 " KB", body->bytes / 1024);
    if (body->needs_length)
        fprintf(to, ", with `Content-Length`");
    if (body->is_optional)
        fprintf(to, ", or none");
}

static void
print_refusals(FILE *to, const struct route *route)
{
    const char *between = "";

    for (unsigned status = 400; status < 600; status++) {
        const char *when = route_reason(route, status);

        /* The column of rights says when these come. */
        if (!when && (status == 401 || status == 403 ||
                      !follows_from_row(route, status)))
            continue;
        fprintf(to, "%s%u", between, status);
        if (when)
            fprintf(to, " %s", when);
        between = "<br>";
    }
    if (route->effort)
        fprintf(to, "%slong work", between);
}

static void
print_rights(FILE *to, unsigned rights)
{
    struct buf words = {.max = 256};

    rights_write(&words, rights, "`", " or ");
    fprintf(to, "%.*s | ", (int)words.size, words.data);
    buf_fini(&words);
}

static void
print_route(FILE *to, const struct route *route)
{
    const struct route_status *s = route->statuses;

    fprintf(to, "| %s ", route_method(route->method));
    if (!route->path)
        fprintf(to, "a document | see below | ");
    else
        fprintf(to, "`%s` | ", route->path);
    if (route->path && !strcmp(route->path, "/hub"))
        fprintf(to, "`publish` or `subscribe`, of the topic | ");
    else if (route->path)
        print_rights(to, route->rights);
    if (route->parameters)
        print_words(to, route->parameters);
    fprintf(to, " | ");
    if (route->fields)
        print_words(to, route->fields);
    fprintf(to, " | ");
    for (size_t i = 0; i < ROUTE_BODIES; i++) {
        if (!route_takes_body(route) || (i && !route->bodies[i].types))
            break;
        fprintf(to, "%s", i ? "<br>" : "");
        print_body(to, &route->bodies[i]);
    }
    fprintf(to, " | ");
    for (; s->status && s->status < 400; s++) {
        fprintf(to, "%s%u%s", s == route->statuses ? "" : "; ", s->status,
                s->what[0] ? " " : "");
        if (strchr(s->what, '/'))
            print_words(to, s->what);
        else
            fprintf(to, "%s", s->what);
    }
    fprintf(to, " | ");
    print_refusals(to, route);
    fprintf(to, " |\n");
}

void
route_table_print(FILE *to)
{
    struct document_found row;
    const char *path;

    fprintf(to, "| request | right | parameters | fields | body | answer | "
                "refused |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < route_table_size; i++)
        print_route(to, &route_table[i]);
    print_route(to, &route_documents);
    fprintf(to, "\n| document | right | media type |\n| --- | --- | --- |\n");
    for (size_t i = 0; (path = documents_row(i, &row)); i++) {
        fprintf(to, "| `%s` | ", path);
        print_rights(to, route_document_rights(&row));
        fprintf(to, "`%.*s`%s%s |\n", (int)strcspn(row.content_type, ";"),
                row.content_type, row.has_page ? ", `text/html`" : "",
                row.effort ? " (long work)" : "");
    }
    fprintf(to, "\n| status | of | when |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < route_refusals_size; i++)
        fprintf(to, "| %u | %s | %s |\n", route_refusals[i].status,
                route_refusals[i].where, route_refusals[i].when);
}
