#include "client/cli/harvest_state.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cli.h"

/* Characters of a URL in the name of the file. */
#define NAME_MAX_URL 60

/* FNV-1a */
static uint64_t
hash_text(uint64_t hash, const char *text)
{
    do
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    while (*text++);
    return hash;
}

/* "example.org_sitemap.xml" */
static void
write_name(char to[NAME_MAX_URL + 1], const char *url)
{
    const char *from = strstr(url, "://");
    size_t n = 0;

    for (from = from ? from + 3 : url; *from && n < NAME_MAX_URL; from++)
        to[n++] =
            isalnum((unsigned char)*from) || strchr(".-", *from) ? *from : '_';
    to[n] = '\0';
}

static bool
make_directories(char *path)
{
    for (char *end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
        *end = '\0';
        if (mkdir(path, 0700) && errno != EEXIST) {
            say("cannot make %s: %s; --state names another file", path,
                strerror(errno));
            return false;
        }
        *end = '/';
    }
    return true;
}

bool
harvest_state_path(char path[HARVEST_STATE_PATH_MAX], const char *given,
                   const char *set, char *const *sources, size_t n, bool makes)
{
    const char *home = getenv("HOME"), *base = getenv("XDG_STATE_HOME");
    bool is_relative = !base || base[0] != '/';
    uint64_t hash = hash_text(UINT64_C(0xcbf29ce484222325), set);
    char of_set[NAME_MAX_URL + 1], of_source[NAME_MAX_URL + 1];
    int size;

    for (size_t i = 0; i < n; i++)
        hash = hash_text(hash, sources[i]);
    write_name(of_set, set);
    write_name(of_source, sources[0]);
    if (given && !given[0]) {
        say("--state is empty");
        return false;
    }
    if (!given && is_relative && (!home || home[0] != '/')) {
        say("no home directory for the state: --state names its file");
        return false;
    }
    if (given)
        size = snprintf(path, HARVEST_STATE_PATH_MAX, "%s", given);
    else
        size = snprintf(
            path, HARVEST_STATE_PATH_MAX, "%s%s/tidings/%s-from-%s-%08x",
            is_relative ? home : base, is_relative ? "/.local/state" : "",
            of_set, of_source, (unsigned)(hash ^ hash >> 32));
    if (size >= HARVEST_STATE_PATH_MAX) {
        say("the name of the state is too long");
        return false;
    }
    if (given || !makes)
        return true;
    if (access(path, F_OK))
        say("the state of this harvest is in %s", path);
    return make_directories(path);
}
