/*
 * One call of libcurl: its easy handle, its options, its outcome.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/clock.h"
#include "base/openssl.h"
#include "broker/base/authorities.h"
#include "broker/base/diag.h"
#include "broker/calls/caller_state.h"
#include "proto/datetime.h"
#include "proto/memory.h"

/* The sizes of reads, and of writes of a body that is too long to be sent with
 * its headers. Small, because many calls are under way at once. */
#define READ_SIZE      4096L
#define READ_LONG_SIZE 65536L

/* Of an answer that may be coded: while the user does not take a piece, libcurl
 * keeps all that one read inflates to, which is a thousand times as much. */
#define READ_CODED_SIZE 16384L
#define WRITE_SIZE      16384L

/* The memory of a longer answer is freed after it. */
#define KEPT_ANSWER_MAX ((size_t)16 * 1024)

/* All Link headers together are no longer than all headers, except for the
 * commas between them. */
#define LINKS_MAX (2 * CALL_HEAD_MAX)

void
call_fail(struct call *call, enum call_failure failure, const char *format, ...)
{
    va_list args;

    call->failure = failure;
    va_start(args, format);
    vsnprintf(call->why, sizeof(call->why), format, args);
    va_end(args);
}

void
call_transfer_set_to_report(struct call_transfer *t)
{
    list_put(&t->caller->transport.to_report, &t->node);
}

/*
 * The certificate authorities that a caller trusts: those of libcurl's built-in
 * file, unless the environment names another, and those of --ca-file
 * (broker/base/authorities.h). With none of them the caller trusts no server.
 *
 * The file is read before the first HTTPS call, and again after each reload:
 * that takes some 20 ms, and some megabytes.
 */

void
call_trust_init(struct call_trust *trust,
                const struct curl_version_info_data *version)
{
    const char *path = getenv("SSL_CERT_FILE");

    if (!path || !*path)
        path = version->age >= CURLVERSION_SEVENTH ? version->cainfo : NULL;
    if (!path)
        path = X509_get_default_cert_file();
    trust->path = slice_dup(slice_of(path));
}

static struct x509_store_st *
read_authorities(const char *path)
{
    X509_STORE *authorities = X509_STORE_new();

    if (X509_STORE_load_locations(authorities, path, NULL) != 1)
        DIAG(DIAG_WARNING, "net",
             "no certificates of authorities: only those of --ca-file can be "
             "called by HTTPS",
             diag_text("file", path));
    authorities_add_to(authorities);
    ERR_clear_error();
    return authorities;
}

/* CURLOPT_SSL_CTX_FUNCTION. In libcurl's own way every shard would read and
 * keep the file. */
static CURLcode
set_authorities(CURL *easy, void *ssl_ctx, void *user)
{
    struct call_trust *trust = user;
    unsigned number = authorities_number();

    (void)easy;
    if (trust->number != number) {
        X509_STORE_free(trust->authorities);
        trust->authorities = NULL;
    }
    trust->number = number;
    if (!trust->authorities)
        trust->authorities = read_authorities(trust->path);
    if (!openssl_raise_level(ssl_ctx))
        return CURLE_SSL_CONNECT_ERROR;
    SSL_CTX_set1_cert_store(ssl_ctx, trust->authorities);
    return CURLE_OK;
}

void
call_trust_fini(struct call_trust *trust)
{
    free(trust->path);
    X509_STORE_free(trust->authorities);
}

/* Callbacks of libcurl */

static void
note_heard(struct call_transfer *t)
{
    if (t->call->stall_us)
        t->heard_us = clock_steady_us();
}

static bool
is_handed_over(const struct call_transfer *t)
{
    long status = 0;

    if (!t->call->take)
        return false;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    return status == 200;
}

/* libcurl keeps bytes that do not fit into the piece, and gives them again. */
static size_t
on_long_body(struct call_transfer *t, const char *data, size_t size)
{
    uint64_t max = t->call->max_taken;
    curl_off_t length = 0;

    if (t->n_taken == 0) {
        t->answer.max = CALL_PIECE_MAX;
        curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
        t->is_cut = length > 0 && (uint64_t)length > max && !t->is_coded;
    }
    if (t->is_cut || size > max - t->n_taken) {
        t->is_cut = true;
        return 0;
    }
    if (t->answer.size + size > CALL_PIECE_MAX) {
        call_transfer_set_to_report(t);
        return CURL_WRITEFUNC_PAUSE;
    }
    buf_add(&t->answer, data, size);
    t->n_taken += size;
    return t->answer.failed ? 0 : size;
}

