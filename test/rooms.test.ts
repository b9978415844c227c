// The rooms of the repository: who may import whom, and what every file looks like.
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const repository = fileURLToPath(new URL('..', import.meta.url));

interface Room {
  /** Whether a file, by its path in the repository, lies in this room. */
  readonly holds: RegExp;
  /** What the room is and may import: the sentence a breach fails with. */
  readonly sentence: string;
  /** What its files may import: a path in the repository, or the name of a package. */
  readonly mayImport: RegExp;
}

/** Node's own modules that neither open a connection nor start a process are no dependency on anything. */
const pure = 'node:(crypto|buffer|util|assert|diagnostics_channel)$';
const core = 'lambdas/core/';
const adapters = 'lambdas/(store|secrets|queue|webhook|events|archive|product|runtime)/';
const contracts = 'lambdas/[^/]+/contract(-[a-z-]+)?\\.ts$';
const sharedByStackAndLocal = 'lambdas/(functions|core/(settings|function-contract|database-roles))\\.ts$';

/** The first room that holds a file decides. */
const rooms: readonly Room[] = [
  {
    holds: /^lambdas\/core\//,
    sentence: 'lambdas/core is the domain: states, rules, use cases, ports. It imports itself alone',
    mayImport: oneOf(core, pure),
  },
  {
    holds: /^lambdas\/store\/data-api\.ts$/,
    sentence:
      'lambdas/store/data-api.ts is the one file that imports the RDS Data client, besides core and its own room',
    mayImport: oneOf(core, 'lambdas/store/', 'node:', '@aws-sdk/client-rds-data$'),
  },
  {
    holds: /^lambdas\/store\//,
    sentence: 'lambdas/store is rows in SQL. It imports core, and no SDK but through data-api.ts',
    mayImport: oneOf(core, 'lambdas/store/', 'node:', 'zod$', 'uuid$', 'dbgate-query-splitter(/|$)'),
  },
  {
    holds: /^lambdas\/secrets\//,
    sentence: 'lambdas/secrets is an adapter. It imports core and the Secrets Manager client',
    mayImport: oneOf(core, 'lambdas/secrets/', 'node:', '@aws-sdk/client-secrets-manager$'),
  },
  {
    holds: /^lambdas\/queue\//,
    sentence: 'lambdas/queue is an adapter. It imports core and the SQS client',
    mayImport: oneOf(core, 'lambdas/queue/', 'node:', '@aws-sdk/client-sqs$'),
  },
  {
    holds: /^lambdas\/events\//,
    sentence: 'lambdas/events is an adapter. It imports core and the EventBridge client',
    mayImport: oneOf(core, 'lambdas/events/', 'node:', '@aws-sdk/client-eventbridge$'),
  },
  {
    holds: /^lambdas\/archive\//,
    sentence: 'lambdas/archive is an adapter. It imports core and the S3 client',
    mayImport: oneOf(core, 'lambdas/archive/', 'node:', '@aws-sdk/client-s3$'),
  },
  {
    holds: /^lambdas\/product\//,
    sentence: 'lambdas/product is an adapter. It imports core, contracts and the Lambda client',
    mayImport: oneOf(core, 'lambdas/product/', contracts, 'node:', '@aws-sdk/client-lambda$'),
  },
  {
    holds: /^lambdas\/webhook\//,
    sentence:
      'lambdas/webhook is an adapter. It imports core, the Secrets Manager client and what a webhook is made with',
    mayImport: oneOf(
      core,
      'lambdas/webhook/',
      'node:',
      '@aws-sdk/client-secrets-manager$',
      'undici$',
      'ipaddr\\.js$',
      'standardwebhooks$',
      'zod$',
    ),
  },
  {
    holds: /^lambdas\/runtime\//,
    sentence: 'lambdas/runtime is what surrounds a function. It imports core, middy and Powertools',
    mayImport: oneOf(core, 'lambdas/runtime/', 'node:', '@middy/core$', '@aws-lambda-powertools/', 'aws-lambda$'),
  },
  {
    holds: /^lambdas\/[^/]+\/contract(-[a-z-]+)?\.ts$/,
    sentence:
      'contract.ts is a function as its callers and its deployment see it. It imports core, zod and its own parts, and no SDK',
    mayImport: oneOf(core, 'zod$', 'lambdas/operate/contract-'),
  },
  {
    holds: /^lambdas\/functions\.ts$/,
    sentence: 'lambdas/functions.ts lists the contracts, and imports nothing else',
    mayImport: oneOf(core, contracts),
  },
  {
    holds: /^lambdas\/widget\//,
    sentence:
      'lambdas/widget is a function with the pages that it answers. It imports core, the adapters and its own room',
    mayImport: oneOf(core, adapters, 'lambdas/widget/', 'node:', 'zod$'),
  },
  {
    holds: /^lambdas\/([^/]+)\//,
    sentence:
      'lambdas/<function> is thin: parse, one use case, map. It imports core, the adapters, its own contract and parts',
    mayImport: oneOf(core, adapters, contracts, 'lambdas/operate/', 'node:', 'zod$', 'uuid$', 'aws-lambda$'),
  },
  {
    holds: /^lib\/stack\//,
    sentence: 'lib/stack describes AWS. It imports the CDK, contracts, settings and the function contract',
    mayImport: oneOf('lib/stack/', contracts, sharedByStackAndLocal, 'node:', 'aws-cdk-lib(/|$)', 'constructs$'),
  },
  {
    holds: /^lib\/local\//,
    sentence:
      'lib/local is AWS on one machine. It imports contracts, settings, ports, fault points, pg and emulators, never the CDK',
    mayImport: oneOf(
      'lib/local/',
      contracts,
      sharedByStackAndLocal,
      'lambdas/core/(ports|fault-points)\\.ts$',
      'node:',
      // Any package but those of the CDK.
      '(?!aws-cdk|@aws-cdk|constructs|cdk-nag|lambdas/|lib/|bin/|test/)',
    ),
  },
  {
    holds: /^bin\//,
    sentence:
      'bin is the doors. Nothing imports a door but another door; of the tests, a door opens the proofs a person runs',
    mayImport: oneOf('(?!test/)', 'test/(drills|simulation|concurrency|mutants|soak)/'),
  },
];

