import { dayMs, hourMs, minuteMs } from './time.ts';

/**
 * How long to wait before something that failed is tried again. Rows that wait for others have
 * their times in push/judge-row.ts.
 */
export interface Backoff {
  readonly firstMs: number;
  readonly longestMs: number;
  /**
   * Each pause is the former one times this factor. `linear`: the second is twice, the third three
   * times the first.
   */
  readonly growth: number | 'linear';
  /**
   * `full`: the pause is a random part of its length, so that what failed together is not tried
   * again together.
   */
  readonly jitter: 'none' | 'full';
}

const secondMs = 1_000;

const makeDoublingPause = (
  firstMs: number,
  longestMs: number,
  jitter: Backoff['jitter'] = 'none',
): Backoff => ({
  firstMs,
  longestMs,
  growth: 2,
  jitter,
});

/** Makes a pause that is always the same. */
export const makeFixedPause = (ms: number): Backoff => ({
  firstMs: ms,
  longestMs: ms,
  growth: 1,
  jitter: 'none',
});

/** Maximum wait before the service is asked again, even if its Retry-After is longer. */
export const longestWaitMs = 15 * minuteMs;

/** The pauses before a request, a run, a row, a delivery or a statement is tried again. */
export const pauses = {
  /** A request that only reads. */
  read: makeDoublingPause(250, 4 * secondMs, 'full'),
  /** A token after it was refused although it was new: it is kept this long. */
  refusedToken: makeDoublingPause(20 * secondMs, 15 * minuteMs),

  /** All runs and rows of a client whose service does not answer: the question to status/get. */
  silentService: makeFixedPause(5 * secondMs),
  /** All runs or all rows of a client whose user name or password is refused. */
  refusedCredentials: makeFixedPause(15 * minuteMs),
  /** A run that failed, at the latest. A poll that is due earlier is made then. */
  failedRun: makeDoublingPause(10 * minuteMs, 320 * minuteMs),
  /** The worker of a queue, after an error of BullMQ. */
  queueWorker: makeFixedPause(secondMs),
  /** A read by id that failed, or that found nothing new. */
  reread: makeDoublingPause(minuteMs, dayMs),
  /**
   * A look-up of the packages of a shipment: the service did not answer, or its answer names no
   * package of it.
   */
  failedParcelRead: makeFixedPause(hourMs),
  emptyParcelRead: makeFixedPause(dayMs),
  /**
   * A look-up of packages that the track-trace list shows. Each reading of the list prolongs it, so
   * it only ends if the list is no longer read. A package that leaves the list is looked up at
   * once.
   */
  listedParcelRead: makeFixedPause(3 * dayMs),
  /** The call for track-trace, if there was no connection. */
  unsentTrackTrace: makeFixedPause(minuteMs),

  /**
   * A row of the outbox after an attempt that was certainly not carried out, or that a 429, a 401
   * or a wrong path refused. If only reads failed, it begins with the fifth pause. After an attempt
   * that may have been carried out, see `firstLookUp`.
   */
  push: makeDoublingPause(secondMs, longestWaitMs, 'full'),
  /** A row whose worker was lost before it sent the row. The first time there is no pause. */
  takeover: { firstMs: 10 * secondMs, longestMs: minuteMs, growth: 'linear', jitter: 'full' },
  /** A row that waits for a rename; for one that is dead. */
  awaitedRename: makeFixedPause(15 * secondMs),
  deadRename: makeFixedPause(15 * minuteMs),
  /**
   * The service lists, if reading them for an unknown code failed, or if another worker reads them.
   */
  serviceLists: makeFixedPause(15 * secondMs),
  /** The first look-up of a row with an unknown outcome, and the following ones. */
  firstLookUp: makeFixedPause(secondMs),
  lookUp: makeDoublingPause(2 * secondMs, 15 * minuteMs),
  /** The second of two absences that confirm each other. */
  secondAbsence: makeFixedPause(30 * secondMs),
  /**
   * All rows of a client whose service answers 429 without a Retry-After, while no row is done in
   * between.
   */
  tooFast: makeDoublingPause(secondMs, 10 * secondMs),
  /**
   * A kind whose rows fail. Its first hold comes after several failures, and lasts half a second.
   */
  failingKind: { firstMs: 250, longestMs: 10 * secondMs, growth: 1.15, jitter: 'none' },
  /** A kind or a job whose path the service does not have. */
  wrongPath: makeFixedPause(15 * minuteMs),
  /** A settlement that the database did not commit. */
  settlement: makeFixedPause(500),
  /** The settlement of a row that somebody has locked. */
  lockedRow: makeFixedPause(100),

  /** A delivery that its receiver did not take; the next try of a receiver that is away. */
  delivery: makeDoublingPause(secondMs, 15 * minuteMs, 'full'),
  receiver: makeDoublingPause(secondMs, 10 * secondMs, 'full'),

  /** The start of a worker without its database or queue. */
  start: makeFixedPause(2 * secondMs),
  /** The connection that listens to Postgres. */
  listener: makeDoublingPause(250, 5 * secondMs),
  redis: { firstMs: 100, longestMs: 2 * secondMs, growth: 'linear', jitter: 'none' },
  /** `migrate --wait` without a database. */
  unreachableDatabase: makeFixedPause(500),
  /** A migration while another process migrates; while a table is in use. */
  otherMigration: makeFixedPause(500),
  tableInUse: makeFixedPause(2 * secondMs),
} as const satisfies Record<string, Backoff>;

/**
 * Returns the length of a pause without jitter, in milliseconds.
 * @param number 1 for the first pause
 */
export function growPauseMs({ firstMs, longestMs, growth }: Backoff, number: number): number {
  return Math.min(
    longestMs,
    growth === 'linear' ? firstMs * number : firstMs * growth ** (number - 1),
  );
}

/**
 * Returns how long to wait, in milliseconds, after a failure that may have a Retry-After: not
 * before it, but at most for the longest pause.
 * @param number 1 for the first pause
 * @param random a number in [0, 1), for the jitter
 */
export function toPauseMs(
  pause: Backoff,
  number: number,
  random: number,
  retryAfterMs = 0,
): number {
  const grownMs = growPauseMs(pause, number) * (pause.jitter === 'full' ? random : 1);
  return Math.round(Math.min(pause.longestMs, retryAfterMs + grownMs));
}
