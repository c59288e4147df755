import { randomUUID } from 'node:crypto';
import { removeQuotes } from '../../core/quote.ts';
import { formatSpan } from '../../core/time.ts';
import { isSeenByEverybody, type Problem } from '../health/problem.ts';

/** Maximum number of characters of a text in a post. */
const maxTextLength = 500;

/** An open problem. `beganAt` is null until it has lasted long enough to be posted. */
export interface StoredAlert {
  readonly id: string;
  readonly scope: string;
  readonly code: string;
  /** Null: every client. */
  readonly client: string | null;
  readonly subject: string;
  readonly detail: string;
  readonly severity: 'bad' | 'warn';
  readonly text: string;
  readonly remedy: string | null;
  readonly since: Date;
  readonly beganAt: Date | null;
  readonly missingSince: Date | null;
}

/** Maximum numbers of open alerts. */
export interface AlertCapacity {
  /** That may still be added. */
  readonly alerts: number;
  /** Of one scope and client, with those that are open. */
  readonly perClient: number;
}

/** What a check changes. */
export interface AlertChanges {
  readonly kept: readonly StoredAlert[];
  /** Ids of alerts whose problem has ended. */
  readonly removed: readonly string[];
  readonly posts: readonly AlertPost[];
}

/** The terms of a decision. */
interface AlertTerms {
  readonly now: Date;
  /** Time that a problem must last before it is posted, and be gone before its end is posted. */
  readonly holdMs: number;
  readonly capacity: AlertCapacity;
  /** Address of the pages as people reach them; null if it is not known. */
  readonly link: string | null;
}

/** A problem as it is found by a check, before it is known whether it is open already. */
type FoundAlert = Omit<StoredAlert, 'id' | 'since' | 'beganAt' | 'missingSince'>;

/**
 * Decides which problems begin, continue and end. A problem is posted after it was found for
 * `holdMs`, again when a warning becomes a problem that needs a person, and its end after it was
 * missing for `holdMs`. A problem that goes away earlier is forgotten without a post. If there is
 * no capacity, new problems and posts wait for a later check; one alert, which always fits, counts
 * such problems.
 */
export function decideAlerts(
  found: readonly FoundAlert[],
  open: readonly StoredAlert[],
  { now, holdMs, capacity, link }: AlertTerms,
): AlertChanges {
  const known = new Map(open.map((alert) => [toKey(alert), alert]));
  const present = new Map(keepFitting(found, open, capacity).map((alert) => [toKey(alert), alert]));
  const hasLasted = (since: Date) => now.getTime() - since.getTime() >= holdMs;
  const kept: StoredAlert[] = [];
  const removed: string[] = [];
  const posts: AlertPost[] = [];

  for (const [key, alert] of present) {
    const stored = known.get(key);
    if (stored === undefined) {
      kept.push({ ...alert, id: randomUUID(), since: now, beganAt: null, missingSince: null });
      continue;
    }

    const type = findPostType(stored, alert, hasLasted(stored.since));
    const beganAt = type === 'problem.began' ? now : stored.beganAt;
    // Words that were posted stay, so that the end has the words of the beginning.
    const { text, remedy } = stored.beganAt === null || type !== null ? alert : stored;
    const next = { ...stored, ...alert, text, remedy, beganAt, missingSince: null };
    kept.push(next);
    if (type !== null)
      posts.push({ alertId: next.id, body: toPostBody(type, next, { now, link }) });
  }

  for (const alert of open.filter((one) => !present.has(toKey(one)))) {
    const missingSince = alert.missingSince ?? now;
    if (alert.beganAt !== null && !hasLasted(missingSince)) {
      kept.push({ ...alert, missingSince });
      continue;
    }

    removed.push(alert.id);
    if (alert.beganAt !== null)
      posts.push({ alertId: alert.id, body: toPostBody('problem.ended', alert, { now, link }) });
  }

  return { kept, removed, posts };
}

/** Finds what is posted of a problem that is still there; null if nothing is. */
function findPostType(stored: StoredAlert, alert: FoundAlert, hasLasted: boolean) {
  if (stored.beganAt === null) return hasLasted ? 'problem.began' : null;
  const worsens = stored.severity === 'warn' && alert.severity === 'bad';
  return worsens ? 'problem.worsened' : null;
}

/** The code of the alert that counts the problems of a scope that do not fit. */
const overflowCode = 'alerts_full';

/**
 * Returns the problems that are open or fit, and one for each scope that counts the others. A
 * client with many problems takes no capacity from another.
 */