static size_t
on_body(char *data, size_t one, size_t size, void *user)
{
    struct call_transfer *t = user;
    size_t room;

    (void)one;
    note_heard(t);
    if (is_handed_over(t))
        return on_long_body(t, data, size);
    room = t->call->max_answer - t->answer.size;
    buf_add(&t->answer, data, size < room ? size : room);
    t->is_cut = size > room;
    return t->is_cut || t->answer.failed ? 0 : size; /* 0: stop */
}

static struct slice
header_of(CURL *e, const char *name)
{
    struct curl_header *header = NULL;

    if (curl_easy_header(e, name, 0, CURLH_HEADER, -1, &header))
        return (struct slice){NULL, 0};
    return slice_of(header->value);
}

/* libcurl would undo others, too, and several at once, of which a few
 * bytes become millions. */
static void
judge_coding(struct call_transfer *t)
{
    static const char *const known[] = {"gzip", "x-gzip", "deflate"};
    struct slice coding = header_of(t->easy, "Content-Encoding");

    if (coding.size == 0 || slice_is_word(coding, "identity"))
        return;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        t->is_coded |= slice_is_word(coding, known[i]);
    t->is_unknown = !t->is_coded;
}

/* Called once per line. libcurl joins a line from its packets, and gives up one
 * that is longer than 100 KiB. It accepts a head that breaks off: only the
 * empty line proves that the head is complete. A head of 1xx is followed by
 * another. */
static size_t
on_header(char *data, size_t one, size_t size, void *user)
{
    struct call_transfer *t = user;
    long status = 0;

    (void)one;
    note_heard(t);
    t->head_size += size;
    if (size > 5 && !memcmp(data, "HTTP/", 5)) {
        t->n_heads++;
        t->n_opened = 0; /* later sockets are for a redirect */
        t->has_head = false;
        t->refused[0] = '\0';
        t->is_coded = false;
        t->is_foreign = size < 7 || memcmp(data, "HTTP/1.", 7) != 0;
    } else if (size > 0 && (data[0] == '\r' || data[0] == '\n')) {
        curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
        t->has_head = status >= 200;
        if (t->call->undoes_coding && status == 200)
            judge_coding(t);
    }
    return t->is_foreign || t->is_unknown || t->head_size > CALL_HEAD_MAX
               ? 0
               : size;
}

/* Life */

/* Sets the options that all calls share. */
static bool
set_constants(struct call_transfer *t)
{
    CURL *e = t->easy;
    CURLcode rc = CURLE_OK;

/* A macro, so that each option is one line. */
#define SET(option, value)                                     \
    do {                                                       \
        if (!rc)                                               \
            rc = curl_easy_setopt(e, CURLOPT_##option, value); \
    } while (0)

    SET(PRIVATE, t);
    SET(ERRORBUFFER, t->error);
    SET(NOSIGNAL, 1L);
    SET(UPLOAD_BUFFERSIZE, WRITE_SIZE);
    SET(WRITEFUNCTION, on_body);
    SET(WRITEDATA, t);
    SET(HEADERFUNCTION, on_header);
    SET(HEADERDATA, t);

    /* The address. A look-up that hangs is left behind, and not waited for. */
    SET(OPENSOCKETFUNCTION, call_sockets_open);
    SET(OPENSOCKETDATA, t);
    SET(PREREQFUNCTION, call_sockets_judge);
    SET(PREREQDATA, t);
    SET(CLOSESOCKETFUNCTION, call_sockets_close);
    SET(CLOSESOCKETDATA, t->caller);
    SET(PROXY, "");
    SET(NOPROXY, "*"); /* nor does a call read the environment */
    SET(QUICK_EXIT, 1L);
    SET(PROTOCOLS_STR, "http,https");
    SET(REDIR_PROTOCOLS_STR, "http,https");
    SET(DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLU, t->url);
    SET(NETRC, (long)CURL_NETRC_IGNORED);

    /* The protocol. The URL goes out as given (W-080). */
    SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(HTTP09_ALLOWED, 0L);
    SET(PATH_AS_IS, 1L);

    /* All calls share the authorities: set_authorities. */
    SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CAINFO, NULL);
    SET(CAPATH, NULL);
    SET(CA_CACHE_TIMEOUT, 0L);    /* it would keep ours for a day */
    SET(SSL_SESSIONID_CACHE, 0L); /* a resumed session verifies nothing */
    SET(SSL_CTX_FUNCTION, set_authorities);
    SET(SSL_CTX_DATA, &t->caller->transport.trust);
#undef SET
    return !rc;
}

