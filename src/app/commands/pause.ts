import { readConfig } from '../../../config/env.ts';
import { jobNames, pushJob } from '../../../config/jobs.ts';
import { pauseJob, readPauses, resumeJob } from '../../erp/runs/pauses.ts';
import { operatorName } from '../cli/operator.ts';
import { print } from '../cli/print.ts';
import { UsageError } from '../cli/usage.ts';
import { withDatabase } from '../cli/with-database.ts';

export interface PauseOptions {
  readonly client?: string;
}

/** Keeps a job from being started, for one client or for all, until it is resumed. What is under way is finished. */
export async function pauseCommand(job: string, { client }: PauseOptions): Promise<number> {
  assertKnown(job, client);
  return withDatabase('pause', async (db) => {
    const isNew = await pauseJob(db, job, client ?? null, operatorName());
    const words = isNew ? 'paused; what is under way is finished' : 'is paused already';
    print(
      `${job} of ${client ?? 'every client'}: ${words}. Go on with: fulfilment-sync resume ${job}${optionFor(client)}`,
    );
    return 0;
  });
}

/** Lets a job be started again. */
export async function resumeCommand(job: string, { client }: PauseOptions): Promise<number> {
  assertKnown(job, client);
  return withDatabase('resume', async (db) => {
    const lifted = await resumeJob(db, job, client ?? null, operatorName());
    const whole = (await readPauses(db)).some((pause) => pause.job === job && pause.client === null);
    if (whole) {
      print(`${job} is paused for every client; go on with: fulfilment-sync resume ${job}`);
      return 1;
    }
    const words = lifted === 0 ? 'was not paused' : 'goes on; what it missed is made good by one run';
    print(`${job} of ${client ?? 'every client'}: ${words}`);
    return 0;
  });
}

/** @throws UsageError that names what there is */
function assertKnown(job: string, client: string | undefined): void {
  const names = [...jobNames, pushJob.name];
  if (!(names as string[]).includes(job)) throw new UsageError(`There is no job ${job}; known are ${names.join(', ')}`);
  const clients = readConfig({ database: true, clients: false }).clients.map(({ key }) => key);
  if (client !== undefined && clients.length > 0 && !clients.includes(client))
    throw new UsageError(`There is no client ${client}; known are ${clients.join(', ')}`);
}

const optionFor = (client: string | undefined) => (client === undefined ? '' : ` --client ${client}`);
