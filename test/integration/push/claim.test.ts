import { type KyselyPlugin, sql } from 'kysely';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Database } from '../../../src/db/pool.ts';
import { acceptIdentity } from '../../../src/operate/sql/accept-identity.ts';
import { outboxKinds } from '../../../src/push/kinds/registry.ts';
import { claimRows, claimRowsIn, returnClaims } from '../../../src/push/sql/claim-rows.ts';
import { readDueWork } from '../../../src/push/sql/due-work.ts';
import { releaseLanes } from '../../../src/push/sql/lanes.ts';
import { noteDatabase, notePlace } from '../../../src/push/sql/push-database.ts';
import { registerClients } from '../../../src/service/sql/clients.ts';
import { useDatabase } from '../../helpers/database.ts';
import { insertHealth } from '../../helpers/service-health.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const client = 'default';
const account = { client, identity: 'a', baseUrl: 'https://a.test/' };

beforeEach(async () => {
  await registerClients(database.db, [account]);
  await notePlace(database.db, 'test', await noteDatabase(database.db, 'test', []));
});

const names = outboxKinds.map(({ name }) => name);
const makeOptions = ({ identity = 'a', stamped = [] as string[], maxRows = 8 } = {}) => ({
  ...{ client, identity, worker: 'w', held: 0 },
  kinds: { names, stamped, lingerMs: 60_000 },
  ...{ maxRows, maxBytes: 8 * 1024 * 1024, takesLarge: true },
});

/** Claims rows as a worker does. */
const claim = (db: Database = database.db, options: Parameters<typeof makeOptions>[0] = {}) =>
  claimRows(db, makeOptions(options));

const readIds = ({ rows }: { readonly rows: readonly { readonly id: number }[] }) =>
  rows.map(({ id }) => id);

/** Inserts a due row, in the lane of SO-1 by default. Returns its id. */
async function insert({
  kind = 'order.cancel',
  reference = 'SO-1',
  columns = '',
  values = '',
} = {}): Promise<number> {
  const [row] = await database.query<{ id: number }>(
    `insert into fulfilment.outbox (kind, reference${columns}) values ($1, $2${values}) returning id`,
    [kind, reference],
  );
  return row?.id ?? 0;
}

const readStatuses = async () =>
  Object.fromEntries(
    (
      await database.query<{ id: number; status: string }>(
        'select id, status from fulfilment.outbox order by id',
      )
    ).map(({ id, status }) => [id, status]),
  );

/** Ends the attempts of all rows that are being sent, and makes the next rows of lanes due. */
async function settle(): Promise<void> {
  await database.query(`
    update fulfilment.outbox
    set status = 'done', result = '{}', finished_at = now(), lease_until = null, sent_at = null
    where status = 'sending'`);
  await releaseLanes(database.db, [{ client, family: 'order', reference: 'SO-1' }]);
}

test('rows of a kind that the database does not know are not claimed', async () => {
  await database.query("delete from sync.outbox_kinds where kind = 'order.update'");
  await insert({ kind: 'order.update', reference: 'SO-2' });
  const known = await insert();
  expect(readIds(await claim())).toEqual([known]);
  expect(readIds(await claim())).toEqual([]);
});

test('a claim and a look find nothing once the database was migrated beyond their code', async () => {
  const id = await insert();
  const accounts = new Map([[client, account.identity]]);
  const look = () => readDueWork(database.db, accounts, { worker: 'w', names, lookedUp: [] });
  expect(await look()).toMatchObject([{ client, pendingInMs: 0 }]);

  await database.query("insert into sync.migrations (name, applied_by) values ('9999_later', 'x')");
  expect(await look()).toEqual([]);
  expect(readIds(await claim())).toEqual([]);

  await database.query("delete from sync.migrations where name = '9999_later'");
  expect(readIds(await claim())).toEqual([id]);
});

test('a claim reads no row of a kind that is held, no matter how many there are', async () => {
  await database.query(`
    insert into fulfilment.outbox (kind, reference, payload)
    select 'order.release', 'R-' || i, '{}' from generate_series(1, 20000) i`);
  await insertHealth(database, {
    ...{ scope: 'order.release', code: 'wrong_path', untilInMs: 900_000 },
  });
  const id = await insert();
  await database.query('vacuum analyze fulfilment.outbox');
  const read = await database.db.transaction().execute(async (trx) => {
    expect(readIds(await claimRowsIn(trx, makeOptions()))).toEqual([id]);
    const seen = await sql<{ rows: number }>`
      select (pg_stat_get_xact_tuples_returned(i.indexrelid))::int as rows
      from pg_index i where i.indrelid = 'fulfilment.outbox'::regclass
      order by 1 desc limit 1`.execute(trx);
    return seen.rows[0]?.rows ?? 0;
  });
  expect(read).toBeGreaterThan(0);
  expect(read).toBeLessThan(200);
});

