/*
 * download.c - one URL into one file.
 *
 *     start --> look (is a partial file there?) --> ask --> write --> finish
 *                 |  partial: feed the digests,     ^ |
 *                 |  some at a time                 | |  the partial file does
 *                 +--> complete: finish             +-+  not fit: 416, other
 *                                                        range
 */
#include "client/dumps/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/fetch.h"
#include "proto/number.h"

enum status
digests_file(struct digest_check *digests, int dir_fd, const char *name,
             file_go_on_fn *go_on, void *user, struct problem *why)
{
    enum status rc = STATUS_IO;
    int fd = openat(dir_fd, name,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0)
        rc = file_digest(fd, digests, go_on, user, why);
    if (rc == STATUS_IO)
        problem_errno(why, "cannot read", name);
    file_close(&fd);
    return rc;
}

#define REDIRECTS 10

/* The first bytes of a ZIP package. */
#define PACKAGE_BEGINS "PK"

/* A smaller file is not worth a note. */
#define NOTED_MIN (1024 * 1024)

#define NOTE_MAX      16384
#define VALIDATOR_MAX 256

/* Bytes of a partial file that one turn of the loop reads. */
#define STEP_SIZE (1024 * 1024)

/* The disk space of the smallest file. */
#define BLOCK_SIZE 4096

struct download {
    struct td_client *client;
    download_end_fn *on_end;
    void *user;

    struct download_request request; /* without its texts, which follow */
    char *url;
    char *file;
    char *hash;
    char *encoding;
    char validator[VALIDATOR_MAX]; /* of the answer, for the note; "": none */

    struct timer turn; /* for the steps before the exchange */
    struct fetch *fetch;
    struct digest_check *digests;
    int fd;
    uint64_t bytes; /* of the file, all fed to the digests */
    uint64_t old;   /* of these, from an earlier attempt */
    uint64_t n_came;
    uint64_t n_counted; /* in room.coming, for the mirror */
    char *step;         /* buffer to read the partial file */
    bool is_begun;      /* the body belongs to the file */
    bool is_kept;       /* NAME.of describes the file */
    int64_t date_s;
    bool is_other;
    bool asks_again;   /* the partial file does not fit */
    bool keeps_coding; /* the file is what the source encoded */
    struct problem why;
};

/* The note beside an incomplete file */

static void
note_name(char name[NAME_MAX + 1], const char *file)
{
    snprintf(name, NAME_MAX + 1, "%s.of", file);
}

static void
compose_note(struct buf *to, const struct download *d)
{
    buf_init(to, NOTE_MAX);
    buf_add_format(to, "%s\n%s\n%s\n", d->url, d->validator, d->hash);
    if (d->request.length != LENGTH_NONE)
        buf_add_number(to, d->request.length);
    BUF_ADD(to, "\n");
}

static void
forget_note(int dir_fd, const char *file)
{
    char name[NAME_MAX + 1];

    note_name(name, file);
    unlinkat(dir_fd, name, 0);
}

/* False: it cannot be written, or no validator is known. */
static bool
write_note(const struct download *d)
{
    char name[NAME_MAX + 1];
    struct buf text;
    bool is_written = false;
    int fd;

    if (!d->validator[0])
        return false;
    note_name(name, d->file);
    compose_note(&text, d);
    fd = openat(d->request.dir_fd, name,
                O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0)
        is_written = !text.failed && !file_write(fd, buf_slice(&text));
    file_close(&fd);
    buf_fini(&text);
    if (!is_written)
        forget_note(d->request.dir_fd, d->file);
    return is_written;
}

