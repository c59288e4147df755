import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import { Queue } from 'bullmq';
import type { TaskQueue } from './backend.ts';

/** A look into the queues, on either backend. */
export interface QueueBoard {
  /** Fastify plugin that serves it below `path`. */
  readonly plugin: ReturnType<FastifyAdapter['registerPlugin']>;
  /** Shows these queues from now on: they are there only once the worker has started. */
  readonly show: (queues: readonly TaskQueue[]) => void;
}

/**
 * Opens Bull Board. It may change nothing: what runs when is written in Postgres, and changed there.
 * @param basePath path that a reverse proxy puts before every path; empty: none
 */
export function openBoard(basePath: string, path: string): QueueBoard {
  const serverAdapter = new FastifyAdapter().setBasePath(`${basePath}${path}`);
  const { replaceQueues } = createBullBoard({
    queues: [],
    serverAdapter,
    options: {
      uiConfig: {
        boardTitle: 'fulfilment-sync',
        pollingInterval: { forceInterval: 5 },
        miscLinks: [{ text: 'Status page', url: `${basePath}/` }],
      },
    },
  });
  return {
    plugin: serverAdapter.registerPlugin(),
    show: (queues) =>
      replaceQueues(
        queues
          .filter((queue): queue is Queue => queue instanceof Queue)
          .map((queue) => new BullMQAdapter(queue, { readOnlyMode: true })),
      ),
  };
}
