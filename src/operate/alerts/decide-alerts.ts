import { randomUUID } from 'node:crypto';
import { removeQuotes } from '../../core/quote.ts';
import { formatSpan } from '../../core/time.ts';
import { isSeenByEverybody, type Problem } from '../health/problem.ts';
import type { AlertChanges, StoredAlert } from '../sql/open-alerts.ts';

/** Maximum number of characters of a text in a post. */
const maxTextLength = 500;

/** Numbers of alerts and of posts that may still be added. */
interface AlertRoom {
  readonly alerts: number;
  readonly posts: number;
  /** Maximum number of open alerts of one scope and client. */
  readonly perClient: number;
}

/** A problem as it is found by a check, before it is known whether it is open already. */
type FoundAlert = Omit<StoredAlert, 'id' | 'since' | 'beganAt' | 'missingSince'>;

/**
 * Decides which problems begin, continue and end. A problem is posted after it was found for
 * `holdMs`, again when a warning becomes a problem that needs a person, and its end after it was
 * missing for `holdMs`. A problem that goes away earlier is forgotten without a post. If there is
 * no room, new problems and posts wait for a later check; one alert, which always has room, counts
 * such problems.
 */
export function decideAlerts(
  found: readonly FoundAlert[],
  open: readonly StoredAlert[],
  now: Date,
  holdMs: number,
  room: AlertRoom,
): AlertChanges & { readonly posts: readonly AlertPost[] } {
  const known = new Map(open.map((alert) => [toKey(alert), alert]));
  const present = new Map(keepFitting(found, open, room).map((alert) => [toKey(alert), alert]));
  const isOver = (since: Date) => now.getTime() - since.getTime() >= holdMs;
  const kept: StoredAlert[] = [];
  const removed: string[] = [];
  const posts: AlertPost[] = [];
  for (const [key, alert] of present) {
    const stored = known.get(key);
    if (stored === undefined) {
      kept.push({ ...alert, id: randomUUID(), since: now, beganAt: null, missingSince: null });
      continue;
    }
    const begins = stored.beganAt === null && isOver(stored.since);
    const worsens =
      stored.beganAt !== null && stored.severity === 'warn' && alert.severity === 'bad';
    const hasRoom = posts.length < room.posts;
    const severity = worsens && !hasRoom ? stored.severity : alert.severity;
    const beganAt = begins && hasRoom ? now : stored.beganAt;
    const next = { ...stored, ...alert, severity, beganAt, missingSince: null };
    kept.push(next);
    const event = begins ? 'problem.began' : worsens ? 'problem.worsened' : null;
    if (event !== null && hasRoom)
      posts.push({ alertId: next.id, body: toPostBody(event, next, now) });
  }
  for (const alert of open.filter((one) => !present.has(toKey(one)))) {
    const missingSince = alert.missingSince ?? now;
    if (alert.beganAt === null) removed.push(alert.id);
    else if (!isOver(missingSince) || posts.length >= room.posts)
      kept.push({ ...alert, missingSince });
    else {
      removed.push(alert.id);
      posts.push({ alertId: alert.id, body: toPostBody('problem.ended', alert, now) });
    }
  }
  return { kept, removed, posts };
}

/** The code of the alert that counts the problems of a scope that have no room. */
const overflowCode = 'alerts_full';

/**
 * Returns the problems that are open or have room, and one for each scope that counts the others. A
 * client with many problems takes no room from another.
 */
function keepFitting(
  found: readonly FoundAlert[],
  open: readonly StoredAlert[],
  room: AlertRoom,
): FoundAlert[] {
  const known = new Set(open.map(toKey));
  const toPlace = ({ scope, client }: FoundAlert) => JSON.stringify([scope, client]);
  const used = new Map(
    [...Map.groupBy(open, toPlace)].map(([place, alerts]) => [place, alerts.length]),
  );
  const left = new Map<string, number>();
  let free = room.alerts;
  const fitting = found.filter((alert) => {
    if (known.has(toKey(alert))) return true;
    const inPlace = used.get(toPlace(alert)) ?? 0;
    if (free <= 0 || inPlace >= room.perClient) {
      left.set(alert.scope, (left.get(alert.scope) ?? 0) + 1);
      return false;
    }
    free--;
    used.set(toPlace(alert), inPlace + 1);
    return true;
  });
  return [...fitting, ...[...left].map(([scope, count]) => toOverflowAlert(scope, count))];
}

function toOverflowAlert(scope: string, count: number): FoundAlert {
  return {
    scope,
    code: overflowCode,
    client: scope === '' ? null : scope,
    subject: scope === '' ? 'every client alerts' : `${scope} alerts`,
    detail: '',
    severity: 'bad',
    text: `${count === 1 ? '1 more problem has' : `${count} more problems have`} no alert: too many are open`,
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
    const scope = isSeenByEverybody(problem) ? '' : (client ?? '');
    if (severity === 'note') continue;
    const words = { text: clean(text), remedy: remedy && clean(remedy) };
    const alert = { scope, code, client, subject, detail, severity, ...words };
    const key = toKey(alert);
    const earlier = found.get(key);
    found.set(
      key,
      earlier === undefined ? alert : { ...earlier, text: clean(`${earlier.text}; ${alert.text}`) },
    );
  }
  return [...found.values()];
}

/** Leaves out quoted words of others, which may contain personal data, and cuts the text. */
const clean = (text: string) => removeQuotes(text).slice(0, maxTextLength).toWellFormed();

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
  };
  readonly text: string;
}

/** A post of an alert. */
export interface AlertPost {
  readonly alertId: string;
  readonly body: PostBody;
}

function toPostBody(type: PostBody['type'], alert: StoredAlert, now: Date): PostBody {
  const { id, code, severity, client, subject, text, remedy, since } = alert;
  const lasted = formatSpan((now.getTime() - since.getTime()) / 1_000);
  const line =
    type !== 'problem.ended'
      ? `${severity === 'bad' ? 'Problem' : 'Warning'}: ${subject}: ${text}${remedy === null ? '' : `; ${remedy}`}`
      : `Ended after ${lasted}: ${subject}: ${text}`;
  return {
    type,
    timestamp: now.toISOString(),
    data: { id, code, severity, client, subject, text, remedy, since: since.toISOString() },
    text: `fulfilment-sync: ${escapeForChat(line)}`,
  };
}

/** Escapes the characters that begin a link or a mention in Slack. */
const escapeForChat = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
