import type { Command } from 'commander';
import { pauseJob, readPauses, resumeJob } from '../../schedule/sql/pauses.ts';
import {
  addCommand,
  assertClientKnown,
  type CommonOptions,
  exitWith,
  forClient,
  jobArgument,
  print,
  readOperatorName,
  withDatabase,
} from '../command-line.ts';

/**
 * Pauses a job for one client or for all: no run of it starts until it is resumed. A run under way
 * finishes.
 */
async function pauseCommand(job: string, { client }: CommonOptions): Promise<number> {
  return withDatabase('pause', async (db) => {
    await assertClientKnown(db, client);
    const isNew = await pauseJob(db, job, client ?? null, readOperatorName());
    const words = isNew ? 'paused; a run under way finishes' : 'was paused already';

    const remedy = `fulfilment-sync resume ${job}${formatClientOption(client)}`;
    print(`${job} of ${client ?? 'every client'}: ${words}. Resume with: ${remedy}`);
    return 0;
  });
}

/** Resumes a job. Returns 1 if the job stays paused, because it is paused for every client. */
async function resumeCommand(job: string, { client }: CommonOptions): Promise<number> {
  return withDatabase('resume', async (db) => {
    await assertClientKnown(db, client);
    const lifted = await resumeJob(db, job, client ?? null, readOperatorName());

    const pauses = await readPauses(db);
    const isPausedForAll = pauses.some((pause) => pause.job === job && pause.client === null);
    if (isPausedForAll) {
      print(`${job} is paused for every client; resume it with: fulfilment-sync resume ${job}`);
      return 1;
    }

    const words =
      lifted === 0 ? 'was not paused' : 'resumed; one run catches up on what was missed';
    print(`${job} of ${client ?? 'every client'}: ${words}`);
    return 0;
  });
}

const formatClientOption = (client: string | undefined) =>
  client === undefined ? '' : ` --client ${client}`;

/** Adds the commands `pause` and `resume`. */
export function addPauseCommands(cli: Command): void {
  const addOne = (name: string, description: string, command: typeof pauseCommand) =>
    addCommand(cli, {
      name,
      description,
      examples: 'pull-shipments --client default',
    })
      .addArgument(jobArgument())
      .option(...forClient)
      .action(exitWith(command));

  addOne('pause', 'stop starting a job; a run under way finishes', pauseCommand);
  addOne('resume', 'start a paused job again', resumeCommand);
}
