/**
 * tidings.js - follows sets of a Tidings broker, in browsers and in Node 18 and later: each
 * change once, in order. It also posts changes: each once.
 *
 *     for await (const change of follow('/sets/news', { store: localStorage }))
 *         console.log(change.change, change.loc);
 *     await publish('/sets/news', { loc: 'https://example.com/a', change: 'updated' });
 *
 *     event or page --> does it begin at the position? --yes--> yield --> store the position
 *                           |              |
 *                           gap            position gone
 *                           v              v
 *                     change memory     Change Lists, else onGone
 *
 * The module reads the next piece of an answer when the consumer asks for more. So a slow consumer
 * holds the connection back, and memory has one piece and one message. Every byte may come from a
 * hostile server: an event, a page and a line have a largest size, and anything that a broker
 * would not send counts as a lost connection.
 */

const EVENT_MAX = 32 << 20; // characters; a broker's messages have 16 MiB at most
const PAGE_MAX = 64 << 20; // characters of an answer in JSON
const LINE_MAX = 4 << 20; // characters of a line in a Change List
const LISTS_MAX = 100_000; // Change Lists between a position and the newest
const LIST_BATCH = 1000; // entries of a message that is made of a Change List

const PAUSE_MS = 1000; // before the second attempt; twice that before each further one
const PAUSE_MAX_MS = 30_000;
const PAUSE_MIN_MS = 500; // whatever the server says
const RETRY_MAX_MS = 3_600_000; // longest pause that a server may ask for
const TICK_MS = 1000; // how often silence is looked at
const LIVE_MS = 1000; // a connection that is silent for so long has nothing more to send
const ANSWER_MS = 30_000; // longest silence before an answer has begun
const FIRST_EVENT_MS = 10_000; // later a proxy holds events back
const HEARTBEAT_MS = 20_000; // until the broker has said how often it sends one
const POLL_S = 45; // proxies often end a request after 60
const POLL_PAUSE_MS = 5000; // between polls of several sets
const GROUP_MAX = 2000; // sets of one connection: the broker takes 256 KB of names
const URL_MAX = 6000; // a broker takes 8,192 characters
const EVENTS = 'text/event-stream';

const CHECK_MS = 300_000; // between two looks at the checkpoint of a set
const HELD_MS = 1000; // between two while changes wait for it; longer each time
const APART_MAX = 4; // sets with a key that have a connection each: browsers open six to a server
const TILES_KEPT = 64;
const OLDER_PAUSE_MS = 2_000; // before another connection, after an older checkpoint
const AHEAD_MAX_S = 300; // of the time of a checkpoint: two clocks differ
const NOTE_MAX = 163_840; // characters of a checkpoint
const TILE_WIDTH = 256; // hashes of a full tile

const PATIENCE_MS = 60_000; // no attempt of a post begins later
const PATIENCE_MAX_MS = 12 * 3_600_000; // the broker keeps a key for 24 hours
const POST_RATE = 10; // bytes of a post that leave in a millisecond, at least

/**
 * The end of a set, or of all. `code` is "gone" (the broker cannot serve the position: `earliest`
 * and `last` are positions that it can serve, `restart` is the URL of the set's Capability List),
 * "rewound" (the log lost entries that have come, or has others), "removed", "unknown" (there is no such set, or the reader may not know of it), "denied" or
 * "refused" (`status` says more). Of a post also "unreachable".
 */
export class TidingsError extends Error {
    constructor(code, message, members) {
        super(message);
        this.name = 'TidingsError';
        this.code = code;
        Object.assign(this, members);
    }
}

/**
 * A checkpoint that cannot be believed. `fault` is "malformed", "origin" (it is of another log),
 * "signature", "witnesses" (too few, or wrong), "smaller" (than the one before, and later), "root"
 * (another root of the same size), "inconsistent" (its tree does not continue the one before) or
 * "digest" (its tree has another history at the position). `evidence`: the texts that contradict
 * each other; joined by "\n" they convince whoever has the verifier key (`tidings verify`).
 */
export class CheckpointError extends TidingsError {
    constructor(fault, message, ...evidence) {
        super('checkpoint', message, { fault, evidence });
        this.name = 'CheckpointError';
    }
}

/** A connection that has failed: there will be another one, after `pause` milliseconds at least. */
class Lost extends Error {
    constructor(message, pause = 0) {
        super(message);
        this.pause = pause;
    }
}

class Silence extends Lost {}

/* Server-sent events */

/**
 * Reads server-sent events (HTML section 9.2.6) as their text arrives, wherever a piece of it
 * ends.
 */
export class EventReader {
    #max;
    #line = '';
    #isAfterCr = false;
    #isFirst = true;
    #event = '';
    #data = [];
    #id;

    /** The milliseconds of the last `retry` field. */
    retry;

    /** Characters kept of an event that has not ended. */
    size = 0;

    /** @param {number} [max] characters of the largest event or line */
    constructor(max = EVENT_MAX) {
        this.#max = max;
    }

