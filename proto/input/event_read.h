/*
 * event_read.h - CloudEvents 1.0 as posts: the reader of EVENT_TYPE, in
 * input_formats.h.
 *
 *     structured, batch    input_reader_feed ... : the event, or an array
 *     binary               event_read_attribute ... , input_reader_feed ... :
 *                          its data
 *
 * The changes are those that the data brings, or one that the attributes
 * describe; each has the attributes as foreign ones.
 */
#pragma once

#include "proto/input/input_formats.h"

#define EVENT_TYPE "application/cloudevents+json"

/* An attribute of the event whose data is the document, for a reader of
 * EVENT_TYPE, before the first byte; the type of the document is
 * "datacontenttype". Copied; an empty value is none. STATUS_INVALID: it cannot
 * be one. */
MUST_CHECK enum status event_read_attribute(struct input_reader *reader,
                                            struct slice name,
                                            struct slice value,
                                            struct problem *why);

/* True if a Content-Type says that the document is a whole event, or several,
 * in whatever format: it is in structured mode. */
bool event_read_is_structured(struct slice content_type);

/* True if a text in JSON is an event, or an array of them: for messages without
 * a media type. */
bool event_read_is_event(struct slice json);
