/*
 * fetch.c - one HTTP exchange, by libcurl on the handle's loop.
 *
 *     place --> libcurl --> pending --> on_body or answer.body --> on_end
 *
 * libcurl's callbacks store the bytes; a timer of 0 ms hands them over: so our
 * code is never called from inside libcurl, where no transfer may begin or end.
 * Fetch pauses libcurl when many bytes wait.
 *
 * Fetch follows redirects itself, not libcurl: a header line for one server
 * must not reach another.
 */
#include "client/lib/fetch.h"

#include "base/gunzip.h"
#include "client/lib/curl_loop.h"
#include "client/lib/json_fields.h"
#include "proto/uri.h"

/* Seconds until a connection must stand, and of silence in the middle of an
 * exchange: a large post is read and made durable before it is answered. */
#define CONNECT_SECONDS 20L
#define SILENCE_SECONDS 120L

/* Most bytes that wait before libcurl pauses; it gives at most 16
 * KB at once. */
#define PENDING_MOST (128 * 1024)

/* Most bytes of a redirect's body to skip, to keep the connection, and most
 * bytes of a refusal that are kept; a body may have no end. */
#define PASSED_OVER_MOST (64 * 1024)

/* Most bytes of one step of codings; only coded twice they may be so many. */
#define PLAIN_MOST (64 * 1024 * 1024)

/* Longest kept value of a header. */
#define VALUE_MAX 16384

/* The header lines that are kept, and where the answer has them. */
static const struct {
    const char *name;
    size_t member; /* of struct fetch_answer */
} values[] = {
    {"Content-Length", offsetof(struct fetch_answer, length_text)},
    {"Content-Type", offsetof(struct fetch_answer, type)},
    {"ETag", offsetof(struct fetch_answer, etag)},
    {"Last-Modified", offsetof(struct fetch_answer, last_modified)},
    {"Date", offsetof(struct fetch_answer, date)},
    {"Content-Range", offsetof(struct fetch_answer, content_range)},
    {"Location", offsetof(struct fetch_answer, location)},
    {"Content-Encoding", offsetof(struct fetch_answer, coding)},
    {"Idempotent-Replayed", offsetof(struct fetch_answer, replayed)},
    {"Tidings-After-Digest", offsetof(struct fetch_answer, after_digest)},
    {"Tidings-Position", offsetof(struct fetch_answer, position)},
    {"Link", offsetof(struct fetch_answer, link)},
};

#define N_VALUES N_ELEMENTS(values)

struct fetch {
    struct retired retired; /* the first */
    struct td_client *client;
    fetch_body_fn *on_body;
    fetch_end_fn *on_end;
    void *user;

    struct curl_loop_transfer transfer; /* of this hop */
    struct host_place place;            /* of this hop, at its host */
    struct timer hand_over;

    struct fetch_request request; /* redirects: those that are left; url,
                                     headers and body: below */
    char *url;                    /* of this hop */
    struct curl_slist *given;     /* headers of the request */
    struct slice body;
    size_t n_bytes; /* of the answer's body, so far */

    /* The answer */
    struct fetch_answer answer;
    struct buf values[N_VALUES];
    struct buf pending;
    struct gunzip *gunzip[2]; /* undo the codings; NULL: there is none */
    bool is_coding_known;     /* the head has been looked at for one */
    struct buf plain;         /* what came out of it */
    struct problem undo;      /* why it cannot be undone */
    bool has_head;            /* the empty line after it, too */
    bool is_too_long;
    bool is_starved;    /* no memory for a value of the head */
    bool is_refused;    /* by on_body */
    bool is_left;       /* a redirect or a refusal with too long a body */
    bool was_renewed;   /* servers_renew_token was asked for this hop ... */
    bool has_new_token; /* ... and has another token than the refused one */
    bool is_paused;     /* by our user */
    bool is_web_paused; /* libcurl waits */
    bool is_done;       /* libcurl is; `result` */
    CURLcode result;
};

/* The answer's values */

static void
clear_values(struct fetch *f)
{
    for (size_t i = 0; i < N_VALUES; i++)
        buf_clear(&f->values[i]);
}

/* Sets the texts of the answer: the kept values, or "". */
static void
fill_values(struct fetch_answer *answer, const struct buf *kept)
{
    for (size_t i = 0; i < N_VALUES; i++)
        *(const char **)((char *)answer + values[i].member) =
            !kept || kept[i].failed || !kept[i].size ? "" : kept[i].data;
}

