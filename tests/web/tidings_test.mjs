/** tidings.js without a broker: its readers, and what follow() does with hostile answers. */
import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { afterEach, test } from 'node:test';

import { CheckpointError, EventReader, TidingsError, checkSignature, entryOf, follow, isContinued, isIncluded,
    isWhole, newsOf, passes, publish, readNote, readVerifierKey, select, tilesOf }
    from '../../web/tidings.js';
import { EPOCH, FakeBroker, SET, digestAt, entry, event, eventStream, json, lineOf, message, problem, stream, xmlOf }
    from './broker.mjs';

let broker;

function plays(...answers) {
    broker = new FakeBroker(...answers);
    return broker;
}

afterEach(() => {
    broker?.end();
    broker = undefined;
});

// Of a test that waits for ever: what it has asked.
process.prependListener('beforeExit', () => broker && console.error('asked, and then nothing came:', broker.requests,
    'answers left:', broker.answers.length));

/* Server-sent events */

const STREAMS = [
    ['data: a\n\n', [['message', 'a']]],
    ['event: x\r\ndata: a\r\ndata:  b\r\n\r\n', [['x', 'a\n b']]],
    ['\ufeffdata: a\r\rdata\r\r', [['message', 'a'], ['message', '']]],
    [': comment\nretry: 5\n\nid: 7\n\n', [['message', undefined, '7']]],
    ['id: 7\0\nother: x\ndata: a\n\ndata: cut off\n', [['message', 'a']]],
];

test('an event is the same wherever its pieces end', () => {
    for (const [text, wanted] of STREAMS)
        for (let size = 1; size <= text.length; size++) {
            const reader = new EventReader();
            const events = [];
            for (let at = 0; at < text.length; at += size)
                events.push(...reader.push(text.slice(at, at + size)));
            assert.deepEqual(events, wanted.map(([name, data, id]) => ({ event: name, data, id })));
        }
});

test('an event has a largest size, and so has a line', () => {
    for (const piece of ['data: 0123456789\n', ': 0123456789', 'x'])
        assert.throws(() => {
            const reader = new EventReader(100);
            for (let i = 0; i < 101; i++)
                reader.push(piece);
        }, RangeError);
});

test('comments without end cost nothing', () => {
    const reader = new EventReader(100);
    for (let i = 0; i < 1000; i++)
        reader.push(': 0123456789\n');
    assert.equal(reader.size, 0);
});

/* Messages */

test('a message is whole if its entries follow each other', () => {
    const [a, b, c] = [entry(1), entry(2), entry(3)];
    const rows = [
        [{}, true, true],
        [{ changes: [a, c] }, false, true],
        [{ changes: [a, b] }, false, true],
        [{ changes: [a, c, b] }, false, false],
        [{ changes: [a, a, b, c] }, false, false],
        [{ changes: [a, b, c, entry(4)] }, false, false],
        [{ after: -1 }, false, false],
        [{ last: 2 ** 60 }, false, false],
        [{ epoch: '../x' }, false, false],
        [{ changes: null }, false, false],
        [{ changes: [null] }, false, false],
    ];
    for (const [more, plain, filtered] of rows) {
        const made = { ...message(0, 3), ...more };
        assert.equal(isWhole(made, false), plain, JSON.stringify(more));
        assert.equal(isWhole(made, true), filtered, JSON.stringify(more));
    }
    assert.equal(isWhole(null, false), false);
});

test('of a message, what comes after the position is new', () => {
    const at = (seq, epoch = EPOCH) => ({ epoch, seq });
    const seqs = news => news?.changes?.map(change => change.seq) ?? news;
    const rows = [
        [undefined, [4, 5]],
        [at(3), [4, 5]],
        [at(4), [5]],
        [at(5), null],
        [at(9), null],
        [at(2), 'gap'],
        [at(3, 'abc'), 'epoch'],
        [{ seq: 3 }, [4, 5]],
        [{ seq: 5 }, []], // its epoch is news
    ];
    for (const [position, wanted] of rows)
        assert.deepEqual(seqs(newsOf(message(3, 5), position)), wanted, JSON.stringify(position));
});

/* Entries of Change Lists */

const MD = 'change="updated" datetime="2026-11-23T03:45:28.578498Z" td:seq="7"';

test('an entry of a Change List becomes that of a message', () => {
    const line = '<url><loc>http://e.example/q?a=1&amp;b=&quot;&#65;&#x42;</loc>' +
        '<lastmod>2026-01-01</lastmod><changefreq>daily</changefreq><priority>0.5</priority>' +
        `<rs:md ${MD} td:datetime="2026-01-02" hash="md5:aa sha-256:bb" length="5"` +
        ' type="text/csv" td:tags="a b" xmlns:x="urn:x" x:y="&lt;z&gt;"/>' +
        '<rs:ln rel="describedby" href="http://e.example/d" modified="2026-01-03" pri="2"' +
        ' length="0" xmlns:q="urn:q" q:r="/>"/><rs:ln rel="via" href="http://e.example/v"/>' +
        '<td:title>A &amp; b</td:title><td:summary>1&#10;2</td:summary><td:author>me</td:author>' +
        '<td:data>{&quot;a&quot;:[1,&quot;&lt;&quot;]}</td:data></url>';
    assert.deepEqual(entryOf(line), {
        loc: 'http://e.example/q?a=1&b="AB',
        lastmod: '2026-01-01',
        changefreq: 'daily',
        priority: '0.5',
        change: 'updated',
        datetime: '2026-11-23T03:45:28.578498Z',
        seq: 7,
        sourceDatetime: '2026-01-02',
        hash: { md5: 'aa', 'sha-256': 'bb' },
        length: 5,
        type: 'text/csv',
        tags: ['a', 'b'],
        attributes: [{ ns: 'urn:x', name: 'y', value: '<z>' }],
        links: [
            { rel: 'describedby', href: 'http://e.example/d', modified: '2026-01-03', pri: 2, length: 0,
                attributes: [{ ns: 'urn:q', name: 'r', value: '/>' }] },
            { rel: 'via', href: 'http://e.example/v' },
        ],
        title: 'A & b',
        summary: '1\n2',
        author: 'me',
        data: { a: [1, '<'] },
    });
});

test('an entry in any other form is refused', () => {
    const lines = [
        '',
        '<url></url>',
        `<url><loc>a</loc><rs:md ${MD}></rs:md></url>`,
        `<url><loc>a</loc><rs:md ${MD}/></url><url>`,
        `<url><loc>a</loc><!-- --><rs:md ${MD}/></url>`,
        `<url><loc>a&b;</loc><rs:md ${MD}/></url>`,
        `<url><loc>a&</loc><rs:md ${MD}/></url>`,
        `<url><loc>&constructor;</loc><rs:md ${MD}/></url>`,
        `<url><loc>&#x110000;</loc><rs:md ${MD}/></url>`,
        '<url><loc>a</loc><rs:md change="created"/></url>',
        `<url><loc>a</loc><rs:md ${MD}/><td:data>{</td:data></url>`,
        `<url><loc>a</loc><rs:md ${MD}/><td:data>1</td:data><td:title>a</td:title></url>`,
    ];
    for (const line of lines)
        assert.throws(() => entryOf(line), error => error.constructor.name === 'Lost', line);
});

