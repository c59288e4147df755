import { z } from 'zod';
import { undecodableAnswer, WarehouseError } from '../../core/errors.ts';
import { type Json, parseExact, ShapeError } from '../../core/json.ts';
import { quote } from '../../core/quote.ts';

/** Answers of the oldest and v2 generations (interface.md, Conventions); unknown members are kept. */
const envelopeSchema = z.looseObject({
  messageCode: z.enum(['OK', 'NOK']),
  message: z.string().nullish(),
  result: z.custom<Json>().optional(),
});

/**
 * The `result` of an envelope.
 * @throws WarehouseError `nok` with the service's words where it answered NOK, `undecodable` where it is no envelope
 */
export function decodeEnvelope(operation: string, body: string): Json {
  let envelope: z.infer<typeof envelopeSchema>;
  try {
    envelope = envelopeSchema.parse(parseExact(body));
  } catch (cause) {
    if (!(cause instanceof SyntaxError || cause instanceof z.ZodError)) throw cause;
    const what = cause instanceof ShapeError ? cause.message : 'is no envelope';
    throw undecodableAnswer(`${operation}: the answer ${what}`);
  }
  if (envelope.messageCode === 'OK') return envelope.result ?? null;
  const words = envelope.message == null ? 'without a message' : quote(envelope.message);
  throw new WarehouseError('nok', `${operation}: NOK: ${words}`, { outcome: 'refused' });
}
