// The numbers of a stage, in one typed object, and the inequalities that hold between them.

/**
 * Which set of numbers a function runs with. `dev` has those of `production`, for a deployment that nobody will miss;
 * `rehearsal` is `production` made fast enough to watch, for local AWS: demo, drills, soak.
 */
export type Stage = 'production' | 'dev' | 'rehearsal';

/** All timings, sizes and limits of one stage. Units are in the names. */
export interface Settings {
  readonly stage: Stage;
  /** How often EventBridge Scheduler runs the claim. */
  readonly tickSeconds: number;
  /** A tick falls anywhere in this span: EventBridge Scheduler promises 60 s precision. */
  readonly tickPrecisionSeconds: number;
  /** How long before it is due a reminder is handed to the queue. Never above SQS's longest delay, 900 s. */
  readonly lookaheadSeconds: number;
  readonly claimBudgetSeconds: number;
  readonly claimTimeoutSeconds: number;
  readonly claimBatchSize: number;
  readonly scheduleTimeoutSeconds: number;
  readonly dataApiTimeoutMs: number;
  /** How often one command is tried within its time; the lease arithmetic counts with it. */
  readonly dataApiTries: number;
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  /** How long one try of a call to the queue or the event bus may take; each call is tried twice. */
  readonly transportTimeoutMs: number;
  readonly webhookDeadlineMs: number;
  /** The longest a sender waits, inside its run, for a reminder to become due. */
  readonly waitLimitMs: number;
  /** What must be left of the lease beyond the deadline when a send starts. */
  readonly leaseMarginMs: number;
  readonly senderTimeoutSeconds: number;
  readonly senderBatchSize: number;
  readonly senderConcurrency: number;
  readonly leaseSeconds: number;
  /** How long a hand-off may take after the due time before the calendar looks at the row again. */
  readonly allowanceSeconds: number;
  readonly visibilityTimeoutSeconds: number;
  readonly maxReceiveCount: number;
  readonly queueRetentionDays: number;
  readonly deadLetterRetentionDays: number;
  readonly retryBaseSeconds: number;
  readonly retryCapSeconds: number;
  /** The retry policy: this many failures and the reminder is dead. */
  readonly maxFailures: number;
  /** This many attempts since the last requeue and the reminder is dead, whatever their outcome. */
  readonly attemptHardCap: number;
  /** The first pause after the queue refused a hand-off; doubled for each invitation in vain. */
  readonly releaseBaseSeconds: number;
  /** The most reminders that people may have invited again within one minute, all of them together. */
  readonly republishedPerMinute: number;
}

const sameInEveryStage = {
  claimBatchSize: 500,
  dataApiTries: 2,
  waitLimitMs: 1500,
  leaseMarginMs: 2000,
  senderBatchSize: 10,
  senderConcurrency: 10,
  maxReceiveCount: 5,
  queueRetentionDays: 4,
  deadLetterRetentionDays: 14,
  maxFailures: 12,
  attemptHardCap: 30,
  republishedPerMinute: 200,
} as const;

const production: Settings = {
  ...sameInEveryStage,
  stage: 'production',
  tickSeconds: 60,
  tickPrecisionSeconds: 60,
  lookaheadSeconds: 180,
  claimBudgetSeconds: 45,
  claimTimeoutSeconds: 55,
  scheduleTimeoutSeconds: 29,
  dataApiTimeoutMs: 4000,
  statementTimeoutMs: 3000,
  lockTimeoutMs: 1000,
  transportTimeoutMs: 2000,
  webhookDeadlineMs: 10_000,
  senderTimeoutSeconds: 30,
  leaseSeconds: 60,
  allowanceSeconds: 120,
  visibilityTimeoutSeconds: 180,
  retryBaseSeconds: 30,
  retryCapSeconds: 3600,
  releaseBaseSeconds: 30,
};

const stages: Readonly<Record<Stage, Settings>> = {
  production,
  dev: { ...production, stage: 'dev' },
  rehearsal: {
    ...sameInEveryStage,
    stage: 'rehearsal',
    tickSeconds: 3,
    tickPrecisionSeconds: 3,
    lookaheadSeconds: 9,
    claimBudgetSeconds: 2,
    claimTimeoutSeconds: 2.5,
    scheduleTimeoutSeconds: 10,
    dataApiTimeoutMs: 500,
    statementTimeoutMs: 400,
    lockTimeoutMs: 200,
    transportTimeoutMs: 500,
    webhookDeadlineMs: 1000,
    senderTimeoutSeconds: 7,
    leaseSeconds: 10,
    allowanceSeconds: 13,
    visibilityTimeoutSeconds: 42,
    retryBaseSeconds: 1,
    retryCapSeconds: 8,
    releaseBaseSeconds: 1,
  },
};

