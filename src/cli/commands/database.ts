import { type Command, Option } from 'commander';
import { changeInWords } from '../../core/database-mark.ts';
import type { Database } from '../../db/pool.ts';
import { formatCount } from '../../operate/health/problem.ts';
import { outboxKinds } from '../../push/kinds/registry.ts';
import { operatorChoices } from '../../push/push-outcome.ts';
import { acceptDatabase, type OperatorAnswer } from '../../push/sql/accept-database.ts';
import { readPushDatabase } from '../../push/sql/push-database.ts';
import { addCommand, exitWith, print, readOperatorName, withDatabase } from '../command-line.ts';

/** Accepts the database at DATABASE_URL, so that its rows are sent again, or never (`copy`). */
function acceptDatabaseCommand({ as }: { readonly as: OperatorAnswer }): Promise<number> {
  return withDatabase('database', async (db) => {
    const former = await readPushDatabase(db);
    if (former?.change === 'none' && as === 'moved' && former.acceptedAs !== 'copy') {
      print('Rows are sent from this database already; nothing was changed.');
      return 0;
    }

    if (former !== null)
      print(
        `Compared with the database that rows were sent from: ${changeInWords[former.change]}.`,
      );
    if (former?.change === 'none' && as === 'restored')
      print('Its identity has not changed, so every open row is treated as a row of the backup.');
    await acceptAs(db, as);
    return 0;
  });
}

async function acceptAs(db: Database, as: OperatorAnswer): Promise<void> {
  const lookedUp = outboxKinds
    .filter(({ unknown }) => unknown.do === 'look up')
    .map(({ name }) => name);
  const rows = await acceptDatabase(db, {
    as,
    by: readOperatorName(),
    lookedUp,
    advice: operatorChoices,
  });

  if (as === 'copy') {
    print('Accepted as a copy: nothing is sent from it. Pulls continue.');
    return;
  }
  print(`Accepted as ${as}: rows are sent again.`);
  if (as === 'moved') return;

  print(
    `${formatCount(rows.lookedUp, 'row')} of the backup: ` +
      'looked up at the service before anything is sent.',
  );
  if (rows.toDecide > 0)
    print(
      `${formatCount(rows.toDecide, 'row')} of the backup: ` +
        'you must decide, see: fulfilment-sync outbox list --status unknown',
    );
}

/** Adds `database accept`. */
export function addDatabaseCommands(cli: Command): void {
  const answer = new Option('--as <answer>', 'what this database is')
    .choices(['moved', 'restored', 'copy'])
    .makeOptionMandatory();
  const example = 'fulfilment-sync database accept --as restored';
  const database = addCommand(cli, {
    name: 'database',
    description: 'accept the database from which the rows of the outbox are sent',
    examples: example,
  });

  addCommand(database, {
    name: 'accept',
    description:
      'accept a database that was moved, restored or copied, ' +
      'so that its rows are sent again, or never',
    examples: example,
    notes:
      'moved: it is the whole former database, which is not used any more. ' +
      'Rows are sent as before.\n' +
      'restored: it comes from a backup. Its open rows may have been sent since: ' +
      'they are looked up, or you decide.\n' +
      'copy: the former database is still in use. Nothing is ever sent from this one.',
  })
    .addOption(answer)
    .action(exitWith(acceptDatabaseCommand));
}
