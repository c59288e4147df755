import { sql } from 'kysely';

/**
 * Returns SQL for a comparison with any of these ids. It is one parameter: one prepared plan serves lists of any
 * length.
 */
export const anyId = (ids: readonly number[]) => sql<number>`any(${ids}::bigint[])`;

/** Returns SQL for a comparison with any of these texts, as one parameter. */
export const anyText = (texts: readonly string[]) => sql<string>`any(${texts}::text[])`;
