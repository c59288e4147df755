/**
 * The names, options and help of all commands. The code of a command is loaded only when the command is called.
 */

import { Command, CommanderError, Option } from 'commander';
import { ConfigError } from '../../../config/config-error.ts';
import { loadEnvFile } from '../../../config/env-file.ts';
import { jobNames, pushJob } from '../../../config/jobs.ts';
import { CodedError, describeError } from '../../core/errors.ts';
import { dialects } from '../../sandbox/resources/dialect.ts';
import { UsageError } from '../cli/usage.ts';
import type { ClientOptions } from '../commands/client.ts';
import type { DatabaseOptions } from '../commands/database.ts';
import type { DemoOptions } from '../commands/demo.ts';
import type { DoctorOptions } from '../commands/doctor.ts';
import type { PauseOptions } from '../commands/pause.ts';
import type { RunOptions } from '../commands/run.ts';
import type { SandboxOptions } from '../commands/sandbox.ts';
import type { StatusOptions } from '../commands/status.ts';
import { version } from '../version.ts';
import { addEraseCommand } from './erase-command.ts';
import { addMigrateCommand } from './migrate-command.ts';
import { parseWholeNumber, setExitCode } from './options.ts';
import { addOutboxCommands } from './outbox-commands.ts';
import { addQuarantineCommands } from './quarantine-commands.ts';
import { addRescanCommands } from './rescan-commands.ts';
import { addServiceCommand } from './service-command.ts';

/**
 * Executes one command, and sets the exit code of the process.
 * @param words the words that the user typed after the name of the program
 */
export async function runCli(words: readonly string[] = process.argv.slice(2)): Promise<void> {
  try {
    await createCli().parseAsync(words, { from: 'user' });
  } catch (error) {
    process.exitCode = reportError(error);
  }
}

/** Creates the command line with all commands. Each loads its code when it is called, so that it starts fast. */
export function createCli(): Command {
  const cli = new Command('fulfilment-sync')
    .description("Keeps an ERP's Postgres tables in step with a warehouse fulfilment service.")
    .version(version)
    .option('--env-file <file>', 'read NAME=value lines; variables that are set already are kept')
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError('(see --help)')
    .addHelpText(
      'after',
      '\nExamples:\n  fulfilment-sync doctor\n  fulfilment-sync status --watch\n  fulfilment-sync help run',
    );
  cli.hook('preAction', () => {
    const { envFile } = cli.opts<{ envFile?: string }>();
    if (envFile !== undefined) loadEnvFile(envFile);
  });

  cli
    .command('worker')
    .description('run the daemon until it is stopped')
    .addHelpText('after', '\nExample:\n  DATABASE_URL=postgres://… WAREHOUSE_BASE_URL=https://… fulfilment-sync worker')
    .action(async () => setExitCode((await import('../commands/worker.ts')).workerCommand()));
  addMigrateCommand(cli);
  cli
    .command('status')
    .description('show the state of every job of every client, and all problems')
    .option('--watch', 'show it again every two seconds, until stopped')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync status --json')
    .action(async (options: StatusOptions) =>
      setExitCode((await import('../commands/status.ts')).statusCommand(options)),
    );
  cli
    .command('doctor')
    .description('check everything that a worker needs, and say what to do; changes nothing')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExits with 1 if there is a problem.\n\nExample:\n  fulfilment-sync doctor')
    .action(async (options: DoctorOptions) =>
      setExitCode((await import('../commands/doctor.ts')).doctorCommand(options)),
    );
  cli
    .command('run')
    .description('run one job once in this process, even if it is not due')
    .argument('<job>', [...jobNames, pushJob.name].join(', '))
    .option('--client <key>', 'only this client')
    .addHelpText('after', '\nExample:\n  fulfilment-sync run pull-shipments --client default')
    .action(async (job: string, options: RunOptions) =>
      setExitCode((await import('../commands/run.ts')).runCommand(job, options)),
    );
  addScheduleCommands(cli);
  addDatabaseCommands(cli);
  addRescanCommands(cli);
  addOutboxCommands(cli);
  addQuarantineCommands(cli);
  addEraseCommand(cli);
  addServiceCommand(cli);
  addSandboxCommands(cli);
  return cli;
}

