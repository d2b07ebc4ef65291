/*
 * fetch.c - one HTTP exchange, by libcurl.
 */
#include "client/lib/fetch.h"

#include <stdio.h>
#include <stdlib.h>

#include <curl/curl.h>

#include "client/lib/answer.h"

/* Seconds until a connection must stand, and of silence in the middle of an
 * exchange: a large post is read and made durable before it is answered. */
#define CONNECT_SECONDS 20L
#define SILENCE_SECONDS 120L

/* Seconds; their milliseconds fit into an unsigned. */
#define RETRY_AFTER_MOST 1000000

struct fetcher {
    CURLM *multi;
    CURL *easy;
};

void
fetch_set_up(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

struct fetcher *
fetcher_new(void)
{
    struct fetcher *f = calloc(1, sizeof(*f));

    if (!f)
        return NULL;
    f->multi = curl_multi_init();
    f->easy = curl_easy_init();
    if (!f->multi || !f->easy) {
        fetcher_free(f);
        return NULL;
    }
    return f;
}

void
fetcher_free(struct fetcher *fetcher)
{
    if (!fetcher)
        return;
    curl_easy_cleanup(fetcher->easy);
    curl_multi_cleanup(fetcher->multi);
    free(fetcher);
}

static size_t
on_body(char *bytes, size_t one, size_t size, void *user)
{
    struct buf *body = user;

    (void)one;
    buf_add(body, bytes, size);
    return body->failed ? 0 : size;
}

/* A 101 is no answer to any request of ours that ends: it would be waited for
 * for ever. */
static size_t
on_header(char *line, size_t one, size_t size, void *user)
{
    (void)one;
    (void)user;
    return slice_starts((struct slice){line, size}, "HTTP/1.1 101") ? 0 : size;
}

static void
set_options(CURL *easy, const struct fetch_request *request,
            struct curl_slist *headers, struct buf *body, char *error)
{
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, request->url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (client_ca_file())
        curl_easy_setopt(easy, CURLOPT_CAINFO, client_ca_file());
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "libtidings/" TIDINGS_VERSION);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, SILENCE_SECONDS);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, body);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    if (request->body) {
        /* On a connection that was kept, libcurl sends a request again when
         * the broker had just closed it; a post might then be kept twice. */
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)request->body->size);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                         request->body->size ? request->body->data : "");
    }
    if (request->method)
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
}

/* "Expect:" keeps libcurl from waiting a second for a 100 Continue. */
static struct curl_slist *
list_of(const char *const *headers)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");

    for (; list && headers && *headers; headers++) {
        struct curl_slist *longer = curl_slist_append(list, *headers);

        if (!longer) {
            curl_slist_free_all(list);
            return NULL;
        }
        list = longer;
    }
    return list;
}

/* Runs the exchange to its end; TD_STOPPED as soon as td_stop was called. */
static enum td_status
perform(struct td_client *client, CURLM *multi, CURLcode *result)
{
    struct curl_waitfd stop = {.fd = client->stop_fd,
                               .events = CURL_WAIT_POLLIN};
    int running = 1;
    int left;
    CURLMsg *message;

    while (running) {
        if (curl_multi_perform(multi, &running))
            return TD_MEMORY;
        if (running && curl_multi_poll(multi, &stop, 1, 60000, NULL))
            return TD_MEMORY;
        if (stop.revents)
            return TD_STOPPED;
    }
    message = curl_multi_info_read(multi, &left);
    *result = message ? message->data.result : CURLE_OUT_OF_MEMORY;
    return TD_OK;
}

enum td_status
fetch_run(struct td_client *client, const struct fetch_request *request,
          struct fetch_answer *answer)
{
    CURL *easy = client->fetcher->easy;
    CURLM *multi = client->fetcher->multi;
    struct curl_slist *headers = list_of(request->headers);
    char error[CURL_ERROR_SIZE] = "";
    CURLcode result = CURLE_OK;
    long status = 0, sent = 0;
    curl_off_t retry_after = 0;
    enum td_status rc = TD_MEMORY;

    answer->status = 0;
    answer->is_sent = false;
    answer->retry_after_s = 0;
    buf_init(&answer->body, request->max_bytes);
    if (!headers)
        goto out;
    set_options(easy, request, headers, &answer->body, error);
    if (curl_multi_add_handle(multi, easy))
        goto out;
    rc = perform(client, multi, &result);
    curl_multi_remove_handle(multi, easy);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL); /* it is ours */
    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &sent);
    answer->is_sent = sent > 0;
    if (rc)
        goto out;

    if (answer->body.failed)
        rc = client_fail(client, TD_BROKEN,
                         "the answer is longer than %zu bytes",
                         request->max_bytes);
    else if (result)
        rc = client_fail(client, TD_UNREACHABLE, "%s",
                         error[0] ? error : curl_easy_strerror(result));
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    answer->status = (unsigned)status;
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after);
    if (retry_after > 0)
        answer->retry_after_s = retry_after < RETRY_AFTER_MOST
                                    ? (unsigned)retry_after
                                    : RETRY_AFTER_MOST;
    client->status = rc ? 0 : answer->status;
    client->retry_after_s = answer->retry_after_s;

out:
    if (rc == TD_MEMORY)
        client_fail(client, rc, "no memory");
    curl_slist_free_all(headers);
    return rc;
}

enum td_status
fetch_meaning(unsigned status)
{
    if (status == 410)
        return TD_GONE;
    if (status == 408 || status == 429 || status >= 500)
        return TD_UNREACHABLE;
    return TD_REFUSED;
}

enum td_status
fetch_refused(struct td_client *client, const struct fetch_answer *answer)
{
    char detail[800] = "";
    char title[100] = "the broker refused";
    char place[80] = "";
    uint64_t entry = 0;
    uint64_t line = 0;
    struct answer_member members[] = {
        {.name = "detail", .text = detail, .size = sizeof(detail)},
        {.name = "title", .text = title, .size = sizeof(title)},
        {.name = "entry", .number = &entry},
        {.name = "line", .number = &line},
    };
    bool is_read = answer_read(buf_slice(&answer->body), members,
                               sizeof(members) / sizeof(members[0]));

    if (is_read && entry && line)
        snprintf(place, sizeof(place),
                 "entry %llu, line %llu: ", (unsigned long long)entry,
                 (unsigned long long)line);
    else if (is_read && (entry || line))
        snprintf(place, sizeof(place), "%s %llu: ", entry ? "entry" : "line",
                 (unsigned long long)(entry ? entry : line));
    return client_fail(client, fetch_meaning(answer->status), "%u: %s%s",
                       answer->status, place, detail[0] ? detail : title);
}
