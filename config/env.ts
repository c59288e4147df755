import { z } from 'zod';
import {
  adminTokenSchema,
  basePathSchema,
  findAdminProblems,
  headerNameSchema,
  trustedProxiesSchema,
} from './admin.ts';
import { ConfigError } from './config-error.ts';
import {
  baseUrlSchema,
  clientSetProblems,
  defaultTimeZone,
  readClientsFile,
  readOperationsFile,
  readSecretFile,
  reasonOf,
  timeZoneSchema,
  type WarehouseClient,
} from './files.ts';
import { defaultSchedules, type JobName, jobNames, pushJob, scheduleVariable } from './jobs.ts';
import { type Operations, operations } from './operations.ts';
import { parseSchedule, type Schedule } from './schedules.ts';
import { databaseUrl, proxyUrl, redisUrl, share, span, whole, yesNo } from './values.ts';

/** Every variable but SCHEDULE_<JOB> and the NAME_FILE forms. Units are in the names. */
const variables = z.object({
  DATABASE_URL: databaseUrl.optional(),
  REDIS_URL: redisUrl.optional(),
  WAREHOUSE_BASE_URL: baseUrlSchema.optional(),
  WAREHOUSE_USERNAME: z.string().optional(),
  WAREHOUSE_PASSWORD: z.string().optional(),
  WAREHOUSE_TIME_ZONE: timeZoneSchema.default(defaultTimeZone),
  WAREHOUSE_CLIENTS_FILE: z.string().optional(),
  WAREHOUSE_OPERATIONS_FILE: z.string().optional(),
  LOOKBACK_DAYS: whole(0, 365).default(7),
  HTTP_TIMEOUT_MS: whole(100, 600_000).default(30_000),
  REQUESTS_PER_SECOND: whole(1, 10_000).optional(),
  PUSH_CONCURRENCY: whole(1, 256).default(8),
  PUSH_MAX_ATTEMPTS: whole(1, 1_000).default(25),
  PUSH_MAX_AGE: span.default(3 * 86_400_000),
  QUARANTINE_MAX_SHARE: share.default(0.2),
  RETENTION_DAYS: whole(1, 3_650).default(90),
  ADMIN_HOST: z.string().default('127.0.0.1'),
  ADMIN_PORT: whole(0, 65_535).default(8080),
  ADMIN_TOKEN: adminTokenSchema.optional(),
  ADMIN_VIEWER_TOKEN: adminTokenSchema.optional(),
  ADMIN_BASE_PATH: basePathSchema.default(''),
  ADMIN_TRUSTED_PROXIES: trustedProxiesSchema.optional(),
  ADMIN_USER_HEADER: headerNameSchema.optional(),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  LOG_PRETTY: yesNo.optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url().optional(),
  HTTP_PROXY: proxyUrl.optional(),
  HTTPS_PROXY: proxyUrl.optional(),
  NO_PROXY: z.string().optional(),
});

export const variableNames = Object.keys(variables.shape) as (keyof typeof variables.shape)[];

/** Variables that name proxies, for requests to the service and to the collector of traces. */
const proxyNames = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'] as const;

/** Variables whose value may stand in a file instead, named by NAME_FILE. */
export const secretNames = [
  'DATABASE_URL',
  'REDIS_URL',
  'WAREHOUSE_PASSWORD',
  'ADMIN_TOKEN',
  'ADMIN_VIEWER_TOKEN',
] as const;

export type Config = z.infer<typeof variables> & {
  readonly clients: readonly WarehouseClient[];
  readonly operations: Operations;
  readonly schedules: Readonly<Record<JobName, Schedule>>;
  /** How often it is looked for outbox rows where no notification came; null: nothing is pushed. */
  readonly pushSweepMs: number | null;
};

/** What a command cannot do without. */
export interface ConfigNeeds {
  readonly database: boolean;
  readonly clients: boolean;
}

/**
 * Reads and checks the whole environment; an empty value counts as unset.
 * @throws ConfigError with every problem at once
 */
export function readConfig(needs: ConfigNeeds, source: NodeJS.ProcessEnv = process.env): Config {
  const problems: string[] = [];
  const env = withSecretFiles(source, problems);
  const result = variables.safeParse(env);
  if (!result.success) {
    for (const issue of result.error.issues) problems.push(`${issue.path.join('.')}: ${issue.message}`);
  }
  const { schedules, pushSweepMs } = readSchedules(env, problems);
  const path = env.WAREHOUSE_OPERATIONS_FILE;
  const merged = path === undefined ? operations : readOperationsFile(path, problems);
  const clients = readClients(env, result.success ? result.data : undefined, needs, problems);
  if (needs.database && env.DATABASE_URL === undefined) {
    problems.push('DATABASE_URL: is required, for example postgres://user:password@localhost:5432/erp');
  }
  if (env.ADMIN_TOKEN === undefined && !isLoopback(env.ADMIN_HOST ?? '127.0.0.1')) {
    problems.push('ADMIN_HOST: binds beyond this machine only with ADMIN_TOKEN set; set it, or use 127.0.0.1');
  }
  problems.push(...findAdminProblems(env));
  if (env.NODE_TLS_REJECT_UNAUTHORIZED === '0') {
    problems.push(
      'NODE_TLS_REJECT_UNAUTHORIZED: 0 switches off every check of certificates; unset it, and name the file of your own ' +
        'authority in NODE_EXTRA_CA_CERTS',
    );
  }
  if (problems.length > 0 || !result.success) throw new ConfigError(problems);
  return { ...result.data, clients, operations: merged, schedules, pushSweepMs };
}