test('a filter lets through what the broker would', () => {
    const it = { ...entry(1), type: 'Image/PNG; q=1', tags: ['a', 'b'] };
    const rows = [
        [{}, true],
        [{ change: ['created', 'deleted'] }, true],
        [{ change: ['deleted'] }, false],
        [{ prefix: ['http://example.com/'] }, true],
        [{ prefix: ['http://example.org/'] }, false],
        [{ type: ['image/*'] }, true],
        [{ type: ['image/png'] }, true],
        [{ type: ['*/*'] }, true],
        [{ type: ['text/*'] }, false],
        [{ tag: ['b', 'c'] }, true],
        [{ tag: ['c'] }, false],
        [{ tag: ['a'], change: ['updated'] }, false],
    ];
    for (const [filter, wanted] of rows)
        assert.equal(passes(it, filter), wanted, JSON.stringify(filter));
    assert.equal(passes(entry(1), { type: ['*/*'] }), false);
    const bare = entry(1);
    assert.deepEqual(select([{ ...bare, data: 1 }, entry(2)], { data: ['no'] }), [bare, entry(2)]);
    assert.deepEqual(select([{ ...bare, data: 1 }], {}), [{ ...bare, data: 1 }]);
});

/* Each change once, in order */

test('a stream that ends goes on where it ended', async () => {
    plays(stream(0, [message(0, 2)]), stream(2, [message(2, 3)]));
    assert.deepEqual(await broker.follow({ position: '0' }, 3), [1, 2, 3]);
    assert.deepEqual(broker.requests, ['/stream?after=0', `/stream?after=${EPOCH}-2`]);
});

test('repeats are dropped, and of half a repeat the new half comes', async () => {
    plays(stream(0, [message(0, 3), message(0, 2), message(1, 5), message(3, 6)]));
    assert.deepEqual(await broker.follow({ position: '0' }, 6), [1, 2, 3, 4, 5, 6]);
});

test('without a position it begins now', async () => {
    plays(stream(7, []), stream(7, [message(7, 8)]));
    assert.deepEqual(await broker.follow({}, 1), [8]);
    assert.deepEqual(broker.requests, ['/stream', `/stream?after=${EPOCH}-7`]);
});

test('a gap is filled from the change memory', async () => {
    plays(stream(0, [message(0, 1), message(5, 6)]),
        json(message(1, 3)), json(message(3, 5)));
    assert.deepEqual(await broker.follow({ position: '0' }, 6), [1, 2, 3, 4, 5, 6]);
    assert.deepEqual(broker.requests.slice(1),
        [`/changes?after=${EPOCH}-1`, `/changes?after=${EPOCH}-3`]);
});

test('a filter stands in every request', async () => {
    const some = { ...message(0, 4), changes: [entry(2)] };
    const rest = { ...message(5, 9), changes: [entry(8)] };
    plays(stream(0, [some, rest]), json({ ...message(4, 5), changes: [] }));
    const filter = { tag: ['a', 'b'], prefix: 'http://example.com/' };
    assert.deepEqual(await broker.follow({ position: '0', filter }, 2), [2, 8]);
    const query = 'prefix=http://example.com/&tag=a&tag=b';
    assert.deepEqual(broker.requests, [`/stream?after=0&${query}`, `/changes?after=${EPOCH}-4&${query}`]);
});

const HOSTILE = [
    event('changes', message(0, 3, { changes: [entry(1), entry(3)] })),
    event('changes', message(0, 1, { epoch: 'abc' })),
    event('changes', '{'),
    event('changes', 'null'),
    event('changes', '"text"'),
    event('gone', {}),
    event('farewell', { detail: { toString: 1 } }),
    `data: ${'x'.repeat(1 << 20)}\n`.repeat(33),
];

test('what a broker would not send counts as a lost connection', async () => {
    for (const text of HOSTILE) {
        plays(stream(0, [text, message(0, 1)]), stream(0, [message(0, 1)]));
        assert.deepEqual(await broker.follow({ position: `${EPOCH}-0` }, 1), [1]);
        assert.equal(broker.requests.length, 2, text.slice(0, 80));
        broker.end();
    }
});

test('a page without news or with a hole fills no gap', async () => {
    const holed = { ...message(1, 3), changes: [entry(3)] };
    const padded = () => new Response(`${' '.repeat(64 << 20)}${JSON.stringify(message(1, 3))}`);
    const pages = [message(1, 1), message(2, 3), message(0, 1), { changes: [] }, holed].map(page => json(page));
    for (const page of [...pages, padded]) {
        plays(stream(0, [message(0, 1), message(3, 4)]), page, stream(1, [message(1, 4)]));
        assert.deepEqual(await broker.follow({ position: '0' }, 4), [1, 2, 3, 4]);
        assert.equal(broker.requests[2], `/stream?after=${EPOCH}-1`);
        broker.end();
    }
});

/** A message whose first entry is not the one of the log, beside the log's own digest. */
function altered(after, last) {
    const [, ...others] = message(after, last).changes;
    const changes = [entry(after + 1, { loc: 'http://example.org/' }), ...others];
    return message(after, last, { changes, digest: `sha-256:${digestAt(last).toString('hex')}` });
}

//
test('each line is hashed, also without a key', async () => {
    const html = () => new Response('<html>');
    const rows = [
        ['0', [stream(0, [altered(0, 2)])], []],
        ['0', [stream(0, [message(0, 1), altered(1, 3)])], [1]],
        ['0', [stream(0, [message(0, 1)]), stream(1, [altered(1, 2)])], [1]],
        ['0', [stream(0, [message(0, 1), message(3, 4)]), json(altered(1, 3))], [1]],
        ['0', [html, json(altered(0, 2))], []],
        [`${EPOCH}-5`, [stream(5, [altered(5, 6)])], []], // the heartbeat brings the digest
        [undefined, [html, json({ epoch: EPOCH, last: 4 }), json(message(4, 4)), json(altered(4, 5))], []],
    ];
    for (const [position, answers, wanted] of rows) {
        plays(...answers);
        const seqs = [];
        const took = async () => {
            for await (const { seq } of follow(SET, { position }))
                seqs.push(seq);
        };
        await assert.rejects(took(), { code: 'rewound', set: 'news' });
        assert.deepEqual(seqs, wanted);
        broker.end();
    }
});

test('an earlier broker, whose events have no lines, is polled', async () => {
    const plain = event('heartbeat', JSON.stringify(message(0, 0)).replace(',', ',\n'));
    plays(() => eventStream([plain], true), json(message(0, 2)));
    assert.deepEqual(await broker.follow({ position: '0' }, 2), [1, 2]);
    assert.equal(broker.requests[1], '/changes?after=0&wait=0');
});

/* Failures */

