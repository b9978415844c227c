// The calls of the matrix that a tick makes: what it takes, hands over, sets aside and announces; and the way back from aside.
import { setTimeout as sleep } from 'node:timers/promises';
import { announce } from '../../lambdas/store/statements/announce.ts';
import { claim } from '../../lambdas/store/statements/claim.ts';
import { enqueue } from '../../lambdas/store/statements/enqueue.ts';
import { exclude } from '../../lambdas/store/statements/exclude.ts';
import { readmit } from '../../lambdas/store/statements/readmit.ts';
import { release } from '../../lambdas/store/statements/release.ts';
import { unpark } from '../../lambdas/store/statements/unpark.ts';
import { about, all, atSending, atStatement, type Call, killedAt, named, nearLife, refuse, strike } from './kinds.ts';

export const tickCalls: readonly Call[] = [
  {
    name: 'unpark',
    points: killedAt('unpark'),
    promises: ['P1', 'P10'],
    bounds: all('next tick'),
    fast: 'run twice',
    run: (cell, kind) =>
      cell.stage.inTurn([], async () => {
        const { scheduler } = cell.stage.aws;
        const switchTo = (state: string) =>
          cell.sql('UPDATE destination SET state = $1 WHERE name = $2', [state, cell.destination]);
        await cell.register();
        await switchTo('paused');
        const reminder = await cell.schedule(cell.newReminder(0));
        scheduler.tickNow();
        await cell.untilSql('SELECT FROM reminder_delivery WHERE delivery_id = $1 AND parked', reminder);
        await switchTo('active');
        atStatement(cell, kind, unpark, { functionName: 'claim' });
        scheduler.tickNow();
        await cell.untilExercised();
      }),
  },
  {
    name: 'claim',
    points: killedAt('claim'),
    promises: ['P1', 'P6', 'P11'],
    bounds: all('invited again', {
      'error before': 'next tick',
      'reset before': 'next tick',
      'time-out without effect': 'next tick',
      'run twice': 'at once',
      'kill before': 'next tick',
    }),
    fast: 'run twice',
    run: (cell, kind) =>
      // Before a claim nobody knows what it will take: then it is the tick's one claim.
      cell.atTick((one) => {
        const afterwards = / (after|with effect)$/.test(kind);
        atStatement(cell, kind, claim, { functionName: 'claim', ...(afterwards ? named(one) : {}) });
      }),
  },
  {
    name: 'SendMessageBatch of a tick',
    points: killedAt('send-message-batch'),
    promises: ['P1', 'P2', 'P7'],
    bounds: all('next tick', { 'run twice': 'at once', 'kill before': 'invited again', 'kill after': 'at once' }),
    fast: 'reset after',
    run: (cell, kind) => cell.atTick((one) => atSending(cell, kind, 'claim', one)),
  },
  {
    name: 'enqueue of a tick',
    points: killedAt('enqueue'),
    promises: ['P1', 'P6'],
    bounds: all('at once'),
    fast: 'reset before',
    run: (cell, kind) =>
      cell.atTick((one) => atStatement(cell, kind, enqueue, { functionName: 'claim', ...named(one) })),
  },
  {
    name: 'release of a tick',
    points: killedAt('release'),
    promises: ['P1', 'P11'],
    bounds: all('invited again', {
      'error after': 'next tick',
      'reset after': 'next tick',
      'run twice': 'next tick',
      'kill after': 'next tick',
    }),
    fast: 'time-out with effect',
    run: (cell, kind) =>
      cell.atTick((one) => {
        refuse(cell, one);
        atStatement(cell, kind, release, { functionName: 'claim', ...named(one) });
      }),
  },
  {
    name: 'exclude',
    points: killedAt('exclude'),
    promises: ['P1', 'P11'],
    bounds: all('a person mends it'),
    fast: 'kill after',
    async run(cell, kind) {
      const sound = await cell.schedule();
      const refusal = `refuse_row_of_${cell.producer.replace('-', '_')}`;
      const mend = () => cell.sql(`DROP FUNCTION IF EXISTS ${refusal} CASCADE`);
      cell.atEnd(mend);
      const poisoned = await cell.atTick(
        async (one) => {
          await cell.sql(`CREATE FUNCTION ${refusal}() RETURNS trigger LANGUAGE plpgsql AS $$
          BEGIN RAISE EXCEPTION 'this page is damaged' USING ERRCODE = 'data_corrupted'; END $$`);
          await cell.sql(`CREATE TRIGGER ${refusal} BEFORE UPDATE ON reminder_delivery FOR EACH ROW
          WHEN (OLD.delivery_id = '${one.deliveryId}') EXECUTE FUNCTION ${refusal}()`);
          atStatement(cell, kind, exclude, { functionName: 'claim', ...named(one) });
        },
        [sound],
      );
      const isExcluded = 'SELECT FROM claim_exclusion WHERE delivery_id = $1 AND readmitted_at IS NULL';
      const excluded = async () => (await cell.sql(isExcluded, [poisoned.deliveryId])).length > 0;
      // It is set aside only where another one goes through: what fails for all is no fault of theirs.
      if (!(await excluded())) await cell.schedule(cell.newReminder(cell.settings.lookaheadSeconds * 1000 + 1200));
      await cell.untilSql(isExcluded, poisoned);
      await mend();
      // A statement that comes late may set it aside once more: whoever looks at the list finds it there.
      do {
        if (await excluded()) await cell.readmit(poisoned);
        await sleep(500);
      } while (!(await cell.isIn(poisoned, 'delivered')));
    },
  },
  {
    name: 'readmit',
    points: killedAt('readmit'),
    promises: ['P1', 'P11'],
    bounds: all('a person asks again'),
    fast: 'reset after',
    async run(cell, kind) {
      const reminder = await cell.schedule();
      await cell.sql(
        `INSERT INTO claim_exclusion (delivery_id, token, excluded_at, sql_state, reason)
         VALUES ($1, gen_random_uuid(), now(), 'XX001', 'a page was damaged')`,
        [reminder.deliveryId],
      );
      await cell.bringNear(reminder, cell.settings.lookaheadSeconds * 1000 + 1200);
      atStatement(cell, kind, readmit, { functionName: 'operate', ...named(reminder) });
      await cell.readmit(reminder);
    },
  },
  {
    name: 'PutEvents',
    points: killedAt('put-events'),
    promises: ['announced'],
    until: 'announced',
    bounds: all('announced'),
    fast: 'kill before',
    run: (cell, kind) =>
      nearLife(cell, (one) =>
        strike(cell, kind, {
          front: (fault) => cell.fault(cell.stage.aws.bus.faults, { ...fault, match: about(one) }),
          point: { point: 'put-events', functionName: 'claim', deliveryId: one.deliveryId },
        }),
      ),
  },
  {
    name: 'announce',
    points: killedAt('announce'),
    promises: ['announced'],
    until: 'announced',
    bounds: all('announced'),
    fast: 'error before',
    run: (cell, kind) =>
      cell.stage.inTurn([], async () => {
        // Its parameters are the outbox's numbers: while the ticks stand still, the next one announces this end.
        const reminder = await nearLife(cell, () => undefined);
        await cell.untilState(reminder, 'delivered');
        atStatement(cell, kind, announce, { functionName: 'claim' });
        cell.stage.aws.scheduler.tickNow();
        await cell.untilExercised();
      }),
  },
];
