#include "client/cli/find_sets.h"

#include <stdlib.h>
#include <string.h>

struct finding {
    struct source_sets *sets;
    bool failed; /* no memory */
};

static void
on_set(const char *url, const char *why, void *user)
{
    struct finding *finding = user;
    struct source_sets *sets = finding->sets;
    char **urls;

    if (why) {
        say("%s", why);
        sets->is_partial = true;
        return;
    }
    urls = realloc(sets->urls, (sets->n + 1) * sizeof(*urls));
    if (urls)
        sets->urls = urls;
    if (!urls || !(urls[sets->n] = strdup(url)))
        finding->failed = true;
    else
        sets->n++;
}

enum exit_code
source_sets_find(struct td_client *client, const char *url,
                 struct source_sets *sets)
{
    struct finding finding = {.sets = sets};
    enum td_status rc;

    *sets = (struct source_sets){.n = 0};
    rc = td_sets(client, url, on_set, &finding);
    if (finding.failed) {
        say(NO_MEMORY);
        return EXIT_FAILED;
    }
    if (rc == TD_STOPPED) {
        say("stopped before all sets of %s were found", url);
        return EXIT_FAILED;
    }
    if (rc && sets->is_partial && sets->n > 0) {
        say("%s", td_problem(client));
        return EXIT_GOOD;
    }
    return exit_of(client, rc);
}

void
source_sets_fini(struct source_sets *sets)
{
    for (size_t i = 0; i < sets->n; i++)
        free(sets->urls[i]);
    free(sets->urls);
    *sets = (struct source_sets){.n = 0};
}

enum exit_code
source_sets_exit(const struct source_sets *sets, enum exit_code before,
                 enum exit_code one)
{
    if (one != EXIT_GOOD && (sets->n > 1 || sets->is_partial))
        one = EXIT_FAILED;
    return before == EXIT_GOOD ? one : before;
}
