import { z } from 'zod';
import { toWholeNumber } from '../../core/json.ts';
import { readDate } from '../../core/time.ts';

export const text = z
  .string()
  .nullish()
  .transform((value) => value ?? null);
export const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? null);
/** A whole number that fits into Postgres' integer. */
export const count = z
  .preprocess(toWholeNumber, z.int().min(-2_147_483_648).max(2_147_483_647).nullish())
  .transform((value) => value ?? null);
export const date = convertedText(readDate);
/** An object whose members the client chooses, kept unchanged. */
export const metadata = z
  .record(z.string(), z.unknown())
  .nullish()
  .transform((value) => value ?? null);

/**
 * A text that `read` converts to a value for Postgres. If `read` throws a RangeError, its message is why it is
 * quarantined.
 */
export function convertedText(read: (value: string) => string) {
  return z
    .string()
    .nullish()
    .transform((value, context) => {
      if (value === null || value === undefined) return null;
      try {
        return read(value);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        context.addIssue({ code: 'custom', message: error.message });
        return z.NEVER;
      }
    });
}

/** The relationships of a resource. Absent and null both mean that none is known. */
export function relations<T extends z.core.$ZodLooseShape>(shape: T) {
  return z.preprocess((value) => value ?? {}, z.object(shape));
}