struct call_transfer *
call_transfer_new(struct caller *caller)
{
    struct call_transfer *t = memory_new(1, sizeof(*t));

    t->caller = caller;
    t->fd = -1;
    list_init(&t->node);
    buf_init(&t->answer, 0);
    buf_init(&t->links, LINKS_MAX);
    t->easy = curl_easy_init();
    t->url = curl_url();
    if (t->easy && t->url && set_constants(t))
        return t;
    call_transfer_free(t);
    return NULL;
}

void
call_transfer_free(struct call_transfer *t)
{
    curl_easy_cleanup(t->easy);
    curl_url_cleanup(t->url);
    buf_fini(&t->answer);
    buf_fini(&t->links);
    free(t);
}

void
call_transfer_clear(struct call_transfer *t)
{
    t->call = NULL;
    t->shard = NULL;
    if (t->answer.capacity > KEPT_ANSWER_MAX) {
        buf_fini(&t->answer);
        buf_init(&t->answer, 0);
    }
    buf_clear(&t->answer);
    buf_clear(&t->links);
    t->head_size = 0;
    t->n_heads = t->n_opened = 0;
    t->refused[0] = t->error[0] = '\0';
    t->has_head = t->is_short = t->is_cut = t->is_foreign = false;
    t->is_coded = t->is_unknown = false;
    t->connects = false;
    t->fd = -1;
    t->n_taken = 0;
    t->is_with_user = t->is_over = t->is_stalled = false;
}

/* Pieces */

bool
call_transfer_has_piece(const struct call_transfer *t)
{
    return t->n_taken > 0 && t->answer.size > 0 && (!t->is_over || !t->result);
}

/* libcurl may find in its kept bytes that the answer is too long. */
bool
call_transfer_go_on(struct call_transfer *t)
{
    t->is_with_user = false;
    buf_clear(&t->answer);
    t->answer.max = CALL_PIECE_MAX; /* the user may have exchanged the buffer */
    note_heard(t);
    if (!t->is_over)
        t->result = curl_easy_pause(t->easy, CURLPAUSE_CONT);
    return t->is_over || !t->result;
}

/* The request */

static bool
is_clean(const char *header)
{
    for (; *header; header++)
        if ((unsigned char)*header < ' ' || *header == 0x7f)
            return false;
    return true;
}

bool
call_headers_are_fine(struct call *call)
{
    unsigned n = 0;

    for (const char *const *given = call->headers; given && *given; given++) {
        if (n++ == CALL_HEADERS_MAX) {
            call_fail(call, CALL_MEMORY, "more than %d headers are to be sent",
                      CALL_HEADERS_MAX);
            return false;
        }
        if (!is_clean(*given)) {
            call_fail(call, CALL_REFUSED,
                      "a header to be sent has a control character");
            return false;
        }
    }
    return true;
}

/* Joins the headers to a list without copies: libcurl only reads it. The first
 * header removes the "Expect: 100-continue" of a long body. Our name is a
 * header, not an option, which libcurl would write twice in each call, byte by
 * byte. */
static void
set_headers(struct call_transfer *t, const struct call *call)
{
    static char no_expect[] = "Expect:";
    static char agent[] = "User-Agent: tidings/" TIDINGS_VERSION;
    const char *const *given = call->headers;
    size_t n = CALL_TRANSFER_HEADERS;

    t->headers[0] = (struct curl_slist){no_expect, &t->headers[1]};
    t->headers[1] = (struct curl_slist){agent, NULL};
    for (; given && *given; given++) {
        t->headers[n++] = (struct curl_slist){(char *)(uintptr_t)*given, NULL};
        t->headers[n - 2].next = &t->headers[n - 1];
    }
}

static bool
set_method(CURL *e, const struct call *call)
{
    switch (call->method) {
    case CALL_GET:
        return !curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
    case CALL_HEAD:
        return !curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
    case CALL_POST:
        break;
    }
    return !curl_easy_setopt(e, CURLOPT_POST, 1L) &&
           !curl_easy_setopt(e, CURLOPT_POSTFIELDS,
                             call->body.size > 0 ? call->body.data : "") &&
           !curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE,
                             (curl_off_t)call->body.size);
}

/* Sets the options of one call. When a kept connection closes without an
 * answer, libcurl repeats the request on the next one, up to five times, at
 * once and silently. That is right if a callback has closed an idle connection.
 * But a suspect must keep its pauses, and an unproven URL must not get more
 * requests than its owner counts (W-056): both get a new connection, on which
 * libcurl repeats nothing. */
