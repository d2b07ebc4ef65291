#include "tests/unit/documents/stage.h"

#include <stdlib.h>

#include "tests/support/schema.h"
#include "tests/support/tempdir.h"

struct stage {
    struct sets sets;
    struct tempdir dir;
};

int
stage_setup(void **state)
{
    struct stage *stage = calloc(1, sizeof(*stage));

    assert_non_null(stage);
    tempdir_open(&stage->dir);
    sets_configure(&stage->sets, stage->dir.path);
    *state = &stage->sets;
    return 0;
}

int
stage_teardown(void **state)
{
    struct stage *stage = *state;

    if (stage->sets.registry)
        sets_close(&stage->sets);
    tempdir_close(&stage->dir);
    free(stage);
    return 0;
}

struct document_wish
stage_wish(struct sets *s, uint64_t number, uint64_t last,
           enum log_patience patience)
{
    return (struct document_wish){
        .registry = s->registry,
        .set = sets_find(s, "demo"),
        .head = sets_head(s, "demo"),
        .number = number,
        .last = last,
        .patience = patience,
    };
}

struct document
stage_open(struct sets *s, document_open_fn *open, uint64_t number,
           uint64_t last)
{
    const struct document_wish wish = stage_wish(s, number, last, LOG_DISK);
    struct document document;

    assert_int_equal(open(&wish, &document, NULL), STATUS_OK);
    return document;
}

struct body *
stage_body(document_open_fn *open, const struct document_wish *wish)
{
    struct body *body;

    assert_int_equal(bodies_open(open, wish, &body, NULL), STATUS_OK);
    return body;
}

void
stage_parse(struct body *body, struct xpath *x)
{
    struct buf text;

    buf_init(&text, SIZE_MAX);
    bodies_read(body, &text);
    assert_valid(buf_slice(&text));
    xpath_open(x, buf_slice(&text));
    buf_fini(&text);
}

unsigned
stage_text(struct sets *s, document_open_fn *open, uint64_t number,
           uint64_t last, struct buf *text)
{
    const struct document_wish wish = stage_wish(s, number, last, LOG_DISK);

    return bodies_read(stage_body(open, &wish), text);
}

void
stage_read(struct sets *s, document_open_fn *open, uint64_t number,
           uint64_t last, struct xpath *x)
{
    const struct document_wish wish = stage_wish(s, number, last, LOG_DISK);

    stage_parse(stage_body(open, &wish), x);
}

void
stage_refuses(document_open_fn *open, const struct document_wish *wish,
              enum status rc, const char *text)
{
    struct problem why = {""};
    struct body *body;

    assert_int_equal(bodies_open(open, wish, &body, &why), rc);
    if (text)
        assert_string_equal(why.text, text);
}
