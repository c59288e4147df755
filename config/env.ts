import { z } from 'zod';
import {
  adminTokenSchema,
  basePathSchema,
  findAdminProblems,
  headerNameSchema,
  publicUrlSchema,
  trustedProxiesSchema,
} from './admin.ts';
import { ConfigError, describeFileError, describeIssue } from './config-error.ts';
import { type EventSubscriber, readSubscribers } from './events.ts';
import {
  type ApiToken,
  baseUrlSchema,
  defaultTimeZone,
  listSecretFiles,
  readApiTokensFile,
  readClientsFile,
  readOperationsFile,
  timeZoneSchema,
  type WarehouseClient,
} from './files.ts';
import {
  defaultSchedules,
  type JobName,
  jobNames,
  polledStreams,
  pushJob,
  toScheduleVariable,
} from './jobs.ts';
import { type Operations, operations } from './operations.ts';
import { findProxyProblems } from './proxy.ts';
import { parseSchedule, type Schedule } from './schedules.ts';
import { findOpenAccess, type OpenAccess, readSecretFile } from './text-file.ts';
import { findTlsProblems } from './tls.ts';
import {
  databaseUrl,
  proxyUrl,
  redisUrl,
  span,
  webhookSecret,
  webhookUrl,
  wholeNumber,
  yesNo,
} from './values.ts';

/** All variables except SCHEDULE_<JOB> and the NAME_FILE forms. Units are in the names. */
const variables = z.object({
  DATABASE_URL: databaseUrl.optional(),
  DATABASE_DIRECT_URL: databaseUrl.optional(),
  DATABASE_FAILOVER: z.enum(['ask', 'fenced']).default('ask'),
  REDIS_URL: redisUrl.optional(),
  WAREHOUSE_BASE_URL: baseUrlSchema.optional(),
  WAREHOUSE_USERNAME: z.string().optional(),
  WAREHOUSE_PASSWORD: z.string().optional(),
  WAREHOUSE_TIME_ZONE: timeZoneSchema.default(defaultTimeZone),
  WAREHOUSE_CLIENTS_FILE: z.string().optional(),
  WAREHOUSE_OPERATIONS_FILE: z.string().optional(),
  LOOKBACK_DAYS: wholeNumber(0, 365).default(7),
  HTTP_TIMEOUT_MS: wholeNumber(100, 600_000).default(30_000),
  REQUESTS_PER_SECOND: wholeNumber(1, 10_000).optional(),
  PUSH_CONCURRENCY: wholeNumber(1, 256).default(8),
  PUSH_MAX_ATTEMPTS: wholeNumber(1, 1_000).default(25),
  PUSH_MAX_AGE: span.prefault('3d'),
  RETENTION_DAYS: wholeNumber(1, 3_650).default(90),
  MIRROR_DAYS: wholeNumber(130, 3_650).optional(),
  PERSONAL_DATA_DAYS: wholeNumber(1, 3_650).optional(),
  ADMIN_HOST: z.string().default('127.0.0.1'),
  ADMIN_PORT: wholeNumber(0, 65_535).default(8080),
  ADMIN_TOKEN: adminTokenSchema.optional(),
  ADMIN_VIEWER_TOKEN: adminTokenSchema.optional(),
  ADMIN_BASE_PATH: basePathSchema.prefault('/'),
  ADMIN_PUBLIC_URL: publicUrlSchema.optional(),
  ADMIN_TRUSTED_PROXIES: trustedProxiesSchema.optional(),
  ADMIN_USER_HEADER: headerNameSchema.optional(),
  API_HOST: z.string().default('127.0.0.1'),
  API_PORT: wholeNumber(0, 65_535).default(8070),
  API_TOKENS_FILE: z.string().optional(),
  ALERT_WEBHOOK_URL: webhookUrl.optional(),
  ALERT_WEBHOOK_SECRET: webhookSecret.optional(),
  EVENT_WEBHOOK_URL: webhookUrl.optional(),
  EVENT_WEBHOOK_SECRET: webhookSecret.optional(),
  EVENT_PERSONAL_DATA: yesNo.optional(),
  EVENT_SUBSCRIBERS_FILE: z.string().optional(),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  LOG_PRETTY: yesNo.optional(),
  HTTP_PROXY: proxyUrl.optional(),
  HTTPS_PROXY: proxyUrl.optional(),
  NO_PROXY: z.string().optional(),
});

