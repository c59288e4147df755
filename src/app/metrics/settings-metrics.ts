import { Gauge, type Registry } from 'prom-client';

/** The outcome of changed settings. */
interface SettingsOutcome {
  readonly loadedAt: Date;
  readonly refused: readonly string[];
  readonly restart: readonly string[];
}

/** Registers the metrics of the settings of this worker. */
export function registerSettingsMetrics(registry: Registry, read: () => SettingsOutcome): void {
  const gauge = (name: string, help: string, value: (outcome: SettingsOutcome) => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(value(read()));
      },
    });
  gauge('fulfilment_settings_refused', '1 while the changed files of settings are wrong; the former ones stay', (one) =>
    Number(one.refused.length > 0),
  );
  gauge('fulfilment_settings_need_restart', '1 if changed settings wait for a restart of this worker', (one) =>
    Number(one.restart.length > 0),
  );
  gauge(
    'fulfilment_settings_loaded_timestamp_seconds',
    'When this worker took over the settings that it uses',
    (one) => one.loadedAt.getTime() / 1_000,
  );
}
