/**
 * Sets up pushing in a process. Pushing has its own connections, so pulls never delay it.
 */

import type { Config } from '../../../config/env.ts';
import { toIdentity } from '../../../config/files.ts';
import { describeHold } from '../../core/database-mark.ts';
import { errorFields, type Logger, throttleWarnings } from '../../core/logger.ts';
import { connectForWriting, type OpenDatabase } from '../../db/connect.ts';
import type { SchemaError } from '../../db/migration-files.ts';
import type { PushEvents } from '../../push/client-pusher.ts';
import { nameKinds, outboxKinds } from '../../push/kinds/registry.ts';
import { Pusher, type PusherOptions } from '../../push/pusher.ts';
import { type PushDeps, RecentSends } from '../../push/send-row.ts';
import { SettingCodes } from '../../push/setting-codes.ts';
import type { PushDatabase } from '../../push/sql/push-database.ts';
import type { Warehouse } from '../../service/client.ts';
import { ProvenRoutes } from '../../service/sql/proven-routes.ts';
import { clientScope } from '../../service/sql/service-health.ts';

/** Number of connections for claiming and settling. */
const pushPoolSize = 3;
const heartbeatTimeoutMs = 5_000;

/** The parts of a process that pushing uses. */
export interface PushSetup {
  readonly config: Config;
  /** The service of each client. */
  readonly warehouses: ReadonlyMap<string, Warehouse>;
  readonly databaseUrl: string;
  readonly worker: string;
  readonly log: Logger;
  readonly numberFeed: PushDeps['numberFeed'];
  /** Called with every outcome, in addition to the log. */
  readonly onSettled?: PushEvents['onSettled'];
  /** Called when the database was migrated beyond this code. */
  readonly onOutdated?: (error: SchemaError) => void;
}

/**
 * Connections of a pusher: a pool for claiming and settling, and a connection that only renews
 * claims.
 */
export interface PushConnections {
  readonly main: OpenDatabase;
  readonly claims: OpenDatabase;
}

/** Opens the connections of a pusher. */
export const openPushConnections = (databaseUrl: string, log: Logger): PushConnections => ({
  main: connectForWriting(databaseUrl, log, {
    name: 'push',
    max: pushPoolSize,
    prepares: true,
    findsSilence: true,
  }),
  claims: connectForWriting(databaseUrl, log, {
    name: 'claims',
    max: 1,
    queryTimeoutMs: heartbeatTimeoutMs,
  }),
});

/**
 * Creates a pusher with its connections. It does nothing before it is started. `close` closes the
 * connections.
 */
export function openPusher(
  options: PushSetup,
  { main, claims }: PushConnections = openPushConnections(options.databaseUrl, options.log),
) {
  const { config, worker, log, numberFeed } = options;
  const kinds = nameKinds(config.operations);
  const sent = new RecentSends(config.PUSH_CONCURRENCY * config.clients.length);

  const shared = {
    db: main.db,
    kinds,
    operations: config.operations,
    timeoutMs: config.HTTP_TIMEOUT_MS,
    worker,
    sent,
    numberFeed,
    policy: { maxAttempts: config.PUSH_MAX_ATTEMPTS, maxAgeMs: config.PUSH_MAX_AGE },
  };

  const pusher = new Pusher({
    db: main.db,
    claimsDb: claims.db,
    worker,
    kinds: [...kinds.values()],
    sent,
    isFenced: config.DATABASE_FAILOVER === 'fenced',
    events: {
      ...createPushLog(log, options.onSettled),
      onOutdated: (error) => options.onOutdated?.(error),
    },
    clients: createClientDeps(shared, options),
    numberFeed,
    slots: config.PUSH_CONCURRENCY,
  });

  return { pusher, close: async () => void (await Promise.all([main.close(), claims.close()])) };
}

/** Creates the parts of the pushes of each client. */
function createClientDeps(
  shared: Omit<PushDeps, 'client' | 'identity' | 'zone' | 'warehouse' | 'codes' | 'proven'>,
  { config, warehouses }: PushSetup,
): PushDeps[] {
  return config.clients.flatMap((client) => {
    const { key, timeZone: zone } = client;
    const warehouse = warehouses.get(key)?.withoutRetries();
    if (warehouse === undefined) return [];

    const identity = toIdentity(client);
    const codes = new SettingCodes(shared.db, { client: key, identity }, warehouse);
    const proven = new ProvenRoutes(shared.db, key);
    return [{ ...shared, client: key, identity, zone, warehouse, codes, proven }];
  });
}

/**
 * Creates the event handlers that log one line per outcome. A line has only the codes of an error:
 * its text, which is in the row, may quote the service and so name the recipient of an order.
 */
function createPushLog(
  log: Logger,
  onOutcome?: PushEvents['onSettled'],
): Omit<PusherOptions['events'], 'onOutdated'> {
  const warn = throttleWarnings(log);
  // The ERP may write any kind into a row, so an unknown kind is not logged.
  const known = new Set(outboxKinds.map(({ name }) => name));
  const toKindLabel = (kind: string) => (known.has(kind) ? kind : 'unknown');

  const onSettled: PushEvents['onSettled'] = (settlement, kind) => {
    onOutcome?.(settlement, kind);

    const { id, client, step, status, durationMs, delayMs } = settlement;
    const { errorCode, httpStatus, operation } = settlement;
    const fields = {
      event: `push_${status}`,
      client,
      outbox: id,
      kind: toKindLabel(kind),
      step,
      durationMs,
    };
    const problem = {
      ...(errorCode !== null && { code: errorCode }),
      ...(operation !== null && { operation }),
      ...(httpStatus !== null && { httpStatus }),
    };

    if (status === 'done') log.info(fields);
    else if (status === 'dead' || (status === 'unknown' && delayMs === null))
      log.error({ ...fields, ...problem });
    else if (step === 'sent') log.warn({ ...fields, ...problem, delayMs });
    else log.debug({ ...fields, ...problem, delayMs });
  };

  return {
    onSettled,
    onHold: (client, scope, { code, ms }) => {
      const isWhole = scope === clientScope;
      const label = isWhole ? {} : { kind: toKindLabel(scope) };
      const rows = isWhole ? 'rows of this client' : 'rows of this kind';
      const error = `${rows} are held; for the reason see: fulfilment-sync status`;
      warn({ event: 'push_held', client, ...label, code, delayMs: Math.round(ms), error });
    },
    onError: (task, error) =>
      warn({ event: `push_${task.replaceAll(' ', '_')}_failed`, ...errorFields(error) }),
    onTakenOver: ({ id, client, kind, became }) =>
      log.warn({ event: 'push_taken_over', client, outbox: id, kind: toKindLabel(kind), became }),
    onDatabase: (database) => logDatabase(database, log),
    // One line for many rows, without their clients: the ERP may have invented both.
    onMarkedDead: (rows) => {
      for (const [code, marked] of Map.groupBy(rows, (row) => row.code))
        log.error({ event: 'push_unsendable', code, rows: marked.length, outbox: marked[0]?.id });
    },
  };
}

/** Logs how the database compares with the one that rows were sent from before. */
function logDatabase(database: PushDatabase, log: Logger): void {
  const hold = describeHold(database);
  if (hold !== null && database.change !== 'none')
    log.error({ event: 'database_changed', code: 'database_changed', error: hold });
  else if (database.acceptedAs === 'copy') log.warn({ event: 'database_is_copy' });
  else if (hold !== null)
    log.warn({ event: 'database_place_unknown', code: 'database_changed', error: hold });
  else log.info({ event: 'database_accepted' });
}
