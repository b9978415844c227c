// The observe function: one look at the ledger.
import { observeLedger } from '../core/observe-ledger.ts';
import { functionHandler } from '../runtime/handler-stack.ts';
import { openDatabase } from '../store/data-api.ts';
import { postgresObservations } from '../store/observations.ts';
import { type ObserveRequest, type ObserveResponse, observeFunction } from './contract.ts';

/** Lambda's entry point. */
export const handler = functionHandler<ObserveRequest, ObserveResponse>(observeFunction, (environment) => {
  const observations = postgresObservations(openDatabase(environment));
  return (_tick, run) => observeLedger(observations, run);
});