export const variableNames = Object.keys(variables.shape) as (keyof typeof variables.shape)[];

/** Returns the default of a variable as one writes it; null if it has none. */
export function readDefault(name: (typeof variableNames)[number]): string | null {
  const { def } = variables.shape[name];
  return 'defaultValue' in def ? String(def.defaultValue) : null;
}

/** Variables that name proxies, for requests to the service. */
const proxyNames = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'] as const;

/** Variables whose value may come from a file instead. NAME_FILE holds the path of that file. */
export const secretNames = [
  'DATABASE_URL',
  'DATABASE_DIRECT_URL',
  'REDIS_URL',
  'WAREHOUSE_PASSWORD',
  'ADMIN_TOKEN',
  'ADMIN_VIEWER_TOKEN',
  'ALERT_WEBHOOK_URL',
  'ALERT_WEBHOOK_SECRET',
  'EVENT_WEBHOOK_URL',
  'EVENT_WEBHOOK_SECRET',
] as const;

/** Of these files, an empty one counts as unset. They switch a feature on, and guard nothing. */
const mayBeEmpty: readonly string[] = [
  'ALERT_WEBHOOK_URL',
  'ALERT_WEBHOOK_SECRET',
  'EVENT_WEBHOOK_URL',
  'EVENT_WEBHOOK_SECRET',
];

export type Config = z.infer<typeof variables> & {
  readonly clients: readonly WarehouseClient[];
  /** Tokens of the API; null: there is no API. */
  readonly apiTokens: readonly ApiToken[] | null;
  readonly operations: Operations;
  readonly subscribers: readonly EventSubscriber[];
  readonly schedules: Readonly<Record<JobName, Schedule>>;
  /**
   * Interval in which workers look for outbox rows without a notification, in milliseconds; null:
   * nothing is pushed.
   */
  readonly pushSweepMs: number | null;
};

/** The parts of the configuration that a command requires. */
export interface ConfigNeeds {
  readonly database: boolean;
  readonly clients: boolean;
}

/**
 * Reads and checks the whole environment. An empty value counts as unset.
 * @throws ConfigError with all problems
 */
export function readConfig(needs: ConfigNeeds, source: NodeJS.ProcessEnv = process.env): Config {
  const problems: string[] = [];
  const env = readSecretFiles(removeEmpty(source), problems);
  for (const name of variableNames)
    if (env[name]?.trim() === '')
      problems.push(`${name}: holds blanks only; give it a value, or leave it empty`);

  const result = variables.safeParse(env, { error: describeIssue });
  for (const { path, message } of result.error?.issues ?? [])
    problems.push(`${path.join('.')}: ${message}`);

  const { schedules, pushSweepMs } = readSchedules(env, problems);

  const file = env.WAREHOUSE_OPERATIONS_FILE;
  const merged = file === undefined ? operations : readOperationsFile(file, problems);
  const clients = readClients(env, result.data, needs.clients, problems);
  // Where a variable is wrong, the file is still checked, so that all problems are named at once.
  const { EVENT_SUBSCRIBERS_FILE } = env;
  const subscribers = readSubscribers(result.data ?? { EVENT_SUBSCRIBERS_FILE }, problems);

  if (needs.database && env.DATABASE_URL === undefined)
    problems.push(
      'DATABASE_URL: is required, for example postgres://user:password@localhost:5432/erp',
    );
  if (env.DATABASE_DIRECT_URL !== undefined && env.DATABASE_URL === undefined)
    problems.push('DATABASE_DIRECT_URL: is set without DATABASE_URL');

  for (const findProblems of [findAdminProblems, findTlsProblems, findProxyProblems])
    for (const problem of findProblems(env)) problems.push(problem);

  const tokensFile = env.API_TOKENS_FILE;
  const apiTokens =
    tokensFile === undefined ? null : readApiTokensFile(tokensFile, clients, problems);
  if (apiTokens === null && env.API_PORT !== undefined)
    problems.push(
      'API_PORT: requires API_TOKENS_FILE, ' +
        'because every request to the API needs a token (docs/api.md)',
    );

  if (problems.length > 0 || !result.success) throw new ConfigError(problems);

  return {
    ...result.data,
    clients,
    apiTokens,
    subscribers,
    operations: merged,
    schedules,
    pushSweepMs,
  };
}