test('it survives answers of proxies and of a busy broker', async () => {
    plays(502, 503, 504, 408, problem(429), () => { throw new TypeError('fetch failed'); },
        stream(0, [message(0, 1)]));
    assert.deepEqual(await broker.follow({ position: '0' }, 1), [1]);
    assert.equal(broker.requests.length, 7);
    broker.pauses.forEach((ms, i) => {
        const most = Math.min(1000 * 2 ** i, 30000);
        assert.ok(ms >= most / 2 && ms <= most, `${ms}`);
    });
});

test('a broker may name the pause, but no short one', async () => {
    plays(stream(0, ['retry: 3000\n\n']), stream(0, ['retry: 0\n\n']), stream(0, [message(0, 1)]));
    await broker.follow({ position: '0' }, 1);
    const [first, second] = broker.pauses;
    assert.ok(first >= 1500 && first <= 3000 && second >= 250 && second <= 500, `${broker.pauses}`);
});

test('it waits as long as Retry-After says, an hour at most', async () => {
    const later = new Date(Date.now() + 60_000).toUTCString();
    plays(problem(429, {}, { 'Retry-After': '7' }), problem(503, {}, { 'Retry-After': later }),
        problem(503, {}, { 'Retry-After': '99999999' }), stream(0, [message(0, 1)]));
    await broker.follow({ position: '0' }, 1);
    const [first, second, third] = broker.pauses;
    assert.equal(first, 7000);
    assert.ok(second > 50_000 && second <= 60_000);
    assert.equal(third, 3_600_000);
});

/** Waits until the follower waits. */
async function settle() {
    for (let i = 0; i < 50; i++)
        await new Promise(done => setImmediate(done));
}

test('after three heartbeats of silence it connects again', async () => {
    plays(stream(0, [message(0, 1)], { isOpen: true, heartbeat: 10 }), stream(1, [message(1, 2)]));
    const began = broker.now;
    const took = broker.follow({ position: '0' }, 2);
    await settle();
    broker.pass(2000);
    broker.pass(27_000);
    await settle();
    assert.equal(broker.requests.length, 1);
    broker.pass(2000);
    assert.deepEqual(await took, [1, 2]);
    assert.deepEqual(broker.states, ['catching up', 'live', 'stale', 'catching up']);
    assert.deepEqual(broker.sinces, [began, began + 2000, began, began + 31_000]);
});

test('comments are silence, and a message that comes slowly is none', async () => {
    const [first, ...slow] = [event('heartbeat', message(0, 0, { heartbeat: 10 })),
        ...event('changes', xmlOf(message(0, 1))).match(/[^\n]+\n+/g)];
    const slowly = texts => () => eventStream([first, ...texts], true, () => broker.pass(9000));
    plays(slowly(Array(20).fill(': x\n\n')), slowly(slow));
    assert.deepEqual(await broker.follow({ position: '0' }, 1), [1]);
    assert.equal(broker.requests.length, 2);
    assert.ok(slow.length > 4);
});

test('a second heartbeat says that nothing else was to be sent', async () => {
    plays(stream(0, [message(0, 1), event('heartbeat', message(1, 1)), message(1, 2)]));
    await broker.follow({ position: '0' }, 2);
    assert.deepEqual(broker.states, ['catching up', 'live']);
});

test('a consumer that takes its time is no silence', async () => {
    plays(stream(0, [message(0, 1), message(1, 2)]));
    const changes = follow(SET, { position: '0' });
    await changes.next();
    broker.pass(3_600_000);
    assert.equal((await changes.next()).value.seq, 2);
    assert.equal(broker.requests.length, 1);
    await changes.return();
});

test('a slow consumer holds the answer back', async () => {
    let pulls = 0;
    const texts = [event('heartbeat', message(0, 0)),
        ...Array.from({ length: 100 }, (_, i) => event('changes', message(i, i + 1)))];
    plays(() => eventStream(texts, true, () => pulls++));
    const changes = follow(SET, { position: '0' });
    await changes.next();
    await changes.next();
    await settle();
    assert.ok(pulls <= 5, `${pulls} pieces were read`);
    await changes.return();
});

test('where no events come through it polls, and later it tries again', async () => {
    const html = () => new Response('<html>', { headers: { 'Content-Type': 'text/html' } });
    plays(html, json({ epoch: EPOCH, last: 4 }), json(message(4, 4)), json(message(4, 5)), 502,
        stream(5, [message(5, 6)]));
    assert.deepEqual(await broker.follow({}, 2), [5, 6]);
    assert.deepEqual(broker.requests, ['/stream', '', `/changes?after=${EPOCH}-4&wait=0`,
        `/changes?after=${EPOCH}-4&wait=45`, `/changes?after=${EPOCH}-5&wait=45`,
        `/stream?after=${EPOCH}-5`]);
});

test('where a proxy holds events back it polls', async () => {
    plays(() => eventStream([], true), json(message(0, 1)));
    const took = broker.follow({ position: '0' }, 1);
    await settle();
    broker.pass(11_000);
    assert.deepEqual(await took, [1]);
    assert.equal(broker.requests[1], '/changes?after=0&wait=0');
});

test('a broker that ends at once gets no polls', async () => {
    plays(() => eventStream([], false), stream(0, [message(0, 1)]));
    assert.deepEqual(await broker.follow({ position: '0' }, 1), [1]);
    assert.deepEqual(broker.requests, ['/stream?after=0', '/stream?after=0']);
});

/* Tokens */

test('a function for the token is asked again after 401', async () => {
    let n = 0;
    const token = async () => `token${++n}`;
    plays(problem(401), stream(0, [message(0, 1), event('denied', { detail: 'over' })]),
        stream(1, [message(1, 2)]));
    assert.deepEqual(await broker.follow({ position: '0', token }, 2), [1, 2]);
    assert.deepEqual(broker.tokens, ['Bearer token1', 'Bearer token2', 'Bearer token3']);
});

test('a function for the token may fail, as the network does', async () => {
    let n = 0;
    const token = () => {
        if (n++ === 0)
            throw new Error('no network');
        return 'token';
    };
    plays(stream(0, [message(0, 1)]));
    assert.deepEqual(await broker.follow({ position: '0', token }, 1), [1]);
});

async function failure(options, ...answers) {
    plays(...answers);
    try {
        await broker.follow(options, 100);
    } catch (error) {
        return error;
    } finally {
        broker.end();
    }
    return assert.fail('it did not end');
}

test('an end that no attempt can change is an error', async () => {
    const rows = [
        [{ token: 'x' }, [problem(401)], 'denied'],
        [{ token: () => 'x' }, [problem(401), problem(401)], 'denied'],
        [{ token: () => null }, [], 'denied'],
        [{}, [problem(403)], 'denied'],
        [{}, [404], 'unknown'],
        [{}, [problem(410)], 'removed'],
        [{}, [problem(400)], 'refused'],
        [{}, [stream(0, [event('removed', { detail: 'x' })])], 'removed'],
    ];
    for (const [options, answers, code] of rows) {
        const error = await failure(options, ...answers);
        assert.ok(error instanceof TidingsError, `${error.stack}`);
        assert.deepEqual([error.code, error.set], code === 'denied' && !error.set
            ? [code, undefined] : [code, 'news']);
    }
});

