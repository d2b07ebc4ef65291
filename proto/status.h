/*
 * status.h - the result of a function that may fail.
 *
 * 0 is success. The function that finds a fault writes the reason into a struct
 * problem (problem.h); its callers only pass the status on.
 */
#pragma once

#define MUST_CHECK __attribute__((warn_unused_result))

enum status {
    STATUS_OK = 0,
    STATUS_AGAIN,  /* not without waiting for a disk: ask where that may be */
    STATUS_MEMORY, /* no memory left */
    STATUS_IO,     /* the system refused: a disk, a socket */
    STATUS_MALFORMED,   /* not of the form it claims to be */
    STATUS_INVALID,     /* well-formed, but not acceptable */
    STATUS_TOO_LARGE,   /* over a limit */
    STATUS_UNSUPPORTED, /* a media type, a method or a version nobody here reads
                         */
    STATUS_NOT_FOUND,   /* no such thing */
    STATUS_FORBIDDEN,   /* the client has no right to it */
    STATUS_LATE,        /* it did not come in time */
    STATUS_GONE,        /* it was there, or belongs to another epoch */
    STATUS_BUSY,        /* no room now, later perhaps */
    STATUS_LIMITED,     /* the client has its share; later perhaps */
    STATUS_STOPPED,     /* the process is ending */
    STATUS_RUNNING,     /* the same is being done at this moment: ask again */
    STATUS_CONFLICT,    /* something that is there forbids it */
    STATUS_REFUSED,     /* the other side said no (4xx) */
    STATUS_UNREACHABLE, /* the other side did not answer, or cannot now */
    STATUS_DIFFERENT,   /* the compared things do not agree */
    STATUS_REWOUND,     /* a log lacks entries that it had, or has others */
    STATUS_DENIED       /* the token of the client has ended */
};
