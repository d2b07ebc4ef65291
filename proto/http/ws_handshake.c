#include "proto/http/ws_handshake.h"

#include <limits.h>
#include <stdbool.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "proto/number.h"
#include "proto/token.h"

/* RFC 6455 section 1.3. */
#define ACCEPT_SALT "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

/* Seconds; their milliseconds fit into an unsigned. */
#define RETRY_AFTER_MOST 1000000

void
upgrade_key(char key[UPGRADE_KEY_SIZE], const uint8_t nonce[UPGRADE_NONCE_SIZE])
{
    EVP_EncodeBlock((unsigned char *)key, nonce, UPGRADE_NONCE_SIZE);
}

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

/* Lines end with CR LF; a line feed alone is taken for it (RFC 9112 section
 * 2.2). False: the line's end is not there. */
static bool
take_line(struct slice *rest, struct slice *line)
{
    if (rest->size == 0 || !memchr(rest->data, '\n', rest->size))
        return false;
    *line = slice_take(rest, '\n');
    if (line->size > 0 && line->data[line->size - 1] == '\r')
        line->size--;
    return true;
}

/* "HTTP/1.1 101 Switching Protocols" */
static bool
read_status(struct slice line, unsigned *status)
{
    uint64_t n;

    if (line.size < 12 || !slice_starts(line, "HTTP/1.") ||
        line.data[7] < '0' || line.data[7] > '9' || line.data[8] != ' ' ||
        (line.size > 12 && line.data[12] != ' ') ||
        !number_read((struct slice){line.data + 9, 3}, &n) || n < 100)
        return false;
    *status = (unsigned)n;
    return true;
}

/* Is `word` one of those with commas between? */
static bool
has_word(struct slice list, const char *word)
{
    while (list.size > 0)
        if (slice_is_word(slice_trimmed(slice_take(&list, ',')), word))
            return true;
    return false;
}

static void
take_retry_after(struct upgrade_answer *a, struct slice value)
{
    uint64_t n;

    if (number_read(value, &n))
        a->retry_after_s =
            n < RETRY_AFTER_MOST ? (unsigned)n : RETRY_AFTER_MOST;
}

/* The two headers of an upgrade; both may be split over several lines. */
struct said {
    bool is_websocket;
    bool is_upgrade;
};

static void
take_header(struct upgrade_answer *a, struct said *said, struct slice line)
{
    struct slice name = slice_take(&line, ':');
    struct slice value = slice_trimmed(line);

    if (slice_is_word(name, "Upgrade"))
        said->is_websocket |= has_word(value, "websocket");
    else if (slice_is_word(name, "Connection"))
        said->is_upgrade |= has_word(value, "upgrade");
    else if (slice_is_word(name, "Sec-WebSocket-Accept"))
        a->accept = value;
    else if (slice_is_word(name, "Sec-WebSocket-Protocol"))
        a->protocol = value;
    else if (slice_is_word(name, "Sec-WebSocket-Extensions"))
        a->extensions = value;
    else if (slice_is_word(name, "Content-Type"))
        a->type = value;
    else if (slice_is_word(name, "Content-Length"))
        (void)number_read(value, &a->length);
    else if (slice_is_word(name, "Transfer-Encoding"))
        a->is_chunked |= has_word(value, "chunked");
    else if (slice_is_word(name, "Retry-After"))
        take_retry_after(a, value);
}

/* One head; STATUS_AGAIN: its end is not there. */
static enum status
read_head(struct slice *rest, struct upgrade_answer *a, struct problem *why)
{
    struct said said = {false, false};
    struct slice line;

    *a = (struct upgrade_answer){.length = UINT64_MAX};
    if (!take_line(rest, &line))
        return STATUS_AGAIN;
    if (!read_status(line, &a->status))
        return problem_quoting(why, STATUS_MALFORMED, "no answer of HTTP/1",
                               line);
    while (take_line(rest, &line)) {
        if (line.size == 0) {
            a->is_upgrade = said.is_websocket && said.is_upgrade;
            return STATUS_OK;
        }
        take_header(a, &said, line);
    }
    return STATUS_AGAIN;
}

enum status
upgrade_read(struct slice bytes, struct upgrade_answer *answer,
             struct problem *why)
{
    bool is_cut = bytes.size > UPGRADE_HEAD_MAX;
    struct slice rest = {bytes.data, is_cut ? UPGRADE_HEAD_MAX : bytes.size};
    enum status rc;

    do
        rc = read_head(&rest, answer, why);
    while (!rc && answer->status < 200 && answer->status != 101);
    if (rc == STATUS_AGAIN && bytes.size >= UPGRADE_HEAD_MAX)
        return problem(why, STATUS_TOO_LARGE,
                       "the head of the answer has more than %d bytes",
                       UPGRADE_HEAD_MAX);
    if (!rc)
        answer->head_size = (size_t)(rest.data - bytes.data);
    return rc;
}

enum status
upgrade_check(const struct upgrade_answer *answer,
              const char key[UPGRADE_KEY_SIZE], const char *protocol,
              struct problem *why)
{
    char accept[UPGRADE_ACCEPT_SIZE];

