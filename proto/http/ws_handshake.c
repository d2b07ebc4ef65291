#include "proto/http/ws_handshake.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "proto/number.h"
#include "proto/token.h"

/* RFC 6455 section 1.3. */
#define ACCEPT_SALT "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

void
upgrade_accept(char accept[UPGRADE_ACCEPT_SIZE],
               const char key[UPGRADE_KEY_SIZE])
{
    unsigned char salted[UPGRADE_KEY_SIZE - 1 + sizeof(ACCEPT_SALT) - 1];
    unsigned char digest[SHA_DIGEST_LENGTH];

    memcpy(salted, key, UPGRADE_KEY_SIZE - 1);
    memcpy(salted + UPGRADE_KEY_SIZE - 1, ACCEPT_SALT, sizeof(ACCEPT_SALT) - 1);
    SHA1(salted, sizeof(salted), digest);
    EVP_EncodeBlock((unsigned char *)accept, digest, sizeof(digest));
}

/* Compression */

/*
 *     extension-list  = 1#extension                    RFC 6455 section 9.1
 *     extension       = token *( ";" extension-param )
 *     extension-param = token [ "=" (token | quoted-string) ]
 *
 * The text in a quoted-string is a token, too. White space may stand between
 * any two parts (the implied rule of RFC 2616), and a list may have empty
 * elements.
 */

#define ANSWER                                         \
    "permessage-deflate; server_no_context_takeover; " \
    "client_no_context_takeover"

/* A client that names the server's window wants to see it in the answer (RFC
 * 7692 section 7.1.2.1). */
#define ANSWER_BITS ANSWER "; server_max_window_bits=15"

/* Windows: 2^8 to 2^15 bytes. */
#define BITS_MIN 8
#define BITS_MAX 15

enum parameter {
    SERVER_NO_CONTEXT,
    CLIENT_NO_CONTEXT,
    SERVER_BITS,
    CLIENT_BITS,
    PARAMETERS
};

static const char *const names[PARAMETERS] = {
    [SERVER_NO_CONTEXT] = "server_no_context_takeover",
    [CLIENT_NO_CONTEXT] = "client_no_context_takeover",
    [SERVER_BITS] = "server_max_window_bits",
    [CLIENT_BITS] = "client_max_window_bits",
};

/* An extension that the client offers. */
struct offer {
    bool is_declined;
    bool has[PARAMETERS];
};

/* A value without its quotes: of all bytes the first ones, more than a number
 * of two digits has. */
struct value {
    char text[64];
    size_t size;
};

/* Takes `c` and the white space around it; false: something else is there. */
static bool
take_mark(struct slice *rest, char c)
{
    slice_skip_blanks(rest);
    if (!slice_take_char(rest, c))
        return false;
    slice_skip_blanks(rest);
    return true;
}

/* Takes a token, or a quoted-string with the text of one. False: neither is
 * there. */
static bool
take_value(struct slice *rest, struct value *value)
{
    return token_take_value(rest, value->text, sizeof(value->text),
                            &value->size) &&
           token_is(
               (struct slice){value->text, value->size < sizeof(value->text)
                                               ? value->size
                                               : sizeof(value->text)});
}

/* Returns the number of bits, without leading zeros; 0: it is none. */
static unsigned
read_bits(const struct value *value)
{
    struct slice digits = {value->text, value->size};
    uint64_t bits;

    return value->size <= sizeof(value->text) && number_read(digits, &bits) &&
                   value->text[0] != '0' && bits >= BITS_MIN && bits <= BITS_MAX
               ? (unsigned)bits
               : 0;
}

/* Returns true if the parameter may have that value; size 0: none. */
static bool
is_acceptable(enum parameter parameter, const struct value *value)
{
    switch (parameter) {
    case SERVER_BITS:
        return value->size > 0 && read_bits(value) == BITS_MAX;
    case CLIENT_BITS:
        return value->size == 0 || read_bits(value) > 0;
    default:
        return value->size == 0;
    }
}

/* Takes an extension; false: it is malformed. */
static bool
take_offer(struct slice *rest, struct offer *offer)
{
    struct slice name = token_take(rest);

    *offer =
        (struct offer){.is_declined = !slice_is(name, "permessage-deflate")};
    if (name.size == 0)
        return false;
    while (take_mark(rest, ';')) {
        struct value value = {.size = 0};
        size_t i = 0;

        name = token_take(rest);
        if (name.size == 0 ||
            (take_mark(rest, '=') && !take_value(rest, &value)))
            return false;
        while (i < PARAMETERS && !slice_is(name, names[i]))
            i++;
        if (i == PARAMETERS || offer->has[i] || !is_acceptable(i, &value))
            offer->is_declined = true;
        else
            offer->has[i] = true;
    }
    return true;
}

enum status
ws_deflate_agree(struct slice offers, const char **answer, struct problem *why)
{
    struct slice rest = offers;
    const char *found = NULL;
    size_t n = 0;
    bool is_next = true; /* an element may begin here */

    *answer = NULL;
    for (;;) {
        struct offer offer;

        while (take_mark(&rest, ','))
            is_next = true;
        if (rest.size == 0 && n > 0)
            break;
        if (!is_next || !take_offer(&rest, &offer))
            return problem_quoting(why, STATUS_MALFORMED,
                                   "Sec-WebSocket-Extensions is malformed",
                                   offers);
        if (!found && !offer.is_declined)
            found = offer.has[SERVER_BITS] ? ANSWER_BITS : ANSWER;
        n++;
        is_next = false;
    }
    *answer = found;
    return STATUS_OK;
}