/* Reads a line of the head. libcurl takes a cut-off head for a whole one, of an
 * answer without a body: only the empty line proves the end. A 101 answers none
 * of our requests, and libcurl would wait for ever. Lines behind the empty one
 * are trailers, which we ignore, unless it ended a 1xx. */
static size_t
on_header(char *line, size_t one, size_t size, void *user)
{
    struct fetch *f = user;
    struct slice text = {line, size};
    struct slice name;

    (void)one;
    if (slice_starts(text, "HTTP/")) {
        f->has_head = false;
        clear_values(f); /* a 100 may have been before */
        return size > 12 && !memcmp(line + 8, " 101", 4) ? 0 : size;
    }
    if (f->has_head)
        return size;
    f->has_head = size > 0 && (line[0] == '\r' || line[0] == '\n');
    name = slice_take(&text, ':');
    while (text.size && (unsigned char)text.data[text.size - 1] <= ' ')
        text.size--;
    slice_skip_blanks(&text);
    for (size_t i = 0; i < N_VALUES && !memchr(line, '\0', size); i++) {
        struct buf *value = &f->values[i];

        if (!slice_is_word(name, values[i].name))
            continue;
        /* Nobody knows where the body ends then; libcurl would believe the last
         * one. */
        if (i == 0 && (memchr(text.data, ',', text.size) ||
                       (value->size && !slice_equal(text, buf_slice(value)))))
            problem(&f->undo, STATUS_MALFORMED, "two different %s",
                    values[i].name);
        if (i != N_VALUES - 1) /* Link lines are joined */
            buf_clear(value);
        if (value->size)
            BUF_ADD(value, ", ");
        buf_add_slice(value, text);
        BUF_ADD(value, "\0");
        if (!value->failed) /* else it is too long, and dropped */
            value->size--;
        f->is_starved |= value->is_starved;
    }
    return f->is_starved ? 0 : size;
}

static void
fill_texts(struct fetch *f)
{
    struct fetch_answer *a = &f->answer;

    a->url = f->url;
    fill_values(a, f->values);
    a->is_replayed = !strcmp(a->replayed, "true");
    a->note = a->status == 401 ? servers_token_note(&f->client->servers, f->url)
                               : NULL;
}

