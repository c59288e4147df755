import type { Config } from '../../../config/env.ts';
import { toIdentity, type WarehouseClient } from '../../../config/files.ts';
import type { PushDeps } from '../../sync/push/attempt.ts';
import { SettingCodes } from '../../sync/push/payload/setting-codes.ts';
import type { Warehouse } from '../../warehouse/client.ts';

/** The settings of pushing that may change, and the service of each client. */
export interface PushSettings {
  readonly config: Config;
  readonly warehouses: ReadonlyMap<string, Warehouse>;
}

/** The parts of a client's pushes, and what they were made from. */
interface MadeDeps {
  readonly from: readonly unknown[];
  readonly deps: PushDeps;
}

type SharedDeps = Pick<PushDeps, 'db' | 'kinds' | 'operations' | 'timeoutMs' | 'worker' | 'sent'>;

/** Makes the parts of each client's pushes. As long as nothing changes for a client, it returns the same object for it. */
export class PushDepsMaker {
  readonly #shared: SharedDeps;
  readonly #only: string | undefined;
  #made = new Map<string, MadeDeps>();

  /** @param only key of the only client to push for; undefined for all */
  constructor(shared: SharedDeps, only: string | undefined) {
    this.#shared = shared;
    this.#only = only;
  }

  make({ config, warehouses }: PushSettings): PushDeps[] {
    const { PUSH_MAX_ATTEMPTS: maxAttempts, PUSH_MAX_AGE: maxAgeMs } = config;
    const next = new Map<string, MadeDeps>();
    for (const client of config.clients) {
      const service = warehouses.get(client.key);
      if (service === undefined || (this.#only !== undefined && client.key !== this.#only)) continue;
      const from = [service, client.timeZone, maxAttempts, maxAgeMs];
      const present = this.#made.get(client.key);
      const isSame = present?.from.every((part, index) => part === from[index]) ?? false;
      next.set(
        client.key,
        present !== undefined && isSame
          ? present
          : { from, deps: this.#makeOne(client, service, { maxAttempts, maxAgeMs }) },
      );
    }
    this.#made = next;
    return [...next.values()].map(({ deps }) => deps);
  }

  #makeOne(client: WarehouseClient, service: Warehouse, policy: PushDeps['policy']): PushDeps {
    const { key, timeZone } = client;
    const warehouse = service.withoutRetries();
    const identity = toIdentity(client);
    const codes = new SettingCodes(this.#shared.db, { client: key, identity }, warehouse);
    return { ...this.#shared, client: key, identity, zone: timeZone, warehouse, codes, proven: new Set(), policy };
  }
}

/** Returns what a pusher does with these settings. */
export const toPusherSettings = (maker: PushDepsMaker, settings: PushSettings) => ({
  clients: maker.make(settings),
  slots: settings.config.PUSH_CONCURRENCY,
  sweepMs: settings.config.pushSweepMs ?? 15_000,
});