/* Positions that are gone */

const GONE = { earliest: `${EPOCH}-6`, last: `${EPOCH}-9`, restart: 'http://broker.example/r' };

test('a position that is gone is an error that names the earliest', async () => {
    const rows = [
        [`${'a'.repeat(16)}-3`, problem(410, GONE)],
        ['4', stream(0, [event('gone', { detail: 'x', ...GONE })])],
    ];
    for (const [position, answer] of rows) {
        const error = await failure({ position }, answer);
        const { code, earliest, last, restart } = error;
        assert.deepEqual({ code, earliest, last, restart }, { code: 'gone', ...GONE });
    }
});

test('a history that went back is an error of its own', async () => {
    const onGone = () => assert.fail('nobody has accepted it');
    for (const answer of [problem(410, GONE), stream(0, [event('gone', { detail: 'x', ...GONE })])]) {
        const { code, last, message: said } = await failure({ position: `${EPOCH}-12`, onGone }, answer);
        assert.deepEqual([code, last], ['rewound', GONE.last]);
        assert.match(said, /^the history of news went back: entry 12 has come, and it now ends at 9$/);
    }
    const other = event('heartbeat', message(1, 1, { digest: `sha-256:${'0'.repeat(64)}` }));
    plays(stream(0, [message(0, 1)]), () => eventStream([other], true));
    await assert.rejects(broker.follow({ position: '0', onGone }, 2), { code: 'rewound', set: 'news' });
});

test('onGone says where to go on', async () => {
    plays(problem(410, GONE), stream(6, [message(6, 7)]), stream(7, [message(7, 8)]));
    let n = 0;
    const onGone = async error => {
        n++;
        return error.earliest;
    };
    assert.deepEqual(await broker.follow({ position: 'abc-3', onGone }, 2), [7, 8]);
    assert.equal(broker.requests[1], `/stream?after=${EPOCH}-6`);
    assert.equal(broker.pauses.length, 1); // of the stream that ended
    assert.equal(n, 1);
});

test('a position that is gone for ever is not asked for without pauses', async () => {
    plays(problem(410, GONE), problem(410, GONE), problem(410, GONE), stream(6, [message(6, 7)]));
    await broker.follow({ position: 'abc-3', onGone: error => error.earliest }, 1);
    assert.equal(broker.pauses.length, 2);
});

/** A Change List as the broker writes it; `prev`: the number of the one before. */
function list(after, last, { prev, epoch = EPOCH, end = '</urlset>\n' } = {}) {
    const path = `http://elsewhere.example/sets/news/changes/${prev}.xml`;
    const entries = message(after, last).changes.map(lineOf);
    return () => new Response('<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="x">\n' +
        (prev ? `<rs:ln rel="prev" href="${path}"/>\n` : '') +
        `<rs:md capability="changelist" td:epoch="${epoch}" td:after="${after}" td:last="${last}"/>\n` +
        entries.join('') + end);
}

test('behind the change memory there are Change Lists', async () => {
    const lists = [list(7, 9, { prev: 3 }), list(4, 7, { prev: 2 }), list(0, 4)];
    plays(problem(410, GONE), ...lists, lists[2], lists[1], stream(7, [message(7, 9)]));
    assert.deepEqual(await broker.follow({ position: `${EPOCH}-2` }, 7), [3, 4, 5, 6, 7, 8, 9]);
    assert.deepEqual(broker.requests.slice(1), [
        '/changes/latest.xml', '/changes/3.xml', '/changes/2.xml', // back
        '/changes/2.xml', '/changes/3.xml', // forward, as far as needed
        `/stream?after=${EPOCH}-7`,
    ]);
});

test('Change Lists that do not reach back are no help', async () => {
    const rows = [
        [list(7, 9), 1],
        [list(7, 9, { epoch: 'abc' }), 1],
        [problem(404), 1],
        [list(7, 9, { prev: 3 }), 2, list(7, 9, { prev: 3 })], // a circle
    ];
    for (const [first, n, ...more] of rows) {
        const error = await failure({ position: `${EPOCH}-2` }, problem(410, GONE), first, ...more);
        assert.equal(error.code, 'gone');
        assert.equal(broker.requests.length, 1 + n);
    }
});

test('a filter holds for Change Lists, too', async () => {
    const lists = [list(0, 9), list(0, 9)];
    plays(problem(410, GONE), ...lists, stream(9, [message(9, 10)]));
    const filter = { prefix: ['http://example.com/3', 'http://example.com/10'] };
    assert.deepEqual(await broker.follow({ position: `${EPOCH}-2`, filter }, 2), [3, 10]);
});

test('a damaged Change List is read again', async () => {
    const good = list(0, 9);
    const cut = async () => new Response((await good().text()).slice(0, -40));
    const endless = async () => eventStream(['x'.repeat(5 << 20), `\n${await good().text()}`], false);
    const damaged = [
        cut,
        endless,
        list(0, 9, { end: '<url><loc>x</loc></url>\n</urlset>\n' }),
        list(0, 5, { end: `${lineOf(entry(7))}</urlset>\n` }),
    ];
    for (const bad of damaged) {
        plays(problem(410, GONE), good, bad, good, good, stream(9, [message(9, 10)]));
        const seqs = await broker.follow({ position: `${EPOCH}-2` }, 8);
        assert.deepEqual(seqs, [3, 4, 5, 6, 7, 8, 9, 10]);
        broker.end();
    }
});

/* Stores */

function store(position) {
    const kept = new Map(position ? [[`tidings:${SET}`, position]] : []);
    return { kept, writes: [], get: key => kept.get(key),
        set(key, text) { this.writes.push(text); kept.set(key, text); } };
}

test('a position is stored after the consumer has taken the change', async () => {
    const kept = store();
    plays(stream(4, [message(4, 6)], { isOpen: true }));
    const changes = follow(SET, { store: kept });
    for (const before of [[4], [4, 5]]) {
        await changes.next();
        assert.deepEqual(kept.writes, before.map(seq => `${EPOCH}-${seq}`));
    }
    await changes.return();
    assert.deepEqual(kept.writes.length, 2); // the last one was not taken
});

test('the stored position counts, not the option', async () => {
    plays(stream(5, [message(5, 6)]));
    await broker.follow({ store: store(`${EPOCH}-5`), position: '0' }, 1);
    assert.deepEqual(broker.requests, [`/stream?after=${EPOCH}-5`]);
});

test('a store may be a Storage, and may be slow', async () => {
    const writes = [];
    let release;
    const slow = {
        get: async () => null,
        set: (key, text) => new Promise(done => {
            writes.push(text);
            release = done;
        }),
    };
    plays(stream(0, [message(0, 5)]));
    const changes = follow(SET, { store: slow, position: '0' });
    for (let i = 0; i < 5; i++)
        await changes.next();
    assert.deepEqual(writes, [`${EPOCH}-0`]);
    release();
    await settle();
    assert.deepEqual(writes, [`${EPOCH}-0`, `${EPOCH}-4`]); // one at a time, then the newest
    release();
    await changes.return();
    broker.end();

    const storage = { getItem: () => `${EPOCH}-3`, setItem: (...pair) => writes.push(pair) };
    plays(stream(3, [message(3, 5)]));
    await broker.follow({ store: storage }, 2);
    assert.deepEqual(writes.at(-1), [`tidings:${SET}`, `${EPOCH}-4`]);
});

