// The index of the cases from the field: what others' systems did wrong, and the test by which this one does not.
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

/** Each case with the file and the title of its test. What stands in another room is proven there, once. */
const cases: readonly [question: string, file: string, title: string][] = [
  [
    'The recovery reads a stuck row, the sender finishes in between, the recovery then writes.',
    'field/recovery',
    'the recovery reads a stuck row, the sender settles %s, then the recovery writes: the row stays as settled',
  ],
  [
    'A receiver sleeps past the visibility time-out, with a batch of ten.',
    'field/receivers',
    'that sleeps past the visibility time-out, batch of 10: any second request has the same id, key and bytes',
  ],
  [
    'Killed after the commit of the claim, with 1,000 rows.',
    'field/queue',
    'killed after the commit of the claim, 1,000 rows: all are delivered, their ids kept',
  ],
  [
    'SendMessage is denied for five minutes, and a product repeats its schedule meanwhile.',
    'field/queue',
    'SendMessage denied for five ticks: re-driven, the error in ledger and metric, and a repeat told of the live row',
  ],
  [
    'SendMessage is denied for five minutes of production, with 600 reminders due.',
    'field/hours',
    'SendMessage denied for 5 minutes with 600 due: each is released and re-driven, and goes out once',
  ],
  [
    'Three of ten entries are refused, and an answer omits one.',
    'field/queue',
    '3 of 10 entries refused, and an answer that omits one: only those are released',
  ],
  [
    'A sender is frozen past its lease, another takes over, the first thaws with success.',
    'field/senders',
    'whose sender is frozen past its lease, another takes over, the first thaws with success: it is delivered by that',
  ],
  [
    'The same, and it thaws with failure.',
    'field/senders',
    'whose sender is frozen past its lease, another takes over, the first thaws with failure: that moves nothing',
  ],
  [
    'No byte leaves after an answer of the function.',
    'field/receivers',
    'that never answers: no byte leaves after the function has answered',
  ],
  [
    "middy's early time-out leaves no POST running.",
    'field/receivers',
    "that is slow when the function's time is up: no POST goes on, and no settle is lost",
  ],
  [
    'Cancel at every point from creation to the commit of the settle, whether the sender lives on or dies.',
    'field/cancels',
    'cancel when %s',
  ],
  [
    'Cancel around each statement of the tick that claims it and of the sender.',
    'field/cancels',
    'cancel beside a tick and its sender, around %s',
  ],
  [
    'Cancel during the POST, and the process of the sender is killed.',
    'field/senders',
    'that is cancelled during its POST, whose sender dies after that: too late, and never sent again',
  ],
  [
    'Reschedule with the old invitation still in SQS.',
    'field/receivers',
    'that reschedules with the old invitation still in SQS: sent once, at the new time',
  ],
  ['Reschedule after an unknown attempt.', 'field/receivers', 'that reschedules after an unknown attempt: too late'],
  [
    'A throttled sender, 500 due at once, throttles counted as receives.',
    'field/queue',
    'throttled sender, 500 due at once: nothing in the dead-letter queue, attempts equal real sends',
  ],
  [
    'The tick is off for two hours with 500 due, some past their expiry.',
    'field/hours',
    'the tick off for 2 hours with 500 due, some past expiry: those expire unsent, the others go out once',
  ],
  [
    'The queue is purged with 500 queued.',
    'field/hours',
    'queue purged with 500 queued: each is invited again after its allowance, and goes out once',
  ],
  [
    'The event source is off for 15 minutes while the claim runs.',
    'field/hours',
    'event source off for 15 minutes with the claim running: the queued age passes its alarm, and stays',
  ],
  [
    'A backlog of ten minutes multiplies messages.',
    'field/hours',
    'a 10 minute backlog multiplies messages at most 2.5 times, and sends nothing twice',
  ],
  [
    'The database is gone for ten minutes with 500 in flight.',
    'field/hours',
    'the database gone for 10 minutes with 500 in flight: nothing dead for that alone, all delivered after',
  ],
  [
    'A worker is killed while it sends.',
    'field/senders',
    'whose sender is killed in the middle of a POST: sent again with the same key and bytes, its neighbours too',
  ],
  [
    'A receiver asks for patience with Retry-After.',
    'field/receivers',
    'that answers 429 and when to come again is not called before that',
  ],
  [
    'A receiver refuses every time.',
    'field/receivers',
    'that answers 403 each time is called once, and the attempt is counted',
  ],
  [
    'A key is asked for again while it is being sent.',
    'field/receivers',
    'that schedules its key again while the POST is under way: a duplicate that is being sent',
  ],
  [
    'The dead-letter queue is redriven.',
    'field/receivers',
    'a redrive of the dead-letter queue sends nothing that has ended, nothing early, and the rest under its own key',
  ],
  [
    'A due time lies in an hour that a change of the clocks skips or repeats.',
    'field/receivers',
    'times in hours that a change of the clocks skips or repeats are instants like any other',
  ],
  // activepieces/activepieces#15130, sidekiq/sidekiq#3400: a job that killed its worker was handed out again for ever.
  // langwatch/langwatch#5661: the guard against that punished the jobs beside it.
  [
    'A payload kills whatever sends it.',
    'functions/killing-payload',
    'its neighbours are delivered, each killed no more than once; it is dead after its attempts, all of them unknown',
  ],
  // hookdeck/outpost#663: a task whose executor failed came back every thirty seconds, without an end.
  [
    'Faults of ours, again and again.',
    'ledger/failure-rules',
    'a fault of ours, again and again, still ends at the hard cap',
  ],
  [
    'Ten payloads of the largest size, in one batch.',
    'functions/delivery',
    'is ten times 32,768 quotes in one batch, byte for byte',
  ],
];

describe('each case has its test', () => {
  test.each(cases)('%s', (_question, file, title) => {
    const text = readFileSync(new URL(`../${file}.test.ts`, import.meta.url), 'utf8');
    expect(text, `test/${file}.test.ts has a test of this title`).toContain(title);
  });
});