/* Fills in all but the body. */
static void
fill_answer(struct fetch *f)
{
    struct fetch_answer *a = &f->answer;
    curl_off_t number = 0;
    long status = 0;

    curl_easy_getinfo(f->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    a->status = (unsigned)status;
    curl_easy_getinfo(f->transfer.easy, CURLINFO_RETRY_AFTER, &number);
    a->retry_after_s = number < 0                  ? 0
                       : number < RETRY_AFTER_MOST ? (unsigned)number
                                                   : RETRY_AFTER_MOST;
    number = -1;
    curl_easy_getinfo(f->transfer.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T,
                      &number);
    fill_texts(f);
    a->length = number < 0 || (a->coding[0] && !f->request.keeps_coding)
                    ? UINT64_MAX
                    : (uint64_t)number;
}

static size_t
on_bytes(char *bytes, size_t one, size_t size, void *user)
{
    struct fetch *f = user;

    (void)one;
    if (f->pending.size && f->pending.size + size > PENDING_MOST) {
        f->is_web_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    f->is_too_long = size > f->request.max_bytes - f->n_bytes;
    if (f->is_too_long)
        return 0;
    f->n_bytes += size;
    buf_add(&f->pending, bytes, size);
    timer_start(&f->hand_over, 0);
    return f->pending.failed ? 0 : size;
}

/* Codings */

static enum status
on_plain(struct slice bytes, void *user, struct problem *why)
{
    struct fetch *f = user;

    buf_add_slice(&f->plain, bytes);
    if (f->plain.is_starved)
        return problem_memory(why);
    return f->plain.failed ? STATUS_TOO_LARGE : STATUS_OK;
}

static enum status
open_coding(struct fetch *f)
{
    struct slice codings = slice_of(f->answer.coding);

    f->is_coding_known = true;
    while (!f->request.keeps_coding && codings.size > 0) {
        struct slice coding = slice_trimmed(slice_take(&codings, ','));
        bool is_gzip =
            slice_is_word(coding, "gzip") || slice_is_word(coding, "x-gzip");

        if (coding.size == 0 || slice_is_word(coding, "identity"))
            continue;
        if ((!is_gzip && !slice_is_word(coding, "deflate")) || f->gunzip[1])
            return f->answer.status < 300
                       ? problem_quoting(&f->undo, STATUS_MALFORMED,
                                         "nobody here undoes the coding",
                                         slice_of(f->answer.coding))
                       : STATUS_OK; /* of an explanation */
        /* The last coding of the list is undone first. */
        f->gunzip[1] = f->gunzip[0];
        f->gunzip[0] = gunzip_new(f->request.max_bytes,
                                  is_gzip ? GUNZIP_GZIP : GUNZIP_DEFLATE,
                                  f->gunzip[1] ? gunzip_into : on_plain,
                                  f->gunzip[1] ? (void *)f->gunzip[1] : f);
        if (!f->gunzip[0])
            return problem_memory(&f->undo);
    }
    return STATUS_OK;
}

static void
close_coding(struct fetch *f)
{
    gunzip_free(f->gunzip[0]);
    gunzip_free(f->gunzip[1]);
    f->gunzip[0] = f->gunzip[1] = NULL;
    f->is_coding_known = false;
    problem_clear(&f->undo);
}

/* Undoes one step of the coding: `bytes` become plain ones. False: f->undo says
 * why not. */
static bool
undo_coding(struct fetch *f, struct slice *bytes)
{
    enum status rc = f->undo.rc           ? f->undo.rc
                     : f->is_coding_known ? STATUS_OK
                                          : open_coding(f);

    if (rc || !f->gunzip[0])
        return !rc;
    buf_clear(&f->plain);
    rc = bytes->size > 0 ? gunzip_feed(f->gunzip[0], *bytes, &f->undo)
                         : gunzip_step(f->gunzip[0], &f->undo);
    *bytes = buf_slice(&f->plain);
    f->is_too_long = rc == STATUS_TOO_LARGE;
    return !rc;
}

/* The request */

/* Called by libcurl whenever something was sent or received. */
static int
on_progress(void *user, curl_off_t n_expected, curl_off_t n_received,
            curl_off_t n_all, curl_off_t n_sent)
{
    struct fetch *f = user;

    (void)n_expected;
    (void)n_received;
    if (n_all > 0)
        client_progress(f->client, TD_PROGRESS_SENT, (uint64_t)n_sent,
                        (uint64_t)n_all);
    return 0;
}

/* True if another hop follows this answer, which nobody gets to see: it
 * redirects, or refuses a token that has been replaced meanwhile. The token's
 * file is read once per hop. */
static bool
is_passed_over(struct fetch *f)
{
    unsigned status = f->answer.status;

    if (f->request.redirects && f->answer.location[0] &&
        (status == 307 || status == 308 ||
         (!f->request.body &&
          (status == 301 || status == 302 || status == 303))))
        return true;
    if (status == 401 && !f->was_renewed) {
        f->was_renewed = true;
        f->has_new_token = servers_renew_token(&f->client->servers, f->url,
                                               f->transfer.token_version);
    }
    return f->has_new_token;
}

/* Begins the hop, or waits for a place at its host. False: no memory. */
static bool
begin_transfer(struct fetch *f)
{
    CURL *easy;

    f->transfer.url = f->url;
    if (!curl_loop_prepare(f->client, &f->transfer, f->given))
        return false;
    easy = f->transfer.easy;
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, f->transfer.headers);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
                     f->request.silence_s ? (long)f->request.silence_s
                                          : SILENCE_SECONDS);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, f);
    if (f->request.takes_gzip)
        curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
    /* libcurl does not notice where a coding breaks off. */
    curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
    if (f->request.body) {
        /* On a kept connection that the server has just closed, libcurl sends
         * a request again; the server might then keep a post twice. */
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)f->body.size);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                         f->body.size ? f->body.data : "");
    }
    if (f->request.body && f->client->on_progress) {
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(easy, CURLOPT_XFERINFODATA, f);
    }
    if (f->request.method && !strcmp(f->request.method, "HEAD"))
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else if (f->request.method)
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, f->request.method);
    return !host_place_ask(&f->client->places, &f->place, f->url) ||
           curl_loop_add(f->client->web, &f->transfer);
}

