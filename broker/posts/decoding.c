#include "broker/posts/decoding.h"

static enum status
on_inflated(struct slice bytes, void *user, struct problem *why)
{
    struct decoding *in = user;

    return input_reader_feed(in->reader, bytes, why);
}

enum status
decoding_decode(struct decoding *in, struct slice coding, uint64_t max_bytes,
                struct problem *why)
{
    if (slice_is_word(coding, "identity"))
        return STATUS_OK;
    if (!slice_is_word(coding, "gzip") && !slice_is_word(coding, "x-gzip"))
        return problem(why, STATUS_UNSUPPORTED,
                       "a post is read as it is, or in %s; not in \"%s\"",
                       DECODING_OFFERED, problem_quote(coding).text);
    in->gunzip = gunzip_new(max_bytes, GUNZIP_GZIP, on_inflated, in);
    if (!in->gunzip)
        return problem_memory(why);
    return STATUS_OK;
}

enum status
decoding_feed(struct decoding *in, struct slice bytes, struct problem *why)
{
    return in->gunzip ? gunzip_feed(in->gunzip, bytes, why)
                      : input_reader_feed(in->reader, bytes, why);
}

enum status
decoding_end(struct decoding *in, struct problem *why)
{
    enum status rc = in->gunzip ? gunzip_end(in->gunzip, why) : STATUS_OK;

    return rc ? rc : input_reader_end(in->reader, why);
}
