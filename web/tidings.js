/**
 * tidings.js - follows sets of a Tidings broker, in browsers and Node.
 */

/** Most characters of one event; a broker's messages have 16 MiB at most. */
const EVENT_MAX = 32 * 1024 * 1024;

/**
 * Makes a reader of server-sent events (HTML section 9.2.6): a function that takes the next
 * piece of the stream's text, and returns the events that end in it. Where a piece ends does
 * not matter. A block without data is returned if it has an id. Throws a RangeError when an
 * event or a line is longer than `max` characters.
 *
 * @param {number} [max]
 * @returns {(text: string) => {event: string, data?: string, id?: string}[]}
 */
export function eventReader(max = EVENT_MAX) {
    let line = '', afterCr = false, isFirst = true, size = 0;
    let event = '', data = [], id;

    function endOfEvent(events) {
        if (data.length || id !== undefined) {
            const text = data.length ? data.join('\n') : undefined;
            events.push({ event: event || 'message', data: text, id });
        }
        event = '';
        data = [];
        id = undefined;
        size = 0;
    }

    function endOfLine(events) {
        if (!line)
            return endOfEvent(events);
        const colon = line.indexOf(':');
        const name = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (name === 'data')
            data.push(value);
        else if (name === 'event')
            event = value;
        else if (name === 'id' && !value.includes('\0'))
            id = value;
        else
            return; // costs nothing: it is not kept
        size += line.length;
    }

    return text => {
        const events = [];
        if (isFirst && text) {
            text = text.replace(/^\ufeff/, '');
            isFirst = false;
        }
        if (afterCr && text.startsWith('\n'))
            text = text.slice(1);
        afterCr = text ? text.endsWith('\r') : afterCr;
        text.split(/\r\n|\n|\r/).forEach((part, i) => {
            if (i) {
                endOfLine(events);
                line = '';
            }
            line += part;
            if (size + line.length > max)
                throw new RangeError(`an event has more than ${max} characters`);
        });
        return events;
    };
}