bool
call_transfer_set(struct call_transfer *t, struct call *call, bool connects)
{
    CURL *e = t->easy;
    int64_t left_us =
        call->timeout_us - (clock_steady_us() - call->own.began_us);
    CURLUcode rc;

    if (left_us <= 0) {
        call_fail(call, CALL_TIMEOUT, "its time was over before it was sent");
        return false;
    }
    set_headers(t, call);
    rc = curl_url_set(t->url, CURLUPART_URL, call->url,
                      CURLU_PATH_AS_IS | CURLU_DISALLOW_USER |
                          CURLU_NON_SUPPORT_SCHEME);
    if (rc == CURLUE_OUT_OF_MEMORY) {
        call_fail(call, CALL_MEMORY, NO_MEMORY);
        return false;
    }
    if (rc) {
        call_fail(call, CALL_REFUSED, "the URL is none that can be called");
        return false;
    }
    t->call = call;
    t->connects = connects;
    t->answer.max = call->max_answer;
    /* After a failure libcurl keeps the last one: no harm. */
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE,
                     !call->take           ? READ_SIZE
                     : call->undoes_coding ? READ_CODED_SIZE
                                           : READ_LONG_SIZE);
    if (!set_method(e, call) || curl_easy_setopt(e, CURLOPT_URL, call->url) ||
        curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers) ||
        /* Also makes libcurl decode. */
        curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING,
                         call->undoes_coding ? "identity" : NULL) ||
        curl_easy_setopt(e, CURLOPT_TIMEOUT_MS,
                         (long)((left_us + 999) / 1000)) ||
        curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION,
                         (long)(call->max_redirects > 0)) ||
        curl_easy_setopt(e, CURLOPT_MAXREDIRS, (long)call->max_redirects) ||
        curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, (long)t->connects) ||
        curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, (long)call_is_once(call))) {
        call_fail(call, CALL_MEMORY, NO_MEMORY);
        return false;
    }
    return true;
}

/* The outcome */

static struct slice
links_of(struct call_transfer *t)
{
    struct curl_header *header = NULL;

    for (size_t i = 0;
         !curl_easy_header(t->easy, "Link", i, CURLH_HEADER, -1, &header);
         i++) {
        if (i > 0)
            BUF_ADD(&t->links, ", ");
        buf_add_text(&t->links, header->value);
    }
    return t->links.failed ? (struct slice){NULL, 0} : buf_slice(&t->links);
}

int64_t
call_retry_after_us(struct slice value)
{
    const int64_t max_s = CALL_RETRY_AFTER_MAX_US / 1000000;
    int64_t wait_s = 0;
    size_t i = 0;

    for (; i < value.size && value.data[i] >= '0' && value.data[i] <= '9'; i++)
        if (wait_s <= max_s)
            wait_s = 10 * wait_s + value.data[i] - '0';
    if (i < value.size) {
        int64_t at_s = httpdate_read(value);

        if (at_s == DATETIME_NONE)
            return 0;
        wait_s = at_s - clock_now_us() / 1000000;
    }
    if (wait_s <= 0)
        return 0;
    return (wait_s < max_s ? wait_s : max_s) * 1000000;
}

static void
report_answer(struct call_transfer *t)
{
    struct call *call = t->call;
    long status = 0;

    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    call->failure = CALL_ANSWERED;
    call->status = (unsigned)status;
    if (!t->n_taken)
        call->answer = buf_slice(&t->answer);
    call->is_cut = t->is_cut;
    call->is_coded = t->is_coded;
    call->content_type = header_of(t->easy, "Content-Type");
    call->etag = header_of(t->easy, "ETag");
    call->last_modified = header_of(t->easy, "Last-Modified");
    call->links = links_of(t);
    call->retry_after_us =
        call_retry_after_us(header_of(t->easy, "Retry-After"));
    if (t->links.failed)
        call_fail(call, CALL_MEMORY, NO_MEMORY);
}

static void
report_refused(struct call_transfer *t)
{
    call_fail(t->call, CALL_REFUSED, "its address %s may not be called",
              t->refused);
}

static void
report_unconnected(struct call_transfer *t)
{
    struct call *call = t->call;
    long error = 0;

    if (t->is_short) {
        call_fail(call, CALL_MEMORY, "no descriptor is left for it");
    } else if (t->refused[0] && t->n_opened == 0) {
        report_refused(t);
    } else {
        curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &error);
        call_fail(call, CALL_UNCONNECTED, "it cannot be connected to: %s",
                  error ? strerror((int)error) : "no answer");
    }
}

