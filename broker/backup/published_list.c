#include "broker/backup/published_list.h"

#include <stdlib.h>
#include <string.h>

#include "broker/backup/published_text.h"
#include "proto/number.h"

/* The head */

/* The number in the address of a list; 0: none. */
static uint64_t
number_of(const char *href)
{
    uint64_t number = 0;

    return number_read(published_between(slice_of(href), "/changes/", ".xml"),
                       &number) &&
                   number < INT64_MAX
               ? number
               : 0;
}

/* Its number is between those of its neighbours. The first list, while it is
 * open, has none: then the number is `fallback`. */
static bool
find_number(const struct list_head *head, uint64_t fallback, uint64_t *number)
{
    uint64_t prev = number_of(head->prev), next = number_of(head->next);

    *number = next > 1 ? next - 1 : prev ? prev + 1 : fallback;
    return *number > 0 && (!prev || prev + 1 == *number);
}

/* False: the links are not those of a broker, or SQLite cannot keep the
 * numbers. */
static bool
take_head(const struct list_head *head, uint64_t fallback,
          struct published_list *list)
{
    const struct coverage *covers = &head->covers;
    struct slice set =
        published_between(slice_of(head->up), "/sets/", "/capabilitylist.xml");

    *list = (struct published_list){.info = {.after = covers->after,
                                             .last = covers->last,
                                             .from_us = covers->from_us,
                                             .until_us = covers->until_us,
                                             .before = head->before,
                                             .digest = covers->digest,
                                             .is_filed = true}};
    memcpy(list->epoch, covers->epoch, sizeof(list->epoch));
    if (covers->after == 0)
        digest_start(&list->info.before, slice_of(list->epoch));
    return set_name_is_valid(set) &&
           slice_copy(list->set, sizeof(list->set), set) &&
           covers->last < INT64_MAX &&
           find_number(head, fallback, &list->info.number);
}

static uint64_t
number_of_name(const char *path)
{
    uint64_t number = strtoull(list_name(path).data, NULL, 10);

    return number > 0 && number < INT64_MAX ? number : 1;
}

/* True for a name that a broker gives to its lists. */
static bool
is_lists_name(const char *path)
{
    struct slice name = list_name(path);

    return slice_is(name, "latest.xml") || list_name_is_numbered(name);
}

enum status
published_list_look(const char *path, struct published_list *list,
                    bool *is_list, struct problem *why)
{
    const struct list_chain nothing = {.epoch = ""};
    struct list_proof *proof = list_proof_new(&nothing, path, NULL, NULL);
    struct problem reason = {.text = "it ends too soon"};
    const struct list_head *head = NULL;
    struct buf text;
    enum status rc;

    buf_init(&text, PUBLISHED_HEADER_MAX + FRAGMENT_MAX);
    rc = published_read(path, text.max, &text, why);
    if (!rc &&
        list_proof_feed(proof, buf_slice(&text), &reason) == STATUS_MEMORY)
        rc = problem_memory(why);
    if (!rc)
        head = list_proof_head(proof);
    *is_list = head && take_head(head, number_of_name(path), list);
    if (!rc && !head && !list_proof_is_another(proof) && is_lists_name(path))
        rc = published_fail(path, why, reason.text);
    list_proof_free(proof);
    buf_fini(&text);
    return rc;
}

/* All of it */

/* Proves the list in `to`, and divides its text. */
static enum status
prove(const char *path, struct list_proof *proof, struct published_list *list,
      struct list_chain *chain, struct published_text *to, struct problem *why)
{
    struct problem reason = {.text = ""};
    struct slice all = buf_slice(&to->text);
    size_t footer = document_footer_of(DOCUMENT_URLSET).size;
    enum status rc = list_proof_feed(proof, all, &reason);

    if (!rc)
        rc = list_proof_end(proof, chain, &reason);
    if (rc == STATUS_MEMORY)
        return problem_memory(why);
    if (rc)
        return published_fail(path, why, reason.text);
    if (!take_head(list_proof_head(proof), number_of_name(path), list))
        return published_fail(path, why, "its head is none of a broker");
    to->header = (struct slice){all.data, list_proof_head(proof)->text.size};
    to->fragments = (struct slice){all.data + to->header.size,
                                   all.size - to->header.size - footer};
    list->info.bytes = to->fragments.size;
    return STATUS_OK;
}

enum status
published_list_read(const char *path, struct published_list *list,
                    struct list_chain *chain, struct published_text *to,
                    struct problem *why)
{
    struct list_proof *proof = list_proof_new(chain, path, NULL, NULL);
    enum status rc;

    buf_init(&to->text, PUBLISHED_MAX);
    rc = published_read(path, PUBLISHED_MAX, &to->text, why);
    if (!rc)
        rc = prove(path, proof, list, chain, to, why);
    list_proof_free(proof);
    return rc;
}
