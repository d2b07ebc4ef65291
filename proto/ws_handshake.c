/*
 * ws_handshake.c - the handshake of a WebSocket, as its client sees it.
 */
#include "proto/ws_handshake.h"

#include <limits.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "proto/number.h"

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
take_length(struct upgrade_answer *a, struct slice value)
{
    uint64_t n;

    if (number_read(value, &n))
        a->length = n;
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
        take_length(a, value);
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
        return problem(why, STATUS_MALFORMED, "no answer of HTTP/1: \"%s\"",
                       problem_quote(line).text);
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
        char c = digits.data[i];

        if (c >= '0' && c <= '9')
            n = n * 16 + (size_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            n = n * 16 + (size_t)((c | 0x20) - 'a') + 10;
        else
            return false;
    }
    *size = n;
    return true;
}

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
        rest.data += size;
        rest.size -= size;
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