/* True if the file has a note of the same request; takes its validator. */
static bool
read_note(struct download *d)
{
    char name[NAME_MAX + 1], bytes[NOTE_MAX];
    struct slice rest, validator;
    struct buf text;
    bool is_same;
    ssize_t n;
    int fd;

    note_name(name, d->file);
    fd = openat(d->request.dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    n = fd >= 0 ? read(fd, bytes, sizeof(bytes)) : -1;
    file_close(&fd);
    if (n <= 0)
        return false;
    rest = (struct slice){bytes, (size_t)n};
    slice_take(&rest, '\n');
    validator = slice_take(&rest, '\n');
    if (validator.size == 0 || validator.size >= VALIDATOR_MAX)
        return false;
    snprintf(d->validator, VALIDATOR_MAX, "%.*s", SLICE_ARG(validator));

    /* The same request makes the same note. */
    compose_note(&text, d);
    is_same = !text.failed &&
              slice_equal(buf_slice(&text), (struct slice){bytes, (size_t)n});
    buf_fini(&text);
    if (!is_same)
        d->validator[0] = '\0';
    return is_same;
}

bool
download_has_note(int dir_fd, const char *file)
{
    char name[NAME_MAX + 1];

    note_name(name, file);
    return !faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

/* Counts `n` more bytes of the file as on the disk. */
static void
count_bytes(struct download *d, uint64_t n)
{
    if (!d->request.is_of_mirror)
        return;
    d->client->room.coming += n;
    d->n_counted += n;
}

static void
count_none(struct download *d)
{
    d->client->room.coming -= d->n_counted;
    d->n_counted = 0;
}

static void
free_download(struct download *d)
{
    count_none(d);
    fetch_free(d->fetch);
    timer_stop(&d->turn);
    digest_check_free(d->digests);
    file_close(&d->fd);
    free(d->url);
    free(d->file);
    free(d->hash);
    free(d->encoding);
    free(d->step);
    free(d);
}

/* Ends the download with d->why; `url` is lent. */
static void
end_download(struct download *d, const char *url)
{
    struct download_answer answer = {
        .url = url,
        .bytes = d->bytes,
        .n_came = d->n_came,
        .date_s = d->date_s,
        .is_other = d->is_other,
    };

    if (d->why.rc && (d->is_other || !d->is_kept))
        download_forget(d->request.dir_fd, d->file);
    d->on_end(&d->why, &answer, d->user);
    free_download(d);
}

static bool
fail_io(struct download *d)
{
    return !problem_errno(&d->why, "cannot write", d->file);
}

/* The content is not the one that the source announced. */
static bool
fail_other(struct download *d, const char *text)
{
    d->is_other = true;
    return !problem(&d->why, STATUS_MALFORMED, "%s", text);
}

static bool
fail_long(struct download *d)
{
    d->is_kept = false;
    return !problem(&d->why, STATUS_MALFORMED,
                    "is longer than the %" PRIu64 " bytes that are allowed",
                    d->request.max_bytes);
}

/* True if the bounds allow `n` more bytes; else sets d->why. */
static bool
has_room(struct download *d, uint64_t n)
{
    struct source_limits *room = &d->client->room;

    if (!source_limits_look(room, d->request.dir_fd, n, &d->why) &&
        !(d->request.is_of_mirror &&
          source_limits_check_total(room, n, &d->why)))
        return true;
    d->is_kept = false;
    return false;
}

static bool
fail_checked(struct download *d, enum status rc, const struct problem *why)
{
    if (rc == STATUS_MEMORY)
        return !problem_memory(&d->why);
    return fail_other(d, why->text);
}

/* The file is complete: checks it and ends the download. */
static void
finish_file(struct download *d, const char *url)
{
    struct problem fault = {.text = ""};
    enum status rc = digest_check_end(d->digests, &fault);
    uint64_t n = !rc && d->request.is_package;

    if (rc)
        fail_checked(d, rc, &fault);
    else if (!d->request.keeps_note)
        forget_note(d->request.dir_fd, d->file);
    d->client->room.n_packages += n;
    d->client->room.bytes_packages += n * d->bytes;
    end_download(d, url);
}

/* The exchange */

/* Begins the file again from its first byte. */
static bool
begin_file(struct download *d)
{
    d->bytes = d->old = 0;
    count_none(d);
    d->is_kept = false;
    /* Before the bytes that it describes. */
    forget_note(d->request.dir_fd, d->file);
    if (digest_check_reset(d->digests))
        return !problem_memory(&d->why);
    if (ftruncate(d->fd, 0) || lseek(d->fd, 0, SEEK_SET) < 0)
        return fail_io(d);
    return true;
}

/* "bytes 1000-1999/2000": true if the range begins where the file ends. */
static bool
is_range_from(const char *text, uint64_t first)
{
    struct slice rest = slice_of(text);
    uint64_t number;

    if (!slice_starts(rest, "bytes "))
        return false;
    slice_take(&rest, ' ');
    return number_read(slice_take(&rest, '-'), &number) && number == first;
}

/* True if both name one coding: "x-gzip" is an old name of gzip. */
static bool
is_same_coding(const char *a, const char *b)
{
    a += strncasecmp(a, "x-", 2) ? 0 : 2;
    b += strncasecmp(b, "x-", 2) ? 0 : 2;
    return !strcasecmp(a, b);
}

/* Judges the head of the answer. False: the body is not wanted. */
static bool
begin_body(struct download *d, const struct fetch_answer *answer)
{
    /* For If-Range (RFC 9110 section 13.1.5): no weak ETag. */
    const char *validator =
        answer->etag[0] == '"' ? answer->etag : answer->last_modified;
    char text[100];

    if (answer->status == 206 && d->old > 0) {
        d->is_begun = is_range_from(answer->content_range, d->old);
        d->asks_again = !d->is_begun;
        return d->is_begun;
    }
    if (answer->status == 416 && d->old > 0) {
        d->asks_again = true;
        return false;
    }
    if (answer->status != 200 && answer->status != 203)
        return false;
    if (d->keeps_coding && answer->coding[0] &&
        !is_same_coding(answer->coding, d->encoding)) {
        snprintf(text, sizeof(text), "is encoded as \"%.50s\"", answer->coding);
        return fail_other(d, text);
    }
    /* Ranges are of the coded bytes: the file cannot be continued. */
    if ((answer->coding[0] && !d->keeps_coding) ||
        strlen(validator) >= VALIDATOR_MAX)
        validator = "";
    strcpy(d->validator, validator);
    if (answer->length != UINT64_MAX && d->request.length != LENGTH_NONE &&
        answer->length != d->request.length) {
        snprintf(text, sizeof(text),
                 "has %" PRIu64 " bytes, the source announced %" PRIu64,
                 answer->length, d->request.length);
        return fail_other(d, text);
    }
    if (d->request.max_bytes && answer->length != UINT64_MAX &&
        answer->length > d->request.max_bytes)
        return fail_long(d);
    d->is_begun = begin_file(d);
    return d->is_begun;
}

static bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    static const char begins[] = PACKAGE_BEGINS;
    struct download *d = user;
    struct problem fault = {.text = ""};
    enum status rc;

    if (!d->is_begun && !begin_body(d, answer))
        return false;
    for (size_t i = 0; d->request.is_package && i < bytes.size &&
                       d->bytes + i < sizeof(begins) - 1;
         i++)
        if (bytes.data[i] != begins[d->bytes + i])
            return fail_other(d,
                              "it is not a ZIP package: it does not begin with "
                              "\"" PACKAGE_BEGINS "\"");
    rc = digest_check_add(d->digests, bytes, &fault);
    if (rc)
        return fail_checked(d, rc, &fault);
    if (d->request.max_bytes &&
        digest_check_size(d->digests) > d->request.max_bytes)
        return fail_long(d);
    if (!has_room(d, bytes.size))
        return false;
    if (file_write(d->fd, bytes))
        return fail_io(d);
    d->bytes += bytes.size;
    count_bytes(d, bytes.size);
    d->n_came += bytes.size;
    if (!d->is_kept && d->bytes >= NOTED_MIN &&
        digest_check_has_any(d->digests))
        d->is_kept = write_note(d);
    return true;
}

static void send_request(struct download *d);

static void
on_answer(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct download *d = user;

    d->fetch = NULL;
    d->date_s = httpdate_read(slice_of(answer->date));
    if (!why->rc && !d->is_begun && !d->why.rc && !d->asks_again)
        begin_body(d, answer); /* it has no body */
    /* A part of coded bytes cannot be decoded. */
    d->asks_again |= why->rc == STATUS_MALFORMED && d->old > 0 && !d->is_begun;
    if (d->asks_again) {
        d->asks_again = false;
        if (begin_file(d))
            send_request(d);
        else
            end_download(d, answer->url);
        return;
    }
    if (d->why.rc) {
        /* begin or on_body has set it */
    } else if (why->rc && why->rc != STATUS_STOPPED) {
        d->why = *why;
    } else if (!d->is_begun) {
        bool is_odd = why->http_status < 400;

        problem(&d->why,
                is_odd ? STATUS_MALFORMED : fetch_meaning(why->http_status),
                is_odd && why->http_status >= 300
                    ? "the redirects do not end (%u)"
                    : "the server answers %u",
                why->http_status);
    } else {
        finish_file(d, answer->url);
        return;
    }
    d->why.http_status = why->http_status;
    d->why.retry_after_s = why->retry_after_s;
    end_download(d, answer->url);
}

static void
send_request(struct download *d)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    char range[48], since[VALIDATOR_MAX + 16], coding[128];
    const char *headers[6];
    size_t n = 0;
    struct fetch_request request = {
        .url = d->url,
        .headers = headers,
        .redirects = REDIRECTS,
        .skips_refusals = true,
        .silence_s = d->request.silence_s,
        .kind = HOST_PLACE_FILE,
    };

    /* The encoding comes from a stranger's entry, into a header. */
    d->keeps_coding = d->encoding[0] && strlen(d->encoding) <= 64 &&
                      !d->encoding[strspn(d->encoding, safe)] &&
                      strcasecmp(d->encoding, "identity") != 0;
    request.keeps_coding = d->keeps_coding;
    snprintf(coding, sizeof(coding), "Accept-Encoding: %s",
             d->keeps_coding ? d->encoding : "identity");
    headers[n++] = coding;
    if (d->old > 0) {
        snprintf(range, sizeof(range), "Range: bytes=%" PRIu64 "-", d->old);
        snprintf(since, sizeof(since), "If-Range: %s", d->validator);
        headers[n++] = range;
        headers[n++] = since;
    }
    if (d->request.is_anew) {
        headers[n++] = "Cache-Control: no-cache";
        headers[n++] = "Pragma: no-cache";
    }
    headers[n] = NULL;
    d->fetch = fetch_start(d->client, &request, on_body, on_answer, d);
    if (!d->fetch) {
        problem_memory(&d->why);
        end_download(d, d->url);
    }
}

