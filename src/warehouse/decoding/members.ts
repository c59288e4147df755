import { z } from 'zod';
import { toWholeNumber } from '../../core/json.ts';
import { readDate } from '../../core/time.ts';

/**
 * Returns a schema that reads usual values by one function. All other values are left to `schema`, which also says what
 * is wrong with them. A page holds thousands of members, and nearly all of them are usual.
 * @param read returns undefined for a value that is not usual
 */
export function readUsual<T>(schema: z.ZodType<T>, read: (value: unknown) => T | undefined) {
  return z
    .unknown()
    .optional()
    .transform((value, context): T => {
      const usual = read(value);
      if (usual !== undefined) return usual;
      const result = schema.safeParse(value);
      if (result.success) return result.data;
      for (const { path, message } of result.error.issues)
        context.addIssue({ code: 'custom', path: [...path], message });
      return z.NEVER;
    });
}

export const isMissing = (value: unknown) => value === undefined || value === null;

export const text = readUsual(
  z
    .string()
    .nullish()
    .transform((value) => value ?? null),
  (value) => (typeof value === 'string' ? value : isMissing(value) ? null : undefined),
);
export const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? null);
/** A whole number that fits into Postgres' integer. */
export const count = readUsual(
  z
    .preprocess(toWholeNumber, z.int().min(-2_147_483_648).max(2_147_483_647).nullish())
    .transform((value) => value ?? null),
  (value) =>
    Number.isInteger(value) && Math.abs(Number(value)) < 2 ** 31 ? Number(value) : isMissing(value) ? null : undefined,
);
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
    .unknown()
    .optional()
    .transform((value, context) => {
      if (value === null || value === undefined) return null;
      if (typeof value !== 'string') {
        context.addIssue({ code: 'invalid_type', expected: 'string', input: value });
        return z.NEVER;
      }
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
