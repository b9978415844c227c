// Signs webhooks by Standard Webhooks v1, with a secret of its own for each destination.
import { hkdfSync } from 'node:crypto';
import { Webhook, WebhookVerificationError } from 'standardwebhooks';

/** The secret that all destinations' secrets are derived from; `previous` exists while a rotation overlaps. */
export interface SigningRoots {
  readonly current: string;
  readonly previous?: string | undefined;
}

/** The headers that let a receiver tell who sent a webhook, and that it has seen it before. */
export type SignedHeaders = Readonly<
  Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature' | 'idempotency-key', string>
>;

/**
 * The signing secret of one destination: HKDF-SHA256 (RFC 5869) of the root with the destination's name as info, so that
 * any number of destinations costs one stored secret and no partner learns another's.
 * @returns `whsec_` and 32 bytes in base64, the form in which a partner gets it
 */
export function deriveSigningSecret(root: string, destination: string): string {
  return `whsec_${Buffer.from(hkdfSync('sha256', root, '', destination, 32)).toString('base64')}`;
}

/**
 * The headers of one attempt, signed over the exact text that is sent.
 * @param at when it is signed; receivers refuse signatures that are minutes away from their own clock
 */
export function signedHeaders(
  request: {
    readonly deliveryId: string;
    readonly key: string;
    readonly destination: string;
    readonly payload: string;
  },
  roots: SigningRoots,
  at: Date,
): SignedHeaders {
  return {
    'webhook-id': request.deliveryId,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': webhooksOf(request.destination, roots)
      .map((webhook) => webhook.sign(request.deliveryId, at, request.payload))
      .join(' '),
    'idempotency-key': request.key,
  };
}

/**
 * Whether a request was signed for the destination, with a root that is in use, within five minutes of this clock.
 * @param request its headers by their names in lower case, and the text of its body
 */
export function isSigned(
  request: {
    readonly destination: string;
    readonly headers: Readonly<Record<string, string | undefined>>;
    readonly payload: string;
  },
  roots: SigningRoots,
): boolean {
  const headers = Object.fromEntries(
    ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => [name, request.headers[name] ?? '']),
  );
  return webhooksOf(request.destination, roots).some((webhook) => {
    try {
      webhook.verify(request.payload, headers, { jsonParse: false });
      return true;
    } catch (error) {
      if (error instanceof WebhookVerificationError) return false;
      throw error;
    }
  });
}

function webhooksOf(destination: string, { current, previous }: SigningRoots): Webhook[] {
  const inUse = previous === undefined ? [current] : [current, previous];
  return inUse.map((root) => new Webhook(deriveSigningSecret(root, destination)));
}
