import { z } from 'zod';
import { makeUndecodableError, WarehouseError } from '../../core/errors.ts';
import { type Json, parseExact, ShapeError } from '../../core/json.ts';
import { quote } from '../../core/quote.ts';

/**
 * Answers of the oldest and v2 generations (docs/interface.md, 2.2 Envelope). Unknown members are
 * kept.
 */
const envelopeSchema = z.looseObject({
  messageCode: z.enum(['OK', 'NOK']),
  message: z.string().nullish(),
  result: z.custom<Json>().optional(),
});

/**
 * Decodes an envelope and returns its `result`.
 * @throws WarehouseError `nok` with the service's words if it answered NOK, `undecodable` if the
 *   body is not an envelope
 */
export function decodeEnvelope(operation: string, body: string): Json {
  let envelope: z.infer<typeof envelopeSchema>;
  try {
    envelope = envelopeSchema.parse(parseExact(body));
  } catch (cause) {
    if (!(cause instanceof SyntaxError || cause instanceof z.ZodError)) throw cause;
    const what = cause instanceof ShapeError ? cause.message : 'is not an envelope';
    throw makeUndecodableError(`${operation}: the answer ${what}`, operation);
  }

  if (envelope.messageCode === 'OK') return envelope.result ?? null;

  const words = envelope.message == null ? 'without a message' : quote(envelope.message);
  throw new WarehouseError('nok', `${operation}: NOK: ${words}`, { outcome: 'refused', operation });
}
