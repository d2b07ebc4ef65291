#include <errno.h>
#include <string.h>

#include <openssl/ssl.h>

#include "broker/mqtt/mqtt_client.h"

/* Translates codes of MQTT 3.1.1, section 3.2.2.3, to reasons of MQTT 5. */
static int
reason_of_311(int code)
{
    static const int codes[] = {0, 0x84, 0x85, 0x88, 0x86, 0x87};

    return code > 0 && code < (int)(sizeof(codes) / sizeof(codes[0]))
               ? codes[code]
               : 0x80;
}

/* A guess at the cause of a failure without an answer. */
static const char *
guess_cause(const struct mqtt *mqtt)
{
    const struct bridge_config *c = mqtt->options.config;
    bool is_5 = c->version == BRIDGE_MQTT_5;

    if (mqtt->is_connected)
        return "";
    if (!c->is_tls)
        return is_5 ? " (it may want mqtts://, or version = 3.1.1)"
                    : " (it may want mqtts://)";
    if (!c->cert[0])
        return is_5 ? " (it may want a client certificate, or version = 3.1.1)"
                    : " (it may want a client certificate)";
    return is_5 ? " (it may want version = 3.1.1)" : "";
}

void
mqtt_refused(struct mqtt *mqtt, int code, const char *text)
{
    bool is_5 = mqtt->options.config->version == BRIDGE_MQTT_5;
    int reason = code < MQTT_REASON_FAILED ? reason_of_311(code) : code;
    const char *help = "";

    if (reason == 0x84)
        help = is_5 ? " (version = 3.1.1 may help)" : " (version = 5 may help)";
    else if (reason == 0x87)
        help = " (user name and password may be wrong)";
    if (text && *text)
        mqtt_end(mqtt, "refused by the MQTT broker: %s%s: \"%s\"",
                 mqtt_reason(reason), help, problem_quote(slice_of(text)).text);
    else
        mqtt_end(mqtt, "refused by the MQTT broker: %s%s", mqtt_reason(reason),
                 help);
}

void
mqtt_dismissed(struct mqtt *mqtt, int code)
{
    mqtt_end(mqtt, "disconnected by the MQTT broker: %s",
             code < MQTT_REASON_FAILED ? "no reason is given"
                                       : mqtt_reason(code));
}

/* The last part of "OpenSSL Error[0]: error:0A000086:SSL routines::certificate
 * verify failed". */
static const char *
tls_reason(const char *complaint)
{
    const char *colon = strrchr(complaint, ':');

    return colon && colon[1] ? colon + 1 + (colon[1] == ' ') : complaint;
}

/* Explains a failure of TLS; false: TLS reports nothing. */
static bool
explain_tls(struct mqtt *mqtt)
{
    int bad = mqtt->bad_certificate;

    if (bad == X509_V_ERR_HOSTNAME_MISMATCH ||
        bad == X509_V_ERR_IP_ADDRESS_MISMATCH)
        mqtt_end(mqtt, "TLS: the MQTT broker's certificate is not for %s",
                 mqtt->options.config->host);
    else if (bad)
        mqtt_end(mqtt, "TLS: the MQTT broker's certificate is not good: %s",
                 X509_verify_cert_error_string(bad));
    else if (mqtt->complaint[0] && !strstr(mqtt->complaint, "unexpected eof"))
        mqtt_end(mqtt, "TLS: %s", tls_reason(mqtt->complaint));
    else
        return false;
    return true;
}

static void
explain_handshake(struct mqtt *mqtt)
{
    mqtt_end(mqtt,
             "cut by the MQTT broker in the TLS handshake (it may have no TLS "
             "on port %u)",
             mqtt->options.config->port);
}

static void
explain_cut(struct mqtt *mqtt)
{
    /* Mosquitto cuts in this way if its queues have no limit. */
    if (mqtt->is_connected && mqtt->refusal)
        mqtt_end(mqtt, "cut by the MQTT broker after it refused a message: %s",
                 mqtt_reason(mqtt->refusal));
    else if (mqtt->is_connected)
        mqtt_end(mqtt, "cut by the MQTT broker");
    else if (mqtt_is_shaking(mqtt))
        explain_handshake(mqtt);
    else
        mqtt_end(mqtt, "cut by the MQTT broker instead of an answer%s",
                 guess_cause(mqtt));
}

void
mqtt_explain(struct mqtt *mqtt, int rc, int error)
{
    bool is_tls = mqtt->options.config->is_tls;

    switch (rc) {
    case MOSQ_ERR_SUCCESS: /* only the socket was closed */
    case MOSQ_ERR_CONN_LOST:
    case MOSQ_ERR_NO_CONN:
        explain_cut(mqtt);
        break;
    case MOSQ_ERR_TLS:
        if (!explain_tls(mqtt)) /* its SSL may be freed: not explain_cut */
            explain_handshake(mqtt);
        break;
    case MOSQ_ERR_ERRNO:
        /* The library turns every TLS error into EPROTO. */
        if (is_tls && explain_tls(mqtt))
            break;
        if (is_tls || error == 0 || error == EPROTO || error == ECONNRESET ||
            error == EPIPE)
            explain_cut(mqtt);
        else
            mqtt_end(mqtt, "cut: %s", strerror(error));
        break;
    case MOSQ_ERR_KEEPALIVE:
        mqtt_end(mqtt, "no answer from the MQTT broker within the keepalive");
        break;
    case MOSQ_ERR_NOMEM:
        mqtt_end(mqtt, NO_MEMORY);
        break;
    default:
        mqtt_end(mqtt, "the MQTT broker does not speak MQTT%s: %s%s",
                 mqtt->options.config->version == BRIDGE_MQTT_5 ? " 5"
                                                                : " 3.1.1",
                 mosquitto_strerror(rc), guess_cause(mqtt));
        break;
    }
}
