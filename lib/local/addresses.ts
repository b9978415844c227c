// The region, the account and the ARNs that everything in local AWS goes by.

/** fauxqs reads the region of a queue from its callers' signatures and has this account. */
export const region = 'us-east-1';
export const accountId = '000000000000';

/** An ARN of the local account. @param resource such as `function:claim` */
export const arn = (service: string, resource: string): string =>
  `arn:aws:${service}:${region}:${accountId}:${resource}`;
