import { type Json, parseExact, ShapeError } from '../../core/json.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { maskPayload } from '../../sync/push/payload/mask.ts';

/**
 * The payload of an outbox row as a person is shown it: personal data and what its kind does not know are hidden, unless
 * it was asked for as it is. One of a shape that is never sent is not shown either, and that is said.
 */
export function shownPayload(row: { readonly kind: string; readonly payload: string }, revealed: boolean): Json {
  try {
    const payload = parseExact(row.payload);
    const kind = outboxKinds.find(({ name }) => name === row.kind);
    return revealed ? payload : maskPayload(kind, payload);
  } catch (error) {
    if (!(error instanceof ShapeError)) throw error;
    return `cannot be shown: it ${error.message}`;
  }
}
