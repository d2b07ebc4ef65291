/*
 * doctor_command.c - tidings doctor: does this machine have what both programs
 * need? A line for each check: its verdict, its name, what was found, and,
 * unless that is well, what to do.
 *
 *   ok    certificates  /etc/ssl/certs/ca-certificates.crt
 *   fail  data          /srv: Permission denied: let the user of the broker ...
 */
#include <gnu/libc-version.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include <archive.h>
#include <curl/curl.h>
#include <openssl/crypto.h>
#include <sqlite3.h>
#include <zlib.h>

#include "base/certificates.h"
#include "client/cli/cli.h"
#include "client/lib/temporary_file.h"
#include "client/watch/file_digest.h"

struct values {
    char data[4096];
    char host[256];
    unsigned port;
    bool is_json;
};

#define ROW_OF struct values
#include "base/option_rows.h"

#define FREE_LEAST   (100 * MIB) /* with less a broker soon refuses posts */
#define FREE_ENOUGH  GIB
#define FILES_LEAST  256
#define FILES_ENOUGH 4096
#define FIRST_S      1780272000 /* June 2026: the clock is wrong before it */

static const struct option rows[] = {
    {"data", "DIR", TEXT(data), "./tidings-data",
     "the data directory of a broker, or where it will be"},
    {"listen", "HOST:PORT", LISTEN(host, port), "127.0.0.1:8787",
     "the address of a broker"},
    {"json", NULL, FLAG(is_json), NULL, "each check as a line of JSON"},
};

enum verdict { FINE, DOUBTFUL, BAD };

static enum verdict
check_libraries(const struct values *values, struct buf *found)
{
    const struct {
        const char *name, *running, *built; /* "": for this version, bound */
    } libraries[] = {
        {"glibc", gnu_get_libc_version(), ""},
        {"OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING),
         OPENSSL_VERSION_STR},
        {"libcurl", curl_version_info(CURLVERSION_NOW)->version,
         LIBCURL_VERSION},
        {"SQLite", sqlite3_libversion(), SQLITE_VERSION},
        {"zlib", zlibVersion(), ZLIB_VERSION},
        {"libarchive", archive_version_string() + strlen("libarchive "),
         ARCHIVE_VERSION_ONLY_STRING},
    };
    enum verdict verdict = FINE;

    (void)values;
    for (size_t i = 0; i < N_ELEMENTS(libraries); i++) {
        buf_add_format(found, "%s%s %s", i ? ", " : "", libraries[i].name,
                       libraries[i].running);
        if (strverscmp(libraries[i].running, libraries[i].built) < 0) {
            buf_add_format(found, " (built with %s)", libraries[i].built);
            verdict = DOUBTFUL;
        }
    }
    return verdict;
}

static enum verdict
check_certificates(const struct values *values, struct buf *found)
{
    const char *path = getenv("SSL_CERT_FILE");
    struct stack_st_X509 *all = NULL;
    struct problem why = {"no file of authorities"};
    char store[PATH_MAX];
    enum status rc = STATUS_NOT_FOUND;

    (void)values;
    if (!path && certificates_find_system("", store, sizeof(store)))
        path = store;
    if (path)
        rc = certificates_read(&all, path, "certificates of authorities", &why);
    certificates_free(all);
    buf_add_format(found, "%s", rc ? why.text : path);
    return !rc ? FINE : path ? BAD : DOUBTFUL;
}

static enum verdict
check_media_types(const struct values *values, struct buf *found)
{
    char database[PATH_MAX] = "the database of libmagic";
    struct mediatypes types = {NULL};
    bool is_open = mediatypes_open(&types, MEDIATYPES_TABLE);

    (void)values;
    mediatypes_close(&types);
    (void)file_of_bundle(database, sizeof(database), MEDIATYPES_DATABASE);
    buf_add_format(found, "%s%s", database, is_open ? "" : " cannot be read");
    return is_open ? FINE : DOUBTFUL;
}

static enum verdict
check_clock(const struct values *values, struct buf *found)
{
    struct timex state = {.modes = 0};
    bool is_loose = adjtimex(&state) == TIME_ERROR;
    time_t now = time(NULL);
    char date[32];

    (void)values;
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    buf_add_format(found, "%s%s", date, is_loose ? ", not synchronised" : "");
    return now < FIRST_S ? BAD : is_loose ? DOUBTFUL : FINE;
}

