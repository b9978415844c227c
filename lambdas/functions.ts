// Every function there is: what is built, deployed and run locally alike.
import { canaryFunction } from './canary/contract.ts';
import { canaryReceiverFunction } from './canary-receiver/contract.ts';
import { claimFunction } from './claim/contract.ts';
import type { FunctionContract } from './core/function-contract.ts';
import { migrateFunction } from './migrate/contract.ts';
import { observeFunction } from './observe/contract.ts';
import { operateFunction } from './operate/contract.ts';
import { retainFunction } from './retain/contract.ts';
import { rotateFunction } from './rotate/contract.ts';
import { scheduleFunction } from './schedule/contract.ts';
import { webhookSenderFunction } from './webhook-sender/contract.ts';
import { widgetFunction } from './widget/contract.ts';

/** The contracts of all functions. */
export const functions: readonly FunctionContract[] = [
  migrateFunction,
  scheduleFunction,
  claimFunction,
  webhookSenderFunction,
  rotateFunction,
  observeFunction,
  retainFunction,
  operateFunction,
  canaryFunction,
  canaryReceiverFunction,
  widgetFunction,
];