function addSandboxCommands(cli: Command): void {
  cli
    .command('sandbox')
    .description('serve a stand-in for the fulfilment service on this machine')
    .option('--host <address>', 'address to listen on; everybody who can reach it can control the sandbox', '127.0.0.1')
    .option('--port <number>', 'port; 0 takes any free one', parseWholeNumber, 8090)
    .option('--seed <number>', 'seed of the random events in the robot warehouse (1)', parseWholeNumber)
    .option('--clients <names>', 'client names, comma separated; the password is the name (default)')
    .option(
      '--speed <factor>',
      'virtual seconds per second; 0: time moves only with /_sandbox/advance (60)',
      parseWholeNumber,
    )
    .option('--orders-per-day <number>', 'orders that the robot adds for each client; 0: none (68)', parseWholeNumber)
    .option('--late-changes', 'the robot also makes changes that polls cannot see, such as changes after SHIPPED')
    .option('--only-described', 'do not serve operations that the interface does not name, such as stock in bulk')
    .option(
      '--strict',
      'refuse what the interface does not show, such as unknown members or names in another case; implies --only-described',
    )
    .addOption(
      new Option('--unknown-products <rule>', 'what happens to orders and slips with an unknown sku (refuse)').choices([
        'refuse',
        'accept',
      ]),
    )
    .option('--settings <file>', 'YAML or JSON file with the settings lists that clients map their codes to')
    .addOption(
      new Option('--dialect <name>', 'shapes of v3 answers: rich has links and products, and leaves out null').choices(
        dialects,
      ),
    )
    .option('--state <file>', 'keep the state in this file, and continue from it at the next start')
    .addHelpText(
      'after',
      '\nExample:\n  fulfilment-sync sandbox --port 8090 --clients shop-a,shop-b --state sandbox.ndjson',
    )
    .action(async (options: SandboxOptions) =>
      setExitCode((await import('../commands/sandbox.ts')).sandboxCommand(options)),
    );
  cli
    .command('demo')
    .description('start a temporary Postgres, a sandbox and a worker, and show what they do')
    .option('--once', 'run one full cycle, compare the tables with the sandbox, print a summary, and end')
    .addHelpText('after', '\nExample:\n  npm run demo -- --once')
    .action(async (options: DemoOptions) => setExitCode((await import('../commands/demo.ts')).demoCommand(options)));
}

function addScheduleCommands(cli: Command): void {
  const actions = [
    ['pause', 'stop starting a job; a run under way finishes'],
    ['resume', 'start a paused job again'],
  ] as const;
  for (const [action, description] of actions)
    cli
      .command(action)
      .description(description)
      .argument('<job>', [...jobNames, pushJob.name].join(', '))
      .option('--client <key>', 'only for this client')
      .addHelpText('after', `\nExample:\n  fulfilment-sync ${action} pull-shipments --client default`)
      .action(async (job: string, options: PauseOptions) => {
        const { pauseCommand, resumeCommand } = await import('../commands/pause.ts');
        return setExitCode((action === 'pause' ? pauseCommand : resumeCommand)(job, options));
      });
  const client = cli
    .command('client')
    .description('show the clients, or accept a changed account of a client')
    .addHelpText('after', '\nExample:\n  fulfilment-sync client list');
  client
    .command('list')
    .description('show the clients, and why a client is not read')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync client list')
    .action(async (options: ClientOptions) =>
      setExitCode((await import('../commands/client.ts')).clientListCommand(options)),
    );
  client
    .command('accept-identity')
    .description('accept a changed base URL or user name of a client, so that it is read and pushed again')
    .argument('<client>', 'client key')
    .option('--keep-cursors', 'the account is the same, at another address: continue from the stored cursors')
    .addHelpText('after', '\nExample:\n  fulfilment-sync client accept-identity default')
    .action(async (key: string, options: ClientOptions) =>
      setExitCode((await import('../commands/client.ts')).acceptIdentityCommand(key, options)),
    );
}

function addDatabaseCommands(cli: Command): void {
  const answer = new Option('--as <answer>', 'what this database is').choices(['moved', 'restored', 'copy']);
  const database = cli
    .command('database')
    .description('accept the database from which the rows of the outbox are sent')
    .addHelpText('after', '\nExample:\n  fulfilment-sync database accept --as restored');
  database
    .command('accept')
    .description('accept a database that was moved, restored or copied, so that its rows are sent again, or never')
    .addOption(answer.makeOptionMandatory())
    .addHelpText(
      'after',
      '\nmoved: it is the whole former database, which is not used any more. Rows are sent as before.' +
        '\nrestored: it comes from a backup. Its open rows may have been sent since: they are looked up, or you decide.' +
        '\ncopy: the former database is still in use. Nothing is ever sent from this one.' +
        '\n\nExample:\n  fulfilment-sync database accept --as restored',
    )
    .action(async (options: DatabaseOptions) =>
      setExitCode((await import('../commands/database.ts')).acceptDatabaseCommand(options)),
    );
}

/**
 * Returns true if a server cannot be reached, or refuses the login. Such errors of a driver do not name our setting.
 */
function isUnreachable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isUnreachable);
  const code = error instanceof Error && !(error instanceof CodedError) && 'code' in error ? String(error.code) : '';
  return /^(ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EAI_AGAIN|ENOTFOUND|28P01|28000|3D000)$/.test(
    code,
  );
}

/** Writes the error to standard error, and returns the exit code: 2 for wrong usage or configuration, else 1. */
function reportError(error: unknown): number {
  // Commander has written its message already. Help and version end with 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  const hint = isUnreachable(error)
    ? '\nCheck DATABASE_URL (and REDIS_URL, if it is set); fulfilment-sync doctor says more'
    : '';
  process.stderr.write(`${describeError(error)}${hint}\n`);
  return error instanceof ConfigError || error instanceof UsageError ? 2 : 1;
}
