/*
 * set_url.c - takes the URL of a set apart, by libcurl.
 */
#include "client/lib/set_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

/* Takes the parts over into `url`; false if they are not a set's URL. */
static bool
take_parts(struct set_url *url, const char *scheme, const char *host,
           const char *port, const char *path)
{
    size_t size = strlen(host);
    int n;

    url->is_tls = !strcmp(scheme, "https");
    if (!url->is_tls && strcmp(scheme, "http"))
        return false;
    url->port = atoi(port);

    n = snprintf(url->authority, sizeof(url->authority), "%s:%s", host, port);
    if (n < 0 || (size_t)n >= sizeof(url->authority))
        return false;
    if (host[0] == '[' && size > 2)
        snprintf(url->host, sizeof(url->host), "%.*s", (int)(size - 2),
                 host + 1);
    else
        snprintf(url->host, sizeof(url->host), "%s", host);

    n = snprintf(url->text, sizeof(url->text), "%s://%s%s", scheme,
                 url->authority, path);
    if (n < 0 || (size_t)n >= sizeof(url->text))
        return false;
    if (url->text[n - 1] == '/')
        url->text[n - 1] = '\0';
    url->path = strchr(strstr(url->text, "://") + 3, '/');
    if (!url->path)
        return false;
    url->name = strrchr(url->path, '/') + 1;
    return set_name_is_valid(slice_of(url->name));
}

static bool
has_part(CURLU *u, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(u, part, &text, 0) == CURLUE_OK;

    curl_free(text);
    return has;
}

enum status
set_url_read(struct td_client *client, const char *text, struct set_url *url)
{
    CURLU *u = curl_url();
    char *scheme = NULL;
    char *host = NULL;
    char *port = NULL;
    char *path = NULL;
    bool is_good;

    if (!u)
        return problem_memory(&client->problem);
    is_good = text && curl_url_set(u, CURLUPART_URL, text, 0) == CURLUE_OK &&
              !curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) &&
              !curl_url_get(u, CURLUPART_HOST, &host, 0) &&
              !curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) &&
              !curl_url_get(u, CURLUPART_PATH, &path, 0) &&
              !has_part(u, CURLUPART_USER) && !has_part(u, CURLUPART_QUERY) &&
              !has_part(u, CURLUPART_FRAGMENT) &&
              take_parts(url, scheme, host, port, path);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(path);
    curl_url_cleanup(u);
    if (!is_good)
        return client_fail(client, STATUS_INVALID,
                           "not the URL of a set, "
                           "http(s)://host:port/sets/NAME: \"%.200s\"",
                           text ? text : "");
    return STATUS_OK;
}
