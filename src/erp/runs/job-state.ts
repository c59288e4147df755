import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';
import type { ClientAccount } from './clients.ts';
import { pausedSince, resumeHint } from './pauses.ts';

/** The state of a job of a client before a run begins. */
export interface JobState {
  /** Present time by the clock of schedules. */
  readonly now: Date;
  readonly startedAt: Date;
  /** Null if the job is not scheduled or has no row yet. */
  readonly dueAt: Date | null;
  readonly pausedSince: Date | null;
  readonly pausedForAll: boolean;
  /** True if the account that asks is the accepted account of the client. */
  readonly identityFits: boolean;
  readonly acceptedBaseUrl: string;
  /** True if the client is on hold. */
  readonly isHeld: boolean;
  /** True if the lease of the job has expired: its worker was lost. */
  readonly isAbandoned: boolean;
  /** True if the job has a row in sync.jobs. */
  readonly isPlanned: boolean;
}

/** A job of a client, and the account of the process that wants to run it. */
export interface AccountJob extends ClientAccount {
  readonly job: string;
}

/** Reads the state of a job of a client. Returns null if the client is not registered. */
export async function readJobState(db: Kysely<DB>, { client, job, identity }: AccountJob): Promise<JobState | null> {
  const state = await db
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
  return state ?? null;
}

/** Why a run of a job must not begin. */
export interface StartRefusal {
  readonly reason: 'paused' | 'identity';
  /** The reason in words, with what to do. */
  readonly because: string;
}

/** Returns why a run must not begin in this state; null if it may begin. */
export function findRefusal({ client, job }: AccountJob, state: JobState): StartRefusal | null {
  if (!state.identityFits) {
    const because =
      `the client is parked: its rows come from another account, at ${state.acceptedBaseUrl}; ` +
      `if the new account is right, accept it: fulfilment-sync client accept-identity ${client}`;
    return { reason: 'identity', because };
  }
  if (state.pausedSince === null) return null;
  const hint = resumeHint({ job, client: state.pausedForAll ? null : client });
  return { reason: 'paused', because: `paused since ${state.pausedSince.toISOString()}; resume with: ${hint}` };
}
