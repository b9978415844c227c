// What whoever is told of an alarm types next, by the alarm's id: one table, for the words of the command line change.

/** How many reminders are in each state, and for how long: where an alarm has no command of its own. */
const byDefault = 'status';

/** The verdict on a reminder, which says what may be done about it. */
const explain = 'explain ID';

const commands: Readonly<Record<string, string>> = {
  'broken-handoff': 'handoffs',
  'dead-reminder': 'unreviewed',
  'dead-unreviewed': 'unreviewed',
  'held-unreviewed': 'unreviewed',
  'endpoint-trouble': 'destination list',
  'parked-but-active': 'destination list',
  'rows-excluded': 'exclusions',
  'dead-letters': "recover redrive --reason 'looking'",
  'paused-too-long': "control resume --reason 'looking'",
  'settle-failed': explain,
  'canary-late': explain,
};

/** The command after an alarm, as it is typed. @param stack the name of the CloudFormation stack */
export function nextCommand(alarmId: string, stack: string): string {
  return `npm run reminders -- --stack ${stack} ${commands[alarmId] ?? byDefault}`;
}