test('a store that fails ends it', async () => {
    const full = { get: () => null, set: async () => { throw new Error('full'); } };
    const error = await failure({ store: full, position: '0' }, stream(0, [message(0, 5)]));
    assert.equal(error.message, 'full');
});

/* The rest */

test('a signal ends it, whatever it waits for', async () => {
    const waits = [
        [[], {}], // for an answer
        [[stream(0, [], { isOpen: true })], {}], // for an event
        [[], { token: () => new Promise(() => {}) }],
    ];
    for (const [answers, more] of waits) {
        plays(...answers);
        const ending = new AbortController();
        const took = broker.follow({ signal: ending.signal, ...more }, 1);
        await settle();
        ending.abort(new Error('enough'));
        await assert.rejects(took, { message: 'enough' });
        broker.end();
    }
});

/** Follows sets of a broker until `n` changes were taken; "SETSEQ" of each. */
async function followSets(sets, n, options = {}) {
    const got = [];
    for await (const change of follow('http://broker.example/', { sets, position: '0', ...options })) {
        got.push(`${change.set}${change.seq}`);
        if (got.length === n)
            break;
    }
    return got;
}

/** A stream of several sets. */
function streamOfMany(...parts) {
    return () => eventStream([event('heartbeat', { heartbeat: 20 }), ...parts], false);
}

const changes = (set, after, last) => event('changes', message(after, last, { set }));

test('a signal that ends it on the news of a failure waits for no pause', async () => {
    const stop = new AbortController();
    const onState = ({ error }) => error && stop.abort(new Error('enough'));
    plays(502);
    await assert.rejects(follow(SET, { position: '0', signal: stop.signal, onState }).next(), /enough/);
    assert.deepEqual(broker.pauses, []);
});

test('a signal that has ended it before lets nothing begin', async () => {
    plays(stream(0, [message(0, 1)]));
    const signal = AbortSignal.abort(new Error('enough'));
    await assert.rejects(broker.follow({ position: '0', signal }, 1), { message: 'enough' });
    assert.deepEqual(broker.requests, []);
});

test('a signal ends it within a message', async () => {
    plays(stream(0, [message(0, 3)]));
    const ending = new AbortController();
    const kept = store();
    const changes = follow(SET, { position: '0', signal: ending.signal, store: kept });
    await changes.next();
    ending.abort(new Error('enough'));
    await assert.rejects(changes.next(), { message: 'enough' });
    assert.equal(kept.writes.at(-1), `${EPOCH}-1`); // it was taken
});

test('several sets share a connection, each with its own position', async () => {
    plays(streamOfMany(changes('a', 0, 2), changes('b', 0, 1), changes('x', 0, 1)),
        streamOfMany(changes('b', 1, 2), event('heartbeat', { heartbeat: 20 }), changes('a', 2, 3)));
    assert.deepEqual(await followSets(['a', 'b'], 5), ['a1', 'a2', 'b1', 'b2', 'a3']);
    assert.deepEqual(broker.requests,
        ['/stream?set=a@0&set=b@0', `/stream?set=a@${EPOCH}-2&set=b@${EPOCH}-1`]);
});

test('sets without a position get one before anything else', async () => {
    const state = json({ epoch: EPOCH, last: 7 });
    plays(state, state, 502, streamOfMany(changes('b', 7, 8)));
    assert.deepEqual(await followSets(['a', 'b'], 1, { position: 'now' }), ['b8']);
    assert.equal(broker.requests[3], `/stream?set=a@${EPOCH}-7&set=b@${EPOCH}-7`);
    broker.end();

    const since = new Date('2026-01-02T03:04:05Z');
    plays(json(message(3, 4, { set: 'a' })), json(message(5, 5)), streamOfMany(changes('b', 5, 6)));
    assert.deepEqual(await followSets(['a', 'b'], 2, { position: undefined, since }), ['a4', 'b6']);
    assert.deepEqual(broker.requests.slice(0, 2),
        ['a', 'b'].map(name => `/sets/${name}/changes?since=2026-01-02T03:04:05.000Z`));
});

test('names that no URL holds are posted', async () => {
    const sets = Array.from({ length: 1000 }, (_, i) => `set${i}`);
    plays(streamOfMany(changes('set999', 0, 1)));
    assert.deepEqual(await followSets(sets, 1, { filter: { tag: 'x' } }), ['set9991']);
    assert.deepEqual(broker.requests, ['/stream?tag=x']);
    const { follow: asked } = JSON.parse(broker.bodies[0]);
    assert.deepEqual([asked.length, asked[1]], [1000, { set: 'set1', after: '0' }]);
});

test('the end of one set does not end the others', async () => {
    const ended = [];
    const onEnd = error => ended.push(`${error.set} ${error.code}`);
    plays(streamOfMany(event('end', { set: 'a', end: 'unknown' }), changes('b', 0, 1),
        event('end', { set: 'b', end: 'gone', ...GONE, earliest: 'abc-6' })),
    () => eventStream([event('changes', message(6, 7, { set: 'b', epoch: 'abc' })),
        event('end', { set: 'c', end: 'removed' }), event('end', { set: 'b', end: 'removed' })], true));
    const got = await followSets(['a', 'b', 'c'], 9, { onEnd, onGone: error => error.earliest });
    assert.deepEqual(got, ['b1', 'b7']);
    assert.deepEqual(ended, ['a unknown', 'c removed', 'b removed']);
    assert.equal(broker.requests[1], '/stream?set=b@abc-6&set=c@0');
    broker.end();

    plays(streamOfMany(event('end', { set: 'a', end: 'unknown' })));
    await assert.rejects(followSets(['a', 'b'], 1), { code: 'unknown', set: 'a' });
});

test('a set that fails is asked for again', async () => {
    plays(streamOfMany(event('end', { set: 'a', end: 'failed' })), streamOfMany(changes('a', 0, 1)));
    assert.deepEqual(await followSets(['a', 'b'], 1), ['a1']);
});

test('a broker without a stream of many sets gets a connection for each', async () => {
    plays(404, ...[0, 1].map(() => url => stream(0, [message(0, 2)], { isOpen: true })(url)));
    assert.deepEqual((await followSets(['a', 'b'], 4)).sort(), ['a1', 'a2', 'b1', 'b2']);
});

test('a set that is named twice comes once', async () => {
    plays(stream(0, [message(0, 1)]));
    assert.deepEqual(await broker.follow({ position: '0' }, 1, [SET, `${SET}/`, SET]), [1]);
    assert.deepEqual(broker.requests, ['/stream?after=0']);
});