/* Sets f->url to the target of the redirect. */
static bool
take_location(struct fetch *f, struct problem *why)
{
    CURLU *parts = curl_url();
    CURLUcode code = CURLUE_OUT_OF_MEMORY;
    char *next = NULL;
    char *url = NULL;

    if (parts)
        code = curl_url_set(parts, CURLUPART_URL, f->url, 0);
    if (!code)
        code = curl_url_set(parts, CURLUPART_URL, f->answer.location,
                            CURLU_URLENCODE | CURLU_NON_SUPPORT_SCHEME);
    if (!code)
        code = curl_url_get(parts, CURLUPART_URL, &next, 0);
    if (!code)
        url = strdup(next);
    curl_free(next);
    curl_url_cleanup(parts);
    if (code && code != CURLUE_OUT_OF_MEMORY)
        return !problem(why, STATUS_MALFORMED,
                        "it redirects to something that is no URL: %.200s",
                        f->answer.location);
    if (!url)
        return !problem_memory(why);
    free(f->url);
    f->url = url;
    f->answer.url = url;
    return true;
}

/* Begins the next hop. False: `why` says why not. */
static bool
begin_hop(struct fetch *f, struct problem *why)
{
    if (f->has_new_token) {
        f->has_new_token = false;
    } else if (take_location(f, why)) {
        f->request.redirects--;
        f->transfer.is_own = false;
        f->was_renewed = false;
    } else {
        return false;
    }
    f->is_done = f->is_left = f->is_starved = false;
    f->is_web_paused = false;
    f->n_bytes = 0;
    close_coding(f);
    buf_clear(&f->pending);
    clear_values(f);
    if (begin_transfer(f))
        return true;
    return !problem_memory(why);
}

/* Handing over */

void
fetch_free(struct fetch *f)
{
    if (!f)
        return;
    host_place_return(&f->client->places, &f->place);
    curl_loop_remove(f->client->web, &f->transfer);
    curl_easy_cleanup(f->transfer.easy);
    curl_slist_free_all(f->transfer.headers);
    timer_stop(&f->hand_over);
    curl_slist_free_all(f->given);
    buf_fini(&f->answer.body);
    buf_fini(&f->pending);
    close_coding(f);
    buf_fini(&f->plain);
    for (size_t i = 0; i < N_VALUES; i++)
        buf_fini(&f->values[i]);
    free(f->url);
    handle_loop_retire(f->client->loop, &f->retired, NULL);
}

/* Hands the pending bytes over; skips a body that is passed over. False: the
 * callback freed `f`. */
static bool
hand_over(struct fetch *f)
{
    struct slice bytes = {f->pending.data, f->pending.size};

    if ((!bytes.size && !gunzip_is_behind(f->gunzip[0])) || f->is_refused)
        return true;
    fill_answer(f);
    if (is_passed_over(f)) {
        f->is_left = f->n_bytes > PASSED_OVER_MOST;
    } else if (!undo_coding(f, &bytes)) {
        f->is_left = true;
    } else if (bytes.size == 0) {
        /* only the beginning of a member */
    } else if (!f->on_body) {
        buf_add_slice(&f->answer.body, bytes);
    } else if (f->answer.status / 100 != 2) {
        f->is_left = f->request.skips_refusals ||
                     f->answer.body.size + bytes.size > PASSED_OVER_MOST;
        if (!f->is_left)
            buf_add_slice(&f->answer.body, bytes);
    } else {
        f->is_refused = !f->on_body(&f->answer, bytes, f->user);
        if (f->retired.is_over)
            return false;
    }
    buf_clear(&f->pending);
    return true;
}

/* libcurl's reason without the milliseconds that it took: the same trouble then
 * reads the same each time. */
static enum status
fail_curl(struct fetch *f, struct problem *why)
{
    const char *text = f->transfer.error[0] ? f->transfer.error
                                            : curl_easy_strerror(f->result);
    const char *after = strstr(text, " after ");
    const char *rest = after ? after + 7 + strspn(after + 7, "0123456789") : "";
    bool has_time = !strncmp(rest, " ms:", 4);

    if (f->transfer.check.refused[0] &&
        (f->result == CURLE_COULDNT_CONNECT ||
         f->result == CURLE_ABORTED_BY_CALLBACK))
        return problem(why, STATUS_MALFORMED, "%s",
                       address_policy_refused(&f->transfer.check).text);
    /* The last two: where a redirect leads. */
    return problem(why,
                   f->result == CURLE_BAD_CONTENT_ENCODING ||
                           f->result == CURLE_UNSUPPORTED_PROTOCOL ||
                           f->result == CURLE_URL_MALFORMAT
                       ? STATUS_MALFORMED
                       : STATUS_UNREACHABLE,
                   "%.*s%s", has_time ? (int)(after - text) : -1, text,
                   has_time ? rest + 3 : "");
}

