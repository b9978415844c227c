// The widget function: what a CloudWatch dashboard asks, what it shows, what it needs from its environment.
import * as z from 'zod';
import type { FunctionContract } from '../core/function-contract.ts';

/** The function as deployed. It reads and changes nothing. */
export const widgetFunction: FunctionContract = {
  name: 'widget',
  purpose: 'Shows the ledger, and the verdict on one reminder, as HTML for dashboards and the local console',
  databaseRole: 'ledger_observer',
  environment: ['STAGE', 'DATABASE_ARN', 'DATABASE_SECRET_ARN', 'DATABASE_NAME'],
  localEnvironment: [],
  memoryMegabytes: 256,
  timeoutSeconds: (settings) => settings.scheduleTimeoutSeconds,
};

/** The alias that dashboards invoke, so that IAM can name who may look. */
export const widgetAlias = 'look';

/** The tag by which CloudWatch knows that the function answers `describe`, and that it changes nothing. */
export const widgetTag = { key: 'cw-custom-widget', value: 'describe:readOnly' } as const;

const text = (limit: number) =>
  z
    .string()
    .trim()
    .max(limit, `must have at most ${limit} characters`)
    .refine((value) => !value.includes('\u0000') && value.isWellFormed(), 'must not contain NUL or a lone surrogate');

/** What stands in the dashboard beside the widget, and what a button of the widget sends. Both may be absent. */
const parameters = {
  /** The id or the key of a reminder to explain; empty: the ledger. */
  reminder: text(255).optional(),
  /** The stack that the commands name. */
  stack: z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9-]{0,127}$/, 'must be the name of a CloudFormation stack')
    .optional(),
  /** The log group of the webhook sender, to link each attempt to what its worker wrote. */
  logGroup: text(512).optional(),
};

/** CloudWatch sends more than this, and adds to it: the rest is left unread. */
export const widgetRequest = z.object({
  ...parameters,
  /** Asks for the description of the parameters. */
  describe: z.boolean().optional(),
  /** Explain what the form names. */
  search: z.boolean().optional(),
  /** Count every state, which reads the whole table. */
  count: z.boolean().optional(),
  widgetContext: z
    .object({
      theme: z.enum(['light', 'dark']).optional().catch(undefined),
      forms: z.object({ all: z.object({ reminder: parameters.reminder }).optional() }).optional(),
      /** The parameters as the dashboard has them, whatever a button sent. */
      params: z.object({ stack: parameters.stack, logGroup: parameters.logGroup }).optional().catch(undefined),
    })
    .optional(),
});
export type WidgetRequest = z.input<typeof widgetRequest>;

/** HTML; Markdown when it was asked to describe itself. */
export type WidgetResponse = string;

/** The most bytes of HTML: a tenth of what Lambda lets an answer have. */
export const widgetLimitBytes = 600_000;

/** What the function answers to `{"describe": true}`, the parameters as YAML that CloudWatch copies into a new widget. */
export const widgetDescription = `## The recovery ledger
Counts and oldest ages by state, what waits for a person, what is overdue, parked or set aside; and of one reminder what
happened, where it stands, who acts next, and the command to copy. It reads and changes nothing. Times are in UTC.

### Parameters
Param | Description
---|---
**reminder** | The id or key of a reminder to explain; empty for the whole ledger
**stack** | The CloudFormation stack that the commands name
**logGroup** | The log group of the webhook sender, to link attempts to their logs

### Example
\`\`\` yaml
reminder: ''
stack: ReminderLedger
logGroup: ''
\`\`\`
`;
