/*
 * handle_backup.c - a backup of this broker, for a client to fetch
 * (backup_offer.h): POST begins to make it, and GET answers 202 until it is
 * there.
 */
#include "broker/backup/backup_offer.h"
#include "broker/http/answers.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"

/* {"backup":"making"} */
static void
answer_making(struct request *rq)
{
    struct response r;

    response_init(&r, 202, "application/json");
    response_header(&r, "Cache-Control", "no-store");
    response_header(&r, "Retry-After", "1");
    r.text = SLICE("{\"backup\":\"making\"}\n");
    request_answer(rq, &r);
}

void
handle_backup_post(struct http *http, struct request *rq,
                   const struct route_target *target)
{
    struct problem why = {""};
    enum status rc;

    (void)target;
    rc = backup_offer_make(http->backup, request_authority(rq), &why);
    if (rc)
        answers_failure(rq, rc, &why);
    else
        answer_making(rq);
}

void
handle_backup_get(struct http *http, struct request *rq,
                  const struct route_target *target)
{
    struct problem why = {""};
    struct response r;
    struct body *body;
    enum status rc;

    (void)target;
    rc = backup_offer_take(http->backup, &body, &why);
    if (rc == STATUS_AGAIN) {
        answer_making(rq);
    } else if (rc) {
        answers_failure(rq, rc, &why);
    } else {
        response_init(&r, 200, "application/x-tar");
        response_header(&r, "Cache-Control", "no-store");
        response_header(&r, "Content-Disposition",
                        "attachment; filename=\"tidings-backup.tar\"");
        r.body = body;
        request_answer(rq, &r);
    }
}
