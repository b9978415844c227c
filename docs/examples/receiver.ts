// A receiver of reminders: makes sure who sent it, keeps it once, and says so only when it is kept.
import { Webhook, WebhookVerificationError } from 'standardwebhooks';

/** What has come so far: a table with a unique key, written in one transaction with the work that a reminder leads to. */
export interface Inbox {
  /** Resolves when it is durable. False: the key was there already, nothing is left to do. */
  keep(key: string, body: string): Promise<boolean>;
}

/** A POST. Header names are lower case; the body is the text that came, not parsed and printed again. */
export interface Post {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * The HTTP status to answer with.
 * @param secret what `reminders destination add` printed, `whsec_...`
 * @throws {Error} what the inbox throws; answer 500 then, and the reminder comes again
 */
export async function receive({ headers, body }: Post, secret: string, inbox: Inbox): Promise<number> {
  try {
    // Also refuses a timestamp more than five minutes from this clock. The body need not be JSON.
    new Webhook(secret).verify(body, headers, { jsonParse: false });
  } catch (error) {
    if (error instanceof WebhookVerificationError) return 503;
    throw error;
  }
  await inbox.keep(headers['idempotency-key'] ?? '', body);
  return 204;
}
