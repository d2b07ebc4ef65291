/**
 * console-tokens.js - the tokens of a broker: who may do what, a form that makes a token, and the page of
 * each, which rotates and revokes it.
 *
 *     #/tokens         all of them
 *     #/tokens/NAME    one
 *
 * Only an administrator has these pages. The text of a token is shown once, when it is made; the broker
 * keeps a hash of it, and this page nothing.
 */

import {
    ask, askJson, badge, clock, commands, copyable, curl, facts, Fields, fill, headline, labelled, make, perform, quote,
    section, table, time, workButton,
} from './console-parts.js';

/** Rows of Fields, whose options are those of `tidingsd token add`. */
const FIELDS = [
    ['publish', 'publish', 'text', 'may post to these sets: news, news-*, *, with commas between; a ! before a pattern'
        + ' denies, and wins'],
    ['subscribe', 'subscribe', 'text', 'may read these sets and subscribe to them'],
    ['manage', 'manage', 'text', 'may create, configure and remove these sets, and end their subscriptions'],
    ['observe', 'observe', 'flag', 'may read metrics, bridges, relays and subscriptions'],
    ['admin', 'admin', 'flag', 'may do everything, also with tokens'],
    ['expires', 'expires', 'text', 'ends after so long: 90d, 12h; never if not given'],
    ['certificate', 'certificate', 'text', 'a client with this certificate (tidingsd --tls-client-ca) needs no token; as'
        + ' printed by openssl x509 -noout -fingerprint -sha256'],
];

const SPANS = { s: 1, m: 60, h: 3600, d: 86400, w: 604800 };

/** "90d" in milliseconds. */
function spanOf(text) {
    const [, n, unit] = /^([0-9]+)([smhdw])$/.exec(text) ?? [];
    if (!Number(n))
        throw new Error(`"${text}" is no number of s, m, h, d or w, such as 90d.`);
    return Number(n) * SPANS[unit] * 1000;
}

/** What the fields say, as POST /tokens takes it. */
function requestOf(name, fields) {
    const { expires, ...terms } = fields.object();
    for (const right of ['publish', 'subscribe', 'manage'])
        if (terms[right])
            terms[right] = terms[right].split(',').map(one => one.trim());
    if (expires)
        terms.expires = new Date(Date.now() + spanOf(expires)).toISOString();
    return { method: 'POST', body: JSON.stringify({ name, ...terms }), type: 'application/json' };
}

function tokenPath(name, rest = '') {
    return `tokens/${encodeURIComponent(name)}${rest}`;
}

/** "publish news-*, manage *". */
function rightsOf(one) {
    const named = ['publish', 'subscribe', 'manage'].filter(right => one[right]?.length)
        .map(right => `${right} ${one[right].join(',')}`);
    return one.admin ? 'everything' : [...named, one.observe && 'observe'].filter(right => right).join('; ') || 'nothing';
}

/** The text of a token, for the one who has made it. */
function shownOnce(name, text) {
    return make('div', { class: 'card', role: 'status' },
        make('h2', {}, `The text of ${name}`),
        make('p', {}, 'Copy it now: nobody can show it again.'), copyable(text, 'Copy the token'));
}

function tokenForm(user, once, redraw) {
    const name = make('input', {
        required: true, autocomplete: 'off', spellcheck: 'false', oninput: () => draw(),
    });
    const button = make('button', { class: 'primary' }, 'Make the token'), lines = make('div', {});
    const draw = () => {
        let request;
        try {
            request = name.value && requestOf(name.value, fields);
        } catch {
            request = undefined; // half a span, as it is typed
        }
        fill(lines, request && commands([
            curl('tokens', request, user),
            `tidingsd token add ${quote(name.value)} ${fields.options()}`.trimEnd(),
        ]));
    };
    const fields = new Fields(FIELDS, {}, draw);
    return make('form', {
        class: 'settings', onsubmit: event => {
            event.preventDefault();
            perform(button, async () => {
                const made = await (await ask('tokens', requestOf(name.value, fields))).json();
                fill(once, made.token && shownOnce(made.name, made.token));
                await redraw();
                return `The token ${made.name} is made.`;
            });
        },
    }, labelled('Name', name), make('div', { class: 'fields' }, fields.elements), button, lines);
}

