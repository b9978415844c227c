// Commands that must be refused, each with the field that the refusal must name.

/** What is wrong, the command, and the path of the issue that says so. */
export type BadCommand = readonly [what: string, command: unknown, path: string];

const dueAt = '2040-01-01T00:00:00Z';
const key = 'bad';

/** All cases, as values that travel as JSON. @param destination one that is registered */
export function badCommands(destination: string): BadCommand[] {
  const good = { verb: 'schedule', key, destination, dueAt, userId: 'u', payload: { a: 1 } };
  const { payload: _payload, ...unfilled } = good;
  const { verb: _verb, ...silent } = good;
  const without = (name: keyof typeof good) => Object.fromEntries(Object.entries(good).filter(([one]) => one !== name));
  const cancel = { verb: 'cancel', key };
  const reschedule = { verb: 'reschedule', key, dueAt };
  const deliveryId = '01980000-0000-7000-8000-000000000001';
  return [
    ['null', null, 'command'],
    ['a string', 'schedule', 'command'],
    ['an array', [good], 'command'],
    ['a number', 7, 'command'],
    ['true', true, 'command'],
    ['no verb', silent, 'verb'],
    ['an unknown verb', { ...good, verb: 'delete' }, 'verb'],
    ['a verb in capitals', { ...good, verb: 'SCHEDULE' }, 'verb'],
    ['a verb from the prototype', { ...good, verb: 'constructor' }, 'verb'],
    ['a verb that is an object', { ...good, verb: {} }, 'verb'],
    ['an unknown field', { ...good, channel: 'sms' }, 'channel'],
    ['a field of another verb', { ...good, expectedVersion: 1 }, 'expectedVersion'],
    ['a field named __proto__', JSON.parse(`${JSON.stringify(good).slice(0, -1)},"__proto__":{"a":1}}`), '__proto__'],
    ['a field named constructor', { ...good, constructor: 1 }, 'constructor'],
    ['no key', without('key'), 'key'],
    ['an empty key', { ...good, key: '' }, 'key'],
    ['a key with a space', { ...good, key: 'a b' }, 'key'],
    ['a key with a line end', { ...good, key: 'a\n' }, 'key'],
    ['a key that would end a header', { ...good, key: 'a\r\nx-evil: 1' }, 'key'],
    ['a key beyond ASCII', { ...good, key: 'é' }, 'key'],
    ['a key with NUL', { ...good, key: 'a\u0000' }, 'key'],
    ['a key of 256 characters', { ...good, key: 'k'.repeat(256) }, 'key'],
    ['a key that is a number', { ...good, key: 7 }, 'key'],
    ['a key that is null', { ...good, key: null }, 'key'],
    ['no destination', without('destination'), 'destination'],
    ['an unknown destination', { ...good, destination: 'nobody' }, 'destination'],
    ['a destination that is a URL', { ...good, destination: 'https://example.com/' }, 'destination'],
    ['a destination with a quote', { ...good, destination: "'; DROP TABLE destination; --" }, 'destination'],
    ['a destination of 64 characters', { ...good, destination: 'd'.repeat(64) }, 'destination'],
    ['no user', without('userId'), 'userId'],
    ['an empty user', { ...good, userId: '' }, 'userId'],
    ['a user of 129 characters', { ...good, userId: 'u'.repeat(129) }, 'userId'],
    ['a user with NUL', { ...good, userId: 'u\u0000' }, 'userId'],
    ['a user with a lone surrogate', { ...good, userId: 'u\ud800' }, 'userId'],
    ['a user that is an array', { ...good, userId: ['u'] }, 'userId'],
    ['no due time', without('dueAt'), 'dueAt'],
    ['a due time without an offset', { ...good, dueAt: '2040-01-01T00:00:00' }, 'dueAt'],
    ['a date', { ...good, dueAt: '2040-01-01' }, 'dueAt'],
    ['the thirtieth of February', { ...good, dueAt: '2026-02-30T00:00:00Z' }, 'dueAt'],
    ['a leap day of a year without one', { ...good, dueAt: '2100-02-29T00:00:00Z' }, 'dueAt'],
    ['the thirteenth month', { ...good, dueAt: '2040-13-01T00:00:00Z' }, 'dueAt'],
    ['the twenty-fifth hour', { ...good, dueAt: '2040-01-01T24:00:01Z' }, 'dueAt'],
    ['an offset of a day', { ...good, dueAt: '2040-01-01T00:00:00+24:00' }, 'dueAt'],
    ['an offset without a colon', { ...good, dueAt: '2040-01-01T00:00:00+0100' }, 'dueAt'],
    ['the year 1999', { ...good, dueAt: '1999-12-31T23:59:59Z' }, 'dueAt'],
    ['the year 1999 by its offset', { ...good, dueAt: '2000-01-01T00:30:00+01:00' }, 'dueAt'],
    ['the year 10000', { ...good, dueAt: '10000-01-01T00:00:00Z' }, 'dueAt'],
    ['the year 10000 by its offset', { ...good, dueAt: '9999-12-31T23:30:00-01:00' }, 'dueAt'],
    ["PostgreSQL's infinity", { ...good, dueAt: 'infinity' }, 'dueAt'],
    ["PostgreSQL's now", { ...good, dueAt: 'now' }, 'dueAt'],
    ['a due time that is a number', { ...good, dueAt: 2208988800 }, 'dueAt'],
    ['an expiry before the due time', { ...good, expiresAt: '2039-12-31T23:59:59Z' }, 'expiresAt'],
    ['an expiry at the due time', { ...good, expiresAt: '2040-01-01T01:00:00+01:00' }, 'expiresAt'],
    [
      'an expiry that has passed',
      { ...good, dueAt: '2001-01-01T00:00:00Z', expiresAt: '2002-01-01T00:00:00Z' },
      'expiresAt',
    ],
    ['an expiry without an offset', { ...good, expiresAt: '2041-01-01T00:00:00' }, 'expiresAt'],
    ['an expiry that is null', { ...good, expiresAt: null }, 'expiresAt'],
    ['neither payload nor payloadText', unfilled, 'payload'],
    ['both payload and payloadText', { ...good, payloadText: '{}' }, 'payload'],
    ['a payload of 32,769 bytes', { ...good, payload: 'x'.repeat(32_767) }, 'payload'],
    ['a payload of 32,769 bytes in fewer characters', { ...good, payload: `${'é'.repeat(16_383)}x` }, 'payload'],
    ['a payloadText of 32,769 bytes', { ...unfilled, payloadText: '"'.repeat(32_769) }, 'payloadText'],
    [
      'a payloadText of 32,769 bytes in fewer characters',
      { ...unfilled, payloadText: `${'€'.repeat(10_923)}` },
      'payloadText',
    ],
    ['a payloadText with NUL', { ...unfilled, payloadText: 'a\u0000b' }, 'payloadText'],
    ['a payloadText with a lone surrogate', { ...unfilled, payloadText: 'a\udfffb' }, 'payloadText'],
    ['a payloadText that is an object', { ...unfilled, payloadText: {} }, 'payloadText'],
    ['a payloadText that is null', { ...unfilled, payloadText: null }, 'payloadText'],
    ['a cancel of nothing', { verb: 'cancel' }, 'key'],
    ['a cancel by key and by id', { ...cancel, deliveryId }, 'key'],
    ['a cancel by an id that is none', { verb: 'cancel', deliveryId: 'x' }, 'deliveryId'],
    ['a cancel by an id with more behind it', { verb: 'cancel', deliveryId: `${deliveryId} ` }, 'deliveryId'],
    ['a cancel with a due time', { ...cancel, dueAt }, 'dueAt'],
    ['a reschedule to no time', { verb: 'reschedule', key }, 'dueAt'],
    ['a reschedule of nothing', { verb: 'reschedule', dueAt }, 'key'],
    ['a reschedule to a time without an offset', { ...reschedule, dueAt: '2040-01-01T00:00:00' }, 'dueAt'],
    ['a reschedule that expires before it is due', { ...reschedule, expiresAt: '2039-01-01T00:00:00Z' }, 'expiresAt'],
    ['a reschedule of version 0', { ...reschedule, expectedVersion: 0 }, 'expectedVersion'],
    ['a reschedule of version 1.5', { ...reschedule, expectedVersion: 1.5 }, 'expectedVersion'],
    ['a reschedule of version "1"', { ...reschedule, expectedVersion: '1' }, 'expectedVersion'],
    ['a reschedule of a version beyond 32 bits', { ...reschedule, expectedVersion: 2 ** 31 }, 'expectedVersion'],
    ['a reschedule of a huge version', { ...reschedule, expectedVersion: 1e300 }, 'expectedVersion'],
    ['a get of nothing', { verb: 'get' }, 'key'],
    ['a get with a payload', { verb: 'get', key, payload: 1 }, 'payload'],
  ];
}
