/**
 * Opens the service of every client over one set of connections. One request at a time is sent on a
 * connection.
 */

import type { Config } from '../../config/env.ts';
import { toIdentity, type WarehouseClient } from '../../config/files.ts';
import { type Logger, silentLogger } from '../core/logger.ts';
import { connectForWriting, type OpenDatabase, toAddress } from '../db/connect.ts';
import { Warehouse } from './client.ts';
import { type RequestLimit, takeRequests } from './sql/request-budgets.ts';
import { openDispatcher } from './transport/dispatcher.ts';
import type { Exchange } from './transport/http.ts';
import { makeLocalQuotas, RequestBudget, type TakeQuota } from './transport/request-budget.ts';

/**
 * Timeout of taking a quota, in milliseconds. If the database does not answer in time, waiting
 * requests fail.
 */
const takeTimeoutMs = 5_000;

/**
 * Opens the budgets that this process shares with all others of the database. Their statements have
 * a connection of their own, which opens with the first request. Without DATABASE_URL (`verify`,
 * `doctor`), this process keeps the limit by itself.
 */
function openRequestBudgets(config: Config, log: Logger) {
  const { REQUESTS_PER_SECOND: perSecond } = config;
  const budgets = new Map<string, RequestBudget>();

  let database: OpenDatabase | undefined;
  const connect = () => {
    database ??= connectForWriting(toAddress(config), log, {
      name: 'budgets',
      max: 1,
      queryTimeoutMs: takeTimeoutMs,
    });
    return database.db;
  };

  const makeQuotas = (limit: RequestLimit): TakeQuota =>
    config.DATABASE_URL === undefined
      ? makeLocalQuotas(limit.perSecond)
      : (wanted) => takeRequests(connect(), limit, wanted);

  /** Returns the budget of an account; undefined if REQUESTS_PER_SECOND is not set. */
  const open = (identity: string) => {
    if (perSecond === undefined) return undefined;

    const known = budgets.get(identity);
    if (known !== undefined) return known;

    const budget = new RequestBudget(perSecond, makeQuotas({ identity, perSecond }));
    budgets.set(identity, budget);
    return budget;
  };

  const close = async () => {
    for (const budget of budgets.values()) budget.close();
    await database?.close();
  };

  return { open, close };
}

/**
 * Maximum bytes of one answer. A page of 100 shipments has about 200 KB, a list of 100,000 parcels
 * about 30 MB.
 */
const maxResponseBytes = 64 * 1024 * 1024;

/** What the services of all clients are opened with. */
interface WarehousesOptions {
  /** Receives every request with its outcome. */
  readonly onExchange?: (client: string, exchange: Exchange) => void;
  readonly log?: Logger;
}

/** Opens the service of every configured client. Returns them by the keys of the clients. */
export function openWarehouses(
  config: Config,
  { onExchange, log = silentLogger }: WarehousesOptions = {},
) {
  const { options, budgets, close } = openTransport(config, log);

  const open = (client: WarehouseClient) => {
    const observer = onExchange && {
      onExchange: (exchange: Exchange) => onExchange(client.key, exchange),
    };
    const budget = budgets.open(toIdentity(client));
    return new Warehouse(client, { ...options, budget, ...observer });
  };

  const warehouses: ReadonlyMap<string, Warehouse> = new Map(
    config.clients.map((one) => [one.key, open(one)]),
  );
  return { warehouses, close };
}

/**
 * Opens what the requests of all clients share. `close` lets requests fail that wait or are under
 * way.
 */
function openTransport(config: Config, log: Logger) {
  const dispatcher = openDispatcher(config, maxResponseBytes);
  const budgets = openRequestBudgets(config, log);
  const { operations, HTTP_TIMEOUT_MS: timeoutMs } = config;
  const close = async () => {
    await Promise.all([budgets.close(), dispatcher.destroy()]);
  };
  return { options: { operations, dispatcher, timeoutMs }, budgets, close };
}