/** What an open broker says: it has no administrator. */
function showClosing(main) {
    fill(main, headline('tokens', 'Tokens'),
        make('p', { class: 'lead' }, 'This broker is open: everybody who reaches it may publish and manage sets.'
            + ' The first token closes it. Its operator makes it on the machine of the broker:'),
        copyable('tidingsd token add root --admin'),
        make('p', {}, 'Then sign in with that token to make others here.'));
}

/** The page of all tokens. */
export async function showTokens(main, { token, signal, every }) {
    document.title = 'Tokens – Tidings';
    if (!token.admin && token.manage?.includes('*') && token.name === 'everyone') {
        showClosing(main);
        return;
    }
    const once = make('div', {}), list = make('div', {});
    const draw = async () => {
        const { tokens } = await askJson('tokens', { signal });
        tokens.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.created < b.created ? 1 : -1));
        fill(list, table('Tokens', ['Token', 'May', 'Last use', 'Ends (UTC)', 'State'], tokens.map(one => [
            make('a', { href: `#/tokens/${encodeURIComponent(one.name)}` }, one.name), rightsOf(one),
            one.used ? time(one.used) : 'never', one.expires ? clock(one.expires) : 'never',
            badge(one.state, one.state === 'active' ? 'good' : 'bad'),
        ])));
    };
    await draw();
    fill(main, headline('tokens', 'Tokens'), once, list,
        commands([curl('tokens', {}, token), 'tidingsd token list']),
        section('Make a token', tokenForm(token, once, draw)));
    // Whoever is about to choose one keeps the place.
    return every(10_000, async () => list.contains(document.activeElement) || draw(), true);
}

function rotateForm(user, name, once, redraw) {
    const grace = make('input', { type: 'number', min: 0, step: 1, required: true, value: 3600, oninput: () => draw() });
    const button = make('button', {}, 'Rotate'), lines = make('div', {});
    const path = () => tokenPath(name, `/rotate?grace=${grace.value}`);
    const draw = () => fill(lines, grace.value && commands([
        curl(path(), { method: 'POST' }, user), `tidingsd token rotate ${quote(name)} --grace ${grace.value}s`]));
    draw();
    return make('form', {
        onsubmit: event => {
            event.preventDefault();
            perform(button, async () => {
                const made = await (await ask(path(), { method: 'POST' })).json();
                fill(once, shownOnce(name, made.token));
                await redraw();
            }, `The token ${name} has a new text.`);
        },
    }, make('p', {}, 'A rotation makes a new text. The present one holds for the grace.'),
    labelled('Grace, seconds', grace), button, lines);
}

/** The page of one token. */
export async function showToken(main, { token, signal, name }) {
    const once = make('div', {}), box = make('div', {});
    const draw = async () => {
        // In the grace of a rotation there are two texts.
        const { tokens } = await askJson(tokenPath(name), { signal });
        const [one, former] = tokens.sort((a, b) => (a.created < b.created ? 1 : -1));
        fill(box, facts([
            ['May', rightsOf(one)],
            ['State', badge(one.state, one.state === 'active' ? 'good' : 'bad')],
            ['Made', time(one.created)],
            ['Last use', one.used ? time(one.used) : 'never'],
            ['Ends', one.expires ? `${clock(one.expires)} UTC` : 'never'],
            one.certificate && ['Certificate', one.certificate],
            former?.state === 'active' && ['The former text ends', `${clock(former.expires)} UTC`],
        ]));
        return one;
    };
    const one = await draw();
    const isOwn = token.name === name;
    document.title = `${name} – Tidings`;
    fill(main,
        make('nav', { class: 'crumbs', 'aria-label': 'Where you are' },
            make('a', { href: '#/tokens' }, 'Tokens'), make('span', { 'aria-hidden': 'true' }, ' / ')),
        headline('tokens', name), once, box,
        commands([curl(tokenPath(name), {}, token), 'tidingsd token list']),
        name !== 'everyone' && !one.certificate
            && section('Rotate', rotateForm(token, name, once, draw)),
        section('Revoke',
            make('p', {}, `Within two seconds everything ends that is under way for ${name}.`
                + (isOwn ? ' You are signed in with it: this session ends, too.' : '')),
            workButton('Revoke', { class: 'danger' }, async () => {
                await ask(tokenPath(name), { method: 'DELETE' });
                location.hash = '#/tokens';
            }, `The token ${name} is revoked.`, `Revoke ${name}? Nobody can undo it.`, 'Revoke'),
            commands([curl(tokenPath(name), { method: 'DELETE' }, token), `tidingsd token revoke ${quote(name)}`])));
}
