/**
 * The commands' names, options and help. A command's code is loaded only when it is called.
 */

import completion from '@bomb.sh/tab/commander';
import { Command, CommanderError, Option } from 'commander';
import { ConfigError } from '../../../config/config-error.ts';
import { jobNames, pushJob } from '../../../config/jobs.ts';
import { CodedError, describeError } from '../../core/errors.ts';
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
import { finish, oneOf, wholeNumber } from './options.ts';
import { addOutboxCommands } from './outbox-commands.ts';
import { addQuarantineCommands } from './quarantine-commands.ts';
import { addRescanCommands } from './rescan-commands.ts';

/**
 * Runs one command, and sets the exit code of the process.
 * @param words what the user typed after the name of the program
 */
export async function runCli(words: readonly string[] = process.argv.slice(2)): Promise<void> {
  try {
    await createCli().parseAsync(words, { from: 'user' });
  } catch (error) {
    process.exitCode = exitCodeOf(error);
  }
}

/** Each command loads its own code when it is called, so that none waits for what the others need. */
export function createCli(): Command {
  const cli = new Command('fulfilment-sync')
    .description("Keeps an ERP's Postgres tables in step with a warehouse fulfilment service.")
    .version(version)
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError('(see --help)')
    .addHelpText(
      'after',
      '\nExamples:\n  fulfilment-sync doctor\n  fulfilment-sync status --watch\n  fulfilment-sync help run',
    );

  cli
    .command('worker')
    .description('run the daemon until it is stopped')
    .addHelpText('after', '\nExample:\n  DATABASE_URL=postgres://… WAREHOUSE_BASE_URL=https://… fulfilment-sync worker')
    .action(async () => finish((await import('../commands/worker.ts')).workerCommand()));
  cli
    .command('migrate')
    .description('create or upgrade the schemas in the ERP database')
    .addHelpText('after', '\nExample:\n  DATABASE_URL=postgres://… fulfilment-sync migrate')
    .action(async () => finish((await import('../commands/migrate.ts')).migrateCommand()));
  cli
    .command('status')
    .description('show how every job of every client stands')
    .option('--watch', 'again every two seconds, until it is stopped')
    .option('--json', 'for programs')
    .addHelpText('after', '\nExample:\n  fulfilment-sync status --json')
    .action(async (options: StatusOptions) => finish((await import('../commands/status.ts')).statusCommand(options)));
  cli
    .command('doctor')
    .description('look at everything a worker needs, change nothing, and say what to do')
    .option('--json', 'for programs')
    .addHelpText('after', '\nExits with 1 where something is to be mended.\n\nExample:\n  fulfilment-sync doctor')
    .action(async (options: DoctorOptions) => finish((await import('../commands/doctor.ts')).doctorCommand(options)));
  cli
    .command('run')
    .description('run one job once in this process, due or not')
    .addArgument(oneOf('<job>', [...jobNames, pushJob.name]))
    .option('--client <key>', 'only this client')
    .addHelpText('after', '\nExample:\n  fulfilment-sync run pull-shipments --client default')
    .action(async (job: string, options: RunOptions) =>
      finish((await import('../commands/run.ts')).runCommand(job, options)),
    );
  addScheduleCommands(cli);
  addDatabaseCommands(cli);
  addRescanCommands(cli);
  addOutboxCommands(cli);
  addQuarantineCommands(cli);
  addSandboxCommands(cli);
  completion(cli);
  cli.commands
    .find((command) => command.name() === 'complete')
    ?.description('print the completion script of a shell')
    .addHelpText(
      'after',
      '\nExamples:\n  source <(fulfilment-sync complete bash)\n  fulfilment-sync complete zsh > ~/.zfunc/_fulfilment-sync\n  fulfilment-sync complete fish | source',
    );
  return cli;
}

