/*
 * libpq.h - the client library of PostgreSQL, loaded where a cluster is
 * configured.
 *
 * It is not linked with the program: it brings GnuTLS, Kerberos and LDAP along,
 * some thirty libraries, and each start of a broker that has no cluster would
 * load and relocate them. Its functions are in a table of their own names:
 * libpq.PQclear(rows).
 *
 * libpq_load belongs to the thread that starts the broker or the command,
 * before there are others. All functions of the table: as libpq says.
 */
#pragma once

#include <libpq-fe.h>

#include "proto/problem.h"

/* Its functions that the broker uses: a line each. */
#define LIBPQ_FUNCTIONS(ROW)  \
    ROW(PQbackendPID)         \
    ROW(PQclear)              \
    ROW(PQconnectPoll)        \
    ROW(PQconnectStartParams) \
    ROW(PQconninfoFree)       \
    ROW(PQconninfoParse)      \
    ROW(PQconsumeInput)       \
    ROW(PQenterPipelineMode)  \
    ROW(PQerrorMessage)       \
    ROW(PQexitPipelineMode)   \
    ROW(PQfinish)             \
    ROW(PQflush)              \
    ROW(PQfreemem)            \
    ROW(PQgetResult)          \
    ROW(PQgetlength)          \
    ROW(PQgetvalue)           \
    ROW(PQhost)               \
    ROW(PQisBusy)             \
    ROW(PQnotifies)           \
    ROW(PQntuples)            \
    ROW(PQparameterStatus)    \
    ROW(PQpipelineSync)       \
    ROW(PQport)               \
    ROW(PQresultErrorField)   \
    ROW(PQresultStatus)       \
    ROW(PQsendPrepare)        \
    ROW(PQsendQueryParams)    \
    ROW(PQsendQueryPrepared)  \
    ROW(PQsetNoticeReceiver)  \
    ROW(PQsetnonblocking)     \
    ROW(PQsocket)             \
    ROW(PQstatus)             \
    ROW(PQtransactionStatus)

#define LIBPQ_MEMBER(name) __typeof__(name) *name;

struct libpq {
    LIBPQ_FUNCTIONS(LIBPQ_MEMBER)
};

/* Set by libpq_load. */
extern struct libpq libpq;

/* Loads libpq; does nothing after the first success. STATUS_UNSUPPORTED: it is
 * not installed, or too old. */
MUST_CHECK enum status libpq_load(struct problem *why);