    upgrade_accept(accept, key);
    if (answer->status != 101 || !answer->is_upgrade)
        return problem(why, STATUS_INVALID, "%u: no upgrade to a WebSocket",
                       answer->status);
    if (!slice_is(answer->accept, accept))
        return problem(why, STATUS_INVALID,
                       "the answer belongs to another handshake");
    if (!slice_is(answer->protocol, protocol))
        return problem(why, STATUS_INVALID,
                       "the WebSocket does not speak %s but \"%s\"", protocol,
                       problem_quote(answer->protocol).text);
    if (answer->extensions.size > 0)
        return problem(why, STATUS_INVALID,
                       "the WebSocket has an extension that nobody asked for");
    return STATUS_OK;
}

/* "1f;name=value", hexadecimal; false: it is none, or too large to be. */
static bool
read_chunk_size(struct slice line, size_t *size)
{
    struct slice digits = slice_trimmed(slice_take(&line, ';'));
    size_t n = 0;

    if (digits.size == 0 || digits.size > 8)
        return false;
    for (size_t i = 0; i < digits.size; i++) {
        unsigned digit = hex_value(digits.data[i]);

        if (digit > 15)
            return false;
        n = n * 16 + digit;
    }
    *size = n;
    return true;
}

/* More lenient than chunked.h, as it only reads the reason of a refusal. */
static enum status
read_chunks(struct slice rest, struct buf *body)
{
    struct slice line;
    size_t size;

    while (take_line(&rest, &line)) {
        if (!read_chunk_size(line, &size))
            return STATUS_MALFORMED;
        if (size == 0)
            return STATUS_OK; /* trailers are nothing to us */
        if (rest.size < size) {
            buf_add_slice(body, rest);
            return STATUS_AGAIN;
        }
        buf_add(body, rest.data, size);
        slice_skip(&rest, size);
        if (!take_line(&rest, &line))
            return STATUS_AGAIN;
        if (line.size > 0)
            return STATUS_MALFORMED;
    }
    return STATUS_AGAIN;
}

enum status
upgrade_body(const struct upgrade_answer *answer, struct slice bytes,
             bool is_ended, struct buf *body)
{
    bool has_length = answer->length != UINT64_MAX;

    if (answer->is_chunked)
        return read_chunks(bytes, body);
    if (has_length && bytes.size > answer->length)
        bytes.size = (size_t)answer->length;
    buf_add_slice(body, bytes);
    if (has_length && bytes.size < answer->length)
        return is_ended ? STATUS_MALFORMED : STATUS_AGAIN;
    return has_length || is_ended ? STATUS_OK : STATUS_AGAIN;
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

/* A value without its quotes: of all bytes the first ones, which are enough for
 * a number of two digits. */
struct value {
    char text[4];
    size_t size;
};

/* Takes `c` and the white space around it; false: something else is there. */
static bool
take_mark(struct slice *rest, char c)
{
    slice_skip_blanks(rest);
    if (rest->size == 0 || rest->data[0] != c)
        return false;
    slice_skip(rest, 1);
    slice_skip_blanks(rest);
    return true;
}

static bool
take_token(struct slice *rest, struct slice *token)
{
    *token = (struct slice){rest->data, token_size(*rest)};
    if (token->size > 0)
        slice_skip(rest, token->size);
    return token->size > 0;
}

static void
add_letter(struct value *value, char c)
{
    if (value->size < sizeof(value->text))
        value->text[value->size] = c;
    value->size++;
}

/* Takes the rest of a quoted-string, with the quote at its end. False: the text
 * in it is no token, or does not end. */
static bool
take_quoted(struct slice *rest, struct value *value)
{
    while (rest->size > 0 && rest->data[0] != '"') {
        if (rest->data[0] == '\\')
            slice_skip(rest, 1);
        if (rest->size == 0 || !token_char[(unsigned char)rest->data[0]])
            return false;
        add_letter(value, rest->data[0]);
        slice_skip(rest, 1);
    }
    if (rest->size == 0 || value->size == 0)
        return false;
    slice_skip(rest, 1);
    return true;
}

static bool
take_value(struct slice *rest, struct value *value)
{
    struct slice token;

    if (rest->size > 0 && rest->data[0] == '"') {
        slice_skip(rest, 1);
        return take_quoted(rest, value);
    }
    if (!take_token(rest, &token))
        return false;
    for (size_t i = 0; i < token.size; i++)
        add_letter(value, token.data[i]);
    return true;
}

/* Returns the number of bits, without leading zeros; 0: it is none. */
static unsigned
read_bits(const struct value *value)
{
    struct slice digits = {value->text, value->size};
    uint64_t bits;

    return number_read(digits, &bits) && value->text[0] != '0' &&
                   bits >= BITS_MIN && bits <= BITS_MAX
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

static void
take_parameter(struct offer *offer, struct slice name,
               const struct value *value)
{
    size_t i = 0;

    while (i < PARAMETERS && !slice_is(name, names[i]))
        i++;
    if (i == PARAMETERS || offer->has[i] || !is_acceptable(i, value))
        offer->is_declined = true;
    else
        offer->has[i] = true;
}

/* Takes an extension; false: it is malformed. */
static bool
take_offer(struct slice *rest, struct offer *offer)
{
    struct slice name;

    *offer = (struct offer){.is_declined = false};
    if (!take_token(rest, &name))
        return false;
    offer->is_declined = !slice_is(name, "permessage-deflate");
    while (take_mark(rest, ';')) {
        struct value value = {.size = 0};

        if (!take_token(rest, &name) ||
            (take_mark(rest, '=') && !take_value(rest, &value)))
            return false;
        take_parameter(offer, name, &value);
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