function oneOf(...starts: string[]): RegExp {
  return new RegExp(`^(${starts.join('|')})`);
}

function filesIn(...folders: string[]): string[] {
  return folders.flatMap((folder) =>
    readdirSync(join(repository, folder), { recursive: true, encoding: 'utf8' })
      .map((path) => join(folder, path))
      .filter((path) => path.endsWith('.ts')),
  );
}

/** What a file imports, types too: paths in the repository, and names of packages as they stand. */
function importsOf(path: string): string[] {
  const source = readFileSync(join(repository, path), 'utf8');
  const statements = /^(?:import|export)\s+(?:[\w$*{},\s]+\sfrom\s+)?'([^']+)'|\bimport\(\s*'([^']+)'/gm;
  return [...source.matchAll(statements)].map(([, fixed, dynamic]) => {
    const specifier = fixed ?? dynamic ?? '';
    return specifier.startsWith('.') ? normalize(join(dirname(path), specifier)) : specifier;
  });
}

/** A sentence for each import that a room does not allow. */
function breaches(path: string, imports: readonly string[]): string[] {
  const room = rooms.find(({ holds }) => holds.test(path));
  if (!room) return [`${path} lies in no room`];
  return imports
    .filter((imported) => !room.mayImport.test(imported))
    .map((imported) => `${path} imports ${imported}: ${room.sentence}`);
}

describe('rooms', () => {
  test('import only what they may', () => {
    const files = filesIn('bin', 'lib', 'lambdas');
    expect(files.length).toBeGreaterThan(30);
    expect(files.flatMap((path) => breaches(path, importsOf(path)))).toEqual([]);
  });

  test.each([
    ['lambdas/core/claim-due.ts', 'lambdas/store/ledger.ts'],
    ['lambdas/core/claim-due.ts', 'node:net'],
    ['lambdas/core/claim-due.ts', 'zod'],
    ['lambdas/store/ledger.ts', '@aws-sdk/client-rds-data'],
    ['lambdas/store/data-api.ts', '@aws-sdk/client-sqs'],
    ['lambdas/queue/invitations.ts', 'lambdas/store/ledger.ts'],
    ['lambdas/events/announcements.ts', '@aws-sdk/client-sqs'],
    ['lambdas/claim/contract.ts', '@aws-sdk/client-sqs'],
    ['lambdas/claim/handler.ts', '@aws-sdk/client-sqs'],
    ['lambdas/claim/handler.ts', 'lib/stack/reminder-ledger.ts'],
    ['lambdas/widget/ledger-page.ts', '@aws-sdk/client-rds-data'],
    ['lib/stack/ledger-function.ts', 'lambdas/core/ports.ts'],
    ['lib/stack/ledger-function.ts', 'lambdas/claim/handler.ts'],
    ['lib/local/lambda-host.ts', 'aws-cdk-lib'],
    ['lib/local/lambda-host.ts', 'aws-cdk-lib/aws-lambda'],
    ['lib/local/lambda-host.ts', 'lib/stack/ledger-function.ts'],
    ['lib/local/lambda-host.ts', 'lambdas/store/ledger.ts'],
    ['lib/stack/ledger-function.ts', 'bin/build.ts'],
    ['bin/demo.ts', 'test/stack/synthesized.ts'],
    ['lib/elsewhere/file.ts', 'node:fs'],
  ])('would refuse %s importing %s', (path, imported) => {
    expect(breaches(path, [imported])).toHaveLength(1);
  });

  test('are told of every way to import', () => {
    expect(importsOf('lambdas/runtime/handler-stack.ts')).toEqual(
      expect.arrayContaining(['@middy/core', 'aws-lambda', 'lambdas/core/ports.ts', 'lambdas/runtime/clock.ts']),
    );
    expect(importsOf('lib/stack/reminder-ledger.ts')).toContain('lambdas/claim/contract.ts');
  });
});

describe('every file', () => {
  const files = filesIn('bin', 'lib', 'lambdas', 'test');

  test('begins with a comment on its one purpose', () => {
    const silent = files.filter((path) => !/^\/\/ \S.{10,}/.test(readFileSync(join(repository, path), 'utf8')));
    expect(silent).toEqual([]);
  });

  test('has at most 350 lines', () => {
    const long = files.filter((path) => readFileSync(join(repository, path), 'utf8').split('\n').length > 351);
    expect(long).toEqual([]);
  });

  test('lies in a folder that says what is in it', () => {
    const folders = files.flatMap((path) => dirname(path).split('/'));
    const vague = folders.filter((name) => /^(utils?|helpers?|common|shared|misc)$/.test(name));
    const vagueFiles = files.filter((path) => /^(utils?|helpers?|common|shared|misc)\.ts$/.test(basename(path)));
    expect([...vague, ...vagueFiles]).toEqual([]);
  });
});
