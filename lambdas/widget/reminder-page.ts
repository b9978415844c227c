// One reminder as a page: where it stands, who acts next, what to type, what happened, and what is refused.
import { operatorCommand } from '../core/operator-command.ts';
import { type Explanation, nextText, storyLines } from '../core/verdict-text.ts';
import { type OperatorVerb, operatorVerbs } from '../core/verdict-verbs.ts';
import { button, type Frame, page, time } from './frame.ts';
import { type Html, html } from './html.ts';

/** So many lines of a story are shown, the newest. */
export const storyLimit = 200;

/** @param stack the stack that commands name; null: local AWS */
export function reminderPage(frame: Frame, searched: string, explanation: Explanation, stack: string | null): string {
  const { evidence, standing, meaning, asOf, lateSeconds, cautions, verbs } = explanation;
  const late = lateSeconds === null || lateSeconds === 0 ? '' : `, ${lateSeconds} s after its due time`;
  const names = Object.keys(operatorVerbs) as OperatorVerb[];
  const allowed = names.filter((verb) => verbs[verb].allowed);
  return page(
    frame,
    searched,
    html`<p>${backToLedger(frame)}</p>
<h2>${evidence.deliveryId}</h2>
<div class="verdict"><p><strong>${standing.replaceAll('_', ' ')}:</strong> ${meaning}</p>
<p>As of ${time(asOf)}${late}.</p>
<p>${nextText(explanation)}</p>
${cautions.map((caution) => html`<p>note: ${caution}</p>`)}</div>
${facts(evidence)}
<h2>What you may do</h2>
<p class="note">${allowed.length === 0 ? 'Nothing.' : 'Each command tells what it would do; with --apply it does it.'}</p>`,
    allowed.map((verb) => allowedVerb(explanation, verb, stack)),
    html`<h2>What happened</h2>
${story(evidence)}
<h2>What is refused</h2>
<ul>${names.map((verb) => {
      const ruling = verbs[verb];
      return ruling.allowed ? null : html`<li>${verb}: ${ruling.reason}</li>`;
    })}</ul>`,
  );
}

/** Says why there is no reminder to show. */
export function noticePage(frame: Frame, searched: string, notice: string): string {
  return page(frame, searched, html`<p>${backToLedger(frame)}</p><p role="status">${notice}</p>`);
}

const backToLedger = (frame: Frame): Html => button(frame, { reminder: '' }, 'The whole ledger');

function facts(evidence: Explanation['evidence']): Html {
  const { destination, expiresAt, lease } = evidence;
  const rows: [string, string][] = [
    ['state', `${evidence.state} since ${time(evidence.stateSince)}`],
    ['key', evidence.key],
    ['producer', evidence.producer],
    ['destination', `${destination.name} (${destination.state}), owner ${destination.owner}`],
    ['due', `${time(evidence.dueAt)}${expiresAt === null ? '' : `, expires ${time(expiresAt)}`}`],
    ['version', `${evidence.version}, attempts ${evidence.attemptNo}, failures ${evidence.failures}`],
    ...(lease === null ? [] : [['lease', `of ${lease.owner} until ${time(lease.until)}`] as [string, string]]),
    ...(evidence.holdReason === null ? [] : [['held because', evidence.holdReason] as [string, string]]),
    ...(evidence.lastError === null ? [] : [['last error', evidence.lastError] as [string, string]]),
  ];
  return html`<table><tbody>${rows.map(
    ([name, value]) => html`<tr><th scope="row" class="note">${name}</th><td>${value}</td></tr>\n`,
  )}</tbody></table>`;
}

function allowedVerb(explanation: Explanation, verb: OperatorVerb, stack: string | null): Html {
  const ruling = explanation.verbs[verb];
  const command = operatorCommand(explanation, explanation.evidence.attemptNo, verb, stack);
  return html`<h3>${verb}</h3>
<p>It ${ruling.allowed ? ruling.effect : null}.</p>
${ruling.allowed ? ruling.needs.map(({ option, because }) => html`<p class="note">needs ${option}: ${because}</p>`) : null}
<pre data-verb="${verb}">${command}</pre>`;
}

function story(evidence: Explanation['evidence']): Html {
  const lines = storyLines(evidence);
  const left = Math.max(0, lines.length - storyLimit);
  return html`${left === 0 ? null : html`<p class="note">${left} earlier lines are left out: \`reminders explain\` has them all.</p>`}
<table><thead><tr><th scope="col">when</th><th scope="col">what</th></tr></thead>
<tbody>${lines
    .slice(left)
    .map(
      ({ at, text, logs }) =>
        html`<tr><td class="time">${time(at)}</td><td>${text}${
          logs === null ? null : html` <a href="${logs}" target="_blank" rel="noopener noreferrer">its log</a>`
        }</td></tr>\n`,
    )}</tbody></table>`;
}
