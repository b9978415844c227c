// The functions that CDK brings along to run custom resources: one of each in a stack, beside the ledger and not in it.
import { CfnResource, Stack, TagManager, Tags } from 'aws-cdk-lib';
import { type IManagedPolicy, PermissionsBoundary, Policy, PolicyStatement, Role } from 'aws-cdk-lib/aws-iam';
import { LogGroup, type LogGroupProps } from 'aws-cdk-lib/aws-logs';
import type { Construct, IConstruct } from 'constructs';

export const triggerProvider = 'AWSCDK.TriggerCustomResourceProviderCustomResourceProvider';
export const emptyingProvider = 'Custom::S3AutoDeleteObjectsCustomResourceProvider';

/** The providers that a ledger uses; those of a stack around it are among them where both use the same. */
export function providersOf(ledger: Construct): IConstruct[] {
  const { children } = Stack.of(ledger).node;
  return children.filter(
    ({ node: { id } }) => [triggerProvider, emptyingProvider].includes(id) || /^LogRetention/.test(id),
  );
}

/** Puts a boundary on every role of these constructs. */
export function bound(constructs: readonly IConstruct[], boundary: IManagedPolicy): void {
  for (const construct of constructs) PermissionsBoundary.of(construct).apply(boundary);
}

/** Puts tags on everything in these constructs that takes them, the plain resources of a provider too. */
export function tag(constructs: readonly IConstruct[], tags: Readonly<Record<string, string>>): void {
  const list = Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
  for (const construct of constructs) {
    for (const { Key, Value } of list) Tags.of(construct).add(Key, Value);
    for (const resource of construct.node.findAll()) {
      // CDK writes these without a class of their own, so that it does not know that they take tags.
      const plain = list.length > 0 && CfnResource.isCfnResource(resource) && !TagManager.isTaggable(resource);
      if (plain && ['AWS::IAM::Role', 'AWS::Lambda::Function'].includes(resource.cfnResourceType)) {
        resource.addPropertyOverride('Tags', list);
      }
    }
  }
}

/**
 * A provider would make a log group of its own, which never expires and outlives the stack. This gives it one of the
 * stack's, and lets it make no other.
 * @param id of the log group, which ends in `Log`
 * @param used what needs the provider, also when the stack is deleted
 */
export function keepLog(stack: Stack, id: string, provider: string, used: IConstruct, log: LogGroupProps): LogGroup {
  const { node } = stack.node.findChild(provider);
  const role = node.findChild('Role') as CfnResource;
  const handler = node.findChild('Handler') as CfnResource;
  const group = new LogGroup(stack, id, log);
  handler.addPropertyOverride('LoggingConfig', { LogFormat: 'JSON', LogGroup: group.logGroupName });
  role.addPropertyDeletionOverride('ManagedPolicyArns');
  const actions = ['logs:CreateLogStream', 'logs:PutLogEvents'];
  const write = new PolicyStatement({ actions, resources: [group.logGroupArn] });
  const policy = new Policy(stack, `${id}Policy`, { statements: [write] });
  policy.attachToRole(Role.fromRoleName(stack, `${id.replace(/Log$/, '')}Role`, role.ref));
  // Or the first run would have nowhere to write to, and the last one on deletion neither.
  used.node.addDependency(policy, group);
  return group;
}
