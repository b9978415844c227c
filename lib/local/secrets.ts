// Secrets Manager on this machine: secrets with versions under labels, as far as reading and rotating needs them.
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { type CallFault, Faults, withFaults } from './faults.ts';
import { type Service, ServiceError, serve } from './http-service.ts';

/** A version of a secret; without a text while a rotation has only announced it. */
interface Version {
  readonly text?: string;
  readonly labels: readonly string[];
}

/** The versions of a secret by their ids. */
type Versions = Readonly<Record<string, Version>>;

/** A Secrets Manager that listens. */
export interface Secrets extends Service {
  /** What shall go wrong with calls to come; `match` looks at the operation and the ARN, such as `GetSecretValue arn:…`. */
  readonly faults: Faults<CallFault>;
  /** The current text of a secret. */
  current(arn: string): string | undefined;
  /** Begins a rotation: the id becomes a version that is pending. A rotation under way goes on: its id is answered. */
  announceVersion(arn: string, versionId: string): string;
}

interface Request {
  readonly SecretId?: string;
  readonly VersionId?: string;
  readonly VersionStage?: string;
  readonly VersionStages?: readonly string[];
  readonly ClientRequestToken?: string;
  readonly SecretString?: string;
  readonly RemoveFromVersionId?: string;
  readonly MoveToVersionId?: string;
}

const current = 'AWSCURRENT';
const previous = 'AWSPREVIOUS';
const pending = 'AWSPENDING';

/**
 * Serves secrets.
 * @param fixed each secret's text by its ARN
 * @param kept secrets that outlive a restart: what is in `file` goes before what they `begin` with @default none
 */
export async function startSecrets(
  fixed: ReadonlyMap<string, string>,
  kept: { readonly file?: string; readonly begin: ReadonlyMap<string, string> } = { begin: new Map() },
): Promise<Secrets> {
  const { file, begin } = kept;
  const known: Record<string, Versions> =
    file !== undefined && existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
  const secrets = new Map<string, Versions>(Object.entries(known));
  const faults = new Faults<CallFault>();
  for (const [arn, text] of [...begin, ...fixed]) {
    if (!secrets.has(arn)) secrets.set(arn, { [`first-version-of-${'0'.repeat(20)}`]: { text, labels: [current] } });
  }
  save();

  function save(): void {
    if (file === undefined) return;
    // Written beside and renamed: a process that is killed leaves no half of a file.
    const text = JSON.stringify(Object.fromEntries([...secrets].filter(([arn]) => begin.has(arn))));
    writeFileSync(`${file}.new`, text, { mode: 0o600 });
    renameSync(`${file}.new`, file);
  }

  function versionsOf(arn: string): Versions {
    const versions = secrets.get(arn);
    if (versions === undefined) {
      throw new ServiceError('ResourceNotFoundException', 400, "Secrets Manager can't find the specified secret.");
    }
    return versions;
  }

  /** Gives a version its labels; each is taken from where it was, and what loses the current one becomes the previous. */
  function label(arn: string, id: string, labels: readonly string[], text?: string): void {
    const versions = versionsOf(arn);
    const losesCurrent = labels.includes(current) ? holderOf(versions, current) : undefined;
    const moves = new Map(labels.map((name) => [name, id]));
    if (losesCurrent !== undefined && losesCurrent !== id) moves.set(previous, losesCurrent);
    const ids = new Set([...Object.keys(versions), id]);
    const labelled = [...ids].map((each): [string, Version] => {
      const had = (versions[each]?.labels ?? []).filter((name) => !moves.has(name));
      const gets = [...moves].flatMap(([name, to]) => (to === each ? [name] : []));
      return [
        each,
        { ...versions[each], ...(each === id && text !== undefined ? { text } : {}), labels: [...had, ...gets] },
      ];
    });
    // A version without a label is deprecated: Secrets Manager may delete it at any time.
    secrets.set(arn, Object.fromEntries(labelled.filter(([, version]) => version.labels.length > 0)));
    save();
  }

  const operations: Readonly<Record<string, (arn: string, request: Request) => Record<string, unknown>>> = {
    GetSecretValue(arn, { VersionId: id, VersionStage: stage }) {
      const versions = versionsOf(arn);
      const found = id ?? holderOf(versions, stage ?? current) ?? '';
      const { text, labels = [] } = versions[found] ?? {};
      if (text === undefined || (stage !== undefined && !labels.includes(stage))) {
        const what = `for ${id === undefined ? `staging label: ${stage}` : `VersionId: ${id}`}`;
        throw new ServiceError('ResourceNotFoundException', 400, `Can't find the specified secret value ${what}`);
      }
      return { VersionId: found, SecretString: text, VersionStages: labels };
    },
    DescribeSecret(arn) {
      const stages = Object.entries(versionsOf(arn)).map(([id, { labels }]) => [id, labels]);
      return { RotationEnabled: begin.has(arn), VersionIdsToStages: Object.fromEntries(stages) };
    },
    PutSecretValue(arn, { ClientRequestToken: id = '', SecretString: text = '', VersionStages: labels = [current] }) {
      const stored = versionsOf(arn)[id]?.text;
      if (stored !== undefined && stored !== text) {
        throw new ServiceError('ResourceExistsException', 400, `Version ${id} exists with another value`);
      }
      if (stored === undefined) label(arn, id, labels, text);
      return { VersionId: id, VersionStages: versionsOf(arn)[id]?.labels };
    },
    UpdateSecretVersionStage(arn, { VersionStage: name = '', RemoveFromVersionId: from, MoveToVersionId: to = '' }) {
      const versions = versionsOf(arn);
      const holder = holderOf(versions, name);
      if (holder !== undefined && holder !== from) {
        const message = `The staging label ${name} is attached to version ${holder}; name that one to remove it from`;
        throw new ServiceError('InvalidParameterException', 400, message);
      }
      if (versions[to] === undefined) throw new ServiceError('ResourceNotFoundException', 400, `No version ${to}`);
      label(arn, to, [name]);
      return {};
    },
  };

  const service = await serve({ contentType: 'application/x-amz-json-1.1' }, async ({ headers, body }) => {
    const target = String(headers['x-amz-target']);
    const operation = operations[target.replace(/^secretsmanager\./, '')];
    if (operation === undefined) throw new ServiceError('InvalidRequestException', 400, `Unknown operation ${target}`);
    const request: Request = JSON.parse(body);
    const arn = request.SecretId ?? '';
    const answer = async () => ({ body: { ...operation(arn, request), ARN: arn, Name: arn.split(':').at(-1) } });
    const text = `${target.split('.').at(-1)} ${arn}`;
    return withFaults(
      faults,
      { text, request: text },
      answer,
      ({ error = 'InternalServiceError', message = 'Injected fault' }) => {
        return new ServiceError(error, error === 'InternalServiceError' ? 500 : 400, message);
      },
    );
  });
  return {
    ...service,
    faults,
    current(arn) {
      const versions = secrets.get(arn) ?? {};
      return versions[holderOf(versions, current) ?? '']?.text;
    },
    announceVersion(arn, versionId) {
      const versions = versionsOf(arn);
      const holder = holderOf(versions, pending);
      if (holder !== undefined && holder !== holderOf(versions, current)) return holder;
      label(arn, versionId, [pending]);
      return versionId;
    },
  };
}

function holderOf(versions: Versions, label: string): string | undefined {
  return Object.keys(versions).find((id) => versions[id]?.labels.includes(label));
}
