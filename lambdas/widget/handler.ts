// The widget function: reads what a dashboard asks, looks at the ledger, answers HTML.
import { LedgerError } from '../core/errors.ts';
import type { LogPlace } from '../core/log-link.ts';
import { verdict } from '../core/verdict.ts';
import { explain } from '../core/verdict-text.ts';
import { functionHandler } from '../runtime/handler-stack.ts';
import { issuesOf } from '../runtime/issues.ts';
import { postgresAttention } from '../store/attention.ts';
import { openDatabase } from '../store/data-api.ts';
import { postgresEvidence } from '../store/evidence.ts';
import { postgresObservations } from '../store/observations.ts';
import { statusOf } from '../store/status.ts';
import {
  type WidgetRequest,
  type WidgetResponse,
  widgetDescription,
  widgetFunction,
  widgetRequest,
} from './contract.ts';
import type { Frame } from './frame.ts';
import { ledgerPage, linesOfAKind } from './ledger-page.ts';
import { noticePage, reminderPage } from './reminder-page.ts';

const idPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Lambda's entry point. */
export const handler = functionHandler<WidgetRequest, WidgetResponse>(widgetFunction, (environment) => {
  const database = openDatabase(environment);
  const { settings } = environment;
  const reminders = postgresEvidence(database);
  const observations = postgresObservations(database);
  const waiting = postgresAttention(database);

  return async (event, { context, log }) => {
    const endpoint = context.invokedFunctionArn;
    const parsed = widgetRequest.safeParse(event ?? {});
    if (!parsed.success) {
      const issues = issuesOf(parsed.error, 'request', 'widget').map(({ path, message }) => `${path}: ${message}`);
      return noticePage({ theme: null, endpoint }, '', `invalid: ${issues.join('; ')}`);
    }
    const { describe, search, count, reminder, stack, logGroup, widgetContext } = parsed.data;
    if (describe) return widgetDescription;
    const frame: Frame = { theme: widgetContext?.theme ?? null, endpoint };
    const asked = (search ? widgetContext?.forms?.all?.reminder : reminder) ?? '';
    try {
      if (asked === '') {
        const [observation, attention, counted] = await Promise.all([
          observations.look(),
          waiting.attention(linesOfAKind),
          count ? statusOf(database) : null,
        ]);
        return ledgerPage(frame, { observation, attention, states: counted?.states ?? null });
      }
      const evidence = await reminders.evidence(idPattern.test(asked) ? { deliveryId: asked } : { key: asked });
      if (evidence === null) return noticePage(frame, asked, 'not found: no reminder has that id or key');
      // A button sends no more than its own field.
      const group = logGroup ?? widgetContext?.params?.logGroup;
      const place: LogPlace | null = group ? { region: endpoint.split(':')[3] ?? '', logGroup: group } : null;
      const explanation = explain(evidence, verdict(evidence, Date.parse(evidence.readAt), settings), place);
      return reminderPage(frame, asked, explanation, stack ?? widgetContext?.params?.stack ?? null);
    } catch (error) {
      if (!(error instanceof LedgerError) || error.retry === 'never') throw error;
      log.error('failed', { error });
      return noticePage(frame, asked, `the ledger did not answer (${error.statement}): refresh in a moment`);
    }
  };
});