/**
 * Finds secrets that were set and are not any more. A file that is being written, or that its
 * writer has emptied, looks like that; without its secret, pages would be open and posts unsigned.
 * @returns a problem for each; none if there is no former configuration
 */
export function findDroppedSecrets(former: Config, next: Config): string[] {
  const names = ['API_TOKENS_FILE', ...secretNames] as const;
  const dropped: string[] = names.filter(
    (name) => former[name] !== undefined && next[name] === undefined,
  );

  const hasSecret = (config: Config, wanted: string) =>
    config.subscribers.find(({ name }) => name === wanted)?.secret !== undefined;
  const unsigned = next.subscribers
    .filter(
      ({ name, secret }) => secret === undefined && name !== 'default' && hasSecret(former, name),
    )
    .map(({ name }) => `EVENT_SUBSCRIBERS_FILE: the secret of ${name}`);

  return [...dropped, ...unsigned].map(
    (name) =>
      `${name}: was set and is not any more, as in a half-written file; ` +
      'to unset it, restart the process',
  );
}

type Environment = Record<string, string | undefined>;

const removeEmpty = (source: NodeJS.ProcessEnv): Environment =>
  Object.fromEntries(Object.entries(source).filter(([, value]) => value !== ''));

function readSecretFiles(given: Environment, problems: string[]): Environment {
  const env = { ...given };
  // Other programs also accept these variables in lower case, and prefer that form.
  for (const name of proxyNames) env[name] = env[name.toLowerCase()] ?? env[name];

  for (const name of secretNames) {
    const path = env[`${name}_FILE`];
    if (path === undefined) continue;
    if (env[name] !== undefined) {
      problems.push(`${name}: is set together with ${name}_FILE; keep one`);
      continue;
    }
    try {
      env[name] = readSecretFile(path, { mayBeEmpty: mayBeEmpty.includes(name) }) || undefined;
    } catch (error) {
      problems.push(`${name}_FILE: ${path} cannot be read: ${describeFileError(error)}`);
    }
  }
  return env;
}

/** Variables that name a file, and whether it holds secrets. */
const fileVariables: readonly (readonly [name: string, isSecret: boolean])[] = [
  ...secretNames.map((name) => [`${name}_FILE`, true] as const),
  ['WAREHOUSE_CLIENTS_FILE', true],
  ['WAREHOUSE_OPERATIONS_FILE', false],
  ['API_TOKENS_FILE', true],
  ['EVENT_SUBSCRIBERS_FILE', true],
];

/** A file of the configuration that more users of this machine may use than should. */
export interface OpenFile {
  /** The variable that names the file, or `--env-file`. */
  readonly name: string;
  readonly path: string;
  readonly access: NonNullable<OpenAccess>;
}

/**
 * Finds the files of the configuration that every user of this machine may write, and those with
 * secrets that every user may read.
 * @param envFile the file of `--env-file`
 */
export function findOpenFiles(
  envFile: string | undefined,
  source: NodeJS.ProcessEnv = process.env,
): OpenFile[] {
  const named = fileVariables.flatMap(([name, isSecret]) => {
    const path = source[name] ?? '';
    const inside = /^(WAREHOUSE_CLIENTS|EVENT_SUBSCRIBERS)_FILE$/.test(name)
      ? listSecretFiles(path)
      : [];
    return [
      { name, path, isSecret },
      ...inside.map((inner) => ({ name, path: inner, isSecret: true })),
    ];
  });

  const files = [{ name: '--env-file', path: envFile ?? '', isSecret: true }, ...named].filter(
    ({ path }) => path !== '',
  );

  return files.flatMap(({ name, path, isSecret }) => {
    const access = findOpenAccess(path);
    return access === 'write' || (access === 'read' && isSecret) ? [{ name, path, access }] : [];
  });
}

const knownNames = new Set<string>([
  ...variableNames,
  ...secretNames.map((name) => `${name}_FILE`),
]);

/**
 * Returns the names of the set variables that belong to this program by their name. It includes
 * names that do not exist, because a misspelt variable has no effect and should be found.
 */
