import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseSpanMs } from '../../../config/schedules.ts';
import {
  acceptanceInWords,
  changeInWords,
  describeHold,
  placeInWords,
} from '../../core/database-mark.ts';
import { toDirectUrl } from '../../db/connect.ts';
import type { Database } from '../../db/pool.ts';
import { formatCount } from '../../operate/health/problem.ts';
import {
  acceptDatabase,
  expectFailover,
  type OperatorAnswer,
  type PushDatabase,
  readPushDatabase,
} from '../../push/sql/push-database.ts';
import {
  addCommand,
  confirm,
  exitWith,
  print,
  readOperatorName,
  UsageError,
  withDatabase,
} from '../command-line.ts';

interface AcceptOptions {
  readonly as: OperatorAnswer;
  readonly yes?: boolean;
}

/**
 * Accepts the database at the address that pushes use, so that its rows are sent again, or never
 * (`copy`).
 */
function acceptDatabaseCommand({ as, yes = false }: AcceptOptions): Promise<number> {
  return withDatabase(
    'database',
    async (db) => {
      const former = await readPushDatabase(db);
      if (former?.acceptedAs === 'copy' && former.change === 'none') {
        if (as !== 'copy') await confirmNoCopy(yes);
        return await acceptAs(db, as);
      }
      if (as === 'moved' && former !== null && !former.isAsked && describeHold(former) === null) {
        print('Rows are sent from this database already; nothing was changed.');
        return 0;
      }

      if (former !== null)
        print(
          `Compared with the database that rows were sent from: ${describeComparison(former)}.`,
        );
      if (former?.change === 'none' && as === 'restored')
        print('Its identity has not changed, so every open row is treated as a row of the backup.');
      return await acceptAs(db, as);
    },
    toDirectUrl,
  );
}

function describeComparison({ change, isPlaceAccepted, isAsked }: PushDatabase): string {
  if (change !== 'none' || (isPlaceAccepted && !isAsked)) return changeInWords[change];
  return `its identity is the same, but ${placeInWords}`;
}

/** Lets workers accept a failover that is planned. */
function expectFailoverCommand({ for: spanMs }: { readonly for: number }): Promise<number> {
  return withDatabase('database', async (db) => {
    const until = await expectFailover(db, spanMs, readOperatorName());
    if (until === false)
      throw new UsageError('No worker has run with this database yet; nothing is expected of it');

    if (until === null) {
      print('No failover is expected any more.');
      return 0;
    }
    print(
      `A failover until ${until.toISOString()} is accepted as restored, after 30 s. ` +
        'The former primary must have ended before.',
    );
    return 0;
  });
}

/** @throws UsageError unless the operator is sure that a database is no copy */
async function confirmNoCopy(isSure: boolean): Promise<void> {
  const warning =
    'This database was accepted as a copy. If the database that it was copied from is in use, ' +
    'orders are sent twice.';
  if (isSure) return;

  if (!process.stdin.isTTY) throw new UsageError(`${warning} If it is not, add --yes`);
  await confirm(warning, 'Nothing was changed');
}

async function acceptAs(db: Database, as: OperatorAnswer): Promise<number> {
  const rows = await acceptDatabase(db, as, readOperatorName());

  if (as === 'copy') {
    print('Accepted as a copy: no row or event is sent from it. Pulls and alerts continue.');
    return 0;
  }
  print(`Accepted as ${as}: rows are sent again.`);
  if (as === 'moved') return 0;

  print(
    `${formatCount(rows.lookedUp, 'row')} of the backup: ` +
      'looked up at the service before anything is sent.',
  );
  if (rows.toDecide > 0)
    print(
      `${formatCount(rows.toDecide, 'row')} of the backup: ` +
        'you must decide, see: fulfilment-sync outbox list --status unknown',
    );
  return 0;
}

/** Adds `database accept`. */
export function addDatabaseCommands(cli: Command): void {
  const answer = new Option('--as <answer>', 'what this database is')
    .choices(Object.keys(acceptanceInWords))
    .makeOptionMandatory();
  const database = addCommand(cli, {
    name: 'database',
    description: 'accept the database from which the rows of the outbox are sent',
    examples: 'accept --as restored',
  });

  addCommand(database, {
    name: 'accept',
    description:
      'accept a database that was moved, restored or copied, ' +
      'so that its rows are sent again, or never',
    examples: '--as restored',
    notes: Object.entries(acceptanceInWords)
      .map(([as, meaning]) => `${as}: ${meaning}`)
      .join('\n'),
  })
    .addOption(answer)
    .option('--yes', 'do not ask whether a database that was accepted as a copy is none')
    .action(exitWith(acceptDatabaseCommand));

  const span = new Option('--for <span>', 'how long, such as 1h; 0s: it is not expected any more')
    .argParser(parseSpan)
    .makeOptionMandatory();
  addCommand(database, {
    name: 'expect-failover',
    description: 'let workers accept a failover that is planned, as restored and without a person',
    examples: '--for 1h',
    notes:
      'The former primary must end before another one is promoted: rows would be sent twice.\n' +
      'Rows that may have been sent are looked up; kinds without a look-up wait for you.',
  })
    .addOption(span)
    .action(exitWith(expectFailoverCommand));
}

function parseSpan(text: string): number {
  const ms = text === '0s' ? 0 : parseSpanMs(text);
  if (ms === null) throw new InvalidArgumentError('It must be a span such as 30s, 2m, 6h or 3d.');
  return ms;
}
