import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';
import type { Own } from './clients.ts';
import { pausedSince, resumeHint } from './pauses.ts';

/** How a job of a client stands before it is begun. */
export interface Standing {
  /** By the clock of schedules. */
  readonly now: Date;
  readonly startedAt: Date;
  /** Null: not by itself, or it has no row yet. */
  readonly dueAt: Date | null;
  readonly pausedSince: Date | null;
  readonly pausedForAll: boolean;
  readonly identityFits: boolean;
  readonly acceptedBaseUrl: string;
  /** The client is held back. */
  readonly isHeld: boolean;
  /** Its lease ran out without being given back: its worker was lost. */
  readonly isAbandoned: boolean;
  /** It has a row of its own. */
  readonly isPlanned: boolean;
}

/** Whose job is asked after, by whom. */
export interface Asked extends Own {
  readonly job: string;
}

/** Reads how a job of a client stands; null where the client is not registered. */
export async function readStanding(db: Kysely<DB>, { client, job, identity }: Asked): Promise<Standing | null> {
  const standing = await db
    .selectFrom('sync.clients as c')
    .leftJoin('sync.jobs as j', (join) => join.onRef('j.client', '=', 'c.client').on('j.job', '=', job))
    .leftJoin('sync.leases as l', (join) => join.onRef('l.client', '=', 'c.client').on('l.name', '=', job))
    .select((eb) => [
      sql<Date>`sync.clock()`.as('now'),
      sql<Date>`now()`.as('startedAt'),
      sql<Date | null>`case when isfinite(j.due_at) then j.due_at end`.as('dueAt'),
      sql<Date | null>`${pausedSince(sql`c.client`, job)}`.as('pausedSince'),
      sql<boolean>`exists (select from sync.pauses p where p.client = '' and p.job = ${job})`.as('pausedForAll'),
      sql<boolean>`c.identity = ${identity}`.as('identityFits'),
      'c.base_url as acceptedBaseUrl',
      eb('c.hold_code', 'is not', null).$castTo<boolean>().as('isHeld'),
      sql<boolean>`coalesce(l.expires_at <= clock_timestamp(), false)`.as('isAbandoned'),
      eb('j.job', 'is not', null).$castTo<boolean>().as('isPlanned'),
    ])
    .where('c.client', '=', client)
    .executeTakeFirst();
  return standing ?? null;
}

/** Why a job must not be begun. */
export interface Refusal {
  readonly reason: 'paused' | 'identity';
  /** In words, with what to do. */
  readonly because: string;
}

/** Why it must not be begun, as it stands; null where nothing is against it. */
export function refusalOf({ client, job }: Asked, standing: Standing): Refusal | null {
  if (!standing.identityFits) {
    const because =
      `the client is parked: its rows come from ${standing.acceptedBaseUrl}, or another account there; ` +
      `if this one is meant: fulfilment-sync client accept-identity ${client}`;
    return { reason: 'identity', because };
  }
  if (standing.pausedSince === null) return null;
  const hint = resumeHint({ job, client: standing.pausedForAll ? null : client });
  return { reason: 'paused', because: `paused since ${standing.pausedSince.toISOString()}; go on with: ${hint}` };
}
