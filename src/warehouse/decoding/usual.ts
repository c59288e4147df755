import { z } from 'zod';

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
