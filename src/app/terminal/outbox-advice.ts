import type { OutboxDetail } from '../../erp/outbox/read-outbox.ts';

/**
 * Tells an operator what to do with a row.
 * @param where whether the text is for the command line, where it names commands, or for the row's page with its
 * buttons
 */
export function adviseOperator(
  { status, nextAttemptAt, because, lastError }: OutboxDetail,
  where: 'command' | 'page' = 'command',
): string {
  const undated = nextAttemptAt === null;
  if (status === 'pending' && because !== null && because !== lastError) return `It waits: ${because}`;
  if (status === 'dead')
    return where === 'page'
      ? 'Fix the cause. Then retry the row, replace its payload, mark it as done, or cancel it. Until then it blocks the later rows of its lane.'
      : 'Fix the cause, then: outbox retry <id>; outbox replace <id> <payload>; outbox done <id> if the service has carried it out already; or outbox cancel <id>';
  if (status === 'unknown' && undated)
    return where === 'page'
      ? 'Check at the service whether it was carried out. Mark the row as done if it was, else retry it.'
      : 'Check at the service whether it was carried out, then: outbox done <id> if it was, or outbox retry <id> to send it again';
  return status === 'unknown'
    ? 'A worker looks it up at the service; nothing needs to be done'
    : 'Nothing needs to be done';
}
