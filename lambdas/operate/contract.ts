// The operate function: what people ask and decide, which duty may, and who they are.
import type { z } from 'zod';
import type { FunctionContract } from '../core/function-contract.ts';
import { type ControlResponse, controlRequests } from './contract-control.ts';
import { type DecisionResponse, decideRequests } from './contract-decide.ts';
import type { FindResponse, ForecastResponse } from './contract-find.ts';
import {
  type ActionsResponse,
  type DestinationsResponse,
  type ExclusionsResponse,
  type ExplainResponse,
  inspectRequests,
  type ShowResponse,
  type StatusResponse,
} from './contract-inspect.ts';
import { type HandoffsResponse, type PoisonResponse, queueRequests } from './contract-queues.ts';
import { type RecoverResponse, type RedriveResponse, recoverRequests } from './contract-recover.ts';

export type { ControlRequest, ControlResponse } from './contract-control.ts';
export type { DecisionRequest, DecisionResponse } from './contract-decide.ts';
export type { FindRequest, FindResponse, ForecastRequest, ForecastResponse, ForecastUnit } from './contract-find.ts';
export type {
  Action,
  ActionsResponse,
  Destination,
  DestinationsResponse,
  Exclusion,
  ExclusionsResponse,
  ExplainResponse,
  ShowResponse,
  StateCount,
  StatusResponse,
} from './contract-inspect.ts';
export type { HandoffsResponse, PoisonMessage, PoisonResponse } from './contract-queues.ts';
export type { RecoveredAnswer, RecoverRequest, RecoverResponse, RedriveResponse } from './contract-recover.ts';

/** The function as deployed. Each duty has an alias with a URL of its own, and IAM decides who may call which. */
export const operateFunction: FunctionContract = {
  name: 'operate',
  purpose: 'Explains reminders to people and carries out what they decide and switch, by the duty that IAM grants them',
  databaseRole: 'ledger_operator',
  environment: [
    ...(['STAGE', 'DATABASE_ARN', 'DATABASE_SECRET_ARN', 'DATABASE_NAME'] as const),
    ...(['INVITATION_QUEUE_URL', 'DEAD_LETTER_QUEUE_URL'] as const),
  ],
  localEnvironment: [],
  memoryMegabytes: 256,
  timeoutSeconds: (settings) => settings.scheduleTimeoutSeconds,
};

/** What each duty may ask, by verb. */
export const requestsOfDuty = {
  inspect: { ...inspectRequests, ...queueRequests },
  decide: decideRequests,
  recover: recoverRequests,
  control: controlRequests,
} as const satisfies Readonly<Record<string, Readonly<Record<string, z.ZodType>>>>;

/** What people do here, each a team's. Named as the alias of each. */
export type OperateDuty = keyof typeof requestsOfDuty;
export const duties = Object.keys(requestsOfDuty) as readonly OperateDuty[];

/**
 * Why a request has no answer of the ledger's, with the HTTP status that it is sent with. Nothing was done, except as it says.
 * `not_signed` 403: called otherwise than by a function URL, so that nobody knows by whom. `wrong_duty` 403: the verb is
 * another duty's, named in the message. `unknown_verb` 404. `invalid` 400: `issues` says where and why.
 * `unavailable` 503: the database or the queue did not answer, and may have done it; the same request again is safe.
 */
export interface RefusedRequest {
  readonly answer: 'not_signed' | 'wrong_duty' | 'unknown_verb' | 'invalid' | 'unavailable';
  readonly message: string;
  readonly issues?: readonly { readonly path: string; readonly message: string }[];
}

export type OperateResponse =
  | DecisionResponse
  | ControlResponse
  | StatusResponse
  | ExplainResponse
  | ShowResponse
  | FindResponse
  | ForecastResponse
  | ExclusionsResponse
  | DestinationsResponse
  | ActionsResponse
  | HandoffsResponse
  | PoisonResponse
  | RecoverResponse
  | RedriveResponse
  | RefusedRequest;