/* The partial file */

static bool
open_new(struct download *d)
{
    download_forget(d->request.dir_fd, d->file);
    d->fd = openat(d->request.dir_fd, d->file,
                   O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return d->fd >= 0 || fail_io(d);
}

/* Opens the partial file of an earlier attempt. False: none is usable. */
static bool
open_old(struct download *d)
{
    struct stat st;

    if (d->request.is_anew || !digest_check_has_any(d->digests) ||
        !read_note(d))
        return false;
    d->fd = openat(d->request.dir_fd, d->file, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (d->fd < 0)
        return false;
    d->step = malloc(STEP_SIZE);
    if (d->step && !fstat(d->fd, &st) && S_ISREG(st.st_mode) &&
        st.st_size > 0 && (uint64_t)st.st_size <= d->request.length) {
        d->is_kept = true;
        return true;
    }
    file_close(&d->fd);
    return false;
}

/* Feeds some of the partial file to the digests, until its end. */
static void
on_turn(void *user)
{
    struct download *d = user;
    struct problem fault = {.text = ""};
    ssize_t n = 0;

    if (d->fd < 0 && d->request.max_bytes && d->request.length != LENGTH_NONE &&
        d->request.length > d->request.max_bytes) {
        fail_long(d);
        end_download(d, d->url);
        return;
    }
    if (d->fd < 0 && !open_old(d)) {
        if (has_room(d, BLOCK_SIZE) && open_new(d))
            send_request(d);
        else
            end_download(d, d->url);
        return;
    }
    do
        n = read(d->fd, d->step, STEP_SIZE);
    while (n < 0 && errno == EINTR);
    if (n > 0 && !digest_check_add(
                     d->digests, (struct slice){d->step, (size_t)n}, &fault)) {
        d->bytes += (uint64_t)n;
        count_bytes(d, (uint64_t)n);
        timer_start(&d->turn, 0);
        return;
    }
    if (n != 0 && !begin_file(d)) {
        end_download(d, d->url);
        return;
    }
    free(d->step);
    d->step = NULL;
    d->old = d->bytes;
    if (d->old > 0 && d->old == d->request.length)
        finish_file(d, d->url);
    else
        send_request(d);
}

struct download *
download_start(struct td_client *client, const struct download_request *request,
               download_end_fn *on_end, void *user)
{
    struct download *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->client = client;
    d->on_end = on_end;
    d->user = user;
    d->fd = -1;
    d->request = *request;
    d->url = strdup(request->url);
    d->file = strdup(request->file);
    d->hash = slice_dup(request->hash);
    d->encoding = slice_dup(request->encoding);
    d->digests = digest_check_new(request->hash, request->length, false);
    timer_init(&d->turn, client->loop, on_turn, d);
    if (!d->url || !d->file || !d->hash || !d->encoding || !d->digests) {
        free_download(d);
        return NULL;
    }
    timer_start(&d->turn, 0);
    return d;
}

void
download_free(struct download *download)
{
    if (!download)
        return;
    if (!download->is_kept && download->fd >= 0)
        download_forget(download->request.dir_fd, download->file);
    free_download(download);
}

uint64_t
download_came(const struct download *download)
{
    return download->n_came;
}

void
download_forget(int dir_fd, const char *file)
{
    forget_note(dir_fd, file);
    unlinkat(dir_fd, file, 0);
}
