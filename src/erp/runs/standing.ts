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
  const { rows } = await sql<Standing>`
    select sync.clock() as now, now() as "startedAt", case when isfinite(j.due_at) then j.due_at end as "dueAt",
      ${pausedSince(sql`c.client`, job)} as "pausedSince",
      exists (select from sync.pauses p where p.client = '' and p.job = ${job}) as "pausedForAll",
      c.identity = ${identity} as "identityFits", c.base_url as "acceptedBaseUrl", c.hold_code is not null as "isHeld",
      coalesce(l.expires_at <= clock_timestamp(), false) as "isAbandoned", j.job is not null as "isPlanned"
    from sync.clients c left join sync.jobs j on j.client = c.client and j.job = ${job}
    left join sync.leases l on l.client = c.client and l.name = ${job}
    where c.client = ${client}`.execute(db);
  return rows[0] ?? null;
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