function addSandboxCommands(cli: Command): void {
  cli
    .command('sandbox')
    .description('serve a stand-in for the fulfilment service on this machine')
    .option('--host <address>', 'address to listen on; it has no guard, so keep it to yourself', '127.0.0.1')
    .option('--port <number>', 'port; 0 takes any free one', wholeNumber, 8090)
    .option('--seed <number>', 'what the robot warehouse makes of its days (1)', wholeNumber)
    .option('--clients <names>', 'client names, comma separated; password is the name (default)')
    .option('--speed <factor>', 'virtual seconds a second; 0 stands still until /_sandbox/advance (60)', wholeNumber)
    .option(
      '--orders-per-day <number>',
      "orders that the robot's own shop takes for each client; 0: none (68)",
      wholeNumber,
    )
    .option('--late-changes', 'the robot also does what polls cannot see, such as changes after SHIPPED')
    .option('--state <file>', 'keep everything in this file, and go on from it at the next start')
    .addHelpText(
      'after',
      '\nExample:\n  fulfilment-sync sandbox --port 8090 --clients shop-a,shop-b --state sandbox.ndjson',
    )
    .action(async (options: SandboxOptions) =>
      finish((await import('../commands/sandbox.ts')).sandboxCommand(options)),
    );
  cli
    .command('demo')
    .description('show it all at work: a Postgres, a sandbox and a worker of their own')
    .option('--once', 'one full cycle, a summary, and the check that the tables are what the sandbox holds')
    .addHelpText('after', '\nExample:\n  npm run demo -- --once')
    .action(async (options: DemoOptions) => finish((await import('../commands/demo.ts')).demoCommand(options)));
}

function addScheduleCommands(cli: Command): void {
  const actions = [
    ['pause', 'keep a job from being started; what is under way is finished'],
    ['resume', 'let a job be started again'],
  ] as const;
  for (const [action, description] of actions)
    cli
      .command(action)
      .description(description)
      .addArgument(oneOf('<job>', [...jobNames, pushJob.name]))
      .option('--client <key>', 'only for this client')
      .addHelpText('after', `\nExample:\n  fulfilment-sync ${action} pull-shipments --client default`)
      .action(async (job: string, options: PauseOptions) => {
        const { pauseCommand, resumeCommand } = await import('../commands/pause.ts');
        return finish((action === 'pause' ? pauseCommand : resumeCommand)(job, options));
      });
  const client = cli
    .command('client')
    .description('the clients, and the accounts that their rows come from')
    .addHelpText('after', '\nExample:\n  fulfilment-sync client list');
  client
    .command('list')
    .description('show them, and what keeps them from being read')
    .option('--json', 'for programs')
    .addHelpText('after', '\nExample:\n  fulfilment-sync client list')
    .action(async (options: ClientOptions) =>
      finish((await import('../commands/client.ts')).clientListCommand(options)),
    );
  client
    .command('accept-identity')
    .description('go on with another base URL or username than the one the rows of a client came from')
    .argument('<client>', 'client key')
    .option('--keep-cursors', 'it is the same account at another address: go on where its streams stood')
    .addHelpText('after', '\nExample:\n  fulfilment-sync client accept-identity default')
    .action(async (key: string, options: ClientOptions) =>
      finish((await import('../commands/client.ts')).acceptIdentityCommand(key, options)),
    );
}

function addDatabaseCommands(cli: Command): void {
  const answer = new Option('--as <answer>', 'what this database is').choices(['moved', 'restored', 'copy']);
  const database = cli
    .command('database')
    .description('the database that rows of the outbox are sent from')
    .addHelpText('after', '\nExample:\n  fulfilment-sync database accept --as restored');
  database
    .command('accept')
    .description('accept a database that was restored, copied or moved, so that its rows are sent again, or never')
    .addOption(answer.makeOptionMandatory())
    .addHelpText(
      'after',
      '\nmoved: it is the whole former database, which is not used any more. Rows are sent as before.' +
        '\nrestored: it comes from a backup. Its open rows may have been sent since: they are looked up, or you decide.' +
        '\ncopy: the former database is still in use. Nothing is ever sent from this one.' +
        '\n\nExample:\n  fulfilment-sync database accept --as restored',
    )
    .action(async (options: DatabaseOptions) =>
      finish((await import('../commands/database.ts')).acceptDatabaseCommand(options)),
    );
}

/** A server that is not there, or does not let us in: what the driver says of it names no setting. */
function isOutOfReach(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isOutOfReach);
  const code = error instanceof Error && !(error instanceof CodedError) && 'code' in error ? String(error.code) : '';
  return /^(ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EAI_AGAIN|ENOTFOUND|28P01|28000|3D000)$/.test(
    code,
  );
}

/** Says what went wrong in words, and gives the exit code: 2 for wrong usage or configuration, else 1. */
function exitCodeOf(error: unknown): number {
  // Commander has written its message already; help and version end with 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  const hint = isOutOfReach(error)
    ? '\nCheck DATABASE_URL (and REDIS_URL, where it is set); fulfilment-sync doctor says more'
    : '';
  process.stderr.write(`${describeError(error)}${hint}\n`);
  return error instanceof ConfigError || error instanceof UsageError ? 2 : 1;
}
