import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import { Queue } from 'bullmq';
import type { TaskQueue } from './backend.ts';

/** A page that shows the queues, for both backends. */
export interface QueueBoard {
  /** The Fastify plugin that serves the page below `path`. */
  readonly plugin: ReturnType<FastifyAdapter['registerPlugin']>;
  /** Sets the queues to show. The queues exist only after the worker has started. */
  readonly show: (queues: readonly TaskQueue[]) => void;
}

/**
 * Opens Bull Board, read-only: Postgres decides what runs when, and changes are made there.
 * @param basePath path that a reverse proxy puts before every path, or an empty string
 */
export function openBoard(basePath: string, path: string): QueueBoard {
  const serverAdapter = new FastifyAdapter().setBasePath(`${basePath}${path}`);

  const { replaceQueues } = createBullBoard({
    queues: [],
    serverAdapter,
    options: {
      uiBasePath: dirname(createRequire(import.meta.url).resolve('@bull-board/ui/package.json')),
      uiConfig: {
        boardTitle: 'fulfilment-sync',
        pollingInterval: { forceInterval: 5 },
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
