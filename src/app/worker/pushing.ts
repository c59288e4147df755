import type { Config } from '../../../config/env.ts';
import { identityOf } from '../../../config/files.ts';
import { changeInWords } from '../../core/database-mark.ts';
import type { HoldCode } from '../../core/push-health.ts';
import type { PushDatabase } from '../../erp/outbox/push-database.ts';
import type { PushEvents } from '../../sync/push/client-pusher.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { SettingCodes } from '../../sync/push/payload/setting-codes.ts';
import { Pusher } from '../../sync/push/pusher.ts';
import { RecentSends } from '../../sync/push/recent-sends.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import { connectForWriting, type OpenDatabase } from '../deps/database.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { repeatedWarnings } from '../logging/repeated.ts';

/** Connections for claims and settlements, apart from those of the pulls. */
const pushPoolSize = 6;
const heartbeatTimeoutMs = 5_000;

export interface PushingOptions {
  readonly config: Config;
  readonly databaseUrl: string;
  readonly warehouses: ReadonlyMap<string, Warehouse>;
  readonly worker: string;
  readonly log: Logger;
  /** Restricts it to one client. */
  readonly only?: string;
  /** Told of every outcome, beside the log. */
  readonly onSettled?: PushEvents['onSettled'];
}

/** Connections of a pusher: one pool for claims and settlements, and one that only keeps claims alive. */
export interface PushConnections {
  readonly main: OpenDatabase;
  readonly claims: OpenDatabase;
}

/** Opens the connections of a pusher. */
export const openPushConnections = (databaseUrl: string, log: Logger): PushConnections => ({
  main: connectForWriting(databaseUrl, log, 'push', pushPoolSize),
  claims: connectForWriting(databaseUrl, log, 'claims', 1, heartbeatTimeoutMs),
});

/** Opens everything that pushing needs. It begins when the pusher is started. `close` closes the connections, too. */
export function openPusher(
  options: PushingOptions,
  { main, claims }: PushConnections = openPushConnections(options.databaseUrl, options.log),
): { pusher: Pusher; close: () => Promise<void> } {
  const { config, warehouses, worker, log, only } = options;
  const kinds = new Map(outboxKinds.map((kind) => [kind.name, kind]));
  const sent = new RecentSends(config.PUSH_CONCURRENCY * config.clients.length);
  const clients = config.clients.flatMap((client) => {
    const { key, timeZone } = client;
    const warehouse = warehouses.get(key)?.withoutRetries();
    if (warehouse === undefined || (only !== undefined && key !== only)) return [];
    const identity = identityOf(client);
    const codes = new SettingCodes(main.db, { client: key, identity }, warehouse);
    return [
      {
        client: key,
        identity,
        zone: timeZone,
        db: main.db,
        warehouse,
        codes,
        kinds,
        proven: new Set<string>(),
        operations: config.operations,
        policy: { maxAttempts: config.PUSH_MAX_ATTEMPTS, maxAgeMs: config.PUSH_MAX_AGE },
        timeoutMs: config.HTTP_TIMEOUT_MS,
        worker,
        sent,
      },
    ];
  });
  const pusher = new Pusher({
    db: main.db,
    claimsDb: claims.db,
    worker,
    clients,
    kinds: outboxKinds,
    slots: config.PUSH_CONCURRENCY,
    sweepMs: config.pushSweepMs ?? 15_000,
    sent,
    events: pushLog(log, options.onSettled),
  });
  return { pusher, close: async () => void (await Promise.all([main.close(), claims.close()])) };
}

/** One line per outcome, by its code: the words of a service may quote whom an order is for. They stand in the row. */
function pushLog(log: Logger, alsoTell?: PushEvents['onSettled']) {
  const warn = repeatedWarnings(log);
  // An ERP may write anything into a row.
  const known = new Set(outboxKinds.map(({ name }) => name));
  const named = (kind: string) => (known.has(kind) ? kind : 'unknown');
  const onSettled: PushEvents['onSettled'] = (settlement, kind) => {
    alsoTell?.(settlement, kind);
    const { id, client, step, status, durationMs, errorCode, delayMs } = settlement;
    const fields = { event: `push_${status}`, client, outbox: id, kind: named(kind), step, durationMs };
    const problem = errorCode === null ? {} : { code: errorCode };
    if (status === 'done') log.info(fields);
    else if (status === 'dead' || (status === 'unknown' && delayMs === null)) log.error({ ...fields, ...problem });
    else if (step === 'sent') log.warn({ ...fields, ...problem, delayMs });
    else log.debug({ ...fields, ...problem, delayMs });
  };
  return {
    onSettled,
    onHold: (client: string, kind: string, code: HoldCode, ms: number) => {
      const what = kind === '' ? {} : { kind: named(kind) };
      const error = `${kind === '' ? 'no rows of this client' : 'no rows of this kind'} are sent for now; status says why`;
      warn({ event: 'push_held', client, ...what, code, delayMs: Math.round(ms), error });
    },
    onError: (task: string, error: unknown) =>
      warn({ event: `push_${task.replaceAll(' ', '_')}_failed`, ...errorFields(error) }),
    onTakenOver: ({ id, client, kind, became }: { id: number; client: string; kind: string; became: string }) =>
      log.warn({ event: 'push_taken_over', client, outbox: id, kind: named(kind), became }),
    onDatabase: (database: PushDatabase) => logDatabase(database, log),
    onBuried: (rows: number) => log.error({ event: 'push_unknown_client', rows }),
  };
}

function logDatabase({ change, acceptedAs }: PushDatabase, log: Logger): void {
  if (change !== 'none') {
    const error = `nothing is sent: ${changeInWords[change]}; say what it is: database accept --as moved, restored or copy (docs/backup.md)`;
    log.error({ event: 'database_changed', code: 'database_changed', error });
  } else if (acceptedAs === 'copy') log.warn({ event: 'database_is_copy' });
  else log.info({ event: 'database_accepted' });
}
