// The canary function: registers its receiver and schedules one reminder to it.
import { v7 as newId } from 'uuid';
import { sendCanary } from '../core/canary.ts';
import { scheduleClient } from '../product/schedule-client.ts';
import { functionHandler } from '../runtime/handler-stack.ts';
import { openDatabase } from '../store/data-api.ts';
import { addDestination } from '../store/statements/add-destination.ts';
import { type CanaryRequest, type CanaryResponse, canaryFunction } from './contract.ts';

/** Lambda's entry point. */
export const handler = functionHandler<CanaryRequest, CanaryResponse>(canaryFunction, (environment, { clock }) => {
  const database = openDatabase(environment);
  const schedule = scheduleClient({
    functionArn: environment.read('SCHEDULE_FUNCTION'),
    requestTimeoutMs: environment.settings.scheduleTimeoutSeconds * 1000,
  });
  const tools = {
    async register(destination: { name: string; url: string }) {
      const more = { owner: 'reminder-ledger', contract: 'honours-key', deadlineMs: null } as const;
      const [row] = await database.run(addDestination, { destinationId: newId(), ...destination, ...more });
      return row?.answer ?? null;
    },
    schedule,
    url: environment.read('CANARY_URL'),
    clock,
    settings: environment.settings,
  };
  return (_tick, run) => sendCanary(tools, run);
});