static void
report_timeout(struct call_transfer *t)
{
    curl_off_t connected_us = 0;

    if (t->is_stalled) {
        call_fail(t->call, CALL_TIMEOUT, "no byte of an answer within %lld ms",
                  (long long)t->call->stall_us / 1000);
        return;
    }
    curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    call_fail(t->call, CALL_TIMEOUT, "no %s within %lld ms",
              connected_us > 0 || t->n_heads > 0 ? "whole answer"
                                                 : "connection",
              (long long)t->call->timeout_us / 1000);
}

static void
report_foreign(struct call_transfer *t)
{
    call_fail(t->call, CALL_BROKEN, "the answer is not of HTTP/1");
}

/* Explains a transfer that stopped because its bytes were not taken, or could
 * not be kept. */
static void
report_full(struct call_transfer *t)
{
    if (t->answer.failed)
        call_fail(t->call, CALL_MEMORY, NO_MEMORY);
    else if (t->is_foreign)
        report_foreign(t);
    else if (t->is_unknown)
        call_fail(t->call, CALL_BROKEN,
                  "its Content-Encoding \"%.40s\" is unknown",
                  problem_quote(header_of(t->easy, "Content-Encoding")).text);
    else
        call_fail(t->call, CALL_BROKEN,
                  "the answer's headers are longer than %zu bytes",
                  CALL_HEAD_MAX);
}

static void
report_failure(struct call_transfer *t, CURLcode result)
{
    struct call *call = t->call;
    curl_off_t first_us = 0;

    switch (result) {
    case CURLE_COULDNT_CONNECT:
        report_unconnected(t);
        break;
    case CURLE_ABORTED_BY_CALLBACK: /* call_sockets_judge */
        report_refused(t);
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
        call_fail(call, CALL_UNRESOLVED, "its host has no address");
        break;
    case CURLE_OPERATION_TIMEDOUT:
        report_timeout(t);
        break;
    case CURLE_WRITE_ERROR:
        report_full(t);
        break;
    case CURLE_OUT_OF_MEMORY:
        /* Includes a header that never ends. */
        curl_easy_getinfo(t->easy, CURLINFO_STARTTRANSFER_TIME_T, &first_us);
        if (first_us > 0)
            report_full(t);
        else
            call_fail(call, CALL_MEMORY, NO_MEMORY);
        break;
    case CURLE_URL_MALFORMAT:
    case CURLE_LOGIN_DENIED: /* user info in the URL */
        call_fail(call, CALL_REFUSED, "%s that can be called",
                  t->n_heads > 0 ? "it redirects to a URL that is none"
                                 : "the URL is none");
        break;
    case CURLE_UNSUPPORTED_PROTOCOL:
        if (t->n_heads > 0)
            call_fail(call, CALL_REFUSED,
                      "it redirects to a URL that is none that can be called");
        else
            report_foreign(t);
        break;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_PEER_FAILED_VERIFICATION:
        call_fail(
            call, CALL_TLS, "TLS: %s",
            problem_quote(
                slice_of(t->error[0] ? t->error : curl_easy_strerror(result)))
                .text);
        break;
    case CURLE_TOO_MANY_REDIRECTS:
        call_fail(call, CALL_BROKEN, "it redirects more than %u times",
                  call->max_redirects);
        break;
    case CURLE_GOT_NOTHING:
        call_fail(call, CALL_BROKEN,
                  "the connection was closed without an answer");
        break;
    case CURLE_PARTIAL_FILE:
        call_fail(call, CALL_BROKEN, "the answer ended early");
        break;
    case CURLE_BAD_CONTENT_ENCODING:
        call_fail(call, CALL_BROKEN, "its Content-Encoding cannot be undone");
        break;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        call_fail(call, CALL_BROKEN, "the connection was reset");
        break;
    default:
        call_fail(call, CALL_BROKEN, "the call failed: %s",
                  curl_easy_strerror(result));
        break;
    }
}

void
call_transfer_report(struct call_transfer *t)
{
    CURLcode result = t->result;
    struct call *call = t->call;
    char *url = NULL;

    curl_easy_getinfo(t->easy, CURLINFO_EFFECTIVE_URL, &url);
    call->final_url = url;
    call->took_us = clock_steady_us() - call->own.began_us;
    if (!result && !t->has_head)
        call_fail(call, CALL_BROKEN, "the answer's head ended early");
    else if (!result || (result == CURLE_WRITE_ERROR && t->is_cut))
        report_answer(t);
    else
        report_failure(t, result);
}