test('several sets are polled one after the other', async () => {
    const html = () => new Response('<html>');
    plays(html, json(message(0, 1)), json(message(0, 1)), json(message(1, 1)), json(message(1, 1)),
        json(message(1, 2)));
    assert.deepEqual(await followSets(['a', 'b'], 3), ['a1', 'b1', 'a2']);
    assert.equal(broker.pauses.filter(ms => ms === 5000).length, 1);
});

test('a set with much to send does not hold up another one', async () => {
    const texts = Array.from({ length: 50 }, (_, i) => message(i, i + 1));
    plays(404, ...[texts, texts.slice(0, 1)].map(parts => stream(0, parts, { isOpen: true })));
    const got = await followSets(['a', 'b'], 51);
    assert.ok(got.indexOf('b1') < 25, `${got}`);
});

test('messages come whole', async () => {
    const kept = store();
    plays(stream(0, [message(0, 2), message(2, 5)], { isOpen: true }));
    const got = [];
    for await (const { set, after, last, changes } of follow.messages(SET, { position: '0', store: kept })) {
        got.push([set, after, last, changes.length]);
        if (last === 5)
            break;
    }
    assert.deepEqual(got, [['news', 0, 2, 2], ['news', 2, 5, 3]]);
    assert.equal(kept.kept.get(`tidings:${SET}`), `${EPOCH}-2`);
});

/* Posting */

const ONE = { loc: 'http://example.com/1', change: 'created' };
const RECEIPT = { set: 'news', first: 1, last: 1, position: `${EPOCH}-1`, datetime: '2026-01-01T00:00:00Z' };

/** Posts ONE; the receipt, or the error. Its keys must all be the same. */
async function post(options, ...answers) {
    plays(...answers);
    const result = await publish(SET, ONE, options).catch(error => error);
    assert.equal(new Set(broker.keys).size, broker.requests.length ? 1 : 0);
    assert.ok(broker.bodies.every(body => body === JSON.stringify(ONE)));
    return result;
}

test('a post is repeated under its key until it is answered', async () => {
    const lost = () => { throw new TypeError('fetch failed'); };
    const rows = [
        [[json(RECEIPT)], 0],
        [[lost, json(RECEIPT)], 1],
        [[502, 504, problem(503), json(RECEIPT)], 3],
        [[problem(408), problem(425), problem(429), problem(500), json(RECEIPT)], 4],
        [[problem(409, {}, { 'Retry-After': '1' }), json(RECEIPT)], 1], // the same post is at work
        [[() => new Response('<html>log in'), json([]), json({ title: 'x' }), json(RECEIPT)], 3],
    ];
    for (const [answers, n] of rows) {
        const troubles = [];
        const receipt = await post({ onTrouble: (_, ms) => troubles.push(ms) }, ...answers);
        assert.deepEqual(receipt, { ...RECEIPT, key: broker.keys[0], isRepeat: false });
        assert.match(receipt.key, /^[0-9a-f]{32}$/);
        assert.deepEqual(broker.requests, Array(n + 1).fill('/changes'));
        assert.deepEqual(troubles, broker.pauses);
        assert.equal(troubles.length, n);
        broker.end();
    }
});

test('a key may be given, and one that was used says so', async () => {
    const replayed = json(RECEIPT, 200, { 'Idempotent-Replayed': 'true' });
    assert.deepEqual(await post({ key: 'my-key' }, replayed), { ...RECEIPT, key: 'my-key', isRepeat: true });
    broker.end();
    // The first attempt was kept, it seems, and its answer lost.
    assert.equal((await post({ key: 'my-key' }, 502, replayed)).isRepeat, false);
    broker.end();
    for (const key of ['', 'a b', 'é', 'x'.repeat(256)]) {
        assert.ok(await post({ key }) instanceof TypeError);
        assert.deepEqual(broker.requests, []);
        broker.end();
    }
});

test('what no repeat helps ends a post', async () => {
    const rows = [[400, 'refused'], [401, 'denied'], [403, 'denied'], [404, 'unknown'],
        [409, 'refused'], [410, 'removed'], [413, 'refused'], [422, 'refused']];
    for (const [status, code] of rows) {
        const error = await post({}, problem(status));
        assert.ok(error instanceof TidingsError);
        assert.deepEqual([error.code, error.status, error.message], [code, status, `status ${status}`]);
        assert.equal(error.key, broker.keys[0]);
        broker.end();
    }
});

test('no attempt of a post begins after its time', async () => {
    const late = problem(503, {}, { 'Retry-After': '61' });
    const error = await post({}, 502, late);
    assert.deepEqual([error.code, error.message, error.key], ['unreachable', 'status 503', broker.keys[0]]);
    assert.equal(broker.requests.length, 2);
    broker.end();
    assert.equal((await post({ patience: 70_000 }, late, json(RECEIPT))).last, 1);
    broker.end();
    assert.equal((await post({ patience: 0 }, 502)).code, 'unreachable');
    assert.equal(broker.requests.length, 1);
});

test('a post that is not answered is repeated', async () => {
    plays();
    const took = publish(SET, ONE, { patience: 70_000 });
    await settle();
    broker.pass(30_000);
    await settle();
    assert.equal(broker.requests.length, 1);
    broker.answers.push(json(RECEIPT));
    broker.pass(2000);
    assert.equal((await took).last, 1);
    assert.equal(broker.requests.length, 2);
});

test('a post has the token, and asks for another one', async () => {
    const names = ['old', 'new'];
    const receipt = await post({ token: () => names.shift() }, problem(401), json(RECEIPT));
    assert.equal(receipt.last, 1);
    assert.deepEqual(broker.tokens, ['Bearer old', 'Bearer new']);
});

test('a signal ends a post', async () => {
    plays();
    const ending = new AbortController();
    const took = publish(SET, ONE, { signal: ending.signal });
    await settle();
    ending.abort(new Error('enough'));
    await assert.rejects(took, { message: 'enough' });
});

/* Checkpoints. The first key and note are the example of C2SP signed-note. */

const VKEY = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k';
const NOTE = 'This is an example message.\n\n\u2014 example.com/foo ' +
    'Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n';

test('the signed note of the specification is right, and nothing else', async () => {
    const key = await readVerifierKey(VKEY);
    assert.deepEqual([key.name, key.kind], ['example.com/foo', 1]);
    assert.equal(await checkSignature(readNote(NOTE), key), 0);
    assert.equal(await checkSignature(readNote(NOTE.replace('foo', 'bar')), key), undefined);
    for (const bad of [NOTE.replace('This', 'That'), NOTE.replace('aQM=', 'aQI=')])
        await assert.rejects(checkSignature(readNote(bad), key), CheckpointError);
    for (const bad of [NOTE.trimEnd(), NOTE.replace('\n\n', '\n'), NOTE.replace('is', '\t')])
        assert.throws(() => readNote(bad), { fault: 'malformed' });
    for (const bad of ['', VKEY.slice(1), VKEY.replace('530d', '530e'), VKEY.replace('Aeky', 'Beky'), `${VKEY}=`])
        await assert.rejects(readVerifierKey(bad), TypeError, bad);
});

const sha256 = (...parts) => new Uint8Array(parts.reduce((sum, part) =>
    sum.update(part), createHash('sha256')).digest());
