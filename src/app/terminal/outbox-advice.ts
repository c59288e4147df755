import type { OutboxDetail } from '../../erp/outbox/read-outbox.ts';

/** What can be done with a row, by commands or by the forms of its page. */
export function adviceFor(
  { status, nextAttemptAt, because, lastError }: OutboxDetail,
  where: 'command' | 'page' = 'command',
): string {
  const undated = nextAttemptAt === null;
  if (status === 'pending' && because !== null && because !== lastError) return `It waits: ${because}`;
  if (status === 'dead')
    return where === 'page'
      ? 'Mend the cause, then send it again, ask for something else, mark it as done, or cancel it; until then it blocks what is behind it.'
      : 'Mend the cause, then: outbox retry <id>; outbox replace <id> <payload>; outbox done <id> if it is true already; or outbox cancel <id>';
  if (status === 'unknown' && undated)
    return where === 'page'
      ? 'See at the service whether it was carried out: mark it as done if it was, or send it again.'
      : 'See at the service whether it was carried out, then: outbox done <id> if it was, or outbox retry <id> to send it again';
  return status === 'unknown' ? 'It is being looked up; nothing needs to be done' : 'Nothing needs to be done';
}
