import { z } from 'zod';
import { wholeIfKept } from '../../core/json.ts';
import { readDate } from '../../core/time.ts';

export const text = z
  .string()
  .nullish()
  .transform((value) => value ?? null);
export const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? null);
/** A whole number that fits Postgres' integer. */
export const count = z
  .preprocess(wholeIfKept, z.int().min(-2_147_483_648).max(2_147_483_647).nullish())
  .transform((value) => value ?? null);
export const date = readable(readDate);
/** An object with members of the client's choice, kept as it is. */
export const metadata = z
  .record(z.string(), z.unknown())
  .nullish()
  .transform((value) => value ?? null);

/** A text that `read` turns into what Postgres takes; its RangeError becomes the reason of a quarantine row. */
export function readable(read: (value: string) => string) {
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

/** The relationships of a resource; absent and null are the same: none is known. */
export function relations<T extends z.core.$ZodLooseShape>(shape: T) {
  return z.preprocess((value) => value ?? {}, z.looseObject(shape));
}