const node = (left, right) => sha256(Uint8Array.of(1), left, right);
const rootOf = hashes => {
    let half = 1;
    while (half * 2 < hashes.length)
        half *= 2;
    return hashes.length === 1 ? hashes[0] : node(rootOf(hashes.slice(0, half)), rootOf(hashes.slice(half)));
};
const LEAVES = []; // the digests of a log
for (let seq = 1; seq <= 600; seq++)
    LEAVES.push(sha256(LEAVES.at(-1) ?? sha256(EPOCH), lineOf(entry(seq))));
const HASHES = LEAVES.map(leaf => sha256(Uint8Array.of(0), leaf));
const treeOf = size => ({ size, root: size ? rootOf(HASHES.slice(0, size)) : sha256() });

/** The way from a leaf, as RFC 6962 section 2.1.1 defines it. */
function pathOf(index, hashes) {
    let half = 1;
    while (half * 2 < hashes.length)
        half *= 2;
    if (hashes.length === 1)
        return [];
    const [left, right] = [hashes.slice(0, half), hashes.slice(half)];
    return index < half ? [...pathOf(index, left), rootOf(right)]
        : [...pathOf(index - half, right), rootOf(left)];
}

/** That between two trees: section 2.1.2. */
function continuation(m, hashes, isWhole = true) {
    let half = 1;
    while (half * 2 < hashes.length)
        half *= 2;
    if (m === hashes.length)
        return isWhole ? [] : [rootOf(hashes)];
    const [left, right] = [hashes.slice(0, half), hashes.slice(half)];
    return m <= half ? [...continuation(m, left, isWhole), rootOf(right)]
        : [...continuation(m - half, right, false), rootOf(left)];
}

function tile(path) {
    const [, level, number] = /^(\d)\/(\d{3})/.exec(path);
    const step = 256 ** level, first = number * 256;
    const width = Number(/\.p\/(\d+)/.exec(path)?.[1] ?? 256);
    return Buffer.concat(Array.from({ length: width }, (_, i) =>
        rootOf(HASHES.slice((first + i) * step, (first + i + 1) * step))));
}

test('proofs lead from each leaf and from each earlier tree to the root, and nowhere else', async () => {
    for (let size = 1; size <= 20; size++) {
        const now = treeOf(size), hashes = HASHES.slice(0, size);
        for (let i = 0; i < size; i++) {
            const way = pathOf(i, hashes), earlier = treeOf(i + 1), proof = continuation(i + 1, hashes);
            assert.ok(await isIncluded(LEAVES[i], i, now, way), `${i} of ${size}`);
            assert.ok(await isContinued(earlier, now, proof), `${i + 1} to ${size}`);
            assert.ok(!await isIncluded(LEAVES[i + 1], i, now, way));
            assert.ok(!await isIncluded(LEAVES[i], i, now, [...way, HASHES[0]]));
            assert.ok(!await isContinued({ ...earlier, root: HASHES[30] }, now, proof));
            assert.ok(size === 1 || !await isIncluded(LEAVES[i], (i + 1) % size, now, way));
            assert.ok(!way.length || !await isIncluded(LEAVES[i], i, now, way.slice(1)));
        }
        assert.ok(await isContinued(treeOf(0), now, []));
        assert.ok(!await isContinued(treeOf(size + 1), now, []));
        assert.ok(!await isIncluded(LEAVES[size], size, now, []));
    }
});

test('tiles lead as proofs do', async () => {
    for (const size of [1, 255, 256, 257, 511, 512, 513, 600]) {
        const now = treeOf(size);
        for (const i of [0, 1, 127, 254, 255, 256, 511, 512, 599].filter(i => i < size)) {
            const asked = [];
            const way = tilesOf(now, async path => asked.push(path) && tile(path));
            assert.ok(await isIncluded(LEAVES[i], i, now, way), `${i} of ${size}`);
            assert.ok(await isContinued(treeOf(i + 1), now, way), `${i + 1} to ${size}`);
            assert.equal(new Set(asked).size, asked.length);
        }
    }
});

/** A checkpoint, signed by a key of the test's own; and the key. */
const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const ORIGIN = `broker.example/sets/news/${EPOCH}`;
const RAW = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32);
const idOf = kind => sha256(Buffer.from(`${ORIGIN}\n`), Buffer.of(kind), RAW).slice(0, 4);
const OWN = `${ORIGIN}+${Buffer.from(idOf(1)).toString('hex')}+${Buffer.concat([Buffer.of(1), RAW]).toString('base64')}`;

const NOW_S = Math.floor(Date.now() / 1000);

function checkpointOf(size, time = NOW_S) {
    const body = `${ORIGIN}\n${size}\n${Buffer.from(treeOf(size).root).toString('base64')}\n`;
    const signed = (kind, text, ...more) => {
        const bytes = Buffer.concat([idOf(kind), ...more, sign(null, Buffer.from(text), privateKey)]);
        return `\u2014 ${ORIGIN} ${bytes.toString('base64')}\n`;
    };
    const at = Buffer.alloc(8);
    at.writeBigUInt64BE(BigInt(time ?? 0));
    const dated = time === null ? '' : signed(4, `cosignature/v1\ntime ${time}\n${body}`, at);
    return `${body}\n${signed(1, body)}${dated}`;
}

const text = body => () => new Response(body);
const digestOf = seq => `sha-256:${Buffer.from(LEAVES[seq - 1]).toString('hex')}`;


/** A page in XML with these lines, from the entry after `after` on; `more`: other attributes and fields. */
function page(after, last, { lines, digest = digestOf(last), before, head = '' } = {}) {
    const all = lines ?? message(after, last).changes.map(lineOf);
    const own = digest ? ` td:digest="${digest}"` : '';
    const body = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        + ' xmlns:rs="http://www.openarchives.org/rs/terms/" xmlns:td="urn:tidings:1">\n'
        + `<rs:ln rel="up" href="http://a/"/>\n${head}<rs:md capability="change-notification" td:epoch="${EPOCH}"`
        + ` td:after="${after}" td:last="${last}"${own}/>\n${all.join('')}</urlset>\n`;
    const headers = { 'Content-Type': 'application/xml', ...before && { 'Tidings-After-Digest': before } };
    return () => new Response(body, { headers });
}

const paths = () => broker.requests.map(path => path.replace(/\?.*/, ''));

test('with a key changes come as lines of the log, and wait for a tree that has them', async () => {
    const sizes = [], troubles = [], accepts = [];
    const options = { position: '0', verifierKey: OWN, onCheckpoint: ({ size }) => sizes.push(size),
        onState: ({ state, error }) => troubles.push(error?.message ?? state) };
    const first = page(0, 4);
    plays((url, headers) => accepts.push(headers.Accept) && first(), text(checkpointOf(1)),
        text(checkpointOf(3)), text(tile('0/000.p/3')), text(checkpointOf(3)),
        text(checkpointOf(4)), text(tile('0/000.p/4')),
        page(4, 5), text(checkpointOf(3, NOW_S + 1)));
    await assert.rejects(broker.follow(options, 5), { fault: 'smaller', code: 'checkpoint', set: 'news' });
    assert.deepEqual(sizes, [1, 3, 3, 4]);
    assert.deepEqual(accepts, ['application/xml']);
    assert.equal(troubles[1], `${ORIGIN} signs 1 entries: later ones are held back until it does`);
    assert.deepEqual(broker.pauses.slice(0, 3), [1000, 1000, 2000]);
});

