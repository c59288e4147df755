import type { Command } from 'commander';
import { readDefault, secretNames, variableNames } from '../config/env.ts';
import { defaultSchedules, polledStreams, pushJob, toScheduleVariable } from '../config/jobs.ts';
import { createCli } from '../src/cli/program.ts';

/** What each variable is for. */
const meanings: Readonly<Record<(typeof variableNames)[number], string>> = {
  DATABASE_URL: 'Postgres 14 or newer; required by workers',
  DATABASE_DIRECT_URL: 'Postgres past a pooler in transaction mode',
  DATABASE_FAILOVER:
    '`fenced`: a promoted standby is accepted without a person ([which Postgres](which-postgres.md))',
  REDIS_URL: 'Redis 6.2 or newer with `noeviction`; else the queue is in Postgres',
  WAREHOUSE_BASE_URL: 'service of the client `default`; a path is kept',
  WAREHOUSE_USERNAME: 'its user name',
  WAREHOUSE_PASSWORD: 'its password',
  WAREHOUSE_TIME_ZONE: 'zone of times that the service sends without one',
  WAREHOUSE_CLIENTS_FILE:
    'several clients instead: `[{key, baseUrl, username, password or passwordFile, timeZone?}]`',
  WAREHOUSE_OPERATIONS_FILE: 'methods, paths and switches of your service (docs/assumptions.md)',
  LOOKBACK_DAYS: 'days before the newest date that polls read again',
  HTTP_TIMEOUT_MS: 'milliseconds that a request may take',
  REQUESTS_PER_SECOND: 'limit for an account, of all processes together',
  PUSH_CONCURRENCY: 'outbox rows sent at the same time, for each client and process',
  PUSH_MAX_ATTEMPTS: 'attempts after which an outbox row is given up',
  PUSH_MAX_AGE: 'time after the first attempt after which it is given up',
  RETENTION_DAYS: 'days that history is kept',
  MIRROR_DAYS: 'days after which finished orders leave the tables, with shipments and returns',
  PERSONAL_DATA_DAYS: 'days after which personal data is erased (docs/operations.md)',
  ADMIN_HOST: 'address of the pages; another one needs `ADMIN_TOKEN`',
  ADMIN_PORT: 'port of the pages; 0: any free one',
  ADMIN_TOKEN: 'lets operators read and act',
  ADMIN_VIEWER_TOKEN: 'lets viewers read, without personal data',
  ADMIN_BASE_PATH: 'path of the pages behind a reverse proxy',
  ADMIN_PUBLIC_URL: 'address of the pages as people reach them; alert posts link to it',
  ADMIN_TRUSTED_PROXIES: 'addresses and networks of proxies whose `X-Forwarded` headers count',
  ADMIN_USER_HEADER: 'their header that names the user for the audit',
  API_HOST: 'address of the API',
  API_PORT: 'port of the API',
  API_TOKENS_FILE: 'switches the API for programs on (docs/api.md)',
  ALERT_WEBHOOK_URL: 'gets problems that begin and end, such as Slack',
  ALERT_WEBHOOK_SECRET: 'signs them',
  EVENT_WEBHOOK_URL: 'gets business events (docs/events.md)',
  EVENT_WEBHOOK_SECRET: 'signs them',
  EVENT_PERSONAL_DATA: '`true`: with personal data',
  EVENT_SUBSCRIBERS_FILE:
    'several receivers instead: `[{name, url, secret or secretFile, types?, clients?, personalData?}]`',
  LOG_LEVEL: 'least level that is logged',
  LOG_PRETTY: '`true`: text instead of JSON, as on a terminal',
  HTTP_PROXY: 'proxy for `http` requests',
  HTTPS_PROXY: 'proxy for `https` requests',
  NO_PROXY: 'hosts that are reached without a proxy',
};

/** What each job does. */
const jobMeanings: Readonly<Record<keyof typeof defaultSchedules, string>> = {
  'pull-shipments': 'polls shipments',
  'pull-return-items': 'polls processed returns',
  'pull-inbounds': 'polls received goods',
  'pull-inbound-packing-slips': 'polls announced deliveries',
  'pull-orders': 'polls orders',
  'refresh-settings': 'reads the lists of codes',
  'track-trace': 'reads the track-trace list, at most once an hour',
  'pull-parcels': 'looks up the packages of shipped shipments',
  'pull-stock': 'reads the stock of articles in `stock_watch`',
  reconcile: 'compares the lists of the service with the tables, and heals',
  prune: 'deletes what is older than `RETENTION_DAYS`',
  backfill: 'reads days again, as `backfill --background` asks',
};

/**
 * Returns docs/reference.md: the variables, jobs and commands, from the schema of the configuration
 * and the help of the commands.
 */
export async function renderReference(): Promise<string> {
  const cli = await createCli();

  return `# Reference: settings, jobs, commands

Made by \`npm run golden\` from the schema of the configuration and from \`--help\`.

## Settings

From the environment, or from \`--env-file F\` ([.env.example](../.env.example) is one). \`NAME_FILE\` names a file that has the
value. SIGHUP [restarts the worker](production.md#change-settings) with what has changed.

${variableNames.map(describeVariable).join('\n')}

## Jobs

\`${toScheduleVariable('pull-shipments')}\` sets the schedule of \`pull-shipments\`: \`30s\`, \`2m\`, \`6h\`, \`1d\`, a cron expression of
five fields in UTC, or \`off\`. Polls of streams take two intervals: the first while something moves, up to the second when nothing does.

${Object.entries(defaultSchedules).map(describeJob).join('\n')}
- \`${pushJob.name}\` (\`${pushJob.sweep}\`): sends outbox rows as they come, and looks for them at this interval, too; with \`off\` this worker sends
  none

## Commands

\`--help\` says more; ${commonOptions.map((option) => `\`${option}\``).join(' and ')}, which most commands take, are left out. In a clone, write \`npm run --silent fulfilment-sync --\` for \`fulfilment-sync\`.
Exit code 0: done; 1: failed, or a problem found; 2: wrong usage or configuration. Streams:
${Object.values(polledStreams)
  .map((stream) => `\`${stream}\``)
  .join(', ')}.

${listCommands(cli).map(describeCommand).join('\n')}
`;
}

function describeVariable(name: (typeof variableNames)[number]): string {
  const fallback = readDefault(name);
  const meaning = meanings[name].replace(/docs\/(\w+)\.md/, '[$1]($1.md)');
  const isSecret = (secretNames as readonly string[]).includes(name);
  return `- \`${name}${isSecret ? '[_FILE]' : ''}\`${fallback === null ? '' : ` (\`${fallback}\`)`}: ${meaning}`;
}

const describeJob = ([job, schedule]: [string, string]) =>
  `- \`${job}\` (\`${schedule}\`): ${jobMeanings[job as keyof typeof jobMeanings]}`;

/** Returns the commands that do something, without those that only group others. */
const listCommands = (command: Command): Command[] =>
  command.commands.flatMap((one) => (one.commands.length > 0 ? listCommands(one) : [one]));

/** Options that are not repeated for each command. */
const commonOptions = ['--client', '--json'];

function describeCommand(command: Command): string {
  const group = command.parent?.parent ? [command.parent.name()] : [];
  const words = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
    return argument.required ? `<${name}>` : `[${name}]`;
  });

  const options = command.options.flatMap(({ long }) =>
    long === undefined || commonOptions.includes(long) ? [] : [long],
  );
  const usage = [...group, command.name(), ...words, ...options].join(' ');
  const [summary = ''] = command.description().split(/[;:]/);

  return `- \`${usage}\`: ${summary}`;
}
