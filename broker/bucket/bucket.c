#include "broker/bucket/bucket.h"

#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "base/token_file.h"
#include "broker/bucket/sigv4.h"
#include "broker/calls/blocking_call.h"
#include "proto/datetime.h"
#include "proto/http/websub.h"
#include "proto/number.h"
#include "proto/uri.h"

/* As Amazon has it. */
#define PARTS_MAX 10000

/* Of an ID of an upload, of it in a query, and of the list of so many parts. */
#define ID_MAX       ((size_t)1000)
#define ID_QUERY_MAX (sizeof("uploadId=") + 3 * ID_MAX)
#define LIST_MAX     ((size_t)2 << 20)

/* Without a byte for so long a request ends, which is made so often. */
#define STALL_US ((int64_t)10000000)
#define TRIES    3

/* In all a request may take a minute, and a second for each so many bytes. */
#define LEAST_US  ((int64_t)60000000)
#define SLOW_RATE ((uint64_t)16384)

#define ANSWER_MAX      ((size_t)64 << 10)
#define CREDENTIALS_MAX 8192

static const struct backoff pauses = {250000, 8000000};

/* A request waits for so long if the server asks for it, and else fails. */
#define ASKED_MAX_US ((int64_t)1000000)

/* The SHA-256 of no bytes. */
static const char no_payload[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

enum { KEY_ID, SECRET, TOKEN, CREDENTIALS };

struct credentials {
    char text[CREDENTIALS][2048];
};

struct bucket {
    struct bucket_options options;
    char name[64];
    char prefix[260]; /* "a/b/", or "" */
    char endpoint[260];
    char region[64];
    struct blocking *calls;
    const struct call *call; /* the last one */
    int64_t again_us;        /* the server asks for a pause until then; steady
                                clock */
    bool lacks_condition;    /* the server does not know If-None-Match */
    struct buf answer;       /* its body, but for that of an object */
};

/* Of enum call_method. */
static const char methods[][8] = {"GET", "HEAD", "POST", "DELETE", "PUT"};

struct wish {
    enum call_method call;
    const char *key;
    const char *query;           /* as of sigv4.h; NULL: none */
    const char *payload;         /* digits of the body's digest; NULL: none */
    bool is_new;                 /* STATUS_CONFLICT if there is the object */
    bool is_once;                /* is not repeated */
    struct slice body;           /* of a POST */
    const char *expected;        /* in each good answer; NULL: anything */
    int fd;                      /* of the body, or where the object goes */
    uint64_t at, size;           /* of it in the file */
    struct digest_check *digest; /* of an object that comes; else NULL */
};

/* Settings */

static enum status
read_address(struct bucket *b, const char *text, struct problem *why)
{
    int n = 0, more;

    (void)sscanf(text, "s3://%63[a-z0-9.-]%n/%255[a-zA-Z0-9._~/-]%n", b->name,
                 &n, b->prefix, &n);
    n += n && !b->prefix[0] && text[n] == '/';
    for (; n && (text[n] == '?' || text[n] == '&'); n += 1 + more) {
        more = 0;
        (void)sscanf(text + n + 1, "region=%63[a-zA-Z0-9-]%n", b->region,
                     &more);
        (void)sscanf(text + n + 1, "endpoint=%255[]a-z0-9.:/[-]%n", b->endpoint,
                     &more);
        if (!more)
            break;
    }
    if (!n || text[n] || (!b->region[0] && !b->endpoint[0]))
        return problem(why, STATUS_INVALID,
                       "it is s3://BUCKET/PREFIX?endpoint=https://HOST:PORT"
                       "&region=REGION; this one is wrong at byte %d",
                       n + 1);
    if (!b->region[0])
        strcpy(b->region, "us-east-1");
    if (!b->endpoint[0])
        snprintf(b->endpoint, sizeof(b->endpoint),
                 "https://s3.%s.amazonaws.com", b->region);
    if ((strncmp(b->endpoint, "https://", 8) != 0 &&
         (strncmp(b->endpoint, "http://", 7) != 0 ||
          !websub_is_loopback(slice_of(b->endpoint)))) ||
        strchr(strstr(b->endpoint, "://") + 3, '/'))
        return problem(why, STATUS_INVALID,
                       "its endpoint is https://HOST:PORT; http:// only of "
                       "this machine");
    if (b->prefix[0] && !slice_ends(slice_of(b->prefix), "/"))
        strcat(b->prefix, "/");
    return STATUS_OK;
}

/* Keeps a text that goes into a header as it is. */
static bool
keep_credential(char to[2048], struct slice text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    return slice_copy(to, 2048, text);
}

/* Of several profiles in a file the first one counts. */
static enum status
read_credentials(const char *path, struct credentials *to, struct problem *why)
{
    static const char *const names[CREDENTIALS] = {
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"};
    char bytes[CREDENTIALS_MAX];
    struct slice rest = {bytes, sizeof(bytes)};
    enum status rc =
        *path ? secret_file_read(path, bytes, &rest.size, why) : STATUS_OK;
    bool is_good = !rc;

    memset(to, 0, sizeof(*to));
    for (size_t i = 0; !*path && i < CREDENTIALS; i++)
        is_good &= keep_credential(to->text[i], slice_of(getenv(names[i])));
    while (*path && !rc && rest.size > 0) {
        struct slice line = slice_without_spaces(slice_take(&rest, '\n'));
        struct slice value = line, name = slice_take(&value, '=');
        size_t i = 0;

        while (i < CREDENTIALS && !slice_is_word(slice_trimmed(name), names[i]))
            i++;
        if (i == CREDENTIALS && name.size == line.size &&
            !slice_starts(line, "[") && !slice_starts(line, "#")) {
            value = line; /* without a name: the ID, then the secret */
            i = to->text[KEY_ID][0] ? SECRET : KEY_ID;
        }
        if (i < CREDENTIALS && !to->text[i][0])
            is_good &= keep_credential(to->text[i], slice_trimmed(value));
    }
    explicit_bzero(bytes, sizeof(bytes));
    if (!rc && (!is_good || !to->text[KEY_ID][0] || !to->text[SECRET][0]))
        rc = problem(why, STATUS_INVALID,
                     "%s has no access key ID and secret access key",
                     *path ? path : "the environment");
    return rc;
}

/* Answers */

/* Writes the words of an answer without its tags: of an error of S3 the code,
 * the message, the right region or endpoint, and the number of the request. */
static void
write_words(const struct bucket *b, char to[400])
{
    bool is_tag = false, is_gap = false;
    size_t n = 0;

    for (size_t i = 0; i < b->answer.size && n < 398; i++) {
        char c = b->answer.data[i];

        is_tag = c == '<' || (is_tag && c != '>');
        if (is_tag || c == '>' || slice_is_space(c)) {
            is_gap = n > 0;
            continue;
        }
        if (is_gap)
            to[n++] = ' ';
        is_gap = false;
        to[n++] = c;
    }
    to[n] = '\0';
}

/* True if the same request may be answered otherwise, later. */
static bool
may_pass(unsigned http, const char *words)
{
    return http == 200 || (http >= 500 && http != 501) || http == 409 ||
           http == 429 || strstr(words, "RequestTimeout");
}

/* Judges the end of a call. */
static enum status
judge(const struct bucket *b, const struct wish *w, struct problem *why)
{
    unsigned http = b->call->status;
    char words[400];
    enum status rc = STATUS_REFUSED;

    if (b->options.is_stopped && b->options.is_stopped(b->options.user))
        return problem(why, STATUS_STOPPED, "it was stopped");
    if (b->call->failure)
        return problem(why, STATUS_UNREACHABLE, "%s: %s", b->endpoint,
                       b->call->why);
    if ((http == 200 || http == 204) &&
        (!w->expected || slice_find(buf_slice(&b->answer), w->expected)))
        return STATUS_OK;
    write_words(b, words);
    if (w->is_new && http == 501)
        return problem(
            why, b->options.may_overwrite ? STATUS_UNSUPPORTED : STATUS_REFUSED,
            "the bucket %s does not know If-None-Match: its answer "
            "is %u %s; --bucket-overwrite stores without it",
            b->name, http, words);
    if (http == 404 && !strstr(words, "NoSuchBucket"))
        rc = STATUS_NOT_FOUND;
    else if (http == 412 || http == 304) /* which some versions of MinIO say */
        rc = STATUS_CONFLICT;
    else if (may_pass(http, words))
        rc = STATUS_UNREACHABLE;
    return problem(why, rc, "%s %s of the bucket %s: the answer is %u %s",
                   methods[w->call], w->key, b->name, http, words);
}

/* Requests */

/* Writes the URL, then the headers, one a line, and signs them. */
static void
write_request(struct bucket *b, const struct wish *w,
              const struct credentials *by, struct buf *url, struct buf *lines)
{
    bool has_token = by->text[TOKEN][0];
    const char *host = strstr(b->endpoint, "://") + 3;
    time_t now = (time_t)(clock_now_us() / 1000000);
    char time[20], names[100];
    struct sigv4_request request = {.secret = by->text[SECRET],
                                    .time = time,
                                    .region = b->region,
                                    .method = methods[w->call],
                                    .query = w->query ? w->query : "",
                                    .names = names,
                                    .payload =
                                        w->payload ? w->payload : no_payload};
    struct digest signature;
    struct tm tm;

    strftime(time, sizeof(time), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    buf_add_format(url, "%s/%s/%s%s", b->endpoint, b->name, b->prefix, w->key);
    request.path = slice_from(buf_slice(url), strlen(b->endpoint));
    buf_add_format(url, "%s%s", w->query ? "?" : "", request.query);
    request.path.data = url->data + strlen(b->endpoint);
    snprintf(names, sizeof(names), "host;%sx-amz-content-sha256;x-amz-date%s",
             w->is_new ? "if-none-match;" : "",
             has_token ? ";x-amz-security-token" : "");
    buf_add_format(lines, "host:%s\n%sx-amz-content-sha256:%s\nx-amz-date:%s\n",
                   host, w->is_new ? "if-none-match:*\n" : "", request.payload,
                   time);
    if (has_token)
        buf_add_format(lines, "x-amz-security-token:%s\n", by->text[TOKEN]);
    buf_add(lines, "", 1);
    request.headers = lines->data;
    signature = sigv4_sign(&request);
    lines->size--;
    buf_add_format(lines,
                   "authorization:AWS4-HMAC-SHA256 Credential=%s/%.8s/%s/s3/"
                   "aws4_request,SignedHeaders=%s,Signature=",
                   by->text[KEY_ID], time, b->region, names);
    buf_add_hex(lines, signature.bytes, DIGEST_SIZE);
    BUF_ADD(lines, "\n");
    buf_add(url, "", 1);
}

/* Writes an object to its file. */
static enum status
take_object(struct bucket *b, const struct wish *w, struct problem *why)
{
    enum status rc = digest_check_reset(w->digest);
    struct slice piece;

    if (ftruncate(w->fd, 0) || lseek(w->fd, 0, SEEK_SET))
        rc = problem_errno(why, "cannot write", "a file");
    while (blocking_next(b->calls, &piece)) { /* after a failure, too */
        if (!rc && digest_check_add(w->digest, piece, why))
            rc = STATUS_DIFFERENT;
        if (!rc && file_write(w->fd, piece))
            rc = problem_errno(why, "cannot write", "a file");
    }
    buf_add_slice(&b->answer, b->call->answer);
    return rc;
}

/* Makes a request once. */
static enum status
attempt(struct bucket *b, const struct wish *w, struct problem *why)
{
    const char *headers[8] = {NULL};
    struct call wish = {
        .method = w->call,
        .headers = headers,
        .timeout_us = LEAST_US + (int64_t)(w->size / SLOW_RATE * 1000000),
        .stall_us = w->body.size > 0          ? LEAST_US
                    : b->options.stall_us > 0 ? b->options.stall_us
                                              : STALL_US,
        .max_answer = ANSWER_MAX,
        .max_taken = w->size,
        .body = w->body,
        .body_fd = w->fd,
        .body_at = w->at};
    struct buf url = {.max = 4096}, lines = {.max = 8192};
    struct credentials by;
    struct slice rest;
    enum status rc = read_credentials(b->options.credentials, &by, why);

    if (w->call == CALL_PUT)
        wish.body.size = w->size;
    buf_clear(&b->answer);
    if (!rc) {
        write_request(b, w, &by, &url, &lines);
        rest = buf_slice(&lines);
        (void)slice_take(&rest, '\n'); /* the caller writes Host itself */
        for (size_t i = 0; rest.size > 0; i++) {
            headers[i] = rest.data;
            slice_take(&rest, '\n');
            lines.data[lines.size - rest.size - 1] = '\0';
        }
        wish.url = url.data;
        b->call = w->digest ? blocking_begin(b->calls, &wish)
                            : blocking_run(b->calls, &wish, &b->answer);
    }
    if (!rc && w->digest)
        rc = take_object(b, w, why);
    if (!rc && (b->call->status == 429 || b->call->status == 503))
        b->again_us = clock_steady_us() + b->call->retry_after_us;
    if (!rc)
        rc = judge(b, w, why);
    explicit_bzero(&by, sizeof(by));
    if (lines.data)
        explicit_bzero(lines.data, lines.size);
    buf_fini(&url);
    buf_fini(&lines);
    return rc;
}

/* Makes a request, again after a failure that may pass. Waits for the end of a
 * pause that the server asked for, but not for long. */
static enum status
perform(struct bucket *b, const struct wish *w, struct problem *why)
{
    enum status rc = STATUS_UNREACHABLE;

    for (unsigned n = 0; rc == STATUS_UNREACHABLE && n < TRIES; n++) {
        int64_t pause_us = n ? backoff_pause(&pauses, n, random_u32()) : 0;
        int64_t asked_us = b->again_us - clock_steady_us();

        if (asked_us > ASKED_MAX_US)
            return n ? rc
                     : problem(why, rc,
                               "the bucket %s asked for a pause, of which %d s "
                               "are left",
                               b->name, (int)(asked_us / 1000000));
        usleep((useconds_t)(asked_us > pause_us ? asked_us : pause_us));
        rc = attempt(b, w, why);
        if (w->is_once || (b->call && b->call->failure == CALL_TIMEOUT))
            break;
    }
    return rc;
}

/* Parts */

enum status
bucket_digest(int fd, uint64_t at, uint64_t size, char key[BUCKET_KEY_SIZE],
              struct problem *why)
{
    struct digest_check *check = digest_check_new(SLICE(""), LENGTH_NONE, true);
    char bytes[65536];
    struct slice piece = {bytes, 0};
    struct digest digest;
    enum status rc = STATUS_OK;

    for (; !rc && size > 0; at += piece.size, size -= piece.size) {
        piece.size = size < sizeof(bytes) ? (size_t)size : sizeof(bytes);
        rc = file_read_at(fd, bytes, piece.size, at)
                 ? digest_check_add(check, piece, why)
                 : problem_errno(why, "cannot read", "a file");
    }
    if (!rc)
        rc = digest_check_end(check, why);
    digest_check_sha256(check, &digest);
    *hex_write(key, digest.bytes, DIGEST_SIZE) = '\0';
    digest_check_free(check);
    return rc;
}

/* Sends all parts of an object, and writes the list of their ETags. */
static enum status
send_parts(struct bucket *b, struct wish part, const char *upload,
           struct buf *list, struct problem *why)
{
    uint64_t end = part.size, most = end / PARTS_MAX + b->options.part_bytes;
    char query[ID_QUERY_MAX + 50], digits[BUCKET_KEY_SIZE];
    enum status rc = STATUS_OK;

    part.is_new = false;
    part.query = query;
    part.payload = digits;
    BUF_ADD(list, "<CompleteMultipartUpload>");
    for (unsigned n = 1; !rc && part.at < end; n++, part.at += part.size) {
        part.size = end - part.at < most ? end - part.at : most;
        snprintf(query, sizeof(query), "partNumber=%u&%s", n, upload);
        rc = bucket_digest(part.fd, part.at, part.size, digits, why);
        if (!rc)
            rc = perform(b, &part, why);
        if (!rc)
            buf_add_format(
                list,
                "<Part><PartNumber>%u</PartNumber><ETag>%.*s</ETag></Part>", n,
                (int)b->call->etag.size, b->call->etag.data);
    }
    BUF_ADD(list, "</CompleteMultipartUpload>");
    return !rc && list->failed ? problem_memory(why) : rc;
}

/* Sends an object in parts. After a failure the server drops those it has. */
static enum status
put_in_parts(struct bucket *b, const struct wish *put, struct problem *why)
{
    struct wish step = {.call = CALL_POST,
                        .key = put->key,
                        .size = put->size, /* the more, the longer it takes */
                        .query = "uploads=",
                        .expected = "</UploadId>"};
    char digits[BUCKET_KEY_SIZE], upload[ID_QUERY_MAX] = "";
    const struct wish drop = {
        .call = CALL_DELETE, .key = put->key, .query = upload};
    struct buf list = {.max = LIST_MAX};
    struct digest digest;
    struct slice id;
    enum status rc = perform(b, &step, why);

    if (rc)
        return rc;
    id = buf_slice(&b->answer);
    slice_skip_past(&id, "<UploadId>");
    id = slice_cut(slice_take(&id, '<'), ID_MAX); /* too long: no such one */
    uri_encode(id, stpcpy(upload, "uploadId="));
    step.query = upload;
    rc = send_parts(b, *put, upload, &list, why);
    if (!rc) {
        digest_sha256(&digest, buf_slice(&list));
        *hex_write(digits, digest.bytes, DIGEST_SIZE) = '\0';
        step.payload = digits;
        step.is_new = put->is_new;
        step.body = buf_slice(&list);
        step.expected = "<CompleteMultipartUploadResult";
        rc = perform(b, &step, why);
    }
    if (rc)
        (void)perform(b, &drop, &(struct problem){""});
    buf_fini(&list);
    return rc;
}

/* Objects */

enum status
bucket_find(struct bucket *b, const char *key, int64_t *at_us,
            struct problem *why)
{
    const struct wish wish = {.call = CALL_HEAD, .key = key};
    enum status rc = perform(b, &wish, why);
    int64_t at = rc ? 0 : httpdate_read(b->call->last_modified);

    if (at_us)
        *at_us = at == DATETIME_NONE ? INT64_MAX : at * 1000000;
    return rc;
}

enum status
bucket_mark(struct bucket *b, const char *name, struct problem *why)
{
    const struct wish wish = {.call = CALL_PUT, .key = name};

    return perform(b, &wish, why);
}

enum status
bucket_put(struct bucket *b, const char *key, int fd, uint64_t size,
           struct problem *why)
{
    bool is_content = strchr(key, '/');
    const struct wish put = {.call = CALL_PUT,
                             .key = key,
                             .payload = key + strlen(key) + 1 - BUCKET_KEY_SIZE,
                             .is_new = !is_content && !b->lacks_condition,
                             .fd = fd,
                             .size = size};
    bool is_large = size > b->options.part_bytes;
    char going[100];
    enum status rc = STATUS_NOT_FOUND;

    if (!is_content && (is_large || b->lacks_condition))
        rc = bucket_find(b, key, NULL, why);
    if (rc == STATUS_NOT_FOUND)
        rc = is_large ? put_in_parts(b, &put, why) : perform(b, &put, why);
    if (rc == STATUS_UNSUPPORTED) {
        b->lacks_condition = true;
        return bucket_put(b, key, fd, size, why);
    }
    /* Not found: the server has joined the upload, and the answer got lost. */
    if (rc == STATUS_CONFLICT || rc == STATUS_NOT_FOUND)
        rc = STATUS_OK;
    snprintf(going, sizeof(going), "%s" BUCKET_GOING, key);
    if (!rc && is_content &&
        bucket_find(b, going, NULL, why) != STATUS_NOT_FOUND)
        return problem(why, STATUS_UNREACHABLE,
                       "%s may just be being deleted, since no set had it",
                       key);
    return rc ? rc : bucket_find(b, key, NULL, why);
}

enum status
bucket_get(struct bucket *b, const char *key, int fd, uint64_t size,
           struct problem *why)
{
    struct wish get = {.call = CALL_GET, .key = key, .fd = fd, .size = size};
    char hash[DIGEST_TEXT_SIZE + 1];
    enum status rc;

    snprintf(hash, sizeof(hash), "sha-256:%s",
             key + strlen(key) + 1 - BUCKET_KEY_SIZE);
    get.digest = digest_check_new(slice_of(hash), size, false);
    rc = perform(b, &get, why);
    if (!rc && (b->call->is_cut || digest_check_end(get.digest, why)))
        rc = STATUS_DIFFERENT;
    if (rc == STATUS_DIFFERENT)
        rc = problem(why, rc, "%s of the bucket %s has other bytes", key,
                     b->name);
    digest_check_free(get.digest);
    return rc;
}

enum status
bucket_delete(struct bucket *b, const char *key, struct problem *why)
{
    const struct wish wish = {
        .call = CALL_DELETE, .key = key, .is_once = strchr(key, '/')};
    enum status rc = perform(b, &wish, why);

    return rc == STATUS_NOT_FOUND ? STATUS_OK : rc;
}

enum status
bucket_try(struct bucket *b, const char *seed, int fd, size_t size,
           struct problem *why)
{
    char key[BUCKET_KEY_SIZE];
    struct digest first;
    struct problem other;
    enum status rc;

    digest_sha256(&first, slice_of(seed));
    if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) ||
        file_write(fd, (struct slice){(char *)first.bytes, DIGEST_SIZE}) ||
        ftruncate(fd, (off_t)size))
        return problem_errno(why, "cannot write", "a file to send");
    rc = bucket_digest(fd, 0, size, key, why);
    if (rc)
        return rc;
    rc = bucket_put(b, key, fd, size, why);
    if (!rc)
        rc = bucket_get(b, key, fd, size, why);
    if (bucket_delete(b, key, rc ? &other : why))
        rc = rc ? rc : STATUS_CONFLICT;
    if (!rc && bucket_find(b, key, NULL, why) != STATUS_NOT_FOUND)
        rc = problem(why, STATUS_CONFLICT,
                     "the bucket has an object that was deleted: %s", key);
    return rc;
}

/* Life */

enum status
bucket_open(struct bucket **opened, const struct bucket_options *options,
            struct problem *why)
{
    struct bucket *b = memory_new(1, sizeof(*b));
    const struct blocking_options calls = {.is_stopped = options->is_stopped,
                                           .user = options->user};
    enum status rc = read_address(b, options->address, why);
    struct credentials by;

    *opened = b;
    b->options = *options;
    b->answer.max = ANSWER_MAX;
    if (!rc)
        rc = read_credentials(options->credentials, &by, why);
    explicit_bzero(&by, sizeof(by));
    if (!rc)
        rc = blocking_open(&b->calls, &calls, why);
    if (rc) {
        bucket_close(b);
        *opened = NULL;
    }
    return rc;
}

void
bucket_close(struct bucket *b)
{
    if (!b)
        return;
    blocking_close(b->calls);
    buf_fini(&b->answer);
    free(b);
}
