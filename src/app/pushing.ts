import type { Config } from '../../config/env.ts';
import { identityOf } from '../../config/files.ts';
import { outboxKinds } from '../../jobs/push-outbox.ts';
import type { HoldCode } from '../core/push-health.ts';
import type { PushEvents } from '../sync/push/client-pusher.ts';
import { Pusher } from '../sync/push/pusher.ts';
import { SettingCodes } from '../sync/push/setting-codes.ts';
import type { Warehouse } from '../warehouse/client.ts';
import { connectForWriting } from './deps/database.ts';
import { errorFields, type Logger } from './logging/logger.ts';
import { repeatedWarnings } from './repeated.ts';

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

/** Opens all that pushing needs; it begins when the pusher is started. */
export function openPusher(options: PushingOptions): { pusher: Pusher; close: () => Promise<void> } {
  const { config, databaseUrl, warehouses, worker, log, only } = options;
  const main = connectForWriting(databaseUrl, log, 'push', pushPoolSize);
  const claims = connectForWriting(databaseUrl, log, 'claims', 1, heartbeatTimeoutMs);
  const kinds = new Map(outboxKinds.map((kind) => [kind.name, kind]));
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
    onBuried: (rows: number) => log.error({ event: 'push_unknown_client', rows }),
  };
}
