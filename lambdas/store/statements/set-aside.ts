// set-aside: keeps what a message of the dead-letter queue says that nobody can read, so that it can be deleted there.
import { v5 } from 'uuid';
import type { Accounted, Poison } from '../../core/recoveries.ts';
import type { Statement } from '../statement.ts';

/** As much of a message as is kept, in characters. */
const bodyLimit = 1000;

/** Makes the token of the action from the id of the message: two people, or one twice, keep it once. */
const messages = '6f2c8a54-5d0b-4c57-9f0e-0d6a3f1c7b21';

/** Run again, or by somebody else, it changes nothing. */
export const setAside: Statement<
  Pick<Accounted, 'actor' | 'reason' | 'ticket'> & { readonly messages: readonly Poison[] },
  { readonly answer: 'set_aside' }
> = {
  name: 'set-aside',
  text: `
WITH kept AS (
  INSERT INTO operator_action (token, verb, actor, reason, ticket, evidence, acted_at)
  SELECT CAST(x.token AS uuid), 'set_aside', CAST(:actor AS text), CAST(:reason AS text), CAST(:ticket AS text),
         jsonb_build_object('messageId', x.message_id, 'receives', x.receives, 'because', x.because, 'body', x.body), now()
  FROM jsonb_to_recordset(CAST(:messages AS jsonb)) AS x (
    token text, message_id text, receives integer, because text, body text)
  ORDER BY x.token
  ON CONFLICT DO NOTHING
)
SELECT CAST(json_build_object('answer', 'set_aside') AS text) AS answer`,
  parameters: ({ actor, reason, ticket, messages: poison }) => ({
    actor,
    reason,
    ticket,
    messages: JSON.stringify(
      poison.map(({ messageId, receives, because, body }) => ({
        ...{ token: v5(messageId, messages), message_id: messageId, receives, because },
        // jsonb takes no NUL, and a cut may halve a character.
        body: body.slice(0, bodyLimit).replaceAll('\u0000', '\uFFFD').toWellFormed(),
      })),
    ),
  }),
};
