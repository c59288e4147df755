import { z } from 'zod';
import type { JobName } from '../../config/jobs.ts';

/** `poll` for what must be fresh, `bulk` for long work that must never stand in its way. */
export type QueueName = 'poll' | 'bulk';

/** One job: what it is called, in which queue it runs and what one run for one client does. */
export interface JobDefinition<Context> {
  readonly name: JobName;
  readonly queue: QueueName;
  readonly run: (context: Context) => Promise<void>;
  /** The stream that it polls. */
  readonly stream?: { readonly name: string };
  /** It asks nothing of the service: where that is away, it is made all the same. */
  readonly isLocal?: boolean;
  /** A failed run is made again with growing pauses, as its next turn is far off. */
  readonly retries?: boolean;
  /**
   * True if its runs save their progress. A run that takes long while others wait can be stopped, and continues later.
   */
  readonly savesProgress?: boolean;
  /** Its runs say themselves when the next one is due: a schedule that is made shorter brings nothing forward. */
  readonly ownPace?: boolean;
}

/** Declares a job; it takes effect by standing in jobs/registry.ts. */
export function defineJob<Context>(definition: JobDefinition<Context>): JobDefinition<Context> {
  return definition;
}

/** What a queued job carries: the client it is for, or nothing where it is a tick that finds the clients due. */
export const jobDataSchema = z.object({ client: z.string().optional(), version: z.string().optional() });
export type JobData = z.infer<typeof jobDataSchema>;
