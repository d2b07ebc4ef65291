#include "tests/support/refusal.h"

#include <string.h>

#include "tests/support/jsonpath.h"
#include "tests/test.h"

/* What is wrong with a problem document; NULL: nothing. */
static const char *
fault_of(struct slice body, uint64_t status, const char *part,
         const uint64_t *entry)
{
    const char *detail, *fault = NULL;
    struct jsonpath j;

    jsonpath_open(&j, body);
    detail = jsonpath_text(&j, "detail");
    if (!jsonpath_text(&j, "type") || !jsonpath_text(&j, "title"))
        fault = "no type or title";
    else if (jsonpath_number(&j, "status") != status)
        fault = "another status inside";
    else if (!detail || !strstr(detail, part))
        fault = "another detail";
    else if (entry && *entry == 0 && jsonpath_has(&j, "entry"))
        fault = "an entry is named";
    else if (entry && *entry > 0 &&
             (!jsonpath_has(&j, "entry") ||
              jsonpath_number(&j, "entry") != *entry))
        fault = "another entry, or none";
    jsonpath_close(&j);
    return fault;
}

static void
check(uint64_t got, const char *type, struct slice body, uint64_t status,
      const char *part, const uint64_t *entry, const char *file, int line)
{
    const char *fault = NULL;

    if (got != status)
        fault = "another status";
    else if (!type || strcmp(type, "application/problem+json") != 0)
        fault = "not application/problem+json";
    else
        fault = fault_of(body, status, part, entry);
    if (!fault)
        return;
    print_error("%s, not %u \"%s\": %u %.*s\n", fault, (unsigned)status, part,
                (unsigned)got, SLICE_ARG(body));
    _fail(file, line);
}

void
refusal_assert(struct http *h, long status, const char *part, const char *file,
               int line)
{
    check((uint64_t)h->status, http_header(h, "Content-Type"),
          buf_slice(&h->body), (uint64_t)status, part, NULL, file, line);
}

void
refusal_assert_entry(struct http *h, long status, const char *part, uint64_t n,
                     const char *file, int line)
{
    check((uint64_t)h->status, http_header(h, "Content-Type"),
          buf_slice(&h->body), (uint64_t)status, part, &n, file, line);
}

void
refusal_assert_wire(const struct wire_answer *a, unsigned status,
                    const char *part, const char *file, int line)
{
    char type[64];
    bool has_type = wire_header(a, "Content-Type", type, sizeof(type));

    check(a->status, has_type ? type : NULL,
          (struct slice){a->body, a->body_size}, status, part, NULL, file,
          line);
}
