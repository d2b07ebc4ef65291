/*
 * trouble.h - why a watch cannot go on: one sentence.
 */
#ifndef CLIENT_WATCH_TROUBLE_H
#define CLIENT_WATCH_TROUBLE_H

struct trouble {
    char text[1024]; /* printable, "" if there is none */
};

/* Writes the sentence; control characters, of file names perhaps, become '?'.
 * What was written before stays: the first reason is the reason. */
void trouble_set(struct trouble *trouble, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
