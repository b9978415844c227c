// The canary-receiver function: verifies a webhook as any receiver must, and publishes how late it came.
import type { LambdaFunctionURLEvent, LambdaFunctionURLResult } from 'aws-lambda';
import { canaryDestination, receiveCanary } from '../core/canary.ts';
import { functionHandler } from '../runtime/handler-stack.ts';
import { isSigned } from '../webhook/signing.ts';
import { signingKeys } from '../webhook/signing-keys.ts';
import { canaryPayload, canaryReceiverFunction } from './contract.ts';

/** Lambda's entry point: 204 to a canary, 401 to what is not signed for this receiver, 400 to what is signed and no canary. */
export const handler = functionHandler<LambdaFunctionURLEvent, LambdaFunctionURLResult>(
  canaryReceiverFunction,
  (environment, { clock }) => {
    const roots = signingKeys(environment.read('SIGNING_SECRET_ARN'));
    return async ({ headers, body = '', isBase64Encoded, requestContext }, run) => {
      const payload = isBase64Encoded ? Buffer.from(body, 'base64').toString('utf8') : body;
      // Lambda writes the name itself: no caller chooses whose key it is.
      const destination = canaryDestination(requestContext.domainName);
      if (!isSigned({ destination, headers, payload }, await roots())) {
        run.meter.count('canary_refused');
        return { statusCode: 401 };
      }
      const canary = canaryPayload.safeParse(jsonOrNothing(payload));
      if (!canary.success) return { statusCode: 400 };
      receiveCanary({ ...canary.data, deliveryId: headers['webhook-id'] ?? '' }, clock, run);
      return { statusCode: 204 };
    };
  },
);

function jsonOrNothing(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
