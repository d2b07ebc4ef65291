/*
 * vocab.h - ResourceSync's words: namespaces, capabilities, kinds of change,
 * and which attribute may stand where.
 */
#pragma once

#include "proto/problem.h"

#define NS_SITEMAP "http://www.sitemaps.org/schemas/sitemap/0.9"
#define NS_RS      "http://www.openarchives.org/rs/terms/"
#define NS_TIDINGS "urn:tidings:1"
#define NS_XML     "http://www.w3.org/XML/1998/namespace"

#define REL_PATCH "http://www.openarchives.org/rs/terms/patch"

/* no document has more. */
#define DOCUMENT_ENTRIES_MAX 50000
#define DOCUMENT_BYTES_MAX   52428800

/* True for a namespace of a draft of ResourceSync of 2012, whose words mean
 * something else. */
bool namespace_is_draft(struct slice ns);

/* Says so; STATUS_INVALID. */
enum status namespace_refuse_draft(struct slice ns, struct problem *why);

enum change_kind { CHANGE_CREATED, CHANGE_UPDATED, CHANGE_DELETED };

/* "created", "updated", "deleted". */
extern const char *const change_kind_names[];
MUST_CHECK enum status change_kind_of(struct slice name,
                                      enum change_kind *kind);

/* The kind that others mean with a word: in any case, the words of
 * drafts, "delete", "remove". */
MUST_CHECK enum status change_kind_meant(struct slice word,
                                         enum change_kind *kind);

/* One row each in vocab.c. */
enum capability {
    CAP_DESCRIPTION,
    CAP_CAPABILITYLIST,
    CAP_RESOURCELIST,
    CAP_RESOURCEDUMP,
    CAP_RESOURCEDUMP_MANIFEST,
    CAP_CHANGELIST,
    CAP_CHANGEDUMP,
    CAP_CHANGEDUMP_MANIFEST,
    CAP_RESOURCELIST_ARCHIVE,
    CAP_RESOURCEDUMP_ARCHIVE,
    CAP_CHANGELIST_ARCHIVE,
    CAP_CHANGEDUMP_ARCHIVE,
    CAP_CHANGE_NOTIFICATION,
    CAP_FRAMEWORK_NOTIFICATION
};

extern const char *const capability_names[];

/* Also reads the word of Change Notification before 1.0.1 (I-06).
 * STATUS_INVALID: no such capability. */
MUST_CHECK enum status capability_of(struct slice name,
                                     enum capability *capability);

/* */
bool is_changefreq(struct slice text);

/* A Sitemap priority: a decimal from 0.0 to 1.0. */
bool is_priority(struct slice text);

/* type/subtype and parameters. */
bool is_media_type(struct slice text);

/* a registered relation's form, or an absolute URI. */
bool is_relation(struct slice text);

/* A name of XML without a colon: what a prefix or an attribute's name may be.
 */
bool is_ncname(struct slice text);