/* File systems whose locks and syncs a database cannot trust. */
static const struct {
    uint32_t type;
    const char *name;
} unfit[] = {
    {NFS_SUPER_MAGIC, "NFS"},
    {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB"},
    {0x65735546, "FUSE"},
    {TMPFS_MAGIC, "tmpfs: in memory"},
    {OVERLAYFS_SUPER_MAGIC, "the layers of a container: no volume"},
};

static enum verdict
check_data(const struct values *values, struct buf *found)
{
    const char *name = "a file system of this machine";
    bool is_unfit = false;
    uint64_t free_bytes;
    struct statfs fs;
    char dir[4096];
    char *end;

    /* Its part that exists; the broker makes the rest. */
    snprintf(dir, sizeof(dir), "%s", values->data);
    while (access(dir, F_OK) && (end = strrchr(dir, '/')))
        *(end > dir ? end : end + 1) = '\0';
    if (access(dir, F_OK))
        strcpy(dir, ".");
    if (access(dir, W_OK | X_OK) || statfs(dir, &fs)) {
        buf_add_format(found, "%s: %s", dir, strerror(errno));
        return BAD;
    }
    free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    for (size_t i = 0; i < N_ELEMENTS(unfit); i++)
        if ((uint32_t)fs.f_type == unfit[i].type) {
            name = unfit[i].name;
            is_unfit = true;
        }
    buf_add_format(found, "%s: %" PRIu64 " MiB free, %s", dir, free_bytes >> 20,
                   name);
    return free_bytes < FREE_LEAST                ? BAD
           : is_unfit || free_bytes < FREE_ENOUGH ? DOUBTFUL
                                                  : FINE;
}

static enum verdict
check_files(const struct values *values, struct buf *found)
{
    struct rlimit limit = {0};
    struct problem why = {""};
    int fd = temporary_file_open(&why);

    (void)values;
    getrlimit(RLIMIT_NOFILE, &limit);
    buf_add_format(found, "%" PRIu64 " may be open; %s",
                   (uint64_t)limit.rlim_max,
                   fd < 0 ? why.text : "a temporary one: made");
    if (fd < 0)
        return BAD;
    close(fd);
    return limit.rlim_max < FILES_LEAST    ? BAD
           : limit.rlim_max < FILES_ENOUGH ? DOUBTFUL
                                           : FINE;
}

/* A kernel with filters reads the missing one: EFAULT. */
static enum verdict
check_seccomp(const struct values *values, struct buf *found)
{
    bool has_it = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) < 0 &&
                  errno == EFAULT;

    (void)values;
    buf_add_format(found, "the kernel has %s", has_it ? "filters" : "none");
    return has_it ? FINE : DOUBTFUL;
}

static enum verdict
check_port(const struct values *values, struct buf *found)
{
    struct sockaddr_storage address = {0};
    int port = (int)values->port, fd, on = 1;
    bool is_free =
        !uv_ip4_addr(values->host, port, (struct sockaddr_in *)&address) ||
        !uv_ip6_addr(values->host, port, (struct sockaddr_in6 *)&address);

    fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    errno = EADDRNOTAVAIL; /* of a name */
    is_free = is_free &&
              !bind(fd, (struct sockaddr *)&address, sizeof(address)) &&
              !listen(fd, 1);
    buf_add_format(found, "%s, port %d: %s", values->host, port,
                   is_free ? "free" : strerror(errno));
    file_close(&fd);
    return is_free ? FINE : errno == EADDRINUSE ? DOUBTFUL : BAD;
}

/* `advice`: what to do about it. */
static const struct {
    const char *name;
    enum verdict (*run)(const struct values *values, struct buf *found);
    const char *advice;
} checks[] = {
    {"libraries", check_libraries,
     "install the versions that the programs were built with"},
    {"certificates", check_certificates,
     "install ca-certificates, or name a file of certificates in "
     "SSL_CERT_FILE"},
    {"media types", check_media_types,
     "install libmagic-mgc, or name its file in MAGIC, for tidings watch"},
    {"clock", check_clock,
     "set the clock, and let chrony or systemd-timesyncd keep it"},
    {"data", check_data,
     "give the broker a --data that its user can write, on a disk with 1 GiB "
     "free"},
    {"files", check_files,
     "raise the limit (LimitNOFILE= of the unit, ulimit -n); name a folder "
     "that the user can write in TMPDIR"},
    {"seccomp", check_seccomp,
     "a broker serves without its filter of system calls, and says so"},
    {"port", check_port,
     "give another --listen, unless a broker runs here already"},
};

static enum exit_code
run_doctor(const struct arguments *given)
{
    static const char *const verdicts[] = {"ok", "warn", "fail"};
    const struct values *values = given->values;
    enum exit_code code = EXIT_GOOD;

    for (size_t i = 0; i < N_ELEMENTS(checks); i++) {
        char text[2 * PATH_MAX] = "";
        struct buf found;
        enum verdict verdict;
        const char *advice;

        buf_init_fixed(&found, text, sizeof(text));
        verdict = checks[i].run(values, &found);
        buf_add(&found, "", 1);
        advice = verdict == FINE ? NULL : checks[i].advice;
        code = verdict == BAD ? EXIT_FAILED : code;
        if (values->is_json)
            print_values(true, "check:t verdict:t found:t advice:t",
                         checks[i].name, verdicts[verdict], text, advice);
        else {
            printf("%-5s %-13s ", verdicts[verdict], checks[i].name);
            print_plain(text);
            printf("%s%s\n", advice ? ": " : "", advice ? advice : "");
        }
    }
    return code;
}

const struct command doctor_command = {
    .name = "doctor",
    .help = "Says what is missing on this machine to run both programs.",
    .more = "A line for each check: ok, warn or fail, what was found, and, "
            "unless that is well, what to do. Run it as the user of the "
            "broker. 1: a check failed.\n",
    .examples = "tidings doctor\n"
                "tidings doctor --data /var/lib/tidings --json\n",
    .options = OPTION_ROWS(rows),
    .run = run_doctor,
};
