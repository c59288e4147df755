import { sql } from 'kysely';

/** SQL for a comparison with any of these ids: one parameter, so that one prepared plan serves lists of every length. */
export const anyId = (ids: readonly number[]) => sql<number>`any(${ids}::bigint[])`;

/** SQL for a comparison with any of these texts, as one parameter. */
export const anyText = (texts: readonly string[]) => sql<string>`any(${texts}::text[])`;