static void
end_fetch(struct fetch *f, const struct problem *why)
{
    if (why->rc && why->rc != STATUS_STOPPED)
        f->answer.status = 0;
    timer_stop(&f->hand_over);
    f->on_end(&f->answer, why, f->user);
    fetch_free(f);
}

static void
finish_fetch(struct fetch *f)
{
    struct problem why = {.text = ""};
    long sent = 0;

    curl_easy_getinfo(f->transfer.easy, CURLINFO_REQUEST_SIZE, &sent);
    f->answer.is_sent |= sent > 0;
    fill_answer(f);
    for (size_t i = 0; i < 2 && f->gunzip[i]; i++)
        if (!f->result && !f->is_left && !f->is_refused && !f->undo.rc)
            (void)!gunzip_end(f->gunzip[i], &f->undo);
    why.http_status = f->answer.status;
    why.retry_after_s = f->answer.retry_after_s;
    if (f->is_refused)
        problem(&why, STATUS_STOPPED, "%s", "");
    else if (f->is_too_long)
        problem(&why, STATUS_MALFORMED, "the answer is longer than %zu bytes",
                f->request.max_bytes);
    else if (f->is_starved || f->pending.failed || f->answer.body.failed ||
             f->result == CURLE_OUT_OF_MEMORY)
        problem_memory(&why);
    else if (f->undo.rc)
        problem(&why, f->undo.rc, "%s", f->undo.text);
    else if (f->result)
        fail_curl(f, &why);
    else if (!f->has_head)
        problem(&why, STATUS_UNREACHABLE,
                "the connection broke in the answer's head");
    host_place_return(&f->client->places, &f->place);
    if (f->answer.status >= 400 && f->answer.retry_after_s)
        host_places_pause(&f->client->places, f->url, f->answer.status,
                          f->answer.retry_after_s);
    if (!why.rc && is_passed_over(f) && begin_hop(f, &why))
        return;
    end_fetch(f, &why);
}

/* Hands over and finishes, in a turn of the loop of its own. */
static void
on_hand_over(void *user)
{
    struct fetch *f = user;

    if (f->is_paused || !hand_over(f) || f->is_paused)
        return;
    if (f->is_refused || f->is_left) {
        curl_loop_remove(f->client->web, &f->transfer);
        finish_fetch(f);
    } else if (gunzip_is_behind(f->gunzip[0])) {
        timer_start(&f->hand_over, 0);
    } else if (f->is_done) {
        finish_fetch(f);
    } else if (f->is_web_paused) {
        /* Lets libcurl go on. Only this call reports a failure: without an end
         * here, the exchange would never end. */
        f->is_web_paused = false;
        f->result = curl_easy_pause(f->transfer.easy, CURLPAUSE_CONT);
        if (f->result) {
            curl_loop_remove(f->client->web, &f->transfer);
            f->is_done = true;
            timer_start(&f->hand_over, 0);
        }
    }
}

static void
on_done(CURLcode result, void *user)
{
    struct fetch *f = user;

    f->result = result;
    f->is_done = true;
    on_hand_over(f);
}

/* Its turn at the host has come. If the host wants to be left alone for long,
 * the answer is what it has said before. */
static void
on_place(void *user)
{
    struct fetch *f = user;
    struct fetch_answer *a = &f->answer;
    struct problem why = {.text = ""};

    a->retry_after_s =
        host_places_pause_s(&f->client->places, f->url, &a->status);
    if (a->retry_after_s) {
        fill_texts(f);
        why.http_status = a->status;
        why.retry_after_s = a->retry_after_s;
    } else if (curl_loop_add(f->client->web, &f->transfer)) {
        return;
    } else {
        problem_memory(&why);
    }
    end_fetch(f, &why);
}

/* Copies the request, with its URL in a form that can be sent. */
static bool
copy_request(struct fetch *f, const struct fetch_request *request)
{
    /* libcurl knows what to do with a host beyond ASCII. */
    const char *host = strstr(request->url, "://");
    const char *path = host ? host + 3 : request->url;
    struct buf url = {.max = SIZE_MAX / 2};

    path += strcspn(path, "/?#");
    buf_add(&url, request->url, (size_t)(path - request->url));
    uri_add_sendable(&url, slice_of(path));
    f->url = url.failed ? NULL : slice_dup(buf_slice(&url));
    buf_fini(&url);
    f->request = *request;
    if (request->body) {
        f->body = *request->body;
        f->request.body = &f->body;
    }
    f->transfer.is_own = request->is_own;
    if (!request->max_bytes)
        f->request.max_bytes = SIZE_MAX;
    for (const char *const *line = request->headers; line && *line; line++)
        if (!curl_loop_header(&f->given, *line))
            return false;
    /* Else libcurl waits a second for a 100 Continue. */
    return curl_loop_header(&f->given, "Expect:") && f->url;
}

