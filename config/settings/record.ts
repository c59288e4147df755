import { createHash } from 'node:crypto';
import { type Config, variableNames } from '../env.ts';
import { toIdentity } from '../files.ts';
import { jobNames, pushJob } from '../jobs.ts';
import { writeSchedule, writeSpan } from '../schedules.ts';

/** Settings that a running worker takes over, besides clients and schedules. No value is secret. */
export const reloadedNames = [
  'REQUESTS_PER_SECOND',
  'LOOKBACK_DAYS',
  'RETENTION_DAYS',
  'PERSONAL_DATA_DAYS',
  'PUSH_CONCURRENCY',
  'PUSH_MAX_ATTEMPTS',
  'PUSH_MAX_AGE',
] as const satisfies readonly (keyof Config)[];

/** Variables whose values show up as clients or schedules, or that only say where other values are. */
const indirectNames: readonly string[] = [
  'SETTINGS_FILE',
  'WAREHOUSE_BASE_URL',
  'WAREHOUSE_USERNAME',
  'WAREHOUSE_PASSWORD',
  'WAREHOUSE_TIME_ZONE',
  'WAREHOUSE_CLIENTS_FILE',
  'WAREHOUSE_OPERATIONS_FILE',
];

/** What is recorded of a client. */
export interface ClientRecord {
  /** Fingerprint of base URL and user name. */
  readonly account: string;
  readonly timeZone: string;
  /** Check value of the password. */
  readonly password: string;
}

/** The settings that a process uses, without secrets: to compare them with those of another process or of later files. */
export interface SettingsRecord {
  readonly clients: Readonly<Record<string, ClientRecord>>;
  /** The schedule of each job. */
  readonly schedules: Readonly<Record<string, string>>;
  /** Values of `reloadedNames`. */
  readonly values: Readonly<Record<string, string>>;
  /** Check values of the settings that only a restart changes. */
  readonly fixed: Readonly<Record<string, string>>;
  /** Names of the settings that the environment holds. */
  readonly environment: readonly string[];
}

/**
 * Makes the record of settings. Only records of the same form can be compared, and only one that is `stored` may leave
 * this process.
 */
export function toSettingsRecord(config: Config, form: keyof typeof digits): SettingsRecord {
  const clients = config.clients.map((client) => {
    const { key, timeZone, password } = client;
    return [
      key,
      { account: toIdentity(client), timeZone, password: toCheckValue('password', password, form) },
    ] as const;
  });
  const push = config.pushSweepMs === null ? 'off' : writeSpan(config.pushSweepMs);
  const schedules = jobNames.map((job) => [job, writeSchedule(config.schedules[job])] as const);
  const taken = new Set<string>([...reloadedNames, ...indirectNames]);
  const fixed = variableNames
    .filter((name) => !taken.has(name))
    .map((name) => [name, toFixedValue(config, name, form)]);
  return {
    clients: Object.fromEntries(clients),
    schedules: { ...Object.fromEntries(schedules), [pushJob.name]: push },
    values: Object.fromEntries(reloadedNames.map((name) => [name, writeValue(name, config[name])])),
    fixed: {
      ...Object.fromEntries(fixed),
      WAREHOUSE_OPERATIONS_FILE: toCheckValue('operations', JSON.stringify(config.operations), form),
    },
    environment: config.fixedNames,
  };
}

/** Returns the check value of a setting after defaults. What was parsed to a function is compared as it was given. */
function toFixedValue(config: Config, name: (typeof variableNames)[number], form: keyof typeof digits): string {
  const value = config[name];
  const isPlain = ['string', 'number', 'boolean'].includes(typeof value);
  const text = isPlain ? String(value) : (config.given[name] ?? '');
  return toCheckValue(name, text, form);
}

const writeValue = (name: (typeof reloadedNames)[number], value: number | undefined) =>
  value === undefined ? 'unset' : name === 'PUSH_MAX_AGE' ? writeSpan(value) : String(value);

/**
 * The number of hexadecimal digits of the check values in a record. `stored`: 16 bits, for the database: they differ if the
 * value differs (but for one case in 65,536), and are too short to find a password by trying, because each 65,536th word
 * fits. `exact`: for comparisons in memory.
 */
const digits = { stored: 4, exact: 64 } as const;

function toCheckValue(name: string, value: string, form: keyof typeof digits): string {
  return createHash('sha256')
    .update(JSON.stringify([name, value]))
    .digest('hex')
    .slice(0, digits[form]);
}
