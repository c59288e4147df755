import type { Command } from 'commander';
import { formatCount } from '../../operate/health/problem.ts';
import { hasEventReceivers } from '../../operate/sql/receivers.ts';
import {
  countOtherWaiting,
  listUndelivered,
  retryDeliveries,
} from '../../operate/sql/undelivered.ts';
import {
  addCommand,
  asJson,
  type CommonOptions,
  exitWith,
  parseId,
  print,
  printError,
  printJson,
  printRows,
  readHold,
  withDatabase,
} from '../command-line.ts';

/** Maximum number of events that the list shows. */
const maxListed = 1_000;

const shownMembers = [
  ...(['id', 'receiver', 'type', 'client', 'number', 'happenedAt', 'status'] as const),
  ...(['tries', 'nextAt', 'lastError'] as const),
];

const eventsAreOff =
  'Events are off: no worker has a receiver for them; ' +
  'set EVENT_WEBHOOK_URL or EVENT_SUBSCRIBERS_FILE (docs/events.md)';

/** Prints the events that are not delivered, those that were given up first. */
async function eventsListCommand(options: CommonOptions): Promise<number> {
  const { events, hasReceivers, hold } = await withDatabase('events', async (db) => ({
    events: await listUndelivered(db, maxListed),
    hasReceivers: await hasEventReceivers(db),
    hold: await readHold(db),
  }));

  const none = hasReceivers ? 'No event waits or was given up.' : eventsAreOff;
  printRows(events, none, options, shownMembers);
  printHold(hold, options);
  return 0;
}

/** Says why no event is posted from this database. */
function printHold(hold: string | null, { json }: CommonOptions): void {
  if (hold !== null && !json) print(`No event is posted: ${hold}`);
}

/** Makes events due at once: those named, or all that were given up. */
async function eventsRetryCommand(
  numbers: readonly string[],
  options: CommonOptions,
): Promise<number> {
  const ids = numbers.map((number) =>
    parseId(number, 'the id of an event; see: fulfilment-sync events list'),
  );
  const isAll = ids.length === 0;
  const { retried, waiting, hold } = await withDatabase('events', async (db) => {
    const due = await retryDeliveries(db, isAll ? null : ids);
    return {
      retried: due,
      waiting: await countOtherWaiting(db, due),
      hold: await readHold(db),
    };
  });

  const count = retried.length;
  const left = ids.filter((id) => !retried.includes(id));
  if (options.json) printJson({ retried: count, left, waiting });
  else if (isAll) print(describeRetry(count, waiting));
  else print(`${formatCount(count, 'event', 'is', 'are')} due now.`);
  printHold(hold, options);
  if (left.length === 0) return 0;

  printError(
    `Nothing was done for ${left.join(', ')}: it is delivered, or there is no such event; ` +
      'see: fulfilment-sync events list',
  );
  return 1;
}

/** Says how many events were given up, and how many others wait. */
function describeRetry(retried: number, waiting: number): string {
  const due = formatCount(
    retried,
    'event',
    'that was given up is due now',
    'that were given up are due now',
  );
  const others = formatCount(
    waiting,
    'event',
    'waits and is tried by itself',
    'wait and are tried by themselves',
  );
  return waiting === 0 ? `${due}.` : `${due}; ${others}.`;
}

/** Adds the commands `events …`. */
export function addEventsCommands(cli: Command): void {
  const events = addCommand(cli, {
    name: 'events',
    description: 'show or retry business events that are not delivered',
    examples: 'list',
  });

  addCommand(events, {
    name: 'list',
    description: 'show the events that are not delivered, and why',
  })
    .option(...asJson)
    .action(exitWith(eventsListCommand));

  addCommand(events, {
    name: 'retry',
    description: 'post events again: these, or all that were given up',
  })
    .argument('[id...]', 'ids, as list shows them')
    .option(...asJson)
    .action(exitWith(eventsRetryCommand));
}