struct fetch *
fetch_start(struct td_client *client, const struct fetch_request *request,
            fetch_body_fn *on_body, fetch_end_fn *on_end, void *user)
{
    struct fetch *f = calloc(1, sizeof(*f));

    if (!f)
        return NULL;
    f->client = client;
    f->on_body = on_body;
    f->on_end = on_end;
    f->user = user;
    f->transfer.on_done = on_done;
    f->transfer.user = f;
    f->place.kind = request->kind;
    f->place.on_turn = on_place;
    f->place.user = f;
    buf_init(&f->answer.body, SIZE_MAX / 2);
    buf_init(&f->pending, 2 * PENDING_MOST);
    buf_init(&f->plain, PLAIN_MOST);
    for (size_t i = 0; i < N_VALUES; i++)
        buf_init(&f->values[i], VALUE_MAX);
    timer_init(&f->hand_over, client->loop, on_hand_over, f);
    if (!copy_request(f, request) || !begin_transfer(f)) {
        fetch_free(f);
        return NULL;
    }
    return f;
}

void
fetch_hold(struct fetch *fetch, bool is_held)
{
    fetch->is_paused = is_held;
    host_place_hold(&fetch->client->places, &fetch->place, is_held);
    if (!is_held)
        timer_start(&fetch->hand_over, 0);
}

/* Meanings */

enum status
fetch_meaning(unsigned status)
{
    if (status == 410)
        return STATUS_GONE;
    if (status == 408 || status == 429 || status >= 500)
        return STATUS_UNREACHABLE;
    return STATUS_REFUSED;
}

enum status
fetch_refused(struct problem *why, const struct fetch_answer *answer)
{
    char detail[800] = "";
    char title[100] = "the server refused";
    char place[80] = "";
    uint64_t entry = 0;
    uint64_t line = 0;
    struct json_fields_member members[] = {
        JSON_TEXT("detail", detail),
        JSON_TEXT("title", title),
        JSON_NUMBER("entry", &entry),
        JSON_NUMBER("line", &line),
    };
    bool is_read = !json_fields_read(buf_slice(&answer->body), members,
                                     N_ELEMENTS(members), NULL);
    bool has_note = answer->note && answer->note[0];

    if (is_read && entry && line)
        snprintf(place, sizeof(place), "entry %" PRIu64 ", line %" PRIu64 ": ",
                 entry, line);
    else if (is_read && (entry || line))
        snprintf(place, sizeof(place), "%s %" PRIu64 ": ",
                 entry ? "entry" : "line", entry ? entry : line);
    why->http_status = answer->status;
    why->retry_after_s = answer->retry_after_s;
    return problem(why, fetch_meaning(answer->status), "%u: %s%s%s%s",
                   answer->status, place, detail[0] ? detail : title,
                   has_note ? "; " : "", has_note ? answer->note : "");
}

/* Blocking */

struct waiting {
    struct fetch_answer *answer;
    fetch_body_fn *on_body;
    void *user;
    struct problem why;
    bool is_over;
};

static bool
on_waited_body(const struct fetch_answer *answer, struct slice bytes,
               void *user)
{
    struct waiting *w = user;

    return w->on_body(answer, bytes, w->user);
}

static void
on_waited(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct waiting *w = user;

    *w->answer = *answer;
    buf_init(&answer->body, 0);
    w->answer->url = "";
    fill_values(w->answer, NULL);
    w->why = *why;
    w->is_over = true;
}

enum status
fetch_run(struct td_client *client, const struct fetch_request *request,
          fetch_body_fn *on_body, void *user, struct fetch_answer *answer)
{
    struct waiting w = {.answer = answer, .on_body = on_body, .user = user};
    struct fetch *fetch;
    enum status rc;

    memset(answer, 0, sizeof(*answer));
    fetch = fetch_start(client, request, on_body ? on_waited_body : NULL,
                        on_waited, &w);
    if (!fetch)
        return problem_memory(&client->problem);
    rc = client_until(client, &w.is_over, &w.why);
    if (!w.is_over) {
        answer->is_sent = true; /* it may be */
        fetch_free(fetch);
    }
    return rc;
}
