#include "tests/bench/mqtt_clients.h"

#include <mqtt_protocol.h>

#include "tests/bench/bench.h"

#define KEEPALIVE_S 60
#define LOOP_MS     1000

struct sender {
    unsigned n_acknowledged;
    bool is_connected;
};

void
mqtt_must(int rc)
{
    if (rc)
        bench_fail("libmosquitto: %s", mosquitto_strerror(rc));
}

static void
on_connect(struct mosquitto *client, void *user, int reason)
{
    struct sender *sender = user;

    (void)client;
    sender->is_connected = reason == 0;
}

static void
on_publish(struct mosquitto *client, void *user, int mid)
{
    struct sender *sender = user;

    (void)client;
    (void)mid;
    sender->n_acknowledged++;
}

static mosquitto_property *
make_properties(void)
{
    static const char *const pairs[][2] = {
        {"set", "bench"},
        {"epoch", "0123456789abcdef"},
        {"after", "49999"},
        {"last", "50000"},
        {"from", "2026-11-20T12:00:00.123456Z"},
        {"until", "2026-11-20T12:00:00.123457Z"},
    };
    mosquitto_property *properties = NULL;

    mqtt_must(mosquitto_property_add_string(&properties, MQTT_PROP_CONTENT_TYPE,
                                            "application/json"));
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        mqtt_must(mosquitto_property_add_string_pair(
            &properties, MQTT_PROP_USER_PROPERTY, pairs[i][0], pairs[i][1]));
    return properties;
}

/* Properties are made for each message, as a client with different ones has to
 * do.
 */
static void
publish(struct mosquitto *client, const struct mqtt_load *load)
{
    mosquitto_property *properties = NULL;

    if (load->has_properties)
        properties = make_properties();
    mqtt_must(mosquitto_publish_v5(client, NULL, load->topic, (int)load->size,
                                   load->payload, 1, false, properties));
    mosquitto_property_free_all(&properties);
}

void
mqtt_send(const struct mqtt_load *load)
{
    struct sender sender = {0};
    struct mosquitto *client = mosquitto_new(NULL, true, &sender);
    unsigned sent = 0;

    bench_memory(client);
    mosquitto_connect_callback_set(client, on_connect);
    mosquitto_publish_callback_set(client, on_publish);
    mqtt_must(mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION,
                                   MQTT_PROTOCOL_V5));
    mqtt_must(mosquitto_int_option(client, MOSQ_OPT_SEND_MAXIMUM,
                                   (int)load->inflight));
    mqtt_must(
        mosquitto_connect(client, "127.0.0.1", (int)load->port, KEEPALIVE_S));
    while (!sender.is_connected)
        mqtt_must(mosquitto_loop(client, LOOP_MS, 1));
    while (sender.n_acknowledged < load->messages) {
        while (sent < load->messages &&
               sent - sender.n_acknowledged < load->inflight) {
            publish(client, load);
            sent++;
        }
        mqtt_must(mosquitto_loop(client, LOOP_MS, 1));
    }
    mosquitto_destroy(client);
}

/* True if the awaited subscription was granted; a global, as a client's user
 * pointer belongs to its owner. */
static bool is_granted;

static void
on_subscribe(struct mosquitto *client, void *user, int mid, int n,
             const int *granted)
{
    (void)client;
    (void)user;
    (void)mid;
    if (n != 1 || granted[0] > 2)
        bench_fail("the MQTT broker refuses a subscription");
    is_granted = true;
}

struct mosquitto *
mqtt_subscriber(unsigned port, const char *filter, void *user,
                void (*on_message)(struct mosquitto *client, void *user,
                                   const struct mosquitto_message *message))
{
    struct mosquitto *client = mosquitto_new(NULL, true, user);

    bench_memory(client);
    mosquitto_message_callback_set(client, on_message);
    mosquitto_subscribe_callback_set(client, on_subscribe);
    mqtt_must(mosquitto_int_option(client, MOSQ_OPT_TCP_NODELAY, 1));
    mqtt_must(mosquitto_connect(client, "127.0.0.1", (int)port, KEEPALIVE_S));
    mqtt_must(mosquitto_subscribe(client, NULL, filter, 1));
    is_granted = false;
    while (!is_granted)
        mqtt_must(mosquitto_loop(client, LOOP_MS, 1));
    return client;
}
