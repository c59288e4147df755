import { type Json, parseExact, ShapeError } from '../core/json.ts';
import { outboxKinds } from './kinds/registry.ts';
import { maskPayload } from './mask.ts';
import { maxPayloadValues } from './payload.ts';
import type { OutboxDetail } from './sql/read-outbox.ts';

/**
 * Returns the payload of an outbox row as it is shown to a person. Personal data and members that
 * the row's kind does not know are masked.
 * @param maxLength maximum number of characters of a payload that is shown
 */
export function toShownPayload(
  row: { readonly kind: string; readonly payload: string },
  revealed: boolean,
  maxLength = Number.POSITIVE_INFINITY,
): Json {
  const { length } = row.payload;
  if (length > maxLength)
    return `cannot be shown: it has ${length} characters; see it with fulfilment-sync outbox show`;

  try {
    const payload = parseExact(row.payload, maxPayloadValues);
    const kind = outboxKinds.find(({ name }) => name === row.kind);
    return revealed ? payload : maskPayload(kind, payload);
  } catch (error) {
    if (!(error instanceof ShapeError)) throw error;
    return `cannot be shown: it ${error.message}`;
  }
}

/** The advice for the states in which a person may have to act, by the place that shows it. */
const advice = {
  command: {
    pending:
      'The row is sent by itself as soon as the reason is gone. ' +
      'If a person must act, fulfilment-sync status says so.',
    dead:
      'Fix the cause. Then run one of: outbox retry <id>; outbox replace <id> <payload>; ' +
      'outbox done <id>, if the service has carried it out already; outbox cancel <id>. ' +
      'Until then the row blocks the later rows of its lane.',
    undecided:
      'Check at the service whether it was carried out. ' +
      'If it was, run outbox done <id>; else run outbox retry <id>, which sends it again.',
  },
  page: {
    pending:
      'The row is sent by itself as soon as the reason is gone. ' +
      'If a person must act, the overview says so.',
    dead:
      'Fix the cause. Then retry the row, replace its payload, mark it as done, or cancel it. ' +
      'Until then it blocks the later rows of its lane.',
    undecided:
      'Check at the service whether it was carried out. ' +
      'If it was, mark the row as done; else retry it, which sends it again.',
  },
};

/** Tells an operator what to do with a row. */
export function adviseOperator(
  { status, nextAttemptAt, because, waitsFor }: OutboxDetail,
  where: 'command' | 'page' = 'command',
): string {
  if (status === 'pending' && waitsFor !== null)
    return `It waits: ${because}. The row is sent by itself after that.`;
  if (status === 'pending' && because !== null) return advice[where].pending;
  if (status === 'dead') return advice[where].dead;
  if (status !== 'unknown') return 'Nothing needs to be done.';

  return nextAttemptAt === null
    ? advice[where].undecided
    : 'A worker looks it up at the service. Nothing needs to be done.';
}
