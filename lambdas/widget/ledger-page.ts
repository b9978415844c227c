// The whole ledger as a page: how many wait where and since when, what needs somebody, where reminders are parked.
import { ageText } from '../core/age-text.ts';
import type { Attention, AttentionLine } from '../core/attention.ts';
import type { Observation } from '../core/observe-ledger.ts';
import { button, type Frame, page, reminderLink, time } from './frame.ts';
import { type Html, html, type Part } from './html.ts';

/** A state, its reminders, since when the oldest is in it, and the earliest due time of those that are due and not sent. */
export interface StateLine {
  readonly state: string;
  readonly count: number;
  readonly oldestSince: string;
  readonly oldestDue: string | null;
}

/** All that the page shows. */
export interface LedgerView {
  readonly observation: Observation;
  readonly attention: Attention;
  /** Every state; null: nobody asked for it. */
  readonly states: readonly StateLine[] | null;
}

export function ledgerPage(frame: Frame, { observation, attention, states }: LedgerView): string {
  const { measured, destinations } = observation;
  const now = Date.parse(attention.readAt);
  return page(
    frame,
    '',
    html`<h2>Now</h2>
<p class="note">As of ${time(attention.readAt)}. ${measured.due_next_hour} come due within the hour; about ${measured.in_calendar} in the calendar.</p>
${table(['what', 'reminders', 'oldest for', 'attention'], nowRows(measured))}`,
    html`<h3>Lately</h3>
<p>Attempts that ended within five ticks: ${measured.recent_attempts}. Delivered ${measured.recent_delivered}, dead ${measured.recent_dead},
unknown ${measured.recent_unknown}, closed by a claim ${measured.recent_rescued}. ${lateness(measured)}</p>`,
    attentionSection(frame, now, 'Waiting for a person', attention.forPerson),
    attentionSection(frame, now, 'Overdue, or left behind under a lease', attention.overdue),
    attentionSection(frame, now, 'Set aside: claims pass over them', attention.setAside),
    html`<h2>Destinations with parked or failing reminders</h2>
${
  destinations.length === 0
    ? html`<p>None.</p>`
    : table(
        ['destination', 'state', 'parked', 'failed three times'],
        destinations.map(({ name, state, parked, failing }) => [
          html`<th scope="row">${name}</th>`,
          html`<td class="state">${state}</td>`,
          html`<td class="number">${parked}</td>`,
          html`<td class="number">${failing}</td>`,
        ]),
      )
}`,
    html`<h2>Every state</h2>
${
  states === null
    ? html`<p>${button(frame, { count: true, reminder: '' }, 'Count every state')} <span class="note">This reads the whole table.</span></p>`
    : table(
        ['state', 'reminders', 'oldest in it for', 'longest overdue'],
        states.map(({ state, count, oldestSince, oldestDue }) => [
          html`<th scope="row">${state}</th>`,
          html`<td class="number">${count}</td>`,
          html`<td>${ageText(now - Date.parse(oldestSince))}</td>`,
          html`<td>${oldestDue === null ? '–' : ageText(now - Date.parse(oldestDue))}</td>`,
        ]),
      )
}`,
  );
}

function lateness({ recent_delivered, lateness_p50, lateness_p99 }: Observation['measured']): string {
  if (recent_delivered === 0) return '';
  return `Half arrived within ${ageText(lateness_p50)} of their due time, 99 of 100 within ${ageText(lateness_p99)}.`;
}

/** `look`: whether anything but zero is for somebody to look at. */
type NowRow = [what: string, count: number | null, age: number | null, look: 'look' | 'passes', oldest?: string];

function nowRows(measured: Observation['measured']): Part[][] {
  const rows: NowRow[] = [
    ['due, and no claim has taken them', measured.overdue, measured.overdue_age, 'passes'],
    [
      'dispatching: a claim hands them over',
      measured.dispatching,
      measured.dispatching_abandoned_age,
      'look',
      'lease over for',
    ],
    ['queued: invited, not opened', measured.queued, measured.queued_age, 'passes'],
    ['delivering: being sent', measured.delivering, measured.delivering_abandoned_age, 'look', 'lease over for'],
    ['held, not reviewed', measured.held_unreviewed, measured.held_unreviewed_age, 'look'],
    ['dead, not reviewed', measured.dead_unreviewed, measured.dead_unreviewed_age, 'look'],
    ['set aside', measured.excluded, null, 'look'],
    ['parked at an active destination', null, measured.parked_active_age, 'look'],
    ['parked at the destination with the most', measured.most_parked, null, 'passes'],
    ['all dispatch paused', null, measured.paused_age, 'look'],
    ['ended, and the event bus not told', null, measured.unannounced_age, 'passes'],
  ];
  return rows.map(([what, count, age, look, oldest = '']) => {
    // Reminders under a lease are well; what is over their lease is not.
    const trouble = look === 'look' && (age ?? count ?? 0) > 0;
    return [
      html`<th scope="row">${what}</th>`,
      html`<td class="number">${count ?? '–'}</td>`,
      html`<td>${age === null || age === 0 ? '–' : `${oldest} ${ageText(age)}`}</td>`,
      html`<td>${trouble ? html`<span class="look">look</span>` : null}</td>`,
    ];
  });
}

function attentionSection(frame: Frame, now: number, title: string, lines: readonly AttentionLine[]): Html | null {
  if (lines.length === 0) return null;
  return html`<h2>${title}</h2>
${table(
  ['reminder', 'state', 'since', 'why'],
  lines.map(({ deliveryId, state, since, why }) => [
    html`<td class="id">${reminderLink(frame, deliveryId)}</td>`,
    html`<td class="state">${state}</td>`,
    html`<td class="time">${time(since)}, ${ageText(now - Date.parse(since))}</td>`,
    html`<td>${why ?? '–'}</td>`,
  ]),
)}
${lines.length === linesOfAKind ? html`<p class="note">The longest waiting ${linesOfAKind}; there may be more.</p>` : null}`;
}

/** How many reminders of a kind the page lists. */
export const linesOfAKind = 10;

function table(head: readonly string[], rows: readonly (readonly Part[])[]): Html {
  return html`<table><thead><tr>${head.map((title) => html`<th scope="col">${title}</th>`)}</tr></thead>
<tbody>${rows.map((cells) => html`<tr>${cells}</tr>\n`)}</tbody></table>`;
}
