// The outputs of a deployed stack, or of local AWS, which has the same: those that are needed, each with a value.
import { CloudFormationClient, DescribeStacksCommand } from '@aws-sdk/client-cloudformation';

/** What was named is no ledger, or cannot be asked. The message says what was got and what to do. */
export class StackOutputsError extends Error {
  override readonly name = 'StackOutputsError';
}

/**
 * Asks CloudFormation, with the SDK's ordinary credentials and region.
 * @throws {StackOutputsError} when there is no such stack, it may not be read, or one of the outputs is missing
 */
export async function stackOutputs<Name extends string>(
  stack: string,
  names: readonly Name[],
): Promise<Readonly<Record<Name, string>>> {
  const named = `stack ${JSON.stringify(stack)}`;
  const { Stacks: stacks } = await new CloudFormationClient({})
    .send(new DescribeStacksCommand({ StackName: stack }))
    .catch((error: Error) => {
      throw new StackOutputsError(`${named}: ${error.message}; check the name, region and login`);
    });
  const outputs = (stacks?.[0]?.Outputs ?? []).map(({ OutputKey = '', OutputValue = '' }) => [OutputKey, OutputValue]);
  return checkedOutputs(named, Object.fromEntries(outputs), names);
}

/** @throws {StackOutputsError} naming all outputs that are missing */
export function checkedOutputs<Name extends string>(
  where: string,
  outputs: Readonly<Partial<Record<string, string>>>,
  names: readonly Name[],
): Readonly<Record<Name, string>> {
  const missing = names.filter((name) => !outputs[name]);
  if (missing.length > 0) {
    throw new StackOutputsError(`${where}: has no output ${missing.join(', ')}; name a ledger's stack of this version`);
  }
  return outputs as Readonly<Record<Name, string>>;
}
