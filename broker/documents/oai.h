/*
 * oai.h - a set as a data provider of OAI-PMH 2.0.
 *
 *     GET /sets/demo/oai?verb=ListRecords&metadataPrefix=oai_dc
 *
 *     resource          item; its identifier is the loc
 *     last change       record in oai_dc; the datestamp is its event time
 *     deletion          deleted record
 *     tag               set
 *
 * The records are in a database of their own, which a request brings up to the
 * head of the log before it reads them. So a set that nobody asks for by
 * OAI-PMH has none, and costs nothing; they count as kept by the creator of the
 * set, and go when nobody has asked for a week (RECORDS_FILE).
 *
 *     sets/NAME/oai.db  records: the last change of each resource, by its time
 *
 *     log --oai_fold.sql--> records --oai_answer.sql--> XML
 *
 * Event times of a set grow strictly. So they are keys, and places in a list: a
 * resource that changes while a harvester lists moves to the end of the list,
 * and a resumptionToken never expires.
 *
 * oai.db follows from the log, and is deleted and made again whenever it does
 * not fit to it. What the log no longer has when it is made comes from the
 * state of all resources (broker/state/resources.h), with times just before the
 * first entry that the log still has.
 *
 * A thread that may block.
 */
#pragma once

#include "broker/base/effort.h"
#include "broker/sets/registry.h"

/* The largest form. */
#define OAI_FORM_MAX 16384

/* Appends the answer to the arguments of `form`, also to wrong ones.
 * STATUS_AGAIN: its turn is used up, and the records have come on by some;
 * STATUS_GONE: the set was removed; STATUS_BUSY: ask again. */
MUST_CHECK enum status oai_answer(struct buf *to, struct set *set,
                                  struct slice form, struct effort *effort,
                                  struct problem *why);
