import type { Config } from '../../../config/env.ts';
import { takeRequests } from '../../erp/runs/request-budgets.ts';
import { makeLocalQuotas, RequestBudget } from '../../warehouse/transport/request-budget.ts';
import type { Logger } from '../logging/logger.ts';
import { connectForWriting, type OpenDatabase } from './database.ts';

/** Timeout of taking a share, in milliseconds. If the database does not answer in time, waiting requests fail. */
const takeTimeoutMs = 5_000;

/** The request budgets of this process. */
export interface RequestBudgets {
  /** Returns the budget of an account; undefined if REQUESTS_PER_SECOND is not set. */
  readonly open: (identity: string) => RequestBudget | undefined;
  readonly close: () => Promise<void>;
}

/**
 * Opens the budgets that this process shares with all others of the database. Their statements have a connection of
 * their own, which opens with the first request. Without DATABASE_URL (`verify`), or before the first `migrate`
 * (`doctor`), this process keeps the limit by itself.
 */
export function openRequestBudgets(
  { REQUESTS_PER_SECOND: perSecond, DATABASE_URL: databaseUrl }: Config,
  log: Logger,
): RequestBudgets {
  let database: OpenDatabase | undefined;
  const budgets = new Map<string, RequestBudget>();
  const create = (identity: string, limit: number) => {
    const local = makeLocalQuotas(limit);
    const take = async (wanted: number) => {
      if (databaseUrl === undefined) return local(wanted);
      database ??= connectForWriting(databaseUrl, log, 'budgets', 1, takeTimeoutMs);
      try {
        return await takeRequests(database.db, { identity, perSecond: limit }, wanted);
      } catch (error) {
        if (isTableMissing(error)) return local(wanted);
        throw error;
      }
    };
    const budget = new RequestBudget(limit, take);
    budgets.set(identity, budget);
    return budget;
  };
  const open = (identity: string) =>
    perSecond === undefined ? undefined : (budgets.get(identity) ?? create(identity, perSecond));
  const close = async () => {
    for (const budget of budgets.values()) budget.close();
    await database?.close();
  };
  return { open, close };
}

/** Returns true if the database was not migrated. A worker does not start then. */
const isTableMissing = (error: unknown) => error instanceof Error && 'code' in error && error.code === '42P01';
