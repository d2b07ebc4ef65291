/*
 * set_url.c - checks the URL of a set, by libcurl.
 */
#include "client/lib/set_url.h"

#include <curl/curl.h>

/* A name has at most 253 bytes, a port 5. */
#define AUTHORITY_MAX 259

/* Copies a URL that has its port; false if it is not a set's. */
static bool
copy_url(char url[SET_URL_MAX + 1], const char *full)
{
    const char *host = strstr(full, "://") + 3;
    size_t size = strcspn(host, "/");
    size_t n = strlen(full);

    if ((strncmp(full, "https://", 8) && strncmp(full, "http://", 7)) ||
        size > AUTHORITY_MAX || memchr(host, '@', size) ||
        strpbrk(host, "?#") || n > SET_URL_MAX)
        return false;
    n -= full[n - 1] == '/';
    snprintf(url, SET_URL_MAX + 1, "%.*s", (int)n, full);
    host = strrchr(url + (host - full), '/');
    return host && set_name_is_valid(slice_of(host + 1));
}

enum status
set_url_read(struct td_client *client, const char *text,
             char url[SET_URL_MAX + 1])
{
    CURLU *u = curl_url();
    char *full = NULL;
    bool is_good;

    if (!u)
        return problem_memory(&client->problem);
    is_good = text && !curl_url_set(u, CURLUPART_URL, text, 0) &&
              !curl_url_get(u, CURLUPART_URL, &full, CURLU_DEFAULT_PORT) &&
              copy_url(url, full);
    curl_free(full);
    curl_url_cleanup(u);
    if (!is_good)
        return client_fail(client, STATUS_INVALID,
                           "not the URL of a set, "
                           "http(s)://host:port/sets/NAME, all of NAME "
                           "lower-case: \"%.200s\"",
                           text ? text : "");
    return STATUS_OK;
}