    /**
     * Takes the next piece, and returns the events that end in it. A block without data is one
     * if it has an id. Throws a RangeError if an event or a line is too long.
     *
     * @param {string} text
     * @returns {{event: string, data?: string, id?: string}[]}
     */
    push(text) {
        const events = [];
        if (!text)
            return events;
        if (this.#isFirst)
            text = text.replace(/^\ufeff/, '');
        this.#isFirst = false;
        if (this.#isAfterCr && text.startsWith('\n'))
            text = text.slice(1);
        this.#isAfterCr = text ? text.endsWith('\r') : false;
        text.split(/\r\n|\n|\r/).forEach((part, i) => {
            if (i)
                this.#endLine(events);
            this.#line += part;
            if (this.size + this.#line.length > this.#max)
                throw new RangeError(`an event has more than ${this.#max} characters`);
        });
        return events;
    }

    #endLine(events) {
        const line = this.#line;
        this.#line = '';
        if (!line)
            return this.#endEvent(events);
        const colon = line.indexOf(':');
        const name = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (name === 'data') {
            this.#data.push(value);
            this.size += line.length;
        } else if (name === 'event') {
            this.#event = value;
        } else if (name === 'id' && !value.includes('\0')) {
            this.#id = value;
        } else if (name === 'retry' && /^\d+$/.test(value)) {
            this.retry = Number(value);
        }
    }

    #endEvent(events) {
        const data = this.#data.length ? this.#data.join('\n') : undefined;
        if (data !== undefined || this.#id !== undefined)
            events.push({ event: this.#event || 'message', data, id: this.#id });
        this.#event = '';
        this.#data = [];
        this.#id = undefined;
        this.size = 0;
    }
}

/* Positions and messages */

const POSITION = /^(?:([0-9a-f]{1,64})-)?(\d{1,15})$/;

function positionOf(text) {
    const [, epoch, seq] = POSITION.exec(text) ?? [];
    if (seq === undefined)
        throw new TypeError(`"${text}" is no position`);
    return { epoch, seq: Number(seq) };
}

function positionText({ epoch, seq }) {
    return epoch ? `${epoch}-${seq}` : `${seq}`;
}

/**
 * Checks that the entries of a message follow each other from `after` to `last`; of a filtered
 * one, that they lie in between and in order.
 */
export function isWhole(message, isFiltered) {
    const isSeq = n => Number.isSafeInteger(n) && n >= 0;
    if (!/^[0-9a-f]{1,64}$/.test(message?.epoch) || !isSeq(message.after) ||
        !isSeq(message.last) || !Array.isArray(message.changes))
        return false;
    let seq = message.after;
    for (const change of message.changes) {
        if (!isSeq(change?.seq) || !(isFiltered ? change.seq > seq : change.seq === seq + 1))
            return false;
        seq = change.seq;
    }
    return isFiltered ? seq <= message.last : seq === message.last;
}

/**
 * Returns the part of a message that comes after the position: all of it, its end, or null if it
 * has nothing new. "gap": there are changes in between. "epoch": it is of another log.
 *
 * @param {{epoch?: string, seq: number} | undefined} position undefined: the message begins it
 */
export function newsOf(message, position) {
    if (!position)
        return message;
    if (position.epoch && position.epoch !== message.epoch)
        return 'epoch';
    if (message.after > position.seq)
        return 'gap';
    if (message.last < position.seq || (message.last === position.seq && position.epoch))
        return null;
    if (message.after === position.seq)
        return message;
    const changes = message.changes.filter(change => change.seq > position.seq);
    return { ...message, after: position.seq, changes };
}

/* Change Lists and messages in XML, as a broker writes them: an entry a line. Anything else is refused. */

const ATTRIBUTES = '(?: [^\\s="<>]+="[^"<]*")';
const STAMP = ' change="(?:created|updated|deleted)" datetime="\\d{4}(?:-\\d\\d){2}T[\\d:]{8}\\.\\d{6}Z"'
    + ' td:seq="\\d{1,15}"';
const ENTRY = new RegExp(
    '^<url><loc>([^<]+)</loc>(?:<lastmod>([^<]*)</lastmod>)?' +
    '(?:<changefreq>([^<]*)</changefreq>)?(?:<priority>([^<]*)</priority>)?' +
    `<rs:md(${STAMP}${ATTRIBUTES}*)/>((?:<rs:ln${ATTRIBUTES}+/>)*)` +
    ['title', 'summary', 'author', 'data'].map(name => `(?:<td:${name}>([^<]*)</td:${name}>)?`)
        .join('') + '</url>$');
const LINK = new RegExp(`<rs:ln(${ATTRIBUTES}+)/>`, 'g');
const ESCAPES = { __proto__: null, amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function unescapeXml(text) {
    return text.replace(/&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(\w+));|&/g, (all, ten, hex, name) => {
        if (name in ESCAPES)
            return ESCAPES[name];
        const code = parseInt(ten ?? hex, ten ? 10 : 16);
        if (!(code <= 0x10ffff))
            throw new Lost(`"${all}" is no reference`);
        return String.fromCodePoint(code);
    });
}

function attributesOf(text) {
    const found = new Map();
    for (const [, name, value] of text.matchAll(/ ([^\s="<>]+)="([^"<]*)"/g)) {
        if (found.has(name))
            throw new Lost(`an element has two attributes ${name}`);
        found.set(name, unescapeXml(value));
    }
    return found;
}

/** Moves attributes to members of the JSON form; those of foreign namespaces to `attributes`. */
function describe(to, found, own) {
    const foreign = [];
    for (const [name, value] of found) {
        const [prefix, local] = name.split(':');
        if (name === 'hash')
            to.hash = Object.fromEntries(value.split(' ').map(one => one.split(/:(.*)/, 2)));
        else if (name === 'length' || name === 'pri')
            to[name] = Number(value);
        else if (name === 'td:tags')
            to.tags = value.split(' ');
        else if (name === 'td:seq')
            to.seq = Number(value);
        else if (name === 'td:datetime')
            to.sourceDatetime = value;
        else if (name === 'td:traceparent')
            to.traceparent = value;
        else if (own.includes(name))
            to[name] = value;
        else if (local && prefix !== 'xmlns' && prefix !== 'td')
            foreign.push({
                ns: prefix === 'xml' ? 'http://www.w3.org/XML/1998/namespace'
                    : found.get(`xmlns:${prefix}`),
                name: local, value,
            });
    }
    if (foreign.length)
        to.attributes = foreign;
    return to;
}

const LINES = new WeakMap(); // of entries: what they were read from

/**
 * Reads an entry of a Change List or of a message, and returns it in the JSON form. Throws if it is
 * not what a broker writes.
 *
 * @param {string} line from `<url>` to `</url>`
 */
export function entryOf(line) {
    const [, loc, lastmod, changefreq, priority, md, links, title, summary, author, data] =
        ENTRY.exec(line) ?? [];
    if (!loc)
        throw new Lost('an entry is malformed');
    const entry = { loc: unescapeXml(loc) };
    const texts = { lastmod, changefreq, priority, title, summary, author };
    for (const [name, value] of Object.entries(texts))
        if (value)
            entry[name] = unescapeXml(value);
    describe(entry, attributesOf(md), ['change', 'datetime', 'type', 'encoding']);
    if (links)
        entry.links = [...links.matchAll(LINK)].map(([, found]) =>
            describe({}, attributesOf(found), ['rel', 'href', 'modified', 'type', 'encoding']));
    if (data)
        entry.data = orLost(() => JSON.parse(unescapeXml(data)), 'the data of an entry is no JSON: ');
    LINES.set(entry, line);
    return entry;
}

const HEAD = new RegExp('^<\\?xml version="1\\.0" encoding="UTF-8"\\?>\\n' +
    '<urlset xmlns="http://www\\.sitemaps\\.org/schemas/sitemap/0\\.9" ' +
    'xmlns:rs="http://www\\.openarchives\\.org/rs/terms/" xmlns:td="urn:tidings:1">\\n' +
    `((?:<rs:ln${ATTRIBUTES}+/>\\n)*)<rs:md(${ATTRIBUTES}+)/>\\n`);
const FOOT = '</urlset>\n';

/** Reads a message in XML: a head, and then nothing but entries. The link to the Capability List names
 * its set. */
function messageOf(text) {
    const [head, links, md] = HEAD.exec(text) ?? [];
    const found = attributesOf(md ?? '');
    if (!text.endsWith(FOOT) || found.get('capability') !== 'change-notification')
        throw new Lost('it is no Change Notification');
    const [after, last] = ['td:after', 'td:last'].map(name =>
        /^\d{1,15}$/.test(found.get(name)) ? Number(found.get(name)) : NaN);
    const lines = text.slice(head.length, -FOOT.length).split('\n');
    if (lines.pop())
        throw new Lost('it ends within an entry');
    const digest = found.get('td:digest');
    if (!digestBytes(digest))
        throw new Lost('it has no digest');
    const [up] = [...(links ?? '').matchAll(LINK)].map(([, link]) => attributesOf(link))
        .filter(link => link.get('rel') === 'up');
    return {
        set: /([^/]+)\/capabilitylist\.xml$/.exec(up?.get('href'))?.[1],
        epoch: found.get('td:epoch'), after, last, digest, changes: lines.map(entryOf),
        heartbeat: Number(found.get('td:heartbeat')),
    };
}

/** Returns the entries that pass the filter, as the broker would judge and send them. */
export function select(entries, filter) {
    const passing = entries.filter(entry => passes(entry, filter));
    return filter.data?.length ? passing.map(({ data: _, ...entry }) => entry) : passing;
}

/** True if the entry passes the filter, as the broker would judge it. */
export function passes(entry, filter) {
    const some = (name, test) => !filter[name]?.length || filter[name].some(test);
    const type = (entry.type ?? '').split(';')[0].trim().toLowerCase();
    return some('change', value => value === entry.change) &&
        some('prefix', value => entry.loc.startsWith(value)) &&
        some('type', value => value === '*/*' ? type !== '' : value.endsWith('/*')
            ? type.startsWith(value.slice(0, -1).toLowerCase()) : type === value.toLowerCase()) &&
        some('tag', value => entry.tags?.includes(value));
}

/* Checkpoints: signed notes, trees and proofs of transparency logs (C2SP) */

function bytesOf(...parts) {
    const all = parts.map(part => typeof part === 'string' ? new TextEncoder().encode(part) : part);
    const bytes = new Uint8Array(all.reduce((size, part) => size + part.length, 0));
    all.reduce((at, part) => (bytes.set(part, at), at + part.length), 0);
    return bytes;
}

function fromHex(text) {
    return text.match(/../g).map(two => parseInt(two, 16));
}

function toHex(bytes) {
    return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
}

/** The digest of a log, as messages have it. */
function digestText(bytes) {
    return bytes && `sha-256:${toHex(bytes)}`;
}

/** Its bytes, or undefined. */
function digestBytes(text) {
    const [, hex] = /^sha-256:([0-9a-f]{64})$/.exec(text) ?? [];
    return hex && fromHex(hex);
}

/** Bytes of base64 in its one form, if there are so many; else undefined. */
function fromBase64(text, size) {
    const bytes = /^[\w+/]+={0,2}$/.test(text) && text.length % 4 === 0
        ? Uint8Array.from(atob(text), character => character.charCodeAt(0)) : [];
    return bytes.length === size && btoa(String.fromCharCode(...bytes)) === text ? bytes : undefined;
}

/** A line of a proof. */
function toLine(hash) {
    return `${btoa(String.fromCharCode(...hash))}\n`;
}

function isSame(one, other) {
    return one.join() === other.join();
}

function subtle() {
    if (!globalThis.crypto?.subtle)
        throw new DOMException('there is no WebCrypto, which pages have by https alone', 'NotSupportedError');
    return globalThis.crypto.subtle;
}

/* A hash of WebCrypto costs Node 40 to 60 us, most of it for the promise; one of its own 3. */
const NODE_CRYPTO = globalThis.process?.getBuiltinModule?.('node:crypto');

async function sha256(...parts) {
    const bytes = bytesOf(...parts);
    return new Uint8Array(NODE_CRYPTO ? NODE_CRYPTO.createHash('sha256').update(bytes).digest()
        : await subtle().digest('SHA-256', bytes));
}

async function keyOf(name, kind, publicKey) {
    return { name, kind, publicKey, id: (await sha256(name, '\n', [kind], publicKey)).slice(0, 4) };
}

/** Reads a verifier key, NAME+HEX+BASE64: of kind 1 (of a log), or 4 (of a witness). */
export async function readVerifierKey(text) {
    const [, name, id, base64] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/.exec(text.trim()) ?? [];
    const bytes = fromBase64(base64 ?? '', 33);
    const key = (bytes?.[0] === 1 || bytes?.[0] === 4) && await keyOf(name, bytes[0], bytes.slice(1));
    if (!key || !isSame(key.id, fromHex(id)))
        throw new TypeError(`"${text}" is no verifier key of Ed25519, NAME+HEX+BASE64, or was altered`);
    return key;
}

/** The lines of keys: of a text, or of several. "#" begins a comment. Throws if keys are wanted and
 * there is none, or an empty text would turn the checks off. */
function linesOfKeys(texts, option) {
    const lines = [texts ?? []].flat().flatMap(text => text.split('\n')).filter(line => /^\s*[^\s#]/.test(line));
    if (texts !== undefined && lines.length === 0)
        throw new TypeError(`${option} has no key`);
    return lines;
}

function readKeys(texts, option) {
    return Promise.all(linesOfKeys(texts, option).map(readVerifierKey));
}

const SIGNATURES = /^(\u2014 \S+ [A-Za-z\d+/=]{8,}\n)*$/;

/** Reads a signed note. Checks no signature. */
export function readNote(text) {
    const gap = text.lastIndexOf('\n\n');
    if (gap < 0 || text.length > NOTE_MAX || !SIGNATURES.test(text.slice(gap + 2)) || /[\0-\x09\x0b-\x1f]/.test(text))
        throw new CheckpointError('malformed', 'it is no signed note', text);
    return { text, body: text.slice(0, gap + 1), signatures: text.slice(gap + 2) };
}

/** Reads a checkpoint: its origin, size and root. Looks at no signature. */
export function readCheckpoint(text) {
    const note = readNote(text);
    const [origin, size, base64] = note.body.split('\n');
    const root = fromBase64(base64 ?? '', 32);
    if (!origin || !/^(0|[1-9]\d{0,14})$/.test(size) || !root)
        throw new CheckpointError('malformed', 'it is no checkpoint: an origin, a size and a root', text);
    return { ...note, origin, size: Number(size), root };
}

/** Checks the signature of a key. Returns the time of a cosignature, 0 of another signature, and
 * undefined if the note has none of this key. Throws if it is wrong. */
export async function checkSignature(note, key) {
    const start = key.kind === 4 ? 12 : 4;
    for (const line of note.signatures.split('\n')) {
        const [, name, base64] = /^\u2014 (\S+) (\S+)$/.exec(line) ?? [];
        const bytes = name === key.name && fromBase64(base64, start + 64);
        if (!bytes || !isSame(bytes.slice(0, 4), key.id))
            continue;
        const time = key.kind === 4 ? new DataView(bytes.buffer).getBigUint64(4) : 0;
        const body = key.kind === 4 ? `cosignature/v1\ntime ${time}\n${note.body}` : note.body;
        const used = await subtle().importKey('raw', key.publicKey, 'Ed25519', false, ['verify']);
        if (!await subtle().verify('Ed25519', used, bytes.slice(start), bytesOf(body)))
            throw new CheckpointError(note.body.startsWith(`${name}\n`) ? 'signature' : 'witnesses',
                `the signature of ${name} is wrong`, note.text);
        return Number(time);
    }
}

/** Demands that a key with the name of the origin has signed the checkpoint and its time, and that so many
 * witnesses have cosigned it. Where Ed25519 is missing, `unchecked` says so. */
export async function checkCheckpoint(checkpoint, { verifierKey, witnesses, requireWitnesses }) {
    const { origin, text } = checkpoint;
    const times = [], cosigned = new Set(), known = new Set();
    try {
        for (const { name, publicKey } of await readKeys(verifierKey, 'verifierKey'))
            if (name === origin && await checkSignature(checkpoint, await keyOf(name, 1, publicKey)) !== undefined) {
                const one = origin.replace(/(?:\/[^/]+){3}$/, ''); // the cosigner of all sets; before, each was one
                times.push(await checkSignature(checkpoint, await keyOf(one, 4, publicKey))
                    ?? await checkSignature(checkpoint, await keyOf(name, 4, publicKey)));
            }
        for (const key of await readKeys(witnesses, 'witnesses')) { // who holds a key counts once
            known.add(key.publicKey.join());
            if (await checkSignature(checkpoint, key) !== undefined)
                cosigned.add(key.publicKey.join());
        }
    } catch (error) {
        if (error.name !== 'NotSupportedError')
            throw error;
        const unchecked = `the signature of ${origin} was NOT checked: ${error.message}`;
        return { isSigned: false, witnesses: 0, unchecked };
    }
    const [time] = times, required = requireWitnesses ?? known.size;
    if (times.length === 0)
        throw new CheckpointError('signature', `no key with the name ${origin} has signed it`, text);
    if (time === undefined) // a line may have been cut off
        throw new CheckpointError('signature', `the key of ${origin} has signed no time`, text);
    if (time > Date.now() / 1000 + AHEAD_MAX_S)
        throw new CheckpointError('signature', `it is dated ${time - Math.floor(Date.now() / 1000)} s ahead`, text);
    if (cosigned.size < required)
        throw new CheckpointError('witnesses', `${cosigned.size} of ${required} witnesses have cosigned it`, text);
    return { isSigned: true, witnesses: cosigned.size, time };
}

const PROOF = /^c2sp\.org\/tlog-proof@v1\n(?:extra .+\n)?index (0|[1-9]\d{0,14})\n((?:.+\n)*)\n([^]*)$/;

/** Reads the proof of an entry (tlog-proof). Checks nothing. */
export function readProof(text) {
    const [, index, lines, note] = PROOF.exec(text) ?? [];
    const hashes = lines?.split('\n').slice(0, -1).map(line => fromBase64(line, 32));
    if (!hashes?.every(hash => hash))
        throw new CheckpointError('malformed', 'it is no proof of an entry', text);
    return { index: Number(index), hashes, checkpoint: readCheckpoint(note) };
}

function node(left, right) {
    return sha256([1], left, right);
}

/** The largest power of two that is less than n. */
function splitOf(n) {
    let half = 1;
    while (half * 2 < n)
        half *= 2;
    return half;
}

/** Climbs from a subtree, whose leaves end with `to`, to the tree of [begin, end): returns the
 * roots of its leaves up to `to`, and of all. `next` gives the hash beside. */
async function climb(hash, from, to, begin, end, next) {
    if (begin === from && end === to)
        return [hash, hash];
    const middle = begin + splitOf(end - begin), isLeft = to <= middle;
    const [one, all] = await climb(hash, from, to, isLeft ? begin : middle, isLeft ? middle : end, next);
    const beside = await (isLeft ? next(middle, end) : next(begin, middle));
    return isLeft ? [one, await node(all, beside)] : [await node(beside, one), await node(beside, all)];
}

/** Demands that the way was used up. `way`: hashes of a proof, or tilesOf(). */
async function along(way, check) {
    const rest = Array.isArray(way) ? [...way] : [];
    return await check(Array.isArray(way) ? () => rest.shift() ?? [] : way) && !rest.length;
}

/** True if the tree has the digest as its leaf `index`. `way`: hashes of a proof, or tilesOf(). */
export function isIncluded(digest, index, { size, root }, way) {
    return along(way, async next => index < size && isSame(root,
        (await climb(await sha256([0], digest), index, index + 1, 0, size, next))[1]));
}

/** True if the tree continues that of the earlier checkpoint. `way` as above. */
export function isContinued(earlier, { size, root }, way) {
    const { size: n } = earlier;
    let last = 1; // leaves of the last full subtree of the earlier tree
    while (n > 0 && n % (last * 2) === 0)
        last *= 2;
    return along(way, async next => {
        if (n === 0 || n >= size)
            return n === 0 || (n === size && isSame(earlier.root, root));
        const hash = last === n ? earlier.root : await next(n - last, n);
        const [one, all] = await climb(hash, n - last, n, 0, size, next);
        return isSame(one, earlier.root) && isSame(all, root);
    });
}

/** Makes a way of the tiles of a checkpoint's tree (tlog-tiles). `read(path)`: the bytes of a tile;
 * where it has no partial tile, the full one is read. */
export function tilesOf({ size }, read) {
    const tiles = new Map();
    const hashAt = async (level, at) => {
        const number = Math.floor(at / TILE_WIDTH), first = number * TILE_WIDTH;
        const width = Math.floor(size / TILE_WIDTH ** level) - first;
        const digits = `${number}`.padStart(Math.ceil(`${number}`.length / 3) * 3, '0');
        const path = `${level}/${digits.replace(/\d{3}(?=\d)/g, 'x$&/')}`;
        if (!tiles.has(path))
            tiles.set(path, width >= TILE_WIDTH ? await read(path)
                : await read(`${path}.p/${width}`).catch(error => read(path).catch(() => {
                    throw error;
                })));
        return tiles.get(path).slice((at - first) * 32, (at - first + 1) * 32);
    };
    return async function next(begin, end) {
        let n = end - begin, level = 0;
        for (; n % TILE_WIDTH === 0; n /= TILE_WIDTH)
            level++;
        const middle = begin + splitOf(end - begin);
        return n === 1 ? hashAt(level, begin / TILE_WIDTH ** level)
            : node(await next(begin, middle), await next(middle, end));
    };
}

/** Demands of a checkpoint that it continues the one before, if there is one, and that its tree has
 * the digest at the position, if it is so large. `read` as of tilesOf(). */
export async function checkProgress(before, checkpoint, { epoch, seq }, digest, read) {
    const { origin, size, text, root } = checkpoint;
    const kept = before?.origin === origin ? before : { size: 0, root };
    const tiles = tilesOf(checkpoint, read);
    const demand = (holds, fault, message, ...evidence) => {
        if (!holds)
            throw new CheckpointError(fault, `${origin}: ${message}`, ...evidence, text);
    };
    demand(origin.endsWith(`/${epoch}`), 'origin', `the log is ${epoch}`);
    demand(size >= kept.size, 'smaller', `it had ${kept.size} entries, and has ${size}`, kept.text);
    demand(size > kept.size || isSame(kept.root, root), 'root', `it has two roots of ${size} entries`, kept.text);
    if (!globalThis.crypto?.subtle)
        return;
    // Tiles that lead to no other tree contradict nothing: they come from a cache, or a broken disk.
    // Where they do, what the tree has instead, and the way from there to its root, convince others.
    const accuse = async (instead, leads, fault, message, earlier) => {
        const way = [];
        const noted = async (begin, end) => way[way.push(await tiles(begin, end)) - 1];
        if (!await leads(instead, noted))
            throw new Lost(`the tiles of ${origin} do not lead to its root`, OLDER_PAUSE_MS);
        const proof = `${toLine(instead)}\n${way.map(toLine).join('')}\n`;
        throw new CheckpointError(fault, `${origin}: ${message}`, earlier, text, proof);
    };
    if (!await isContinued(kept, checkpoint, tiles))
        await accuse(await tiles(0, kept.size), (own, way) => isContinued({ ...kept, root: own }, checkpoint, way),
            'inconsistent', `its ${size} entries do not continue the first ${kept.size}`, kept.text);
    const bytes = digestBytes(digest);
    if (bytes && seq > 0 && seq <= size && !await isIncluded(bytes, seq - 1, checkpoint, tiles))
        await accuse(await tiles(seq - 1, seq),
            (own, way) => climb(own, seq - 1, seq, 0, size, way).then(([, all]) => isSame(root, all)),
            'digest', `its entry ${seq} is not the one that came`, `${epoch}-${seq} ${digest}\n`);
}

/* Where positions are kept */

/**
 * Makes a store of positions in IndexedDB, for `options.store`.
 *
 * @param {string} [name] of the database
 */
export function indexedDBStore(name = 'tidings') {
    let opened;
    const open = () => opened ??= new Promise((done, fail) => {
        const request = indexedDB.open(name, 1);
        request.onupgradeneeded = () => request.result.createObjectStore('positions');
        request.onsuccess = () => done(request.result);
        request.onerror = () => fail(request.error);
    });
    const run = async (mode, use) => {
        const transaction = (await open()).transaction('positions', mode);
        const request = use(transaction.objectStore('positions'));
        return new Promise((done, fail) => {
            transaction.oncomplete = () => done(request.result);
            transaction.onabort = () => fail(transaction.error);
        });
    };
    return {
        get: key => run('readonly', positions => positions.get(key)),
        set: (key, position) => run('readwrite', positions => positions.put(position, key)),
    };
}

function storeOf(store) {
    if (!store || store.get)
        return store;
    return { // a Storage
        get: key => store.getItem(key),
        set: (key, position) => store.setItem(key, position),
    };
}

/* Connections */

/**
 * The connection of one source, over all of its attempts: its state, its pauses, and how long it
 * has been silent.
 *
 *     connecting --> catching up --> live
 *                      ^    |         |
 *                      |    v         |
 *                      +- stale <-----+
 */
class Link {
    state = 'connecting';
    since = new Date(Date.now());
    heard = this.since; // when the last message came
    heartbeat = HEARTBEAT_MS;
    isPolling = false; // server-sent events do not come through
    failures = 0; // since the last message
    retry = PAUSE_MS;
    #from = 0; // since when an answer is waited for; 0: the consumer is at work
    #quiet = 0; // milliseconds of waiting before that, since the last message
    #limit = 0;
    #isNews = false; // silence means that there is no news
    #controller = null;
    #report;

    constructor(report) {
        this.#report = report;
    }

    /** Begins an attempt. */
    begin() {
        this.#controller = new AbortController();
        this.ended = new Promise((_, fail) =>
            this.signal.addEventListener('abort', () => fail(this.signal.reason)));
        this.ended.catch(() => {});
        this.allow(ANSWER_MS);
    }

    get signal() {
        return this.#controller.signal;
    }

    /** Sets the silence that is allowed from now on, in milliseconds, and whether it means that
     * there is no news. */
    allow(ms, isNews = false) {
        this.#quiet = 0;
        this.#limit = ms;
        this.#isNews = isNews;
    }

    /** Ends the attempt. */
    abort(reason) {
        this.#controller?.abort(reason);
    }

    /** Waits for something of the server. */
    async wait(promise) {
        this.#from = Date.now();
        try {
            return await promise;
        } catch (error) {
            throw this.signal.aborted ? this.signal.reason : new Lost(error.message);
        } finally {
            this.#quiet += Date.now() - this.#from;
            this.#from = 0;
        }
    }

    /** Looks at the clock: after the sleep of a machine, much time has passed. */
    tick() {
        const quiet = this.#quiet + Date.now() - this.#from;
        if (!this.#from)
            return;
        if (quiet > this.#limit)
            this.abort(new Silence(`nothing came for ${Math.round(quiet / 1000)} seconds`));
        else if (quiet >= LIVE_MS && this.#isNews && this.state === 'catching up')
            this.enter('live');
    }

    /** Notes that bytes of use have come. */
    progress() {
        this.#quiet = 0;
    }

    /** Notes that a message has come. */
    came() {
        this.progress();
        this.heard = new Date(Date.now());
        this.failures = 0;
        if (this.state !== 'live')
            this.enter('catching up');
    }

    /** Notes that the attempt has failed; returns how long to wait before the next one. */
    failed(error) {
        this.abort(error);
        if (this.state === 'live' || this.state === 'catching up')
            this.enter('stale', error);
        else
            this.#report(this, error);
        const most = Math.min(this.retry * 2 ** this.failures++, PAUSE_MAX_MS);
        return Math.max(error.pause ?? 0, most * (0.5 + Math.random() / 2));
    }

    enter(state, error) {
        if (state === this.state)
            return;
        this.state = state;
        this.since = state === 'stale' ? this.heard : new Date(Date.now());
        this.#report(this, error);
    }
}

const KEY = /^[!-~]{1,255}$/;

/** Makes a key that no other post has. Node 18 has no global `crypto`. */
function newKey() {
    const bytes = globalThis.crypto?.getRandomValues?.(new Uint8Array(16))
        ?? Uint8Array.from({ length: 16 }, () => Math.random() * 256);
    return toHex(bytes);
}

/** Milliseconds that a Retry-After asks for. */
function retryAfter(answer) {
    const text = answer.headers.get('Retry-After') ?? '';
    const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
    return ms > 0 ? Math.min(ms, RETRY_MAX_MS) : 0;
}

/* Of a filter that the broker does not see. */
const FILTERS = { change: /^(created|updated|deleted)$/, type: /^[^/]+\/[^/]+$/, data: /^no$/ };

/* Of several links, the worst one speaks for all. */
const STATES = ['stale', 'connecting', 'catching up', 'live'];

/** Everything of one call of follow() or publish(). */
class Following {
    #options;
    #filter = {};
    #sets;
    #links = [];
    #store;
    #storeError;
    #end = new AbortController();
    #token; // what the function for the token returned
    #asking; // its promise, until it has returned
    #told = '';

    constructor(source, options) {
        this.#options = options;
        for (const name of ['change', 'prefix', 'type', 'tag', 'data'])
            if (options.filter?.[name] !== undefined)
                this.#filter[name] = [options.filter[name]].flat();
        const sets = [source].flat().flatMap(one => {
            const url = new URL(one, globalThis.location?.href);
            url.search = url.hash = '';
            if (options.sets)
                return options.sets.map(name => ({ url: new URL(`sets/${name}`, url).href, name }));
            return [{ url: url.href.replace(/\/$/, ''), name: url.pathname.split('/').pop() }];
        });
        this.#sets = [...new Map(sets.map(set => [set.url, set])).values()]; // each once
        this.#store = storeOf(options.store);
        linesOfKeys(options.verifierKey, 'verifierKey');
        linesOfKeys(options.witnesses, 'witnesses');
        if (options.verifierKey === undefined && (options.witnesses ?? options.requireWitnesses) !== undefined)
            throw new TypeError('witnesses cosign what a verifierKey signs, and there is none');
        for (const [name, form] of Object.entries(this.#hasKey ? FILTERS : {}))
            for (const value of this.#filter[name] ?? [])
                if (!form.test(value))
                    throw new TypeError(`"${value}" is no ${name} of a filter`);
    }

    /** With a key nothing counts but lines of the log that are in the signed tree. */
    get #hasKey() {
        return this.#options.verifierKey !== undefined;
    }

    /** True if the broker filters. With a key the reader does: the digest covers all lines. */
    get #isFiltered() {
        return !this.#hasKey && Object.keys(this.#filter).length > 0;
    }

    /** True if entries come as lines of the log, and each is hashed. */
    get #hasLines() {
        return this.#hasKey || (!this.#isFiltered && Boolean(globalThis.crypto?.subtle));
    }

    /** What a message is that no broker sends. */
    #malformed(set, why) {
        return this.#hasKey ? malformed(set, why) : new Lost(`${set.name}: ${why}`);
    }

    /** Yields [set, message]: all changes, in order, and ends of ranges that had none. */
    async *run() {
        const leave = this.#attend();
        try {
            await Promise.all(this.#sets.map(set => this.#load(set)));
            yield* merge(this.#groups().map(sets => this.#follow(sets)), () => this.#stop());
        } finally {
            leave();
            await Promise.all(this.#sets.map(set => set.writing));
        }
    }

    /** Attends to the clock, the signal and the network. Returns what ends that, and all else. */
    #attend() {
        const { signal } = this.#options;
        const stop = () => this.#stop(signal.reason);
        const tick = () => this.#links.forEach(link => link.tick());
        const online = () => this.#abort(new Lost('the network is back'));
        signal?.throwIfAborted();
        const timer = setInterval(tick, TICK_MS);
        signal?.addEventListener('abort', stop);
        globalThis.addEventListener?.('online', online);
        globalThis.document?.addEventListener('visibilitychange', tick);
        return () => {
            clearInterval(timer);
            signal?.removeEventListener('abort', stop);
            globalThis.removeEventListener?.('online', online);
            globalThis.document?.removeEventListener('visibilitychange', tick);
            this.#stop();
        };
    }

    #stop(reason = new Lost('the consumer has ended')) {
        this.#end.abort(reason);
        this.#abort(reason);
    }

    #abort(reason) {
        this.#links.forEach(link => link.abort(reason));
    }

    /** The sets that share a connection: those of a broker. With a key there is no stream of many:
     * a few have one each, more take turns. */
    #groups() {
        const groups = new Map();
        const areApart = this.#hasKey && this.#sets.length <= APART_MAX;
        this.#sets.forEach((set, i) => {
            const root = set.url.replace(/sets\/[^/]+$/, '');
            const key = `${root} ${areApart ? i : Math.floor(i / GROUP_MAX)}`;
            set.root = root;
            groups.set(key, [...groups.get(key) ?? [], set]);
        });
        return [...groups.values()];
    }

    /** Throws the reason of the signal once it is aborted. */
    check() {
        if (this.#end.signal.aborted)
            throw this.#end.signal.reason;
        if (this.#storeError)
            throw this.#storeError;
    }

    /* Positions */

    async #load(set) {
        const { position, since } = this.#options;
        const wish = typeof position === 'object' ? position?.[set.name] : position;
        set.key = `tidings:${set.url}`;
        set.kept = await this.#store?.get(set.key) ?? undefined;
        if (set.kept || (wish && wish !== 'now'))
            set.position = positionOf(set.kept || wish);
        else if (since)
            set.since = new Date(since).toISOString();
        if (!this.#hasKey)
            return;
        const checkpoint = await this.#store?.get(`${set.key} checkpoint`);
        set.checkpoint = checkpoint ? readCheckpoint(checkpoint) : undefined;
        const [place, digest] = (await this.#store?.get(`${set.key} digest`) ?? '').split(' ');
        set.digest = set.kept && place === set.kept && digestBytes(digest) ? digest : undefined;
    }

    /** Stores a position that the consumer has passed, and the digest there. One write is under way
     * at a time; the next one is of the newest position. */
    keep(set, position, digest) {
        set.passed = position;
        set.passedDigest = digest;
        if (this.#store && !set.writing && position !== set.kept)
            set.writing = this.#write(set);
        this.check();
    }

    async #write(set) {
        try {
            while (set.passed !== set.kept) {
                const { passed: position, passedDigest: digest } = set;
                await this.#store.set(set.key, position);
                if (digest)
                    await this.#store.set(`${set.key} digest`, `${position} ${digestText(digest)}`);
                set.kept = position;
            }
        } catch (error) {
            this.#storeError = error;
        }
        set.writing = undefined;
    }

    /* State */

    #report(error) {
        const { onState } = this.#options;
        const worst = this.#links.reduce((worst, link) => {
            const order = STATES.indexOf(link.state) - STATES.indexOf(worst.state);
            return order < 0 || (!order && link.since < worst.since) ? link : worst;
        });
        const now = `${worst.state} ${worst.since.getTime()} ${error?.message}`;
        if (now !== this.#told)
            onState?.({ state: worst.state, since: worst.since, error });
        this.#told = now;
    }

    /* Requests */

    async #authorization(link) {
        const { token } = this.#options;
        if (typeof token !== 'function')
            return token;
        if (!this.#token) {
            this.#asking ??= Promise.resolve().then(token).finally(() => {
                this.#asking = undefined;
            });
            this.#token = await link.wait(Promise.race([this.#asking, link.ended]));
        }
        if (!this.#token)
            throw new TidingsError('denied', 'there is no token');
        return this.#token;
    }

    /** Asks the broker. Returns the answer if it is a success, else throws. `body`: JSON to post,
     * with the fields `more`. */
    async #request(link, url, accept, set, body, more) {
        for (let isRepeat = false; ; isRepeat = true) {
            const token = await this.#authorization(link);
            const headers = { Accept: accept, ...more };
            const init = { headers, signal: link.signal };
            if (token)
                headers.Authorization = `Bearer ${token}`;
            if (body) {
                Object.assign(init, { method: 'POST', body });
                headers['Content-Type'] = 'application/json';
            }
            const answer = await link.wait(fetch(url, init));
            if (answer.ok)
                return answer;
            if (answer.status === 401 && typeof this.#options.token === 'function' && !isRepeat) {
                answer.body?.cancel().catch(() => {});
                this.#token = undefined;
                continue;
            }
            throw await this.#refusal(link, answer, set);
        }
    }

    async #refusal(link, answer, set) {
        const { status } = answer;
        let problem = {};
        try {
            problem = JSON.parse(await this.#text(link, answer, 1 << 20)) ?? {};
        } catch { /* a proxy's page */ }
        const detail = reasonOf(problem, `the server answers ${status}`);
        const pause = retryAfter(answer);
        const isAtWork = status === 409 && pause > 0; // the same post is
        if (status === 408 || status === 425 || status === 429 || status >= 500 || isAtWork)
            return new Lost(detail, pause);
        if (status === 410 && problem.earliest)
            return this.#gone(set, problem);
        const code = { 401: 'denied', 403: 'denied', 404: 'unknown', 410: 'removed' }[status];
        return new TidingsError(code ?? 'refused', detail, { status, set: set?.name });
    }

    #gone(set, fact) {
        const { earliest, last, restart } = fact;
        if (!POSITION.test(earliest))
            return new Lost('the server names no earliest position');
        const head = last && positionOf(last);
        if (head && head.epoch === set.position?.epoch && head.seq < set.position.seq)
            return new TidingsError('rewound', `the history of ${set.name} went back: entry ${set.position.seq} has come, `
                + `and it now ends at ${head.seq}`, { set: set.name, last, restart });
        return new TidingsError('gone', reasonOf(fact), { set: set.name, earliest, last, restart });
    }

    /** Yields the text of an answer, or its bytes, as it arrives. */
    async *#pieces(link, answer, isText = true) {
        const reader = answer.body.getReader();
        const decoder = new TextDecoder();
        try {
            for (;;) {
                const { done, value } = await link.wait(reader.read());
                if (done)
                    return;
                yield isText ? decoder.decode(value, { stream: true }) : value;
            }
        } finally {
            reader.cancel().catch(() => {});
        }
    }

    async #text(link, answer, max) {
        const parts = [];
        let size = 0;
        for await (const piece of this.#pieces(link, answer)) {
            link.progress();
            parts.push(piece);
            size += piece.length;
            if (size > max)
                throw new Lost(`an answer has more than ${max} characters`);
        }
        return parts.join('');
    }

    async #json(link, url, set) {
        const answer = await this.#request(link, url, 'application/json', set);
        return parse(await this.#text(link, answer, PAGE_MAX));
    }

    /** Asks for the changes after the position. `before`: the digest there. */
    async #page(link, set, parameters) {
        const url = this.#address(set, 'changes', parameters);
        if (!this.#hasLines)
            return this.#json(link, url, set);
        const answer = await this.#request(link, url, 'application/xml', set);
        const text = await this.#text(link, answer, PAGE_MAX);
        if (!/^(application|text)\/xml\b/.test(answer.headers.get('Content-Type')))
            throw new Lost('the answer is no message'); // a proxy's page
        try {
            return { ...messageOf(text), before: answer.headers.get('Tidings-After-Digest') ?? undefined };
        } catch (error) {
            throw this.#malformed(set, error.message);
        }
    }

    /** Tiles never change: the last ones are kept. */
    async #tile(link, set, path, epoch) {
        const url = new URL(`${set.url}/tile/${path}?${epoch}`);
        const tiles = set.tiles ??= new Map();
        const size = 32 * (/\.p\/(\d+)$/.exec(path)?.[1] ?? TILE_WIDTH);
        let bytes = tiles.get(url.href) ?? [];
        if (bytes.length)
            return bytes;
        for await (const piece of this.#pieces(link, await this.#request(link, url, '*/*', set), false)) {
            bytes = bytesOf(bytes, piece);
            if (bytes.length > size)
                throw new Lost(`a tile of ${size} bytes is too long`);
        }
        if (bytes.length < size)
            throw new Lost(`a tile of ${size} bytes has ${bytes.length}`);
        tiles.set(url.href, bytes);
        if (tiles.size > TILES_KEPT)
            tiles.delete(tiles.keys().next().value);
        return bytes;
    }

    /** The URL of the set's stream or change memory, from the position on. */
    #address(set, name, parameters = {}) {
        const url = new URL(`${set.url}/${name}`);
        if (set.position)
            url.searchParams.set('after', positionText(set.position));
        else if (set.since)
            url.searchParams.set('since', set.since);
        return this.#addFilter(url, parameters);
    }

    #addFilter(url, more) {
        for (const [name, values] of Object.entries({ ...this.#isFiltered && this.#filter, ...more }))
            [values].flat().forEach(value => url.searchParams.append(name, value));
        return url;
    }

    /* Following */

    /** Follows sets on one connection, until the last of them has ended. */
    async *#follow(sets) {
        const link = new Link((_, error) => this.#report(error));
        this.#links.push(link);
        while (sets.length && !link.isApart) {
            this.check();
            link.begin();
            try {
                for (const set of sets.filter(set => set.gone))
                    yield* this.#restart(link, set);
                yield* link.isPolling || this.#hasKey ? this.#poll(link, sets) : this.#stream(link, sets);
            } catch (error) {
                this.check();
                const set = sets.find(one => one.name === error.set);
                if (error.code === 'gone' && error !== set.gone)
                    set.gone = error;
                else if (!(error instanceof Lost))
                    this.#drop(sets, error);
                await this.#pause(link, error);
            }
        }
        this.#links.splice(this.#links.indexOf(link), 1);
        link.abort(new Lost('nothing is left to follow'));
        if (sets.length) // a broker that has no stream of many sets
            yield* merge(sets.map(set => this.#follow([set])), () => this.#stop());
    }

    /** Goes on without the set that has ended, if the caller knows what to do; else throws. */
    #drop(sets, error) {
        const i = sets.findIndex(set => set.name === error.set);
        if (!this.#options.onEnd || i < 0)
            throw error;
        sets.splice(i, 1);
        this.#options.onEnd(error);
    }

    async #pause(link, error) {
        const isFirst = error instanceof TidingsError && !link.failures;
        const ms = link.failed(error);
        if (!isFirst)
            await this.#sleep(link, ms);
    }

    async #sleep(link, ms) {
        link.begin(); // `online` ends the pause, too
        await this.#rest(link, ms);
    }

    /** Waits, until the attempt is ended at most. */
    async #rest(link, ms) {
        if (this.#end.signal.aborted) // by onState, which heard of the failure
            return;
        link.allow(Infinity);
        await new Promise(done => {
            const end = () => {
                clearTimeout(timer);
                link.signal.removeEventListener('abort', end);
                done();
            };
            const timer = setTimeout(end, ms);
            link.signal.addEventListener('abort', end);
        });
    }

    /* Posting */

    /** Posts a text under a key until the broker has answered or the time is over: a repeat
     * under the same key adds nothing. */
    async post(text) {
        const { key = newKey(), patience = PATIENCE_MS, onTrouble } = this.#options;
        const [set] = this.#sets;
        const end = Date.now() + Math.min(patience, PATIENCE_MAX_MS);
        const link = new Link(() => {});
        if (!KEY.test(key))
            throw new TypeError('a key is 1 to 255 visible characters of ASCII');
        const leave = this.#attend();
        this.#links.push(link);
        try {
            for (let isFirst = true; ; isFirst = false) {
                link.begin();
                try {
                    const receipt = await this.#postOnce(link, set, text, key);
                    return { ...receipt, key, isRepeat: receipt.isRepeat && isFirst };
                } catch (error) {
                    this.check();
                    const ms = link.failed(error);
                    if (!(error instanceof Lost))
                        throw Object.assign(error, { key });
                    if (!(Date.now() + ms <= end))
                        throw new TidingsError('unreachable', error.message, { set: set.name, key });
                    onTrouble?.(error, ms);
                    await this.#sleep(link, ms);
                    this.check();
                }
            }
        } finally {
            leave();
        }
    }

    async #postOnce(link, set, text, key) {
        link.allow(ANSWER_MS + text.length / POST_RATE);
        const answer = await this.#request(link, new URL(`${set.url}/changes`), 'application/json',
            set, text, { 'Idempotency-Key': key });
        const receipt = parse(await this.#text(link, answer, PAGE_MAX));
        if (typeof receipt.position !== 'string')
            throw new Lost('the answer is no receipt of a post');
        return { ...receipt, isRepeat: answer.headers.get('Idempotent-Replayed') === 'true' };
    }

    /** Asks for the stream of one set, or of several. */
    async #open(link, sets) {
        const lines = this.#hasLines ? { lines: 'yes' } : {};
        if (sets.length === 1)
            return this.#request(link, this.#address(sets[0], 'stream', lines), EVENTS, sets[0]);
        const url = this.#addFilter(new URL('stream', sets[0].root), lines);
        const follow = sets.map(set => ({ set: set.name, after: positionText(set.position) }));
        const short = new URL(url);
        follow.forEach(({ set, after }) => short.searchParams.append('set', `${set}@${after}`));
        try {
            return await (short.href.length < URL_MAX ? this.#request(link, short, EVENTS)
                : this.#request(link, url, EVENTS, undefined, JSON.stringify({ follow })));
        } catch (error) {
            link.isApart = error.status === 404 || error.status === 405;
            throw link.isApart ? new Lost(error.message) : error;
        }
    }

    async *#stream(link, sets) {
        const reader = new EventReader();
        let size = 0, isBegun = false;
        if (sets.length > 1)
            yield* this.#findPositions(link, sets);
        const byName = new Map(sets.map(set => [set.name, set]));
        try {
            const answer = await this.#open(link, sets);
            if (!answer.headers.get('Content-Type')?.startsWith(EVENTS))
                throw new Silence('the answer is no event stream');
            link.allow(FIRST_EVENT_MS);
            for await (const text of this.#pieces(link, answer)) {
                for (const event of orLost(() => reader.push(text))) {
                    yield* this.#take(link, sets, byName, event);
                    if (isBegun && event.event === 'heartbeat')
                        link.enter('live'); // nothing else was to be sent
                    isBegun = true;
                }
                if (reader.size > size)
                    link.progress();
                size = reader.size;
                const retry = reader.retry ?? link.retry;
                link.retry = Math.min(Math.max(retry, PAUSE_MIN_MS), PAUSE_MAX_MS);
            }
        } catch (error) {
            link.isPolling = error instanceof Silence && !isBegun;
            throw error;
        }
        throw new Lost('the stream has ended');
    }

    async *#take(link, sets, byName, { event, data }) {
        if (data === undefined)
            return;
        const fact = data.startsWith('<') ? messageOf(`${data}\n`) : parse(data);
        const set = byName.get(byName.size === 1 ? sets[0].name : fact.set);
        const kind = event === 'end' ? set && fact.end : event;
        if (kind === 'changes' || kind === 'heartbeat') {
            link.came();
            link.heartbeat = fact.heartbeat > 0 ? fact.heartbeat * 1000 : link.heartbeat;
            if (set && this.#hasLines && !data.startsWith('<'))
                throw new Silence('the events of an earlier broker have no lines'); // its messages do
            if (set)
                yield* this.#deliver(link, set, fact);
            link.allow(Math.max(3 * link.heartbeat, TICK_MS), true);
        } else if (kind === 'gone') {
            throw this.#gone(set, fact);
        } else if (kind === 'removed' || kind === 'unknown') {
            this.#drop(sets, new TidingsError(kind, reasonOf(fact, kind), { set: set.name }));
            if (!sets.length)
                throw new Lost('no set is left');
        } else if (['denied', 'farewell', 'failed'].includes(kind)) {
            this.#token = kind === 'denied' ? undefined : this.#token;
            throw new Lost(reasonOf(fact));
        }
    }

    async *#poll(link, sets) {
        const isAlone = sets.length === 1;
        link.isPolling = false; // when this fails
        yield* this.#findPositions(link, sets);
        for (let wait = 0; ; wait = isAlone ? POLL_S : 0) {
            link.allow(wait * 1000 + ANSWER_MS, wait > 0);
            let isLive = true;
            for (const set of sets) {
                const page = await this.#page(link, set, { wait });
                yield* this.#deliver(link, set, page);
                isLive &&= page.after === page.last;
            }
            if (isLive)
                link.enter('live');
            if (isLive && !isAlone)
                await this.#rest(link, POLL_PAUSE_MS);
        }
    }

    /** Finds where the sets are now, or yields what came since: a position is a place to go on
     * from whatever happens, and "now" is not. */
    async *#findPositions(link, sets) {
        for (const set of sets.filter(one => !one.position)) {
            const fact = await (set.since ? this.#page(link, set) : this.#json(link, set.url, set));
            const { epoch, last } = fact;
            const here = { epoch, after: last, last, changes: [] };
            yield* this.#deliver(link, set, set.since ? fact : here);
        }
    }

    /** Yields what is new in a message, after what is missing before it. */
    async *#deliver(link, set, message) {
        if (!isWhole(message, this.#isFiltered))
            throw this.#malformed(set, 'a message has holes');
        const { position } = set;
        if (message.epoch === position?.epoch && message.last === position.seq) {
            demandHistory(set, position.seq, set.digest, message.digest);
            set.digest ??= this.#hasKey ? undefined : message.digest;
        }
        let news = newsOf(message, set.position);
        if (news === 'gap') {
            yield* this.#fill(link, set, message.after);
            news = newsOf(message, set.position);
        }
        yield* this.#advance(link, set, news);
    }

    /** Yields the changes up to `seq`, from the change memory. */
    async *#fill(link, set, seq) {
        link.allow(ANSWER_MS);
        while (set.position.seq < seq) {
            const page = await this.#page(link, set);
            const news = isWhole(page, this.#isFiltered) && newsOf(page, set.position);
            if (!news)
                throw new Lost('the change memory has a hole');
            yield* this.#advance(link, set, news);
        }
    }

    async *#advance(link, set, news) {
        if (typeof news === 'string')
            throw new Lost(`a message is of another ${news === 'gap' ? 'place' : 'log'}`);
        if (this.#hasKey)
            return yield* this.#prove(link, set, news);
        const digests = news && this.#hasLines ? await this.#hash(set, news) : [];
        link.came();
        if (!news)
            return;
        set.position = { epoch: news.epoch, seq: news.last };
        set.digest = digestText(digests.at(-1)) ?? news.digest;
        yield [set, news];
    }

    /** Yields the news as far as the signed tree has it, and waits until it has the rest. */
    async *#prove(link, set, news) {
        const here = set.position;
        const what = news ?? { epoch: here.epoch, after: here.seq, last: here.seq, changes: [] };
        const { epoch, after, last, changes } = what, digests = await this.#hash(set, what);
        const digestAt = n => digests[n - after];
        for (let from = after, tries = 0; ; tries++) {
            await this.#check(link, set, { epoch, seq: last }, n => digestText(digestAt(n)), tries);
            const { origin, size } = set.checkpoint;
            const to = from === last ? last : Math.min(last, size);
            if (to > from || from === last) {
                const part = select(changes.slice(from - after, to - after), this.#filter);
                set.position = { epoch, seq: to };
                set.digest = digestText(digestAt(to));
                set.time = changes[to - after - 1]?.datetime ?? set.time;
                link.came();
                if (news)
                    yield [set, { epoch, after: from, last: to, digest: set.digest, changes: part }, digestAt];
                if (to === last)
                    return;
                [from, tries] = [to, 0];
            }
            link.enter('stale', new Lost(`${origin} signs ${size} entries: later ones are held back until it does`));
        }
    }

    /** Hashes the lines of the news into the place: returns the digests at `after`, if it is known,
     * and behind each line. There are none without WebCrypto, nor, without a key, at an unknown place. */
    async #hash(set, { epoch, after, last, changes, before, digest }) {
        if (!globalThis.crypto?.subtle)
            return [];
        demandHistory(set, after, set.digest, before);
        const known = after === 0 ? await sha256(epoch) : digestBytes(set.digest);
        const digests = [known];
        let { time = '' } = set, now = known ?? digestBytes(before);
        if (changes.length && !now && !this.#hasKey)
            return [];
        if (changes.length && !now)
            throw malformed(set, 'a message has changes, and no digest came before it');
        for (const change of changes) {
            if (this.#hasKey && change.datetime < time)
                throw malformed(set, `entry ${change.seq} is earlier than the one before it`);
            time = change.datetime;
            now = await sha256(now, LINES.get(change), '\n');
            digests.push(now);
        }
        if (changes.length)
            demandHistory(set, last, digestText(now), digest);
        return digests;
    }

    /**
     * Checks that the signed tree continues the last one, and has the digest of the place, or of its own
     * end within the news. Asks for another checkpoint on each connection, when the last one does
     * not reach the place, and when it is old.
     */
    async #check(link, set, { epoch, seq }, digestAt, tries) {
        const { onCheckpoint = ({ unchecked }) => unchecked && console.warn(unchecked) } = this.#options;
        const isDue = set.checkedOn !== link.signal || Date.now() > set.checkedMs + CHECK_MS
            || seq > set.checkpoint.size;
        try {
            const text = isDue && await this.#askCheckpoint(link, set, tries);
            const checkpoint = isDue ? readCheckpoint(text) : set.checkpoint;
            const facts = isDue && await checkCheckpoint(checkpoint, this.#options);
            const place = { epoch, seq: Math.min(seq, checkpoint.size) };
            await this.#demandNewer(set.checkpoint, checkpoint, facts);
            await checkProgress(set.checkpoint, checkpoint, place, digestAt(place.seq),
                path => this.#tile(link, set, path, epoch));
            if (!isDue)
                return;
            await this.#store?.set(`${set.key} checkpoint`, text);
            Object.assign(set, { checkpoint, checkedOn: link.signal, checkedMs: Date.now() });
            onCheckpoint({ ...checkpoint, ...facts, set: set.name });
        } catch (error) {
            set.tiles = undefined; // they may be wrong
            throw error instanceof CheckpointError ? Object.assign(error, { set: set.name }) : error;
        }
    }

    async #askCheckpoint(link, set, tries) {
        const pause = set.askedMs + Math.min(HELD_MS * 2 ** Math.max(tries - 1, 0), PAUSE_MAX_MS) - Date.now();
        if (pause > 0)
            await this.#rest(link, pause);
        link.allow(ANSWER_MS);
        set.askedMs = Date.now();
        const url = new URL(`${set.url}/checkpoint`);
        const ask = url => this.#request(link, url, 'text/plain', set);
        const answer = this.#options.witnesses // these cosign it some time later
            ? await ask(new URL('?witnessed', url)).catch(error => {
                if (error.code !== 'unknown')
                    throw error;
                return ask(url);
            }) : await ask(url);
        return this.#text(link, answer, NOTE_MAX);
    }

    /** A smaller checkpoint that is dated before the last one says nothing of later times: a broker
     * that is behind another has it. */
    async #demandNewer(before, { origin, size }, { time }) {
        if (before?.origin !== origin || size >= before.size || !time)
            return;
        const then = await checkCheckpoint(before, this.#options).catch(() => ({ time: 0 }));
        if (time <= then.time)
            throw new Lost(`the checkpoint of ${origin} is older than the last one, which had ${before.size} entries, `
                + `and has ${size}`, OLDER_PAUSE_MS);
    }

    /* A position that is gone */

    async *#restart(link, set) {
        const { onGone } = this.#options;
        const { epoch, seq } = positionOf(set.gone.earliest);
        const isBehind = () => set.position?.epoch === epoch && set.position.seq < seq;
        const hasLists = isBehind() && !(this.#hasKey && set.position.seq > 0 && !set.digest);
        if (hasLists)
            yield* this.#readLists(link, set, seq);
        if (!hasLists || isBehind()) {
            const position = await onGone?.(set.gone);
            if (!position)
                throw set.gone;
            Object.assign(set, { position: positionOf(position), digest: undefined, time: undefined });
        }
        set.gone = undefined;
    }

    /** Yields the changes from the position to `seq`, from Change Lists: walks back from the
     * newest by their links `prev`, then reads forward. Yields nothing if they do not reach
     * back to the position. */
    async *#readLists(link, set, seq) {
        const lists = [];
        let path = `${new URL(set.url).pathname}/changes/latest.xml`;
        for (let after = Infinity; after > set.position.seq;) {
            const head = path && lists.length < LISTS_MAX && await this.#listHead(link, set, path);
            if (head?.epoch !== set.position.epoch || !(head.after < after))
                return;
            lists.push(path);
            ({ after, prev: path } = head);
        }
        while (lists.length && set.position.seq < seq)
            yield* this.#readList(link, set, lists.pop());
    }

    /** Opens a Change List on this server: only there may the token go. Yields its lines. */
    async *#lines(link, set, path) {
        const answer = await this.#request(link, new URL(path, set.url), 'application/xml', set);
        let line = '';
        for await (const text of this.#pieces(link, answer)) {
            link.progress();
            const parts = (line + text).split('\n');
            line = parts.pop();
            if (line.length > LINE_MAX)
                throw new Lost('a Change List has an endless line');
            yield* parts;
        }
        yield line;
    }

    async #listHead(link, set, path) {
        try {
            return await headOf(this.#lines(link, set, path));
        } catch (error) {
            if (error.code !== 'unknown' && error.code !== 'removed')
                throw error;
        }
    }

    async *#readList(link, set, path) {
        const lines = this.#lines(link, set, path);
        const head = await headOf(lines, false);
        let { after } = head, changes = [];
        const take = async function* (last) {
            const news = { set: set.name, epoch: head.epoch, after, last, changes };
            after = last;
            changes = [];
            if (!isWhole(news, false))
                throw new Lost('a Change List has a hole');
            if (!this.#hasKey)
                news.changes = select(news.changes, this.#filter);
            yield* this.#advance(link, set, newsOf(news, set.position));
        }.bind(this);
        for await (const line of lines) {
            if (line.startsWith('<url>'))
                changes.push(entryOf(line));
            if (changes.length === LIST_BATCH)
                yield* take(changes.at(-1).seq);
        }
        yield* take(head.last); // has a hole if the list was cut off
    }
}

/** Reads the lines of a Change List up to its `rs:md`: its epoch, the numbers `after` which it
 * begins and with which it ends, and the path of the list before it. */
async function headOf(lines, isWholeHead = true) {
    let prev;
    for (;;) {
        const { done, value: line } = await lines.next();
        const found = attributesOf(line ?? '');
        if (done || line.startsWith('<url>'))
            throw new Lost('a Change List has no head');
        if (found.get('rel') === 'prev')
            prev = /^https?:\/\/[^/]+(\/[^?#]*)/.exec(found.get('href'))?.[1];
        if (found.get('capability') !== 'changelist')
            continue;
        if (isWholeHead)
            await lines.return();
        const [after, last] = ['td:after', 'td:last'].map(name => Number(found.get(name)));
        return { epoch: found.get('td:epoch'), after, last, prev };
    }
}

function malformed(set, message) {
    return Object.assign(new CheckpointError('malformed', `${set.name}: ${message}`), { set: set.name });
}

/** Demands that the two digests of entry `seq` are the same, where both are known. */
function demandHistory({ name }, seq, here, there) {
    if (here && there && there !== here)
        throw new TidingsError('rewound', `the source shows another history of ${name}: the digest of entry `
            + `${seq} is ${there} there, ${here} here`, { set: name });
}

function reasonOf({ detail }, otherwise = 'the broker names no reason') {
    return typeof detail === 'string' ? detail : otherwise;
}

function parse(text) {
    try {
        const object = JSON.parse(text);
        if (object && typeof object === 'object')
            return object;
    } catch { /* below */ }
    throw new Lost('an answer is no JSON object');
}

/** What `work` returns; what it throws counts as a lost connection. */
function orLost(work, before = '') {
    try {
        return work();
    } catch (error) {
        throw new Lost(before + error.message);
    }
}

/** Yields what the generators yield, as it comes. `stop` ends what they wait for. */
async function* merge(generators, stop) {
    const waiting = new Map(); // generator -> a promise that never fails
    const ready = [];
    let wake = () => {};
    const next = one => waiting.set(one, one.next().then(
        result => ready.push({ one, result }), error => ready.push({ one, error }),
    ).then(() => wake()));
    generators.forEach(next);
    try {
        while (waiting.size) {
            if (!ready.length)
                await new Promise(done => { wake = done; });
            const { one, result, error } = ready.shift();
            waiting.delete(one);
            if (!result)
                throw error;
            if (result.done)
                continue;
            yield result.value;
            next(one);
        }
    } finally {
        if (waiting.size)
            stop();
        await Promise.all(waiting.values());
        await Promise.allSettled(generators.map(one => one.return()));
    }
}

/**
 * Follows one set or several: yields each change once, those of one set in order. tidings.d.ts
 * describes the options and the changes.
 */
export async function* follow(source, options = {}) {
    const following = new Following(source, options);
    for await (const [set, message, digestAt] of following.run()) {
        for (const change of message.changes) {
            const position = `${message.epoch}-${change.seq}`;
            following.check();
            yield { ...change, set: set.name, source: set.url, position };
            following.keep(set, position, digestAt?.(change.seq));
        }
        following.keep(set, `${message.epoch}-${message.last}`, digestAt?.(message.last));
    }
}

/** The same, but yields messages: several changes that came together. */
follow.messages = async function* (source, options = {}) {
    const following = new Following(source, options);
    for await (const [set, message, digestAt] of following.run()) {
        if (message.changes.length)
            yield { ...message, set: set.name, source: set.url };
        following.keep(set, `${message.epoch}-${message.last}`, digestAt?.(message.last));
    }
};

/**
 * Posts a change, or several, to a set: each once. Resolves with the broker's receipt when they are
 * on its disk. tidings.d.ts describes the options and the receipt.
 */
export async function publish(source, changes, options = {}) {
    return new Following(source, options).post(JSON.stringify(changes));
}