/** The names that {@link settingsOf} knows. */
export const knownStages: readonly Stage[] = ['production', 'dev', 'rehearsal'];

/**
 * The settings of a stage, checked.
 * @param name the stage's name, as it stands in the environment variable `STAGE`
 * @throws {Error} when the stage is unknown (the message names the known ones) or an inequality does not hold
 */
export function settingsOf(name: string): Settings {
  const stage = knownStages.find((known) => known === name);
  if (stage === undefined) {
    throw new Error(`stage: got ${JSON.stringify(name)}; use one of ${knownStages.join(', ')}`);
  }
  const settings = stages[stage];
  const broken = brokenInequalities(settings);
  if (broken.length > 0) throw new Error(`settings of stage ${stage} must hold: ${broken.join('; ')}`);
  return settings;
}

/**
 * The inequalities between the numbers that do not hold, each as a sentence with its figures; empty when all hold.
 * Synthesis and every cold start call this, so that no deployed function runs on numbers that lose or repeat a send.
 */
export function brokenInequalities(s: Settings): string[] {
  const t = s.dataApiTimeoutMs / 1000;
  const command = s.dataApiTries * t;
  const deadline = s.webhookDeadlineMs / 1000;
  const margin = s.leaseMarginMs / 1000;
  const run = command + s.waitLimitMs / 1000 + deadline + command + margin;
  const rules: [boolean, string][] = [
    [
      s.lookaheadSeconds >= 2 * s.tickSeconds + s.tickPrecisionSeconds,
      `lookahead ${s.lookaheadSeconds} s >= 2 x tick ${s.tickSeconds} s + precision ${s.tickPrecisionSeconds} s`,
    ],
    [s.lookaheadSeconds <= 900, `lookahead ${s.lookaheadSeconds} s <= 900 s, the longest delay of an SQS message`],
    [
      s.claimBudgetSeconds < s.claimTimeoutSeconds && s.claimTimeoutSeconds < s.tickSeconds,
      `claim budget ${s.claimBudgetSeconds} s < claim timeout ${s.claimTimeoutSeconds} s < tick ${s.tickSeconds} s`,
    ],
    [
      s.senderTimeoutSeconds >= run,
      `sender timeout ${s.senderTimeoutSeconds} s >= open ${command} s + wait ${s.waitLimitMs / 1000} s + deadline ${deadline} s + settle ${command} s + ${margin} s`,
    ],
    [
      s.leaseSeconds >= s.senderTimeoutSeconds + command,
      `lease ${s.leaseSeconds} s >= sender timeout ${s.senderTimeoutSeconds} s + ${command} s for the Data API`,
    ],
    [
      s.allowanceSeconds >= s.claimTimeoutSeconds + s.leaseSeconds,
      `allowance ${s.allowanceSeconds} s >= claim timeout ${s.claimTimeoutSeconds} s + lease ${s.leaseSeconds} s`,
    ],
    [
      s.visibilityTimeoutSeconds >= 6 * s.senderTimeoutSeconds,
      `visibility ${s.visibilityTimeoutSeconds} s >= 6 x sender timeout ${s.senderTimeoutSeconds} s`,
    ],
    [s.maxReceiveCount >= 5, `maxReceiveCount ${s.maxReceiveCount} >= 5`],
    [
      s.republishedPerMinute <= (s.senderConcurrency * s.senderBatchSize * 60) / s.senderTimeoutSeconds,
      `republished per minute ${s.republishedPerMinute} <= what ${s.senderConcurrency} senders take of ${s.senderBatchSize} in runs of ${s.senderTimeoutSeconds} s`,
    ],
    [
      s.queueRetentionDays < s.deadLetterRetentionDays,
      `queue retention ${s.queueRetentionDays} d < dead-letter retention ${s.deadLetterRetentionDays} d`,
    ],
    [
      s.lockTimeoutMs < s.statementTimeoutMs && s.statementTimeoutMs < s.dataApiTimeoutMs,
      `lock timeout ${s.lockTimeoutMs} ms < statement timeout ${s.statementTimeoutMs} ms < Data API timeout ${s.dataApiTimeoutMs} ms`,
    ],
  ];
  return rules.filter(([holds]) => !holds).map(([, sentence]) => sentence);
}
