import { formatSpan } from '../../core/time.ts';
import type { AlertBacklog } from '../../erp/alerts/posts.ts';
import { createProblem, type Problem } from './problem.ts';

/** Finds posts to ALERT_WEBHOOK_URL that the receiver does not take. This problem is shown, but never posted. */
export function findAlertProblems({ failing, abandoned, oldestAt, lastError }: AlertBacklog, now: Date): Problem[] {
  if (failing + abandoned === 0) return [];
  const age = oldestAt === null ? '' : ` (the oldest for ${formatSpan((now.getTime() - oldestAt.getTime()) / 1_000)})`;
  const parts = [
    ...(failing === 0 ? [] : [`${failing === 1 ? '1 alert waits' : `${failing} alerts wait`}${age}`]),
    ...(abandoned === 0 ? [] : [`${abandoned === 1 ? '1 alert was' : `${abandoned} alerts were`} given up today`]),
  ];
  const text = `${parts.join('; ')}: the receiver does not take it: ${lastError ?? 'no answer'}`;
  const remedy = 'check ALERT_WEBHOOK_URL and its receiver';
  return [createProblem('alerts_undelivered', 'warn', { client: null, part: 'alerts' }, text, remedy)];
}