/** True where only this machine can reach an address bound to `host`. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

function withSecretFiles(source: NodeJS.ProcessEnv, problems: string[]): Record<string, string | undefined> {
  const env = Object.fromEntries(Object.entries(source).filter(([, value]) => value !== ''));
  // Other programs accept these in lower case, too, and then prefer them.
  for (const name of proxyNames) env[name] = env[name.toLowerCase()] ?? env[name];
  for (const name of secretNames) {
    const path = env[`${name}_FILE`];
    if (path === undefined) continue;
    if (env[name] !== undefined) {
      problems.push(`${name}: is set together with ${name}_FILE; keep one`);
      continue;
    }
    try {
      env[name] = readSecretFile(path);
    } catch (error) {
      problems.push(`${name}_FILE: ${path} cannot be read: ${reasonOf(error)}`);
    }
  }
  return env;
}

function readSchedules(
  env: Record<string, string | undefined>,
  problems: string[],
): Pick<Config, 'schedules' | 'pushSweepMs'> {
  const names = [...jobNames, pushJob.name];
  const known = new Map<string, string>(names.map((job) => [scheduleVariable(job), job]));
  for (const name of Object.keys(env)) {
    if (!name.startsWith('SCHEDULE_') || known.has(name)) continue;
    problems.push(`${name}: there is no such job; known are ${[...known.keys()].join(', ')}`);
  }
  const read = (job: string, fallback: string): Schedule => {
    try {
      return parseSchedule(env[scheduleVariable(job)] ?? fallback);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      problems.push(`${scheduleVariable(job)}: ${error.message}`);
      return { kind: 'off' };
    }
  };
  const schedules = Object.fromEntries(jobNames.map((job) => [job, read(job, defaultSchedules[job])]));
  const push = read(pushJob.name, pushJob.sweep);
  if (push.kind !== 'every' && push.kind !== 'off')
    problems.push(
      `${scheduleVariable(pushJob.name)}: must be a span such as 15s, or off: rows are pushed as they come`,
    );
  const pushSweepMs = push.kind === 'every' ? push.everyMs : null;
  return { schedules: schedules as Record<JobName, Schedule>, pushSweepMs };
}

function readClients(
  env: Record<string, string | undefined>,
  data: z.infer<typeof variables> | undefined,
  needs: ConfigNeeds,
  problems: string[],
): readonly WarehouseClient[] {
  const single = ['WAREHOUSE_BASE_URL', 'WAREHOUSE_USERNAME', 'WAREHOUSE_PASSWORD'] as const;
  const given = single.filter((name) => env[name] !== undefined);
  const file = env.WAREHOUSE_CLIENTS_FILE;
  if (file !== undefined) {
    const both = env.WAREHOUSE_TIME_ZONE === undefined ? given : [...given, 'WAREHOUSE_TIME_ZONE'];
    if (both.length > 0) {
      problems.push(`WAREHOUSE_CLIENTS_FILE: is set together with ${both.join(', ')}; keep one form`);
    }
    const clients = readClientsFile(file, problems);
    problems.push(...clientSetProblems(clients));
    return clients;
  }
  if (given.length === 0) {
    if (needs.clients)
      problems.push('WAREHOUSE_BASE_URL: is required with username and password, or WAREHOUSE_CLIENTS_FILE');
    return [];
  }
  for (const name of single)
    if (env[name] === undefined) problems.push(`${name}: is required beside ${given.join(', ')}`);
  const { WAREHOUSE_BASE_URL: baseUrl, WAREHOUSE_USERNAME: username, WAREHOUSE_PASSWORD: password } = data ?? {};
  if (!data || !baseUrl || !username || !password) return [];
  return [{ key: 'default', baseUrl, username, password, timeZone: data.WAREHOUSE_TIME_ZONE }];
}

/** Variables that are set and are ours by their name, also those that do not exist: a slip of the pen has no effect. */
export function namesSet(source: NodeJS.ProcessEnv = process.env): string[] {
  const ours = new Set<string>([...variableNames, ...secretNames.map((name) => `${name}_FILE`)]);
  const isOurs = (name: string) => ours.has(name) || /^(WAREHOUSE|SCHEDULE|PUSH|QUARANTINE|RETENTION)_/.test(name);
  return Object.keys(source).filter((name) => source[name] !== '' && isOurs(name));
}

/** The environment without any setting of this product, for a process that must not inherit what someone configured. */
export function environmentWithoutSettings(source: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  const ours = new Set<string>([...variableNames, ...secretNames.map((name) => `${name}_FILE`)]);
  return Object.fromEntries(
    Object.entries(source).filter(([name]) => !ours.has(name) && !name.startsWith('SCHEDULE_')),
  );
}