test('one checkpoint does for all that it has, and each tile is asked for once', async () => {
    const own = url => new Response(tile(/tile\/([^?]*)/.exec(url)[1]));
    plays(page(0, 2), text(checkpointOf(300)), own, own, page(2, 5), page(5, 6));
    assert.deepEqual(await broker.follow({ position: '0', verifierKey: OWN }, 6), [1, 2, 3, 4, 5, 6]);
    assert.deepEqual(paths().filter(path => path !== '/changes').sort(),
        ['/checkpoint', '/tile/0/000', '/tile/0/001.p/44']);
});

/* */
test('what a key does not say is not believed', async () => {
    const garbage = `${checkpointOf(1)}and more\n`;
    for (const [checkpoint, fault] of [[checkpointOf(1, null), 'signature'], [checkpointOf(1, NOW_S + 400), 'signature'],
        [garbage, 'malformed'], [checkpointOf(1, NOW_S + 200)]]) {
        plays(page(0, 1), text(checkpoint));
        const read = broker.follow({ position: '0', verifierKey: OWN }, 1);
        await (fault ? assert.rejects(read, { fault, code: 'checkpoint' }) : read);
        broker.end();
    }
    for (const keys of [{ verifierKey: '' }, { verifierKey: [] }, { verifierKey: '# none\n' },
        { verifierKey: OWN, witnesses: '' }, { witnesses: OWN }, { requireWitnesses: 1 },
        { verifierKey: OWN, filter: { change: 'moved' } }, { verifierKey: OWN, filter: { type: 'csv' } }])
        await assert.rejects(broker.follow({ position: '0', ...keys }, 1), TypeError);
});

const HELD = seq => lineOf(entry(seq));

/* tests/lies has the other lies. */
test('a line that is not the one that was signed is refused', async () => {
    const odd = line => line.replace('/></url>', '/><td:new>1</td:new></url>');
    const twice = line => line.replace('/></url>', ' td:x="1" td:x="2"/></url>');
    const rows = [
        [{ before: digestOf(5) }, undefined], // at the beginning it is known
        [{ lines: [HELD(1), `\n${HELD(2)}`] }, { fault: 'malformed' }],
        [{ lines: [HELD(1), odd(HELD(2))] }, { fault: 'malformed' }],
        [{ lines: [HELD(1), twice(HELD(2))] }, { fault: 'malformed', message: /two attributes/ }],
        [{ lines: [HELD(1), HELD(2).trimEnd()] }, { fault: 'malformed', message: /within an entry/ }],
        [{ head: '<!-- -->\n' }, { fault: 'malformed' }],
    ];
    for (const [lie, wanted] of rows) {
        plays(page(0, 2, lie), text(checkpointOf(2)), text(tile('0/000.p/2')));
        const seqs = [];
        const read = (async () => {
            for await (const { seq } of follow(SET, { position: '0', verifierKey: OWN })) {
                seqs.push(seq);
                if (seq === 2)
                    break;
            }
        })();
        await (wanted ? assert.rejects(read, { set: 'news', ...wanted }) : read);
        assert.deepEqual(seqs, wanted ? [] : [1, 2], JSON.stringify(lie));
        broker.end();
    }
});

test('a page of a proxy is no message', async () => {
    plays(text('<html>'), page(0, 1), text(checkpointOf(1)));
    assert.deepEqual(await broker.follow({ position: '0', verifierKey: OWN }, 1), [1]);
});

test('the digest of a position is stored with it, and a resumed reader starts from it', async () => {
    const store = new Map();
    const key = `tidings:${SET}`;
    plays(page(0, 2), text(checkpointOf(2)), text(tile('0/000.p/2')));
    const options = { position: '0', store, verifierKey: OWN };
    const changes = follow(SET, options);
    await changes.next();
    await changes.next();
    await changes.return();
    assert.deepEqual([store.get(key), store.get(`${key} digest`)], [`${EPOCH}-1`, `${EPOCH}-1 ${digestOf(1)}`]);
    broker.end();
    plays(page(1, 2, { before: digestOf(3) }));
    await assert.rejects(broker.follow(options, 1), { code: 'rewound' });
    broker.end();
    for (const [kept, before, fault] of [[digestOf(1)], ['none', digestOf(1)], ['none', digestOf(3), 'rewound'],
        ['none', undefined, 'malformed']]) {
        store.set(key, `${EPOCH}-1`).set(`${key} digest`, `${EPOCH}-1 ${kept}`);
        plays(page(1, 2, { before }), text(checkpointOf(2)), text(tile('0/000.p/2')));
        const read = broker.follow(options, 1);
        await (fault ? assert.rejects(read, error => [error.code, error.fault].includes(fault)) : read);
        broker.end();
    }
});

test('with a key the reader filters', async () => {
    plays(page(0, 3), text(checkpointOf(3)), text(tile('0/000.p/3')));
    const filter = { prefix: 'http://example.com/3' };
    assert.deepEqual(await broker.follow({ position: '0', verifierKey: OWN, filter }, 1), [3]);
    assert.equal(broker.requests[0], '/changes?after=0&wait=0');
});

test('lines of Change Lists are hashed, too, where the digest before them is known', async () => {
    const store = new Map();
    const options = { store, verifierKey: OWN, position: '0' };
    const resume = digest => store.set(`tidings:${SET}`, `${EPOCH}-2`).set(`tidings:${SET} digest`, `${EPOCH}-2 ${digest}`);
    const play = () => plays(problem(410, GONE), list(0, 7), list(0, 7),
        text(checkpointOf(7)), text(tile('0/000.p/7')));
    resume(digestOf(2));
    play();
    assert.deepEqual(await broker.follow(options, 5), [3, 4, 5, 6, 7]);
    broker.end();
    store.clear();
    resume(digestOf(3));
    play();
    await assert.rejects(broker.follow(options, 5), { fault: 'digest' });
    broker.end();
    store.clear();
    resume('none');
    play();
    await assert.rejects(broker.follow(options, 5), { code: 'gone' });
});

test('with a key a few sets have a connection each, and more take turns', async () => {
    for (const n of [2, 5]) {
        const names = Array.from({ length: n }, (_, i) => `s${i}`);
        plays();
        const position = Object.fromEntries(names.map(name => [name, '0']));
        const changes = follow('http://broker.example/', { sets: names, verifierKey: OWN, position });
        const next = changes.next().catch(() => {});
        await settle();
        const wanted = n === 2 ? names : names.slice(0, 1);
        assert.deepEqual(broker.requests, wanted.map(name => `/sets/${name}/changes?after=0&wait=0`));
        broker.end();
        changes.return();
        void next;
    }
});
