/*
 * set_url.c - checks the URL of a set, by libcurl.
 */
#include "client/lib/set_url.h"

#include <stdio.h>
#include <string.h>

#include <curl/curl.h>

/* A name has at most 253 bytes, a port 5. */
#define AUTHORITY_MAX 259

/* Joins the parts; false if they are not a set's URL. */
static bool
write_url(char url[SET_URL_MAX + 1], const char *scheme, const char *host,
          const char *port, const char *path)
{
    const char *name;
    int n;

    if ((strcmp(scheme, "https") && strcmp(scheme, "http")) ||
        strlen(host) + 1 + strlen(port) > AUTHORITY_MAX)
        return false;
    n = snprintf(url, SET_URL_MAX + 1, "%s://%s:%s%s", scheme, host, port,
                 path);
    if (n < 0 || n > SET_URL_MAX)
        return false;
    if (url[n - 1] == '/')
        url[n - 1] = '\0';
    name = strrchr(strstr(url, "://") + 3, '/');
    return name && set_name_is_valid(slice_of(name + 1));
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
set_url_read(struct td_client *client, const char *text,
             char url[SET_URL_MAX + 1])
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
              write_url(url, scheme, host, port, path);
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
