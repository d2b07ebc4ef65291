/**
 * A broker that a test plays: it takes the place of fetch(), and of time. A pause is over at
 * once, and the clock stands until the test moves it.
 *
 *     const broker = new FakeBroker(message(0, 3), 502, ...)     an answer for each request
 *     await broker.follow({ position: '0' }, 3)                  takes three changes
 *     broker.requests                                            what was asked
 */
import { createHash } from 'node:crypto';

import { follow } from '../../web/tidings.js';

export const EPOCH = '9f2c5b7d01e4a683';
export const SET = 'http://broker.example/sets/news';

export function entry(seq, more = {}) {
    return { loc: `http://example.com/${seq}`, change: 'created', seq, ...more };
}

/** The message of the changes after `after`, up to `last`. */
export function message(after, last, more = {}) {
    const changes = [];
    for (let seq = after + 1; seq <= last; seq++)
        changes.push(entry(seq));
    return { set: 'news', epoch: EPOCH, after, last, changes, ...more };
}

/** The line of an entry in the log. */
export function lineOf({ loc, change, seq, datetime = '2026-01-01T00:00:00.000000Z' }) {
    return `<url><loc>${loc}</loc><rs:md change="${change}" datetime="${datetime}" td:seq="${seq}"/></url>\n`;
}

const digests = [createHash('sha256').update(EPOCH).digest()];

function addLine(digest, line) {
    return createHash('sha256').update(digest).update(line).digest();
}

/** The digest behind entry `n` of the log that has the entries of message(). */
export function digestAt(n) {
    while (digests.length <= n)
        digests.push(addLine(digests.at(-1), lineOf(entry(digests.length))));
    return digests[n];
}

/** A message in XML, with the digest that it would have in this log. */
export function xmlOf({ set = 'news', epoch, after, last, changes, digest, heartbeat }) {
    const lines = changes.map(lineOf);
    digest ??= `sha-256:${(lines.length ? lines.reduce(addLine, digestAt(after)) : digestAt(last)).toString('hex')}`;
    return '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
        + 'xmlns:rs="http://www.openarchives.org/rs/terms/" xmlns:td="urn:tidings:1">\n'
        + `<rs:ln rel="up" href="http://broker.example/sets/${set}/capabilitylist.xml"/>\n`
        + `<rs:md capability="change-notification" td:epoch="${epoch}" td:after="${after}" td:last="${last}" `
        + `td:digest="${digest}"${heartbeat ? ` td:heartbeat="${heartbeat}"` : ''}/>\n${lines.join('')}</urlset>\n`;
}

/** What a broker sends for a message in JSON to who asks for lines; another text stays as it is. */
function asLines(text) {
    const { changes, last, ...more } = /^\{.*"changes":/.test(text) ? JSON.parse(text) : {};
    return Array.isArray(changes) && Number.isSafeInteger(last) ? xmlOf({ changes, last, ...more }) : text;
}

/** The same for each event of a piece of a stream. */
const eventLines = () => new TransformStream({
    transform(bytes, controller) {
        const text = new TextDecoder().decode(bytes).replace(/^data: (.*)$/gm, (_, data) =>
            asLines(data).trimEnd().replace(/^/gm, 'data: '));
        controller.enqueue(new TextEncoder().encode(text));
    },
});

async function answerInLines(response) {
    const isStream = response.headers.get('Content-Type') === 'text/event-stream';
    if (isStream)
        return new Response(response.body.pipeThrough(eventLines()), response);
    const text = await response.text(), lines = asLines(text);
    return lines === text ? new Response(text, response)
        : new Response(lines, { headers: { 'Content-Type': 'application/xml' } });
}

export function event(name, data) {
    const text = typeof data === 'string' ? data.trimEnd() : JSON.stringify(data);
    return `event: ${name}\n${text.replace(/^/gm, 'data: ')}\n\n`;
}

/** A stream that begins with a heartbeat at `after`, then has these messages or texts, and ends.
 * `isOpen`: it does not end. */
export function stream(after, parts, { isOpen = false, heartbeat = 20 } = {}) {
    const first = event('heartbeat', message(after, after, { heartbeat }));
    const texts = [first, ...parts.map(one => typeof one === 'string' ? one : event('changes', one))];
    return () => eventStream(texts, isOpen);
}

export function eventStream(texts, isOpen, onPull = () => {}) {
    const bytes = texts.map(text => new TextEncoder().encode(text));
    const body = new ReadableStream({
        pull(controller) {
            onPull();
            if (bytes.length)
                controller.enqueue(bytes.shift());
            else if (!isOpen)
                controller.close();
            else
                return new Promise(() => {});
        },
    }, { highWaterMark: 0 });
    return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } });
}

export function json(object, status = 200, headers = {}) {
    return () => new Response(JSON.stringify(object), { status, headers });
}

/** A problem, as the broker answers it. */
export function problem(status, members = {}, headers = {}) {
    return json({ title: 'a problem', status, detail: `status ${status}`, ...members }, status, headers);
}

export class FakeBroker {
    requests = []; // "PATH?QUERY"
    tokens = []; // of the requests
    bodies = [];
    keys = []; // Idempotency-Key of the posts
    states = [];
    sinces = []; // milliseconds since 1970
    pauses = []; // milliseconds
    #real = {};

    /** Answers: a function of the request, or the status of a proxy. */
    constructor(...answers) {
        this.answers = answers;
        this.now = Date.now();
        const put = (object, name, value) => {
            this.#real[name] = [object, object[name]];
            object[name] = value;
        };
        put(globalThis, 'fetch', (url, init) => this.#answer(url, init));
        put(globalThis, 'setInterval', tick => { this.tick = tick; });
        put(globalThis, 'clearInterval', () => {});
        put(globalThis, 'setTimeout', (done, ms) => {
            this.pauses.push(ms);
            queueMicrotask(done);
        });
        put(globalThis, 'clearTimeout', () => {});
        put(Date, 'now', () => this.now);
    }

    end() {
        for (const [name, [object, value]] of Object.entries(this.#real))
            object[name] = value;
    }

    async #answer(url, { headers, signal, body }) {
        const text = String(url).replace('http://broker.example', '').replace('/sets/news', '');
        const wish = /lines=yes&?/;
        this.requests.push(decodeURIComponent(text.replace(wish, '').replace(/[?&]$/, '')));
        this.tokens.push(headers.Authorization);
        this.bodies.push(body);
        if (headers['Idempotency-Key'])
            this.keys.push(headers['Idempotency-Key']);
        const answer = this.answers.shift();
        if (answer === undefined)
            return new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)));
        let response = typeof answer === 'number'
            ? new Response('<html>', { status: answer }) : await answer(url, headers);
        if (wish.test(text) || headers.Accept === 'application/xml')
            response = await answerInLines(response);
        return new Response(response.body.pipeThrough(new TransformStream(), { signal }), response);
    }

    /** Moves the clock, and has it looked at. */
    pass(ms) {
        this.now += ms;
        this.tick();
    }

    /** Follows until `n` changes were taken; their seqs. Then the loop breaks. */
    async follow(options, n, source = SET) {
        const seqs = [];
        const onState = ({ state, since }) => {
            this.states.push(state);
            this.sinces.push(since.getTime());
        };
        if (n === 0)
            return seqs;
        for await (const change of follow(source, { onState, ...options })) {
            seqs.push(change.seq);
            if (seqs.length === n)
                break;
        }
        return seqs;
    }
}