export const findSetVariables = (source: NodeJS.ProcessEnv = process.env): string[] =>
  Object.keys(source).filter(
    (name) =>
      source[name] &&
      (knownNames.has(name) ||
        /^(ALERT|EVENT|WAREHOUSE|SCHEDULE|PUSH|PERSONAL|RETENTION)_/.test(name)),
  );

/**
 * Returns true if this program reads the variable. A wrong SCHEDULE_<JOB> is refused at the start.
 */
export const isKnownVariable = (name: string): boolean =>
  knownNames.has(name) || name.startsWith('SCHEDULE_');

/**
 * Returns the environment without the settings of this program, for processes that must not inherit
 * them.
 */
export const removeVariables = (source: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(source).filter(([name]) => !isKnownVariable(name)));

const singleClientNames = [
  'WAREHOUSE_BASE_URL',
  'WAREHOUSE_USERNAME',
  'WAREHOUSE_PASSWORD',
] as const;

/**
 * Reads the clients: those of WAREHOUSE_CLIENTS_FILE, or the single client of the variables.
 * @param env the variables as they were given
 * @param data the same after they were checked; undefined if any is wrong
 */
function readClients(
  env: Environment,
  data: z.infer<typeof variables> | undefined,
  isNeeded: boolean,
  problems: string[],
): readonly WarehouseClient[] {
  const given = singleClientNames.filter((name) => env[name] !== undefined);
  const file = env.WAREHOUSE_CLIENTS_FILE;

  if (file !== undefined) {
    const both = env.WAREHOUSE_TIME_ZONE === undefined ? given : [...given, 'WAREHOUSE_TIME_ZONE'];
    if (both.length > 0)
      problems.push(
        `WAREHOUSE_CLIENTS_FILE: is set together with ${both.join(', ')}; keep one form`,
      );
    return readClientsFile(file, problems);
  }

  if (given.length === 0 && isNeeded)
    problems.push(
      'WAREHOUSE_BASE_URL: is required with username and password, or WAREHOUSE_CLIENTS_FILE',
    );

  for (const name of given.length === 0 ? [] : singleClientNames)
    if (env[name] === undefined)
      problems.push(`${name}: is required together with ${given.join(', ')}`);

  const {
    WAREHOUSE_BASE_URL: baseUrl,
    WAREHOUSE_USERNAME: username,
    WAREHOUSE_PASSWORD: password,
  } = data ?? {};
  if (!data || !baseUrl || !username || !password) return [];
  return [{ key: 'default', baseUrl, username, password, timeZone: data.WAREHOUSE_TIME_ZONE }];
}

/**
 * Reads the schedules of all jobs, and the sweep of the push. Adds one line per problem to
 * `problems`.
 */
function readSchedules(
  env: Environment,
  problems: string[],
): Pick<Config, 'schedules' | 'pushSweepMs'> {
  const known = [...jobNames, pushJob.name].map(toScheduleVariable);
  const unknown = Object.keys(env).filter(
    (name) => name.startsWith('SCHEDULE_') && !known.includes(name),
  );
  for (const name of unknown)
    problems.push(`${name}: is not the schedule of a job; known are ${known.join(', ')}`);

  const readOne = (job: string, fallback: string): Schedule => {
    const name = toScheduleVariable(job);
    try {
      const schedule = parseSchedule(env[name] ?? fallback);
      if (schedule.kind === 'every' && schedule.slowMs !== undefined && !(job in polledStreams))
        problems.push(`${name}: only jobs that poll a stream can have two intervals; name one`);
      return schedule;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      problems.push(`${name}: ${error.message}`);
      return { kind: 'off' };
    }
  };

  const schedules = Object.fromEntries(
    jobNames.map((job) => [job, readOne(job, defaultSchedules[job])]),
  );

  const push = readOne(pushJob.name, pushJob.sweep);
  if (push.kind !== 'every' && push.kind !== 'off')
    problems.push(
      `${toScheduleVariable(pushJob.name)}: must be a span such as 15s, or off; ` +
        'rows are pushed as soon as they arrive',
    );

  return {
    schedules: schedules as Config['schedules'],
    pushSweepMs: push.kind === 'every' ? push.everyMs : null,
  };
}
