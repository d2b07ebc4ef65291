/**
 * console-settings.js - the settings of a set as a form; making a set, and removing one.
 */

import {
    announce, ask, bytes, commands, confirmed, curl, Fields, fill, headline, labelled, make, number, perform,
    quote, section, setPath, setUrl,
} from './console-parts.js';

/** The settings: rows of Fields, whose options are those of `tidings set create`. */
const FIELDS = [
    ['title', 'title', 'text', 'title of the set, for people'],
    ['description', 'description', 'url', 'where it is described'],
    ['rotateEntries', 'rotate-entries', 'number', 'entries of a Change List'],
    ['rotateBytes', 'rotate-bytes', 'number', 'bytes of a Change List'],
    ['rotateAge', 'rotate-age', 'number', 'age of a Change List; 0 is never'],
    ['retainLists', 'retain-lists', 'number', 'closed lists that stay; 0 is all'],
    ['retainAge', 'retain-age', 'number', 'how long they stay; 0 is for ever'],
    ['resourceListEvery', 'resource-list-every', 'number', 'age of a Resource List; 0 is on demand'],
    ['resourceDumpEvery', 'resource-dump-every', 'number', 'age of a Resource Dump; 0 is on demand'],
    ['resourceListKeep', 'resource-list-keep', 'daily|none|N', 'which ones stay in the archive'],
    ['resourceDumpKeep', 'resource-dump-keep', 'daily|none|N', 'likewise, of Resource Dumps'],
    ['content', 'content', ['none', 'fetch', 'inline'], 'whether the broker stores the bytes of resources'],
    ['contentVersions', 'content-versions', 'all|AGE|N', 'versions that keep bytes'],
    ['private', 'private', ['false', 'true'], 'only for tokens that may read the set'],
    ['noData', 'no-data', ['false', 'true'], 'refuse changes that have data'],
    ['upstreamTopic', 'upstream-topic', 'url', 'take the changes of this WebSub topic'],
    ['hubs', 'hub', 'list', 'send changes to this hub, too'],
];

/** Sends it; where stored bytes would be lost, the broker says which, and the user decides. */
async function send(path, request) {
    const add = path.includes('?') ? '&' : '?';
    try {
        return await ask(path, request);
    } catch (error) {
        if (error.status !== 409 || !error.problem.discards
            || !await confirmed(`${error.message.split(';')[0]}. Nobody can undo it.`, 'Delete these bytes'))
            throw error;
        return ask(`${path}${add}discard=yes`, request);
    }
}

/** The form that changes the settings of a set. */
export function settingsForm(page) {
    const button = make('button', {}, 'Change settings'), lines = make('div', {});
    const draw = () => fill(lines, fields.changed().length > 0 && commands([
        curl(setPath(page.name), { method: 'PATCH', body: fields.json(), type: 'application/merge-patch+json' }, page.token),
        `tidings set change ${quote(setUrl(page.name))} ${fields.options()}`,
    ]));
    const { title, description, settings } = page.set;
    const fields = new Fields(FIELDS, { title, description, ...settings }, draw);
    return make('form', {
        class: 'settings', onsubmit: event => {
            event.preventDefault();
            perform(button, async () => {
                if (!fields.changed().length)
                    return 'Nothing is different.';
                await send(setPath(page.name), { method: 'PATCH', body: fields.json(), type: 'application/merge-patch+json' });
                await page.reload();
                page.show();
                return 'The settings are changed.';
            });
        },
    }, make('p', { class: 'muted' }, 'An empty field is the default of the broker.'),
    make('div', { class: 'fields' }, fields.elements), button, lines);
}

/** The page that makes a set. */
export function showNewSet(main, { token }) {
    const name = make('input', { required: true, pattern: '[a-z0-9][a-z0-9._\\-]{0,63}', autocomplete: 'off', spellcheck: 'false',
        title: '1 to 64 of a-z, 0-9, ".", "_" and "-"', oninput: () => draw() });
    const button = make('button', { class: 'primary' }, 'Make the set'), lines = make('div', {});
    const request = () => ({ method: 'PUT', body: fields.json(), type: 'application/json' });
    const draw = () => fill(lines, name.value && commands([
        curl(`${setPath(name.value)}?new=yes`, request(), token),
        `tidings set create ${quote(setUrl(name.value))} ${fields.options()}`.trimEnd(),
    ]));
    const fields = new Fields(FIELDS, {}, draw);
    document.title = 'A new set – Tidings';
    fill(main,
        make('nav', { class: 'crumbs', 'aria-label': 'Where you are' },
            make('a', { href: '#/' }, 'Sets'), make('span', { 'aria-hidden': 'true' }, ' / ')),
        headline('sets', 'A new set'),
        make('form', {
            class: 'settings', onsubmit: event => {
                event.preventDefault();
                perform(button, async () => {
                    await ask(`${setPath(name.value)}?new=yes`, request());
                    location.hash = `#/sets/${name.value}/settings`;
                }, `The set ${name.value} is made.`);
            },
        }, labelled('Name', name),
        make('details', {}, make('summary', {}, 'Settings'),
            make('p', { class: 'muted' }, 'An empty field is the default of the broker.'),
            make('div', { class: 'fields' }, fields.elements)),
        button, lines));
}

/** The part of a page that removes its set: what goes with it, and the name to be typed. */
export function removalSection(page) {
    const { set } = page;
    const typed = make('input', { autocomplete: 'off', spellcheck: 'false', oninput: () => { button.disabled = typed.value !== page.name; } });
    const button = make('button', { class: 'danger', disabled: true }, 'Remove the set');
    const goes = [`${number(set.last)} changes`, `${number(set.lists.closed)} closed lists (${bytes(set.lists.fileBytes)})`,
        set.content && `${number(set.content.kept)} files of resources (${bytes(set.content.bytes)})`,
        `${number(Object.values(set.subscribers).reduce((a, b) => a + b, 0))} readers lose it`];
    return section('Remove the set',
        make('p', {}, `With it go ${goes.filter(one => one).join(', ')}. Nobody can undo this.`),
        make('form', {
            onsubmit: event => {
                event.preventDefault();
                perform(button, async () => {
                    await ask(setPath(page.name), { method: 'DELETE' });
                    location.hash = '#/';
                    announce(`The set ${page.name} is removed.`, 'good');
                }, `The set ${page.name} is removed.`);
            },
        }, labelled(`Type ${page.name} to agree`, typed), button),
        commands([
            curl(setPath(page.name), { method: 'DELETE' }, page.token),
            `tidings set delete ${quote(setUrl(page.name))}`,
        ]));
}
