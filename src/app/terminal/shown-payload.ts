import { type Json, parseExact, ShapeError } from '../../core/json.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { maskPayload } from '../../sync/push/payload/mask.ts';

/**
 * Returns the payload of an outbox row as it is shown to a person. Personal data and members that the row's kind does
 * not know are masked.
 * @param revealed true: nothing is masked
 * @returns a text that says why, if the payload has a shape that cannot be sent
 */
export function toShownPayload(row: { readonly kind: string; readonly payload: string }, revealed: boolean): Json {
  try {
    const payload = parseExact(row.payload);
    const kind = outboxKinds.find(({ name }) => name === row.kind);
    return revealed ? payload : maskPayload(kind, payload);
  } catch (error) {
    if (!(error instanceof ShapeError)) throw error;
    return `cannot be shown: it ${error.message}`;
  }
}