test('a claim finds the rows behind many that the ERP has locked', async () => {
  await database.query(`
    insert into fulfilment.outbox (kind, reference)
    select 'order.cancel', 'L-' || i from generate_series(1, 300) i`);
  const id = await insert();
  await database.db.transaction().execute(async (erp) => {
    await sql`select from fulfilment.outbox where id <> ${id} for update`.execute(erp);
    expect(readIds(await claim())).toEqual([id]);
  });
});

test('claims are given back without waiting for a row that the ERP has locked', async () => {
  const [locked, other] = [await insert(), await insert({ reference: 'SO-2' })];
  const { rows } = await claim();
  await database.db.transaction().execute(async (erp) => {
    await sql`select from fulfilment.outbox where id = ${locked} for update`.execute(erp);
    await returnClaims(database.db, rows);
  });
  expect(await readStatuses()).toEqual({ [locked]: 'sending', [other]: 'pending' });
});

test('a claim counts the bytes of payloads as text, not as they are stored', async () => {
  await database.query(`
    insert into fulfilment.outbox (kind, reference, payload)
    select 'order.update', 'SO-' || n, (select jsonb_agg('1e131071'::jsonb) from generate_series(1, 8))
    from generate_series(1, 20) n`);
  const { rows } = await claim(database.db, { maxRows: 20 });
  expect(rows.map(({ payloadBytes }) => payloadBytes)).toEqual(
    rows.map(({ payload }) => payload.length),
  );
  expect(rows).toHaveLength(7);
});

/** A claim that stops after its nth statement until it is told to continue. */
function claimInSteps(statement: number, options: Parameters<typeof claim>[1] = {}) {
  const reached = Promise.withResolvers<void>();
  const mayContinue = Promise.withResolvers<void>();
  let count = 0;
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      count++;
      if (count === statement) {
        reached.resolve();
        await mayContinue.promise;
      }
      return result;
    },
  };
  const claimed = claim(database.db.withPlugin(plugin), options);
  // A claim that has fewer statements ends before.
  void claimed.finally(reached.resolve).catch(() => undefined);
  return {
    reached: reached.promise,
    end: () => {
      mayContinue.resolve();
      return claimed;
    },
  };
}

/** Starts work, and resolves when it has ended or waits for a lock. */
async function startBeside<T>(work: () => Promise<T>): Promise<{ readonly result: Promise<T> }> {
  let hasEnded = false;
  const result = work();
  await waitFor('the end of the work, or its wait for a lock', async () => {
    void result.catch(() => undefined).finally(() => (hasEnded = true));
    if (hasEnded) return true;
    const blocked =
      "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    return (await database.query(blocked)).length > 0;
  });
  return { result };
}

/** Places in a claim that postpones nothing: after the gate, locks, marks, rows. */
const places = [1, 2, 3, 4];

