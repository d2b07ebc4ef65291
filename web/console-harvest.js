/**
 * console-harvest.js - what the harvester of a set reports in the console, the consent to deletions
 * that it holds back, and a form that writes its command and the file of its service. The broker runs no
 * harvester.
 */

import {
    ask, badge, commandLines, commands, curl, duration, facts, Fields, fill, harvestTroubles, make, mayDo, number,
    quote, section, setPath, setUrl, spaced, time, workButton,
} from './console-parts.js';

/** How the set stands to the source that it is harvested from. */
export function harvestSection(report) {
    const troubles = harvestTroubles(report);
    return section('Harvest',
        make('p', { class: 'harvest' }, report.source, ' ', make('span', { class: 'muted' }, report.kind),
            spaced(troubles.length ? troubles : [badge('complete', 'good')])),
        report.not_complete && make('p', { class: 'problem' },
            `Not known to be complete: ${report.not_complete}`),
        report.left_out > 0 && make('p', { class: 'muted' },
            `Left out: ${number(report.left_out)} rows`, report.left_out_example && `, such as ${report.left_out_example}`),
        facts([
            ['Complete as of', report.complete_as_of ? time(report.complete_as_of) : 'never'],
            ['Last look', time(report.last_look)],
            ['Added, changed, deleted',
                [report.added, report.changed, report.deleted].map(number).join(', ')],
            ['Held back', number(report.held_back)],
            ['Left out, mended', [report.left_out, report.mended].map(number).join(', ')],
            report.every_s && ['Looks every', duration(report.every_s)],
        ]));
}

/* Consent */

/** What waits for a consent, and the button that gives it: the harvester sees it at its next look. */
function consent(page) {
    const { name, set: { harvest } } = page;
    const path = setPath(name, `/harvest?accept-deletions=${harvest.held_back}`), n = number(harvest.held_back);
    const isGiven = harvest.accept_deletions >= harvest.held_back;
    return section('Consent to deletions',
        make('p', { class: 'problem' }, `${n} deletions wait for consent: the source lacks so many resources of the`
            + ' set. Look at the source. If it is right, this number is your consent.'),
        isGiven ? make('p', {}, `Somebody has consented to ${number(harvest.accept_deletions)} deletions. The harvester`
            + ' deletes at its next look, unless more are held back by then.')
            : workButton(`Consent to ${n} deletions`, { class: 'danger' }, async () => {
                await ask(path, { method: 'POST' });
                await page.reload();
            }, 'The harvester deletes at its next look.', `Delete ${n} resources of ${name} that`
                + ` ${harvest.source} lacks? Whoever mirrors the set deletes them, too.`, 'Consent'),
        commands([
            curl(path, { method: 'POST' }, page.token),
            `tidings harvest ${quote(harvest.source)} ${quote(setUrl(name))} --once --accept-deletions ${harvest.held_back}`,
        ]));
}

function report(page) {
    const path = setPath(page.name, '/harvest');
    return page.set.harvest ? [
        page.set.harvest.held_back > 0 && consent(page),
        section('Report', make('p', { class: 'muted' }, 'A harvester that runs reports again after its next look.'),
            workButton('Forget the report', {}, async () => {
                await ask(path, { method: 'DELETE' });
                await page.reload();
            }, 'The report is forgotten.'),
            commands([curl(path, {}, page.token), curl(path, { method: 'DELETE' }, page.token)])),
    ] : make('p', { class: 'muted' }, 'No harvester has reported on this set.');
}

/* The form */

/** Rows of Fields, whose options are those of `tidings harvest`. */
const OPTIONS = [
    ['sources', 'source-url', 'list', 'any document of a ResourceSync source', { label: 'Source URLs', word: '' }],
    ['every', 'every', 'text', 'between looks at a source that pushes nothing: 90, 10m, 1.5h'],
    ['compare', 'compare', 'text', 'between comparisons with all resources of a source'],
    ['maxDelete', 'max-delete', 'text', "of a source's resources, at once; none is no limit",
        { label: 'Max delete, percent' }],
    ['filter', 'filter', 'text', "a part: 'tag=a&prefix=http://...&type=image/*', or all"],
    ['loc', 'loc', 'text', 'of OAI-PMH: https://a.org/{id}'],
    ['records', 'records', 'flag', 'of OAI-PMH: store each record, too, as a document of XML'],
    ['republish', 'republish', 'flag', 'store the bytes, too, under addresses of the set: SET-URL/r/...'],
    ['maxFile', 'max-file', 'text', 'with --republish, --records: leave out what is longer'],
    ['skipBad', 'skip-bad', 'flag', 'rows that were left out are no failure'],
    ['keepLinks', 'keep-links', 'flag', 'links collection and canonical, too'],
    ['tokenFile', 'token-file', 'text', "bearer token for the URL's server"],
    ['targetTokenFile', 'target-token-file', 'text', 'as --token-file, for the set'],
];

/** Words as systemd reads them: an EnvironmentFile takes one backslash away, and its unit splits the rest. */
function unitWords(words) {
    return words.map(word => word.replace(/[\\'"\s]/g, '\\$&')).join(' ').replaceAll('\\', '\\\\');
}

function harvestForm({ name, token }) {
    const lines = make('div', {});
    const draw = () => {
        const sources = fields.object().sources ?? ['SOURCE-URL'];
        fill(lines,
            make('h3', {}, 'As a command'),
            commandLines([['tidings harvest', ...[...sources, setUrl(name), ...fields.words()].map(quote)].join(' ')]),
            make('h3', {}, 'As a service'),
            make('p', {}, 'The lines of ', make('code', {}, `/etc/tidings/harvest/${name}.conf`),
                ', and the command that starts the service:'),
            commandLines([
                `SOURCES=${unitWords(sources)}\nSET=${unitWords([setUrl(name)])}\nOPTIONS=${unitWords(fields.words())}`,
                `systemctl enable --now tidings-harvest@${name}`,
            ]));
    };
    const fields = new Fields(OPTIONS, {}, draw);
    draw();
    return section('Start a harvest',
        make('p', {}, 'A harvester is a program that reads a source and posts the differences into this set. It runs on'
            + ' a machine of your choice; the broker does not run it. The form writes its lines.'),
        token.name !== 'everyone' && make('p', {}, 'It needs a token with the right to publish to this set: the command'
            + ' reads it from TIDINGS_TOKEN or a file, the service from the file that Target token file names.'),
        make('form', { class: 'settings reads', onsubmit: event => event.preventDefault() },
            make('div', { class: 'fields' }, fields.elements)),
        lines);
}

/** The view of a set: its report changes while somebody fills in the form. */
export function harvestView(page) {
    const box = make('div', {});
    let shown;
    page.renew = () => {
        const now = JSON.stringify([page.set.harvest?.source, page.set.harvest?.held_back,
            page.set.harvest?.accept_deletions]);
        if (now !== shown)
            fill(box, report(page));
        shown = now;
    };
    page.renew();
    return [box, mayDo(page.token, 'publish', page.name) && harvestForm(page)];
}
