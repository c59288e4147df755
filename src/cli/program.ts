/** The command line: it loads the file of the command that is called, so that it starts fast. */

import { Command, CommanderError } from 'commander';
import { ConfigError } from '../../config/config-error.ts';
import { loadEnvFile } from '../../config/env-file.ts';
import { CodedError, describeError } from '../core/errors.ts';
import { toVisible } from '../core/quote.ts';
import { version } from '../core/version.ts';
import { printError, UsageError } from './command-line.ts';

/**
 * The commands in the order of the help. A function loads the file that has the options, the help
 * and the code of a command, or of several, whose names have a space between them.
 */
const commandFiles: Readonly<Record<string, () => Promise<(cli: Command) => void>>> = {
  worker: async () => (await import('./commands/worker.ts')).addWorkerCommand,
  migrate: async () => (await import('./commands/migrate.ts')).addMigrateCommand,
  status: async () => (await import('./commands/status.ts')).addStatusCommand,
  doctor: async () => (await import('./commands/doctor.ts')).addDoctorCommand,
  run: async () => (await import('./commands/run.ts')).addRunCommand,
  'pause resume': async () => (await import('./commands/pause.ts')).addPauseCommands,
  client: async () => (await import('./commands/client.ts')).addClientCommands,
  database: async () => (await import('./commands/database.ts')).addDatabaseCommands,
  'reconcile backfill refetch': async () =>
    (await import('./commands/rescan.ts')).addRescanCommands,
  outbox: async () => (await import('./commands/outbox.ts')).addOutboxCommands,
  quarantine: async () => (await import('./commands/quarantine.ts')).addQuarantineCommands,
  events: async () => (await import('./commands/events.ts')).addEventsCommands,
  erase: async () => (await import('./commands/erase.ts')).addEraseCommand,
  mcp: async () => (await import('./commands/mcp.ts')).addMcpCommand,
  service: async () => (await import('./commands/verify.ts')).addServiceCommand,
  sandbox: async () => (await import('./commands/sandbox.ts')).addSandboxCommand,
  demo: async () => (await import('./commands/demo.ts')).addDemoCommand,
};

/** Executes one command, and sets the exit code of the process. */
export async function runCli(words: readonly string[] = process.argv.slice(2)): Promise<void> {
  try {
    await (await createCli(words)).parseAsync(words, { from: 'user' });
  } catch (error) {
    process.exitCode = reportError(error);
  }
}

/**
 * Creates the command line with the commands that the words name; with all commands if they name
 * none.
 */
export async function createCli(words: readonly string[] = []): Promise<Command> {
  const cli = new Command('fulfilment-sync')
    .description("Keeps an ERP's Postgres tables in step with a warehouse fulfilment service.")
    .version(version)
    .option('--env-file <file>', 'read NAME=value lines; variables that are set already are kept')
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError('(see --help)')
    // An error repeats words that others may have written.
    .configureOutput({ writeErr: (text) => process.stderr.write(toVisible(text, '\n')) })
    .addHelpText(
      'after',
      '\nExamples:\n  fulfilment-sync doctor\n  fulfilment-sync status --watch\n' +
        '  fulfilment-sync help run',
    );

  cli.hook('preAction', () => {
    const { envFile } = cli.opts<{ envFile?: string }>();
    if (envFile !== undefined) loadEnvFile(envFile);
  });

  const files = Object.entries(commandFiles);
  const named = files.filter(([names]) => names.split(' ').some((name) => words.includes(name)));
  for (const [, load] of named.length > 0 ? named : files) (await load())(cli);

  return cli;
}

const unreachableCodes: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
  'ENOTFOUND',
  // Postgres refuses the password, the user or the name of the database.
  '28P01',
  '28000',
  '3D000',
  // The role may not use our schemas.
  '42501',
]);

/** Returns true if a server cannot be reached, or refuses the role. */
function isUnreachable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isUnreachable);
  if (!(error instanceof Error) || error instanceof CodedError) return false;
  return 'code' in error && unreachableCodes.has(String(error.code));
}

/**
 * Writes the error to standard error, and returns the exit code: 2 for wrong usage or
 * configuration, else 1.
 */
function reportError(error: unknown): number {
  // Commander has written its message already. Help and version end with 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;

  const hint = isUnreachable(error)
    ? '\nCheck DATABASE_URL (and REDIS_URL, if it is set); fulfilment-sync doctor says more'
    : '';
  printError(`${describeError(error)}${hint}`);

  return error instanceof ConfigError || error instanceof UsageError ? 2 : 1;
}