describe.each(places)('after statement %i of a claim', (place) => {
  test('two claims of the same rows take each of them once', async () => {
    const ids = [await insert()];
    for (let n = 2; n <= 4; n++) ids.push(await insert({ reference: `SO-${n}` }));

    const first = claimInSteps(place);
    await first.reached;
    const second = await startBeside(claim);
    const claimed = [...readIds(await first.end()), ...readIds(await second.result)];

    expect(claimed.toSorted((a, b) => a - b)).toEqual(ids);
    expect(readIds(await claim())).toEqual([]);
  });

  test('a smaller id that is committed late is not sent beside a later row of its lane', async () => {
    const { late, later, commit } = await insertLate();

    const first = claimInSteps(place);
    await first.reached;
    await commit();
    const second = await startBeside(claim);
    const claimed = [...readIds(await first.end()), ...readIds(await second.result)];

    expect(claimed).toHaveLength(1);
    expect(readIds(await claim())).toEqual([]);
    await settle();
    expect([...claimed, ...readIds(await claim())].toSorted((a, b) => a - b)).toEqual([
      late,
      later,
    ]);
  });

  test.each([
    ['unknown', "next_attempt_at = now() + interval '1 minute', written_at = now()"],
    ['dead', "finished_at = now(), last_error = 'x'"],
  ])('a late row that was sent meanwhile and is %s holds its lane', async (status, columns) => {
    const { late, later, commit } = await insertLate();

    const first = claimInSteps(place);
    await first.reached;
    await commit();
    const second = await startBeside(async () => {
      const claimed = readIds(await claim());
      await database.query(
        `update fulfilment.outbox
         set status = $1, lease_until = null, sent_at = null, ${columns} where id = any($2)`,
        [status, claimed],
      );
      return claimed;
    });
    const claimed = [...readIds(await first.end()), ...(await second.result)];

    expect(claimed).toHaveLength(1);
    // The later row is sent first only if the late one could not be seen.
    const [other] = [late, later].filter((id) => !claimed.includes(id));
    expect(readIds(await claim())).toEqual([]);
    expect((await readStatuses())[other ?? 0]).toBe('pending');
  });

  test('another account is accepted only after the claim, and takes its rows away', async () => {
    const sent = await insert({ kind: 'order.release' });
    const unsent = await insert({ reference: 'SO-2' });

    const first = claimInSteps(place, { stamped: ['order.release'] });
    await first.reached;
    const accepting = await startBeside(() =>
      acceptIdentity(database.db, { ...account, identity: 'b' }, false, 'test'),
    );
    const claimed = readIds(await first.end());
    expect(await accepting.result).toMatchObject({ accepted: true });

    expect(claimed).toEqual([sent, unsent]);
    expect(await readStatuses()).toEqual({ [sent]: 'dead', [unsent]: 'pending' });
    expect(readIds(await claim())).toEqual([]);
    expect(readIds(await claim(database.db, { identity: 'b' }))).toEqual([unsent]);
  });

  test('a payload is replaced before it is sent, or not at all', async () => {
    const id = await insert();
    const first = claimInSteps(place);
    await first.reached;
    const replacing = await startBeside(() =>
      database
        .query('select fulfilment.outbox_replace($1, $2)', [id, '{"new": true}'])
        .then(() => true)
        .catch((error: Error) => error.message),
    );
    const { rows } = await first.end();
    const replaced = await replacing.result;

    if (replaced !== true)
      expect(replaced).toMatch(/is sending: only pending and dead rows can be replaced/);
    const [row] = [...rows, ...(await claim()).rows];
    expect(row).toMatchObject({ id, payload: replaced === true ? '{"new": true}' : '{}' });
    expect(readIds(await claim())).toEqual([]);
  });

  test('a row is cancelled or sent, not both', async () => {
    const id = await insert();
    const first = claimInSteps(place);
    await first.reached;
    const cancelling = await startBeside(() =>
      database
        .query('select fulfilment.outbox_cancel($1)', [id])
        .then(() => 'cancelled')
        .catch(() => 'sending'),
    );
    const claimed = readIds(await first.end());
    const status = await cancelling.result;

    expect(claimed).toEqual(status === 'cancelled' ? [] : [id]);
    expect(await readStatuses()).toEqual({ [id]: status });
  });
});

test.each([1, 2, 3, 4, 5])(
  'a row behind one that is cancelled after statement %i of a claim is sent',
  async (place) => {
    const head = await insert({
      columns: ', next_attempt_at',
      values: ", now() + interval '1 day'",
    });
    const behind = await insert();
    const other = await insert({ reference: 'SO-2' });

    const first = claimInSteps(place);
    await first.reached;
    await database.query('select fulfilment.outbox_cancel($1)', [head]);
    const lane = { client, family: 'order', reference: 'SO-1' };
    const { locked } = await releaseLanes(database.db, [lane]);
    const claimed = readIds(await first.end());
    // A worker releases a lane again whose first row was locked.
    await releaseLanes(database.db, locked);
    claimed.push(...readIds(await claim()));

    expect(claimed.toSorted((a, b) => a - b)).toEqual([behind, other]);
  },
);

test('a row is not sent behind a late one that was sent and lost while it was marked', async () => {
  await database.query(`
    create function public.wait() returns trigger language plpgsql as $$ begin
      perform pg_advisory_xact_lock(1);
      return new; end $$;
    create trigger wait before update on fulfilment.outbox for each row
      when (new.status = 'sending' and new.kind = 'order.cancel') execute function public.wait()`);
  const { late, later, commit } = await insertLate();
  const guard = await database.db.startTransaction().execute();
  await sql`select pg_advisory_xact_lock(1)`.execute(guard);

  const first = claim();
  await database.waitForBlocked('the claim to mark the later row');
  await commit();
  expect(readIds(await claim())).toEqual([late]);
  await database.query(
    `update fulfilment.outbox
     set status = 'unknown', lease_until = null, written_at = now() where id = $1`,
    [late],
  );
  await guard.commit().execute();

  expect(readIds(await first)).toEqual([]);
  expect(await readStatuses()).toEqual({ [late]: 'unknown', [later]: 'pending' });
});

/** Inserts two rows of a lane. The one with the smaller id is not committed yet. */
async function insertLate() {
  const erp = await database.db.startTransaction().execute();
  const { id: late } = await erp
    .insertInto('fulfilment.outbox')
    .values({ kind: 'order.update', reference: 'SO-1' })
    .returning('id')
    .executeTakeFirstOrThrow();
  const later = await insert();
  return { late, later, commit: () => erp.commit().execute() };
}