function keepFitting(
  found: readonly FoundAlert[],
  open: readonly StoredAlert[],
  capacity: AlertCapacity,
): FoundAlert[] {
  const known = new Set(open.map(toKey));
  const toOwner = ({ scope, client }: FoundAlert) => JSON.stringify([scope, client]);
  const counts = new Map(
    [...Map.groupBy(open, toOwner)].map(([owner, alerts]) => [owner, alerts.length]),
  );
  const overflow = new Map<string, number>();
  let free = capacity.alerts;

  const fitting = found.filter((alert) => {
    if (known.has(toKey(alert))) return true;

    const ofOwner = counts.get(toOwner(alert)) ?? 0;
    if (free <= 0 || ofOwner >= capacity.perClient) {
      overflow.set(alert.scope, (overflow.get(alert.scope) ?? 0) + 1);
      return false;
    }

    free--;
    counts.set(toOwner(alert), ofOwner + 1);
    return true;
  });

  return [...fitting, ...[...overflow].map(([scope, count]) => toOverflowAlert(scope, count))];
}

function toOverflowAlert(scope: string, count: number): FoundAlert {
  const problems = count === 1 ? '1 more problem has' : `${count} more problems have`;
  return {
    scope,
    code: overflowCode,
    client: scope === '' ? null : scope,
    subject: scope === '' ? 'every client alerts' : `${scope} alerts`,
    detail: '',
    severity: 'bad',
    text: `${problems} no alert: too many are open`,
    remedy: 'see all of them: fulfilment-sync status',
  };
}

/** Returns the identity of a problem, which stays the same while its text changes. */
const toKey = ({ scope, code, subject, detail }: FoundAlert) =>
  JSON.stringify([scope, code, subject, detail]);

/**
 * Problems that no check posts: one about the posts, and those that each worker posts by itself
 * (`findOwnProblems`).
 */
const unchecked: ReadonlySet<string> = new Set([
  'alerts_undelivered',
  'clock_wrong',
  'database_full',
  'database_read_only',
]);

/**
 * Selects the problems that a check of some scopes posts. What follows from a problem is not
 * posted.
 */
export const toFoundAlerts = (
  problems: readonly Problem[],
  scopes: readonly string[],
): FoundAlert[] =>
  toAlerts(problems.filter(({ code }) => !unchecked.has(code))).filter(({ scope }) =>
    scopes.includes(scope),
  );

/**
 * Returns bad problems and warnings as they are posted, without quoted words of others. Problems of
 * one identity become one, with all texts.
 */
export function toAlerts(problems: readonly Problem[]): FoundAlert[] {
  const found = new Map<string, FoundAlert>();
  for (const problem of problems) {
    const { code, severity, client, subject, detail = '', text, remedy } = problem;
    if (severity === 'note') continue;

    const scope = isSeenByEverybody(problem) ? '' : (client ?? '');
    const words = { text: toPostedText(text), remedy: remedy && toPostedText(remedy) };
    const alert = { scope, code, client, subject, detail, severity, ...words };

    const key = toKey(alert);
    const earlier = found.get(key);
    if (earlier === undefined) found.set(key, alert);
    else found.set(key, { ...earlier, text: toPostedText(`${earlier.text}; ${alert.text}`) });
  }

  return [...found.values()];
}

/** Leaves out quoted words of others, which may contain personal data, and cuts the text. */
const toPostedText = (text: string) => removeQuotes(text).slice(0, maxTextLength).toWellFormed();

/** What is posted to ALERT_WEBHOOK_URL. Chat programs such as Slack show `text`. */
export interface PostBody {
  readonly type: 'problem.began' | 'problem.worsened' | 'problem.ended';
  readonly timestamp: string;
  readonly data: {
    /** The same for all posts of a problem. */
    readonly id: string;
    readonly code: string;
    readonly severity: 'bad' | 'warn';
    /** Null: every client. */
    readonly client: string | null;
    readonly subject: string;
    readonly text: string;
    readonly remedy: string | null;
    readonly since: string;
    /** Address of the pages (ADMIN_PUBLIC_URL); null if it is not known. */
    readonly link: string | null;
  };
  readonly text: string;
}

/** A post of an alert. */
export interface AlertPost {
  readonly alertId: string;
  readonly body: PostBody;
}

function toPostBody(
  type: PostBody['type'],
  alert: StoredAlert,
  { now, link }: Pick<AlertTerms, 'now' | 'link'>,
): PostBody {
  const { id, code, severity, client, subject, text, remedy, since } = alert;
  const words = escapeForChat(describePost(type, alert, now));
  return {
    type,
    timestamp: now.toISOString(),
    data: { id, code, severity, client, subject, text, remedy, since: since.toISOString(), link },
    text: `fulfilment-sync: ${words}${link === null ? '' : ` ${link}/`}`,
  };
}

/** Describes what is posted in one line. */
function describePost(type: PostBody['type'], alert: StoredAlert, now: Date): string {
  const { severity, subject, text, remedy, since } = alert;
  if (type === 'problem.ended') {
    const lasted = formatSpan((now.getTime() - since.getTime()) / 1_000);
    return `Ended after ${lasted}: ${subject}: ${text}`;
  }

  const word = severity === 'bad' ? 'Problem' : 'Warning';
  return `${word}: ${subject}: ${text}${remedy === null ? '' : `; ${remedy}`}`;
}

/** Escapes the characters that begin a link or a mention in Slack. */
const escapeForChat = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
