// The rotate function: one step of a rotation of one login secret, as Secrets Manager asks for it.
import * as z from 'zod';
import type { FunctionContract } from '../core/function-contract.ts';
import { rotationSteps } from '../core/rotate-login.ts';

/** The function as deployed. `DATABASE_SECRET_ARN` is the owner's. */
export const rotateFunction: FunctionContract = {
  name: 'rotate',
  purpose: "Gives a role's secret its other login with a new password, while the former one stays valid",
  databaseRole: 'owner',
  environment: ['STAGE', 'DATABASE_ARN', 'DATABASE_SECRET_ARN', 'DATABASE_NAME'],
  localEnvironment: [],
  memoryMegabytes: 512,
  timeoutSeconds: () => 60,
};

/** What Secrets Manager sends (AWS Secrets Manager User Guide, "Lambda rotation functions"). */
export const rotateRequest = z.object({
  Step: z.enum(rotationSteps),
  /** The secret's ARN. */
  SecretId: z.string().min(1),
  /** The id of the version that is to become the current one. */
  ClientRequestToken: z.string().min(1),
});
export type RotateRequest = z.infer<typeof rotateRequest>;

/** Nothing: Secrets Manager looks only at whether the call failed. */
export type RotateResponse = null;
