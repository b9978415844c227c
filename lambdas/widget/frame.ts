// What surrounds each page of the widget: style, theme, the search, and buttons that ask the function again.
import { Html, html, type Part } from './html.ts';

/** How CloudWatch shows a page, and whom its buttons call. */
export interface Frame {
  /** The dashboard's theme; null: whichever the browser prefers. */
  readonly theme: 'light' | 'dark' | null;
  /** The ARN of this function, by the alias that it was invoked by. */
  readonly endpoint: string;
}

/** What a button sends: one field, so that what the dashboard has set stays as it is. */
export type Action =
  | { readonly reminder: string }
  | { readonly search: true }
  | { readonly count: true; readonly reminder: '' };

// light-dark() follows color-scheme, so that a theme is one word.
const style = `
.reminder-ledger { color-scheme: light dark; color: light-dark(#16191f, #e9ebed); background: light-dark(#fff, #161d26);
  font: 14px/1.45 system-ui, sans-serif; padding: 12px; }
.reminder-ledger.light { color-scheme: light; }
.reminder-ledger.dark { color-scheme: dark; }
.reminder-ledger h2 { font-size: 17px; margin: 18px 0 6px; color: inherit; }
.reminder-ledger h3 { font-size: 14px; margin: 14px 0 4px; color: inherit; }
.reminder-ledger p { margin: 4px 0; }
.reminder-ledger table { font: inherit; border-collapse: collapse; width: 100%; background: transparent; color: inherit; }
.reminder-ledger th, .reminder-ledger td { text-align: left; vertical-align: top; padding: 4px 10px 4px 0; background: transparent;
  border: 0; border-bottom: 1px solid light-dark(#d5dbdb, #414d5c); color: inherit; overflow-wrap: anywhere; }
.reminder-ledger thead th { color: light-dark(#545b64, #b6bec9); font-weight: 600; white-space: nowrap; }
.reminder-ledger tbody th { font-weight: 400; }
.reminder-ledger td.number { text-align: right; font-variant-numeric: tabular-nums; width: 90px; }
.reminder-ledger td.time, .reminder-ledger td.id, .reminder-ledger td.state { white-space: nowrap; font-variant-numeric: tabular-nums; width: 1%; }
.reminder-ledger .look { font-weight: 700; color: light-dark(#b1361e, #ff9d8a); }
.reminder-ledger .verdict { border-left: 4px solid light-dark(#0972d3, #539fe5); padding: 4px 12px; margin: 10px 0; }
.reminder-ledger .note { color: light-dark(#545b64, #b6bec9); }
.reminder-ledger pre { user-select: all; white-space: pre-wrap; overflow-wrap: anywhere; margin: 4px 0; padding: 6px 8px; color: inherit;
  background: light-dark(#f2f3f3, #0f141a); border: 1px solid light-dark(#d5dbdb, #414d5c); font: 12px/1.5 ui-monospace, monospace; }
.reminder-ledger input { font: inherit; width: min(28em, 60%); padding: 4px 8px; color: inherit; background: light-dark(#fff, #0f141a);
  border: 1px solid light-dark(#7d8998, #7d8998); border-radius: 4px; }
.reminder-ledger .btn { font: inherit; padding: 4px 12px; cursor: pointer; border-radius: 4px; text-decoration: none; display: inline-block;
  color: light-dark(#0c5cab, #7db9f2); background: transparent; border: 1px solid currentColor; }
.reminder-ledger .link { font: inherit; padding: 0; cursor: pointer; border: 0; background: none; text-decoration: underline;
  color: light-dark(#0c5cab, #7db9f2); }
.reminder-ledger a { color: light-dark(#0c5cab, #7db9f2); }
.reminder-ledger :focus-visible { outline: 2px solid light-dark(#0972d3, #539fe5); outline-offset: 2px; }`;

/** @param searched what stands in the search */
export function page(frame: Frame, searched: string, ...content: readonly Part[]): string {
  return html`<style>${new Html(style)}</style>
<div class="reminder-ledger ${frame.theme}">
<form>
<label>Reminder, by id or key: <input name="reminder" value="${searched}" maxlength="255" spellcheck="false" autocomplete="off"></label>
${button(frame, { search: true }, 'Explain', 'btn btn-primary')}
</form>
${content}
</div>
`.toString();
}

/** The action belongs to the element right before it (Amazon CloudWatch User Guide, "Interactivity in the custom widget"). */
export function button({ endpoint }: Frame, action: Action, label: string, look = 'btn'): Html {
  return html`<button type="button" class="${look}">${label}</button><cwdb-action action="call" endpoint="${endpoint}">${JSON.stringify(action)}</cwdb-action>`;
}

/** A reminder's id, which leads to its verdict. */
export const reminderLink = (frame: Frame, deliveryId: string): Html =>
  button(frame, { reminder: deliveryId }, deliveryId, 'link');

/** An instant to the second, in UTC. */
export const time = (instant: string | null): string =>
  instant === null ? '–' : `${instant.slice(0, 19).replace('T', ' ')} UTC`;
